"""Names: every one is declared once, stands in scope where it is used, and fits what it is used for.

The other rules look names up without asking, so these are checked first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import all_operations, operations, parts, uniforms
from tilegen.ir.uniform import symbols

# Launch constant: stands in the grid alone.
SM_COUNT = "sm_count"
WARPGROUP = "warpgroup"


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on names."""
    yield from _declarations(plan)
    for _, path, operation in all_operations(plan):
        yield from _references(plan, path, operation)
    for index, role in enumerate(plan.roles):
        yield from _role_declarations(plan, role, index)
        launched = set() if role.kind in ("producer", "copier", "scanner") else {WARPGROUP}
        launched |= {ir.CLUSTER_RANK} if plan.cluster > 1 else set()
        scope = _Scope(_sizes(plan) | launched, _scalars(plan))
        yield from _body(role.body, ("role", index), scope)


def _sizes(plan: ir.Plan) -> set[str]:
    return {p.name for p in plan.params if isinstance(p, ir.SizeParam)}


def _scalars(plan: ir.Plan) -> set[str]:
    return {p.name for p in plan.params if isinstance(p, ir.ScalarParam)}


def _declarations(plan: ir.Plan) -> Iterator[Violation]:
    if plan.target not in MACHINES:
        yield Violation(("plan",), f"no target {plan.target}: one of {', '.join(MACHINES)}")
    groups: tuple[tuple[str, tuple[ir.TensorShape | ir.Descriptor | ir.Buffer | ir.Ring, ...]], ...] = (
        ("tensor", plan.tensors),
        ("descriptor", plan.descriptors),
        ("buffer", plan.buffers),
        ("ring", plan.rings),
    )
    for kind, items in groups:
        for name in _repeated([i.name for i in items]):
            yield Violation((kind, name), f"{kind} {name} is declared more than once")
    for name in _repeated([r.name for r in plan.roles]):
        index = next(i for i, r in enumerate(plan.roles) if r.name == name)
        yield Violation(("role", index), f"role {name} is declared more than once")
    for index, param in enumerate(plan.params):
        if param in plan.params[:index]:
            yield Violation(("param", index), "the parameter is given twice")
        yield from _param(plan, param, index)
    tensors = {t.name: t for t in plan.tensors}
    maps = {p.descriptor for p in plan.params if isinstance(p, ir.MapParam)}
    for d in plan.descriptors:
        here = ("descriptor", d.name)
        if d.tensor not in tensors:
            yield Violation(here, f"no tensor {d.tensor}")
        elif any(not 0 <= m.dim < len(tensors[d.tensor].dims) for m in d.dims):
            yield Violation(here, f"{d.tensor} has dimensions 0 to {len(tensors[d.tensor].dims) - 1} only")
        if d.name not in maps:
            yield Violation(here, f"no parameter carries the tensor map {d.name}")
    buffers = {b.name: b for b in plan.buffers}
    for b in plan.buffers:
        if b.host is not None and b.host not in buffers:
            yield Violation(("buffer", b.name), f"no buffer {b.host}")
        elif b.host is not None and (b.host == b.name or buffers[b.host].host is not None):
            yield Violation(("buffer", b.name), f"{b.host} has no bytes of its own")
    for r in plan.rings:
        if r.buffer not in buffers:
            yield Violation(("ring", r.name), f"no buffer {r.buffer}")
    for t in plan.tensors:
        for unknown in sorted(frozenset().union(*(symbols(d) for d in t.dims)) - _sizes(plan)):
            yield Violation(("tensor", t.name), f"no size {unknown} among the parameters")
    for unknown in sorted(symbols(plan.grid) - _sizes(plan) - {SM_COUNT}):
        yield Violation(("grid",), f"no size {unknown} among the parameters")


def _param(plan: ir.Plan, param: ir.Param, index: int) -> Iterator[Violation]:
    here = ("param", index)
    tensors = {t.name: t for t in plan.tensors}
    match param:
        case ir.MapParam(name) if name not in {d.name for d in plan.descriptors}:
            yield Violation(here, f"no descriptor {name}")
        case ir.PointerParam(name) | ir.StrideParam(name) if name not in tensors:
            yield Violation(here, f"no tensor {name}")
        case ir.StrideParam(name, dim) if not 0 <= dim < len(tensors[name].dims):
            yield Violation(here, f"{name} has no dimension {dim}")


def _role_declarations(plan: ir.Plan, role: ir.RolePlan, index: int) -> Iterator[Violation]:
    for name in _repeated([c.name for c in role.cursors]):
        yield Violation(("cursor", index, name), f"cursor {name} is declared more than once")
    for name in _repeated([f.name for f in role.fragments]):
        yield Violation(("fragment", index, name), f"fragment {name} is declared more than once")
    for c in role.cursors:
        if c.ring not in {r.name for r in plan.rings}:
            yield Violation(("cursor", index, c.name), f"no ring {c.ring}")
    fragments = {f.name: f for f in role.fragments}
    for f in role.fragments:
        if not f.storage:
            continue
        if f.storage not in fragments:
            yield Violation(("fragment", index, f.name), f"no fragment {f.storage}")
        elif fragments[f.storage].storage != f.storage:
            yield Violation(("fragment", index, f.name), f"{f.storage} has no registers of its own")
    used_cursors: set[str] = set()
    used_fragments: set[str] = set()
    for path, operation in operations(role, index):
        cursors = [s.cursor for s in parts(operation, ir.Slot)]
        cursors += [operation.cursor] if isinstance(operation, ir.Advance) else []
        used_cursors.update(cursors)
        for cursor in dict.fromkeys(cursors):
            if cursor not in {c.name for c in role.cursors}:
                yield Violation(path, f"{role.name} has no cursor {cursor}")
        for slot in parts(operation, ir.Slot):
            ring = next((c.ring for c in role.cursors if c.name == slot.cursor), slot.ring)
            if ring != slot.ring:
                yield Violation(path, f"cursor {slot.cursor} counts positions of {ring}, not of {slot.ring}")
        names = dict.fromkeys(_fragments(operation))
        used_fragments.update(names)
        for name in names:
            if name not in fragments:
                yield Violation(path, f"{role.name} has no fragment {name}")
    for c in role.cursors:
        if c.name not in used_cursors:
            yield Violation(("cursor", index, c.name), f"cursor {c.name} is never used")
    for f in role.fragments:
        if f.name not in used_fragments:
            yield Violation(("fragment", index, f.name), f"fragment {f.name} is never used")


def _fragments(operation: ir.Operation) -> Iterator[str]:
    match operation:
        case ir.Mma() | ir.WarpMma():
            yield operation.accumulator
        case ir.IfVote(name):
            yield name
        case ir.Mend(name, live):
            yield name
            yield live
        case ir.Init(name) | ir.Mask(name) | ir.QuadReduce(name) | ir.StoreRows(name) | ir.StoreVector(name):
            yield name
        case ir.Map(name) | ir.FmaOob(name) | ir.ReadShared(name) | ir.LoadVector(name):
            yield name
        case ir.RowFold(out, source) | ir.Relayout(out, source) | ir.CopyOperand(out, source):
            yield out
            yield source
        case ir.WriteShared():
            yield operation.source
    yield from (p.fragment for p in parts(operation, ir.Element))
    yield from (p.fragment for p in parts(operation, ir.FragmentOperand))


def _references(plan: ir.Plan, path: Path, operation: ir.Operation) -> Iterator[Violation]:
    rings = {r.name for r in plan.rings}
    buffers = {b.name for b in plan.buffers}
    descriptors = {d.name for d in plan.descriptors}
    for slot in parts(operation, ir.Slot):
        if slot.ring not in rings:
            yield Violation(path, f"no ring {slot.ring}")
    if isinstance(operation, ir.IfSpoiled) and operation.ring not in rings:
        yield Violation(path, f"no ring {operation.ring}")
    if isinstance(operation, ir.TmaLoad | ir.TmaStore) and operation.descriptor not in descriptors:
        yield Violation(path, f"no descriptor {operation.descriptor}")
    used = [operation.buffer] if isinstance(operation, ir.TmaStore | ir.WriteShared) else []
    for name in (*used, *(p.buffer for p in parts(operation, ir.BufferOperand))):
        if name not in buffers:
            yield Violation(path, f"no buffer {name}")
    tensor = None
    if isinstance(operation, ir.CopyTile | ir.LoadVector | ir.StoreRows | ir.StoreVector | ir.Mend):
        tensor = operation.tensor
    elif isinstance(operation, ir.LetFloat) and operation.load is not None:
        tensor = operation.load[0]
    if tensor is not None:
        shape = next((t for t in plan.tensors if t.name == tensor), None)
        if shape is None:
            yield Violation(path, f"no tensor {tensor}")
            return
        if ir.PointerParam(tensor) not in plan.params:
            yield Violation(path, f"no parameter carries the address of {tensor}")
        for dim in range(len(shape.dims) - 1):
            if ir.StrideParam(tensor, dim) not in plan.params:
                yield Violation(path, f"no parameter carries the stride of dimension {dim} of {tensor}")


class _Scope:
    """The uniform integers and floats that can be named at a place."""

    def __init__(self, ints: set[str], floats: set[str]) -> None:
        self.ints = set(ints)
        self.floats = set(floats)

    def inner(self) -> _Scope:
        return _Scope(self.ints, self.floats)


def _body(body: tuple[ir.Operation, ...], path: Path, scope: _Scope) -> Iterator[Violation]:
    for position, operation in enumerate(body):
        here = (*path, position)
        used = frozenset[str]().union(*(symbols(u) for u in uniforms(operation)))
        for name in sorted(used - scope.ints):
            yield Violation(here, f"nothing named {name} is in scope")
        for name in sorted({v.name for v in parts(operation, ir.Value)} - scope.floats):
            yield Violation(here, f"no float named {name} is in scope")
        match operation:
            case ir.Let(name):
                yield from _bind(scope.ints, name, here)
            case ir.LetFloat(name):
                yield from _bind(scope.floats, name, here)
            case ir.Work(name, _, _, inner) | ir.For(name, _, _, inner):
                nested = scope.inner()
                for bound in (name, *(operation.fields if isinstance(operation, ir.Work) else ())):
                    yield from _bind(nested.ints, bound, here)
                yield from _body(inner, here, nested)
            case ir.If(_, inner) | ir.IfVote(_, inner) | ir.IfSpoiled(_, inner):
                yield from _body(inner, here, scope.inner())
            case ir.Sweep(inner):
                yield from _body(inner, here, scope.inner())


def _bind(names: set[str], name: str, path: Path) -> Iterator[Violation]:
    if name in names:
        yield Violation(path, f"{name} already has a meaning here")
    names.add(name)


def _repeated(names: list[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]
