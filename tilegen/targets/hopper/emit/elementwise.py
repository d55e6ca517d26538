"""Work on fragments: fills, maps, masks, folds along rows, relayouts. One statement and one device function an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.ir.plan import (
    Bound,
    CopyOperand,
    FmaOob,
    Fragment,
    Init,
    Map,
    Mask,
    QuadReduce,
    ReadShared,
    Relayout,
    RowFold,
    Sweep,
    WriteShared,
)
from tilegen.ir.uniform import Uniform
from tilegen.targets.hopper.emit.elements import ElementPrinter, digit
from tilegen.targets.hopper.emit.literals import literal
from tilegen.targets.hopper.emit.scope import RoleScope
from tilegen.targets.hopper.emit.tensors import geometry, load_pair

_HELPERS = {"max": "maximum", "min": "minimum"}  # macros of templates/hopper/arithmetic.j2
_NEVER = -(1 << 30)  # a column limit that keeps nothing


def init(r: RoleScope, op: Init) -> str:
    f = r.fragments[op.fragment]
    name = r.functions.specific(
        f"fill_{f.name}",
        "fill",
        out=r.functions.local("fill").give(0, f.name),
        registers=f.registers,
        value=literal(op.value),
    )
    return f"{name}({r.array(f.name)});"


def _printer(r: RoleScope, out: Fragment, kind: str) -> ElementPrinter:
    names = r.functions.local(kind)
    return ElementPrinter(out.layout, r.fragments, names, r.functions.helper, r.scalar, r.integer, r.whole)


def _given(r: RoleScope, printer: ElementPrinter) -> list[str]:
    """The arguments for what a printer has declared: arrays by what this role calls them."""
    return [r.array(a) if d.endswith("]") else a for d, a in printer.parameters]


def element_map(r: RoleScope, op: Map) -> str:
    out = r.fragments[op.out]
    printer = _printer(r, out, "map")
    target = printer.fragment(out, written=True)
    value = printer.value(op.value)
    name = r.functions.specific(
        f"map_{out.name}",
        "map",
        out=target,
        registers=out.registers,
        parameters=printer.declarations,
        before=printer.before,
        shared=printer.shared,
        value=value,
    )
    return f"{name}({', '.join(_given(r, printer))});"


def fma_oob(r: RoleScope, op: FmaOob) -> str:
    out = r.fragments[op.out]
    printer = _printer(r, out, "fma_oob")
    target = printer.fragment(out, written=True)
    pack = r.functions.specific(f"pack_{op.dtype}", "pack", type=op.dtype.value)
    a, b, c = (printer.pair(e, op.dtype, pack) for e in (op.a, op.b, op.c))
    name = r.functions.specific(
        f"fma_{out.name}",
        "fma_oob",
        out=target,
        registers=out.registers,
        parameters=printer.declarations,
        before=printer.before,
        shared=printer.shared,
        operands=f"{a}, {b}, {c}",
        type=op.dtype.value,
        convert=r.functions.helper(f"from_{op.dtype}"),
        fma=r.functions.specific(f"fma_oob_{op.dtype}", "fma_pair_oob", type=op.dtype.value),
    )
    return f"{name}({', '.join(_given(r, printer))});"


def mask(r: RoleScope, op: Mask) -> str:
    f = r.fragments[op.fragment]
    names = r.functions.local("mask")
    out = names.give("out", f.name)
    parameters, arguments = [f"float (&{out})[{f.registers}]"], [r.array(f.name)]
    limits: list[str] = []
    printer = ElementPrinter(f.layout, r.fragments, names, r.functions.helper, r.scalar, r.integer, r.whole, exact=True)

    def given(value: Uniform, wish: str) -> str:
        """The parameter that holds a uniform integer."""
        key = (wish, value)
        if key not in names:
            parameters.append(f"int {names.give(key, wish)}")
            arguments.append(r.integer(value))
        return names[key]

    def rest(bound: Bound) -> str:
        """A bound without its column."""
        if bound.row_chunks is None:
            return _plain(bound, given(bound.offset, "offset"))
        origin, length = given(bound.row_chunks.origin, "row_origin"), given(bound.row_chunks.length, "length")
        row = digit("row", bound.row_chunks.digit)
        chunk = f"{r.functions.helper('floor_div')}({origin} + {row}, {length})"
        return _plain(bound, given(bound.offset, "offset"), chunk)

    def limit(bound: Bound) -> str:
        if bound.col_chunks is None:
            return _limit(r, bound, rest(bound))
        origin, length = given(bound.col_chunks.origin, "column_origin"), given(bound.col_chunks.length, "length")
        return _chunk_limit(r, bound, rest(bound), f"({origin} + column)", length)

    # where each alternative lets an element live: the columns [begin, end) of its row, and what else must hold
    ranges: list[tuple[str, str, str]] = []
    for conditions in op.alternatives:
        conjunction = [c for c in conditions if isinstance(c, Bound)]
        others = [printer.truth(c) for c in conditions if not isinstance(c, Bound)]
        whole = [rest(b) for b in conjunction if b.col_factor == 0]
        upper = [limit(b) for b in conjunction if b.col_factor < 0]
        lower = [limit(b) for b in conjunction if b.col_factor > 0]
        end = ""
        if upper or whole:
            end = _nested("min", upper) if upper else str(-_NEVER)
            rows = " && ".join(f"{w} >= 0" for w in whole)
            end = f"{rows} ? {end} : {_NEVER}" if rows else end
        ranges.append((_nested("max", lower) if lower else "", end, " & ".join(others)))
    tests: list[str] = []
    heads = [x for x in ranges if not x[0] and not x[2]]  # they begin together: the longest says it all
    if len(heads) > 1 and all(end for _, end, _ in heads):
        longest = _nested("max", [f"({end})" if "?" in end else end for _, end, _ in heads])
        ranges = [("", longest, ""), *(x for x in ranges if x not in heads)]
    computed = any(others for _, _, others in ranges)  # in all lanes, by & and |: see `ElementPrinter.truth`
    bounded = "({})" if computed else "{}"
    for n, (begin, end, others_hold) in enumerate(ranges):
        test = []
        if end:
            limits.append(f"const int {names.give(('end', n), 'end')} = {end};")
            test.append(bounded.format(f"c < {names['end', n]}"))
        if begin:
            limits.append(f"const int {names.give(('begin', n), 'begin')} = {begin};")
            test.append(bounded.format(f"c >= {names['begin', n]}"))
        if others_hold:
            test.append(others_hold)
        tests.append((" & " if computed else " && ").join(test) or "true")
    parameters += printer.declarations
    arguments += _given(r, printer)
    limits += printer.before
    keep = tests[0] if len(tests) == 1 else (" | " if computed else " || ").join(f"({k})" for k in tests)
    name = r.functions.specific(
        f"mask_{f.name}",
        "mask",
        out=out,
        registers=f.registers,
        parameters=parameters,
        limits=limits,
        keep=keep if " " not in keep else f"({keep})",
        identity=literal(op.identity),
        first_row=r.functions.helper("first_row"),
        first_column=r.functions.helper("first_column"),
    )
    return f"{name}({', '.join(arguments)});"


def _plain(bound: Bound, offset: str, row: str = "row") -> str:
    """What a bound says of the row, or its chunk: row_factor * row + its digits + offset."""
    text = offset
    for factor, place in ((bound.row_factor, None), *bound.digits):
        if factor:
            at = digit("row", place) if place else row
            scaled = at if abs(factor) == 1 else f"{abs(factor)} * {f'({at})' if place else at}"
            text += f" {'+' if factor > 0 else '-'} {scaled}"
    return text


def _chunk_limit(r: RoleScope, bound: Bound, rest: str, at: str, length: str) -> str:
    """The same of a bound on the chunk of a column: the first column behind the last chunk, or of the first."""
    factor = bound.col_factor
    chunk = f"({rest})" if abs(factor) == 1 else f"{r.functions.helper('floor_div')}({rest}, {abs(factor)})"
    return f"({chunk} + 1) * {length} - {at}" if factor < 0 else f"-{chunk} * {length} - {at}"


def _limit(r: RoleScope, bound: Bound, rest: str) -> str:
    """The bound solved for c = column of the element less that of the thread: below this, or from this on."""
    factor = bound.col_factor
    if factor == -1:
        return f"{rest} - column + 1"
    if factor == 1:
        return f"-({rest}) - column"
    floor_div = r.functions.helper("floor_div")
    if factor < 0:
        return f"{floor_div}({rest}, {-factor}) - column + 1"
    return f"-{floor_div}({rest}, {factor}) - column"


def _nested(function: str, values: list[str]) -> str:
    text = values[0]
    for v in values[1:]:
        text = f"{function}({text}, {v})"
    return text


def row_fold(r: RoleScope, op: RowFold) -> str:
    source = r.fragments[op.source]
    names = r.functions.local("row_fold")
    name = r.functions.specific(
        f"row_{op.kind}_{source.name}",
        "row_fold",
        out=names.give("out", op.out),
        source=names.give("source", source.name),
        registers=source.registers,
        combine=_combine(r, op.kind),
        quad=_quad(r, op.kind) if op.scope == "quad" else "",
    )
    return f"{name}({r.array(op.out)}, {r.array(source.name)});"


def _combine(r: RoleScope, kind: str) -> str:
    """The function that a fold applies to two numbers."""
    return "__fadd_rn" if kind == "sum" else r.functions.helper(_HELPERS[kind])


def _quad(r: RoleScope, kind: str) -> str:
    return r.functions.specific(f"quad_{kind}", "quad_fold", combine=_combine(r, kind))


def quad_reduce(r: RoleScope, op: QuadReduce) -> str:
    name = r.functions.specific(
        f"reduce_{op.fragment}",
        "quad_reduce",
        out=r.functions.local("quad_reduce").give(0, op.fragment),
        quad=_quad(r, op.kind),
    )
    return f"{name}({r.array(op.fragment)});"


def relayout(r: RoleScope, op: Relayout) -> str:
    dtype = r.fragments[op.out].dtype
    pack = r.functions.specific(f"pack_{dtype}", "pack", type=dtype.value)
    return _to_operand(r, op, "pack", "relayout", held=r.fragments[op.source].registers, pack=pack)


def copy_operand(r: RoleScope, op: CopyOperand) -> str:
    return _to_operand(r, op, "move", "copy_operand")


def _to_operand(r: RoleScope, op: Relayout | CopyOperand, verb: str, macro: str, **more: object) -> str:
    out = r.fragments[op.out]
    names = r.functions.local(macro)
    name = r.functions.specific(
        f"{verb}_{out.name}",
        macro,
        out=names.give("out", out.name),
        source=names.give("source", op.source),
        registers=out.registers,
        **more,
    )
    return f"{name}({r.array(out.name)}, {r.array(op.source)});"


def sweep(r: RoleScope, op: Sweep) -> str:
    """One function for all operations of a sweep, four registers (eight columns of two rows) at a time."""
    names = r.functions.local("sweep")
    printer = ElementPrinter("acc", r.fragments, names, r.functions.helper, r.scalar, r.integer, r.whole)
    steps: list[dict[str, object]] = []
    registers = 0
    for o in op.body:
        if isinstance(o, Map):
            f = r.fragments[o.out]
            registers = f.registers
            value = printer.value(o.value)
            shared, printer.shared = printer.shared, []
            if f.storage:
                steps.append(
                    {"kind": "map", "out": printer.fragment(f, written=True), "value": value, "shared": shared}
                )
            else:
                here = names.give(("here", f.name), f.name)
                printer.local[f.name] = f"{here}[i]"
                steps.append({"kind": "map", "out": "", "here": here, "value": value, "shared": shared})
        elif isinstance(o, ReadShared):
            steps.append(_read(printer, r, o))
            registers = r.fragments[o.out].registers
        elif isinstance(o, WriteShared):
            steps.append(_write(printer, r, o))
        elif isinstance(o, RowFold):
            out = printer.fragment(r.fragments[o.out], written=True)
            chains = names.give(("chains", o.out), f"{o.out}_chains")
            source = _four(printer, r, o.source)
            steps.append(
                {"kind": "fold", "out": out, "chains": chains, "source": source, "combine": _combine(r, o.kind)}
            )
        else:
            packed = r.fragments[o.out]
            out = printer.fragment(packed, written=True)
            pack = r.functions.specific(f"pack_{packed.dtype}", "pack", type=packed.dtype.value)
            steps.append({"kind": "pack", "out": out, "source": _four(printer, r, o.source), "pack": pack})
    name = r.functions.specific(
        f"sweep_{op.statement or 'elements'}",
        "sweep",
        registers=registers,
        parameters=printer.declarations,
        before=printer.before,
        steps=steps,
    )
    return f"{name}({', '.join(_given(r, printer))});"


def _read(printer: ElementPrinter, r: RoleScope, op: ReadShared) -> dict[str, object]:
    """A tile's elements, four at a time: the address of the thread's first is worked out once, and what a block of
    columns adds to it changes bits that are crossed with nothing but the row."""
    buffer = r.plan.buffer(r.plan.ring(op.slot.ring).buffer)
    names, g = printer.names, geometry(r, buffer)
    tile = names.give(("tile", op.slot.ring), "tile")
    printer.parameters.append((f"unsigned {tile}", r.slot(op.slot, 0, op.row_offset * buffer.line)))
    row, column = r.functions.helper("first_row"), r.functions.helper("first_column")
    at = names.give(("at", op.slot.ring), f"{op.slot.ring}_at")

    def crossed(place: str) -> str:
        start = f"{tile} + {place} * {buffer.line} + {column}() * {buffer.dtype.bytes}"
        return f"{g['swizzle']}({start})" if g["swizzle"] else start

    half = f" + {8 * buffer.line} * half"  # 8 lines on, a swizzle's pattern is the same
    if op.digit is None:
        printer.before.append(f"const unsigned {at} = {crossed(f'{row}()')};")
    else:
        first, second = (crossed(f"({digit(r, op.digit)})") for r in (f"{row}()", f"{row}() + 8"))
        printer.before.append(f"const unsigned {at}[2] = {{{first}, {second}}};")
        at, half = f"{at}[half]", ""
    here = names.give(("here", op.out), op.slot.ring)
    printer.local[op.out] = f"{here}[i]"
    load = load_pair(r, buffer)
    return {"kind": "read", "here": here, "at": at, "half": half, "load": load, "bytes": buffer.dtype.bytes, **g}


def _write(printer: ElementPrinter, r: RoleScope, op: WriteShared) -> dict[str, object]:
    """Elements to a buffer, sixteen columns at a time. The address of the lane's matrix row is worked out once, as in
    `_read`."""
    buffer = r.plan.buffer(op.buffer)
    if buffer.dtype.bits != 16 or r.fragments[op.source].cols % 16:
        raise ValueError(f"{op.buffer}: a sweep writes 16-bit elements, sixteen columns at a time")
    names, g = printer.names, geometry(r, buffer)
    tile, at = names.give(("tile", op.buffer), op.buffer), names.give(("at", op.buffer), f"{op.buffer}_at")
    words = names.give(("words", op.buffer), f"{op.buffer}_words")
    printer.parameters.append((f"unsigned {tile}", r.part(op.buffer)))
    row, half = "(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16)", "threadIdx.x % 32 / 16 * 16"
    printer.before.append(f"const unsigned {at} = {g['swizzle']}({tile} + {row} * {buffer.line} + {half});")
    printer.before.append(f"unsigned {words}[4];")
    pack = r.functions.specific(f"pack_{buffer.dtype}", "pack", type=buffer.dtype.value)
    source, write = _four(printer, r, op.source), r.functions.helper("write_matrices")
    return {"kind": "write", "words": words, "at": at, "source": source, "pack": pack, "write": write, **g}


def _four(printer: ElementPrinter, r: RoleScope, fragment: str) -> dict[str, str]:
    """The array that holds a fragment's four elements at hand, and where they start in it."""
    if fragment in printer.local:
        return {"array": printer.local[fragment].removesuffix("[i]"), "start": ""}
    return {"array": printer.fragment(r.fragments[fragment]), "start": "4 * block + "}


STATEMENTS: dict[type, Callable[[RoleScope, Any], str]] = {
    Init: init,
    Map: element_map,
    FmaOob: fma_oob,
    Mask: mask,
    RowFold: row_fold,
    QuadReduce: quad_reduce,
    Relayout: relayout,
    CopyOperand: copy_operand,
    Sweep: sweep,
}
