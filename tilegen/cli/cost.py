"""`tilegen cost`: what moving each tile of a spec costs on each machine, and who keeps which invariant."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

from tilegen.cli.compile import headings, plan_spec
from tilegen.cli.console import stdout, table
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Wanted
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.inspect.cost import INVARIANTS, Emitted, Movement, TileCost, costs
from tilegen.inspect.places import with_true_places
from tilegen.ir.plan import CopyTile, TmaLoad
from tilegen.ir.plan_walk import all_operations
from tilegen.runtime.compilation import Compilation
from tilegen.targets.hopper.sass import parse_sass
from tilegen.targets.mls.build import build


def cost_command(wanted: Wanted, as_json: bool) -> None:
    """Print the figures of the first schedule of each machine."""
    done, _ = plan_spec(wanted)
    plan = done.plans[0]
    if not any(isinstance(o, TmaLoad | CopyTile) for _, _, o in all_operations(plan)):
        wrong_usage(f"{plan.name} moves no tile", wanted="a spec with a tile in shared memory")
    found = costs(done.program, _emitted(done), build(done.program), _for_sm80(wanted))
    if as_json:
        stdout().print(json.dumps(_data(done, found), indent=2, ensure_ascii=False), markup=False, soft_wrap=True)
        return
    _print(done, found)


def _emitted(done: Compilation) -> Emitted:
    """The first variant with its machine code."""
    built = done.variants[0].built
    return Emitted(done.plans[0], with_true_places(parse_sass(built.sass).functions[0], built.ptx))


def _for_sm80(wanted: Wanted) -> Emitted | None:
    """The same for sm_80, if the spec is built for it."""
    try:
        return _emitted(plan_spec(replace(wanted, target="sm_80", tuned=False))[0])
    except TilegenError as error:
        if any(d.code != Code.SM80_UNSUPPORTED.name for d in error.diagnostics):
            raise
        return None


def _print(done: Compilation, found: tuple[TileCost, ...]) -> None:
    out = stdout()
    out.print(done.title, style="bold", markup=False)
    heading = headings(done)[0]
    if heading:
        out.print(f"hopper: {heading}", markup=False)
    out.print(
        "what one block of a tile takes, all warps or waves together; registers and predicates of one", markup=False
    )
    rows = [_row(tile, way) for tile in found for way in tile.ways]
    out.print(table(_HEADER, rows))
    for told in dict.fromkeys(f"{way.machine}, {way.mover}: {way.source}" for tile in found for way in tile.ways):
        out.print(told, markup=False)
    out.print()
    names = ["TMA", "copies of threads", "MLS"]
    out.print(table(["what must hold", *names], [[i.what, i.tma, i.copies, i.mls] for i in INVARIANTS]))


_HEADER = (
    "tile",
    "by",
    "block",
    "instructions",
    "a KiB",
    "issuers",
    "registers",
    "predicates",
    "bytes",
    "figures",
)


def _row(tile: TileCost, way: Movement) -> list[object]:
    return [
        tile.tile,
        f"{way.machine}, {way.mover}",
        {"mls": tile.mls, "sm_80": tile.sm_80, "hopper": tile.hopper}[way.machine],
        way.instructions,
        f"{1024 * way.instructions / way.bytes:.1f}",
        way.issuers,
        way.registers,
        way.predicates,
        way.bytes,
        "counted" if way.counted else "computed",
    ]


def _data(done: Compilation, found: tuple[TileCost, ...]) -> dict[str, object]:
    return {
        "kernel": done.title,
        "tiles": [
            {
                **{f.name: getattr(t, f.name) for f in fields(TileCost) if f.name != "ways"},
                "ways": list(map(_way, t.ways)),
            }
            for t in found
        ],
        "invariants": [asdict(i) for i in INVARIANTS],
    }


def _way(way: Movement) -> dict[str, object]:
    return {**asdict(way), "detail": dict(way.detail)}
