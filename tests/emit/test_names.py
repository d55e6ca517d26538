"""Identifiers: readable, legal, and never hiding one another."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tilegen.targets.hopper.emit.names import RESERVED, Names


def test_names_stay_as_they_are() -> None:
    assert Names().give(1, "Sq") == "Sq"


def test_a_taken_spelling_gets_a_number() -> None:
    names = Names()
    assert [names.give(n, "k") for n in range(3)] == ["k", "k_2", "k_3"]
    assert names.give(1, "k") == names[1] == "k_2"


def test_words_of_the_language_are_avoided() -> None:
    assert Names().give(1, "int") == "int_"
    assert Names().give(1, "threadIdx") == "threadIdx_"


def test_scopes_side_by_side_use_the_same_spelling() -> None:
    outer = Names()
    assert [Names(outer).give(1, "stage") for _ in range(2)] == ["stage", "stage"]


def test_an_inner_name_hides_no_outer_one_whichever_came_first() -> None:
    outer = Names()
    assert outer.give("a", "load") == "load"
    assert Names(outer).give("b", "load") == "load_2"
    Names(Names(outer)).give("c", "store")
    assert outer.give("d", "store") == "store_2"


def test_an_inner_scope_knows_outer_names() -> None:
    outer = Names()
    outer.give("size", "Sk")
    inner = Names(outer)
    assert inner["size"] == inner.give("size", "other") == "Sk"
    assert "size" in inner
    assert "length" not in inner


def test_words_of_a_function_body_are_taken() -> None:
    assert Names(Names(), {"v", "row"}).give(1, "row") == "row_2"


@given(st.lists(st.text(max_size=8), max_size=12))
def test_any_wish_gives_a_legal_name_of_its_own(wishes: list[str]) -> None:
    names = Names()
    given_names = [names.give(n, w) for n, w in enumerate(wishes)]
    assert len(set(given_names)) == len(wishes)
    for name in given_names:
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        assert name not in RESERVED
        assert not name.startswith("__")
