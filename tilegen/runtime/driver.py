"""The CUDA driver: is it there, kernels loaded from cubins, tensor maps, contexts. Its errors become words.

Nothing here synchronises, so every call is fit for graph capture, once the kernel is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.machines import Machine
from tilegen.targets.hopper.tensor_map import SIZE, TensorMap

LIBRARY = "libcuda.so.1"


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU. `driver` is the newest CUDA version that the driver serves."""

    index: int
    name: str
    driver: tuple[int, int]
    capability: tuple[int, int]
    sm_count: int


@dataclass(frozen=True)
class Loaded:
    """A kernel on one device, ready to launch. sms: multiprocessors that its CTAs, one on each, can be on at once."""

    function: int  # CUfunction
    module: int  # CUmodule: unloaded only when the process ends
    device: DeviceInfo
    threads: int
    shared_bytes: int
    sms: int


@cache
def _driver() -> Any:
    """The bindings, initialised. Raises RuntimeError in words where there is no driver or no GPU."""
    try:
        from cuda.bindings import driver

        (error,) = driver.cuInit(0)
    except (ImportError, RuntimeError, OSError) as e:
        raise RuntimeError(str(e)) from e
    if int(error):
        raise RuntimeError(_words(driver, error))
    _, count = driver.cuDeviceGetCount()
    if not count:
        raise RuntimeError("the driver sees no GPU")
    return driver


def _words(driver: Any, error: Any) -> str:
    text = None
    with suppress(RuntimeError):
        text = driver.cuGetErrorString(error)[1]
    return f"{error.name} ({text.decode()})" if text else str(error.name)


@cache
def available() -> bool:
    """Whether there is a CUDA driver with at least one GPU. Never raises."""
    try:
        _driver()
    except RuntimeError:
        return False
    return True


def cuda() -> Any:
    """The driver's bindings. Raises TilegenError where there is no driver or no GPU."""
    try:
        return _driver()
    except RuntimeError as e:
        fail(Code.NO_DRIVER, None, reason=str(e))


def call(what: str, result: tuple[Any, ...]) -> Any:
    """The value of a driver call of the bindings. Raises TilegenError saying `what` could not be done."""
    if int(result[0]):
        fail(Code.DRIVER_FAILED, None, what=what, reason=_words(cuda(), result[0]))
    return result[1] if len(result) == 2 else result[1:]


def refuse(what: str, error: int) -> NoReturn:
    """Raises TilegenError saying `what` could not be done, and why, by the number of a driver's error."""
    driver = cuda()
    fail(Code.DRIVER_FAILED, None, what=what, reason=_words(driver, driver.CUresult(error)))


@cache
def device_info(index: int = 0) -> DeviceInfo:
    """What GPU `index` is. Raises TilegenError where there is none."""
    driver = cuda()
    what = f"find GPU {index}"
    device = call(what, driver.cuDeviceGet(index))
    name = call(what, driver.cuDeviceGetName(128, device))
    kinds = driver.CUdevice_attribute
    major, minor, sms = (
        int(call(what, driver.cuDeviceGetAttribute(a, device)))
        for a in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    )
    version = int(call("read its version", driver.cuDriverGetVersion()))
    text = name.split(b"\0")[0].decode(errors="replace").strip()  # the rest of the 128 bytes may hold anything
    return DeviceInfo(index, text, (version // 1000, version % 1000 // 10), (major, minor), sms)


def pci_bus(index: int = 0) -> str:
    """Where GPU `index`, as this process counts them, stands: `0000:1b:00.0`, by which every tool knows it. Raises
    TilegenError where there is none."""
    what = f"find GPU {index}"
    found: bytes = call(what, cuda().cuDeviceGetPCIBusId(32, call(what, cuda().cuDeviceGet(index))))
    return found.split(b"\0")[0].decode()


@cache
def _primary_context(index: int) -> Any:
    """Retained for the rest of the process; frameworks use the same one."""
    driver = cuda()
    what = f"use GPU {index}"
    return call(what, driver.cuDevicePrimaryCtxRetain(call(what, driver.cuDeviceGet(index))))


def context(index: int) -> int:
    """The primary context of a GPU, as the driver's own functions know it."""
    return int(_primary_context(index))


class current:  # noqa: N801  (a context manager, used as a verb)
    """With this, the primary context of a device is current in this thread; what was before comes back after."""

    def __init__(self, index: int) -> None:
        self._context = _primary_context(index)
        self._pushed = False

    def __enter__(self) -> None:
        driver = _driver()
        before = call("find the current context", driver.cuCtxGetCurrent())
        if int(before) != int(self._context):
            call("use the GPU", driver.cuCtxPushCurrent(self._context))
            self._pushed = True

    def __exit__(self, *_: object) -> None:
        if self._pushed:
            call("leave the GPU", _driver().cuCtxPopCurrent())


def check_machine(device: int, machine: Machine) -> DeviceInfo:
    """What GPU this is. Raises TilegenError where it does not run a machine's code."""
    info = device_info(device)
    if not machine.has(info.capability):
        fail(
            Code.WRONG_GPU, None, got="compute capability {}.{}".format(*info.capability),
            wanted="{}.{}".format(*machine.least), device=f"cuda:{device}", name=info.name, machine=machine.words,
        )  # fmt: skip
    return info


def load(cubin: bytes, entry: str, device: int, threads: int, shared_bytes: int, cluster: int = 1) -> Loaded:
    """Load a kernel onto a device that runs its machine's code, allowed its dynamic shared memory. `cluster`: CTAs of a
    cluster. Raises TilegenError."""
    info = device_info(device)
    driver = _driver()
    with current(device):
        module = call("load the kernel", driver.cuModuleLoadData(cubin))
        function = call(f"find the kernel {entry}", driver.cuModuleGetFunction(module, entry.encode()))
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        what = f"reserve {shared_bytes} bytes of shared memory"
        call(what, driver.cuFuncSetAttribute(function, most, shared_bytes))
        sms = info.sm_count if cluster == 1 else cluster * _clusters(function, cluster, threads, shared_bytes)
    return Loaded(int(function), int(module), info, threads, shared_bytes, sms)


def _clusters(function: Any, size: int, threads: int, shared_bytes: int) -> int:
    """How many clusters run at once: a cluster stands within a group of multiprocessors, which it need not divide."""
    driver = _driver()
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared_bytes
    return int(call("place clusters of CTAs", driver.cuOccupancyMaxActiveClusters(function, config)))


def beside(loaded: Loaded, entry: str, threads: int) -> Loaded:
    """Another kernel of the same cubin, without dynamic shared memory."""
    with current(loaded.device.index):
        function = call(f"find the kernel {entry}", _driver().cuModuleGetFunction(loaded.module, entry.encode()))
    return Loaded(int(function), loaded.module, loaded.device, threads, 0, loaded.device.sm_count)


def in_use() -> bool:
    """Whether this process works on a GPU; asking does not make it."""
    return _primary_context.cache_info().currsize > 0


def synchronise(device: int) -> None:
    """Wait for everything on a GPU."""
    with current(device):
        call("run the kernel", _driver().cuCtxSynchronize())


class relaxed:  # noqa: N801  (a context manager, used as a verb)
    """With this, memory can be allocated and graphs made while any stream is being captured."""

    def __enter__(self) -> None:
        mode = _driver().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._before = call("allocate memory", _driver().cuThreadExchangeStreamCaptureMode(mode))

    def __exit__(self, *_: object) -> None:
        call("allocate memory", _driver().cuThreadExchangeStreamCaptureMode(self._before))


_MAP_ALIGNMENT = 64  # bytes, of the memory that the driver writes a map to
_DATA_TYPES = {
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "i32": "INT32",
    "u64": "UINT64",
    "i64": "INT64",
    "f16": "FLOAT16",
    "f32": "FLOAT32",
    "f64": "FLOAT64",
    "bf16": "BFLOAT16",
    "f32ftz": "FLOAT32_FTZ",
    "tf32": "TFLOAT32",
    "tf32ftz": "TFLOAT32_FTZ",
}


@cache
def _encode_tiled() -> Any:
    """The driver's own function. cuda-bindings 13.0 gives it memory for the map that is aligned by chance only."""
    return ctypes.CDLL(LIBRARY).cuTensorMapEncodeTiled


def encoder(tensor_map: TensorMap) -> Callable[[int, int], None]:
    """A function that writes this map, which passed `TensorMap.check`, over a tensor at any address: (where its 128
    bytes go, a multiple of 64, the tensor's address, as far off a multiple of 16 as the map's own)."""
    driver, rank = cuda(), tensor_map.rank
    swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
    promotion = f"L2_{tensor_map.promotion}B" if tensor_map.promotion else "NONE"
    interleave = f"{tensor_map.interleave}B" if tensor_map.interleave else "NONE"
    fill = "NAN_REQUEST_ZERO_FMA" if tensor_map.fill == "nan" else "NONE"
    kind = int(getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_DATA_TYPES[tensor_map.dtype]}"))
    rest = (
        (ctypes.c_uint64 * rank)(*tensor_map.dims),
        (ctypes.c_uint64 * rank)(*tensor_map.strides),
        (ctypes.c_uint32 * rank)(*tensor_map.box),
        (ctypes.c_uint32 * rank)(*tensor_map.element_strides),
        int(getattr(driver.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{interleave}")),
        int(getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}")),
        int(getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}")),
        int(getattr(driver.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{fill}")),
    )
    encode_tiled = _encode_tiled()

    def write(out: int, address: int) -> None:
        error = encode_tiled(ctypes.c_void_p(out), kind, rank, ctypes.c_void_p(address), *rest)
        if error:
            refuse("encode a tensor map", error)

    return write


def encode(tensor_map: TensorMap) -> bytes:
    """The 128 bytes that the driver makes of a tensor map that passed `TensorMap.check`."""
    memory = ctypes.create_string_buffer(SIZE + _MAP_ALIGNMENT)
    out = -(-ctypes.addressof(memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    encoder(tensor_map)(out, tensor_map.address)
    return ctypes.string_at(out, SIZE)
