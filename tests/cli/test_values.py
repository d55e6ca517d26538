"""`-D` and `--size` are read as written, and what they cannot mean is refused in words."""

from __future__ import annotations

import pytest

from tilegen.cli.values import parameters, sizes
from tilegen.diagnostics.core import TilegenError


def test_parameters_keep_the_text_of_their_values() -> None:
    assert parameters(("D=64", "causal=true", "T = f16", "eps=1e-5")) == {
        "D": "64",
        "causal": "true",
        "T": "f16",
        "eps": "1e-5",
    }


def test_sizes_take_numbers_scalars_and_lists() -> None:
    assert sizes(("B=2,Sq=[0, 9,130],Sk=77", "scale=-0.5")) == {"B": 2, "Sq": [0, 9, 130], "Sk": 77, "scale": -0.5}


@pytest.mark.parametrize("pair", ["D", "D=", "=3", "2D=3", "D E=3"])
def test_a_parameter_that_is_no_name_and_value_is_refused(pair: str) -> None:
    with pytest.raises(TilegenError, match="BAD_USAGE: -D"):
        parameters((pair,))


@pytest.mark.parametrize("option", ["Sq", "Sq=", "Sq=[1,2", "Sq=[]", "Sq=[1.5]", "Sq=[-1]", "Sq=[a]", "Sq=x", "Sq=1,,"])
def test_a_size_that_is_no_number_and_no_list_is_refused(option: str) -> None:
    with pytest.raises(TilegenError, match="BAD_USAGE: --size"):
        sizes((option,))


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(TilegenError, match="-D gives D twice"):
        parameters(("D=64", "D=128"))
    with pytest.raises(TilegenError, match="--size gives Sq twice"):
        sizes(("Sq=1", "B=1,Sq=2"))
