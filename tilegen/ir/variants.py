"""The plans of one kernel for different sizes and alignments: a launch takes the first whose guard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Protocol

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.plan import Plan, TensorShape
from tilegen.ir.tile import TileProgram
from tilegen.ir.uniform import Sym, Uniform, condition_text, evaluate, op, symbols

_ALIGNMENT = "alignment(", ")"  # around a tensor's name: no name that a spec could give


class Guarded(Protocol):
    """A plan, or what is to become one: for the launches for which its guard holds, or for all of them."""

    @property
    def guard(self) -> Uniform | None: ...


def alignment(tensor: str) -> Sym:
    """In a guard: the largest power of two, 16 at most, that a tensor's start and its rows' strides are multiples of in
    bytes; 8 at most where one of the strides is negative."""
    return Sym(f"{_ALIGNMENT[0]}{tensor}{_ALIGNMENT[1]}")


def asked(plans: Sequence[Guarded]) -> tuple[str, ...]:
    """The names that guards ask `chosen` for a value of."""
    return tuple(sorted({name for plan in plans if plan.guard is not None for name in symbols(plan.guard)}))


def asked_alignments(plans: Sequence[Guarded]) -> dict[str, str]:
    """The tensors of which guards ask the alignment, by the name of it that `chosen` wants a value for."""
    before, after = _ALIGNMENT
    return {name: name.removeprefix(before).removesuffix(after) for name in asked(plans) if name.startswith(before)}


def dense_alignments(
    tensors: Mapping[str, str], shapes: Mapping[str, TensorShape], numbers: Mapping[str, float]
) -> dict[str, int]:
    """The alignments, as `asked_alignments` names them, of arrays without gaps that begin at multiples of 16 bytes, as
    all frameworks make them. numbers: sizes and scalars; extents that they do not give narrow nothing."""
    return {name: _dense_alignment(shapes[tensor], numbers) for name, tensor in tensors.items()}


def _dense_alignment(tensor: TensorShape, numbers: Mapping[str, float]) -> int:
    known = {name: int(numbers[name]) for d in tensor.dims for name in symbols(d) if name in numbers}
    extents = [evaluate(d, known) if symbols(d) <= known.keys() else 16 for d in tensor.dims]
    stride, bits = tensor.dtype.bytes, 0
    for extent, inner in zip(reversed(extents[:-1]), reversed(extents[1:]), strict=True):
        stride *= inner
        bits |= stride if extent > 1 else 0
    return min(bits & -bits, 16) if bits else 16


def taken(plans: Sequence[Guarded], values: Mapping[str, int], program: TileProgram, target: str) -> int:
    """What `chosen` says of all plans of a program. Fails with NO_VARIANT where none of them is for a launch."""
    number = chosen(plans, values)
    if number is None:
        got = ", ".join(f"{name} = {values[name]}" for name in asked(plans))
        span = program.variants(target)[-1].schedules[-1].span
        fail(Code.NO_VARIANT, span, got=got, wanted=limits(plans) or "", kernel=program.name)
    return number


def chosen(plans: Sequence[Guarded], values: Mapping[str, int]) -> int | None:
    """Which of the plans a launch takes, or None if none is for it. `values`: dense sizes, integer scalars,
    and the alignments that guards ask for."""
    return next((n for n, plan in enumerate(plans) if plan.guard is None or evaluate(plan.guard, values)), None)


def when(plans: Sequence[Guarded], number: int) -> str:
    """When a launch takes this one of them: `if Sq <= 1024`, `else if G > 4`, `otherwise`."""
    guard = plans[number].guard
    if guard is None:
        return "otherwise" if number else "always"
    return f"{'else ' if number else ''}if {condition_text(guard)}"


def heading(plans: Sequence[Guarded], number: int) -> str:
    """What tells it from the others: `variant 1 of 2, if Sq <= 1024`. Of one alone: ""."""
    if len(plans) == 1 and plans[0].guard is None:
        return ""
    return f"variant {number + 1} of {len(plans)}, {when(plans, number)}"


def limits(plans: Sequence[Guarded]) -> str | None:
    """The condition that a launch must meet for any of the plans to be for it; None where it need meet none."""
    guards = [plan.guard for plan in plans]
    held = [guard for guard in guards if guard is not None]
    if len(held) < len(guards):
        return None
    either: Uniform = reduce(lambda a, b: op("or", a, b), held)
    return condition_text(either)


def file_stem(plans: Sequence[Plan], number: int) -> str:
    """The name of the files that hold one of them, without an ending: `gemm`, or `gemm.1`, `gemm.2`."""
    name = plans[number].name
    return name if len(plans) == 1 else f"{name}.{number + 1}"
