"""Uniform expressions: operations that there are, their numbers of arguments, and divisors that are positive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_walk import all_operations, parts
from tilegen.ir.uniform import OPS, Int, Op

_TERNARY = ("select",)
_DIVISIONS = ("floordiv", "ceildiv", "mod")


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on uniform expressions, wherever one stands."""
    for _, path, operation in all_operations(plan):
        for message in _messages(parts(operation, Op)):
            yield Violation(path, message)
    for message in _messages(_nodes(replace(plan, roles=()))):
        yield Violation(("plan",), message)
    if any(e.op in _DIVISIONS and not all(isinstance(a, Int) for a in e.args[1:]) for e in _nodes(plan.grid)):
        yield Violation(("grid",), "the number of CTAs divides by what may be 0")


def _nodes(node: object) -> Iterator[Op]:
    if isinstance(node, Op):
        yield node
    if isinstance(node, tuple):
        for item in node:
            yield from _nodes(item)
    elif is_dataclass(node):
        for field in fields(node):
            if field.name != "span":
                yield from _nodes(getattr(node, field.name))


def _messages(found: Iterable[Op]) -> Iterator[str]:
    for e in found:
        wanted = 3 if e.op in _TERNARY else 2
        if e.op not in OPS:
            yield f'no operation "{e.op}"'
        elif len(e.args) != wanted:
            yield f"{e.op} takes {wanted} arguments, not {len(e.args)}"
        elif e.op in _DIVISIONS and isinstance(divisor := e.args[1], Int) and divisor.value < 1:
            yield f"{e.op} by {divisor.value}"
