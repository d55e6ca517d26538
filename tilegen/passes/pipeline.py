"""The passes in order, from a Tile program to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.folded import FoldedProgram
from tilegen.ir.folded_verify import verify as verify_folded
from tilegen.ir.plan import Plan
from tilegen.ir.plan_verify import verify as verify_plan
from tilegen.ir.schedule import Directive
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.scheduled_verify import verify as verify_scheduled
from tilegen.ir.tile import Lookup, TileProgram
from tilegen.ir.tile_verify import verify as verify_tile
from tilegen.ir.uniform import Uniform
from tilegen.ir.variants import asked_alignments, dense_alignments, taken
from tilegen.passes.fills import check_fills
from tilegen.passes.fold import fold
from tilegen.passes.guard import guard
from tilegen.passes.isolate import check_scans, isolate
from tilegen.passes.movers import by_alignment
from tilegen.passes.overlap import check_under
from tilegen.passes.rewrites import apply_directives, default_schedule
from tilegen.passes.synchronise import synchronise
from tilegen.passes.synchronise.hopper import tensors_of
from tilegen.passes.synchronise_sm80 import first_with_room
from tilegen.passes.tokens import as_tokens
from tilegen.records import dataclass

TARGETS = ("hopper", "sm_80")  # of plans; `synchronise_mls` makes others


@dataclass(frozen=True)
class Way:
    """How some launches of a program are scheduled. folded: with the one schedule that it comes from · directives: that
    leave no mover open · guard: the condition on launches, None for all of them."""

    folded: FoldedProgram
    directives: tuple[Directive, ...]
    guard: Uniform | None
    target: str

    def scheduled(self) -> Scheduled:
        """Raises TilegenError for what cannot be."""
        return with_directives(self.folded, self.directives, self.target)

    def plan(self) -> Plan:
        """Raises TilegenError for what cannot be."""
        if self.target == "sm_80":
            plan = first_with_room(self.folded, self.directives, self.guard)
        else:
            plan = synchronise(self.scheduled(), self.guard)
        verify_plan(plan)
        check_under(plan, self.directives)
        return plan


def to_folded(program: TileProgram, target: str = "hopper") -> FoldedProgram:
    """The folded program with its guards: what every schedule begins with.

    Raises TilegenError for what this target or this version cannot do, by name.
    """
    if target not in TARGETS:
        fail(Code.TARGET_UNSUPPORTED, None, got=target, wanted=", ".join(TARGETS), target=target)
    for move in program.moves:
        for entry in move.at:
            if isinstance(entry, Lookup):
                fail(Code.LOOKUP_UNSUPPORTED, entry.span, name=move.name)
    verify_tile(program)
    folded = fold(program)
    verify_folded(folded)
    folded = as_tokens(folded)
    verify_folded(folded)
    return guard(folded)


def with_directives(folded: FoldedProgram, directives: tuple[Directive, ...], target: str = "hopper") -> Scheduled:
    """The default schedule, changed as the directives say, which leave no mover open. Raises TilegenError for what
    cannot be."""
    scheduled = default_schedule(folded, directives, target)
    verify_scheduled(scheduled)
    scheduled = isolate(scheduled)
    verify_scheduled(scheduled)
    scheduled = apply_directives(scheduled, directives)
    check_fills(scheduled)
    check_scans(scheduled)
    return scheduled


def to_scheduled(program: TileProgram, target: str = "hopper") -> Scheduled:
    """The Scheduled program: folds, guards, the default schedule, then the spec's directives, for arrays of the best
    alignment. Raises TilegenError."""
    return scheduled_with(to_folded(program, target), program.directives(target), target)


def scheduled_with(folded: FoldedProgram, directives: tuple[Directive, ...], target: str = "hopper") -> Scheduled:
    """A folded program scheduled so; for arrays of the best alignment, where that decides. Raises TilegenError."""
    return _ways(folded, directives, None, target)[0].scheduled()


def plan_with(folded: FoldedProgram, directives: tuple[Directive, ...], target: str = "hopper") -> Plan:
    """The plan of a folded program scheduled so; on arrays of the best alignment, where that decides. Raises
    TilegenError."""
    return _ways(folded, directives, None, target)[0].plan()


def _ways(
    folded: FoldedProgram, directives: tuple[Directive, ...], guard: Uniform | None, target: str
) -> tuple[Way, ...]:
    """One for each alignment of arrays."""
    return tuple(Way(folded, *choice, target) for choice in by_alignment(folded, directives, target, guard))


def _own_ways(program: TileProgram, target: str) -> tuple[Way, ...]:
    """Those of a program's first schedule."""
    stated = program.schedule(target)
    return _ways(to_folded(program, target), program.directives(target), stated.guard if stated else None, target)


def lower(program: TileProgram, target: str = "hopper") -> Plan:
    """The plan of a Tile program for a target, by the first of its schedules. Raises TilegenError."""
    return _own_ways(program, target)[0].plan()


def program_of(program: TileProgram, target: str, number: int) -> TileProgram:
    """The program with the schedule alone that the plan of this number, of all that it is lowered to, comes from."""
    for variant in program.variants(target):
        number -= len(_own_ways(variant, target))
        if number < 0:
            return variant
    raise IndexError(f"{program.name} has no plan so late")


def lower_all(program: TileProgram, target: str = "hopper") -> tuple[Plan, ...]:
    """A plan for each schedule that a launch may take, and of one that leaves movers open for each alignment, in their
    order. Raises TilegenError with the faults of all."""
    plans: list[Plan] = []
    errors: list[TilegenError] = []
    for variant in program.variants(target):
        try:
            plans += [way.plan() for way in _own_ways(variant, target)]
        except TilegenError as error:
            errors.append(error)
    if len(errors) > 1:
        raise TilegenError(tuple(dict.fromkeys(d for error in errors for d in error.diagnostics)))
    if errors:
        raise errors[0]
    return tuple(plans)


def of_launch(program: TileProgram, target: str, numbers: Mapping[str, float]) -> tuple[tuple[Way, ...], int]:
    """The ways of all plans that `lower_all` makes, in their order, and which of them a launch of these sizes and
    scalars takes, on arrays without gaps that begin at multiples of 16 bytes. Raises TilegenError, and where none is
    for it."""
    ways = tuple(way for variant in program.variants(target) for way in _own_ways(variant, target))
    shapes = {t.name: t for t in tensors_of(ways[0].folded.tile)}
    aligned = dense_alignments(asked_alignments(ways), shapes, numbers)
    whole = {name: n for name, n in numbers.items() if isinstance(n, int)}
    return ways, taken(ways, {**whole, **aligned}, program, target)
