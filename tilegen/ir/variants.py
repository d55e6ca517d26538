"""The plans of one kernel for different sizes and alignments: a launch takes the first whose guard holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from tilegen.ir.plan import Plan
from tilegen.ir.uniform import Sym, Uniform, condition_text, evaluate, op, symbols

_ALIGNMENT = "alignment(", ")"  # around a tensor's name: no name that a spec could give


def alignment(tensor: str) -> Sym:
    """In a guard: the largest power of two, 16 at most, that a tensor's start and its rows' strides are multiples of in
    bytes; 8 at most where one of the strides is negative."""
    return Sym(f"{_ALIGNMENT[0]}{tensor}{_ALIGNMENT[1]}")


def asked_alignments(plans: Sequence[Plan]) -> dict[str, str]:
    """The tensors of which guards ask the alignment, by the name of it that `chosen` wants a value for."""
    names = sorted({name for plan in plans if plan.guard is not None for name in symbols(plan.guard)})
    before, after = _ALIGNMENT
    return {name: name.removeprefix(before).removesuffix(after) for name in names if name.startswith(before)}


def chosen(plans: Sequence[Plan], values: Mapping[str, int]) -> int | None:
    """Which of the plans a launch takes, or None if none is for it. `values`: dense sizes, integer scalars,
    and the alignments that guards ask for."""
    return next((n for n, plan in enumerate(plans) if plan.guard is None or evaluate(plan.guard, values)), None)


def when(plans: Sequence[Plan], number: int) -> str:
    """When a launch takes this one of them: `if Sq <= 1024`, `else if G > 4`, `otherwise`."""
    guard = plans[number].guard
    if guard is None:
        return "otherwise" if number else "always"
    return f"{'else ' if number else ''}if {condition_text(guard)}"


def limits(plans: Sequence[Plan]) -> str | None:
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
