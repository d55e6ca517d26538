"""An MLS plan as a program: its arguments, its registers, and each operation in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tilegen.ir.dtypes import DType
from tilegen.ir.mls_plan import WAVES, Aim, Barrier, Fetch, MlsPlan, ReadFrom, ReadItem, Restore, WaitLoads, WaveProduct
from tilegen.ir.plan import (
    For,
    If,
    IfSpoiled,
    Init,
    Let,
    LetFloat,
    LoadVector,
    Map,
    Mask,
    QuadReduce,
    ReadShared,
    Relayout,
    RowFold,
    StoreRows,
    StoreVector,
    Sweep,
)
from tilegen.passes.synchronise.work import ITEM
from tilegen.targets.mls import isa
from tilegen.targets.mls.lower.fragments import Fragments
from tilegen.targets.mls.lower.lanes import LANE, Lanes
from tilegen.targets.mls.lower.movement import WAVE, Moved, Movement
from tilegen.targets.mls.lower.products import Products
from tilegen.targets.mls.lower.scalars import Scalars
from tilegen.targets.mls.lower.tensors import Tensors
from tilegen.targets.mls.lower.writer import Writer, high, low
from tilegen.targets.mls.program import SGPR, Argument, Int, Operand, Program, Ring

ITEM_REGISTER = SGPR(isa.GROUP[0])
GROUP_NAME = "warpgroup"
ITEMS = "work.items"  # the argument that lists the items of sequences


def arguments(plan: MlsPlan) -> tuple[Argument, ...]:
    """The kernel's arguments: addresses, then strides in elements, then sizes and scalars."""
    found: list[Argument] = []
    at = 0

    def add(name: str, kind: str, **more: Any) -> None:
        nonlocal at
        argument = Argument(at, name, kind, **more)
        found.append(argument)
        at += argument.bytes

    for t in plan.tensors:
        add(t.name, "output" if t.output else "input", dtype=t.dtype, rank=len(t.dims))
    for t in plan.tensors:
        for dim in range(len(t.dims)):
            add(stride_name(t.name, dim), "i64")
    if plan.table is not None:
        add(ITEMS, "input", dtype=DType.I32, rank=2)
    for name, is_float in plan.scalars:
        add(name, "f32" if is_float else "i32")
    return tuple(found)


def stride_name(tensor: str, dim: int) -> str:
    return f"{tensor}.stride{dim}"


@dataclass(frozen=True)
class Lowered:
    """A program, and which of its lines move which tile."""

    program: Program
    moved: tuple[Moved, ...]


def lower(plan: MlsPlan, defects: frozenset[str] = frozenset()) -> Lowered:
    """The program. Raises TilegenError where registers do not suffice. defects: what it is to do wrong (`movement`)."""
    given = arguments(plan)
    kernel = _Kernel(plan, {a.name: a for a in given}, defects)
    kernel.run()
    w = kernel.w
    program = Program(
        plan.name,
        plan.source.name,
        plan.waves,
        plan.lds_bytes,
        w.scalars.top,
        w.vectors.top,
        given,
        tuple(Ring(r.tile, r.dtype, r.offset, r.depth, r.bytes) for r in plan.rings),
        tuple(w.lines),
    )
    return Lowered(program, tuple(kernel.movement.moved))


class _Kernel:
    def __init__(self, plan: MlsPlan, given: dict[str, Argument], defects: frozenset[str]) -> None:
        self.plan = plan
        self.w = w = Writer(plan.rings[0].span if plan.rings else plan.fragments[0].span)
        self.s = Scalars(w, given)
        self.lanes = Lanes(w, self.s, plan.fragments)
        self.movement = Movement(w, self.s, plan, defects)
        self.products = Products(w, self.lanes, self.movement, plan)
        self.fragments = Fragments(w, self.lanes)
        self.tensors = Tensors(w, self.s, self.lanes, plan)
        self.defects = defects
        self.line = 0
        self.handlers: dict[type, Callable[[Any], None]] = {
            Let: self._let,
            LetFloat: self._float,
            For: self._for,
            If: self._if,
            ReadItem: self._item,
            Aim: self.movement.aim,
            Fetch: self.movement.fetch,
            ReadFrom: self.movement.read_from,
            WaitLoads: lambda o: w.op("s_waitcnt", vmcnt=0, lgkmcnt=0, comment="this wave's loads and zeros"),
            Barrier: lambda o: w.op("s_barrier"),
            WaveProduct: self.products.product,
            IfSpoiled: self._if_spoiled,
            Restore: self.tensors.restore,
            ReadShared: self.products.read_shared,
            Init: self.fragments.init,
            Map: self.fragments.map,
            Mask: self.fragments.mask,
            RowFold: self.fragments.row_fold,
            QuadReduce: self.fragments.quad_reduce,
            Relayout: self.fragments.relayout,
            LoadVector: self.tensors.load_vector,
            StoreRows: self.tensors.store_rows,
            StoreVector: self.tensors.store_vector,
            Sweep: self._sweep,
        }

    def run(self) -> None:
        w = self.w
        w.remark(self.plan.title)
        for note in (*self.plan.notes, *(f"defect {d}: put in on purpose" for d in sorted(self.defects))):
            w.remark(note)
        self._begin()
        self._body(self.plan.body)
        w.op("s_endpgm")

    def _begin(self) -> None:
        w, lanes = self.w, self.lanes
        self.s.names[ITEM] = ITEM_REGISTER
        loaded: list[tuple[str, SGPR]] = []
        for name, is_float in self.plan.scalars:
            register = w.scalar()
            self.s.load(name, register)
            if is_float:
                loaded.append((name, register))
            else:
                self.s.names[name] = register
        w.wait_lds()
        for name, register in loaded:
            lanes.floats[name] = w.vector()
            w.op("v_mov_b32", lanes.floats[name], register, comment=name)
            w.release(register)
        group: Operand = Int(0)
        if self.plan.waves > WAVES:
            group = w.scalar()
            w.op("s_lshr_b32", group, WAVE, WAVES.bit_length() - 1, comment="group of four waves")
        self.s.names[GROUP_NAME] = group
        self.products.begin()
        w.op("v_and_b32", lanes.row, 15, LANE)
        with w.scratch(1) as first:
            w.op("s_and_b32", first, WAVE, WAVES - 1)
            w.op("s_lshl_b32", first, first, 4)
            w.op("v_add_u32", lanes.row, lanes.row, first, comment="the lane's row of its group's 64")
        w.op("v_lshrrev_b32", lanes.first, 4, LANE)
        w.op("v_lshlrev_b32", lanes.first, 2, lanes.first, comment="the lane's first column")

    # ---- operations ----

    def _body(self, body: Iterable[Any]) -> None:
        """Operations in order; what they bind ends with them."""
        before = dict(self.s.names)
        for o in body:
            self._spelt(o)
            self.handlers[type(o)](o)
        bound = [r for name, r in self.s.names.items() if before.get(name) is not r]
        self.s.names = before
        self.s.release_unnamed(*dict.fromkeys(bound))

    def _let(self, o: Let) -> None:
        self.s.bind(o.name, o.value)

    def _item(self, o: ReadItem) -> None:
        """From the item's row in the list, a word each."""
        w, s = self.w, self.s
        with w.scratch(2) as row, w.scratch(2) as offset:
            s.load(ITEMS, row)
            w.op("s_mul_i32", low(offset), ITEM_REGISTER, 4 * len(o.fields))
            w.op("s_mul_hi_u32", high(offset), ITEM_REGISTER, 4 * len(o.fields))
            w.wait_lds()
            w.op("s_add_u32", low(row), low(row), low(offset))
            w.op("s_addc_u32", high(row), high(row), high(offset))
            for n, name in enumerate(o.fields):
                s.names[name] = register = w.scalar()
                w.op("s_load_dword", register, row, 4 * n, comment=name)
            w.wait_lds()

    def _spelt(self, o: Any) -> None:
        """Name the line of the spec that what follows comes from, where it changes."""
        self.w.span = o.span
        if o.span.line != self.line and not isinstance(o, Let | For | If):
            self.line = o.span.line
            self.w.remark(f"{self.plan.source.name}:{self.line}: {self.plan.source.line(self.line).strip()}")

    def _float(self, o: LetFloat) -> None:
        if o.load is not None:
            self.tensors.load_float(o)
        else:
            assert o.value is not None
            self.lanes.uniform(o.name, o.value)

    def _for(self, o: For) -> None:
        w, s = self.w, self.s
        head, end = w.label("loop"), w.label("end")
        start, stop = s.value(o.start), s.value(o.stop)
        w.remark(f"for {o.var}: {o.label}" if o.label else f"for {o.var}")
        counter = w.scalar()
        w.op("s_mov_b32", counter, start, comment=o.var)
        before = s.names.get(o.var)
        s.names[o.var] = counter
        s.release_unnamed(start)
        w.place(head)
        w.op("s_cmp_lt_i32", counter, stop)
        w.op("s_cbranch_scc0", end)
        self._body(o.body)
        w.op("s_add_i32", counter, counter, 1)
        w.op("s_branch", head)
        w.place(end)
        if before is None:
            del s.names[o.var]
        else:
            s.names[o.var] = before
        w.release(counter)
        s.release_unnamed(stop)
        self.line = 0

    def _if(self, o: If) -> None:
        over = self.w.label("over")
        self.s.branch_unless(o.condition, over)
        self._body(o.body)
        self.w.place(over)
        self.line = 0

    def _if_spoiled(self, o: IfSpoiled) -> None:
        """A wave's own branch: it has read all of a tile that its rows depend on."""
        over, flag = self.w.label("over"), self.products.flags[o.ring]
        self.w.op("s_or_b64", flag, flag, flag, comment=f"{o.ring}: was anything not finite?")
        self.w.op("s_cbranch_scc0", over)
        self._body(o.body)
        self.w.place(over)
        self.line = 0

    def _sweep(self, o: Sweep) -> None:
        names = {x.out for x in o.body if not hasattr(x, "buffer")}
        passing = [f.name for f in self.plan.fragments if not f.storage and f.name in names]
        with ExitStack() as stack:
            for name in passing:
                stack.enter_context(self.lanes.transient(name))
            for x in o.body:
                self.handlers[type(x)](x)
