"""PTX as people read it: its instructions, and the source lines that each stems from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.targets.hopper.sass import Place

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_WRAPPING = re.compile(r"^\s*// (begin|end) inline asm$")
_FUNCTION = re.compile(r"^\s*(\.visible\s+)?\.(entry|func)\b")
_LABEL_OR_BRACE = re.compile(r"^\s*(\$\w+:|[{}()])")
_DEBUG = re.compile(r"^\s*\.(section\s|file\s)")  # where the tables of file and function names begin

_Spot = tuple[str, str, str]  # number of the file, line, column


@dataclass(frozen=True)
class PtxLine:
    """A line of a PTX text, by its number from 1. `places` has its source line first, then where that was inlined."""

    number: int
    text: str
    places: tuple[Place, ...]


def ptx_lines(text: str) -> Iterator[PtxLine]:
    """The lines of a PTX text, less those that only say where the others stem from."""
    files = dict(_FILE.findall(text))
    seen: dict[_Spot, tuple[Place, ...]] = {}  # a call is named by its spot, told of in a line of its own before
    here: tuple[Place, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if m := _LOC.match(line):
            spot = (m[1], m[2], m[3])
            own = (Place(files.get(m[1], ""), int(m[2])),)
            here = own + (seen.get((m[4], m[5], m[6]), (Place(files.get(m[4], ""), int(m[5])),)) if m[4] else ())
            seen[spot] = here
        elif _DEBUG.match(line):
            return
        elif line.strip() and not _WRAPPING.match(line):
            if _FUNCTION.match(line):
                here = ()
            yield PtxLine(number, line.rstrip(), () if _LABEL_OR_BRACE.match(line) else here)
