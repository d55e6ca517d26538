"""Shared memory: where buffers and barriers lie, what a slot holds, and what descriptors move."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import all_operations, parts

SWIZZLES = (0, 32, 64, 128)
BARRIER_BYTES = 8
FLAG_BYTES = 4
PIECE = 16  # bytes that stay together in every swizzle, and at whose multiples a box begins in a row
# The TMA engine's destinations; a swizzled tile starts where its pattern does (eight rows of the swizzle's width).
TMA_ALIGNMENT = 128
# Arrival counts and bytes of one phase of an mbarrier.
MBARRIER_LIMIT = 2**20 - 1


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on shared memory."""
    for buffer in plan.buffers:
        yield from _buffer(plan, buffer)
    for ring in plan.rings:
        yield from _ring(plan, ring)
    yield from _overlaps(plan)
    for descriptor in plan.descriptors:
        yield from _descriptor(plan, descriptor)
    filled = {
        o.slot.ring
        for _, _, o in all_operations(plan)
        if isinstance(o, ir.TmaLoad) and plan.descriptor(o.descriptor).fill != "zero"
    }
    for role, path, operation in all_operations(plan):
        if isinstance(operation, ir.ReadShared) and operation.slot.ring in filled:
            layout = next(f.layout for f in role.fragments if f.name == operation.out)
            if layout != "pair":
                message = f"{operation.slot.ring} is filled with NaN outside its tensor, and read as numbers"
                yield Violation(path, message)
        if isinstance(operation, ir.AnyMma):
            for name in (o.slot.ring for o in parts(operation, ir.SlotOperand) if o.slot.ring in filled):
                message = f"{name} is filled with NaN outside its tensor, and 0 times NaN is no 0 in a product"
                yield Violation(path, message)
        if isinstance(operation, ir.TmaLoad):
            buffer = plan.buffer(plan.ring(operation.slot.ring).buffer)
            for message in _box(plan, operation, buffer):
                yield Violation(path, message)
        elif isinstance(operation, ir.CopyTile):
            buffer = plan.buffer(plan.ring(operation.slot.ring).buffer)
            for message in _copy(plan, operation, buffer):
                yield Violation(path, message)
        elif isinstance(operation, ir.TmaStore):
            for message in _box(plan, operation, plan.buffer(operation.buffer)):
                yield Violation(path, message)


def buffer_bytes(buffer: ir.Buffer) -> int:
    """Bytes of all stages and parts."""
    return buffer.stage_bytes * buffer.stages * buffer.parts


def _alignment(swizzle: int) -> int:
    return max(8 * swizzle, TMA_ALIGNMENT)


def _buffer(plan: ir.Plan, buffer: ir.Buffer) -> Iterator[Violation]:
    here = ("buffer", buffer.name)
    if min(buffer.rows, buffer.cols, buffer.chunk, buffer.stages, buffer.parts) < 1:
        yield Violation(here, "rows, columns, chunk, stages and parts are at least 1")
        return
    if buffer.swizzle not in SWIZZLES:
        yield Violation(here, f"swizzle {buffer.swizzle} is none of 0, 32, 64, 128")
        return
    if buffer.swizzle and buffer.line != buffer.swizzle:
        yield Violation(here, f"lines of {buffer.line} bytes do not hold a swizzle of {buffer.swizzle}")
    if buffer.line < buffer.chunk * buffer.dtype.bytes:
        yield Violation(here, f"a line of {buffer.line} bytes does not hold {buffer.chunk} elements")
    tile = math.ceil(buffer.cols / buffer.chunk) * buffer.rows * buffer.line
    if tile > buffer.stage_bytes:
        yield Violation(here, f"a tile takes {tile} bytes, its stage has {buffer.stage_bytes}")
    alignment = _alignment(buffer.swizzle)
    for what, value in (("offset", buffer.offset), ("stage", buffer.stage_bytes)):
        if value % alignment and (what == "offset" or buffer.stages * buffer.parts > 1):
            yield Violation(here, f"{what} {value} is no multiple of {alignment}")
    end = buffer.offset + buffer_bytes(buffer)
    if buffer.offset < 0 or end > plan.shared_bytes:
        yield Violation(here, f"bytes {buffer.offset} .. {end} do not lie in the {plan.shared_bytes} of shared memory")
    if buffer.host is not None:
        host = plan.buffer(buffer.host)
        if buffer.offset < host.offset or end > host.offset + buffer_bytes(host):
            yield Violation(here, f"bytes {buffer.offset} .. {end} do not lie in those of {host.name}")


def _ring(plan: ir.Plan, ring: ir.Ring) -> Iterator[Violation]:
    here = ("ring", ring.name)
    buffer = plan.buffer(ring.buffer)
    if (ring.depth, ring.parts) != (buffer.stages, buffer.parts):
        yield Violation(
            here,
            f"depth {ring.depth} and parts {ring.parts} differ from {buffer.name}'s {buffer.stages} and {buffer.parts}",
        )
    if ring.release not in ("warp", "warpgroup", "none"):
        yield Violation(here, f'release "{ring.release}" is none of "warp", "warpgroup", "none"')
    for b in ring.barriers:
        if not 1 <= b.arrivals <= MBARRIER_LIMIT:
            yield Violation(here, f"{b.kind} barriers take 1 to {MBARRIER_LIMIT} arrivals, not {b.arrivals}")
    if not 0 < ring.bytes <= min(buffer.stage_bytes, MBARRIER_LIMIT):
        yield Violation(here, f"{ring.bytes} bytes do not fit a stage of {buffer.stage_bytes}")
    size = BARRIER_BYTES * ring.depth * ring.parts
    for b in ring.barriers:
        place = ("barrier", ring.name, b.kind)
        if b.offset % BARRIER_BYTES:
            yield Violation(place, f"barriers start at a multiple of {BARRIER_BYTES}, not at {b.offset}")
        if b.offset < 0 or b.offset + size > plan.shared_bytes:
            yield Violation(place, f"bytes {b.offset} .. {b.offset + size} do not lie in shared memory")
    if ring.scan is not None:
        flag, place = ring.scan.flag, ("barrier", ring.name, "flag")
        if flag % FLAG_BYTES or not 0 <= flag <= plan.shared_bytes - FLAG_BYTES:
            yield Violation(place, f"a flag of {FLAG_BYTES} bytes does not stand at {flag}")


def _overlaps(plan: ir.Plan) -> Iterator[Violation]:
    """Two things in the same bytes, but for buffers of one host. Compared in the order of their addresses."""
    spans: list[tuple[int, int, str, str, Path]] = [
        (b.offset, b.offset + buffer_bytes(b), f"buffer {b.name}", b.host or b.name, ("buffer", b.name))
        for b in plan.buffers
    ]
    for r in plan.rings:
        size = BARRIER_BYTES * r.depth * r.parts
        for group in r.barriers:
            what = f"the {group.kind} barriers of {r.name}"
            spans.append((group.offset, group.offset + size, what, what, ("barrier", r.name, group.kind)))
        if r.scan is not None:
            what = f"the flag of {r.name}"
            spans.append((r.scan.flag, r.scan.flag + FLAG_BYTES, what, what, ("barrier", r.name, "flag")))
    for index, (start, end, _, host, path) in enumerate(spans):
        for other_start, other_end, other, other_host, _ in spans[:index]:
            if start < other_end and other_start < end and host != other_host:
                yield Violation(path, f"bytes {start} .. {end} overlap those of {other}")


def _descriptor(plan: ir.Plan, descriptor: ir.Descriptor) -> Iterator[Violation]:
    here = ("descriptor", descriptor.name)
    tensor = plan.tensor(descriptor.tensor)
    if not 1 <= len(descriptor.dims) <= 5:
        yield Violation(here, f"a tensor map has 1 to 5 dimensions, not {len(descriptor.dims)}")
    if descriptor.swizzle not in SWIZZLES:
        yield Violation(here, f"swizzle {descriptor.swizzle} is none of 0, 32, 64, 128")
    if descriptor.fill not in ("zero", "nan"):
        yield Violation(here, f'fill "{descriptor.fill}" is neither "zero" nor "nan"')
    if descriptor.store and not tensor.output:
        yield Violation(here, f"{tensor.name} is an input, and stored to")
    if descriptor.fill == "nan" and not tensor.dtype.is_float:
        yield Violation(here, f"{tensor.name} holds {tensor.dtype}, which has no NaN to be filled with")
    for dim in descriptor.dims:
        if not 1 <= dim.box <= 256:
            yield Violation(here, f"a box side has 1 to 256 positions, not {dim.box}")
        if (dim.chunk or dim.by is not None) and dim.part not in ("inner", "outer"):
            yield Violation(here, f'part "{dim.part}" of a cut dimension is neither "inner" nor "outer"')
        if dim.part == "inner" and dim.chunk and dim.box > dim.chunk:
            yield Violation(here, f"a box of {dim.box} is wider than its chunk of {dim.chunk}")
    if descriptor.dims:
        inner = descriptor.dims[0].box * tensor.dtype.bytes
        if inner % 16:
            yield Violation(here, f"the inner side of the box has {inner} bytes, no multiple of 16")
        # a wider box is refused by the driver; the rows of a narrower one would lie a swizzle apart
        if descriptor.swizzle and inner != descriptor.swizzle:
            yield Violation(here, f"the inner side of the box has {inner} bytes, the swizzle {descriptor.swizzle}")


def box_bytes(plan: ir.Plan, descriptor: ir.Descriptor) -> int:
    """Bytes that one box moves, those outside the tensor among them."""
    return math.prod(d.box for d in descriptor.dims) * plan.tensor(descriptor.tensor).dtype.bytes


def _box(plan: ir.Plan, operation: ir.TmaLoad | ir.TmaStore, buffer: ir.Buffer) -> Iterator[str]:
    descriptor = plan.descriptor(operation.descriptor)
    store = isinstance(operation, ir.TmaStore)
    if descriptor.store != store:
        yield f"{descriptor.name} is a descriptor for {'loads' if store else 'stores'}"
    if len(operation.coordinates) != len(descriptor.dims):
        yield f"{len(operation.coordinates)} coordinates for {len(descriptor.dims)} dimensions"
    size = box_bytes(plan, descriptor)
    if operation.bytes != size:
        yield f"the box of {descriptor.name} has {size} bytes, not {operation.bytes}"
    share, shares = (0, 1) if isinstance(operation, ir.TmaStore) else _shares(plan, operation)
    apart = share * (shares - 1)
    if not 0 <= operation.offset <= buffer.stage_bytes - operation.bytes - apart:
        yield (
            f"bytes {operation.offset} .. {operation.offset + operation.bytes + apart} do not lie in a stage of "
            f"{buffer.name}, which has {buffer.stage_bytes}"
        )
    if operation.hint not in ("", "keep", "stream"):
        yield f'hint "{operation.hint}" is none of "keep", "stream" and ""'
    for offset in (operation.offset, share):
        if offset % _alignment(buffer.swizzle):
            yield f"offset {offset} is no multiple of {_alignment(buffer.swizzle)}"
    if descriptor.swizzle != buffer.swizzle:
        yield f"swizzle {descriptor.swizzle} of {descriptor.name} differs from {buffer.swizzle} of {buffer.name}"
    dtype = plan.tensor(descriptor.tensor).dtype
    if dtype != buffer.dtype:
        yield f"{descriptor.tensor} holds {dtype}, {buffer.name} {buffer.dtype}"


def _shares(plan: ir.Plan, load: ir.TmaLoad) -> tuple[int, int]:
    """Bytes from a share to the next, and how many there are."""
    return load.share, plan.ring(load.slot.ring).shares


def _copy(plan: ir.Plan, operation: ir.CopyTile, buffer: ir.Buffer) -> Iterator[str]:
    tensor, dims = plan.tensor(operation.tensor), [step.dim for step in operation.rows]
    if tensor.dtype != buffer.dtype:
        yield f"{tensor.name} holds {tensor.dtype}, {buffer.name} {buffer.dtype}"
    if operation.width not in (*ir.ASYNCHRONOUS, tensor.dtype.bytes) or operation.width < tensor.dtype.bytes:
        yield f"{tensor.dtype} is not copied {operation.width} bytes at once"
    if len(operation.index) != len(tensor.dims):
        yield f"{len(operation.index)} indices for {len(tensor.dims)} dimensions"
    if operation.col_dim != len(tensor.dims) - 1 or operation.col_dim in dims or len(set(dims)) < len(dims):
        yield "columns run along the innermost dimension, and rows along others, each once"
    if (buffer.chunk * buffer.dtype.bytes) != buffer.line or buffer.line % PIECE:
        yield f"lines of {buffer.line} bytes are not full of pieces of {PIECE}"
    # rows count like the digits of a number: each is as many times the next one's extent as what it is divided by
    below = 1
    for step in reversed(operation.rows):
        outermost = step is operation.rows[0]
        if step.digit.divide != below or (step.digit.modulo == 0) != outermost:
            yield f"rows along dimension {step.dim} do not follow from those of the others"
        below *= step.digit.modulo or 1
    if buffer.rows % below:
        yield f"{buffer.rows} rows are no whole number of {below}"
