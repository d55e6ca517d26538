"""What a call may get wrong, each named: on a kernel with a tensor of every way to be read and written."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from numpy.lib.stride_tricks import as_strided

import tilegen
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.parameters import plain

Array = npt.NDArray[Any]
M, N = 8, 64


@cache
def kernel() -> Kernel:
    return tilegen.compile("""kernel k(N: int = 64) {
      size   M
      input  X: f32[M, N]
      input  row: f32[M]
      output Y: f32[M, N]
      output Z: f32[M]
      scalar a: f32 > 0 = 2
      scalar shift: i32 = 0
      tile x[i, d] = X[i, d]
      Y[i, d] = a * x[i, d] + row[i] + shift
      Z[i] = sum[d](x[i, d])
    }""")


def ones(*shape: int, dtype: Any = np.float32) -> Array:
    return np.ones(shape, dtype)


def faults(*positional: Any, **changes: Any) -> tuple[Diagnostic, ...]:
    with pytest.raises(TilegenError) as caught:
        kernel()(*positional, **{"X": ones(M, N), "row": ones(M), **changes})
    return caught.value.diagnostics


def in_bytes(count: int, offset: int) -> Array:
    """float32 numbers that begin `offset` bytes past a 16-byte boundary."""
    memory = np.zeros(4 * count + 32, np.uint8)
    start = -memory.ctypes.data % 16 + offset
    return memory[start : start + 4 * count].view(np.float32)


ON_GPU = SimpleNamespace(__cuda_array_interface__={}, shape=(), item=lambda: pytest.fail("the GPU was waited for"))

WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no array": ({"X": [[1.0]]}, "NOT_AN_ARRAY", "X is given as builtins.list"),
    "a number for an array": ({"X": 1.0}, "NOT_AN_ARRAY", "X is given as builtins.float"),
    "numpy's number for an array": ({"X": np.float32(1)}, "NOT_AN_ARRAY", "X is given as numpy.float32"),
    "a masked array": ({"X": np.ma.masked_array(ones(M, N))}, "NOT_AN_ARRAY", "numpy.ma.MaskedArray"),
    "an output that is no array": ({"Y": True}, "NOT_AN_ARRAY", "Y is given as builtins.bool"),
    "no input": ({"X": None}, "MISSING_ARRAY", "k needs the input X"),
    "another case": ({"x": ones(M, N)}, "UNKNOWN_ARGUMENT", "k has no argument x"),
    "no dimensions": ({"X": np.array(1, np.float32)}, "ARRAY_RANK", "X"),
    "one dimension too few": ({"X": ones(N)}, "ARRAY_RANK", "X"),
    "one dimension too many": ({"row": ones(M, 1)}, "ARRAY_RANK", "row"),
    "Python's floats": ({"X": ones(M, N, dtype=float)}, "ARRAY_DTYPE", "X"),
    "16 bits": ({"X": ones(M, N, dtype=ml_dtypes.bfloat16)}, "ARRAY_DTYPE", "X"),
    "truth values": ({"row": ones(M, dtype=bool)}, "ARRAY_DTYPE", "row"),
    "objects": ({"row": ones(M, dtype=object)}, "ARRAY_DTYPE", "row"),
    "the other byte order": ({"row": ones(M, dtype=">f4")}, "ARRAY_DTYPE", "row"),
    "another length": ({"row": ones(M + 1)}, "ARRAY_EXTENT", "dimension 0 of row"),
    "another fixed size": ({"X": ones(M, N + 4)}, "ARRAY_EXTENT", "dimension 1 of X"),
    "an output of another length": ({"Z": ones(M - 1)}, "ARRAY_EXTENT", "dimension 0 of Z"),
    "a size that disagrees": ({"M": M + 1}, "ARRAY_EXTENT", "dimension 0 of X"),
    "a size below 0": ({"M": -1}, "ARRAY_EXTENT", "M = -1 as given"),
    "a fraction for a size": ({"M": 8.0}, "SIZE_VALUE", "the size M"),
    "a truth value for a size": ({"M": True}, "SIZE_VALUE", "the size M"),
    "a size on a GPU": ({"M": ON_GPU}, "SIZE_VALUE", "the size M"),
    "every second column": ({"X": ones(M, 2 * N)[:, ::2]}, "ARRAY_INNER_STRIDE", "X along its dimension 1"),
    "one column for all": ({"X": np.broadcast_to(ones(M, 1), (M, N))}, "ARRAY_INNER_STRIDE", "X along"),
    "Fortran order": ({"X": np.asfortranarray(ones(M, N))}, "ARRAY_INNER_STRIDE", "X along its dimension 1"),
    "rows backwards": ({"X": ones(M, N)[::-1]}, "ARRAY_BACKWARDS", "X lies backwards"),
    "rows of 260 bytes": ({"X": ones(M, N + 1)[:, :N]}, "TMA_STRIDE_ALIGNMENT", "X: neighbours along dimension 0"),
    "a start off by 4 bytes": ({"X": in_bytes(M * N, 4).reshape(M, N)}, "TMA_ADDRESS", "X does not start"),
    "a vector between elements": ({"row": in_bytes(M, 2)}, "ARRAY_ELEMENT_ALIGNMENT", "row has elements of 4 bytes"),
    "a vector of a record": (
        {"Z": np.zeros(M, [("a", "f4"), ("b", "i2")])["a"]}, "ARRAY_ELEMENT_ALIGNMENT", "the stride of its dimension 0",
    ),
    "an output in one place": ({"Z": as_strided(ones(1), (M,), (0,))}, "OUTPUT_OVERLAP", "Z share one place"),
    "an output that is fixed": ({"Z": np.frombuffer(bytes(4 * M), np.float32)}, "OUTPUT_READ_ONLY", "the output Z"),
    "a scalar against its constraint": ({"a": -1}, "SCALAR_CONSTRAINT", "the scalar a is -1"),
    "no number": ({"a": float("nan")}, "SCALAR_CONSTRAINT", "the scalar a is nan"),
    "a scalar beyond its type": ({"a": np.float64(1e300)}, "SCALAR_VALUE", "1e+300"),
    "text for a scalar": ({"a": "2"}, "SCALAR_VALUE", "'2' is no value of the scalar a"),
    "a truth value for a scalar": ({"a": True}, "SCALAR_VALUE", "True"),
    "a complex scalar": ({"a": 1j}, "SCALAR_VALUE", "1j"),
    "another library's number": ({"a": Decimal(2)}, "SCALAR_VALUE", "Decimal"),
    "an array of one for a scalar": ({"a": ones(1)}, "SCALAR_VALUE", "an array of shape (1,)"),
    "an array of two for a scalar": ({"a": ones(2)}, "SCALAR_VALUE", "an array of shape (2,)"),
    "a scalar on a GPU": ({"a": ON_GPU}, "SCALAR_VALUE", "an array on a GPU"),
    "a fraction for a whole scalar": ({"shift": 0.5}, "SCALAR_VALUE", "0.5"),
    "a whole scalar beyond 32 bits": ({"shift": 2**31}, "SCALAR_VALUE", "2147483648"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_named(what: str) -> None:
    changes, code, words = WRONG[what]
    found = faults(**changes)
    assert [d.code for d in found] == [code]
    assert words in f"{found[0].message} {found[0].got} {found[0].wanted}"


def test_arguments_go_by_name() -> None:
    (d,) = faults(ones(M, N))
    assert d.code == "ARGUMENTS_BY_NAME"
    assert "X=…, row=…" in d.fixes[0]


@pytest.mark.parametrize("a", [3, 3.0, np.float64(3), np.float16(3), np.array(3.0), np.array(3), ml_dtypes.bfloat16(3)])
def test_numbers_of_every_kind_are_scalars(a: Any) -> None:
    out = kernel()(X=ones(M, N), row=ones(M), a=a, shift=np.int64(-1), M=np.int32(M))
    assert (out.Y == 3).all()
    assert (out.Z == N).all()


def test_none_is_as_good_as_nothing() -> None:
    out = kernel()(X=ones(M, N), row=ones(M), a=None, M=None, Y=None)
    assert (out.Y == 3).all()


def test_subclasses_and_read_only_inputs_are_arrays() -> None:
    class Own(np.ndarray):  # type: ignore[type-arg]
        pass

    fixed = ones(M, N)
    fixed.flags.writeable = False
    assert (kernel()(X=fixed, row=ones(M).view(Own)).Y == 3).all()


def test_parameters_as_other_libraries_spell_them() -> None:
    torch_type = type("dtype", (), {"__str__": lambda self: "torch.bfloat16"})()
    given = [torch_type, np.float16, np.dtype("float32"), ml_dtypes.bfloat16, np.int64(64), np.bool_(True), "bf16", 3.5]
    assert [plain(v) for v in given] == [DType.BF16, DType.F16, DType.F32, DType.BF16, 64, True, "bf16", 3.5]
    assert type(plain(np.int64(64))) is int
    with pytest.raises(TilegenError, match="PARAMETER_VALUE"):
        tilegen.compile("kernel k(T: bf16 | f16) { size M input X: T[M, 64] output Y: T[M, 64] "
                        "tile x[i, d] = X[i, d] Y[i, d] = x[i, d] }", T=np.float64)  # fmt: skip
