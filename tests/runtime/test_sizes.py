"""Sizes from shapes, and who disagrees with whom."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import TensorShape
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.runtime.arrays import describe
from tilegen.runtime.sizes import infer_sizes
from tilegen.syntax.span import Span

B, SQ, SK, HK, G = (Sym(n) for n in ("B", "Sq", "Sk", "Hk", "G"))


def shape(name: str, *dims: Uniform) -> TensorShape:
    return TensorShape(name, DType.F16, dims, name == "O")


ATTENTION = (
    shape("Q", B, SQ, op("mul", HK, G), Int(64)),
    shape("K", B, SK, HK, Int(64)),
    shape("O", B, SQ, op("mul", HK, G), Int(64)),
)
SPANS = {"Q": Span("a.tile", 3, 9, 3, 20), "K": Span("a.tile", 4, 9, 4, 20)}


def infer(given: dict[str, int] | None = None, **shapes: tuple[int, ...]) -> dict[str, int]:
    views = {name: describe(np.broadcast_to(np.float16(1), s)) for name, s in shapes.items()}
    return infer_sizes(ATTENTION, views, given or {}, SPANS)


def refused(given: dict[str, int] | None = None, **shapes: tuple[int, ...]) -> Diagnostic:
    with pytest.raises(TilegenError) as caught:
        infer(given, **shapes)
    return caught.value.diagnostics[0]


def test_factors_are_found_by_division() -> None:
    assert infer(Q=(2, 100, 12, 64), K=(2, 70, 3, 64)) == {"B": 2, "Sq": 100, "Sk": 70, "Hk": 3, "G": 4}


def test_a_given_size_is_checked() -> None:
    assert infer({"G": 4}, Q=(2, 100, 12, 64), K=(2, 70, 3, 64))["G"] == 4
    d = refused({"G": 5}, Q=(2, 100, 12, 64), K=(2, 70, 3, 64))
    assert (d.code, d.got, d.wanted) == ("ARRAY_EXTENT", "12", "15")
    assert "dimension 2 of Q" in d.message
    assert "G = 5 as given" in d.message


def test_disagreeing_arrays_are_both_named() -> None:
    d = refused(Q=(2, 100, 12, 64), K=(3, 70, 3, 64))
    assert (d.code, d.got, d.wanted) == ("ARRAY_EXTENT", "3", "2")
    assert "dimension 0 of K" in d.message
    assert "B = 2 of Q" in d.message
    assert d.span == SPANS["K"]


def test_a_group_that_does_not_divide_is_named() -> None:
    d = refused(Q=(2, 100, 10, 64), K=(2, 70, 3, 64))
    assert d.code == "ARRAY_EXTENT"
    assert d.message == "dimension 2 of Q, which is Hk * G, does not fit: 10 is not a multiple of Hk = 3"
    assert (d.got, d.wanted) == ("10", "a multiple of 3 (Hk = 3 of K)")


def test_a_compiled_in_extent_is_named() -> None:
    d = refused(Q=(2, 100, 12, 80), K=(2, 70, 3, 64))
    assert (d.got, d.wanted) == ("80", "64")
    assert "the value it is compiled for" in d.message


def test_a_wrong_rank_is_named() -> None:
    d = refused(Q=(100, 12, 64), K=(2, 70, 3, 64))
    assert (d.code, d.got, d.wanted) == ("ARRAY_RANK", "shape (100, 12, 64)", "4 dimensions")
    assert "[B, Sq, Hk * G, 64]" in d.fixes[0]


def test_a_size_that_nothing_determines_is_asked_for() -> None:
    d = refused(Q=(2, 100, 12, 64))
    assert d.code == "SIZE_UNKNOWN"
    with pytest.raises(TilegenError) as caught:
        infer(Q=(2, 100, 12, 64))
    assert [d.message for d in caught.value.diagnostics] == [
        f"the size {s} does not follow from the shapes of the arrays" for s in ("G", "Hk", "Sk")
    ]
    assert infer({"G": 4, "Sk": 9}, Q=(2, 100, 12, 64))["Hk"] == 3


def test_empty_extents_are_sizes_like_others() -> None:
    assert infer(Q=(2, 100, 12, 64), K=(2, 0, 3, 64))["Sk"] == 0
    assert infer(Q=(2, 100, 0, 64), K=(2, 7, 0, 64)) == {"B": 2, "Sq": 100, "Sk": 7, "Hk": 0, "G": 1}


def test_extents_past_int32_are_refused() -> None:
    assert infer(Q=(1, 2**31 - 1, 1, 64), K=(1, 1, 1, 64))["Sq"] == 2**31 - 1
    d = refused(Q=(1, 2**31, 1, 64), K=(1, 1, 1, 64))
    assert (d.code, d.got) == ("SIZE_RANGE", str(2**31))
