"""Changes to plans, for tests of what finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tilegen.ir import plan as ir

_T = TypeVar("_T", bound="ir.Operation")
Body = tuple[ir.Operation, ...]


def change(plan: ir.Plan, role: str, kind: type[_T], edit: Callable[[_T], Body], nth: int = 0) -> ir.Plan:
    """The plan with the nth operation of a class in a role replaced by the operations that `edit` gives for it."""
    count = 0

    def walk(body: Body) -> Body:
        nonlocal count
        out: list[ir.Operation] = []
        for operation in body:
            if isinstance(operation, kind):
                count += 1
                if count == nth + 1:
                    out += edit(operation)
                    continue
            if isinstance(operation, ir.Work | ir.For | ir.If):
                operation = replace(operation, body=walk(operation.body))
            out.append(operation)
        return tuple(out)

    roles = tuple(replace(r, body=walk(r.body)) if r.name == role else r for r in plan.roles)
    assert count > nth, f"{role} has {count} of {kind.__name__}"
    return replace(plan, roles=roles)


def drop(plan: ir.Plan, role: str, kind: type[ir.Operation], nth: int = 0) -> ir.Plan:
    return change(plan, role, kind, lambda o: (), nth)


def alter(plan: ir.Plan, role: str, kind: type[ir.Operation], nth: int = 0, /, **fields: object) -> ir.Plan:
    """The plan with fields of one operation changed."""
    return change(plan, role, kind, lambda o: (replace(o, **fields),), nth)


def before(plan: ir.Plan, role: str, kind: type[ir.Operation], *new: ir.Operation, nth: int = 0) -> ir.Plan:
    return change(plan, role, kind, lambda o: (*new, o), nth)


def after(plan: ir.Plan, role: str, kind: type[ir.Operation], *new: ir.Operation, nth: int = 0) -> ir.Plan:
    return change(plan, role, kind, lambda o: (o, *new), nth)


def role(plan: ir.Plan, name: str, /, **fields: object) -> ir.Plan:
    return replace(plan, roles=tuple(replace(r, **fields) if r.name == name else r for r in plan.roles))


def fragment(plan: ir.Plan, name: str, /, **fields: object) -> ir.Plan:
    def edited(r: ir.RolePlan) -> ir.RolePlan:
        return replace(r, fragments=tuple(replace(f, **fields) if f.name == name else f for f in r.fragments))

    return replace(plan, roles=tuple(edited(r) for r in plan.roles))


def buffer(plan: ir.Plan, name: str, /, **fields: object) -> ir.Plan:
    return replace(plan, buffers=tuple(replace(b, **fields) if b.name == name else b for b in plan.buffers))


def ring(plan: ir.Plan, name: str, /, **fields: object) -> ir.Plan:
    return replace(plan, rings=tuple(replace(r, **fields) if r.name == name else r for r in plan.rings))


def descriptor(plan: ir.Plan, name: str, /, **fields: object) -> ir.Plan:
    return replace(plan, descriptors=tuple(replace(d, **fields) if d.name == name else d for d in plan.descriptors))


def tensor(plan: ir.Plan, name: str, /, **fields: object) -> ir.Plan:
    return replace(plan, tensors=tuple(replace(t, **fields) if t.name == name else t for t in plan.tensors))


def operand(plan: ir.Plan, which: str, nth: int = 0, **fields: object) -> ir.Plan:
    """Change the "a" or "b" operand of the consumer's nth product."""
    return change(
        plan, "consumer", ir.Mma, lambda o: (replace(o, **{which: replace(getattr(o, which), **fields)}),), nth
    )
