"""What a search found: its table, its JSON, and the schedule to keep or to paste."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from tilegen.sema.params import defaults
from tilegen.syntax.parsing import parse
from tilegen.tune.search import Case, Search, Tried
from tilegen.tune.spelling import place_for_schedule, schedule_text
from tilegen.tune.store import Kept, guard_of, made_with, size_class, spelt, text_of


def condition(case: Case, search: Search) -> str:
    """Where a schedule serves: these parameters, and sizes up to the class of those it was timed at, as far as they
    measure axes that it cuts into blocks."""
    parts: list[str] = []
    for name, value in case.program.params:
        if value is True or value is False:
            parts.append(name if value else f"not {name}")
        else:
            parts.append(f"{name} == {spelt(value)}")
    s = search.space.scheduled(search.space.own)
    cut = [r.axis for r in s.roles if r.role == "stream" or (r.role == "grid" and r.block > 1)]
    ragged = {r.size for r in case.program.ragged}
    measuring = dict.fromkeys(name for axis in cut for name in sorted(case.program.axis(axis).extent.symbols))
    for name in measuring:
        if name not in ragged and name in case.sizes:
            parts.append(f"{name} <= {1 << size_class(case.sizes[name])}")
    return " and ".join(parts)


def to_paste(case: Case, search: Search, winner: Tried) -> str:
    """The winning `schedule` statement."""
    return schedule_text(winner.candidate.directives, case.target, condition(case, search))


def to_keep(case: Case, search: Search, winner: Tried, device: str) -> Kept | None:
    """The entry for the store; None where tilegen's code changed while it ran."""
    made = made_with()
    if made is None:
        return None
    assert search.standing is not None
    own = next((t for t in search.timed() if t.candidate.own), None)
    classes = {name: size_class(value) for name, value in case.sizes.items()}
    unknown = {name for r in case.program.ragged for name in (r.size, r.over)}  # to the host, when it launches
    ratio = search.standing.ratio(winner.build) if own and own.build == search.standing.against else None
    return Kept(
        kernel=case.program.name,
        device=device,
        made_with=made,
        text=text_of(case.source),
        params={name: spelt(value) for name, value in case.program.params},
        defaults={name: spelt(value) for name, value in defaults(parse(case.source)).items()},
        sizes=dict(case.sizes),
        classes=classes,
        guard=guard_of({name: number for name, number in classes.items() if name not in unknown}),
        schedule=winner.schedule,
        place=place_for_schedule(case.source, case.target),
        ratio=ratio.median if ratio else 0.0,
        when=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def data(case: Case, search: Search, machine: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for a file."""
    standing = search.standing
    ranking = search.timed() if standing else []
    return {
        "kernel": case.program.name,
        "params": {name: spelt(value) for name, value in case.program.params},
        "sizes": dict(case.sizes),
        "scalars": dict(case.scalars),
        "machine": dict(machine),
        "settings": dict(settings),
        "counts": dict(search.counts),
        "rounds": standing.rounds if standing else 0,
        "schedules": [_schedule(t, search) for t in [*ranking, *(t for t in search.tried if t not in ranking)]],
    }


def _schedule(t: Tried, search: Search) -> dict[str, Any]:
    told: dict[str, Any] = {
        "schedule": t.schedule,
        "differs": t.candidate.told,
        "own": t.candidate.own,
        "estimated_cycles": round(t.candidate.estimate),
        "outcome": t.outcome or "ready",
        "why": t.why,
    }
    standing = search.standing
    if standing is not None and t.build in standing.samples:
        ratio = standing.ratio(t.build)
        told |= {
            "error": t.error,
            "samples": [asdict(s) for s in standing.samples[t.build]],
            "times_as_fast": asdict(ratio) if ratio else None,
        }
    return told
