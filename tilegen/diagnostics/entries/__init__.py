"""What each code says, in sections by what the entries are about: `docs/errors.md` is made from them.

Each entry has a test that makes it fire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entries import (
    building,
    commands,
    directives,
    emulation,
    launching,
    lowering,
    mls_lowering,
    mls_programs,
    plans,
    sm80,
    syntax,
)
from tilegen.diagnostics.entry import Entry

SECTIONS: dict[str, tuple[Entry, ...]] = {
    "syntax and names": syntax.ENTRIES,
    "schedules and lowering": (*lowering.ENTRIES, *directives.ENTRIES),
    "plan and resources": plans.ENTRIES,
    "building": building.ENTRIES,
    "launching": launching.ENTRIES,
    "emulation": emulation.ENTRIES,
    "sm_80": sm80.ENTRIES,
    "MLS programs": mls_programs.ENTRIES,
    "lowering to MLS": mls_lowering.ENTRIES,
    "commands": commands.ENTRIES,
}


def assembled(sections: Iterable[tuple[Entry, ...]]) -> dict[Code, Entry]:
    """The entry of each code. Raises ValueError where a code has none or several."""
    entries = [entry for section in sections for entry in section]
    counts = Counter(entry.code for entry in entries)
    if wrong := [code.name for code in Code if counts[code] != 1]:
        raise ValueError(f"these codes have no entry, or several: {', '.join(wrong)}")
    return {entry.code: entry for entry in entries}


ENTRIES = assembled(SECTIONS.values())
