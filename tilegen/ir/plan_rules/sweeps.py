"""Sweeps and votes: what may stand inside them."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_walk import body_of, fragments_read, fragments_written, operations

# Arithmetic on registers: nothing that another warp could wait for.
MENDING = (ir.Let, ir.Init, ir.Map, ir.Mask, ir.Mend, ir.LoadVector)
MENDING_CONTROL = (ir.For, ir.If)
# A warp writes to shared memory the rows that it holds, and others read them after a meeting only.
VOTED = (ir.LetFloat, ir.Init, ir.Map, ir.Mask, ir.RowFold, ir.QuadReduce, ir.Relayout, ir.WriteShared, ir.Sweep)


def check_sweep(role: ir.RolePlan, sweep: ir.Sweep) -> Iterator[str]:
    """Breaches in a sweep: it goes once over the columns, so nothing in it may need a whole row."""
    fragments = {f.name: f for f in role.fragments}
    widths = set()
    folded: set[str] = set()
    for operation in sweep.body:
        for name in fragments_read(operation):
            if name in folded:
                yield f"{name} is read in the sweep that folds it"
        match operation:
            case ir.Map(out) if fragments[out].layout != "acc":
                yield f"{out} of layout {fragments[out].layout} is not made column by column"
            case ir.ReadShared(out) if fragments[out].layout != "acc":
                yield f"{out} of layout {fragments[out].layout} is not read column by column"
            case ir.RowFold(out, _, _, scope):
                folded.add(out)
                if scope != "thread":
                    yield f"{out} is folded by {scope}, which needs whole rows"
        names = (*fragments_read(operation), *fragments_written(operation))
        widths |= {fragments[n].cols for n in names if fragments[n].layout in ("acc", "a")}
    if len(widths) > 1:
        yield f"fragments of {' and '.join(map(str, sorted(widths)))} columns in one sweep"


def check_vote(role: ir.RolePlan, vote: ir.IfVote) -> Iterator[str]:
    """Breaches in a vote: warps decide for themselves, so nothing in it may synchronise them."""
    layout = next(f.layout for f in role.fragments if f.name == vote.fragment)
    if layout != "row":
        yield f"{vote.fragment} has layout {layout}, row is wanted"
    for operation in vote.body:
        for inner in (operation, *(operation.body if isinstance(operation, ir.Sweep) else ())):
            if not isinstance(inner, VOTED):
                yield f"a {type(inner).__name__} that some warps may not reach"


def check_spoiled(branch: ir.IfSpoiled) -> Iterator[str]:
    """Breaches in a branch on a scan's flag, which may go up between two threads' looks at it."""

    def inside(body: tuple[ir.Operation, ...]) -> Iterator[str]:
        for operation in body:
            if isinstance(operation, MENDING_CONTROL):
                yield from inside(body_of(operation))
            elif not isinstance(operation, MENDING):
                yield f"a {type(operation).__name__} that some warps may not reach"

    yield from inside(branch.body)


def check_transients(role: ir.RolePlan, index: int) -> Iterator[Violation]:
    """Fragments stored nowhere are touched inside sweeps only, and written before they are read there."""
    transient = {f.name for f in role.fragments if not f.storage}
    for path, operation in operations(role, index):
        if isinstance(operation, ir.Sweep):
            written: set[str] = set()
            for position, inner in enumerate(operation.body):
                for name in transient.intersection(fragments_read(inner)) - written:
                    yield Violation((*path, position), f"{name} is read before this sweep writes it")
                written |= set(fragments_written(inner))
    inside = {(*path, n) for path, o in operations(role, index) if isinstance(o, ir.Sweep) for n in range(len(o.body))}
    for path, operation in operations(role, index):
        if path not in inside:
            for name in transient.intersection((*fragments_read(operation), *fragments_written(operation))):
                yield Violation(path, f"{name} exists inside sweeps only")
