"""Walks over a plan's operations, and what each of them touches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

from tilegen.ir import plan as ir
from tilegen.ir.plan_text import Path
from tilegen.ir.uniform import Int, Op, Sym, Uniform

_T = TypeVar("_T")
_State = TypeVar("_State")

# Rounds after which a loop's state counts as growing without bound. Real plans settle in two or three.
ROUNDS = 8


def operations(role: ir.RolePlan, index: int) -> Iterator[tuple[Path, ir.Operation]]:
    """Every operation of the role with its path, nested ones after the operation that holds them."""

    def walk(body: tuple[ir.Operation, ...], path: Path) -> Iterator[tuple[Path, ir.Operation]]:
        for position, operation in enumerate(body):
            here = (*path, position)
            yield here, operation
            yield from walk(body_of(operation), here)

    yield from walk(role.body, ("role", index))


def all_operations(plan: ir.Plan) -> Iterator[tuple[ir.RolePlan, Path, ir.Operation]]:
    """Every operation of every role."""
    for index, role in enumerate(plan.roles):
        for path, operation in operations(role, index):
            yield role, path, operation


_names: dict[type, tuple[str, ...]] = {}  # of the fields that hold nodes, by class
_PLAIN = ("str", "int", "float", "bool")  # types, as fields spell them, of what holds nothing
_UNIFORMS = (Int, Sym, Op)
_HOLDERS = (ir.Work, ir.For, ir.If, ir.IfVote, ir.IfSpoiled, ir.Sweep)


def body_of(operation: ir.Operation) -> tuple[ir.Operation, ...]:
    """The operations inside it, () for those that hold none."""
    return operation.body if isinstance(operation, _HOLDERS) else ()


def parts(operation: object, kind: type[_T]) -> list[_T]:
    """Every node of a class inside an operation (itself included), operations of a body left out."""
    found: list[_T] = []

    def walk(node: object) -> None:
        if isinstance(node, kind):
            found.append(node)
        for each in _inside(node):
            walk(each)

    walk(operation)
    return found


def uniforms(operation: ir.Operation) -> list[Uniform]:
    """The uniform expressions of an operation, outermost ones only."""
    found: list[Uniform] = []

    def walk(node: object) -> None:
        if isinstance(node, _UNIFORMS):
            found.append(node)
        else:
            for each in _inside(node):
                walk(each)

    walk(operation)
    return found


def nodes(top: object) -> Iterator[object]:
    """Everything inside an operation, a tuple of them or what holds them (itself included), in no order; words, numbers
    and spans left out."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _inside(node)
        waiting += getattr(node, "body", ())


def _inside(node: object) -> Iterable[object]:
    """What a node holds, but for words, numbers and bodies, which hold nothing more."""
    kind = type(node)
    if kind is tuple:
        return cast("tuple[object, ...]", node)
    names = _names.get(kind)
    if names is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        names = tuple(f.name for f in fields if f.name not in ("body", "span") and f.type not in _PLAIN)
        _names[kind] = names
    return [getattr(node, name) for name in names]


def storages(role: ir.RolePlan) -> dict[str, str]:
    """Whose registers hold each fragment; a fragment of a Sweep stands for itself."""
    return {f.name: f.storage or f.name for f in role.fragments}


def fragments_read(operation: ir.Operation) -> tuple[str, ...]:
    """Fragments whose values the operation uses. A product uses them from its issue until its token is retired."""
    match operation:
        case ir.Mma(_, accumulator, a, _, _, _, zero):
            operand = (a.fragment,) if isinstance(a, ir.FragmentOperand) else ()
            return operand if zero is True else (accumulator, *operand)
        case ir.WarpMma(accumulator, a, _, _, _, zero):
            operand = (a.fragment,) if isinstance(a, ir.FragmentOperand) else ()
            return operand if zero else (accumulator, *operand)
        case ir.Map() | ir.FmaOob():
            return tuple(e.fragment for e in parts(operation, ir.Element))
        case ir.RowFold(_, source) | ir.Relayout(_, source) | ir.CopyOperand(_, source) | ir.WriteShared(_, source):
            return (source,)
        case ir.Mask(fragment, alternatives):
            return (fragment, *(e.fragment for e in parts(alternatives, ir.Element)))
        case ir.QuadReduce(fragment) | ir.StoreRows(fragment) | ir.StoreVector(fragment):
            return (fragment,)
        case ir.IfVote(fragment):
            return (fragment,)
        case ir.Mend(fragment, live):
            return (fragment, live)
    return ()


def fragments_written(operation: ir.Operation) -> tuple[str, ...]:
    """Fragments that get new values."""
    match operation:
        case ir.Mma() | ir.WarpMma():
            return (operation.accumulator,)
        case ir.Map(out) | ir.FmaOob(out) | ir.RowFold(out) | ir.Relayout(out) | ir.CopyOperand(out):
            return (out,)
        case ir.ReadShared(out) | ir.LoadVector(out):
            return (out,)
        case ir.Init(fragment) | ir.Mask(fragment) | ir.QuadReduce(fragment) | ir.Mend(fragment):
            return (fragment,)
    return ()


class UnsettledError(Exception):
    """An analysis whose state keeps growing around the loop at `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"no fixed point at {path}")
        self.path = path


def forward(
    body: tuple[ir.Operation, ...],
    path: Path,
    state: _State,
    step: Callable[[ir.Operation, Path, _State], _State],
    join: Callable[[_State, _State], _State],
) -> _State:
    """The state after `body`, given the one before it.

    `step` is the effect of an operation that holds no others, and of a vote. `join` is what holds where two paths
    meet: after a branch that may not be taken, and around a loop that runs any number of times, none among them.
    Loops are walked until the state settles, so `step` sees operations more than once. Raises UnsettledError.
    """
    for position, operation in enumerate(body):
        here = (*path, position)
        if isinstance(operation, ir.If | ir.IfVote | ir.IfSpoiled):
            if isinstance(operation, ir.IfVote):
                state = step(operation, here, state)
            state = join(state, forward(operation.body, here, state, step, join))
        elif isinstance(operation, ir.Sweep):
            state = forward(operation.body, here, state, step, join)
        elif isinstance(operation, ir.Work | ir.For):
            for _ in range(ROUNDS):
                joined = join(state, forward(operation.body, here, state, step, join))
                if joined == state:
                    break
                state = joined
            else:
                raise UnsettledError(here)
        else:
            state = step(operation, here, state)
    return state
