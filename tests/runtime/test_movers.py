"""Kernels whose tiles threads copy, in the emulator: the same bits as by TMA, and arrays that TMA cannot take."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.emit.running import run
from tests.movers import with_mover
from tests.passes.specs import schedule_of, text_of
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import ParamValue
from tilegen.ir.uniform import evaluate
from tilegen.ir.variants import alignment, chosen
from tilegen.runtime.arrays import describe
from tilegen.runtime.compilation import compile_source
from tilegen.runtime.kernel import Kernel
from tilegen.syntax.span import Source

Array = npt.NDArray[np.generic]
GEMM = "block m 64, n 64, k 64  consumers 1 over m  stages a 2, b 2  persistent static"


@cache
def kernel(text: str, params: tuple[tuple[str, ParamValue], ...] = ()) -> Kernel:
    return compile_source(Source("spec.tile", text), dict(params)).kernel()


def inputs_of(k: Kernel, sizes: dict[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    given = [t for t in k.variants[0].plan.tensors if not t.output]
    return {t.name: rng.standard_normal(tuple(evaluate(d, sizes) for d in t.dims)).astype(t.dtype.numpy) for t in given}


def outputs_of(k: Kernel, inputs: dict[str, Array], **given: Any) -> list[Array]:
    found = k(**inputs, **given)
    return [x.view(np.uint8) for x in (found if isinstance(found, tuple) else (found,))]


SMALL = "block i 64, j 64  consumers 1 over i  stages k 2, v 2  late O by 1  batch O, s  walk j down"


@pytest.mark.parametrize(
    ("text", "params", "sizes", "tiles"),
    [
        # with a scanner beside the copier, and TMA's producer as well
        (schedule_of(text_of("fa3_fwd"), SMALL), {"D": 64, "causal": True}, {"Sq": 70, "Sk": 93, "G": 1}, ("k", "v")),
        (text_of("attention_decode"), {"D": 72}, {"Sq": 3, "Sk": 93, "G": 5}, ()),
    ],
    ids=["beside TMA", "rows of two axes"],
)
def test_the_same_bits_as_by_tma(
    text: str, params: dict[str, ParamValue], sizes: dict[str, int], tiles: tuple[str, ...]
) -> None:
    settings = tuple(params.items())
    by_tma = kernel(text, settings)
    by_threads = kernel(with_mover(text, "cp_async", tiles, **params), settings)
    inputs = inputs_of(by_tma, {"B": 1, "Hk": 1, **sizes})
    for found, wanted in zip(outputs_of(by_threads, inputs), outputs_of(by_tma, inputs), strict=True):
        assert np.array_equal(found, wanted)


def skewed(x: Array, pitch: int, first: int) -> Array:
    """The same numbers with rows `pitch` elements apart, from element `first` on of 16-byte aligned memory of NaN."""
    size = x.dtype.itemsize
    memory = np.full(x.shape[0] * pitch + first + 16, np.nan, x.dtype)
    start = first + -memory.ctypes.data % 16 // size
    out = np.lib.stride_tricks.as_strided(memory[start:], x.shape, (pitch * size, size))
    out[...] = x
    return out


@pytest.mark.parametrize(
    ("pitch", "first", "taken"),
    [(136, 0, 0), (136, 4, 1), (140, 0, 1), (138, 0, 2), (136, 6, 2), (137, 0, 3), (136, 1, 3)],
)
def test_arrays_that_tma_cannot_take(pitch: int, first: int, taken: int) -> None:
    """At the edge of both directions; the copies are as wide as both arrays allow."""
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a auto, b auto"))
    inputs = inputs_of(k, {"M": 70, "N": 72, "K": 131})
    aligned = {"A": skewed(inputs["A"], 136, 0), "B": skewed(inputs["B"], 72, 0)}
    (wanted,) = outputs_of(k, aligned)
    out = np.full((70, 72), np.nan, DType.BF16.numpy)
    (found,) = outputs_of(k, {**aligned, "A": skewed(inputs["A"], pitch, first)}, C=out)
    assert np.array_equal(found, wanted)
    plans = [v.plan for v in k.variants]
    arrays = {
        name: describe(x).alignment for name, x in (("A", skewed(inputs["A"], pitch, first)), ("B", aligned["B"]))
    }
    assert chosen(plans, {alignment(name).name: n for name, n in arrays.items()}) == taken
    assert k.last_report is not None and bool(k.last_report.tma_loads) == (taken == 0)
    exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    assert np.abs(out.astype(np.float64) - exact).max() < 0.2


@pytest.mark.parametrize(("N", "first"), [(75, 0), (75, 3), (1, 1), (72, 4)])
def test_rows_are_stored_wherever_they_begin(N: int, first: int) -> None:
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a auto, b auto"))
    inputs = inputs_of(k, {"M": 70, "N": N, "K": 64})
    memory = np.full((72, N + 5), np.nan, DType.BF16.numpy)
    out = memory[1:-1, first : first + N]
    outputs_of(k, inputs, C=out)
    exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    assert np.abs(out.astype(np.float64) - exact).max() < 0.2
    out[:] = np.nan
    assert np.isnan(memory.astype(np.float32)).all()  # nothing was written around it


@pytest.mark.parametrize(
    ("N", "pitch", "first", "boxes"),
    [
        (72, 72, 0, True),
        (72, 88, 8, True),
        (72, 76, 0, False),
        (72, 80, 4, False),
        (76, 80, 0, False),
        (1, 8, 0, False),
    ],
)
def test_an_output_leaves_by_tma_where_its_array_allows(N: int, pitch: int, first: int, boxes: bool) -> None:
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a auto, b auto, C auto"))
    inputs = inputs_of(k, {"M": 70, "N": N, "K": 64})
    inputs["B"] = skewed(inputs["B"], 88, 0)
    memory = np.full((72, pitch), np.nan, DType.BF16.numpy)
    out = memory[1:-1, first : first + N]
    outputs_of(k, inputs, C=out)
    assert k.last_report is not None and bool(k.last_report.tma_stores) == boxes
    exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    assert np.abs(out.astype(np.float64) - exact).max() < 0.2
    made = k(**inputs)  # an output that the call makes is one without gaps
    assert np.array_equal(made, out)
    assert bool(k.last_report.tma_stores) == (N % 8 == 0)
    out[:] = np.nan
    assert np.isnan(memory.astype(np.float32)).all()  # nothing was written around it


@pytest.mark.parametrize("mover", ["auto", "cp_async"])
def test_arrays_that_lie_backwards_are_copied(mover: str) -> None:
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a {mover}, b auto"))
    inputs = inputs_of(k, {"M": 70, "N": 72, "K": 136})
    (wanted,) = outputs_of(k, inputs)
    turned = {name: x[::-1].copy()[::-1] for name, x in inputs.items()}
    assert all(x.strides[0] < 0 for x in turned.values())
    (found,) = outputs_of(k, turned)
    assert np.array_equal(found, wanted)
    assert k.last_report is not None and not k.last_report.tma_loads
    single = turned["A"][:1]  # a row by itself has no direction
    assert describe(single).alignment == 16 and describe(turned["A"]).alignment == 8


def test_what_a_launch_of_dense_arrays_takes_is_known_by_sizes() -> None:
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a auto, b auto"))
    for N, K, taken in ((64, 64, 0), (64, 68, 1), (66, 64, 2), (64, 63, 3), (1, 64, 3)):
        assert k.variant(M=64, N=N, K=K) is k.variants[taken]
    assert k.variant(M=1, N=63, K=1) is k.variants[0]  # a single row has no next one
    assert k.variant(M=64, N=8) is k.variants[0]


def test_tma_alone_refuses_them() -> None:
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a tma"))
    inputs = inputs_of(k, {"M": 64, "N": 64, "K": 64})
    with pytest.raises(TilegenError) as caught:
        k(A=skewed(inputs["A"], 65, 0), B=inputs["B"])
    assert {d.code for d in caught.value.diagnostics} == {"TMA_STRIDE_ALIGNMENT"}


def test_a_variant_by_itself_refuses_what_it_is_not_for() -> None:
    k = kernel(schedule_of(text_of("gemm"), f"{GEMM}  via a auto, b auto"))
    inputs = inputs_of(k, {"M": 64, "N": 64, "K": 64})
    for array, code in ((skewed(inputs["A"], 66, 0), "COPY_ALIGNMENT"), (inputs["A"].T, "ARRAY_INNER_STRIDE")):
        with pytest.raises(TilegenError) as caught:
            run(k.variants[1].plan, {"A": array, "B": inputs["B"]})
        assert {d.code for d in caught.value.diagnostics} == {code}


BACK = """kernel back(T: bf16 | f32 = bf16) {
  size   M, N
  input  X: T[M, N]
  output Y: T[M, N] else 0
  axis   i in M, j in N
  domain j: j >= 3
  tile   x[i, j] = X[i, j]
  tile   y[i, j] = X[i, j - 3]
  Y[i, j] = y[i, j] - x[i, j]
  schedule hopper { block i 64, j 64 consumers 1 over i via y cp_async }
}"""


@pytest.mark.parametrize("shift", [1, 2, 3, 4, 6, 8, 67])
@pytest.mark.parametrize("T", ["bf16", "f32"])
def test_columns_before_the_tensor_are_zero_one_by_one(T: str, shift: int) -> None:
    """Also where a piece of 16 bytes, or the copies that it takes, begins before the tensor and ends inside."""
    k = kernel(BACK.replace(">= 3", f">= {shift}").replace("- 3", f"- {shift}"), (("T", T),))
    x = np.random.default_rng(shift).standard_normal((9, 136)).astype(k.variants[0].plan.tensor("X").dtype.numpy)
    y = k(X=x)
    want = np.zeros_like(x)
    want[:, shift:] = (x[:, :-shift].astype(np.float32) - x[:, shift:].astype(np.float32)).astype(x.dtype)
    assert np.array_equal(y, want)
