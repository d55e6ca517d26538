"""The verifier of Tile programs finds each breach."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import pytest

from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Apply, Axis, Cast, Fold, Number, Read, Symbol, TileProgram
from tilegen.ir.tile_verify import InvalidProgram, verify
from tilegen.ir.uniform import Int, Op, Sym
from tilegen.sema import load
from tilegen.syntax.span import Span

ROOT = Path(__file__).parents[2]
HERE = Span("made.tile", 1, 1, 1, 2)


@pytest.fixture(scope="module")
def program() -> TileProgram:
    return load(ROOT / "samples" / "fa3_fwd.tile", {"causal": True})


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("samples/*.tile"), *ROOT.glob("tests/specs/*.tile")]), ids=lambda p: p.stem
)
def test_what_the_front_end_makes_is_valid(path: Path) -> None:
    verify(load(path, {}))


def with_definition(program: TileProgram, name: str, **changes: object) -> TileProgram:
    changed = tuple(replace(d, **changes) if d.name == name else d for d in program.definitions)  # type: ignore[arg-type]
    return replace(program, definitions=changed)


def broken(program: TileProgram, match: str) -> None:
    with pytest.raises(InvalidProgram, match=match):
        verify(program)


def test_a_definition_must_stand_before_its_readers(program: TileProgram) -> None:
    broken(replace(program, definitions=program.definitions[::-1]), "not defined before it is read")


def test_names_are_declared_once(program: TileProgram) -> None:
    broken(replace(program, moves=(*program.moves, program.moves[0])), "declared twice")


def test_every_output_is_defined(program: TileProgram) -> None:
    broken(replace(program, definitions=program.definitions[:-1]), "outputs")


def test_carried_axes_must_be_those_reached(program: TileProgram) -> None:
    broken(with_definition(program, "s", axes=("i", "j", "b")), "axes")
    broken(with_definition(program, "s", axes=("i", "j", "b", "h", "e")), "axes")


def test_an_output_carries_nothing(program: TileProgram) -> None:
    broken(with_definition(program, "O", index=("b", "i", "e"), axes=("b", "i", "e", "h")), "leaves out")


def test_ranks_must_fit(program: TileProgram) -> None:
    move = program.move("k")
    changed = replace(move, at=move.at[:-1], axes=("b", "j", "g"), index=("j",))
    broken(replace(program, moves=(program.moves[0], changed, program.moves[2])), "rank of K")
    short = Read("s", (Affine((("i", 1),), Poly(), HERE),), DType.F32, HERE)
    broken(with_definition(program, "p", value=short), "rank of s")


def test_types_must_follow(program: TileProgram) -> None:
    s = program.definition("s")
    broken(with_definition(program, "s", dtype=DType.BF16), "bf16 of f32")
    broken(with_definition(program, "s", value=replace(s.value, dtype=DType.BF16), dtype=DType.BF16), "mul of type")
    truth = Apply("lt", (s.value, s.value), DType.BOOL, HERE)
    broken(with_definition(program, "s", value=Apply("exp", (truth,), DType.F32, HERE)), "exp of type")
    broken(with_definition(program, "s", value=Cast(truth, DType.F32, HERE)), "cast of a truth value")
    broken(with_definition(program, "s", value=Number(1.5, DType.I32, HERE), dtype=DType.I32), "whole number")


def test_unknown_things_are_found(program: TileProgram) -> None:
    s = program.definition("s")
    broken(with_definition(program, "s", value=Symbol("scala", DType.F32, HERE)), "no symbol scala")
    broken(with_definition(program, "s", value=Apply("sinh", (s.value,), DType.F32, HERE)), "sinh")
    broken(replace(program, axes=program.axes[1:]), "unknown ax")
    broken(replace(program, sizes=program.sizes[1:]), "unknown sizes")


def test_folds_run_over_axes_of_their_body(program: TileProgram) -> None:
    lse = program.definition("LSE").value
    assert isinstance(lse, Fold)
    broken(with_definition(program, "LSE", value=replace(lse, axes=("e",))), "which the body does not have")
    broken(with_definition(program, "LSE", value=replace(lse, args=lse.args * 2)), "2 arguments")


def test_split_parts_multiply_to_the_axis(program: TileProgram) -> None:
    axes = tuple(replace(a, extent=Poly.symbol("Hk")) if a.name == "r" else a for a in program.axes)
    broken(replace(program, axes=axes), "extents")


def test_clauses_are_about_their_axes(program: TileProgram) -> None:
    (clause,) = program.domain
    broken(replace(program, domain=(replace(clause, axes=("i",)),)), "depends on")
    broken(replace(program, domain=(replace(clause, alternatives=((),)),)), "empty alternative")


def test_every_node_of_a_program_has_a_place(program: TileProgram) -> None:
    def places(node: object) -> int:
        if isinstance(node, tuple):
            return sum(places(part) for part in node)
        if not dataclasses.is_dataclass(node) or isinstance(node, Span | Poly | Int | Sym | Op):
            return 0
        if type(node).__name__ != "Source":
            assert isinstance(node.span, Span)  # type: ignore[attr-defined]
        return 1 + sum(places(getattr(node, f.name)) for f in dataclasses.fields(node))

    assert places(program) > 80
    assert isinstance(program.axis("d"), Axis)
