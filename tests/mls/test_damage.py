"""Programs with random damage: whatever is done to a text, it runs, or a diagnostic says why it does not."""

from __future__ import annotations

import contextlib
import random
import re

import pytest

from tests.mls.programs import COPY, SOFTMAX, program
from tests.mls.running import copy, softmax
from tilegen.diagnostics.core import TilegenError
from tilegen.targets.mls.checks import check

NUMBERS = (0, 1, 2, 7, 15, 16, 63, 64, 255, 4096, 65535, 1 << 31, (1 << 32) - 1)


def damaged(text: str, draw: random.Random) -> str:
    """One line dropped, replaced by another, mixed with another, or with another number in it."""
    lines = text.split("\n")
    body = [n for n, line in enumerate(lines) if line.startswith("    ")]
    n, other = draw.choice(body), lines[draw.choice(body)]
    match draw.randrange(4):
        case 0:
            lines[n] = ""
        case 1:
            lines[n] = other
        case 2:
            words, others = (line.split(";")[0].replace(",", " ,").split() for line in (lines[n], other))
            words[draw.randrange(len(words))] = draw.choice(others)
            lines[n] = "    " + " ".join(words)
        case _:
            places = list(re.finditer(r"\d+", lines[n]))
            if places:
                start, end = draw.choice(places).span()
                lines[n] = f"{lines[n][:start]}{draw.choice(NUMBERS)}{lines[n][end:]}"
    return "\n".join(lines)


@pytest.mark.parametrize("text", [COPY, SOFTMAX])
def test_damage_is_told_of(text: str) -> None:
    reached = 0
    for seed in range(80):
        with contextlib.suppress(TilegenError):  # anything else that is raised fails the test
            made = program(damaged(text, random.Random(seed)))
            check(made)
            reached += 1
            if text is COPY:
                copy(17, 40, made, step_limit=5000)
            else:
                softmax(17, made, step_limit=5000)
    assert reached > 20
