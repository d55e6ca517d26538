"""What operations make of kinds, against arithmetic on numbers that those kinds stand for."""

from __future__ import annotations

import math

import pytest

from tilegen.checks.movement.kinds import ANY, FINITE, FINITE_LIVE, LIVE, NAN, OWN, POSITIVE, Kind, apply, differ, join

INF = math.inf


@pytest.mark.parametrize(
    ("op", "args", "made"),
    [
        ("add", (-INF, INF), NAN),
        ("sub", (-INF, -INF), NAN),
        ("sub", (LIVE, -INF), INF),
        ("sub", (-INF, LIVE), -INF),
        ("fma", (-INF, POSITIVE, INF), NAN),
        ("mul", (0.0, INF), NAN),
        ("mul", (0.0, FINITE), 0.0),
        ("mul", (0.0, LIVE), OWN),
        ("mul", (NAN, ANY), NAN),
        ("max", (NAN, LIVE), NAN),
        ("ex2", (NAN,), NAN),
        ("ex2", (-INF,), 0.0),
        ("ex2", (2000.0,), INF),
        ("rcp", (0.0,), INF),
        ("le", (NAN, 1024.0), 0.0),
        ("ne", (NAN, OWN), 1.0),
        ("select", (0.0, LIVE, 1.0), 1.0),
        ("select", (LIVE, LIVE, NAN), OWN),
        ("and", (0.0, ANY), 0.0),
        ("add", (ANY, 1.0), ANY),
        ("add", (FINITE_LIVE, POSITIVE), LIVE),
        ("add", (FINITE, LIVE), OWN),
        ("tanh", (1.0,), LIVE),
    ],
)
def test_operations(op: str, args: tuple[Kind, ...], made: Kind) -> None:
    assert apply(op, args) == made


def test_either_of_two_is_no_number_only_where_both_are() -> None:
    assert (join(NAN, NAN), join(NAN, LIVE), join(0.0, NAN), join(NAN, ANY)) == (NAN, OWN, OWN, ANY)
    assert (join(0.0, 1.0), join(LIVE, OWN), join(-INF, ANY)) == (LIVE, OWN, ANY)


def test_constants_differ_beyond_their_rounding() -> None:
    assert differ(1.0, 2.0)
    assert differ(NAN, 0.0)
    assert not differ(1.0, 1.001)
    assert not differ(-INF, -INF)
    assert not differ(0.0, LIVE)
