"""The TMA engine: boxes between global memory and swizzled shared memory. Faults are found when a box is issued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tilegen.emulate.memory import MemoryFaultError
from tilegen.emulate.ptx.faults import FaultError
from tilegen.emulate.ptx.half import OOB_NAN
from tilegen.emulate.ptx.spaces import RANK_SHIFT, WINDOW_SHIFT, WINDOWS
from tilegen.emulate.ptx.types import Array
from tilegen.targets.hopper.tensor_map import SIZE, TensorMap

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_CHUNK = 16
_ALIGN = 128
_POISON = 0xFF  # what shared memory holds while a box is on its way there
_ROUNDED = frozenset({"f32ftz", "tf32", "tf32ftz"})  # elements that change on their way
#: Bytes of the NaN that fills outside elements; the manual does not give the pattern, so this one is assumed.
_NAN = {"f16": OOB_NAN.tobytes(), "bf16": OOB_NAN.tobytes(), "f32": b"\xff\xff\xff\x7f", "f64": b"\xff" * 7 + b"\x7f"}


@lru_cache(maxsize=256)
def _decode(bits: bytes) -> TensorMap:
    return TensorMap.from_bits(bits)


def tensor_map(machine: Machine, address: int, thread: int) -> TensorMap:
    """The tensor map at a generic address. Raises FaultError if its bits are none."""
    bits = machine.spaces.read(address, SIZE, thread)
    try:
        tm = _decode(bits)
    except ValueError as error:
        raise FaultError(f"the tensor map at {address:#x} cannot be decoded: {error}", thread) from None
    if tm.interleave or tm.dtype in _ROUNDED:
        kind = f"interleaved by {tm.interleave} bytes" if tm.interleave else f"of {tm.dtype}"
        raise FaultError(f"tensors {kind} are not emulated", thread)
    return tm


def map_name(machine: Machine, address: int) -> str:
    """The kernel parameter that holds a tensor map, else its address."""
    if address >> WINDOW_SHIFT == WINDOWS["param"] >> WINDOW_SHIFT:
        offset = address & (1 << WINDOW_SHIFT) - 1
        for start, size, name in machine.param_names:
            if start <= offset < start + size:
                return name if offset == start else f"{name}+{offset - start}"
    return f"{address:#x}"


def swizzle(address: Array, span: int) -> Array:
    """Byte addresses in shared memory after the swizzle of `span` bytes (0: none): bits 7 up flip bits 4 up."""
    if not span:
        return address
    return np.asarray(address ^ (address >> 7 & span // 16 - 1) << 4)


class _Box:
    """A box at a coordinate: which part of it is inside the tensor, and where that part lies."""

    def __init__(self, tm: TensorMap, coordinates: Sequence[int], thread: int, whole: bool = False) -> None:
        """whole: with the rest of the 16 bytes in which a row ends."""
        if len(coordinates) != tm.rank:
            raise FaultError(f"{len(coordinates)} coordinates for a tensor map of rank {tm.rank}", thread)
        size = tm.element_bytes
        if coordinates[0] * size % _CHUNK:  # found on an H200: the kernel ends with an illegal instruction
            at = f"the innermost coordinate {coordinates[0]}, of elements of {size} bytes"
            raise FaultError(f"{at}, is no multiple of {_CHUNK} bytes: TMA refuses the instruction", thread)
        # The element stride of the innermost dimension is ignored without interleaving.
        steps = (1, *tm.element_strides[1:])
        shape = [-(-b // e) for b, e in zip(tm.box, steps, strict=True)]
        unit = _CHUNK // size if whole else 1
        ends = (-(-tm.dims[0] // unit) * unit, *tm.dims[1:])
        first = [min(max(0, -(c // e)), n) for c, e, n in zip(coordinates, steps, shape, strict=True)]
        last = [
            max(f, min(n, -((c - d) // e)))
            for f, n, c, d, e in zip(first, shape, coordinates, ends, steps, strict=True)
        ]
        pitch = [size, *tm.strides]
        self.nbytes = size * int(np.prod(shape))
        self.empty = any(a == b for a, b in zip(first, last, strict=True))
        self.start = tm.address + sum(
            (c + f * e) * p for c, f, e, p in zip(coordinates, first, steps, pitch, strict=True)
        )
        counts = [b - a for a, b in zip(first, last, strict=True)]
        # Outermost dimension first, as numpy has it; the innermost in bytes.
        self.shape = (*reversed(shape[1:]), shape[0] * size)
        self.inside = (
            *(slice(a, b) for a, b in reversed(list(zip(first[1:], last[1:], strict=True)))),
            slice(first[0] * size, last[0] * size),
        )
        self.counts = (*reversed(counts[1:]), counts[0] * size)
        self.pitches = (*reversed([p * e for p, e in zip(pitch[1:], steps[1:], strict=True)]), 1)
        self.span = sum((n - 1) * p for n, p in zip(self.counts, self.pitches, strict=True)) + 1

    def holding(self) -> Array:
        """Of each 16 bytes of the box whether any are inside the tensor."""
        held = np.zeros((*self.shape[:-1], -(-self.shape[-1] // _CHUNK)), np.bool_)
        columns = self.inside[-1]
        held[(*self.inside[:-1], slice(columns.start // _CHUNK, -(-columns.stop // _CHUNK)))] = True
        return held.reshape(-1)

    def global_view(self, machine: Machine, thread: int, writable: bool) -> Array:
        """The inside part in global memory, as bytes. Raises MemoryFaultError where it leaves its allocation."""
        try:
            block = machine.memory.block(self.start, self.span, thread)
        except MemoryFaultError as fault:
            raise MemoryFaultError(
                fault.address, f"the tensor map leads outside its array: {fault.what}", thread
            ) from None
        if writable:
            machine.spaces.writable(block.bytes, self.start, thread)
        return np.lib.stride_tricks.as_strided(block.bytes[self.start - block.base :], self.counts, self.pitches)


@lru_cache(maxsize=1024)
def _chunks(address: int, rows: int, inner: int, span: int) -> Array:
    """Index of the 16-byte chunk of shared memory that holds each chunk of a box, whose rows have `inner` bytes and,
    with a swizzle, lie a whole one apart."""
    starts = np.arange(rows)[:, None] * (span or inner) + np.arange(0, inner, _CHUNK)
    return swizzle(address + starts.reshape(-1), span) // _CHUNK


def _shared(machine: Machine, address: int, tm: TensorMap, thread: int) -> tuple[Array, Array]:
    if address % _ALIGN:
        raise FaultError(f"a TMA transfer needs shared memory aligned to {_ALIGN} bytes, not {address:#x}", thread)
    machine.cta.cluster.reach(address)
    if not machine.shared_base <= address & machine.offset_bits <= machine.shared_end - tm.room:
        raise MemoryFaultError(address, f"a box of {tm.room} bytes at {address:#x} is outside shared memory", thread)
    rows = tm.room // tm.row_bytes
    chunks = _chunks(address, rows, tm.box_bytes // rows, tm.swizzle)
    memory = machine.shared.reshape(-1, _CHUNK)
    if int(chunks.max()) * _CHUNK & machine.offset_bits >= machine.shared_end:
        raise MemoryFaultError(address, f"a swizzled box at {address:#x} reaches past the end of shared memory", thread)
    return memory, chunks


def load(
    machine: Machine, shared: int, descriptor: int, coordinates: Sequence[int], mbarrier: int, thread: int, pc: int
) -> None:
    """Fill the box from the tensor; outside elements are the fill value. Signals the bytes of the whole box."""
    tm = tensor_map(machine, descriptor, thread)
    box = _Box(tm, coordinates, thread)
    memory, chunks = _shared(machine, shared, tm, thread)
    if machine.watch is not None:
        machine.watch.tma_load(thread, chunks, mbarrier, pc, map_name(machine, descriptor), tm, coordinates)
    view = None if box.empty else box.global_view(machine, thread, writable=False)
    machine.tma_loads[map_name(machine, descriptor)] += 1
    memory[chunks] = _POISON
    phase = machine.cta.mbarriers.get(mbarrier).phase

    def effect() -> None:
        data = np.zeros(box.shape, np.uint8)
        if tm.fill == "nan":
            data = np.resize(np.frombuffer(_NAN[tm.dtype], np.uint8), box.shape)
        if view is not None:
            data[box.inside] = view
        memory[chunks] = data.reshape(-1, _CHUNK)
        if machine.watch is not None:
            machine.watch.landed(mbarrier, phase)
        machine.cta.mbarriers.complete(mbarrier, box.nbytes)

    machine.cta.engines.later(effect, None, pc, thread)


def load_to_all(
    machine: Machine,
    shared: int,
    descriptor: int,
    coordinates: Sequence[int],
    mbarrier: int,
    thread: int,
    pc: int,
    ctas: int,
) -> None:
    """The same to the places of these addresses in each CTA of the cluster whose bit is set."""
    for rank in range(16):
        if ctas >> rank & 1:
            there, inside = rank << RANK_SHIFT, machine.offset_bits
            load(machine, there | shared & inside, descriptor, coordinates, there | mbarrier & inside, thread, pc)


def store(
    machine: Machine,
    shared: int,
    descriptor: int,
    coordinates: Sequence[int],
    thread: int,
    pc: int,
    combine: Callable[[Array, Array], Array] | None = None,
) -> None:
    """Write the inside part of the box to the tensor; with `combine`, of old bytes and box bytes (both contiguous).

    What is written has whole 16 bytes, also where a row ends inside of them: found on an H200, as no manual says so.
    """
    tm = tensor_map(machine, descriptor, thread)
    box = _Box(tm, coordinates, thread, whole=combine is None)
    memory, chunks = _shared(machine, shared, tm, thread)
    if machine.watch is not None:
        machine.watch.tma_store(thread, chunks, box.holding(), pc, map_name(machine, descriptor), tm, coordinates)
    machine.tma_stores[map_name(machine, descriptor)] += 1
    machine.cta.events += 1
    if box.empty:
        return
    view = box.global_view(machine, thread, writable=True)

    def effect() -> None:
        data = memory[chunks].reshape(box.shape)[box.inside]
        if machine.watch is not None:
            machine.watch.outputs.by_box(box.start, box.counts, box.pitches)
        view[...] = data if combine is None else combine(np.ascontiguousarray(view), np.ascontiguousarray(data))

    machine.cta.engines.later(effect, ("store", thread), pc, thread)
