"""Whether the CTAs of a cluster load the same tiles at the same times, as is needed where they load them together."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.plan import For, If, Let, Operation, RolePlan, TmaLoad, Work
from tilegen.ir.scheduled import Scheduled
from tilegen.passes.synchronise.context import symbols_in


def check_in_step(s: Scheduled, roles: tuple[RolePlan, ...]) -> None:
    """Raises TilegenError where what is loaded, or how often, depends on where a CTA stands in its cluster."""
    for c in s.cluster:
        tiles = {t.tile for t in s.tiles if t.multicast == c.axis}
        for role in roles:
            if role.kind == "producer":
                for o in _apart(role.body, {c.axis, f"{c.axis}.0"}, tiles):
                    what = f"the coordinates of {o.slot.ring}" if isinstance(o, TmaLoad) else "how often it is loaded"
                    fail(Code.MULTICAST_APART, c.span, axis=c.axis, tile=", ".join(sorted(tiles)), what=what)


def _apart(body: tuple[Operation, ...], own: set[str], tiles: set[str]) -> Iterator[For | If | TmaLoad]:
    """What depends on names in `own`, or on what is made of those, and decides on loads of these tiles."""
    for o in body:
        match o:
            case Let(name, value):
                if own & symbols_in(value):
                    own.add(name)
            case For(_, start, stop, inner):
                if own & {*symbols_in(start), *symbols_in(stop)}:
                    yield o
                yield from _apart(inner, own, tiles)
            case If(condition, inner):
                if own & symbols_in(condition):
                    yield o
                yield from _apart(inner, own, tiles)
            case Work(_, _, _, inner):
                yield from _apart(inner, own, tiles)
            case TmaLoad(_, coordinates, slot):
                if slot.ring in tiles and own & symbols_in(coordinates):
                    yield o
