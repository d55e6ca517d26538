"""Every example of docs/language.md does what the page says, and the page leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.tile_verify import verify
from tilegen.passes.pipeline import lower
from tilegen.sema import load
from tilegen.sema.builtins import FOLDS, FUNCTIONS
from tilegen.syntax.scan import DIRECTIVES, STATEMENTS
from tilegen.syntax.span import Source

PAGE = (Path(__file__).parent.parent / "docs" / "language.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```tile(?: refused (?P<code>\w+))?\n(?P<text>.*?)^```", re.M | re.S)
EXAMPLES = [(m["code"], m["text"]) for m in BLOCK.finditer(PAGE)]
VALID = [text for code, text in EXAMPLES if code is None]
HEADINGS = re.findall(r"^## (.+)$", PAGE, re.M)


def kernel_name(text: str) -> str:
    match = re.search(r"^kernel (\w+)", text, re.M)
    assert match
    return match[1]


@pytest.mark.parametrize("text", VALID, ids=kernel_name)
def test_an_example_is_a_valid_program(text: str) -> None:
    verify(load(Source("docs/language.md", text), {}))


@pytest.mark.parametrize(("code", "text"), [example for example in EXAMPLES if example[0]])
def test_a_refused_example_is_refused_for_the_reason_given(code: str, text: str) -> None:
    with pytest.raises(TilegenError) as error:
        load(Source("docs/language.md", text), {})
    assert [d.code for d in error.value.diagnostics] == [code]


def refused_later() -> dict[str, set[str]]:
    """The examples that the page says are not compiled yet, with the codes it gives."""
    rows = re.findall(r"^\| .* \| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| `(\w+)` \|$", PAGE, re.M)
    return {name: set(re.findall(r"\w+", codes)) for codes, name in rows}


def test_the_examples_listed_as_not_compiled_are_examples() -> None:
    assert len(refused_later()) == 8
    assert refused_later().keys() < {kernel_name(text) for text in VALID}


@pytest.mark.parametrize("text", VALID, ids=kernel_name)
def test_an_example_compiles_unless_the_page_says_that_it_does_not(text: str) -> None:
    codes = refused_later().get(kernel_name(text))
    if codes is None:
        lower(load(Source("docs/language.md", text), {}))
        return
    with pytest.raises(TilegenError) as error:
        lower(load(Source("docs/language.md", text), {}))
    assert {d.code for d in error.value.diagnostics} <= codes


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
