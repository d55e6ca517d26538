"""From a plan and arrays to launch arguments: everything a launch needs is checked here, by name.

The same binding serves the GPU (maps encoded by the driver) and the emulator (maps by `TensorMap.to_bits`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tilegen.diagnostics.catalogue import Code, fail, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    STORE_CHUNK,
    CopyTile,
    CtasParam,
    Descriptor,
    FaultParam,
    MapDim,
    MapParam,
    Plan,
    PointerParam,
    ScalarParam,
    ScratchParam,
    SizeParam,
    StoreRows,
    StrideParam,
    TableParam,
    TensorShape,
    TmaLoad,
)
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.uniform import evaluate, text
from tilegen.runtime.arrays import ArrayView
from tilegen.runtime.dispatch import Dispatch
from tilegen.runtime.sizes import infer_sizes
from tilegen.syntax.span import Span
from tilegen.targets.hopper.tensor_map import TensorMap

_L2_PROMOTION = 256  # bytes: a load brings whole 256-byte pieces into L2; what hand-tuned kernels use


@dataclass(frozen=True)
class Binding:
    """A launch: `grid` CTAs (0: there is nothing to do) and the parameters' bytes, in the kernel's order.

    `keep`: what holds memory that the arguments point to, and `kept` its bytes. `dealing`: the kernel that goes in
    front, if the device makes the table of items; `arguments` are then empty, and come of it. `maps`: the tensor maps
    that arguments were encoded from, by descriptor.
    """

    grid: int
    arguments: tuple[bytes, ...]
    keep: tuple[object, ...] = ()
    kept: int = 0
    dealing: Dealing | None = None
    maps: Mapping[str, TensorMap] = field(default_factory=dict)


@dataclass(frozen=True)
class Dealing:
    """Memory that a launch takes to make its table of items on the device: int32 words of the table and to work in.

    arguments: from the addresses of both and of the fault words, the parameters' bytes of the kernel in front and of
    the main one.
    """

    table: int
    scratch: int
    arguments: Callable[[int, int, int], tuple[tuple[bytes, ...], tuple[bytes, ...]]]


@dataclass(frozen=True)
class Device:
    """What a launch needs of the place where it runs.

    encode: a tensor map's 128 bytes · upload: (address, what keeps it) of a dispatch's table put into its memory.
    """

    sm_count: int
    encode: Callable[[TensorMap], bytes]
    upload: Callable[[Dispatch], tuple[int, object]]


def output_shapes(plan: Plan, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shape of each output."""
    return {t.name: tuple(evaluate(d, sizes) for d in t.dims) for t in plan.tensors if t.output}


def resolve(
    plan: Plan, views: Mapping[str, ArrayView], given: Mapping[str, int], spans: Mapping[str, Span]
) -> dict[str, int]:
    """All sizes of a launch on these arrays, after checking that there is one for each input, and types and devices.

    `views`: the inputs, and outputs that the caller gives. `given`: sizes and integer scalars by name.
    """
    for t in plan.tensors:
        if not t.output and t.name not in views:
            fail(Code.MISSING_ARRAY, spans.get(t.name), kernel=plan.name, tensor=t.name)
    first = next(iter(views), "")
    for t in plan.tensors:
        if t.name in views:
            _check_kind(t, views[t.name], first, views[first].device, spans.get(t.name))
            if t.output and views[t.name].read_only:
                fail(Code.OUTPUT_READ_ONLY, spans.get(t.name), tensor=t.name)
    return infer_sizes(plan.tensors, views, given, spans)


def _check_kind(t: TensorShape, view: ArrayView, other: str, device: str, span: Span | None) -> None:
    if view.dtype != t.dtype:
        fail(Code.ARRAY_DTYPE, span, got=str(view.dtype), wanted=str(t.dtype), tensor=t.name, dtype=t.dtype)
    if view.device != device:
        fail(Code.ARRAY_DEVICE, span, got=view.device, wanted=device, tensor=t.name, other=other, device=device)


def bind(
    plan: Plan,
    views: Mapping[str, ArrayView],
    sizes: Mapping[str, int],
    dispatch: Callable[[int], Dispatch],
    device: Device,
    spans: Mapping[str, Span],
) -> Binding:
    """The launch on these arrays, all inputs and outputs among them. `dispatch`: for a number of SMs; may refuse.

    Raises TilegenError with everything that strides, alignment and the rules of TMA forbid, and where an axis of
    extent 0 leaves no CTA to write an output that does not run along it.
    """
    if all(0 in views[t.name].shape for t in plan.tensors if t.output):
        return Binding(0, ())
    crooked = _layout_faults(plan, views, spans)
    faults = list(crooked.values())
    maps: dict[str, bytes] = {}
    encoded: dict[str, TensorMap] = {}
    for descriptor in plan.descriptors:
        tensor = plan.tensor(descriptor.tensor)
        if tensor.name in crooked:
            continue  # what a map says of such strides follows from that fault
        made = tensor_map(descriptor, tensor, views[tensor.name], sizes, spans)
        if 0 in views[tensor.name].shape:
            made = _unread(made, views)
        axes, span = _axis_names(descriptor, tensor), spans.get(tensor.name)
        if 0 in views[tensor.name].shape:
            faults += made.check(tensor.name, axes, span)
        else:
            faults += map_faults(descriptor, made, axes, span)
        if not faults:
            maps[descriptor.name] = device.encode(made)
            encoded[descriptor.name] = made
    if faults:
        raise TilegenError(tuple(dict.fromkeys(faults)))
    launch = dispatch(device.sm_count)
    if not launch.grid:
        name = next(t.name for t in plan.tensors if t.output and 0 not in views[t.name].shape)
        fail(Code.OUTPUT_UNWRITTEN, spans.get(name), output=name, kernel=plan.name)
    if plan.table is not None and plan.table.sequences is not None:
        front = plan.table.sequences.params

        def placed(table: int, scratch: int, fault_words: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
            made = _Arguments(maps, launch.values, views, launch.grid, table, scratch, fault_words)
            return tuple(map(made.bytes, front)), tuple(map(made.bytes, plan.params))

        return Binding(launch.grid, (), dealing=Dealing(*launch.room, placed))
    table, keep = (0, None) if launch.table is None else device.upload(launch)
    arguments = _Arguments(maps, launch.values, views, launch.grid, table)
    return Binding(launch.grid, tuple(map(arguments.bytes, plan.params)), (keep,), launch.bytes, maps=encoded)


@dataclass(frozen=True)
class _Arguments:
    """What parameters are made of. table, scratch, fault_words: addresses."""

    maps: Mapping[str, bytes]
    values: Mapping[str, int | float]
    views: Mapping[str, ArrayView]
    ctas: int
    table: int
    scratch: int = 0
    fault_words: int = 0

    def bytes(self, param: object) -> bytes:
        match param:
            case MapParam(descriptor):
                return self.maps[descriptor]
            case SizeParam(name):
                return struct.pack("<i", self.values[name])
            case CtasParam():
                return struct.pack("<i", self.ctas)
            case ScalarParam(name):
                return struct.pack("<f", self.values[name])
            case PointerParam(tensor):
                return struct.pack("<Q", self.views[tensor].pointer)
            case StrideParam(tensor, dim):
                view = self.views[tensor]
                return struct.pack("<q", view.strides[dim] // _size(view))
            case TableParam():
                return struct.pack("<Q", self.table)
            case ScratchParam():
                return struct.pack("<Q", self.scratch)
            case FaultParam():
                return struct.pack("<Q", self.fault_words)
        raise TypeError(f"no such parameter: {param}")


def _size(view: ArrayView) -> int:
    assert isinstance(view.dtype, DType)  # checked when the view was resolved
    return view.dtype.bytes


# ---- tensor maps ---------------------------------------------------------------------------------


def tensor_map(
    d: Descriptor, tensor: TensorShape, view: ArrayView, sizes: Mapping[str, int], spans: Mapping[str, Span]
) -> TensorMap:
    """The map of a descriptor over an array. An extent of 0 stands in it as 1: such a map is never read."""
    dims = []
    strides = []
    for m in d.dims:
        extent, stride = _placed(m, tensor, view, sizes, spans)
        dims.append(max(extent, 1))
        # along a single position the stride is never used, and frameworks leave anything in it
        strides.append(stride if extent > 1 else 16)
    return TensorMap(
        dtype="u8" if tensor.dtype is DType.BOOL else str(tensor.dtype),
        address=view.pointer,
        dims=tuple(dims),
        strides=tuple(strides[1:]),
        box=tuple(m.box for m in d.dims),
        swizzle=d.swizzle,
        fill=d.fill,
        promotion=0 if d.store else _L2_PROMOTION,
    )


def _placed(
    m: MapDim, tensor: TensorShape, view: ArrayView, sizes: Mapping[str, int], spans: Mapping[str, Span]
) -> tuple[int, int]:
    """Extent in elements and stride in bytes of a map's dimension."""
    extent, stride = view.shape[m.dim], view.strides[m.dim]
    if m.by is not None:
        inner = max(evaluate(m.by, sizes), 1)
        return (inner, stride) if m.part == "inner" else (extent // inner, stride * inner)
    if not m.chunk:
        return extent, stride
    if extent % m.chunk:
        got, wanted = str(extent), f"a multiple of {m.chunk}"
        span = spans.get(tensor.name)
        fail(Code.ARRAY_CHUNK, span, got=got, wanted=wanted, tensor=tensor.name, dim=m.dim, chunk=m.chunk)
    return (m.chunk, stride) if m.part == "inner" else (extent // m.chunk, stride * m.chunk)


def _axis_names(d: Descriptor, tensor: TensorShape) -> tuple[str, ...]:
    return tuple(f"dimension {m.dim} ({text(tensor.dims[m.dim])})" for m in d.dims)


def map_faults(d: Descriptor, made: TensorMap, axes: tuple[str, ...], span: Span | None) -> list[Diagnostic]:
    """Every rule that the map of a descriptor over an array breaks. axes: names of its dimensions, innermost first."""
    return made.check(d.tensor, axes, span) + (_cut_chunks(made, d.tensor, axes[0], span) if d.store else [])


def _cut_chunks(m: TensorMap, tensor: str, axis: str, span: Span | None) -> list[Diagnostic]:
    """What is wrong with a map that stores: the engine writes whole chunks, and so past rows that end inside one."""
    length = m.dims[0] * m.element_bytes
    if not length % STORE_CHUNK:
        return []
    got, wanted, unit = f"rows of {length} bytes", f"a multiple of {STORE_CHUNK} bytes", STORE_CHUNK // m.element_bytes
    return [fault(Code.TMA_STORE_ROWS, span, got=got, wanted=wanted, tensor=tensor, axis=axis, unit=unit)]


def _unread(made: TensorMap, views: Mapping[str, ArrayView]) -> TensorMap:
    """A valid map at memory that exists: a kernel may prefetch the map of an empty tensor, but loads nothing by it."""
    address = next(v.pointer for v in views.values() if v.pointer and 0 not in v.shape)
    ones = (1,) * made.rank
    return replace(made, address=address & ~15, dims=ones, strides=(16,) * (made.rank - 1))


# ---- layouts -------------------------------------------------------------------------------------


def _layout_faults(plan: Plan, views: Mapping[str, ArrayView], spans: Mapping[str, Span]) -> dict[str, Diagnostic]:
    """The first fault of each tensor whose array does not lie in memory as the kernel needs it."""
    found: dict[str, Diagnostic] = {}
    for tensor, diagnostic in _misplaced(plan, views, spans):
        found.setdefault(tensor, diagnostic)
    return found


def _misplaced(
    plan: Plan, views: Mapping[str, ArrayView], spans: Mapping[str, Span]
) -> Iterator[tuple[str, Diagnostic]]:
    mapped = {(d.tensor, m.dim) for d in plan.descriptors for m in d.dims}
    strided = {(p.tensor, p.dim) for p in plan.params if isinstance(p, StrideParam)}
    pointed = {p.tensor for p in plan.params if isinstance(p, PointerParam)}
    starts = {x.starts for x in plan.table.sequences.lengths} if plan.table and plan.table.sequences else set()
    whole = {(d.tensor, d.dims[0].dim) for d in plan.descriptors}
    stores, copies = tuple(_all(plan, StoreRows)), tuple(_all(plan, CopyTile))
    tensor_of = {d.name: d.tensor for d in plan.descriptors}
    whole |= {(o.tensor, o.col_dim) for o in stores} | {(o.tensor, o.col_dim) for o in copies}
    whole |= {(name, 0) for name in starts}
    for t in plan.tensors:
        view, span = views[t.name], spans.get(t.name)
        if 0 in view.shape:
            continue  # nothing of it is read, and frameworks give an empty array any strides
        for dim, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
            if (t.name, dim) in mapped and extent > 1 and stride < 0:
                got = f"a stride of {stride} bytes"
                tiles = dict.fromkeys(o.slot.ring for o in _all(plan, TmaLoad) if tensor_of[o.descriptor] == t.name)
                copied = f"let threads copy it: `via {', '.join(f'{x} cp_async' for x in tiles)}` in the schedule"
                rows = f"write `via {t.name} rows` in the schedule: rows from registers may lie anywhere"
                other = copied if tiles else rows
                yield t.name, fault(Code.ARRAY_BACKWARDS, span, got=got, tensor=t.name, dim=dim, other=other)
            packed = (t.name, dim) in whole or (t.name in pointed and (t.name, dim) not in strided)
            if packed and extent > 1 and stride != t.dtype.bytes:
                order = ": the array is in Fortran order" if _is_fortran(view, t.dtype.bytes) else ""
                got, wanted = f"a stride of {stride} bytes{order}", f"{t.dtype.bytes} bytes"
                yield t.name, fault(Code.ARRAY_INNER_STRIDE, span, got=got, wanted=wanted, tensor=t.name, dim=dim)
            elif t.output and extent > 1 and not stride:
                yield t.name, fault(Code.OUTPUT_OVERLAP, span, tensor=t.name, dim=dim)
    for name in sorted(pointed):
        yield from _off(name, views[name], _size(views[name]), Code.ARRAY_ELEMENT_ALIGNMENT, None, plan, spans)
    for store in stores:
        if not store.whole_vectors:  # its code looks where each row begins
            continue
        view = views[store.tensor]
        width = store.vector * _size(view)
        yield from _off(store.tensor, view, width, Code.ARRAY_ALIGNMENT, store.col_dim, plan, spans)
    for copy in copies:
        yield from _off(copy.tensor, views[copy.tensor], copy.width, Code.COPY_ALIGNMENT, copy.col_dim, plan, spans)


def _off(
    name: str, view: ArrayView, width: int, code: Code, skipped: int | None, plan: Plan, spans: Mapping[str, Span]
) -> Iterator[tuple[str, Diagnostic]]:
    """What of an array, its start and every stride but one, is no multiple of `width` bytes."""
    if 0 in view.shape:
        return
    found = [("its start", f"0x{view.pointer:x}")] if view.pointer % width else []
    found += [
        (f"the stride of its dimension {n} ({text(plan.tensor(name).dims[n])})", f"{stride} bytes")
        for n, (extent, stride) in enumerate(zip(view.shape, view.strides, strict=True))
        if n != skipped and extent > 1 and stride % width
    ]
    for what, got in found:
        wanted = f"a multiple of {width} bytes"
        yield name, fault(code, spans.get(name), got=got, wanted=wanted, tensor=name, bytes=width, what=what)


def _is_fortran(view: ArrayView, size: int) -> bool:
    """Whether the first dimension is the contiguous one, the next follows it, and so on."""
    for extent, stride in zip(view.shape, view.strides, strict=True):
        if extent > 1 and stride != size:
            return False
        size *= extent
    return True


_Kind = TypeVar("_Kind", StoreRows, CopyTile, TmaLoad)


def _all(plan: Plan, kind: type[_Kind]) -> Iterator[_Kind]:
    return (o for _, _, o in all_operations(plan) if isinstance(o, kind))
