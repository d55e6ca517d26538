"""Parameters: what a build may give, from Python and from a command line."""

from __future__ import annotations

import pytest

from tests.sema.faults import BASE, loaded, reported, underlined
from tilegen.ir.dtypes import DType

OPEN = "kernel k(N: int = 3, x: float = 1, on: bool = true) { size M input A: f32[M, N] output C: f32[M, N]" + (
    " C[i, j] = select(on, x, 2) * A[i, j] }"
)


def test_defaults_are_bound() -> None:
    assert dict(loaded(BASE).params) == {"T": DType.BF16, "D": 64, "flag": False}


@pytest.mark.parametrize("given", [{"T": "f16", "D": "128", "flag": "true"}, {"T": DType.F16, "D": 128, "flag": True}])
def test_values_come_as_strings_or_as_they_are(given: dict[str, str]) -> None:
    assert dict(loaded(BASE, given).params) == {"T": DType.F16, "D": 128, "flag": True}


def test_a_parameter_changes_extents_types_and_scalars() -> None:
    program = loaded(BASE, {"D": 128, "T": "f16"})
    assert program.axis("d").extent.constant == 128
    assert program.move("a").dtype is DType.F16


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("D", "96", "64 or 128"),
        ("D", "64.0", "64 or 128"),
        ("D", "", "64 or 128"),
        ("D", True, "64 or 128"),
        ("T", "f32", "bf16 or f16"),
        ("T", "64", "bf16 or f16"),
        ("flag", "1", "true or false: did you mean `true`?"),
        ("flag", "False", "true or false: did you mean `false`?"),
        ("flag", "2", "true or false"),
        ("flag", "yes", "true or false: did you mean `true`?"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_those_that_are(name: str, value: str, wanted: str) -> None:
    (found,) = reported(BASE, {name: value})
    assert (found.code, found.got, found.wanted) == ("PARAMETER_VALUE", str(value), wanted)
    assert found.message == f"the value given for the parameter {name} is not one that it allows"
    assert found.span is not None
    assert underlined(BASE, found.span).startswith(f"{name}: ")


def test_an_unknown_parameter_is_refused_with_the_nearest_known_one() -> None:
    (found,) = reported(BASE, {"flags": "true"})
    assert (found.code, found.wanted) == ("UNKNOWN_PARAMETER", "did you mean `flag`?")
    assert "-D" not in "".join(found.fixes)


def test_every_wrong_value_is_reported() -> None:
    assert [d.code for d in reported(BASE, {"D": 1, "T": "f8", "z": 3})] == [
        "UNKNOWN_PARAMETER", "PARAMETER_VALUE", "PARAMETER_VALUE"
    ]  # fmt: skip


def test_open_parameters_take_any_value_of_their_type() -> None:
    program = loaded(OPEN, {"N": "9", "x": "2", "on": "false"})
    assert dict(program.params) == {"N": 9, "x": 2.0, "on": False}
    assert program.axis("j").extent.constant == 9


@pytest.mark.parametrize(("name", "value"), [("N", "2.5"), ("N", "three"), ("x", "true"), ("on", "0")])
def test_open_parameters_refuse_values_of_another_type(name: str, value: str) -> None:
    assert [d.code for d in reported(OPEN, {name: value})] == ["PARAMETER_VALUE"]


RANGES = BASE.replace("D: 64 | 128 = 64", "D: 8 .. 64 by 8 | 128 = 64")


@pytest.mark.parametrize("value", ["8", "56", 64, "128"])
def test_a_value_in_a_range_is_allowed(value: str | int) -> None:
    assert dict(loaded(RANGES, {"D": value}).params)["D"] == int(value)


@pytest.mark.parametrize("value", ["0", "12", "72", "8.0", True])
def test_a_value_outside_of_a_range_is_refused_with_the_range(value: str | bool) -> None:
    (found,) = reported(RANGES, {"D": value})
    assert (found.code, found.got, found.wanted) == ("PARAMETER_VALUE", str(value), "8 .. 64 by 8 or 128")


def test_a_range_without_a_step_is_of_every_whole_number() -> None:
    (found,) = reported(BASE.replace("64 | 128 = 64", "1 .. 64 = 64"), {"D": 65})
    assert found.wanted == "1 .. 64"


@pytest.mark.parametrize("wrong", ["64 .. 8 by 8", "8 .. 64 by 0", "8 .. 63 by 8", "8 .. 64.0 by 8", "8.5 .. 64"])
def test_a_range_that_does_not_lead_to_its_end_is_refused(wrong: str) -> None:
    spec = BASE.replace("64 | 128 = 64", f"{wrong} = 64")
    (found,) = reported(spec)
    assert found.code == "PARAMETER_RANGE"
    assert found.span is not None
    assert underlined(spec, found.span) == wrong
