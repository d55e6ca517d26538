"""One line of text for each operation of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.ir import plan as ir
from tilegen.ir.uniform import Int, Uniform, text

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "and", "or": "or"}
_INFIX |= {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def slot_text(slot: ir.Slot) -> str:
    """`ring@cursor`, `ring[part]@cursor` where the part is a constant."""
    part = "" if slot.part is None else f"[{slot.part}]"
    return f"{slot.ring}{part}@{slot.cursor}"


def element_text(expr: ir.ElementExpr, top: bool = True) -> str:
    """An element expression, infix, in parentheses unless `top`."""
    match expr:
        case ir.Element(fragment):
            return fragment
        case ir.Literal(value):
            return f"{value:g}" if float(f"{value:g}") == value or value != value else repr(value)
        case ir.Value(name):
            return name
        case ir.IntValue(value):
            return f"float({text(value)})"
        case ir.Coordinate(along, origin, digit):
            return f"{along}({text(origin)})" if digit is None else f"{digit_text(digit)}({text(origin)})"
        case ir.Place(row_factor, col_factor, offset, digits):
            return f"({_place(row_factor, col_factor, offset, digits)})"
        case ir.Past():
            return "past"
        case ir.Compute("neg", (x,)):
            return f"-{element_text(x, False)}"
        case ir.Compute("round", (x,), dtype):
            return f"{dtype}({element_text(x)})"
        case ir.Compute(op, args) if op in _INFIX and len(args) > 1:
            body = f" {_INFIX[op]} ".join(element_text(a, False) for a in args)
            return body if top else f"({body})"
        case ir.Compute(op, args):
            return f"{op}({', '.join(element_text(a) for a in args)})"


def _condition(condition: ir.Bound | ir.ElementExpr) -> str:
    return bound_text(condition) if isinstance(condition, ir.Bound) else element_text(condition, False)


def digit_text(digit: ir.Digit | None) -> str:
    """`row div 8`, `row mod 8`"""
    if digit is None:
        return "row"
    divided = f" div {digit.divide}" if digit.divide > 1 else ""
    return f"row{divided}{f' mod {digit.modulo}' if digit.modulo else ''}"


def bound_text(bound: ir.Bound) -> str:
    """`row - col + x >= 0`"""
    row, col = _counted("row", bound.row_chunks), _counted("col", bound.col_chunks)
    return f"{_place(bound.row_factor, bound.col_factor, bound.offset, bound.digits, row, col)} >= 0"


def _place(
    row_factor: int,
    col_factor: int,
    offset: Uniform,
    digits: tuple[tuple[int, ir.Digit], ...],
    row: str = "row",
    col: str = "col",
) -> str:
    parts = [_scaled(row_factor, row), _scaled(col_factor, col)]
    parts += [_scaled(factor, f"({digit_text(digit)})") for factor, digit in digits]
    constant = text(offset)
    left = " + ".join([p for p in parts if p] + ([constant] if constant != "0" else [])) or "0"
    return left.replace("+ -", "- ")


def _counted(direction: str, chunks: ir.Chunks | None) -> str:
    if chunks is None:
        return direction
    at = direction if chunks.digit is None else f"({digit_text(chunks.digit)})"
    return f"(({text(chunks.origin, False)} + {at}) div {text(chunks.length, False)})"


def operation_text(operation: ir.Operation) -> str:
    """The operation on one line; a body's operations stand on lines of their own."""
    match operation:
        case ir.Let(name, value):
            return f"let {name} = {text(value)}"
        case ir.LetFloat():
            return _let_float(operation)
        case ir.Work(index, total, mode):
            fields = f", with {', '.join(operation.fields)}" if operation.fields else ""
            return f"work {index} in {mode} < {text(total)}{fields}:"
        case ir.For(var, start, stop, _, label):
            return f"for {var} in [{text(start)}, {text(stop)}):" + (f"  # {label}" if label else "")
        case ir.If(condition):
            return f"if {text(condition)}:"
        case ir.IfVote(fragment):
            return f"if any of a warp in {fragment}:"
        case ir.IfSpoiled(ring):
            return f"if a scan of {ring} found anything:"
        case ir.Sweep():
            return "sweep:"
        case ir.SetRegisters(count, increase):
            return f"set_regs {count} {'up' if increase else 'down'}"
        case _:
            return _movement(operation) or _synchronisation(operation) or _computing(operation)


def _let_float(operation: ir.LetFloat) -> str:
    if operation.load is not None:
        tensor, index = operation.load
        exists = "" if operation.exists == Int(1) else f" if {text(operation.exists)} else 0"
        return f"let {operation.name}: f32 = {_at(tensor, index)}{exists}"
    value = "" if operation.value is None else element_text(operation.value)
    return f"let {operation.name}: f32 = {value}"


def _movement(operation: ir.Operation) -> str:
    match operation:
        case ir.TmaLoad(descriptor, coordinates, slot, offset, size):
            moved = f"{_at(descriptor, coordinates)} -> {slot_text(slot)} + {offset}, {size} bytes"
            share = f", share {operation.share} bytes apart" if operation.share else ""
            return f"tma_load {moved}{share}{_hint(operation.hint)}"
        case ir.CopyTile(tensor, index, slot, steps, col_dim, col_limit, width):
            along = f"{_rows(steps, '')}, " if steps else ""
            return (
                f"copy {_at(tensor, index)} -> {slot_text(slot)}, {along}"
                f"cols along dim {col_dim} below {text(col_limit)}, {width} bytes at once"
            )
        case ir.TmaStore(descriptor, coordinates, buffer, offset, size):
            place = f"{_staged(buffer, operation.stage)} + {offset}"
            return f"tma_store {place} -> {_at(descriptor, coordinates)}, {size} bytes{_hint(operation.hint)}"
        case ir.StoreCommit():
            return "store_commit"
        case ir.StoreWait(pending, read):
            return f"store_wait {'read' if read else 'all'}, {pending} pending"
        case ir.ReadShared(out, slot, row_offset):
            rows = "rows" if operation.digit is None else f"rows at {digit_text(operation.digit)}"
            return f"{out} := shared {slot_text(slot)}, {rows} + {row_offset} * warpgroup"
        case ir.WriteShared(buffer, source):
            piece = f" from column {operation.first}" if operation.first else ""
            return f"shared {_staged(buffer, operation.stage)} := {source}{piece}"
        case ir.LoadVector(out, tensor, index, dim, limit):
            digit = "" if operation.digit is None else f" by {digit_text(operation.digit)}"
            bounds = f"from 0 below {text(limit)}" if operation.from_below else f"below {text(limit)}"
            return f"{out} := {_at(tensor, index)} along dim {dim}{digit} {bounds}"
        case ir.StoreRows():
            whole = ", whole" if operation.whole_vectors else ""
            return (
                f"{_at(operation.tensor, operation.index)} := {operation.fragment}, "
                f"{_rows(operation.shared, f'rows along dim {operation.row_dim} below {text(operation.row_limit)}')}, "
                f"cols along dim {operation.col_dim} below {text(operation.col_limit)}, "
                f"vectors of {operation.vector}{whole}"
            )
        case ir.ScanSlot(slot):
            return f"scan {slot_text(slot)}"
        case ir.Mend():
            return (
                f"mend {operation.fragment} where {operation.live} from {_at(operation.tensor, operation.index)}, "
                f"{text(operation.count)} along dim {operation.dim}, "
                f"cols along dim {operation.col_dim} below {text(operation.col_limit)}"
            )
        case ir.StoreVector(fragment, tensor, index, dim, limit):
            return (
                f"{_at(tensor, index)} := {fragment} {_rows(operation.shared, f'along dim {dim} below {text(limit)}')}"
            )
    return ""


def _staged(buffer: str, stage: int) -> str:
    return f"{buffer}@{stage}" if stage else buffer


def _hint(how: str) -> str:
    return f", {how} in L2" if how else ""


def _rows(shared: tuple[ir.RowStep, ...], plain: str) -> str:
    """Where rows go: along one dimension, or along several."""
    if not shared:
        return plain
    return " and ".join(f"{digit_text(x.digit)} along dim {x.dim} below {text(x.limit)}" for x in shared)


def _synchronisation(operation: ir.Operation) -> str:
    match operation:
        case ir.Expect(slot, size):
            return f"expect full {slot_text(slot)}, {size} bytes"
        case ir.SignalCopies(slot, asynchronous):
            return f"signal full {slot_text(slot)}{' when copied' if asynchronous else ''}"
        case ir.WaitFull(slot):
            return f"wait full {slot_text(slot)}"
        case ir.WaitEmpty(slot):
            return f"wait empty {slot_text(slot)}"
        case ir.WaitClean(slot):
            return f"wait clean {slot_text(slot)}"
        case ir.ArriveClean(slot):
            return f"arrive clean {slot_text(slot)}"
        case ir.ArriveEmpty(slot):
            return f"arrive empty {slot_text(slot)}"
        case ir.Advance(cursor):
            return f"advance {cursor}"
        case ir.OrderWait(first_id):
            return f"order_wait barriers from {first_id}"
        case ir.OrderPass(first_id):
            return f"order_pass barriers from {first_id}"
        case ir.OrderStart(first_id):
            return f"order_start barriers from {first_id}"
        case ir.GroupSync(first_id):
            return f"group_sync barriers from {first_id}"
        case ir.FenceAsync():
            return "fence_async"
        case ir.CopyCommit():
            return "copy_commit"
        case ir.CopyWait(pending):
            return f"copy_wait {pending} pending"
        case ir.CtaSync():
            return "cta_sync"
    return ""


def _computing(operation: ir.Operation) -> str:
    match operation:
        case ir.Mma():
            zero = operation.zero
            sign = ":=" if zero is True else "+="
            where = f", := where {text(zero)}" if not isinstance(zero, bool) else ""
            return (
                f"mma {operation.token}: {operation.accumulator} {sign} {_operand(operation.a)} x "
                f"{_operand(operation.b)}, n {operation.n}, {operation.dtype}{where}"
            )
        case ir.WarpMma():
            return (
                f"warp_mma {operation.accumulator} {':=' if operation.zero else '+='} {_operand(operation.a)} x "
                f"{_operand(operation.b)}, n {operation.n}, {operation.dtype}"
            )
        case ir.MmaFence():
            return "mma_fence"
        case ir.MmaCommit(tokens):
            return f"mma_commit {{{', '.join(tokens)}}}"
        case ir.MmaWait(pending, retires):
            return f"mma_wait {pending} pending, retires {{{', '.join(retires)}}}"
        case ir.Init(fragment, value):
            return f"{fragment} := {value:g}"
        case ir.Map(out, value):
            return f"{out} := {element_text(value)}"
        case ir.FmaOob(out, a, b, c, dtype):
            return f"{out} := fma_oob({', '.join(map(element_text, (a, b, c)))}) in {dtype}"
        case ir.Mask(fragment, alternatives, identity):
            condition = " or ".join(" and ".join(_condition(b) for b in c) or "true" for c in alternatives)
            return f"mask {fragment} where {condition or 'false'}, else {identity:g}"
        case ir.RowFold(out, source, kind, scope):
            return f"{out} := {kind} over columns of {source}, by {scope}"
        case ir.QuadReduce(fragment, kind):
            return f"{fragment} := {kind} over quad of {fragment}"
        case ir.Relayout(out, source):
            return f"{out} := {source} as A operand"
        case ir.CopyOperand(out, source):
            return f"{out} := {source}"
    raise TypeError(f"no text for {type(operation).__name__}")


def _operand(operand: ir.SlotOperand | ir.FragmentOperand | ir.BufferOperand) -> str:
    if isinstance(operand, ir.FragmentOperand):
        return operand.fragment
    if isinstance(operand, ir.BufferOperand):
        where, group = f"shared {operand.buffer}", ""
    else:
        where = slot_text(operand.slot)
        group = f" + {operand.warpgroup} * warpgroup" if operand.warpgroup else ""
    return (
        f"{where}[{operand.major}-major, swizzle {operand.swizzle}, lbo {operand.leading}, "
        f"sbo {operand.stride}, at {_progression(operand.offsets)}{group}]"
    )


def _progression(values: Sequence[int]) -> str:
    """Numbers with runs of equal steps shortened: `0 .. 96 by 32, 8192 .. 8288 by 32`."""
    parts: list[str] = []
    start = 0
    while start < len(values):
        stop = start + 1
        step = values[stop] - values[start] if stop < len(values) else 0
        while stop < len(values) and values[stop] - values[stop - 1] == step:
            stop += 1
        if stop - start >= 3:
            parts.append(f"{values[start]} .. {values[stop - 1]} by {step}")
        else:
            stop = start + 1
            parts.append(str(values[start]))
        start = stop
    return ", ".join(parts)


def _at(name: str, index: tuple[Uniform, ...]) -> str:
    return f"{name}[{', '.join(text(i) for i in index)}]"


def _scaled(factor: int, name: str) -> str:
    if factor == 0:
        return ""
    if abs(factor) == 1:
        return name if factor > 0 else f"-{name}"
    return f"{factor} * {name}"
