"""The driver behind a stand-in that records its calls: order, values, and errors in words."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as real

from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import driver
from tilegen.runtime.binding import Binding
from tilegen.runtime.launch import gpu_launch
from tilegen.targets.hopper.tensor_map import TensorMap

CONTEXT = 77


class Failure(int):
    """An error code with a name, as the bindings have it."""

    name = "CUDA_ERROR_INVALID_VALUE"


class FakeDriver:
    """Answers like cuda.bindings.driver for one Hopper GPU with 132 SMs."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="sms",
    )
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    CUresult = staticmethod(lambda code: Failure(code))
    CUlaunchAttribute, CUlaunchAttributeID = real.CUlaunchAttribute, real.CUlaunchAttributeID
    CUlaunchConfig = real.CUlaunchConfig
    CUtensorMapInterleave = real.CUtensorMapInterleave
    CUtensorMapDataType = real.CUtensorMapDataType
    CUtensorMapSwizzle = real.CUtensorMapSwizzle
    CUtensorMapL2promotion = real.CUtensorMapL2promotion
    CUtensorMapFloatOOBfill = real.CUtensorMapFloatOOBfill

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.major = 9
        self.fails: set[str] = set()
        self.context = 0

    def __getattr__(self, name: str) -> Any:
        answers = {
            "cuDeviceGet": lambda index: index,
            "cuDeviceGetName": lambda size, device: b"NVIDIA H200\0\0 \0",
            "cuDeviceGetAttribute": lambda a, device: {"major": self.major, "minor": 0, "sms": 132}[a],
            "cuDriverGetVersion": lambda: 13000,
            "cuDevicePrimaryCtxRetain": lambda device: CONTEXT,
            "cuCtxGetCurrent": lambda: self.context,
            "cuCtxPushCurrent": lambda context: setattr(self, "context", context),
            "cuCtxPopCurrent": lambda: setattr(self, "context", 0),
            "cuModuleLoadData": lambda cubin: 500,
            "cuModuleGetFunction": lambda module, entry: 600,
            "cuFuncSetAttribute": lambda function, attribute, value: None,
            "cuLaunchKernel": self.launch,
            "cuLaunchKernelEx": self.launch_by_config,
            "cuGetErrorString": lambda error: b"invalid argument",
        }
        answer = answers[name]

        def recorded(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in self.fails:
                return (Failure(1),)
            value = answer(*arguments)
            return (0,) if value is None else (0, value)

        return recorded

    def launch(self, *arguments: Any) -> None:
        self.launched = arguments
        pointers = (ctypes.c_void_p * 3).from_address(arguments[9])
        self.seen = [ctypes.string_at(p, n) for p, n in zip(pointers, (128, 4, 8), strict=True) if p]

    def launch_by_config(self, config: Any, function: int, pointers: int, extra: int) -> None:
        self.config = config
        self.launched = (function, pointers, int(config.hStream), extra)

    def encode_tiled(self, out: ctypes.c_void_p, *arguments: Any) -> int:
        self.calls.append(("cuTensorMapEncodeTiled", *arguments))
        assert out.value
        assert out.value % 64 == 0
        ctypes.memmove(out, bytes(range(128)), 128)
        return int("cuTensorMapEncodeTiled" in self.fails)

    def names(self) -> list[str]:
        return [c[0] for c in self.calls]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    stand_in = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: stand_in)
    monkeypatch.setattr(driver, "_encode_tiled", lambda: stand_in.encode_tiled)
    for cached in (driver.device_info, driver._primary_context):
        cached.cache_clear()
    yield stand_in
    for cached in (driver.device_info, driver._primary_context):
        cached.cache_clear()


def test_a_device_is_described(fake: FakeDriver) -> None:
    assert driver.device_info(0) == driver.DeviceInfo(0, "NVIDIA H200", (13, 0), (9, 0), 132)
    before = len(fake.calls)
    driver.device_info(0)
    assert len(fake.calls) == before


def test_a_kernel_is_loaded_with_its_shared_memory(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    assert (loaded.function, loaded.threads, loaded.shared_bytes) == (600, 384, 200_000)
    assert ("cuModuleGetFunction", 500, b"fa3") in fake.calls
    assert ("cuFuncSetAttribute", 600, "shared", 200_000) in fake.calls
    assert fake.context == 0


def test_another_gpu_than_hopper_is_refused(fake: FakeDriver) -> None:
    fake.major = 8
    with pytest.raises(TilegenError, match=r"WRONG_GPU.*cuda:0 is a NVIDIA H200") as caught:
        driver.load(b"cubin", "fa3", 0, 384, 200_000)
    assert caught.value.diagnostics[0].got == "compute capability 8.0"


def test_a_launch_passes_every_argument_and_waits_for_nothing(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    arguments = (bytes(range(128)), b"\1\2\3\4", b"\5\6\7\10\11\12\13\14")
    launch = gpu_launch(loaded, Binding(17, arguments), dependent=False)
    fake.calls.clear()
    launch(stream=9)
    launch(stream=10)
    assert fake.launched[:9] == (600, 17, 1, 1, 384, 1, 1, 200_000, 10)
    assert tuple(fake.seen) == arguments
    per_launch = ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuLaunchKernel", "cuCtxPopCurrent"]
    assert fake.names() == per_launch * 2


def test_a_dependent_launch_says_so_to_the_driver(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(17, (bytes(128),)), dependent=True)
    fake.calls.clear()
    for stream in (9, 10):
        launch(stream)
        assert fake.launched == (600, launch.pointers, stream, 0)
    assert fake.names() == ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuLaunchKernelEx", "cuCtxPopCurrent"] * 2
    c = fake.config
    assert (c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ) == (17, 1, 1, 384, 1, 1)
    assert (c.sharedMemBytes, c.numAttrs) == (200_000, 1)
    (attribute,) = c.attrs
    assert attribute.id == real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert attribute.value.programmaticStreamSerializationAllowed == 1


def test_nothing_to_do_launches_nothing_in_either_way(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    fake.calls.clear()
    gpu_launch(loaded, Binding(0, ()), dependent=True)(stream=0)
    assert fake.calls == []


def test_a_current_context_stays(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (bytes(128),)), dependent=False)
    fake.context = CONTEXT
    fake.calls.clear()
    launch(stream=0)
    assert fake.names() == ["cuCtxGetCurrent", "cuLaunchKernel"]


def test_arguments_lie_aligned_for_tensor_maps(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (b"\1\2\3\4", bytes(128), b"\1")), dependent=False)
    assert [p % 64 for p in (ctypes.c_void_p * 3).from_address(launch.pointers)] == [0, 0, 0]


def test_nothing_to_do_launches_nothing(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    fake.calls.clear()
    gpu_launch(loaded, Binding(0, ()), dependent=False)(stream=0)
    assert fake.calls == []


def test_a_tensor_map_reaches_the_driver_whole(fake: FakeDriver) -> None:
    m = TensorMap("bf16", 4096, (128, 1000), (256,), (64, 80), swizzle=128, fill="zero", promotion=256)
    assert driver.encode(m) == bytes(range(128))
    kind, rank, address, dims, strides, box, steps, *modes = fake.calls[-1][1:]
    assert (kind, rank, address.value) == (9, 2, 4096)
    assert [list(a) for a in (dims, strides, box, steps)] == [[128, 1000], [256, 0], [64, 80], [1, 1]]
    assert modes == [0, 3, 3, 0]  # interleave, swizzle 128 B, promotion 256 B, fill
    driver.encode(TensorMap("f32", 4096, (128,), (), (64,), fill="nan"))
    assert fake.calls[-1][1] == 7
    assert fake.calls[-1][-4:] == (0, 0, 0, 1)
    fake.fails = {"cuTensorMapEncodeTiled"}
    with pytest.raises(TilegenError, match=r"DRIVER_FAILED.*encode a tensor map"):
        driver.encode(m)


def test_a_failing_call_says_what_could_not_be_done(fake: FakeDriver) -> None:
    fake.fails = {"cuLaunchKernel"}
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (bytes(128),)), dependent=False)
    with pytest.raises(TilegenError, match=r"DRIVER_FAILED.*launch the kernel.*INVALID_VALUE \(invalid argument\)"):
        launch(stream=0)
    assert fake.context == 0  # left as it was


def test_no_driver_is_no_exception_until_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise RuntimeError("libcuda.so.1 not found")

    monkeypatch.setattr(driver, "_driver", absent)
    driver.available.cache_clear()
    driver.device_info.cache_clear()
    try:
        assert not driver.available()
        with pytest.raises(TilegenError, match=r"NO_DRIVER.*libcuda"):
            driver.device_info(0)
    finally:
        driver.available.cache_clear()
