"""What stands in for torch and for a GPU's driver where there is neither: enough to call a kernel, which then runs not.

With it, the host's part of a launch can be timed anywhere, and its caches tested.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

from tilegen.runtime import direct, driver
from tilegen.runtime.graphs import Functions

SIZES = {"bfloat16": 2, "float16": 2, "float32": 4, "int32": 4, "bool": 1}


class Dtype(NamedTuple):
    """Prints as torch's does."""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Place(NamedTuple):
    """A torch.device."""

    type: str
    index: int


class Tensor:
    """What a torch tensor exposes. strides in elements; address 0: memory of its own."""

    made = itertools.count(1)

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        *,
        address: int = 0,
        strides: tuple[int, ...] | None = None,
        device: str = "cuda:0",
    ) -> None:
        kind, _, index = device.partition(":")
        self.shape, self.dtype, self.device = tuple(shape), Dtype(dtype), Place(kind, int(index or 0))
        self.address = address or next(self.made) << 28
        self.strides = strides or tuple(math.prod(max(e, 1) for e in shape[n + 1 :]) for n in range(len(shape)))
        self.requires_grad = self.negated = False
        self.number: float | None = None  # what it holds, of one without dimensions in CPU memory

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def element_size(self) -> int:
        return SIZES[self.dtype.name]

    def is_neg(self) -> bool:
        return self.negated

    def item(self) -> float | None:
        return self.number

    def zero_(self) -> None:
        """Nothing holds its elements."""


class TensorGuards:
    """Compares tensors with those it was made of, all at once."""

    def __init__(self, *tensors: Tensor, dynamic_dims_sizes: None, dynamic_dims_strides: None) -> None:
        self.like = [self._told(t) for t in tensors]

    @staticmethod
    def _told(t: Any) -> tuple[Any, ...]:
        if type(t) is not Tensor:
            return ()
        return t.shape, t.strides, t.dtype, t.device, t.requires_grad, t.negated

    def check(self, *tensors: Any) -> bool:
        if len(tensors) != len(self.like):
            raise TypeError("wrong length")
        return [self._told(t) for t in tensors] == self.like


class Torch(ModuleType):
    """The module. `stream`: what is current on every device. `current`: the device."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.stream, self.gradients = 0, False
        self.current = 0
        self._C = SimpleNamespace(
            _cuda_getCurrentRawStream=lambda index: self.stream,
            _cuda_getDevice=lambda: self.current,
            _dynamo=SimpleNamespace(
                guards=SimpleNamespace(_empty_strided_cuda=self._empty_strided, TensorGuards=TensorGuards)
            ),
        )
        for name in SIZES:
            setattr(self, name, Dtype(name))

    def device(self, name: str) -> Place:
        kind, _, index = name.partition(":")
        return Place(kind, int(index or 0))

    def is_grad_enabled(self) -> bool:
        return self.gradients

    def empty(self, shape: tuple[int, ...], dtype: Dtype, device: Place) -> Tensor:
        return Tensor(shape, dtype.name, device=f"{device.type}:{device.index}")

    def _empty_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Dtype) -> Tensor:
        return Tensor(shape, dtype.name, strides=strides, device=f"cuda:{self.current}")


class Driver:
    """The functions of the driver that a call needs, for any number of Hopper GPUs with 132 multiprocessors.

    maps: those encoded. graphs: executable ones, of which each has one kernel.
    """

    def __init__(self) -> None:
        self.maps: list[int] = []  # their tensors' addresses
        self.graphs: dict[int, Any] = {}  # their kernels
        self._node: Any = None
        self.memory = itertools.count(0x7000_0000, 0x10_0000)

    def __getattr__(self, name: str) -> Any:
        from cuda.bindings import driver as real

        answers: dict[str, Any] = {
            "cuDeviceGet": lambda index: index,
            "cuDeviceGetName": lambda size, device: b"a stand-in",
            "cuDeviceGetAttribute": lambda kind, device: self._attribute(real, kind),
            "cuDriverGetVersion": lambda: 13000,
            "cuDevicePrimaryCtxRetain": lambda device: 0,
            "cuCtxGetCurrent": lambda: 0,
            "cuModuleLoadData": lambda cubin: 1,
            "cuModuleGetFunction": lambda module, entry: 2,
            "cuFuncSetAttribute": lambda function, attribute, value: None,
            "cuMemAlloc": lambda count: next(self.memory),
            "cuMemcpyHtoD": lambda to, source, count: None,
            "cuMemFree": lambda pointer: None,
            "cuCtxPushCurrent": lambda context: None,
            "cuCtxPopCurrent": lambda: None,
            "cuThreadExchangeStreamCaptureMode": lambda mode: mode,
            "cuGraphCreate": lambda flags: 1,
            "cuGraphAddKernelNode": lambda graph, before, count, node: setattr(self, "_node", node),
            "cuGraphInstantiate": lambda graph, flags: self._instantiated(),
            "cuGraphDestroy": lambda graph: None,
            "cuGraphExecDestroy": lambda executable: self.graphs.pop(executable) and None,
        }
        if name not in answers:
            return getattr(real, name)

        def answered(*arguments: Any) -> tuple[Any, ...]:
            value = answers[name](*arguments)
            return (0,) if value is None else (0, value)

        return answered

    def _instantiated(self) -> int:
        executable = next(self.memory)
        self.graphs[executable] = self._node
        return executable

    @staticmethod
    def _attribute(real: Any, kind: Any) -> int:
        kinds = real.CUdevice_attribute
        known = {
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: 9,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: 0,
            kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: 132,
        }
        return known[kind]

    def encode_tiled(self, out: Any, kind: int, rank: int, address: Any, *rest: Any) -> int:
        self.maps.append(address.value)
        ctypes.memmove(out.value, ctypes.addressof(address), 8)  # where the address is in a map
        return 0


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


@contextmanager
def installed(functions: Callable[[Driver], Functions] | None = None) -> Iterator[tuple[Torch, Driver]]:
    """Stand-ins for torch and the driver. functions: makes those in place of the driver's own; else they do nothing."""
    torch, stand_in = Torch(), Driver()
    # `pthread_equal` returns 0 as its pointers differ; the other too, having written 1, our context, where it is told
    free, locked = ctypes.CDLL(None), ctypes.PyDLL(None)
    launch, current_context, is_capturing = free.pthread_equal, locked.pthread_spin_unlock, locked.pthread_equal
    nothing = Functions(launch, launch, current_context, is_capturing)
    cached = (driver.device_info, driver._primary_context)
    with (
        mock.patch.dict(sys.modules, {"torch": torch}),
        mock.patch.object(driver, "_driver", _always(stand_in)),
        mock.patch.object(driver, "_encode_tiled", _always(stand_in.encode_tiled)),
        mock.patch.object(direct, "functions", _always(functions(stand_in) if functions else nothing)),
        mock.patch.object(driver, "context", _always(1)),
    ):
        for each in cached:
            each.cache_clear()
        try:
            yield torch, stand_in
        finally:
            for each in cached:
                each.cache_clear()
