"""The text form of a plan: one operation a line, with the spec's line and statement in the margin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilegen.ir import plan as ir
from tilegen.ir.plan_op_text import operation_text
from tilegen.ir.uniform import condition_text, text
from tilegen.syntax.span import Span

# Where a node of the plan stands: ("buffer", name), … for declarations; ("role", index, position, position, …)
# for an operation, one position a nesting level.
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Line:
    """One line of the text, without its margin. `path` is the plan's node that it shows, () for headings."""

    text: str
    path: Path
    span: Span | None
    statement: str = ""


def plan_lines(plan: ir.Plan) -> Iterator[Line]:
    """The lines of `print_plan`, each with the node that it shows."""
    yield Line(f"plan {plan.name} for {plan.target}, from {plan.source_name}", ("plan",), None)
    if plan.guard is not None:
        yield Line(f"  launched if {condition_text(plan.guard)}", ("guard",), None)
    yield Line(f"  grid {text(plan.grid)}", ("grid",), None)
    yield Line(
        f"  threads {plan.threads}, shared memory {plan.shared_bytes} bytes, "
        f"registers at entry {plan.registers_at_entry}",
        ("size",),
        None,
    )
    if plan.cluster > 1:
        yield Line(f"  clusters of {plan.cluster} CTAs", ("plan",), None)
    if plan.dependent:
        yield Line("  launched under the end of the launch before", ("plan",), None)
    for note in plan.notes:
        yield Line(f"  note: {note}", (), None)
    yield from _section("params", [Line(f"  {_param(p)}", ("param", i), None) for i, p in enumerate(plan.params)])
    if plan.table is not None:
        fields = ", ".join(plan.table.fields)
        lines = [f"  row: {plan.table.item}, {fields}, in {plan.table.width} words"]
        lines += _sequences(plan.table.sequences) if plan.table.sequences else []
        lines += [f"  {let.name} = {text(let.value)}" for let in plan.table.lets]
        lines.append(f"  cost = {text(plan.table.cost)}")
        by = "device, from the lengths of sequences" if plan.table.sequences else "host"
        yield from _section(f"table of work items, made by the {by}", [Line(x, ("table",), None) for x in lines])
    yield from _section("tensors", [_tensor(t) for t in plan.tensors])
    yield from _section("descriptors", [_descriptor(d) for d in plan.descriptors])
    yield from _section("shared memory", _memory(plan))
    yield from _section("rings", [_ring(r) for r in plan.rings])
    for index, role in enumerate(plan.roles):
        yield Line("", (), None)
        yield from _role(role, index)


def print_plan(plan: ir.Plan) -> str:
    """The plan as text. The margin holds the line of the spec and the name of the statement that a line comes from."""
    lines = list(plan_lines(plan))
    return "\n".join(with_margin(lines, margin_width(lines))) + "\n"


def margin_width(lines: Sequence[Line]) -> int:
    """Columns that the longest statement name needs."""
    return max((len(line.statement) for line in lines), default=0)


def with_margin(lines: Sequence[Line], width: int) -> list[str]:
    """The lines as printed: spec line, statement (padded to `width`), text."""
    return [
        f"{line.span.line if line.span else '':>4} {line.statement:<{width}} | {line.text}".rstrip() for line in lines
    ]


def _section(title: str, lines: Sequence[Line]) -> Iterator[Line]:
    if lines:
        yield Line("", (), None)
        yield Line(title, (), None)
        yield from lines


def _sequences(q: ir.Sequences) -> list[str]:
    lines = [f"  params: {', '.join(map(_param, q.params))}"]
    lines += [f"  {let.name} = {text(let.value)}, by the host" for let in q.given]
    lines.append(f"  scratch: {text(q.scratch)} words")
    for x in q.lengths:
        lines.append(f"  sequences {q.position} in [0, {text(q.count)}): {x.starts} of {text(x.tokens)} tokens")
        lines.append(f"    {x.start} = {x.starts}[{q.position}], {x.length} = {x.starts}[{q.position} + 1] - {x.start}")
    lines.append(f"  units of a sequence {text(q.units)}, of all {q.all_units} at most {text(q.most_units)}")
    lines.append(f"  {text(q.items)} items, dealt round by round")
    lines += [f"  {let.name} = {text(let.value)}" for let in q.ranking]
    lines.append(f"  {q.position}, {q.unit} = the unit of rank {q.rank} by cost, the costliest first")
    return lines


def _param(param: ir.Param) -> str:
    match param:
        case ir.MapParam(descriptor):
            return f"map {descriptor}"
        case ir.SizeParam(name):
            return f"size {name}: i32"
        case ir.ScalarParam(name):
            return f"scalar {name}: f32"
        case ir.PointerParam(tensor):
            return f"pointer {tensor}"
        case ir.StrideParam(tensor, dim):
            return f"stride {tensor}[{dim}]: i64"
        case ir.TableParam():
            return "table of work items"
        case ir.ScratchParam():
            return "scratch words"
        case ir.FaultParam():
            return "fault words"
        case ir.CtasParam():
            return "number of CTAs"


def _tensor(tensor: ir.TensorShape) -> Line:
    dims = ", ".join(text(d) for d in tensor.dims)
    kind = "output" if tensor.output else "input"
    return Line(f"  {tensor.name}: {tensor.dtype}[{dims}], {kind}", ("tensor", tensor.name), None)


def _descriptor(descriptor: ir.Descriptor) -> Line:
    dims = ", ".join(_map_dim(d) for d in descriptor.dims)
    use = "store" if descriptor.store else "load"
    return Line(
        f"  {descriptor.name}: {use} {descriptor.tensor} [{dims}], swizzle {descriptor.swizzle}, "
        f"{descriptor.fill} outside",
        ("descriptor", descriptor.name),
        descriptor.span,
    )


def _map_dim(dim: ir.MapDim) -> str:
    if dim.by is not None:
        return f"dim {dim.dim} {'mod' if dim.part == 'inner' else 'div'} {text(dim.by)} box {dim.box}"
    if dim.chunk == 0:
        return f"dim {dim.dim} box {dim.box}"
    place = f"mod {dim.chunk}" if dim.part == "inner" else f"div {dim.chunk}"
    return f"dim {dim.dim} {place} box {dim.box}"


def _memory(plan: ir.Plan) -> list[Line]:
    """Buffers and barriers in the order of their addresses."""
    entries: list[tuple[int, Line]] = []
    for b in plan.buffers:
        end = b.offset + b.stage_bytes * b.stages * b.parts
        shape = f"{b.dtype}[{b.rows}, {b.cols}]"
        copies = f"{b.stages} x {b.stage_bytes} bytes" + (f" x {b.parts} parts" if b.parts > 1 else "")
        alias = f", in the bytes of {b.host}" if b.host else ""
        line = Line(
            f"  {b.offset:>6} .. {end:<6} {b.name}: {shape}, {copies}, "
            f"chunk {b.chunk}, line {b.line}, swizzle {b.swizzle}{alias}",
            ("buffer", b.name),
            b.span,
        )
        entries.append((b.offset, line))
    for r in plan.rings:
        size = 8 * r.depth * r.parts
        if r.scan is not None:
            flag = f"  {r.scan.flag:>6} .. {r.scan.flag + 4:<6} flag of {r.name}"
            entries.append((r.scan.flag, Line(flag, ("barrier", r.name, "flag"), r.span)))
        for group in r.barriers:
            text_ = f"  {group.offset:>6} .. {group.offset + size:<6} {group.kind} barriers of {r.name}"
            entries.append((group.offset, Line(text_, ("barrier", r.name, group.kind), r.span)))
    return [line for _, line in sorted(entries, key=lambda e: e[0])]


def _ring(ring: ir.Ring) -> Line:
    parts = f" x {ring.parts} parts" if ring.parts > 1 else ""
    # one arrival and bytes are TMA's, more are of threads that copy
    brought = f", bytes {ring.bytes}" if ring.full_arrivals == 1 else ""
    if not ring.barriers:
        looked = "; looked through" if ring.scan else ""
        slots = f"  {ring.name}: depth {ring.depth}{parts} in {ring.buffer}; no barriers{looked}"
        return Line(slots, ("ring", ring.name), ring.span)
    return Line(
        f"  {ring.name}: depth {ring.depth}{parts} in {ring.buffer}; full: arrivals {ring.full_arrivals}{brought}; "
        f"empty: arrivals {ring.empty_arrivals}, one a {ring.release}"
        + (f" and scanner's warp; clean: arrivals {ring.scan.arrivals}, one a warp" if ring.scan else "")
        + (f"; with {_sharers(ring.sharers)}" if ring.sharers else ""),
        ("ring", ring.name),
        ring.span,
    )


def _sharers(sharers: ir.Sharers) -> str:
    return f"{sharers.count} CTAs, {sharers.stride} rank{'s' if sharers.stride > 1 else ''} apart"


def _role(role: ir.RolePlan, index: int) -> Iterator[Line]:
    last = role.first + role.warpgroups - 1
    groups = f"warpgroup {role.first}" if last == role.first else f"warpgroups {role.first} to {last}"
    registers = "registers as at entry" if role.registers is None else f"{role.registers} registers"
    elected = ", by one elected thread" if role.elected else ""
    if role.together > 1:
        elected = f", {role.together} together"
    if role.warps is not None:
        elected = f", warps {role.warps[0]} to {role.warps[0] + role.warps[1] - 1}"
    yield Line(f"role {role.name}: {role.kind}, {groups}, {registers}{elected}", ("role", index), None)
    for cursor in role.cursors:
        yield Line(f"  cursor {cursor.name} of {cursor.ring}", ("cursor", index, cursor.name), None)
    for f in role.fragments:
        shape = {"row": f"[{f.rows}]", "col": f"[{f.cols}]"}.get(f.layout, f"[{f.rows}, {f.cols}]")
        held = f"{f.registers} registers" if f.storage == f.name else f"in the registers of {f.storage}"
        held = held if f.storage else "in sweeps only"
        yield Line(f"  {f.layout} {f.name}: {f.dtype}{shape}, {held}", ("fragment", index, f.name), f.span)
    yield from _body(role.body, ("role", index), 1)


def _body(body: tuple[ir.Operation, ...], path: Path, depth: int) -> Iterator[Line]:
    for position, operation in enumerate(body):
        here = (*path, position)
        yield Line("  " * depth + operation_text(operation), here, operation.span, operation.statement)
        if isinstance(operation, ir.Work | ir.For | ir.If | ir.IfVote | ir.IfSpoiled | ir.Sweep):
            yield from _body(operation.body, here, depth + 1)
