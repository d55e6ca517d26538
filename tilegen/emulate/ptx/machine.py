"""What a launch has: register file, memories with their windows, symbols, the program."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.emulate.memory import GlobalMemory, MemoryFaultError
from tilegen.emulate.ptx import spaces
from tilegen.emulate.ptx.faults import FaultError, execution_fault
from tilegen.emulate.ptx.module import (
    Address,
    Function,
    Immediate,
    Module,
    Not,
    Operand,
    Register,
    Special,
    Symbol,
    Variable,
)
from tilegen.emulate.ptx.program import Program
from tilegen.emulate.ptx.specials import special_rows
from tilegen.emulate.ptx.types import UNSIGNED, Array, PtxType
from tilegen.emulate.ptx.unit import WARPGROUP
from tilegen.emulate.ptx.watch.context import Context
from tilegen.emulate.ptx.watch.watch import Watch

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cta import Cta

#: Hopper keeps the first KiB of the shared window for itself.
SHARED_BASE = 1024
SHARED_LIMIT = 232448
_POISON = 0xA5


class Machine:
    """State of one launch; CTAs, or clusters of them, use it one after another."""

    def __init__(
        self,
        module: Module,
        function: Function,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[bytes],
        memory: GlobalMemory,
        shared_bytes: int,
        step_limit: int,
        context: Context | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.module, self.function = module, function
        self.grid, self.block = grid, block
        self.cta_threads = math.prod(block)
        self.ctas = math.prod(function.cluster)  # that run together: their threads stand one CTA's behind another's
        self.threads_apart = self.cta_threads if self.ctas == 1 else _aligned(self.cta_threads, WARPGROUP)
        self.threads = self.threads_apart * self.ctas
        ranks = np.arange(self.threads, dtype=np.uint64) // np.uint64(self.threads_apart)
        self.rank_bits: Array = ranks << np.uint64(spaces.RANK_SHIFT)  # of addresses of a thread's own shared memory
        self.offset_bits = (1 << (spaces.RANK_SHIFT if self.ctas > 1 else 64)) - 1
        self.memory = memory
        self.step_limit = step_limit
        self.steps = 0
        self.tma_loads: Counter[str] = Counter()
        self.tma_stores: Counter[str] = Counter()
        self.return_copies: dict[int, list[tuple[int, int, int]]] = {}
        self.dynamic_bytes = shared_bytes
        self._layout(shared_bytes)
        self._registers()
        self.specials = special_rows(self)
        self._parameters(args)
        self.program = Program(module)
        self.program.bind(self)
        self.entry_pc = self.program.base[function.name]
        self.entry_registers = self._entry_registers()
        self.spaces = spaces.Spaces(self)
        self.cta: Cta
        self.rng = rng
        self.watch = None if context is None else Watch(self, context)

    def _layout(self, dynamic: int) -> None:
        """Addresses of all variables. Static shared variables come first, then the dynamic array, aligned."""
        self.symbols: dict[str, tuple[str, int]] = {}
        at, frame, local = SHARED_BASE, 0, 0
        self.shared_base = SHARED_BASE
        declared = list(self.module.variables.values())
        for function in self.module.functions.values():
            declared += function.locals
            if not function.entry:
                for variable in (*function.params, *function.results):
                    frame = _aligned(frame, variable.align)
                    self.symbols[variable.name] = ("frame", frame)
                    frame += variable.size
        dynamic_align, names = 16, []
        others = [f for f in self.module.functions.values() if f.entry and f.name != self.function.name]
        elsewhere = {v.name for f in others for v in f.locals if v.space == "shared" and not v.extern}
        for variable in declared:
            if variable.space == "shared" and variable.extern and not variable.size:
                dynamic_align = max(dynamic_align, variable.align)
                names.append(variable.name)
            elif variable.name in elsewhere:
                self.symbols[variable.name] = ("shared", SHARED_BASE)  # no instruction of this launch gets there
            elif variable.space == "shared":
                at = _aligned(at, variable.align)
                self.symbols[variable.name] = ("shared", at)
                at += variable.size
            elif variable.space == "local":
                local = _aligned(local, variable.align)
                self.symbols[variable.name] = ("local", local)
                local += variable.size
            elif variable.space == "param":
                frame = _aligned(frame, variable.align)
                self.symbols[variable.name] = ("frame", frame)
                frame += variable.size
            else:
                self.symbols[variable.name] = ("global", self._place(variable))
        at = _aligned(at, dynamic_align) if names else at
        for name in names:
            self.symbols[name] = ("shared", at)
        self.dynamic_base = at
        self.shared_end = at + dynamic
        if self.shared_end - SHARED_BASE > SHARED_LIMIT:
            fail(
                Code.EMULATED_LAUNCH,
                None,
                what=f"shared memory of {self.shared_end - SHARED_BASE} bytes is over the limit of {SHARED_LIMIT}",
            )
        self.shared = np.zeros(((self.ctas - 1) << spaces.RANK_SHIFT) + _aligned(self.shared_end, 16), np.uint8)
        self.frame = np.zeros((self.threads, _aligned(max(frame, 16), 16)), np.uint8)
        self.local = np.zeros((self.threads, _aligned(max(local, 16), 16)), np.uint8)
        self._relocate()

    def _place(self, variable: Variable) -> int:
        init = variable.init or bytes(max(variable.size, 1))
        return self.memory.alloc(np.frombuffer(bytearray(init), np.uint8))

    def _relocate(self) -> None:
        for variable in self.module.variables.values():
            for offset, symbol in variable.relocations:
                address = self.address_of(Symbol(variable.name))
                target = self.address_of(symbol)
                array = self.memory.array(address).view(np.uint8)
                array[offset : offset + 8] = np.frombuffer(target.to_bytes(8, "little"), np.uint8)

    def _registers(self) -> None:
        used = self.module.registers
        self.registers: dict[int, Array] = {
            width: np.empty((used.get(width, 0) + 1, self.threads), UNSIGNED[width]) for width in (16, 32, 64)
        }
        self.predicates: Array = np.zeros((used.get(1, 0) + 1, self.threads), np.bool_)
        self.carry: Array = np.zeros(self.threads, np.uint64)

    def _parameters(self, args: Sequence[bytes]) -> None:
        params = self.function.params
        if len(args) != len(params):
            fail(
                Code.EMULATED_LAUNCH,
                None,
                what=f"{self.function.name} has {len(params)} parameters, {len(args)} were given",
            )
        offset = 0
        self.param_names: list[tuple[int, int, str]] = []
        image = bytearray()
        for number, (param, value) in enumerate(zip(params, args, strict=True)):
            if len(value) != param.size:
                fail(
                    Code.EMULATED_LAUNCH,
                    None,
                    what=f"parameter {number} of {self.function.name} has {param.size} bytes, {len(value)} were given",
                )
            offset = _aligned(len(image), param.align)
            image += bytes(offset - len(image)) + value
            self.symbols[param.name] = ("param", offset)
            self.param_names.append((offset, param.size, param.name))
        image += bytes(_aligned(len(image), 16) - len(image) + 16)
        self.params = np.frombuffer(bytes(image), np.uint8)

    def _entry_registers(self) -> int:
        """Registers a thread at entry where `setmaxnreg` has an effect, else 0."""
        f = self.function
        if f.max_registers:
            return f.max_registers // 8 * 8
        if f.max_threads and f.min_blocks == 1:
            return min(256, 65536 // f.max_threads // 8 * 8)
        return 0

    def start(self, indices: Sequence[tuple[int, int, int]]) -> None:
        """Fresh registers and memories for the CTAs that run together, by rank; all poisoned: shared memory holds NaN
        patterns."""
        for array in self.registers.values():
            array.view(np.uint8).fill(_POISON)
        self.predicates.fill(False)
        self.local.fill(0xFF)
        for rank, index in enumerate(indices):
            first = rank << spaces.RANK_SHIFT
            self.shared[first : first + _aligned(self.shared_end, 16)] = 0xFF
            own = slice(rank * self.threads_apart, (rank + 1) * self.threads_apart)
            for axis, value, side in zip("xyz", index, self.function.cluster, strict=True):
                self.specials[f"%ctaid.{axis}"][own] = value
                self.specials[f"%clusterid.{axis}"][own] = value // side
                self.specials[f"%cluster_ctaid.{axis}"][own] = value % side

    # ---- operands ----

    def src(self, operand: Operand, ptx_type: PtxType) -> Array:
        """The operand as a row over all threads, of the type's numpy dtype."""
        if isinstance(operand, Register):
            return self._view(operand, ptx_type)
        if isinstance(operand, Immediate):
            return np.broadcast_to(immediate(operand, ptx_type), (self.threads,))
        if isinstance(operand, Symbol):
            value = self.address_of(operand)
            if self.symbols[operand.name][0] == "shared" and self.ctas > 1:
                return (self.rank_bits + np.uint64(value)).astype(ptx_type.dtype)
            return np.broadcast_to(np.array([value], np.uint64).astype(ptx_type.dtype), (self.threads,))
        if isinstance(operand, Special):
            # A view, because the rows of %ctaid are refilled for each CTA.
            return self.specials[operand.name].view(ptx_type.dtype)[:: 64 // ptx_type.bits]
        if isinstance(operand, Address) and not operand.coordinates:
            return self.src(operand.base, ptx_type)
        raise FaultError(f"operand {operand} cannot be read as .{ptx_type.name}")

    def dst(self, operand: Operand, ptx_type: PtxType) -> Array:
        """The destination register as a row; a scratch row for `_`."""
        if isinstance(operand, Register):
            if operand.width not in (ptx_type.bits, 16 if ptx_type.bits == 8 else 0):
                raise FaultError(f"register {operand.name} of {operand.width} bits cannot take a .{ptx_type.name}")
            return self._view(operand, ptx_type)
        return np.empty(self.threads, ptx_type.dtype)

    def _view(self, register: Register, ptx_type: PtxType) -> Array:
        if (register.width == 1) != (ptx_type.kind == "pred"):
            raise FaultError(f"register {register.name} of {register.width} bits cannot be read as .{ptx_type.name}")
        if register.width == 1:
            predicate: Array = self.predicates[register.index]
            return predicate
        row: Array = self.registers[register.width][register.index]
        if register.width == ptx_type.bits:
            return row.view(ptx_type.dtype)
        if register.width > ptx_type.bits:
            # A narrower view of a wider register: its low bytes.
            low: Array = row.view(ptx_type.dtype)[:: register.width // ptx_type.bits]
            return low
        raise FaultError(f"register {register.name} of {register.width} bits cannot be read as .{ptx_type.name}")

    def predicate(self, operand: Operand) -> tuple[Array, bool]:
        """Row of a predicate operand, and whether it is to be negated."""
        if isinstance(operand, Not):
            return self.predicates[operand.operand.index], True
        if isinstance(operand, Register) and operand.width == 1:
            return self.predicates[operand.index], False
        if isinstance(operand, Immediate):
            return np.broadcast_to(np.array([bool(operand.value)]), (self.threads,)), False
        raise FaultError(f"operand {operand} is no predicate")

    def address_of(self, symbol: Symbol) -> int:
        """Value of a variable's address: its offset in shared, local and parameter space, the address elsewhere."""
        return self.symbols[symbol.name][1] + symbol.offset

    def copy_frame(self, threads: Array, copies: Sequence[tuple[int, int, int]]) -> None:
        """Copy parameters between call frames: (from, to, bytes) for each of `threads`."""
        for source, target, size in copies:
            self.frame[threads, target : target + size] = self.frame[threads, source : source + size]

    def ticks(self) -> int:
        """The clock."""
        return self.steps

    # ---- errors ----

    def where(self, thread: int) -> str:
        """Thread and CTA in words."""
        cta = self.cta.cluster.ctas[thread // self.threads_apart]
        x, y, z = cta.index
        t = thread - cta.first
        bx, by, _ = self.block
        return (
            f"thread ({t % bx}, {t // bx % by}, {t // (bx * by)}), warp {t // 32} lane {t % 32}, of CTA ({x}, {y}, {z})"
        )

    def fault(self, pc: int, fault: FaultError | MemoryFaultError, first: int = 0) -> NoReturn:
        """Raise the error for a fault of the instruction at `pc`; of thread `first` where none is at fault alone."""
        ins = self.program.code[pc]
        where = self.where(first if fault.thread is None else fault.thread)
        if isinstance(fault, MemoryFaultError):
            fault = FaultError(fault.what)
        place = ins.place
        if self.watch is not None:
            place = replace(place, source=self.watch.context.statement(place.source))
        execution_fault(fault.what, ins.name, place, where, fault.code, fault.notes)

    def too_many_steps(self, cta: Cta) -> NoReturn:
        """Raise the error for a program that does not come to an end."""
        group = next(g for u in cta.units for g in u.groups if g.wait is None)
        ins = self.program.code[group.pc]
        fail(
            Code.EMULATED_STEP_LIMIT,
            ins.place.source,
            limit=self.step_limit,
            instruction=ins.name,
            line=ins.place.line,
            cta=cta.index,
        )


def immediate(literal: Immediate, ptx_type: PtxType) -> Array:
    """A literal as a one-element array of the type."""
    value = literal.value
    if literal.width:
        bits = int(value)
        if ptx_type.kind == "f" and ptx_type.bits != literal.width:
            held = np.array([bits], UNSIGNED[literal.width]).view(f"f{literal.width // 8}")
            return held.astype(ptx_type.dtype)
        return np.array([bits & (1 << ptx_type.bits) - 1], UNSIGNED[ptx_type.bits]).view(ptx_type.dtype)
    if ptx_type.kind == "pred":
        return np.array([bool(value)])
    if ptx_type.kind == "f" and ptx_type.name not in ("bf16", "tf32"):
        return np.array([value], ptx_type.dtype)
    if ptx_type.kind == "f" and isinstance(value, float):
        return np.array([value], np.float32).view(np.uint32).astype(ptx_type.dtype)
    return np.array([int(value) & (1 << ptx_type.bits) - 1], UNSIGNED[ptx_type.bits]).view(ptx_type.dtype)


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align
