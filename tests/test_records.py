"""Classes by tilegen's own `dataclass` act as those of the standard one."""

from __future__ import annotations

import dataclasses

import pytest

from tilegen.records import dataclass


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class One:
    """One field, whose value alone is no tuple."""

    value: object


@dataclass(frozen=True)
class Two:
    name: str
    sizes: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Other:
    name: str
    sizes: tuple[int, ...] = (1,)


@dataclasses.dataclass(frozen=True)
class Standard:
    name: str
    sizes: tuple[int, ...] = (1,)


def test_equal_are_those_of_one_class_with_equal_fields() -> None:
    assert Two("a") == Two("a", (1,))
    assert Two("a") != Two("b")
    assert Two("a") != Other("a")
    assert Nothing() == Nothing()
    assert One((1, 2)) == One((1, 2)) != One(1)


def test_what_is_equal_has_one_hash() -> None:
    assert {Two("a"), Two("a"), Two("b")} == {Two("b"), Two("a")}
    assert hash(Two("a")) == hash(Standard("a"))
    assert len({Nothing(), Nothing(), One(1), One(1)}) == 2


def test_the_text_names_the_fields() -> None:
    assert repr(Two("a", (2, 3))) == "Two(name='a', sizes=(2, 3))"
    assert repr(Nothing()) == "Nothing()"
    assert repr(One(Nothing())) == "One(value=Nothing())"


def test_what_the_standard_library_does_with_dataclasses_works() -> None:
    assert dataclasses.replace(Two("a"), name="b") == Two("b")
    assert [f.name for f in dataclasses.fields(Two)] == ["name", "sizes"]
    match Two("a"):
        case Two(name, sizes):
            assert (name, sizes) == ("a", (1,))


def test_they_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Two("a").name = "b"  # type: ignore[misc]
