"""The oracle on Tile programs built node by node, without the front end."""

from __future__ import annotations

import numpy as np

from tests import formulas
from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.tile import (
    Affine,
    Apply,
    Axis,
    Cast,
    Clause,
    Definition,
    Expr,
    Fold,
    Guard,
    Lookup,
    Move,
    Number,
    Read,
    Size,
    Split,
    Tensor,
    TileProgram,
)
from tilegen.oracle import evaluate, random_inputs
from tilegen.syntax.span import Source, Span

AT = Span("hand.tile", 1, 1, 1, 2)
F32, BF16, I32 = DType.F32, DType.BF16, DType.I32


def n(name: str) -> Poly:
    return Poly.symbol(name)


def on(*axes: str) -> tuple[Affine, ...]:
    return tuple(Affine(((a, 1),), Poly(), AT) for a in axes)


def read(name: str, *axes: str, dtype: DType = BF16) -> Read:
    return Read(name, on(*axes), dtype, AT)


def fold(kind: str, axis: str, *args: Expr, dtype: DType = F32) -> Fold:
    return Fold(kind, (axis,), args, (), dtype, AT)


def times(a: Expr, b: Expr) -> Apply:
    return Apply("mul", (a, b), F32, AT)


def program(
    sizes: str,
    tensors: tuple[Tensor, ...],
    axes: tuple[Axis, ...],
    moves: tuple[Move, ...],
    definitions: tuple[Definition, ...],
    domain: tuple[Clause, ...] = (),
) -> TileProgram:
    return TileProgram(
        "hand", (), tuple(Size(s, None, AT) for s in sizes.split()), (), tensors, axes, (), domain, moves, definitions,
        (), Source("hand.tile", ""), AT,
    )  # fmt: skip


def test_a_product() -> None:
    gemm = program(
        "M N K",
        (
            Tensor("A", BF16, (n("M"), n("K")), False, None, AT),
            Tensor("B", BF16, (n("K"), n("N")), False, None, AT),
            Tensor("C", BF16, (n("M"), n("N")), True, None, AT),
        ),
        tuple(Axis(a, n(s), None, AT) for a, s in (("m", "M"), ("n", "N"), ("k", "K"))),
        (Move("a", ("m", "k"), "A", on("m", "k"), ("m", "k"), BF16, AT),),
        (
            Definition(
                "C", ("m", "n"), fold("sum", "k", times(read("a", "m", "k"), read("B", "k", "n"))), ("m", "n"),
                True, F32, AT,
            ),
        ),
    )  # fmt: skip
    sizes = {"M": 5, "N": 8, "K": 16}
    data = random_inputs(gemm, sizes, 0)
    np.testing.assert_allclose(evaluate(gemm, sizes, {}, data)["C"].value, formulas.gemm(data["A"], data["B"]))


def test_attention_with_grouped_heads_and_a_guarded_clause() -> None:
    heads = n("Hk") * n("G")
    axes = (
        Axis("h", heads, Split("g", "r", AT), AT),
        Axis("g", n("Hk"), None, AT),
        Axis("r", n("G"), None, AT),
        Axis("i", n("Sq"), None, AT),
        Axis("j", n("Sk"), None, AT),
        Axis("d", Poly.const(16), None, AT),
        Axis("e", Poly.const(16), None, AT),
    )
    sixteen = Poly.const(16)
    tensors = (
        Tensor("Q", BF16, (n("Sq"), heads, sixteen), False, None, AT),
        Tensor("K", BF16, (n("Sk"), n("Hk"), sixteen), False, None, AT),
        Tensor("V", BF16, (n("Sk"), n("Hk"), sixteen), False, None, AT),
        Tensor("O", BF16, (n("Sq"), heads, sixteen), True, None, AT),
    )
    moves = (
        Move("q", ("i", "d"), "Q", on("i", "h", "d"), ("i", "h", "d"), BF16, AT),
        Move("k", ("j", "d"), "K", on("j", "g", "d"), ("j", "g", "d"), BF16, AT),
        Move("v", ("j", "e"), "V", on("j", "g", "e"), ("j", "g", "e"), BF16, AT),
    )
    score = times(Number(0.25, F32, AT), fold("sum", "d", times(read("q", "i", "d"), read("k", "j", "d"))))
    weight = fold("softmax", "j", read("s", "i", "j", dtype=F32))
    value = fold("sum", "j", times(Cast(read("p", "i", "j", dtype=F32), BF16, AT), read("v", "j", "e")))
    definitions = (
        Definition("s", ("i", "j"), score, ("i", "j", "h"), False, F32, AT),
        Definition("p", ("i", "j"), weight, ("i", "j", "h"), False, F32, AT),
        Definition("O", ("i", "h", "e"), value, ("i", "h", "e"), True, F32, AT),
    )
    causal = Affine((("i", 1), ("j", -1)), n("Sk") - n("Sq"), AT)
    for guard, seen in (
        (None, True),
        (Guard(n("Sk"), ">", Poly.const(7), AT), True),
        (Guard(n("Sk"), "<", Poly.const(7), AT), False),
    ):
        clause = Clause(("i", "j"), ((causal,),), guard, AT)
        built = program("Sq Sk Hk G", tensors, axes, moves, definitions, (clause,))
        sizes = {"Sq": 6, "Sk": 9, "Hk": 2, "G": 3}
        data = random_inputs(built, sizes, 1)
        got = evaluate(built, sizes, {}, data)["O"]
        want, _ = formulas.attention(*(data[t][None] for t in "QKV"), 0.25, seen)
        np.testing.assert_allclose(got.value, want[0], atol=1e-13)


def test_a_lookup_outside_its_table_reads_nothing() -> None:
    copied = program(
        "N P",
        (
            Tensor("X", F32, (n("P"),), False, None, AT),
            Tensor("tab", I32, (n("N"),), False, None, AT),
            Tensor("Y", F32, (n("N"),), True, None, AT),
        ),
        (Axis("i", n("N"), None, AT),),
        (Move("x", ("i",), "X", (Lookup("tab", on("i"), AT),), ("i",), F32, AT),),
        (Definition("Y", ("i",), read("x", "i", dtype=F32), ("i",), True, F32, AT),),
    )
    X = np.array([5.0, 6.0], dtype=np.float32)
    table = np.array([1, -1, 0, 2], dtype=np.int32)
    got = evaluate(copied, {"N": 4, "P": 2}, {}, {"X": X, "tab": table})["Y"]
    np.testing.assert_array_equal(got.value, [6.0, np.nan, 5.0, np.nan])
