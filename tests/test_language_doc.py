"""Every example of docs/language.md does what the page says, and the page leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.tile_verify import verify
from tilegen.sema import load
from tilegen.sema.builtins import FOLDS, FUNCTIONS
from tilegen.syntax.scan import DIRECTIVES, STATEMENTS
from tilegen.syntax.span import Source

PAGE = (Path(__file__).parent.parent / "docs" / "language.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```tile(?: refused (?P<code>\w+))?\n(?P<text>.*?)^```", re.M | re.S)
EXAMPLES = [(m["code"], m["text"]) for m in BLOCK.finditer(PAGE)]
VALID = [text for code, text in EXAMPLES if code is None]
HEADINGS = re.findall(r"^## (.+)$", PAGE, re.M)


@pytest.mark.parametrize("text", VALID, ids=lambda text: text.partition("kernel ")[2].split()[0])
def test_an_example_is_a_valid_program(text: str) -> None:
    verify(load(Source("docs/language.md", text), {}))


@pytest.mark.parametrize(("code", "text"), [example for example in EXAMPLES if example[0]])
def test_a_refused_example_is_refused_for_the_reason_given(code: str, text: str) -> None:
    with pytest.raises(TilegenError) as error:
        load(Source("docs/language.md", text), {})
    assert [d.code for d in error.value.diagnostics] == [code]


def test_every_feature_has_an_example() -> None:
    for heading, body in zip(HEADINGS, re.split(r"^## .+$", PAGE, flags=re.M)[1:], strict=True):
        assert "```tile\n" in body, heading


def test_the_contents_list_every_feature() -> None:
    listed = re.findall(r"^- \[(.+)\]\(#(.+)\)$", PAGE, re.M)
    assert [name for name, _ in listed] == HEADINGS
    assert all(anchor == re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-") for name, anchor in listed)


@pytest.mark.parametrize("word", [*STATEMENTS, *DIRECTIVES, *FUNCTIONS, *FOLDS])
def test_every_keyword_function_and_fold_is_shown(word: str) -> None:
    shown = "\n".join(text for _, text in EXAMPLES) + "\n".join(re.findall(r"`[^`\n]+`", PAGE))
    assert re.search(rf"\b{word}\b", shown)
