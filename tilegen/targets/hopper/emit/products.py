"""Products on the tensor cores: one statement an op, one device function a product and an instruction form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import BufferOperand, FragmentOperand, Mma, MmaCommit, MmaFence, MmaWait, SlotOperand
from tilegen.ir.uniform import opposite
from tilegen.targets.hopper.emit.flight import fragments
from tilegen.targets.hopper.emit.scope import RoleScope

_SWIZZLE_CODE = {0: 0, 128: 1, 64: 2, 32: 3}  # bits 63:62 of a wgmma descriptor
_SUFFIX = {"": "", "always": "_first", "unless": "_first_or_more"}
_TYPES = {DType.BF16: "bf16", DType.F16: "f16"}


def mma(r: RoleScope, op: Mma) -> str:
    out = r.fragments[op.accumulator]
    local = r.functions.local("product_shared")
    overwrite, more, last = _overwrite(op), "", ""
    if not isinstance(op.zero, bool):
        more, last = local.give("more", "more"), f", {r.integer(opposite(op.zero))}"
    d = local.give("d", out.name)
    b = local.give("b", op.b.slot.ring)
    shared = {
        "d": d,
        "b": b,
        "b_low": local.give("b low", f"{b}_low"),
        "registers": op.n // 2,
        "overwrite": overwrite,
        "more": more,
        "b_leading": _leading(op.b),
        "clustered": r.plan.cluster > 1,
    }
    name = f"mma_{op.accumulator}"
    b_address = r.slot(op.b.slot, 0, op.b.warpgroup)
    if isinstance(op.a, FragmentOperand):
        a_registers = r.fragments[op.a.fragment].registers
        steps = [
            {"instruction": _from_registers(r, op, overwrite="" if n else overwrite), "b": offset >> 4}
            for n, offset in enumerate(op.b.offsets)
        ]
        a = local.give("a", op.a.fragment)
        call = r.functions.specific(name, "product_registers", a=a, a_registers=a_registers, steps=steps, **shared)
        return f"{call}({r.array(op.accumulator)}, {r.array(op.a.fragment)}, {b_address}{last});"
    steps = [
        {"instruction": _from_shared(r, op, op.a, overwrite="" if n else overwrite), "a": x >> 4, "b": y >> 4}
        for n, (x, y) in enumerate(zip(op.a.offsets, op.b.offsets, strict=True))
    ]
    if isinstance(op.a, SlotOperand):
        a, a_address = local.give("a", op.a.slot.ring), r.slot(op.a.slot, 0, op.a.warpgroup)
    else:
        a, a_address = local.give("a", op.a.buffer), r.part(op.a.buffer)
    call = r.functions.specific(
        name,
        "product_shared",
        a=a,
        a_low=local.give("a low", f"{a}_low"),
        a_leading=_leading(op.a),
        steps=steps,
        **shared,
    )
    return f"{call}({r.array(op.accumulator)}, {a_address}, {b_address}{last});"


def _overwrite(op: Mma) -> str:
    """When its first step overwrites: "" never, "always", or "unless" there is more to add to."""
    if isinstance(op.zero, bool):
        return "always" if op.zero else ""
    return "unless"


def _form(op: Mma, where: str, *, overwrite: str) -> str:
    return f"wgmma_m64n{op.n}k16_{where}" + _SUFFIX[overwrite]


def _from_shared(r: RoleScope, op: Mma, a: SlotOperand | BufferOperand, *, overwrite: str) -> str:
    return r.functions.specific(
        _form(op, "shared", overwrite=overwrite),
        "wgmma_shared",
        n=op.n,
        type=_TYPES[op.dtype],
        a_high=_high(a),
        b_high=_high(op.b),
        a_mn=a.major == "mn",
        b_mn=op.b.major == "mn",
        overwrite=overwrite,
    )


def _from_registers(r: RoleScope, op: Mma, *, overwrite: str) -> str:
    return r.functions.specific(
        _form(op, "registers", overwrite=overwrite),
        "wgmma_registers",
        n=op.n,
        type=_TYPES[op.dtype],
        b_high=_high(op.b),
        b_mn=op.b.major == "mn",
        overwrite=overwrite,
    )


def _leading(operand: SlotOperand | BufferOperand) -> str:
    """The leading-dimension offset where a descriptor's low word has it."""
    return f"0x{operand.leading >> 4 << 16:x}"


def _high(operand: SlotOperand | BufferOperand) -> str:
    """A descriptor's high word: stride offset and swizzle."""
    return f"0x{operand.stride >> 4 | _SWIZZLE_CODE[operand.swizzle] << 30:x}"


def mma_fence(r: RoleScope, op: MmaFence) -> str:
    """The fence holds what the products after it read, so that the compiler writes none of it behind the fence."""
    starts = r.flight.starts[id(op)]
    read = [p.accumulator for p in starts if p.zero is not True]
    read += [p.a.fragment for p in starts if isinstance(p.a, FragmentOperand)]
    return _ordered(r, "mma_fence", "mma_fence", read, op)


def mma_commit(r: RoleScope, op: MmaCommit) -> str:
    return f"{r.functions.helper('mma_commit')}();"


def mma_wait(r: RoleScope, op: MmaWait) -> str:
    """The wait holds the retired registers, so that the compiler moves no use of them across it."""
    retired = fragments([p for token in op.retires for p in r.products[token]])
    return _ordered(r, "await", "mma_wait", retired, op, pending=op.pending)


def _ordered(r: RoleScope, wish: str, macro: str, held: Iterable[str], op: MmaFence | MmaWait, **fields: object) -> str:
    """The call of a function that is an instruction with fragments as its operands, less those in flight after it."""
    busy = fragments([p for token in r.flight.leaves[id(op)] for p in r.products[token]])
    free = [f for f in dict.fromkeys(held) if f not in busy]
    local = r.functions.local(macro)
    shown = []
    ties = []
    for f in free:
        name, count = local.give(f, f), r.fragments[f].registers
        word, constraint = ("unsigned", "r") if r.fragments[f].layout == "a" else ("float", "f")
        shown.append(f"{word} (&{name})[{count}]")
        ties += [f'"+{constraint}"({name}[{v}])' for v in range(count)]
    name = r.functions.specific("_".join((wish, *free)), macro, parameters=shown, ties=ties, **fields)
    return f"{name}({', '.join(map(r.array, free))});"


STATEMENTS: dict[type, Callable[[RoleScope, Any], str]] = {
    Mma: mma,
    MmaFence: mma_fence,
    MmaCommit: mma_commit,
    MmaWait: mma_wait,
}
