"""A Scheduled program as text: roles, buffers, order, then the phases with each step's distance."""

from __future__ import annotations

from tilegen.ir.folded_text import operation_text
from tilegen.ir.scheduled import Batch, Item, Scheduled, Step, Stream


def print_scheduled(s: Scheduled) -> str:
    """Readable and deterministic; one decision a line."""
    lines = [f"scheduled program {s.program.tile.name} for {s.target}", "", "axes"]
    for r in s.roles:
        block = f", block {r.block}" if r.role != "hold" else f", whole ({r.block})"
        lines.append(f"  {r.axis}: {r.role}{block}")
    w, o = s.workers, s.order
    registers = "" if w.consumer_registers is None else f", registers {w.consumer_registers} and {w.producer_registers}"
    lines += ["", f"workers: {w.count} consumers over {', '.join(w.axes)}{registers}"]
    order = ", ".join(f"{a} descending" if a in o.descending else a for a in o.axes)
    lines.append(f"order: {order} (innermost first), {o.persistent or 'one item a CTA'}")
    if o.group is not None:
        axis, size, count = o.group
        lines.append(f"group: {axis} by {f'{size} bytes' if size is not None else count}")
    if s.cluster:
        lines.append(f"cluster: {', '.join(f'{c.count} CTAs along {c.axis}' for c in s.cluster)}")
    if s.dependent:
        lines.append("launch: under the end of the one before")
    if s.turns:
        lines.append(f"turns: {', '.join(s.turns)}")
    if s.stale:
        lines.append(f"kept while it serves: {', '.join(s.stale)}")
    if s.placed:
        lines.append(f"operands in shared memory: {', '.join(s.placed)}")
    lines += ["", "tiles"]
    for t in s.tiles:
        how = f"{', a part for each consumer' if t.apart else ''}{', looked through' if t.scan else ''}{_hint(t.hint)}"
        by = f", by copies of {t.width} bytes" if t.mover == "cp_async" else ""
        by += f", loaded together along {t.multicast}" if t.multicast else ""
        outside = ", NaN outside" if t.fill == "nan" else ""
        lines.append(f"  {t.tile}: depth {t.depth}{how}{by}{outside}")
    lines += ["", "stores"]
    for store in s.stores:
        place = f", in the bytes of {store.host}" if store.host else ""
        place += f", in pieces through {store.stages} stages" if store.stages else ""
        lines.append(f"  {store.output}: {store.via}{place}{_hint(store.hint)}")
    for phase in s.phases:
        head = "straight"
        if isinstance(phase, Stream):
            head = f"stream {phase.axis} {phase.direction}{', own rows only' if phase.skip else ''}"
        lines += ["", head]
        for item in phase.body:
            lines += [f"  {line}" for line in _item(item, s)]
    return "\n".join(lines) + "\n"


def _hint(how: str) -> str:
    return f", {how} in L2" if how else ""


def _item(item: Item, s: Scheduled) -> list[str]:
    if isinstance(item, Batch):
        return [f"batch, awaited {item.wait}", *(f"  {_step(step, s)}" for step in item.steps)]
    return [_step(item, s)]


def _step(step: Step, s: Scheduled) -> str:
    late = f"  (late by {step.distance})" if step.distance else ""
    return operation_text(s.op(step.op)) + late
