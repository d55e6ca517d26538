"""The catalogue is whole, and docs/errors.md is made from it."""

from __future__ import annotations

import string

import pytest

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.document import PATH, errors_page, main
from tilegen.diagnostics.entries import ENTRIES, SECTIONS, assembled


def fields(code: Code) -> set[str]:
    entry = ENTRIES[code]
    return {
        field for text in (entry.message, *entry.fixes) for _, field, _, _ in string.Formatter().parse(text) if field
    }


@pytest.mark.parametrize("code", list(Code), ids=lambda c: c.name)
def test_each_entry_says_what_is_wrong_and_what_to_do(code: Code) -> None:
    made = fault(code, None, **{name: f"<{name}>" for name in fields(code)})
    assert made.code == code.name
    assert made.message
    assert made.fixes
    assert all(f"<{name}>" in " ".join((made.message, *made.fixes)) for name in fields(code))
    assert not made.message.endswith(".")


def test_a_code_without_an_entry_and_one_with_two_are_refused() -> None:
    first, *others = (entry for section in SECTIONS.values() for entry in section)
    assert assembled([(first,), tuple(others)]) == ENTRIES
    with pytest.raises(ValueError, match=f": {first.code.name}$"):
        assembled([tuple(others)])
    with pytest.raises(ValueError, match=f": {first.code.name}$"):
        assembled([(first, first), tuple(others)])


def test_codes_stand_in_the_order_of_their_entries() -> None:
    assert list(ENTRIES) == list(Code)


def test_the_page_lists_every_code_once() -> None:
    headings = [line.removeprefix("### ") for line in errors_page().splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(Code.__members__)


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PATH.read_text(encoding="utf-8") == errors_page(), "run `python -m tilegen.diagnostics.document`"
    assert main(["--check"]) == 0


def test_the_check_finds_a_page_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.diagnostics.document.PATH", PATH.parent / "no_such_page.md")
    assert main(["--check"]) == 1
