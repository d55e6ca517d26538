"""Kernels whose tiles hold NaN outside of their tensors, compiled, and run in the emulator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tilegen
from tilegen.emulate.ptx.half import OOB_NAN
from tilegen.ir.dtypes import DType
from tilegen.runtime.kernel import Kernel

F32 = npt.NDArray[np.float32]
ROOT = Path(__file__).parents[2]
INSTRUCTION = {"f16": "HFMA2.OOB", "bf16": "HFMA2.BF16_V2.OOB"}


def kernels(T: str, tmp_path: Path) -> tuple[Kernel, Kernel]:
    """The sample, and the same without `oob`."""
    text = (ROOT / "samples/difference.tile").read_text(encoding="utf-8")
    plain = tmp_path / "difference.tile"
    plain.write_text(text.replace("oob y nan", ""), encoding="utf-8")
    return tilegen.compile(ROOT / "samples/difference.tile", T=T), tilegen.compile(plain, T=T)


@pytest.mark.parametrize("T", ["f16", "bf16"])
def test_rows_that_are_not_there_make_zeros(T: str, tmp_path: Path) -> None:
    with_nan, plain = kernels(T, tmp_path)
    x = np.random.default_rng(4).integers(-99, 99, (140, 72)).astype(DType(T).numpy)
    wanted = np.pad(x[9:].astype(np.float32) - x[:-9].astype(np.float32), ((0, 9), (0, 0))).astype(x.dtype)
    for kernel in (with_nan, plain):
        assert np.array_equal(np.asarray(kernel(X=x, lag=9)).view(np.uint16), wanted.view(np.uint16))


@pytest.mark.parametrize("T", ["f16", "bf16"])
def test_two_elements_take_one_instruction(T: str, tmp_path: Path) -> None:
    with_nan, plain = kernels(T, tmp_path)
    assert with_nan.sass.count(INSTRUCTION[T]) == 64 * 64 // 128 // 2  # of a warpgroup's part, by thread
    assert ".OOB" not in plain.sass


def test_an_entry_with_the_bits_of_the_fill_is_one_that_is_not_there(tmp_path: Path) -> None:
    with_nan, plain = kernels("f16", tmp_path)
    x = np.ones((140, 72), np.float16)
    x[30, 5], x[50, 6] = np.nan, np.uint16(OOB_NAN).view(np.float16)
    found, by_select = (np.argwhere(np.isnan(np.asarray(k(X=x)))).tolist() for k in (with_nan, plain))
    assert by_select == [[29, 5], [30, 5], [49, 6], [50, 6]]
    assert found == [[29, 5], [30, 5], [50, 6]]


TWICE = """kernel k(T: f16 | bf16 = f16) {
  size M, N
  input X: T[M, N]
  input Z: T[M, N]
  output D: T[M, N] else 0
  axis i in M, j in N
  domain i: i + 2 < M
  tile x[i, j] = Z[i, j]
  tile y[i, j] = X[i + 2, j]
  D[i, j] = T(VALUE)
  schedule hopper { oob y nan }
}"""


@pytest.mark.parametrize(
    ("T", "value", "reference"),
    [
        ("f16", "y[i, j] * x[i, j] + x[i, j]", lambda x, y: y * x + x),
        ("bf16", "x[i, j] * y[i, j] + x[i, j]", lambda x, y: x * y + x),
        ("bf16", "y[i, j] * x[i, j] - x[i, j]", lambda x, y: y * x - x),
        ("f16", "y[i, j] * y[i, j] + x[i, j]", lambda x, y: y * y + x),
    ],
    ids=["factor and addend", "either side", "with another sign", "both factors"],
)
def test_a_tile_may_be_read_twice(T: str, value: str, reference: Callable[[F32, F32], F32], tmp_path: Path) -> None:
    path = tmp_path / "k.tile"
    path.write_text(TWICE.replace("VALUE", value), encoding="utf-8")
    x, z = np.random.default_rng(6).integers(-9, 10, (2, 70, 72)).astype(DType(T).numpy)
    y = np.pad(x[2:], ((0, 2), (0, 0))).astype(np.float32)
    wanted = reference(z.astype(np.float32), y)
    wanted[-2:] = 0
    assert np.array_equal(np.asarray(tilegen.compile(path, T=T)(X=x, Z=z)).astype(np.float32), wanted)
