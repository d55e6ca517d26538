"""Every sample has plans for every choice of each of its parameters, the others at their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tilegen.ir.tile import ParamValue
from tilegen.passes.pipeline import lower_all
from tilegen.sema.loading import load
from tilegen.syntax import ast, parse
from tilegen.syntax.reading import read_source

SAMPLES = sorted((Path(__file__).parents[2] / "samples").glob("*.tile"))
APART = {"attention_decode": {"I", "R"}}  # their product is what the consumers share out


def choices(kernel: ast.Kernel) -> Iterator[tuple[str, ParamValue]]:
    for p in kernel.params:
        for choice in p.choices:
            if isinstance(choice, ast.Range):
                assert isinstance(choice.first, ast.Num) and isinstance(choice.last, ast.Num)
                ends = int(choice.first.value), int(choice.last.value)
                yield from ((p.name.name, n) for n in range(ends[0], ends[1] + 1, choice.step))
            elif isinstance(choice, ast.Num):
                yield p.name.name, int(choice.value)
            elif isinstance(choice, ast.Var) and choice.name == "bool":
                yield from ((p.name.name, value) for value in (False, True))
            else:
                assert isinstance(choice, ast.Var)
                yield p.name.name, choice.name


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_every_choice_of_each_parameter_has_a_plan(path: Path) -> None:
    source = read_source(path)
    wanted = [c for c in choices(parse(source)) if c[0] not in APART.get(path.stem, ())]
    for name, value in wanted or [("", 0)]:
        assert lower_all(load(source, {name: value} if name else {}))
