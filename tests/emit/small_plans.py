"""Plans of one warpgroup without TMA: vectors in, element-wise work, rows or vectors out."""

from __future__ import annotations

from collections.abc import Sequence

from tests.emit.plans import at
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    ElementExpr,
    Fragment,
    LoadVector,
    Map,
    Operation,
    Plan,
    PointerParam,
    RolePlan,
    ScalarParam,
    SizeParam,
    StoreRows,
    StoreVector,
    StrideParam,
    TensorShape,
    Work,
)
from tilegen.ir.uniform import Int, Sym

S = at(1, "small.tile")


def small_plan(
    name: str,
    body: Sequence[Operation],
    fragments: Sequence[Fragment],
    tensors: Sequence[TensorShape],
    sizes: Sequence[str] = (),
    scalars: Sequence[str] = (),
) -> Plan:
    strides = tuple(StrideParam(t.name, 0) for t in tensors)
    return Plan(
        name=name,
        target="hopper",
        source_name="small.tile",
        params=(
            *(PointerParam(t.name) for t in tensors),
            *strides,
            *map(SizeParam, sizes),
            *map(ScalarParam, scalars),
        ),
        tensors=tuple(tensors),
        descriptors=(),
        buffers=(),
        rings=(),
        roles=(
            RolePlan(
                "compute", "consumer", 0, 1, None, False, (), tuple(fragments),
                (Work("w", Int(1), "single", tuple(body), S),),
            ),
        ),
        threads=128,
        shared_bytes=0,
        registers_at_entry=255,
        grid=Int(1),
    )  # fmt: skip


def row(name: str) -> Fragment:
    return Fragment(name, "row", 64, 1, DType.F32, name, S)


def col(name: str, cols: int) -> Fragment:
    return Fragment(name, "col", 1, cols, DType.F32, name, S)


def acc(name: str, cols: int) -> Fragment:
    return Fragment(name, "acc", 64, cols, DType.F32, name, S)


def vector_plan(value: ElementExpr, dtype: DType = DType.F32, out: DType = DType.F32) -> Plan:
    """Y[M] = value(a, b) with a, b from A[M], B[M] and a scalar t; M up to 64."""
    at_start = (Int(0),)
    body = (
        LoadVector("a", "A", at_start, 0, Sym("M"), S),
        LoadVector("b", "B", at_start, 0, Sym("M"), S),
        Map("y", value, S),
        StoreVector("y", "Y", at_start, 0, Sym("M"), S),
    )
    shape = (Sym("M"),)
    tensors = (
        TensorShape("A", dtype, shape, False),
        TensorShape("B", dtype, shape, False),
        TensorShape("Y", out, shape, True),
    )
    return small_plan("vector", body, (row("a"), row("b"), row("y")), tensors, ("M",), ("t",))


def outer_plan(
    value: ElementExpr,
    cols: int,
    out: DType = DType.F32,
    vector: int = 1,
    whole: bool = False,
    more: Sequence[Operation] = (),
    fragments: Sequence[Fragment] = (),
    sizes: Sequence[str] = (),
    start: tuple[int, int] = (0, 0),
) -> Plan:
    """Y[M, N] = value(r, c), r from R[M], c from C[N]: one tile of 64 x cols at `start`, `more` before the store."""
    body = (
        LoadVector("r", "R", (Int(start[0]),), 0, Sym("M"), S),
        LoadVector("c", "C", (Int(start[1]),), 0, Sym("N"), S),
        Map("y", value, S),
        *more,
        StoreRows("y", "Y", (Int(start[0]), Int(start[1])), 0, 1, Sym("M"), Sym("N"), vector, whole, S),
    )
    tensors = (
        TensorShape("R", DType.F32, (Sym("M"),), False),
        TensorShape("C", DType.F32, (Sym("N"),), False),
        TensorShape("Y", out, (Sym("M"), Sym("N")), True),
    )
    held = (row("r"), col("c", cols), acc("y", cols), *fragments)
    return small_plan("outer", body, held, tensors, ("M", "N", *sizes))
