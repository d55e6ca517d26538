"""What watched launches say of numbers on their way from accumulators to an output, by TMA or by rows."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import tilegen
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime.kernel import Kernel

GEMM = """kernel g(T: f16 | f32 = f16) {
  size M, N, K
  input A: f16[M, K]
  input B: f16[K, N]
  output C: T[M, N]
  tile a[m, k] = A[m, k]
  tile b[k, n] = B[k, n]
  x[m, n] = sum[k](a[m, k] * b[k, n])
  C[m, n] = VALUE
  schedule hopper { block m 128, n 64, k 64 consumers 2 over m via C WAY }
}"""
SUM = "x[m, n]"


@cache
def gemm(T: str, way: str, value: str = SUM) -> Kernel:
    return tilegen.compile(GEMM.replace("VALUE", value).replace("WAY", way), T=T)


def inputs(K: int = 136, sign: int = 0) -> dict[str, np.ndarray]:
    """Of 130 rows, so that a warpgroup's are outside; `sign`: that of each product, if it is not 0."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((130, K), (K, 72)))
    return {"A": a, "B": b} if not sign else {"A": sign * np.abs(a), "B": np.abs(b)}


def edited(kernel: Kernel, pattern: str, new: str, number: int = 0) -> str:
    """Its PTX with a place replaced that matches."""
    at = list(re.finditer(pattern, kernel.ptx))[number]
    return kernel.ptx[: at.start()] + at.expand(new) + kernel.ptx[at.end() :]


def told(kernel: Kernel, ptx: str) -> str:
    with pytest.raises(TilegenError) as caught:
        kernel.emulate(inputs(), ptx=ptx)
    (fault,) = caught.value.diagnostics
    assert fault.code == "EMULATED_TILE", fault
    return fault.message


WAYS = [("f16", "tma"), ("f32", "tma"), ("f32", "tma stages C 2"), ("f16", "rows"), ("f32", "rows")]
NO_STEPS = r"(setp\.lt\.s32\s+%p\d+, %r\d+), 1;(?=(?:(?!setp)[^;]*;)*?\s*selp\.f32\s+%f\d+, 0f00000000)"


@pytest.mark.parametrize(("T", "way"), WAYS)
def test_zeros_in_the_place_of_a_sum_are_told(T: str, way: str) -> None:
    kernel = gemm(T, way)
    words = "stores a constant to C, to which a sum over k belongs that is not empty"
    assert words in told(kernel, edited(kernel, NO_STEPS, r"\1, 63;"))


@pytest.mark.parametrize(("T", "way"), WAYS)
def test_an_empty_sum_is_zero(T: str, way: str) -> None:
    assert not np.any(np.asarray(gemm(T, way).emulate(inputs(0))))


@pytest.mark.parametrize("value", ["max(x[m, n], 0)", "where(x[m, n] > 0, x[m, n], 0)"])
def test_zeros_that_are_made_of_a_sum_are_its_own(value: str) -> None:
    kernel = gemm("f32", "tma", value)
    assert not np.any(np.asarray(kernel.emulate(inputs(sign=-1))))
    if "where" not in value:  # a choice may leave the sum out
        assert "stores a constant to C" in told(kernel, edited(kernel, NO_STEPS, r"\1, 63;"))


STORE = r"(cp\.async\.bulk\.tensor\.2d\.global\S* \[\S+, \{%r\d+, )(%r\d+)"


@pytest.mark.parametrize("T", ["f16", "f32"])
def test_rows_of_a_box_that_are_others_are_told(T: str) -> None:
    kernel = gemm(T, "tma")
    ptx = edited(kernel, STORE, r"add.s32 \2, \2, -64;\n\1\2")
    assert "stores what is of m = 64 to C at m = 0" in told(kernel, ptx)


def test_a_wrong_swizzle_of_pairs_is_told() -> None:
    """Of rows that lie 128 bytes apart, bits 7 to 9 of an address are the row's; here bits 8 and 9 alone are used."""
    kernel = gemm("f32", "tma")
    assert "to C at n = " in told(kernel, edited(kernel, r"(and\.b32\s+%r\d+, %r\d+), 112;", r"\1, 96;"))


def test_elements_of_a_pair_that_are_exchanged_are_told() -> None:
    kernel = gemm("f32", "tma")
    ptx = edited(kernel, r"(st\.shared\.v2\.f32 \[%r\d+\]), \{ (%f\d+), (%f\d+)\}", r"\1, { \3, \2}")
    assert "stores what is of n = 1 to C at n = 0" in told(kernel, ptx)


@pytest.mark.parametrize("T", ["f16", "f32"])
def test_steps_that_are_left_out_are_told(T: str) -> None:
    """The loop over the steps behind the first is skipped."""
    kernel = gemm(T, "tma")
    ptx = edited(kernel, r"(setp\.gt\.s32\s+%p\d+, %r\d+), 1;", r"\1, 63;")
    assert "what is stored to C is not summed over k = 64" in told(kernel, ptx)


@pytest.mark.parametrize(("T", "way"), WAYS)
def test_the_kernels_themselves_raise_none(T: str, way: str) -> None:
    given = inputs()
    found = np.asarray(gemm(T, way).emulate(given)).astype(np.float64)
    assert np.allclose(found, given["A"].astype(np.float64) @ given["B"].astype(np.float64), rtol=1e-2, atol=0.1)
