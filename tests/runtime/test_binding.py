"""Launch arguments from plans and arrays: right bytes for good arrays, a named refusal for bad ones."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.plan.plans import at, attention, gemm
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    Descriptor,
    If,
    MapDim,
    MapParam,
    Plan,
    PointerParam,
    SizeParam,
    StoreRows,
    StrideParam,
    TensorShape,
)
from tilegen.ir.uniform import Int, Sym, op
from tilegen.runtime.arrays import ArrayView, describe
from tilegen.runtime.binding import Binding, Device, bind, output_shapes, resolve, tensor_map
from tilegen.runtime.dispatch import dispatch
from tilegen.targets.hopper.tensor_map import TensorMap

SPANS = {name: at(5) for name in "ABCQKVO"}
BASE = 0x7F00_0000_0000


def view(*shape: int, dtype: DType = DType.BF16, strides: tuple[int, ...] | None = None, at: int = BASE) -> ArrayView:
    """A view of made-up memory: strides in elements, contiguous by default."""
    if strides is None:
        strides = tuple(int(np.prod(shape[n + 1 :], dtype=np.int64)) for n in range(len(shape)))
    return ArrayView(at, shape, tuple(s * dtype.bytes for s in strides), dtype, "cuda:0", "torch", None)


def bound(plan: Plan, scalars: dict[str, Any] | None = None, sm_count: int = 132, **views: ArrayView) -> Binding:
    sizes = resolve(plan, views, {}, SPANS)
    device = Device(sm_count, TensorMap.to_bits, lambda table: (0, table))
    return bind(plan, views, sizes, partial(dispatch, plan, sizes, scalars or {}), device, SPANS)


def faults(plan: Plan, scalars: dict[str, Any] | None = None, **views: ArrayView) -> tuple[Diagnostic, ...]:
    with pytest.raises(TilegenError) as caught:
        bound(plan, scalars, **views)
    return caught.value.diagnostics


def test_a_product_of_matrices_is_bound() -> None:
    plan = gemm()
    b = bound(plan, A=view(300, 128), B=view(72, 128), C=view(300, 72, strides=(80, 1)))
    assert b.grid == 3 * 2
    a = TensorMap.from_bits(b.arguments[0])
    assert (a.dims, a.strides, a.box, a.swizzle, a.dtype) == ((128, 300), (256,), (64, 128), 128, "bf16")
    c = TensorMap.from_bits(b.arguments[2])
    assert (c.dims, c.strides, c.address) == ((72, 300), (160,), BASE)
    assert [struct.unpack("<i", x)[0] for x in b.arguments[3:]] == [300, 72, 128]
    assert bound(plan, A=view(300, 128), B=view(72, 128), C=view(300, 72, strides=(80, 1)), sm_count=4).grid == 4


def test_pointers_strides_and_scalars_are_bound() -> None:
    plan = attention()
    lse = view(100, dtype=DType.F32, strides=(3,), at=BASE + 4)
    q, k, o = view(100, 64), view(200, 64, at=BASE + 0x10000), view(100, 64)
    b = bound(plan, {"scale": 0.1}, Q=q, K=k, V=k, O=o, LSE=lse)
    *_, sq, sk, scale, pointer, stride = b.arguments
    assert struct.unpack("<ii", sq + sk) == (100, 200)
    assert struct.unpack("<f", scale)[0] == np.float32(0.1)
    assert struct.unpack("<Q", pointer)[0] == BASE + 4
    assert struct.unpack("<q", stride)[0] == 3


def test_integer_scalars_are_bound_like_sizes() -> None:
    plan = replace(gemm(), params=(SizeParam("left"),), descriptors=())
    b = bound(plan, {"left": -5}, A=view(8, 64), B=view(8, 64), C=view(8, 8))
    assert struct.unpack("<i", b.arguments[0])[0] == -5


def test_a_dimension_in_chunks_becomes_two() -> None:
    tensor = TensorShape("V", DType.F16, (Sym("S"), Sym("H"), Int(256)), False)
    dims = (MapDim(2, 64, 64, "inner"), MapDim(0, 80), MapDim(2, 4, 64, "outer"), MapDim(1, 1))
    descriptor = Descriptor("V", "V", dims, 128, "zero", False, at(5))
    m = tensor_map(descriptor, tensor, view(1000, 8, 256, dtype=DType.F16), {}, {})
    assert m.dims == (64, 1000, 4, 8)
    assert m.strides == (8 * 256 * 2, 64 * 2, 256 * 2)
    assert m.box == (64, 80, 4, 1)
    assert m.check("V") == []


def test_a_chunked_dimension_must_be_whole_chunks() -> None:
    tensor = TensorShape("V", DType.F16, (Sym("S"), Sym("D")), False)
    descriptor = Descriptor("V", "V", (MapDim(1, 64, 64, "inner"), MapDim(0, 80)), 128, "zero", False, at(5))
    with pytest.raises(TilegenError, match=r"ARRAY_CHUNK.*dimension 1 of V.*64 elements"):
        tensor_map(descriptor, tensor, view(1000, 96, dtype=DType.F16), {}, {})


def test_rows_that_are_no_multiple_of_16_bytes_are_refused_by_name() -> None:
    """Case 30."""
    (d,) = faults(gemm(), A=view(64, 68), B=view(64, 68), C=view(64, 64))[:1]
    assert (d.code, d.got, d.wanted) == ("TMA_STRIDE_ALIGNMENT", "136 bytes", "a multiple of 16 bytes")
    assert "A: neighbours along dimension 0 (M)" in d.message
    assert d.span == SPANS["A"]


@pytest.mark.parametrize(("n", "taken"), [(8, True), (12, False), (15, False), (16, True)])
def test_rows_that_a_tma_store_would_write_past_are_refused_by_name(n: int, taken: bool) -> None:
    arrays = {"A": view(64, 64), "B": view(n, 64), "C": view(64, n, strides=(16, 1))}
    if taken:
        assert bound(gemm(), **arrays).grid
        return
    (d,) = faults(gemm(), **arrays)
    assert (d.code, d.got, d.wanted) == ("TMA_STORE_ROWS", f"rows of {2 * n} bytes", "a multiple of 16 bytes")
    assert "C: rows along dimension 1 (N)" in d.message


def test_a_slice_that_starts_off_the_grid_is_refused_by_name() -> None:
    """Case 32."""
    (d,) = faults(gemm(), A=view(64, 64, at=BASE + 4), B=view(64, 64), C=view(64, 64))
    assert (d.code, d.got) == ("TMA_ADDRESS", hex(BASE + 4))
    assert "A does not start on a 16-byte boundary: it is 4 bytes past one" in d.message


def test_faults_of_all_arrays_come_at_once() -> None:
    found = faults(gemm(), A=view(64, 68), B=view(64, 68, at=BASE + 2), C=view(64, 64))
    assert {(d.code, d.message.split(" ")[0].rstrip(":")) for d in found} >= {
        ("TMA_STRIDE_ALIGNMENT", "A"), ("TMA_STRIDE_ALIGNMENT", "B"), ("TMA_ADDRESS", "B"),
    }  # fmt: skip


def test_an_inner_stride_is_refused_by_name() -> None:
    (d,) = faults(gemm(), A=view(64, 64, strides=(1, 72)), B=view(64, 64), C=view(64, 64))
    assert (d.code, d.got) == ("ARRAY_INNER_STRIDE", "a stride of 144 bytes")
    assert "A along its dimension 1" in d.message


def test_fortran_order_is_called_so_and_nothing_else_is_said() -> None:
    (d,) = faults(gemm(), A=view(60, 64, strides=(1, 60)), B=view(64, 64), C=view(60, 64))
    assert (d.code, d.got) == ("ARRAY_INNER_STRIDE", "a stride of 120 bytes: the array is in Fortran order")


@pytest.mark.parametrize(("strides", "dim"), [((-64, 1), 0), ((64, -1), 1), ((-63, -1), 0)])
def test_an_array_that_lies_backwards_is_told_once(strides: tuple[int, int], dim: int) -> None:
    (d,) = faults(gemm(), A=view(64, 64, strides=strides, at=BASE + 2**20), B=view(64, 64), C=view(64, 64))
    assert d.code == "ARRAY_BACKWARDS"
    assert f"along its dimension {dim}" in d.message
    assert d.fixes[1:] == ("let threads copy it: `via a cp_async` in the schedule",)


def test_an_output_that_lies_backwards_is_to_be_stored_in_rows() -> None:
    views = {"A": view(64, 64), "B": view(64, 64), "C": view(64, 64, strides=(-64, 1), at=BASE + 2**20)}
    (d,) = faults(gemm(), **views)
    assert d.code == "ARRAY_BACKWARDS"
    assert d.fixes[1:] == ("write `via C rows` in the schedule: rows from registers may lie anywhere",)


def test_more_ctas_than_a_grid_takes_are_refused() -> None:
    plan = replace(gemm(), grid=op("mul", "M", Int(2**25)))
    (d,) = faults(plan, A=view(128, 64), B=view(64, 64), C=view(128, 64))
    assert (d.code, d.got) == ("GRID_TOO_LARGE", "4294967296 CTAs")


def test_strides_of_single_positions_do_not_matter() -> None:
    b = bound(gemm(), A=view(1, 64, strides=(7, 1)), B=view(64, 64), C=view(1, 64, strides=(3, 1)))
    assert b.grid == 1


def test_an_expanded_input_is_read_by_a_broadcasting_map() -> None:
    """Case 28: stride 0 of an input is right, of an output refused."""
    b = bound(gemm(), A=view(64, 64, strides=(0, 1)), B=view(64, 64), C=view(64, 64))
    assert TensorMap.from_bits(b.arguments[0]).strides == (0,)
    (d,) = faults(gemm(), A=view(64, 64), B=view(64, 64), C=view(64, 64, strides=(0, 1)))
    assert d.code == "OUTPUT_OVERLAP"
    assert "C" in d.message


def test_strides_past_4_gib_reach_the_map_whole() -> None:
    """Case 25 and 26: nothing is cut to 32 bits."""
    b = bound(gemm(), A=view(64, 64, strides=(2**33, 1)), B=view(64, 64), C=view(64, 64))
    assert TensorMap.from_bits(b.arguments[0]).strides == (2**34,)


def test_an_empty_reduction_gets_a_map_that_is_valid() -> None:
    """Case 8: no zero extent reaches the encoder."""
    b = bound(gemm(), A=view(64, 0, at=0), B=view(32, 0, at=0), C=view(64, 32))
    assert b.grid == 1
    a = TensorMap.from_bits(b.arguments[0])
    assert a.dims == (1, 1)
    assert a.address == BASE


def test_an_empty_output_launches_nothing() -> None:
    b = bound(gemm(), A=view(0, 64, at=0), B=view(32, 64), C=view(0, 32, at=0))
    assert (b.grid, b.arguments) == (0, ())


def test_types_and_devices_are_named() -> None:
    good = {"A": view(64, 64), "B": view(64, 64), "C": view(64, 64)}
    (d,) = faults(gemm(), **{**good, "B": view(64, 64, dtype=DType.F16)})
    assert (d.code, d.got, d.wanted) == ("ARRAY_DTYPE", "f16", "bf16")
    (d,) = faults(gemm(), **{**good, "B": replace(view(64, 64), device="cuda:1")})
    assert (d.code, d.got, d.wanted) == ("ARRAY_DEVICE", "cuda:1", "cuda:0")
    assert "B and A" in d.message
    del good["B"]
    (d,) = faults(gemm(), **good)
    assert d.code == "MISSING_ARRAY"


def test_an_output_that_may_not_be_written_is_refused() -> None:
    made = np.zeros((64, 64), dtype=ml_dtypes.bfloat16)
    made.flags.writeable = False
    host = {n: describe(np.zeros((64, 64), dtype=ml_dtypes.bfloat16)) for n in "AB"}
    (d,) = faults(gemm(), **host, C=describe(made))
    assert d.code == "OUTPUT_READ_ONLY"


def rows(vector: int, whole: bool = True) -> Plan:
    """The product with C stored from registers, `vector` elements at once, somewhere under a branch. whole: never
    fewer."""
    store = StoreRows(
        "c", "C", (Int(0), Int(0)), 0, 1, Sym("M"), Sym("N"), vector, whole, at(7), "C"
    )  # fmt: skip
    plan = gemm()
    consumer = replace(plan.role("consumer"), body=(If(Int(1), (store,), at(7)),))
    params = (*(MapParam(t) for t in "AB"), PointerParam("C"), StrideParam("C", 0))
    return replace(plan, roles=(plan.role("producer"), consumer), params=params, descriptors=plan.descriptors[:2])


def test_row_stores_want_aligned_rows() -> None:
    inputs = {"A": view(64, 64), "B": view(60, 64)}
    b = bound(rows(8), **inputs, C=view(64, 60, strides=(64, 1)))
    assert struct.unpack("<Qq", b"".join(b.arguments[2:])) == (BASE, 64)
    (d,) = faults(rows(8), **inputs, C=view(64, 60))
    assert d.code == "ARRAY_ALIGNMENT"
    assert "the rows of C are stored 16 bytes at a time, and the stride of its dimension 0" in d.message
    (d,) = faults(rows(8), **inputs, C=view(64, 60, strides=(64, 1), at=BASE + 8))
    assert "its start" in d.message
    assert bound(rows(1), **inputs, C=view(64, 60, at=BASE + 2)).grid
    assert bound(rows(8, whole=False), **inputs, C=view(64, 60, at=BASE + 2)).grid


def test_a_pointed_tensor_without_a_stride_must_be_packed() -> None:
    plan = replace(rows(1), roles=())
    crooked = view(64, 60, strides=(1, 64))
    (d,) = faults(plan, A=view(64, 64), B=view(60, 64), C=crooked)
    assert d.code == "ARRAY_INNER_STRIDE"
    strided = replace(plan, params=(*plan.params, StrideParam("C", 1)))
    assert bound(strided, A=view(64, 64), B=view(60, 64), C=crooked).grid


def test_row_stores_want_contiguous_columns() -> None:
    plan = rows(1)
    plan = replace(plan, params=(*plan.params, StrideParam("C", 1)))
    (d,) = faults(plan, A=view(64, 64), B=view(60, 64), C=view(64, 60, strides=(1, 64)))
    assert d.code == "ARRAY_INNER_STRIDE"


def test_output_shapes_follow_from_sizes() -> None:
    assert output_shapes(gemm(), {"M": 7, "N": 9, "K": 3}) == {"C": (7, 9)}
