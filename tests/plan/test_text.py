from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plan.plans import at, attention, gemm
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_op_text import element_text, operation_text
from tilegen.ir.plan_text import plan_lines, print_plan
from tilegen.ir.uniform import Int, Sym, op

HERE = at(3)


def test_gemm_prints_as_on_file(golden: Callable[..., None]) -> None:
    golden(print_plan(gemm()))


def test_attention_prints_as_on_file(golden: Callable[..., None]) -> None:
    golden(print_plan(attention()))


def test_paths_of_lines_are_unique_and_cover_every_operation() -> None:
    plan = attention()
    paths = [line.path for line in plan_lines(plan) if line.path]
    assert len(paths) == len(set(paths))

    def count(body: tuple[ir.Operation, ...]) -> int:
        return sum(1 + count(getattr(o, "body", ())) for o in body)

    operations = [p for p in paths if p[0] == "role" and len(p) > 2]
    assert len(operations) == sum(count(r.body) for r in plan.roles)


SLOT = ir.Slot("k", "ck", 1)


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        (ir.Let("x", op("add", "a", 1), HERE), "let x = a + 1"),
        (ir.LetFloat("f", ir.Compute("div", (ir.Literal(1.0), ir.Value("s"))), None, HERE), "let f: f32 = 1 / s"),
        (ir.LetFloat("f", None, ("T", (Sym("h"), Int(2))), HERE), "let f: f32 = T[h, 2]"),
        (ir.If(op("lt", "a", "b"), (), HERE), "if a < b:"),
        (ir.Expect(SLOT, 64, HERE), "expect full k[1]@ck, 64 bytes"),
        (ir.StoreWait(1, False, HERE), "store_wait all, 1 pending"),
        (ir.ReadShared("f", SLOT, 64, HERE), "f := shared k[1]@ck, rows + 64 * warpgroup"),
        (
            ir.FmaOob("f", ir.Element("x"), ir.Literal(-1.0), ir.Element("y"), DType.F16, HERE),
            "f := fma_oob(x, -1, y) in f16",
        ),
        (
            ir.LoadVector("f", "T", (Sym("h"), Sym("j")), 1, Sym("N"), HERE),
            "f := T[h, j] along dim 1 below N",
        ),
        (
            ir.StoreRows("f", "T", (Sym("i"), Int(0)), 0, 1, Sym("M"), Sym("N"), 8, True, HERE),
            "T[i, 0] := f, rows along dim 0 below M, cols along dim 1 below N, vectors of 8, whole",
        ),
        (
            ir.Mask("s", ((ir.Bound(1, -2, Sym("o")), ir.Bound(0, -1, Int(3))), (ir.Bound(-1, 0, Int(0)),)), 0.0, HERE),
            "mask s where row - 2 * col + o >= 0 and -col + 3 >= 0 or -row >= 0, else 0",
        ),
        (ir.IfVote("grown", (), HERE), "if any of a warp in grown:"),
        (ir.Sweep((), HERE), "sweep:"),
        (ir.OrderStart(3, HERE), "order_start barriers from 3"),
        (ir.QuadReduce("z", "sum", HERE), "z := sum over quad of z"),
    ],
)
def test_one_line_an_operation(operation: ir.Operation, wanted: str) -> None:
    assert operation_text(operation) == wanted


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (
            ir.Compute("mul", (ir.Compute("add", (ir.Element("a"), ir.Literal(0.1))), ir.Value("c"))),
            "(a + 0.1) * c",
        ),
        (ir.Compute("round", (ir.Element("a"),), DType.BF16), "bf16(a)"),
        (ir.Compute("neg", (ir.Coordinate("row", Sym("r")),)), "-row(r)"),
        (ir.Compute("add", (ir.Place(-1, 2, Sym("x")), ir.Past())), "(-row + 2 * col + x) + past"),
        (
            ir.Compute("select", (ir.Element("a"), ir.Literal(1 / 3), ir.IntValue(Sym("n")))),
            "select(a, 0.3333333333333333, float(n))",
        ),
    ],
)
def test_element_expressions_are_infix(expr: ir.ElementExpr, wanted: str) -> None:
    assert element_text(expr) == wanted
