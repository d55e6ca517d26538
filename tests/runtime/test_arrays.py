"""Arrays of any framework as memory. Frameworks that are not installed here are stood in for by what they expose."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.stand_in import Tensor, installed
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.runtime.arrays import allocator, current_stream, describe


class TorchLike:
    """What a torch tensor exposes."""

    def __init__(self, dtype: str, device: str, index: int | None = None) -> None:
        self.dtype = dtype
        self.device = SimpleNamespace(type=device, index=index)
        self.shape = (3, 5)
        self.requires_grad = self.negative = False
        self.pointer = 4096

    def data_ptr(self) -> int:
        if self.pointer < 0:
            raise RuntimeError("no data pointer\nof a sparse tensor")
        return self.pointer

    def is_neg(self) -> bool:
        return self.negative

    def stride(self) -> tuple[int, ...]:
        return (8, 1)

    def element_size(self) -> int:
        return 2


class Exporter:
    """Speaks DLPack only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()


@pytest.mark.parametrize(
    ("numpy_type", "dtype"),
    [
        (ml_dtypes.bfloat16, DType.BF16),
        (np.float16, DType.F16),
        (np.float32, DType.F32),
        (np.int32, DType.I32),
        (np.bool_, DType.BOOL),
    ],
)
def test_numpy_types(numpy_type: Any, dtype: DType) -> None:
    a = np.zeros((4, 6), dtype=numpy_type)
    v = describe(a)
    assert (v.dtype, v.device, v.framework) == (dtype, "cpu", "numpy")
    assert v.pointer == a.ctypes.data
    assert v.strides == a.strides


def test_strides_of_views_are_in_bytes() -> None:
    a = np.zeros((4, 6, 8), dtype=np.float32)[1::2, ::-1, 3:]
    v = describe(a)
    assert v.shape == (2, 6, 5)
    assert v.strides == (2 * 6 * 8 * 4, -8 * 4, 4)
    assert v.pointer == a.ctypes.data


def test_types_that_tilegen_has_not_are_named_as_they_are() -> None:
    assert describe(np.zeros(3)).dtype == "float64"
    assert describe(np.zeros(3, dtype=">f4")).dtype == "byte-swapped float32"
    assert describe(Exporter(np.zeros(3, dtype=np.uint16))).dtype == "DLPack type 1 of 16 bits"


def test_torch_tensors() -> None:
    v = describe(TorchLike("torch.bfloat16", "cuda", 3))
    assert (v.pointer, v.shape, v.strides) == (4096, (3, 5), (16, 2))
    assert (v.dtype, v.device, v.framework) == (DType.BF16, "cuda:3", "torch")
    assert v.on_gpu
    assert describe(TorchLike("torch.float16", "cpu")).device == "cpu"
    assert describe(TorchLike("torch.float64", "cpu")).dtype == "float64"
    with pytest.raises(TilegenError, match=r"NOT_AN_ARRAY.*Q is given.*on"):
        describe(TorchLike("torch.float16", "mps"), "Q")


def test_torch_tensors_that_are_no_memory_are_refused() -> None:
    t = TorchLike("torch.float32", "cuda", 0)
    t.pointer = -1
    with pytest.raises(TilegenError, match=r"NOT_AN_ARRAY.*Q.*without strides \(no data pointer\)"):
        describe(t, "Q")
    t.pointer = 0  # of a subclass that only wraps others
    with pytest.raises(TilegenError, match=r"NOT_AN_ARRAY.*Q is given as a TorchLike without memory"):
        describe(t, "Q")
    t.shape = (0, 5)
    assert describe(t, "Q").pointer == 0
    t.negative = True
    with pytest.raises(TilegenError, match=r"NOT_AN_ARRAY.*Q.*yet to be negated"):
        describe(t, "Q")


def test_torch_tensors_that_require_a_gradient_are_refused_where_one_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = ModuleType("torch")
    recording = [True]
    torch.is_grad_enabled = lambda: recording[0]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    t = TorchLike("torch.float16", "cuda", 0)
    assert describe(t, "Q").pointer == 4096
    t.requires_grad = True
    with pytest.raises(TilegenError, match=r"ARRAY_GRADIENT.*Q requires a gradient"):
        describe(t, "Q")
    recording[0] = False
    assert describe(t, "Q").pointer == 4096


def test_arrays_that_may_not_change_are_known() -> None:
    exporter = type("Array", (Exporter,), {"__module__": "jaxlib._jax"})
    assert describe(exporter(np.zeros(3, np.float32))).read_only
    assert not describe(Exporter(np.zeros(3, np.float32))).read_only


def test_cuda_array_interface() -> None:
    interface = {"shape": (2, 3), "typestr": "<f2", "data": (8192, True), "strides": None, "stream": 7}
    v = describe(SimpleNamespace(__cuda_array_interface__=interface, device=SimpleNamespace(id=1)))
    assert (v.pointer, v.shape, v.strides) == (8192, (2, 3), (6, 2))
    assert (v.dtype, v.device, v.read_only) == (DType.F16, "cuda:1", True)
    assert current_stream(v)() == 7


def test_cuda_array_interface_has_no_word_for_bfloat16() -> None:
    interface = {"shape": (2,), "typestr": "<V2", "data": (8192, False), "strides": (4,)}
    v = describe(SimpleNamespace(__cuda_array_interface__=interface, dtype=np.dtype(ml_dtypes.bfloat16)))
    assert (v.dtype, v.strides, v.read_only) == (DType.BF16, (4,), False)


def test_dlpack_capsules_are_read_and_their_memory_kept() -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)[:, 1:]
    v = describe(Exporter(a))
    assert (v.pointer, v.shape, v.strides) == (a.ctypes.data, (4, 5), (24, 4))
    assert (v.dtype, v.device, v.framework) == (DType.F32, "cpu", "dlpack")
    references = sys.getrefcount(a)
    assert v.keepalive[1] is not None
    del v
    assert sys.getrefcount(a) < references


def test_what_is_no_array_is_refused_by_name() -> None:
    with pytest.raises(TilegenError, match=r"NOT_AN_ARRAY.*K is given as builtins\.list"):
        describe([1, 2], "K")

    class Refuses:
        def __dlpack__(self) -> Any:
            raise BufferError("it is sparse")

    with pytest.raises(TilegenError, match=r"NOT_AN_ARRAY.*it is sparse"):
        describe(Refuses())


def test_torch_tensors_are_made_in_the_quickest_way_that_does_the_same() -> None:
    with installed() as (torch, _):
        like = describe(Tensor((2,), device="cuda:1"))
        guards, plain = torch._C._dynamo.guards, torch.empty
        quick, used = guards._empty_strided_cuda, []
        torch.empty = lambda *a, **k: used.append("plain") or plain(*a, **k)

        def made(current: int, at_call: int | None = None) -> tuple[object, ...]:
            torch.current = current
            make = allocator(like, (3, 0, 4), DType.BF16, "k", "O")
            torch.current = current if at_call is None else at_call
            used.clear()
            t = make()
            return t.shape, t.stride(), str(t.dtype), t.device.index, *used

        wanted = ((3, 0, 4), (4, 4, 1), "torch.bfloat16", 1)
        assert made(1) == wanted
        assert made(1, at_call=0) == (*wanted, "plain")  # the quick way would take the current device
        assert made(0) == (*wanted, "plain")
        guards._empty_strided_cuda = lambda shape, strides, dtype: quick(shape, strides, torch.float16)
        assert made(1) == (*wanted, "plain")
        guards._empty_strided_cuda = lambda shape: quick(shape, shape, torch.bfloat16)
        assert made(1) == (*wanted, "plain")
        del torch._C._dynamo
        assert made(1) == (*wanted, "plain")


def test_new_arrays_are_of_the_same_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    made = allocator(describe(np.zeros(1, np.float16)), (3, 4), DType.BF16, "k", "O")()
    assert (made.shape, made.dtype) == ((3, 4), np.dtype(ml_dtypes.bfloat16))

    torch = ModuleType("torch")
    torch.bfloat16 = "torch.bfloat16"  # type: ignore[attr-defined]
    torch.empty = lambda shape, dtype, device: (shape, dtype, device)  # type: ignore[attr-defined]
    torch.device = lambda name: f"device {name}"  # type: ignore[attr-defined]
    torch._C = SimpleNamespace()  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        current_stream=lambda index: SimpleNamespace(cuda_stream=100 + index)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    like = describe(TorchLike("torch.float16", "cuda", 2))
    assert allocator(like, (3, 4), DType.BF16, "k", "O")() == ((3, 4), "torch.bfloat16", "device cuda:2")
    assert current_stream(like)() == 102
    torch._C._cuda_getCurrentRawStream = lambda index: 200 + index
    assert current_stream(like)() == 202

    interface = {"shape": (2,), "typestr": "<f2", "data": (8192, False)}
    foreign = describe(SimpleNamespace(__cuda_array_interface__=interface))
    with pytest.raises(TilegenError, match=r"OUTPUT_NOT_ALLOCATED.*k cannot make the output O"):
        allocator(foreign, (3, 4), DType.BF16, "k", "O")
