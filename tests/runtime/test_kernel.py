"""Calling a kernel: arguments in, outputs out, run by the emulator; and the GPU path behind a stand-in."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.runtime import kernels
from tests.runtime.test_driver import ELSEWHERE, FakeDriver, fake
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.runtime import executable
from tilegen.runtime import kernel as runtime
from tilegen.runtime.arrays import ArrayView
from tilegen.runtime.kernel import Kernel

__all__ = ["fake"]


@cache
def scale() -> Kernel:
    return kernels.scale()


@cache
def padded_sum() -> Kernel:
    return kernels.padded_sum()


def random(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def refused(kernel: Kernel, **arguments: Any) -> tuple[Diagnostic, ...]:
    with pytest.raises(TilegenError) as caught:
        kernel(**arguments)
    return caught.value.diagnostics


def test_outputs_are_made_and_come_back_by_name() -> None:
    x = random(9, 40)
    out = scale()(X=x, a=3.0)
    y, r = out
    assert out._fields == ("Y", "R")
    np.testing.assert_array_equal(out.Y, np.float32(3) * x)
    assert y is out.Y
    np.testing.assert_array_equal(r, np.full(9, 3, np.float32))


def test_a_single_output_comes_back_as_itself() -> None:
    x = random(70, 64)
    y = padded_sum()(X=x)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-5)


def test_what_lies_outside_a_box_is_filled() -> None:
    x = random(70, 37)
    padded = np.full((70, 40), np.nan, np.float32)
    padded[:, :37] = x
    np.testing.assert_allclose(padded_sum()(X=padded[:, :37]), x.sum(1), rtol=1e-4, atol=1e-5)


def test_given_outputs_are_written_in_place() -> None:
    x = random(5, 8)
    space = np.full((5, 20), np.nan, np.float32)
    y = space[:, 4:12]
    assert scale()(X=x, Y=y, a=2.0).Y is y
    np.testing.assert_array_equal(y, 2 * x)
    assert np.isnan(space[:, :4]).all()
    assert np.isnan(space[:, 12:]).all()


def test_inputs_may_be_views() -> None:
    x = random(12, 30)
    for seen in (x.T, x[::-1, ::2], x[3:4], x[:, 5:6]):
        np.testing.assert_array_equal(scale()(X=seen, a=2.0).Y, 2 * seen)


def test_defaults_of_scalars_follow_from_sizes() -> None:
    x = random(4, 10)
    np.testing.assert_array_equal(scale()(X=x).Y, np.float32(0.1) * x)


def test_scalars_are_checked_against_their_constraint() -> None:
    (d,) = refused(scale(), X=random(4, 10), a=-1.0)
    assert d.code == "SCALAR_CONSTRAINT"
    (d,) = refused(scale(), X=random(4, 10), a="big")
    assert d.code == "SCALAR_VALUE"


def test_sizes_may_be_given_and_are_checked() -> None:
    assert scale()(X=random(4, 10), M=4).Y.shape == (4, 10)
    (d,) = refused(scale(), X=random(4, 10), M=5)
    assert (d.code, d.got, d.wanted) == ("ARRAY_EXTENT", "4", "5")
    (d,) = refused(scale(), X=random(4, 10), M=4.5)
    assert d.code == "SIZE_VALUE"


def test_zero_dimensional_numbers_are_numbers() -> None:
    np.testing.assert_array_equal(scale()(X=random(2, 3), a=np.float32(2), M=np.int64(2)).Y, 2 * random(2, 3))


def test_arguments_that_are_missing_or_unknown_are_named() -> None:
    (d,) = refused(scale())
    assert (d.code, d.span) == ("MISSING_ARRAY", kernels.at(5))
    first, second = refused(scale(), X=random(2, 3), Z=1, scael=2)
    assert {first.code, second.code} == {"UNKNOWN_ARGUMENT"}
    assert "Z" in first.message
    assert first.fixes == ("its arguments are X, Y, R, M, N, a",)


def test_what_is_missing_and_what_is_unknown_come_together() -> None:
    missing, unknown = refused(scale(), x=random(2, 3))
    assert (missing.code, unknown.code) == ("MISSING_ARRAY", "UNKNOWN_ARGUMENT")


def test_arguments_without_a_name_are_refused_in_words() -> None:
    for call in (scale(), scale().prepare):
        with pytest.raises(TilegenError) as caught:
            call(random(4, 10), a=2.0)
        (d,) = caught.value.diagnostics
        assert (d.code, d.got, d.fixes) == ("ARGUMENTS_BY_NAME", "1 without a name", ("call it as `kernel(X=…)`",))


def test_a_kernel_says_which_it_is() -> None:
    assert repr(scale()) == "<tilegen kernel scale: X, Y, R>"


def test_a_wrong_output_shape_is_named() -> None:
    (d,) = refused(scale(), X=random(4, 10), Y=np.zeros((4, 11), np.float32))
    assert (d.code, d.got, d.wanted) == ("ARRAY_EXTENT", "11", "10")


def test_alignment_is_checked_before_anything_runs() -> None:
    """Cases 30 and 32, in a call."""
    (d,) = refused(padded_sum(), X=random(64, 250))
    assert (d.code, d.got) == ("TMA_STRIDE_ALIGNMENT", "1000 bytes")
    flat = np.zeros(64 * 256 + 4, np.float32)
    start = next(n for n in range(4) if flat[n:].ctypes.data % 16 == 4)
    (d,) = refused(padded_sum(), X=flat[start : start + 64 * 256].reshape(64, 256))
    assert d.code == "TMA_ADDRESS"
    assert "4 bytes past" in d.message


def test_empty_arrays() -> None:
    assert scale()(X=random(0, 10)).Y.shape == (0, 10)
    np.testing.assert_array_equal(padded_sum()(X=random(70, 0)), np.zeros(70))
    assert padded_sum()(X=random(0, 64)).shape == (0,)


def test_a_kernel_without_inputs_takes_its_sizes_as_numbers() -> None:
    kernel = kernels.count()
    np.testing.assert_array_equal(kernel(M=200), np.arange(200))
    space = np.zeros(5, np.float32)
    assert kernel(Y=space) is space
    assert space[4] == 4
    (d,) = refused(kernel)
    assert d.code == "SIZE_UNKNOWN"


def test_a_prepared_launch_runs_again_on_what_its_arrays_hold_then() -> None:
    x = random(4, 10)
    launch = scale().prepare(X=x, a=2.0)
    np.testing.assert_array_equal(launch().Y, 2 * x)
    x += 1
    assert launch().Y is launch.outputs.Y
    assert repr(launch).startswith("<prepared launch on X")  # no arrays are printed
    np.testing.assert_array_equal(launch.outputs.Y, 2 * x)


def test_the_emulator_reports_what_it_ran() -> None:
    kernel = padded_sum()
    kernel(X=random(70, 64))
    assert kernel.last_report is not None


class Gpu:
    """An array on the stand-in's GPU."""

    def __init__(self, *shape: int, at: int) -> None:
        self.shape, self.at = shape, at


@pytest.fixture
def on_gpu(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """`Gpu` objects are arrays on a stand-in's device, whose launches are only counted."""

    def describe(array: Any, name: str) -> ArrayView:
        strides = tuple(4 * int(np.prod(array.shape[n + 1 :])) for n in range(len(array.shape)))
        return ArrayView(array.at, array.shape, strides, DType.F32, "cuda:0", "fake", array, stream=5)

    made = iter(range(100))
    monkeypatch.setattr(runtime, "describe", describe)
    monkeypatch.setattr(
        runtime,
        "allocator",
        lambda like, shape, dtype, kernel, tensor: lambda: Gpu(*shape, at=0x1000_0000 + next(made) * 4096),
    )
    monkeypatch.setattr(fake, "look", lambda launched: None)
    executable.encode_cached.cache_clear()
    return fake


def test_arrays_on_a_gpu_run_there_on_their_stream(on_gpu: FakeDriver) -> None:
    kernel = kernels.padded_sum()
    out = kernel(X=Gpu(70, 64, at=0x2000_0000))
    assert isinstance(out, Gpu)
    assert out.shape == (70,)
    assert on_gpu.launched[:5] == (600, 2, 128, 8192, 5)


def test_a_repeated_call_only_launches(on_gpu: FakeDriver) -> None:
    """Cases 49: nothing but the launch itself happens, which is what graph capture can hold."""
    kernel = kernels.padded_sum()
    x, y = Gpu(70, 64, at=0x2000_0000), Gpu(70, at=0x3000_0000)
    kernel(X=x, Y=y)
    on_gpu.calls.clear()
    kernel(X=x, Y=y)
    assert on_gpu.names() == ELSEWHERE


def test_maps_are_encoded_again_only_for_other_memory_or_shapes(on_gpu: FakeDriver) -> None:
    kernel = kernels.padded_sum()
    y = Gpu(70, at=0x3000_0000)
    for x in (Gpu(70, 64, at=0x2000_0000), Gpu(70, 64, at=0x2100_0000), Gpu(70, 64, at=0x2000_0000)):
        kernel(X=x, Y=y)
        kernel(X=x)  # another output each time
    assert on_gpu.names().count("cuTensorMapEncodeTiled") == 2
    assert on_gpu.names().count("cuModuleLoadData") == 1


def test_sizes_are_judged_once_for_all_memory(on_gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, judged = kernels.padded_sum(), []
    real = executable.dispatch
    monkeypatch.setattr(executable, "dispatch", lambda *a: judged.append(a[1]["M"]) or real(*a))
    for rows in (70, 70, 71, 70):
        kernel(X=Gpu(rows, 64, at=0x2000_0000))  # another output each time
    assert judged == [70, 71]


def test_a_scalar_changed_between_calls_is_seen(on_gpu: FakeDriver) -> None:
    kernel = kernels.scale()
    arrays = {"X": Gpu(4, 8, at=0x2000_0000), "Y": Gpu(4, 8, at=0x3000_0000), "R": Gpu(4, at=0x4000_0000)}
    kernel(**arrays, a=2.0)
    first = on_gpu.launched.pointers
    kernel(**arrays, a=3.0)
    assert on_gpu.launched.pointers != first
    kernel(**arrays, a=2.0)
    assert on_gpu.launched.pointers == first


def test_a_misspelt_argument_is_told_the_one_that_is_meant() -> None:
    k = kernels.scale()
    with pytest.raises(TilegenError) as caught:
        k(X=np.ones((3, 4), np.float32), aa=2.0)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.wanted) == ("UNKNOWN_ARGUMENT", "did you mean a?")
