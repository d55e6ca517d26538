"""The driver behind a stand-in that records its calls: order, values, and errors in words."""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from cuda.bindings import driver as real

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.machines import MACHINES
from tilegen.runtime import direct, driver, graphs
from tilegen.runtime.binding import Binding
from tilegen.runtime.direct import Config
from tilegen.runtime.graphs import Functions
from tilegen.runtime.launch import gpu_launch
from tilegen.targets.hopper.tensor_map import TensorMap

CONTEXT = 77
# what a launch calls from a thread where another context is current
CAPTURING = ["current context", "cuCtxGetCurrent", "cuCtxPushCurrent", "is capturing", "cuCtxPopCurrent"]
ELSEWHERE = [*CAPTURING[:3], "cuLaunchKernelEx", CAPTURING[4]]


class Failure(int):
    """An error code with a name, as the bindings have it."""

    name = "CUDA_ERROR_INVALID_VALUE"


class Launched(NamedTuple):
    function: int
    grid: int
    threads: int
    shared_bytes: int
    stream: int
    pointers: int


class FakeDriver:
    """Answers like cuda.bindings.driver for one Hopper GPU with 132 SMs."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="sms",
    )
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    CUresult = staticmethod(lambda code: Failure(code))
    CUtensorMapInterleave = real.CUtensorMapInterleave
    CUtensorMapDataType = real.CUtensorMapDataType
    CUtensorMapSwizzle = real.CUtensorMapSwizzle
    CUtensorMapL2promotion = real.CUtensorMapL2promotion
    CUtensorMapFloatOOBfill = real.CUtensorMapFloatOOBfill
    CUstreamCaptureMode = real.CUstreamCaptureMode
    CUDA_KERNEL_NODE_PARAMS = real.CUDA_KERNEL_NODE_PARAMS

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.major = 9
        self.fails: set[str] = set()
        self.context = 0
        self.captured = False
        self.mode = real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self.nodes: list[Any] = []
        self.graphs: list[int] = []  # there are, that can be launched
        self.graph_launched: tuple[int, int] | None = None  # the last: which, on which stream
        self.watch: Callable[[str], object] = lambda name: None  # sees each call that has to do with graphs

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
            "cuGetErrorString": lambda error: b"invalid argument",
            "cuThreadExchangeStreamCaptureMode": self.exchange,
            "cuGraphCreate": lambda flags: 700,
            "cuGraphAddKernelNode": lambda graph, before, count, node: self.nodes.append(node),
            "cuGraphInstantiate": lambda graph, flags: self.graphs.append(800 + len(self.nodes)) or self.graphs[-1],
            "cuGraphDestroy": lambda graph: None,
            "cuGraphExecDestroy": self.graphs.remove,
        }
        answer = answers[name]

        def recorded(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name.startswith("cuGraph"):
                self.watch(name)
            if name in self.fails:
                return (Failure(1),)
            value = answer(*arguments)
            return (0,) if value is None else (0, value)

        return recorded

    def exchange(self, mode: Any) -> Any:
        before, self.mode = self.mode, mode
        return before

    def relaxed(self) -> bool:
        return bool(self.mode == real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)

    def launch_graph(self, executable: Any, stream: Any) -> int:
        """The driver's own function."""
        self.calls.append(("cuGraphLaunch",))
        self.watch("cuGraphLaunch")
        assert executable.value in self.graphs
        if self.captured:
            return 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: the capture is then lost
        if "cuGraphLaunch" in self.fails:
            return 1
        self.graph_launched = executable.value, stream.value or 0
        return 0

    def launch(self, config: Any, function: Any, pointers: Any, extra: None) -> int:
        """The driver's own function."""
        if self.context != CONTEXT:
            self.calls.append(("refused launch",))
            return 400  # CUDA_ERROR_INVALID_HANDLE, as on two H200 with a kernel of the other
        self.calls.append(("cuLaunchKernelEx",))
        assert extra is None
        if "cuLaunchKernelEx" in self.fails:
            return 1
        c = config._obj
        assert (*c.grid[1:], *c.block[1:]) == (1, 1, 1, 1)
        self.config = c
        self.launched = Launched(function.value, c.grid[0], c.block[0], c.shared_bytes, c.stream or 0, pointers.value)
        self.look(self.launched)
        return 0

    def look(self, launched: Launched) -> None:
        """At the first three arguments, if they are a map, 4 and 8 bytes."""
        pointers = (ctypes.c_void_p * 3).from_address(launched.pointers)
        self.seen = [ctypes.string_at(p, n) for p, n in zip(pointers, (128, 4, 8), strict=True) if p]

    def current_context(self, found: Any) -> int:
        """The driver's own function."""
        self.calls.append(("current context",))
        found._obj.value = self.context
        return 0

    def is_capturing(self, stream: Any, status: Any) -> int:
        """The driver's own function."""
        self.calls.append(("is capturing", stream.value or 0))
        status._obj.value = int(self.captured)
        return int("is capturing" in self.fails)

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
    functions = Functions(stand_in.launch, stand_in.launch_graph, stand_in.current_context, stand_in.is_capturing)
    monkeypatch.setattr(direct, "functions", lambda: functions)
    for cached in (driver.device_info, driver._primary_context):
        cached.cache_clear()
    monkeypatch.setattr(direct, "_threads", defaultdict(set))
    monkeypatch.setattr(graphs, "_left", deque())  # of the tests before
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
        driver.check_machine(0, MACHINES["hopper"])
    assert caught.value.diagnostics[0].got == "compute capability 8.0"


def test_a_launch_passes_every_argument_and_waits_for_nothing(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    arguments = (bytes(range(128)), b"\1\2\3\4", b"\5\6\7\10\11\12\13\14")
    launch = gpu_launch(loaded, Binding(17, arguments), dependent=False)
    fake.calls.clear()
    launch.put(9)
    launch.put(10)
    assert fake.launched == (600, 17, 384, 200_000, 10, launch.pointers)
    assert fake.config.count == 0
    assert tuple(fake.seen) == arguments
    assert fake.names() == ELSEWHERE * 2


def test_a_dependent_launch_says_so_to_the_driver(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(17, (bytes(128),)), dependent=True)
    fake.calls.clear()
    for stream in (9, 10):
        launch.put(stream)
        assert fake.launched == (600, 17, 384, 200_000, stream, launch.pointers)
    assert fake.names() == ELSEWHERE * 2
    assert fake.config.count == 1
    attribute = fake.config.attributes[0]
    assert attribute.id == real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    assert attribute.value == 1


def test_a_launch_is_laid_out_as_the_driver_reads_it() -> None:
    theirs = real.CUlaunchConfig()
    theirs.gridDimX, theirs.gridDimY, theirs.gridDimZ = 1, 2, 3
    theirs.blockDimX, theirs.blockDimY, theirs.blockDimZ = 4, 5, 6
    theirs.sharedMemBytes, theirs.hStream = 7, 8
    attribute = real.CUlaunchAttribute()
    attribute.id = real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 9
    theirs.attrs, theirs.numAttrs = [attribute, attribute], 2
    ours = Config.from_address(theirs.getPtr())
    assert (*ours.grid, *ours.block, ours.shared_bytes, ours.stream, ours.count) == (*range(1, 9), 2)
    assert [(ours.attributes[n].id, ours.attributes[n].value) for n in range(2)] == [(int(attribute.id), 9)] * 2


def test_a_launch_keeps_its_arguments_for_the_streams_it_saw_last(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(direct, "_MOST", 3)
    config = direct._config
    monkeypatch.setattr(direct, "_config", lambda *a: made.append(a[2]) or config(*a))
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(17, (bytes(128),)), dependent=False)
    for stream in (1, 2, 1, 3, 2, 4, 1, 4):
        launch.put(stream)
        assert fake.launched.stream == stream
    assert made == [1, 2, 3, 4, 1]


def test_nothing_to_do_launches_nothing_in_either_way(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    fake.calls.clear()
    gpu_launch(loaded, Binding(0, ()), dependent=True).put(0)
    assert fake.calls == []


def test_whether_a_stream_is_captured_is_asked_in_the_gpus_context(fake: FakeDriver) -> None:
    driver.context(0)
    for fake.captured in (False, True):
        fake.calls.clear()
        assert direct.capturing(0, 9) == fake.captured
        assert ("is capturing", 9) in fake.calls
        assert fake.names() == CAPTURING
    fake.context = CONTEXT
    fake.calls.clear()
    assert direct.capturing(0, 9)
    assert fake.names() == ["current context", "is capturing"]
    fake.fails = {"is capturing"}
    assert not direct.capturing(0, 9)


def test_a_current_context_stays(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (bytes(128),)), dependent=False)
    fake.context = CONTEXT
    fake.calls.clear()
    launch.put(0)
    launch.put(0)
    assert fake.names() == ["current context", "cuLaunchKernelEx", "cuLaunchKernelEx"]


def test_a_thread_may_have_left_the_context_that_it_was_in(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (bytes(128),)), dependent=False)
    fake.context = CONTEXT
    launch.put(0)
    fake.context = CONTEXT + 1
    fake.calls.clear()
    launch.put(0)
    assert fake.names() == ["refused launch", *ELSEWHERE[1:]]


def test_arguments_lie_aligned_for_tensor_maps(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (b"\1\2\3\4", bytes(128), b"\1")), dependent=False)
    assert [p % 64 for p in (ctypes.c_void_p * 3).from_address(launch.pointers)] == [0, 0, 0]


def test_nothing_to_do_launches_nothing(fake: FakeDriver) -> None:
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    fake.calls.clear()
    gpu_launch(loaded, Binding(0, ()), dependent=False).put(0)
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
    fake.fails = {"cuLaunchKernelEx"}
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    launch = gpu_launch(loaded, Binding(1, (bytes(128),)), dependent=False)
    with pytest.raises(TilegenError, match=r"DRIVER_FAILED.*launch the kernel.*INVALID_VALUE \(invalid argument\)"):
        launch.put(0)
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
