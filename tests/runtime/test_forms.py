"""Calls with tensors: what is found again, what is made anew, and that nothing wrong is found again."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from benchmarks.stand_in import Driver, Tensor, Torch, installed
from tests.runtime import kernels
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import driver, forms
from tilegen.runtime.direct import AFTER
from tilegen.runtime.executable import Executable
from tilegen.runtime.forms import recogniser, signature
from tilegen.runtime.graphs import Functions
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.launch import encode_cached
from tilegen.runtime.recent import MOST, Recent


class Put(NamedTuple):
    """One launch: its stream, and the arguments of `padded_sum`."""

    stream: int
    map: int  # the address in X's map
    y: int
    m: int
    n: int


class Gpu(NamedTuple):
    torch: Torch
    driver: Driver
    puts: list[Put]


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    puts: list[Put] = []

    def put(stream: int | None, pointers: int) -> int:
        at = (ctypes.c_void_p * 4).from_address(pointers)
        assert at[0] is not None and at[0] % 64 == 0
        x, y, m, n = (
            struct.unpack(f, ctypes.string_at(p, struct.calcsize(f)))[0] for f, p in zip("QQii", at, strict=True)
        )
        puts.append(Put(stream or 0, x, y, m, n))
        return 0

    def functions(driver: Driver) -> Functions:
        return Functions(
            launch=lambda config, function, pointers, extra: put(config._obj.stream, pointers.value),
            launch_graph=lambda executable, stream: put(stream.value, driver.graphs[executable.value].kernelParams),
            current_context=lambda found: setattr(found._obj, "value", 1) or 0,
            is_capturing=lambda stream, status: 0,
        )

    encode_cached.cache_clear()
    with installed(functions) as (torch, driver):
        yield Gpu(torch, driver, puts)
    encode_cached.cache_clear()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return kernels.padded_sum()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry a call that is looked at argument by argument, and one a launch that is bound in full."""
    seen: list[str] = []
    request, bound = Kernel._request, Executable.bound
    monkeypatch.setattr(Kernel, "_request", lambda *a: seen.append("request") or request(*a))
    monkeypatch.setattr(Executable, "bound", lambda *a: seen.append("bound") or bound(*a))
    return seen


def test_the_same_call_again_only_launches(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    x, y = Tensor((70, 64)), Tensor((70,))
    for _ in range(3):  # the second call makes the launch that the form keeps
        assert kernel(X=x, Y=y) is y
    assert slow == ["request", "bound", "bound"]
    maps = len(gpu.driver.maps)
    slow.clear()
    kernel(X=x, Y=y)
    assert slow == []
    assert len(gpu.driver.maps) == maps
    assert gpu.puts == [Put(0, x.address, y.address, 70, 64)] * 4


def test_other_addresses_of_the_same_form_change_nothing_else(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    arrays = [(Tensor((70, 64)), Tensor((70,))) for _ in range(5)]
    for x, y in arrays:
        kernel(X=x, Y=y)
    assert slow == ["request", "bound", "bound"]
    assert gpu.puts == [Put(0, x.address, y.address, 70, 64) for x, y in arrays]


def test_calls_that_come_again_are_put_by_a_graph_of_the_same_arguments(gpu: Gpu, kernel: Kernel) -> None:
    x, y = Tensor((70, 64)), Tensor((70,))
    for _ in range(2 * AFTER + 4):
        kernel(X=x, Y=y)
    assert len(gpu.driver.graphs) == 1
    assert gpu.puts == [Put(0, x.address, y.address, 70, 64)] * (2 * AFTER + 4)
    other = Tensor((70,))
    for _ in range(AFTER + 1):
        kernel(X=x, Y=other)
    assert len(gpu.driver.graphs) == 2
    assert {put.y for put in gpu.puts[-AFTER - 1 :]} == {other.address}


def test_a_prepared_launch_keeps_its_arguments(gpu: Gpu, kernel: Kernel) -> None:
    """However many others the kernel has had since: it keeps those used last alone."""
    x, y = Tensor((70, 64)), Tensor((70,))
    launch = kernel.prepare(X=x, Y=y)
    for _ in range(MOST + 8):
        kernel(X=x, Y=Tensor((70,)))
    launch()
    assert gpu.puts[-1] == Put(0, x.address, y.address, 70, 64)


def test_torch_is_asked_once_about_all_arrays(gpu: Gpu, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("tilegen.runtime.kernel.signature", lambda given: asked.append(1) or signature(given))
    pairs = [(Tensor((70, 64)), Tensor((70,))) for _ in range(5)]
    for x, y in pairs:
        assert kernel(X=x, Y=y) is y
    assert len(asked) == 2  # the first call has no form yet, the second finds it
    assert [put.y for put in gpu.puts] == [y.address for _, y in pairs]
    x, y = pairs[0]
    for others in ({"X": x}, {"Y": y, "X": x}, {"X": x, "Y": None}, {"X": Tensor((71, 64))}, {"X": x, "Y": y}):
        kernel(**others)
    assert len(asked) == 6  # the last is like those before
    assert [put.m for put in gpu.puts[5:]] == [70, 70, 70, 71, 70]


def test_a_torch_that_cannot_be_asked_is_not(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    del gpu.torch._C._dynamo.guards.TensorGuards
    x, y = Tensor((70, 64)), Tensor((70,))
    for _ in range(4):
        kernel(X=x, Y=y)
    assert slow == ["request", "bound", "bound"]


@pytest.mark.parametrize(("first", "then", "same"), [(1, 1, True), (1, 2, False), (0.0, -0.0, False), (1, True, False)])
def test_numbers_are_of_the_form(gpu: Gpu, first: float, then: float, same: bool) -> None:
    x = Tensor((70, 64))
    recognise = recogniser({"X": x, "n": first})
    assert recognise is not None
    assert recognise({"X": x, "n": then}) == ([x.address] if same else None)
    assert recognise({"X": x, "m": first}) is None
    assert recognise({"X": first, "n": x}) is None


def test_what_depends_on_the_mode_is_judged_anew(gpu: Gpu) -> None:
    x = Tensor((70, 64))
    x.requires_grad = True
    assert recogniser({"X": x}) is None


def test_maps_are_encoded_in_the_context(gpu: Gpu, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has not touched the GPU has none, and the driver encodes nothing there."""
    pushed, real = [0], Driver.__getattr__

    def watched(self: Driver, name: str) -> Any:
        if name == "cuCtxGetCurrent":
            return lambda: (0, 1 if pushed[0] else 7)
        if name in ("cuCtxPushCurrent", "cuCtxPopCurrent"):
            return lambda *context: (pushed.append(pushed.pop() + (1 if context else -1)), (0, 0))[1]
        return real(self, name)

    def encode_there(*arguments: Any) -> int:
        return gpu.driver.encode_tiled(*arguments) if pushed[0] else 201  # CUDA_ERROR_INVALID_CONTEXT

    monkeypatch.setattr(Driver, "__getattr__", watched)
    monkeypatch.setattr(driver, "_encode_tiled", lambda: encode_there)
    arrays = [(Tensor((70, 64)), Tensor((70,))) for _ in range(4)]
    for x, y in arrays:
        kernel(X=x, Y=y)
    assert [put.map for put in gpu.puts] == [x.address for x, _ in arrays]
    assert pushed == [0]


def test_outputs_are_made_anew_at_each_call(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    x = Tensor((70, 64))
    made = [kernel(X=x) for _ in range(4)]
    assert len({y.address for y in made}) == 4
    assert {(y.shape, str(y.dtype), y.device.index) for y in made} == {((70,), "torch.float32", 0)}
    assert [put.y for put in gpu.puts] == [y.address for y in made]
    assert slow == ["request", "bound", "bound"]
    kernel(X=x, Y=None)  # spelt otherwise, the same
    assert [put.m for put in gpu.puts] == [70] * 5


@pytest.mark.parametrize(
    "other",
    [
        {"shape": (71, 64)},
        {"shape": (70, 32)},
        {"strides": (128, 1)},
        {"device": "cuda:1"},
    ],
    ids=str,
)
def test_another_form_is_judged_anew(gpu: Gpu, kernel: Kernel, slow: list[str], other: dict[str, Any]) -> None:
    at = 1 << 40
    kernel(X=Tensor((70, 64), address=at))
    slow.clear()
    kernel(X=Tensor(**{"shape": (70, 64), "address": at, **other}))
    assert slow == ["request", "bound"]
    m, n = other.get("shape", (70, 64))
    assert gpu.puts[-1][:2] == (0, at)
    assert gpu.puts[-1][3:] == (m, n)


def test_launches_follow_the_current_stream(gpu: Gpu, kernel: Kernel) -> None:
    x, y = Tensor((70, 64)), Tensor((70,))
    prepared = kernel.prepare(X=x, Y=y)
    for gpu.torch.stream in (5, 0, 6, 5):
        kernel(X=x, Y=y)
        prepared()
    assert [put.stream for put in gpu.puts] == [5, 5, 0, 0, 6, 6, 5, 5]


def test_a_prepared_launch_only_asks_for_the_stream(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    x, y = Tensor((70, 64)), Tensor((70,))
    prepared = kernel.prepare(X=x, Y=y)
    slow.clear()
    maps = len(gpu.driver.maps)
    assert prepared() is y
    assert prepared() is y
    assert slow == []
    assert len(gpu.driver.maps) == maps
    assert gpu.puts == [Put(0, x.address, y.address, 70, 64)] * 2


def wrong_calls() -> dict[str, tuple[str, dict[str, Any]]]:
    x, y = {"shape": (70, 64)}, {"shape": (70,)}
    return {
        "type": ("ARRAY_DTYPE", {"X": Tensor(**x, dtype="float16")}),
        "rank": ("ARRAY_RANK", {"X": Tensor((70, 64, 1))}),
        "extent": ("ARRAY_EXTENT", {"X": Tensor(**x), "Y": Tensor((71,))}),
        "device": ("ARRAY_DEVICE", {"X": Tensor(**x), "Y": Tensor(**y, device="cuda:1")}),
        "stride": ("TMA_STRIDE_ALIGNMENT", {"X": Tensor(**x, strides=(65, 1))}),
        "order": ("ARRAY_INNER_STRIDE", {"X": Tensor(**x, strides=(1, 70))}),
        "address": ("TMA_ADDRESS", {"X": Tensor(**x, address=(1 << 41) + 4)}),
        "address of the output": ("ARRAY_ELEMENT_ALIGNMENT", {"X": Tensor(**x), "Y": Tensor(**y, address=4097)}),
        "missing": ("MISSING_ARRAY", {"Y": Tensor(**y)}),
        "unknown": ("UNKNOWN_ARGUMENT", {"X": Tensor(**x), "Z": Tensor(**y)}),
        "size": ("ARRAY_EXTENT", {"X": Tensor(**x), "M": 71}),
        "size's type": ("SIZE_VALUE", {"X": Tensor(**x), "M": 70.0}),
    }


@pytest.mark.parametrize("name", wrong_calls())
def test_a_wrong_call_is_refused_every_time(gpu: Gpu, kernel: Kernel, name: str) -> None:
    code, arguments = wrong_calls()[name]
    right = {"X": Tensor((70, 64)), "Y": Tensor((70,))}
    for given in (right, {"X": right["X"]}, {**right, "M": 70}):  # forms that a wrong call might be taken for
        for _ in range(3):
            kernel(**given)
    launched = len(gpu.puts)
    for _ in range(3):
        with pytest.raises(TilegenError, match=code):
            kernel(**arguments)
    assert len(gpu.puts) == launched


def test_what_a_known_tensor_becomes_is_seen(gpu: Gpu, kernel: Kernel) -> None:
    x, y = Tensor((70, 64)), Tensor((70,))
    for _ in range(3):
        kernel(X=x, Y=y)
    x.requires_grad = True
    kernel(X=x, Y=y)  # nothing is recorded now
    gpu.torch.gradients = True
    with pytest.raises(TilegenError, match="ARRAY_GRADIENT"):
        kernel(X=x, Y=y)
    x.requires_grad, x.negated = False, True
    with pytest.raises(TilegenError, match="resolve_neg"):
        kernel(X=x, Y=y)
    x.negated, x.address = False, 0
    with pytest.raises(TilegenError, match="without memory"):
        kernel(X=x, Y=y)
    assert len(gpu.puts) == 4


def test_numbers_that_are_equal_but_differ_are_told_apart() -> None:
    signatures = [signature({"a": number}) for number in (0, False, 0.0, -0.0, None, 1, True, 1.0)]
    assert len(set(map(str, signatures))) == len(signatures)
    assert signature({"a": float("nan")}) == signature({"a": float("nan")})


def test_a_number_in_a_tensor_is_read_at_each_call(gpu: Gpu, kernel: Kernel) -> None:
    m = Tensor((), "int32", device="cpu")
    for m.number in (70, 70, 70):
        kernel(X=Tensor((70, 64)), M=m)
    m.number = 71
    with pytest.raises(TilegenError, match="ARRAY_EXTENT"):
        kernel(X=Tensor((70, 64)), M=m)


def test_other_arrays_than_tensors_have_no_signature() -> None:
    import numpy as np

    assert signature({"X": np.zeros(3)}) is None
    assert signature({"X": "text"}) is None
    assert signature({"a": np.float32(1)}) is None


def test_forms_and_launches_are_forgotten_in_turn(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    kernel._forms, kernel._launches = Recent(most=2), Recent(most=3)
    x = {rows: Tensor((rows, 64)) for rows in (70, 71, 72)}
    y = {rows: Tensor((rows,)) for rows in (70, 71, 72)}
    for rows in (70, 71, 72):
        kernel(X=x[rows], Y=y[rows])
        kernel(X=x[rows], Y=y[rows])
    assert (len(kernel._forms), len(kernel._launches)) == (2, 3)
    slow.clear()
    kernel(X=x[72], Y=y[72])
    assert slow == []
    kernel(X=x[70], Y=y[70])
    assert slow == ["request", "bound"]
    assert [put.m for put in gpu.puts] == [70, 70, 71, 71, 72, 72, 72, 70]
    assert [put.map for put in gpu.puts[-2:]] == [x[72].address, x[70].address]


def test_addresses_that_are_aligned_otherwise_are_judged(gpu: Gpu, kernel: Kernel, slow: list[str]) -> None:
    base = 1 << 40
    for n, skew in enumerate((0, 0, 256, 16, 32, 4)):
        x = Tensor((70, 64), address=base + n * 65536 + skew)
        slow.clear()
        if skew == 4:
            with pytest.raises(TilegenError, match="TMA_ADDRESS"):
                kernel(X=x)
        else:
            kernel(X=x)
            assert gpu.puts[-1].map == x.address
        assert ("bound" in slow) == (n not in (2,))


def test_empty_tensors_are_bound_each_time(gpu: Gpu, kernel: Kernel) -> None:
    for _ in range(4):
        kernel(X=Tensor((0, 64)))
    assert gpu.puts == []
    for n in range(4):
        y = Tensor((70,), address=(1 << 40) + n * 4096)
        kernel(X=Tensor((70, 0), address=8), Y=y)
        assert gpu.puts[-1].y == y.address
        assert gpu.puts[-1].map == y.address  # a map that is never read, over memory that exists


def test_what_a_form_looks_at_is_all_that_may_matter() -> None:
    """A new attribute that `describe` refuses or uses must be in the signature."""
    assert {int, float, bool, type(None)} == forms.NUMBERS
    x = Tensor((2, 3), "float16", address=64, device="cuda:1")
    found = signature({"X": x, "n": 3})
    assert found is not None
    form, addresses = found
    assert addresses == [64]
    assert form == ("X", (2, 3), (3, 1), x.dtype, x.device, "n", int, "3")
