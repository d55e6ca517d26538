"""Arrays of any framework as pointer, shape, strides and type, and new arrays like them.

No framework is imported here: an array is known by the protocols it speaks, and its framework is then loaded
already. This is on the launch path: the usual cases cost a few attribute reads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.dtypes import BY_WORD, DType

CPU = "cpu"


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array as memory. `dtype` is the framework's own word where tilegen has no such type.

    shape in elements, strides in bytes, outermost first. framework: "torch", "cupy", "numpy", "dlpack" or
    "cuda_array_interface". `keepalive` owns the memory. `stream`: where the array's producer says it is ready.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType | str
    device: str
    framework: str
    keepalive: Any
    stream: int = 0
    read_only: bool = False

    @property
    def on_gpu(self) -> bool:
        return self.device != CPU

    @property
    def alignment(self) -> int:
        """The largest power of two, 16 at most, that its start and every stride but the innermost are multiples of;
        what no access is made by does not count. 8 at most where one steps backwards, which TMA, of 16, does not."""
        bits = 0 if 0 in self.shape else self.pointer
        for extent, stride in zip(self.shape[:-1], self.strides[:-1], strict=True):
            bits |= stride if extent > 1 else 0
            bits |= _BACKWARDS if extent > 1 and stride < 0 else 0
        return min(bits & -bits, 16) if bits else 16


_BACKWARDS = 8


def describe(array: Any, name: str = "array") -> ArrayView:
    """The view of a torch, CuPy or numpy array, or of anything with `__dlpack__` or `__cuda_array_interface__`.

    Raises TilegenError naming `name` where it is no array, or lives on a device that is neither CPU nor CUDA.
    """
    if isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):  # nothing heeds a mask
        dtype, fixed = _numpy_type(array.dtype), not array.flags.writeable
        return ArrayView(array.ctypes.data, array.shape, array.strides, dtype, CPU, "numpy", array, 0, fixed)
    module = type(array).__module__
    if hasattr(array, "data_ptr") and hasattr(array, "element_size"):
        return _of_torch(array, name)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        framework = "cupy" if module.split(".")[0] == "cupy" else "cuda_array_interface"
        return _of_interface(array, interface, framework)
    if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
        return _of_dlpack(array, name)
    fail(Code.NOT_AN_ARRAY, None, tensor=name, type=f"{module}.{type(array).__qualname__}")


# ---- the ways in ---------------------------------------------------------------------------------

_TORCH_TYPES: dict[Any, DType | str] = {}
_NUMPY_TYPES: dict[Any, DType | str] = {}


def _of_torch(array: Any, name: str) -> ArrayView:
    dtype = _TORCH_TYPES.get(array.dtype)
    if dtype is None:
        word = str(array.dtype).removeprefix("torch.")
        dtype = _TORCH_TYPES[array.dtype] = BY_WORD.get(word, word)
    device = array.device
    if device.type == "cuda":
        place = f"cuda:{device.index}"
    elif device.type == CPU:
        place = CPU
    else:
        fail(Code.NOT_AN_ARRAY, None, tensor=name, type=f"a torch tensor on {device}")
    if array.requires_grad and sys.modules["torch"].is_grad_enabled():
        fail(Code.ARRAY_GRADIENT, None, tensor=name)
    try:
        pointer, steps = array.data_ptr(), array.stride()
    except (RuntimeError, NotImplementedError) as e:  # sparse, nested, traced
        fail(Code.NOT_AN_ARRAY, None, tensor=name, type=f"a torch tensor without strides ({str(e).splitlines()[0]})")
    shape = tuple(array.shape)
    if not pointer and 0 not in shape:
        fail(Code.NOT_AN_ARRAY, None, tensor=name, type=f"a {type(array).__qualname__} without memory of its own")
    if array.is_neg():  # part of a conjugate
        fail(Code.NOT_AN_ARRAY, None, tensor=name, type="a torch tensor yet to be negated (by `resolve_neg()`)")
    size = array.element_size()
    return ArrayView(pointer, shape, tuple(s * size for s in steps), dtype, place, "torch", array)


def _of_interface(array: Any, interface: dict[str, Any], framework: str) -> ArrayView:
    shape = tuple(interface["shape"])
    dtype = np.dtype(interface["typestr"])
    declared = getattr(array, "dtype", None)
    if dtype.kind == "V" and declared is not None:  # bfloat16 has no typestr of its own
        dtype = np.dtype(declared)
    strides = interface.get("strides")
    if strides is None:
        strides = contiguous_strides(shape, dtype.itemsize)
    index = getattr(getattr(array, "device", None), "id", 0)
    (pointer, fixed), stream = interface["data"], interface.get("stream") or 0
    strides, kind = tuple(strides), _numpy_type(dtype)
    return ArrayView(pointer, shape, strides, kind, f"cuda:{index}", framework, array, stream, bool(fixed))


def _numpy_type(dtype: Any) -> DType | str:
    known = _NUMPY_TYPES.get(dtype)
    if known is None:
        word = str(dtype.name)
        known = _NUMPY_TYPES[dtype] = BY_WORD.get(word, word) if dtype.isnative else f"byte-swapped {word}"
    return known


def contiguous_strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Bytes from one position to the next along each dimension of a contiguous array of elements of `size` bytes."""
    out = []
    for extent in reversed(shape):
        out.append(size)
        size *= max(extent, 1)
    return tuple(reversed(out))


# ---- DLPack --------------------------------------------------------------------------------------


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_PLACES = {1: CPU, 2: "cuda", 3: CPU, 13: "cuda"}  # kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
_DLPACK_TYPES = {
    (4, 16): DType.BF16,
    (2, 16): DType.F16,
    (2, 32): DType.F32,
    (0, 32): DType.I32,
    (6, 8): DType.BOOL,
}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _of_dlpack(array: Any, name: str) -> ArrayView:
    """The capsule stays unconsumed and is kept: its destructor frees the export when the view goes."""
    try:
        capsule = array.__dlpack__()
        address = _pointer(capsule, b"dltensor")
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as e:
        fail(Code.NOT_AN_ARRAY, None, tensor=name, type=f"{type(array).__qualname__} ({e})")
    t = _Tensor.from_address(address)
    place = _PLACES.get(t.device.type)
    if place is None:
        fail(Code.NOT_AN_ARRAY, None, tensor=name, type=f"an array on DLPack device type {t.device.type}")
    kind = (t.dtype.code, t.dtype.bits)
    size = t.dtype.bits * t.dtype.lanes // 8
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] * size for i in range(t.ndim)) if t.strides else contiguous_strides(shape, size)
    dtype: DType | str = f"DLPack type {kind[0]} of {kind[1]} bits"
    if t.dtype.lanes == 1:
        dtype = _DLPACK_TYPES.get(kind, dtype)
    device = CPU if place == CPU else f"cuda:{t.device.index}"
    immutable = type(array).__module__.split(".")[0] in ("jax", "jaxlib")
    pointer = (t.data or 0) + t.byte_offset
    return ArrayView(pointer, shape, strides, dtype, device, "dlpack", (array, capsule), 0, immutable)


# ---- new arrays and streams ----------------------------------------------------------------------

_WORDS = {dtype: word for word, dtype in BY_WORD.items()}


def allocator(like: ArrayView, shape: tuple[int, ...], dtype: DType, kernel: str, tensor: str) -> Callable[[], Any]:
    """Makes uninitialised C-contiguous arrays of the framework and on the device of `like`.

    Raises TilegenError where that framework's arrays cannot be written into, or it lacks the type.
    """
    if like.framework == "torch":
        return _torch_allocator(like.device, shape, _WORDS[dtype])
    if like.framework == "cupy":
        cupy = sys.modules["cupy"]

        def empty() -> Any:
            with cupy.cuda.Device(int(like.device.split(":")[1])):
                try:
                    return cupy.empty(shape, dtype=dtype.numpy)
                except (TypeError, ValueError) as e:
                    fail(Code.OUTPUT_NOT_ALLOCATED, None, kernel=kernel, tensor=tensor, reason=f"CuPy: {e}")

        return empty
    if not like.on_gpu:
        return partial(np.empty, shape, dtype=dtype.numpy)
    reason = "it cannot tell which framework's array to make"
    fail(Code.OUTPUT_NOT_ALLOCATED, None, kernel=kernel, tensor=tensor, reason=reason)


def _torch_allocator(device: str, shape: tuple[int, ...], word: str) -> Callable[[], Any]:
    """By what torch's own generated code calls, for it is quicker than `torch.empty`, where it does the same here."""
    torch = sys.modules["torch"]
    dtype, place = getattr(torch, word), torch.device(device)
    plain = partial(torch.empty, shape, dtype=dtype, device=place)
    strides = contiguous_strides(shape, 1)
    try:
        empty, current = torch._C._dynamo.guards._empty_strided_cuda, torch._C._cuda_getDevice
        index, made = place.index, empty(shape, strides, dtype)
        same = (made.shape, made.stride(), made.dtype, made.device) == (shape, strides, dtype, place)
    except (AttributeError, TypeError, RuntimeError):
        return plain
    if not same:
        return plain
    return lambda: empty(shape, strides, dtype) if current() == index else plain()  # it knows the current device alone


def current_stream(view: ArrayView) -> Callable[[], int]:
    """Asks for the stream that this array's framework works on now; where it does not say, for the one the array is
    ready on."""
    if view.framework == "torch":
        torch, index = sys.modules["torch"], int(view.device[5:])
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch's own generated code calls
        return partial(raw, index) if raw else lambda: int(torch.cuda.current_stream(index).cuda_stream)
    if view.framework == "cupy":
        cupy, index = sys.modules["cupy"], int(view.device[5:])
        return lambda: int(cupy.cuda.get_current_stream(index).ptr)
    stream = view.stream
    return lambda: stream
