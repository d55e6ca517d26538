"""The passes in order, from a Tile program to a plan."""

from __future__ import annotations

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
from tilegen.passes.fills import check_fills
from tilegen.passes.fold import fold
from tilegen.passes.guard import guard
from tilegen.passes.isolate import check_scans, isolate
from tilegen.passes.movers import Choice, by_alignment
from tilegen.passes.overlap import check_under
from tilegen.passes.rewrites import apply_directives, role_overrides
from tilegen.passes.schedule import schedule
from tilegen.passes.synchronise import synchronise
from tilegen.passes.synchronise_sm80 import first_with_room
from tilegen.passes.tokens import as_tokens

TARGETS = ("hopper", "sm_80")  # of plans; `synchronise_mls` makes others


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
    extents = {a.name: a.extent.constant for a in folded.tile.axes}
    scheduled = schedule(folded, target, role_overrides(directives, extents))
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
    return with_directives(folded, by_alignment(folded, directives, target)[0][0], target)


def plan_with(folded: FoldedProgram, directives: tuple[Directive, ...], target: str = "hopper") -> Plan:
    """The plan of a folded program scheduled so; on arrays of the best alignment, where that decides. Raises
    TilegenError."""
    return _plan(folded, *by_alignment(folded, directives, target)[0], target)


def _plan(folded: FoldedProgram, directives: tuple[Directive, ...], guard: Uniform | None, target: str) -> Plan:
    if target == "sm_80":
        plan = first_with_room(folded, directives, guard)
    else:
        plan = synchronise(with_directives(folded, directives, target), guard)
    verify_plan(plan)
    check_under(plan, directives)
    return plan


def lower(program: TileProgram, target: str = "hopper") -> Plan:
    """The plan of a Tile program for a target, by the first of its schedules. Raises TilegenError."""
    folded = to_folded(program, target)
    return _plan(folded, *_choices(folded, target)[0], target)


def program_of(program: TileProgram, target: str, number: int) -> TileProgram:
    """The program with the schedule alone that the plan of this number, of all that it is lowered to, comes from."""
    for variant in program.variants(target):
        number -= len(_choices(to_folded(variant, target), target))
        if number < 0:
            return variant
    raise IndexError(f"{program.name} has no plan so late")


def _choices(folded: FoldedProgram, target: str) -> tuple[Choice, ...]:
    """What a program with one schedule is scheduled by, for each alignment."""
    chosen = folded.tile.schedule(target)
    return by_alignment(folded, folded.tile.directives(target), target, chosen.guard if chosen else None)


def lower_all(program: TileProgram, target: str = "hopper") -> tuple[Plan, ...]:
    """A plan for each schedule that a launch may take, and of one that leaves movers open for each alignment, in their
    order. Raises TilegenError with the faults of all."""
    plans: list[Plan] = []
    errors: list[TilegenError] = []
    for variant in program.variants(target):
        try:
            folded = to_folded(variant, target)
            plans += [_plan(folded, *choice, target) for choice in _choices(folded, target)]
        except TilegenError as error:
            errors.append(error)
    if len(errors) > 1:
        raise TilegenError(tuple(dict.fromkeys(d for error in errors for d in error.diagnostics)))
    if errors:
        raise errors[0]
    return tuple(plans)
