"""Candidates: points of a space that may fit, in the order in which they are worth trying."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice, product, zip_longest
from multiprocessing import get_context

from tilegen.checks import resources
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan_json import plan_to_json
from tilegen.ir.schedule import Directive
from tilegen.passes.pipeline import plan_with
from tilegen.tune.estimate import cycles
from tilegen.tune.fits import refusal
from tilegen.tune.space import Point, Space, Way

LOOKED_AT = 700  # points whose needs are worked out
VARIANT = 0.02  # by how much more a schedule has to promise for each that shares its blocks and warpgroups
HOPELESS = 1.4  # times the own schedule's estimate

SAME = "the same kernel as another"


@dataclass(frozen=True)
class Candidate:
    """A schedule to try. told: how it differs from the own one · estimate: cycles, for its place in the order."""

    point: Point
    directives: Way
    told: str
    estimate: float
    own: bool


def points(space: Space, seed: int, limit: int = LOOKED_AT) -> Iterator[Point]:
    """Points worth looking at, each once: the own schedule, those that differ from it in one choice, every shape with
    the own and with the usual choices beside it, and any others, in an order that the seed decides."""
    chance = random.Random(seed)
    seen: set[Point] = set()
    for point in islice(_points(space, chance), 20 * limit):
        if point not in seen:
            seen.add(point)
            yield point
        if len(seen) == limit:
            return


def _points(space: Space, chance: random.Random) -> Iterator[Point]:
    yield space.own
    yield from neighbours(space)
    shapes = [range(len(c.ways)) if c.kind != "how" else None for c in space.choices]
    mixed: list[Point] = []
    for base in dict.fromkeys((space.own, space.usual)):
        ways = [each if each is not None else (n,) for each, n in zip(shapes, base, strict=True)]
        mixed += product(*ways)
    chance.shuffle(mixed)
    free = iter(lambda: tuple(chance.randrange(len(c.ways)) for c in space.choices), None)
    for made, anything in zip_longest(mixed, islice(free, 4 * LOOKED_AT)):
        yield from (p for p in (made, anything) if p is not None)


def neighbours(space: Space) -> Iterator[Point]:
    """The points that differ from the own schedule in one choice."""
    for place, choice in enumerate(space.choices):
        for number in range(len(choice.ways)):
            if number != choice.own:
                yield (*space.own[:place], number, *space.own[place + 1 :])


def ranked(
    space: Space,
    extents: Mapping[str, int],
    sms: int,
    seed: int,
    told: Callable[[str], object],
    limit: int = LOOKED_AT,
) -> list[Candidate]:
    """Those that may fit, the likely ones first: the own schedule, then in turns its neighbours and all, each by the
    estimate. `told` gets the code of each that cannot be."""
    fitting: list[Candidate] = []
    seen: set[frozenset[Directive]] = set()
    for point in points(space, seed, limit):
        said = frozenset(space.directives(point))
        if said in seen:
            told(SAME)
            continue
        seen.add(said)
        try:
            s = space.scheduled(point)
            code = refusal(s)
            if code is None:
                estimate = cycles(s, extents, sms)
                own = point == space.own
                fitting.append(Candidate(point, space.directives(point), space.told(point), estimate, own))
                continue
        except TilegenError as error:
            code = error.diagnostics[0].code
        told(code)
    own_first = [c for c in fitting if c.own]
    pairs = zip_longest(_spread(space, [c for c in fitting if not c.own]), _close(space, fitting))
    return list(dict.fromkeys([*own_first, *(c for pair in pairs for c in pair if c is not None)]))


def _close(space: Space, candidates: list[Candidate]) -> list[Candidate]:
    """Those that differ from the own schedule in one choice and are not much worse: of each choice the best one, then
    the second of each."""
    by = {c.point: c for c in candidates}
    own = by.get(space.own)
    near = [by[p] for p in neighbours(space) if p in by]
    if own is not None:
        near = [c for c in near if c.estimate < HOPELESS * own.estimate]
    groups: dict[int, list[Candidate]] = {}
    for c in sorted(near, key=lambda c: c.estimate):
        differs = next(n for n, (a, b) in enumerate(zip(c.point, space.own, strict=True)) if a != b)
        groups.setdefault(differs, []).append(c)
    rounds = zip_longest(*(groups[place] for place in sorted(groups)))
    return [c for each in rounds for c in each if c is not None]


def _spread(space: Space, candidates: list[Candidate]) -> list[Candidate]:
    """By estimate, but so that one shape does not take all the places."""
    variants: Counter[Point] = Counter()
    weighed: list[tuple[float, Point, Candidate]] = []
    for c in sorted(candidates, key=lambda c: (c.estimate, c.point)):
        shape = tuple(n for choice, n in zip(space.choices, c.point, strict=True) if choice.kind == "shape")
        weighed.append((c.estimate * (1 + VARIANT * variants[shape]), c.point, c))
        variants[shape] += 1
    return [c for _, _, c in sorted(weighed, key=lambda w: w[:2])]


def planned(
    space: Space, candidates: list[Candidate], budget: int, told: Callable[[str], object], processes: int = 1
) -> Iterator[Candidate]:
    """The first `budget` candidates that have a plan, and one of their own. `told` gets the code of each that has
    none. processes: that make plans; 1: this one."""
    seen: set[bytes] = set()
    with closing(_plans(space, candidates, processes)) as plans:
        for candidate, (digest, code) in zip(candidates, plans, strict=True):
            code = SAME if digest in seen else code
            if code:
                told(code)
                continue
            seen.add(digest)
            yield candidate
            if len(seen) == budget:
                return


def _plans(space: Space, candidates: list[Candidate], processes: int) -> Generator[tuple[bytes, str], None, None]:
    """What tells each one's plan from others', or else the code with which it is refused, in their order."""
    if processes == 1:
        yield from (_plan(space, c) for c in candidates)
        return
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
    try:
        yield from pool.map(partial(_plan, space), candidates, chunksize=4)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _plan(space: Space, candidate: Candidate) -> tuple[bytes, str]:
    try:
        plan = plan_with(space.program, candidate.directives, space.target)
        if faults := resources.check(plan):
            raise TilegenError(tuple(faults))
    except TilegenError as error:
        return b"", error.diagnostics[0].code
    return hashlib.sha256(plan_to_json(plan).encode()).digest(), ""
