"""`tilegen cost`: what moving each tile of a spec costs on each machine, and who keeps which invariant."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace

from tilegen.cli.compile import headings, plan_spec
from tilegen.cli.console import stdout, table
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Wanted
from tilegen.diagnostics.core import TilegenError
from tilegen.inspect.cost import INVARIANTS, Emitted, Movement, TileCost, costs
from tilegen.inspect.places import with_true_places
from tilegen.ir.plan import CopyTile, TmaLoad
from tilegen.ir.plan_walk import all_operations
from tilegen.runtime.compilation import Compilation
from tilegen.targets.hopper.sass import parse_sass
from tilegen.targets.mls.build import MlsBuilt, build


def cost_command(wanted: Wanted, as_json: bool) -> None:
    """Print the figures of the first schedule of each machine."""
    done, _ = plan_spec(wanted)
    plan = done.plans[0]
    if not any(isinstance(o, TmaLoad | CopyTile) for _, _, o in all_operations(plan)):
        wrong_usage(f"{plan.name} moves no tile", wanted="a spec with a tile in shared memory")
    left_out: dict[str, str] = {}
    built: MlsBuilt | None = None
    by_threads: Emitted | None = None
    with _unless_refused("mls", left_out):
        built = build(done.program)
    with _unless_refused("sm_80", left_out):
        by_threads = _emitted(plan_spec(replace(wanted, target="sm_80", tuned=False))[0])
    found = costs(done.program, _emitted(done), built, by_threads)
    if as_json:
        data = _data(done, found, left_out)
        stdout().print(json.dumps(data, indent=2, ensure_ascii=False), markup=False, soft_wrap=True)
        return
    _print(done, found, left_out)


@contextmanager
def _unless_refused(machine: str, left_out: dict[str, str]) -> Iterator[None]:
    """Notes why a machine does not take the spec, in place of failing."""
    try:
        yield
    except TilegenError as error:
        left_out[machine] = error.diagnostics[0].message


def _emitted(done: Compilation) -> Emitted:
    """The first variant with its machine code."""
    built = done.variants[0].built
    return Emitted(done.plans[0], with_true_places(parse_sass(built.sass).functions[0], built.ptx))


def _print(done: Compilation, found: tuple[TileCost, ...], left_out: Mapping[str, str]) -> None:
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
    for machine, why in left_out.items():
        out.print(f"{machine} is left out: {why}", markup=False)
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


def _data(done: Compilation, found: tuple[TileCost, ...], left_out: Mapping[str, str]) -> dict[str, object]:
    return {
        "kernel": done.title,
        "tiles": [
            {
                **{f.name: getattr(t, f.name) for f in fields(TileCost) if f.name != "ways"},
                "ways": list(map(_way, t.ways)),
            }
            for t in found
        ],
        "left_out": dict(left_out),
        "invariants": [asdict(i) for i in INVARIANTS],
    }


def _way(way: Movement) -> dict[str, object]:
    return {**asdict(way), "detail": dict(way.detail)}
