"""Damaged specs give diagnostics or valid programs, never anything else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.ir.test_tile_text import EVERYTHING
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.diagnostics.render import render
from tilegen.ir.tile import TileProgram
from tilegen.ir.tile_text import print_program
from tilegen.ir.tile_verify import verify
from tilegen.sema import load
from tilegen.syntax.span import Source

ROOT = Path(__file__).parents[2]
SPECS = [*sorted(ROOT.glob("samples/*.tile")), *sorted(ROOT.glob("tests/specs/*.tile"))]
TEXTS = {p.stem: p.read_text(encoding="utf-8") for p in SPECS} | {"everything": EVERYTHING}
WORD = re.compile(r"\s+|#[^\n]*|\w+|[<>=!]=|.")


def kind(word: str) -> str:
    if word[0].isdigit():
        return "number"
    if re.match(r"\w", word):
        return "name"
    return "operator" if word in "+-*/<>" else word


def damaged(text: str, dice: random.Random) -> str:
    """One or two words replaced by others of the same kind, or exchanged with them."""
    words = WORD.findall(text)
    for _ in range(dice.choice([1, 1, 2])):
        place = dice.choice([n for n, w in enumerate(words) if re.match(r"[\w+\-*/<>]", w)])
        other = dice.choice([n for n, w in enumerate(words) if w.strip() and kind(w) == kind(words[place])])
        if dice.random() < 0.75:
            words[place] = words[other]
        else:
            words[place], words[other] = words[other], words[place]
    return "".join(words)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_damage_is_reported_or_harmless(name: str) -> None:
    dice = random.Random(name)
    refused = 0
    for _ in range(25):
        text = damaged(TEXTS[name], dice)
        source = Source("damaged.tile", text)
        program: TileProgram | None = None
        found: tuple[Diagnostic, ...] = ()
        try:
            program = load(source, {})
        except TilegenError as error:
            found = error.diagnostics
        if program is not None:
            verify(program)
            verify(load(Source("printed.tile", print_program(program)), {}))
            continue
        refused += 1
        assert found, text
        assert all(d.span is not None for d in found), text
        assert render(found, {source.name: source})
    assert refused > 5
