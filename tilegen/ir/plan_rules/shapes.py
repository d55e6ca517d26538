"""Shapes and layouts of what an operation combines."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_rules.expressions import check_expression
from tilegen.ir.plan_rules.sweeps import check_spoiled, check_sweep, check_transients, check_vote
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.uniform import Int

LAYOUTS = ("acc", "a", "pair", "row", "col")
FOLDS = ("sum", "max", "min")
ROWS = 64  # of a warpgroup's fragment
STEP = 16  # columns of a k step, 16-bit types


def check_fragments(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on fragments by themselves."""
    for index, role in enumerate(plan.roles):
        for fragment in role.fragments:
            for message in _fragment(role, fragment):
                yield Violation(("fragment", index, fragment.name), message)
        yield from check_transients(role, index)


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Breaches of the rules on shapes and layouts, of a plan whose fragments are well formed."""
    for role, path, operation in all_operations(plan):
        for message in _operation(plan, role, operation):
            yield Violation(path, message)


def _fragment(role: ir.RolePlan, fragment: ir.Fragment) -> Iterator[str]:
    if fragment.layout not in LAYOUTS:
        yield f'layout "{fragment.layout}" is none of {", ".join(LAYOUTS)}'
        return
    if fragment.layout != "col" and fragment.rows != ROWS:
        yield f"a fragment has {ROWS} rows, not {fragment.rows}"
    unit = {"acc": 8, "a": STEP, "pair": 8, "col": 8, "row": 1}[fragment.layout]
    if fragment.cols < 1 or fragment.cols % unit:
        yield f"{fragment.cols} columns are no multiple of {unit}"
    if fragment.layout in ("a", "pair") and fragment.dtype.bits != 16:
        yield f"a fragment of layout {fragment.layout} holds 16-bit elements, not {fragment.dtype}"
    if fragment.layout == "acc" and fragment.dtype != DType.F32:
        yield f"a fragment of layout acc holds f32, not {fragment.dtype}"
    if fragment.layout in ("row", "col") and fragment.dtype not in (DType.F32, DType.I32):
        yield f"a fragment of layout {fragment.layout} holds f32 or i32, not {fragment.dtype}"
    if not fragment.storage:
        if fragment.layout != "acc":
            yield f"a fragment of layout {fragment.layout} needs registers: sweeps go over columns"
        return
    owner = _fragment_of(role, fragment.storage)
    if (owner.layout, owner.registers) != (fragment.layout, fragment.registers):
        yield f"{owner.name} has another layout or number of registers, so they cannot share them"


def _scanned(plan: ir.Plan, ring: str) -> Iterator[str]:
    if plan.ring(ring).scan is None:
        yield f"no role looks through the slots of {ring}"


def _fragment_of(role: ir.RolePlan, name: str) -> ir.Fragment:
    return next(f for f in role.fragments if f.name == name)


def _operation(plan: ir.Plan, role: ir.RolePlan, operation: ir.Operation) -> Iterator[str]:
    def get(name: str) -> ir.Fragment:
        return _fragment_of(role, name)

    match operation:
        case ir.Mma() | ir.WarpMma():
            yield from _mma(plan, role, operation)
        case ir.CopyWait(pending) if pending < 0:
            yield f"{pending} groups of copies left are no number of groups"
        case ir.StoreWait(pending) if pending < 0:
            yield f"{pending} groups of stores left are no number of groups"
        case ir.Sweep():
            yield from check_sweep(role, operation)
        case ir.IfVote():
            yield from check_vote(role, operation)
        case ir.IfSpoiled(ring):
            yield from check_spoiled(operation)
            yield from _scanned(plan, ring)
        case ir.WaitClean(slot) | ir.ArriveClean(slot):
            yield from _scanned(plan, slot.ring)
        case ir.ScanSlot(slot):
            yield from _scanned(plan, slot.ring)
            dtype = plan.buffer(plan.ring(slot.ring).buffer).dtype
            if dtype not in (DType.BF16, DType.F16):
                yield f"entries of {dtype} are not looked through"
        case ir.Mend():
            yield from _layout(get(operation.fragment), "acc")
            yield from _layout(get(operation.live), "acc")
            tensor = plan.tensor(operation.tensor)
            yield from _index(tensor, len(operation.index))
            for dim in (operation.dim, operation.col_dim):
                if not 0 <= dim < len(tensor.dims):
                    yield f"{tensor.name} has no dimension {dim}"
            if operation.dim == operation.col_dim:
                yield "positions and columns run along one dimension"
        case ir.Map(out, value):
            yield from check_expression(value, role, get(out))
        case ir.LetFloat(_, value, load):
            if (value is None) == (load is None):
                yield "either a value or a load"
            elif value is not None and operation.exists != Int(1):
                yield "only a load may be left out"
            elif value is not None:
                yield from check_expression(value, role, None)
            elif load is not None:
                yield from _index(plan.tensor(load[0]), len(load[1]))
        case ir.FmaOob(out, a, b, c, dtype):
            yield from _layout(get(out), "acc")
            if dtype not in (DType.F16, DType.BF16):
                yield f"there is no fma.rn.oob of {dtype}"
            entries = [x.fragment for x in (a, b) if isinstance(x, ir.Element) and get(x.fragment).layout == "pair"]
            numbers = [x for x in (a, b) if not (isinstance(x, ir.Element) and x.fragment in entries)]
            for operand in (*numbers, c):
                yield from check_expression(operand, role, get(out))
            if not entries:
                yield "no factor is entries of a tile, as they lie"
            for name in entries:
                if (get(name).cols, get(name).dtype) != (get(out).cols, dtype):
                    yield f"{name} is {get(name).dtype} of {get(name).cols} columns, {out} {dtype} of {get(out).cols}"
        case ir.Mask(fragment, alternatives):
            layout = get(fragment).layout
            if layout in ("a", "pair"):
                yield f"a fragment of layout {layout} cannot be masked"
            conditions = [c for conjunction in alternatives for c in conjunction]
            bounds = [c for c in conditions if isinstance(c, ir.Bound)]
            for condition in conditions:
                if not isinstance(condition, ir.Bound):
                    yield from check_expression(condition, role, get(fragment))
            if layout == "row" and any(b.col_factor for b in bounds):
                yield f"{fragment} has no columns to bound"
            if layout == "col" and any(b.row_factor or b.digits for b in bounds):
                yield f"{fragment} has no rows to bound"
        case ir.Init(fragment):
            if get(fragment).layout in ("a", "pair"):
                yield f"a fragment of layout {get(fragment).layout} holds what is put there whole, and no constant"
        case ir.RowFold(out, source, kind, scope):
            yield from _layout(get(out), "row")
            yield from _layout(get(source), "acc")
            if kind not in FOLDS:
                yield f'"{kind}" is none of {", ".join(FOLDS)}'
            if scope not in ("quad", "thread"):
                yield f'scope "{scope}" is neither "quad" nor "thread"'
        case ir.QuadReduce(fragment, kind):
            yield from _layout(get(fragment), "row")
            if kind not in FOLDS:
                yield f'"{kind}" is none of {", ".join(FOLDS)}'
        case ir.Relayout(out, source):
            yield from _layout(get(out), "a")
            yield from _layout(get(source), "acc")
            if get(out).cols != _whole_steps(get(source)):
                yield f"{source} has {get(source).cols} columns, {out} {get(out).cols}"
        case ir.CopyOperand(out, source):
            yield from _layout(get(out), "a")
            yield from _layout(get(source), "a")
            if (get(out).cols, get(out).dtype) != (get(source).cols, get(source).dtype):
                yield f"{source} is {get(source).dtype} of {get(source).cols} columns, {out} is not"
        case ir.ReadShared(out, slot, row_offset):
            buffer = plan.buffer(plan.ring(slot.ring).buffer)
            if get(out).layout != "pair":
                yield from _layout(get(out), "acc")
            elif get(out).dtype != buffer.dtype:
                yield f"{buffer.name} holds {buffer.dtype}, {out} {get(out).dtype}"
            if get(out).cols > buffer.cols:
                yield f"{buffer.name} has {buffer.cols} columns, {out} {get(out).cols}"
            held = ROWS if operation.digit is None else operation.digit.positions
            rows = row_offset * (role.warpgroups - 1) + held
            if rows > buffer.rows:
                yield f"{rows} rows are read from {buffer.name}, which has {buffer.rows}"
        case ir.WriteShared(name, source):
            buffer = plan.buffer(name)
            yield from _layout(get(source), "acc")
            yield from _taken(buffer, get(source), operation.first)
            yield from _part_each(buffer, role, operation.stage)
        case ir.TmaStore():
            yield from _part_each(plan.buffer(operation.buffer), role, operation.stage)
        case ir.LoadVector(out, tensor, index, dim):
            if get(out).layout not in ("row", "col"):
                yield f"{out} has layout {get(out).layout}, row or col is wanted"
            yield from _index(plan.tensor(tensor), len(index), dim)
        case ir.StoreRows(fragment, tensor, index):
            yield from _layout(get(fragment), "acc")
            yield from _store_rows(plan.tensor(tensor), operation, len(index))
        case ir.StoreVector(fragment, tensor, index, dim):
            yield from _layout(get(fragment), "row")
            yield from _index(plan.tensor(tensor), len(index), dim)
            yield from _written(plan.tensor(tensor))


def _layout(fragment: ir.Fragment, wanted: str) -> Iterator[str]:
    if fragment.layout != wanted:
        yield f"{fragment.name} has layout {fragment.layout}, {wanted} is wanted"


def _whole_steps(fragment: ir.Fragment) -> int:
    """Its columns, rounded up to whole k steps."""
    return -(-fragment.cols // STEP) * STEP


def _part_each(buffer: ir.Buffer, role: ir.RolePlan, stage: int = 0) -> Iterator[str]:
    if buffer.parts != role.warpgroups or not 0 <= stage < buffer.stages:
        yield (
            f"{buffer.name} has {buffer.parts} parts and {buffer.stages} stages, "
            f"{role.name} needs a part for each of its {role.warpgroups} warpgroups, of stage {stage}"
        )


def _taken(buffer: ir.Buffer, source: ir.Fragment, first: int) -> Iterator[str]:
    """A buffer takes all columns of a source, or a piece of one chunk that begins where one does."""
    whole = buffer.cols in (source.cols, _whole_steps(source)) and not first
    piece = buffer.cols == buffer.chunk < source.cols and first in range(0, source.cols, buffer.cols)
    piece = piece and buffer.chunk * buffer.dtype.bytes == buffer.line
    if buffer.rows != ROWS or not (whole or piece):
        what = f" from column {first}" if first else ""
        yield f"{buffer.name} has {buffer.rows} x {buffer.cols} elements, {source.name} {ROWS} x {source.cols}{what}"


def _index(tensor: ir.TensorShape, given: int, *dims: int) -> Iterator[str]:
    if given != len(tensor.dims):
        yield f"{given} positions for the {len(tensor.dims)} dimensions of {tensor.name}"
    for dim in dims:
        if not 0 <= dim < len(tensor.dims):
            yield f"{tensor.name} has no dimension {dim}"


def _written(tensor: ir.TensorShape) -> Iterator[str]:
    if not tensor.output:
        yield f"{tensor.name} is an input, and stored to"


def _store_rows(tensor: ir.TensorShape, operation: ir.StoreRows, given: int) -> Iterator[str]:
    yield from _index(tensor, given, operation.row_dim, operation.col_dim)
    yield from _written(tensor)
    if operation.row_dim == operation.col_dim:
        yield "rows and columns run along the same dimension"
    if operation.col_dim != len(tensor.dims) - 1:
        yield f"columns run along dimension {operation.col_dim}, which is not the innermost"
    width = operation.vector * tensor.dtype.bytes
    if operation.vector < 1 or operation.vector & (operation.vector - 1) or width > 16:
        yield f"vectors of {operation.vector} {tensor.dtype} are no power of two of at most 16 bytes"


# ---- products ----------------------------------------------------------------------------------------


def _mma(plan: ir.Plan, role: ir.RolePlan, mma: ir.AnyMma) -> Iterator[str]:
    accumulator = _fragment_of(role, mma.accumulator)
    yield from _layout(accumulator, "acc")
    if mma.n % 8 or not 8 <= mma.n <= 256:
        yield f"n is a multiple of 8 up to 256, not {mma.n}"
    if accumulator.cols != mma.n:
        yield f"{accumulator.name} has {accumulator.cols} columns, the product {mma.n}"
    if mma.dtype.bits != 16 or not mma.dtype.is_float:
        yield f"a product of {mma.dtype} is not possible: bf16 or f16"
    steps = len(mma.b.offsets)
    if steps == 0:
        yield "no k steps"
    if isinstance(mma.a, ir.FragmentOperand):
        fragment = _fragment_of(role, mma.a.fragment)
        yield from _layout(fragment, "a")
        if fragment.dtype != mma.dtype:
            yield f"{fragment.name} holds {fragment.dtype}, the product {mma.dtype}"
        if fragment.cols != STEP * steps:
            yield f"{fragment.name} has {fragment.cols} columns for {steps} k steps of {STEP}"
    else:
        if len(mma.a.offsets) != steps:
            yield f"A has {len(mma.a.offsets)} k steps, B {steps}"
        if isinstance(mma.a, ir.BufferOperand):
            yield from _part_each(plan.buffer(mma.a.buffer), role)
        yield from _operand(plan, role, mma, mma.a, ROWS, "A")
    yield from _operand(plan, role, mma, mma.b, mma.n, "B")


def _operand(
    plan: ir.Plan, role: ir.RolePlan, mma: ir.AnyMma, operand: ir.SlotOperand | ir.BufferOperand, extent: int, name: str
) -> Iterator[str]:
    if isinstance(operand, ir.SlotOperand):
        buffer, apart = plan.buffer(plan.ring(operand.slot.ring).buffer), operand.warpgroup
    else:
        buffer, apart = plan.buffer(operand.buffer), 0
    if buffer.dtype != mma.dtype:
        yield f"{name}: {buffer.name} holds {buffer.dtype}, the product {mma.dtype}"
    if operand.swizzle != buffer.swizzle:
        yield f"{name}: swizzle {operand.swizzle} differs from {buffer.swizzle} of {buffer.name}"
    if operand.major not in ("k", "mn"):
        yield f'{name}: major "{operand.major}" is neither "k" nor "mn"'
        return
    for what, value in (
        ("offset", next((o for o in operand.offsets if o % 16), 0)),
        ("warpgroup offset", apart),
        ("stride", operand.stride),
        ("leading offset", operand.leading),
    ):
        if value % 16 or value < 0:
            yield f"{name}: {what} {value} is no multiple of 16"
    last = apart * (role.warpgroups - 1)
    for offset in operand.offsets:
        start, end = operand_span(operand, offset, extent, mma.dtype)
        if start < 0 or end + last > buffer.stage_bytes:
            yield (
                f"{name}: the k step at {offset} reads bytes {start} .. {end + last} of a stage of "
                f"{buffer.name}, which has {buffer.stage_bytes}"
            )
            return


def operand_span(operand: ir.SlotOperand | ir.BufferOperand, offset: int, extent: int, dtype: DType) -> tuple[int, int]:
    """The bytes of a slot or a part, [start, end), between which the k step at `offset` lies, for warpgroup 0.

    `extent`: positions along M or N. A swizzled line counts whole, since the pattern spreads a step over it.
    """
    width = operand.swizzle
    if operand.major == "k":
        groups = -(-extent // 8)
        if width:
            start = offset - offset % width
            return start, start + (groups - 1) * operand.stride + 8 * width
        return offset, offset + (groups - 1) * operand.stride + operand.leading + 128
    if width:
        blocks = -(-extent * dtype.bytes // width)
        start = offset - offset % width
        return start, start + (blocks - 1) * operand.leading + (STEP // 8 - 1) * operand.stride + 8 * width
    groups = -(-extent // 8)
    return offset, offset + (groups - 1) * operand.leading + (STEP // 8 - 1) * operand.stride + 128
