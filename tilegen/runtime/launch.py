"""A launch on a GPU: bound arguments laid out in host memory, put on a stream as often as wanted.

It holds copies of its arguments' bytes, not the arrays: whoever calls it keeps those alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock

from tilegen.ir.plan import MapParam, Plan, PointerParam
from tilegen.runtime import driver
from tilegen.runtime.binding import Binding, Dealing
from tilegen.runtime.device_memory import DeviceWords
from tilegen.runtime.direct import capturing, launcher

_LINE = 64  # bytes: tensor maps want their 128 bytes aligned so
_SAME = 256  # bytes: nothing is asked of an address beyond what it leaves when divided by this

# by all that makes a map: address, shape, strides, box …
encode_cached = lru_cache(maxsize=4096)(driver.encode)


@dataclass(frozen=True)
class GpuLaunch:
    """A kernel with its arguments in place. Nothing is allocated, encoded or waited for at a launch."""

    put: Callable[[int], None]  # on a stream (0 is the default one)
    pointers: int  # address of the array of pointers to the arguments
    storage: tuple[object, ...]
    kept: int  # bytes on the GPU that `storage` holds


class Tables:
    """Memory for the tables of items that one kernel's launches make on one GPU.

    Launches on one stream share it, since each ends before the next begins; one that is captured has its own, since a
    graph may be replayed on any stream. It grows by doubling, and none is given back before the kernel goes: launches
    that are in place and graphs go on using what they were given.
    """

    def __init__(self, device: int) -> None:
        self.device = device
        self.turn = Lock()  # between a table that is made and the kernel that reads it, no other may be made
        self._by_stream: dict[int, DeviceWords] = {}
        self._kept: list[DeviceWords] = []

    def of_stream(self, stream: int, count: int) -> int:
        """The address of `count` int32 words."""
        found = self._by_stream.get(stream)
        if found is None or found.count < count:
            found = self._by_stream[stream] = self._more(max(count, 2 * found.count if found else 0))
        return found.pointer

    def fresh(self, count: int) -> int:
        """The address of `count` int32 words that nothing else uses."""
        return self._more(count).pointer

    def _more(self, count: int) -> DeviceWords:
        self._kept.append(DeviceWords(count, self.device))
        return self._kept[-1]


@dataclass(frozen=True)
class DealtLaunch:
    """A kernel behind the one that deals out its items. `fault_words`: their address."""

    kernel: driver.Loaded
    dealer: driver.Loaded
    tables: Tables
    grid: int
    dealing: Dealing
    fault_words: int
    dependent: bool
    kept = 0  # bytes on the GPU: they are the kernel's
    _placed: dict[int, tuple[GpuLaunch, GpuLaunch]] = field(default_factory=dict)  # by stream

    def put(self, stream: int) -> None:
        """Put one launch on the stream (0 is the default one)."""
        words = self.dealing.table + self.dealing.scratch
        with self.tables.turn:
            if capturing(self.tables.device, stream):
                placed = self._at(self.tables.fresh(words))
            elif stream in self._placed:
                placed = self._placed[stream]
            else:
                placed = self._placed[stream] = self._at(self.tables.of_stream(stream, words))
            for launch in placed:
                launch.put(stream)

    def _at(self, table: int) -> tuple[GpuLaunch, GpuLaunch]:
        front, main = self.dealing.arguments(table, table + 4 * self.dealing.table, self.fault_words)
        return (
            _laid_out(self.dealer, 1, front, (), 0, dependent=False),
            _laid_out(self.kernel, self.grid, main, (), 0, dependent=self.dependent),
        )


def gpu_launch(kernel: driver.Loaded, binding: Binding, *, dependent: bool) -> GpuLaunch:
    """Lay the arguments out in host memory. dependent: it may begin under the end of the launch before it."""
    return _laid_out(kernel, binding.grid, binding.arguments, binding.keep, binding.kept, dependent=dependent)


def _laid_out(
    kernel: driver.Loaded,
    grid: int,
    arguments: tuple[bytes, ...],
    keep: tuple[object, ...],
    kept: int,
    *,
    dependent: bool,
) -> GpuLaunch:
    image, offsets = _image(arguments)
    block, base = _copied(image)
    return _placed(kernel, grid, (block, *keep), [base + offset for offset in offsets], kept, dependent=dependent)


def _image(arguments: tuple[bytes, ...]) -> tuple[bytes, list[int]]:
    """The arguments one behind the other, and where each begins."""
    image, offsets = b"", []
    for argument in arguments:
        offsets.append(len(image))
        image += argument + bytes(-len(argument) % _LINE)
    return image, offsets


def _copied(image: bytes) -> tuple[object, int]:
    """Memory that holds the bytes, and the aligned address where."""
    block = ctypes.create_string_buffer(len(image) + _LINE)
    base = -(-ctypes.addressof(block) // _LINE) * _LINE
    ctypes.memmove(base, image, len(image))
    return block, base


def _placed(
    kernel: driver.Loaded, grid: int, keep: tuple[object, ...], places: list[int], kept: int, *, dependent: bool
) -> GpuLaunch:
    pointers = (ctypes.c_void_p * max(len(places), 1))(*places)
    address = ctypes.addressof(pointers)
    return GpuLaunch(launcher(kernel, grid, address, dependent=dependent), address, (pointers, *keep), kept)


class Mover:
    """Lays a launch out again for other arrays that differ from its own in nothing but addresses.

    names: of the arrays whose addresses it is given, in order. None of them is empty.
    """

    def __init__(
        self, kernel: driver.Loaded, plan: Plan, binding: Binding, names: Sequence[str], addresses: Sequence[int]
    ) -> None:
        assert binding.grid and binding.dealing is None
        self._skews = [address % _SAME for address in addresses]
        self._image, self._offsets = _image(binding.arguments)
        self._kernel, self._binding, self._dependent = kernel, binding, plan.dependent
        self._maps: list[tuple[int, int, Callable[[int, int], None]]] = []  # offset, which address, what writes it
        self._pointers: list[tuple[int, int]] = []  # offset, which address
        tensors = {d.name: d.tensor for d in plan.descriptors}
        for offset, param in zip(self._offsets, plan.params, strict=True):
            if isinstance(param, MapParam):
                encode = driver.encoder(binding.maps[param.descriptor])
                self._maps.append((offset, names.index(tensors[param.descriptor]), encode))
            elif isinstance(param, PointerParam):
                self._pointers.append((offset, names.index(param.tensor)))

    def __call__(self, addresses: Sequence[int]) -> GpuLaunch | None:
        """The launch on arrays at these addresses; None where one must be judged: nowhere, or aligned otherwise."""
        if not all(addresses) or [address % _SAME for address in addresses] != self._skews:
            return None
        block, base = _copied(self._image)
        with driver.current(self._kernel.device.index):  # the driver encodes in a thread with a context alone
            for offset, which, encode in self._maps:
                encode(base + offset, addresses[which])
        for offset, which in self._pointers:
            ctypes.c_uint64.from_address(base + offset).value = addresses[which]
        keep, places = (block, *self._binding.keep), [base + offset for offset in self._offsets]
        return _placed(self._kernel, self._binding.grid, keep, places, self._binding.kept, dependent=self._dependent)
