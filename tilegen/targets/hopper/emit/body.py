"""The code of one role: its declarations, then its operations, bodies inside bodies."""

from __future__ import annotations

import re
from dataclasses import replace

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    WARPS,
    For,
    If,
    IfSpoiled,
    IfVote,
    ItemTable,
    Let,
    LetFloat,
    Operation,
    SetRegisters,
    WarpMma,
    Work,
)
from tilegen.ir.plan_rules.roles import WHOLE
from tilegen.ir.uniform import Int
from tilegen.targets.hopper.emit import copies, elementwise, products, synchronisation, tensors, warp_products
from tilegen.targets.hopper.emit.elements import ElementPrinter, element_type
from tilegen.targets.hopper.emit.lines import Line, inside
from tilegen.targets.hopper.emit.scope import PRIORITY, RoleScope

_STATEMENTS = {
    **synchronisation.STATEMENTS,
    **products.STATEMENTS,
    **warp_products.STATEMENTS,
    **elementwise.STATEMENTS,
    **tensors.STATEMENTS,
    **copies.STATEMENTS,
}


def role_code(r: RoleScope, group: str, warp: str) -> list[Line]:
    """The statements of a role. `group`, `warp`: the variables that hold this thread's warpgroup and warp."""
    body = r.role.body
    head = 0
    while head < len(body) and isinstance(body[head], SetRegisters):
        head += 1
    registers = _body(r, body[:head])
    rest = _body(r, body[head:])
    declared = _declarations(r, rest, group)
    if r.role.warps is not None:
        condition = f"if ({_warps(r, warp)}) {{"
        return [*registers, Line(condition), *inside([*declared, *rest]), Line("}")]
    if not r.role.elected:
        return [*registers, *declared, *rest]
    elect = r.functions.helper("elect_one")
    condition = f"if ({warp} == {WARPS * r.role.first} && {elect}()) {{"
    return [*registers, Line(condition), *inside([*declared, *rest]), Line("}")]


def _warps(r: RoleScope, warp: str) -> str:
    """Whether this warp is one of the role's, in a warpgroup that is."""
    first, count = r.role.warps_of_group
    start = WARPS * r.role.first + first
    reaches = [f"{warp} >= {start}"] if first else []
    reaches += [f"{warp} < {start + count}"] if first + count < WARPS else []
    return " && ".join(reaches)


def _declarations(r: RoleScope, code: list[Line], group: str) -> list[Line]:
    """Variables that the code names: the own index, cursors, fragments."""
    used = set(re.findall(r"\w+", " ".join(line.text for line in code)))
    out: list[Line] = []
    own = "0" if r.role.thread_groups == 1 else f"{group} - {r.role.first}" if r.role.first else group
    for part in r.each():
        if part.warpgroup in used:
            value = own if part.one is None else _sum(r.role.together, own, part.one)
            out.append(Line(f"const int {part.warpgroup} = {value};"))
    for cursor in r.role.cursors:
        names = [n for n in r.cursor(cursor.name) if n in used]
        if names:
            out.append(Line(f"int {', '.join(f'{n} = 0' for n in names)};"))
    for hint, priority in PRIORITY.items():
        if ("policy", hint) in r.names:
            make = r.functions.specific(f"l2_{priority}", "l2_policy", priority=priority)
            out.append(Line(f"const unsigned long long {r.policy(hint)} = {make}();"))
    for f in r.role.fragments:
        arrays = [part.array(f.name) for part in r.each()] if f.storage == f.name else []
        out += [Line(f"{element_type(f)} {a}[{f.registers}];", f.span) for a in arrays if a in used]
    return out


def _sum(factor: int, group: str, part: int) -> str:
    """factor * group + part, in which a group of 0 is left out."""
    if group == "0":
        return str(part)
    factored = f"{factor} * ({group})" if " " in group else f"{factor} * {group}"
    return f"{factored} + {part}" if part else factored


def _body(r: RoleScope, body: tuple[Operation, ...]) -> list[Line]:
    out: list[Line] = []
    for o in body:
        if isinstance(o, IfVote):
            out += [line for part in r.each() for line in _vote(part, o)]
        elif isinstance(o, Work | For | If | IfSpoiled):
            out += _block(r, o)
        elif isinstance(o, Let):
            value = r.integer(o.value)
            natural = r.integers.is_natural(o.value)
            out.append(Line(f"const int {r.names.give(('symbol', o.name), o.name)} = {value};", o.span))
            if natural:
                r = replace(r, integers=r.integers.with_natural(o.name))
        elif isinstance(o, LetFloat):
            value = _float_value(r, o)
            kind = "int" if o.name in r.whole else "float"
            out.append(Line(f"const {kind} {r.names.give(('symbol', o.name), o.name)} = {value};", o.span))
        else:
            whole = isinstance(o, (*WHOLE, WarpMma)) or r.one is not None
            statements = (_STATEMENTS[type(o)](part, o) for part in ((r,) if whole else r.each()))
            out += [Line(statement, o.span) for statement in statements if statement]
    return out


def _vote(r: RoleScope, o: IfVote) -> list[Line]:
    condition = f"{r.functions.helper('vote')}({r.array(o.fragment)})"
    return [Line(f"if ({condition}) {{", o.span), *inside(_body(r, o.body)), Line("}")]


def _block(r: RoleScope, o: Work | For | If | IfSpoiled) -> list[Line]:
    if isinstance(o, IfSpoiled):
        condition = f"{r.functions.helper('is_spoiled')}({r.names['flag', o.ring]})"
        return [Line(f"if ({condition}) {{", o.span), *inside(_body(r, o.body)), Line("}")]
    if isinstance(o, If):
        return [Line(f"if ({r.integer(o.condition)}) {{", o.span), *inside(_body(r, o.body)), Line("}")]
    if isinstance(o, Work):
        index = r.names.give(("symbol", o.index), o.index)
        if o.mode == "table":
            return _table_loop(r, o, index)
        body = inside(_body(replace(r, integers=r.integers.with_natural(o.index)), o.body))
        among = f" / {r.plan.cluster}" if r.plan.cluster > 1 else ""
        if o.mode == "single":
            return [Line("{", o.span), Line(f"const int {index} = blockIdx.x{among};", o.span, 1), *body, Line("}")]
        steps = f"int {index} = blockIdx.x{among}; {index} < {r.integers.term(o.total)}; {index} += gridDim.x{among}"
        return [Line("#pragma unroll 1"), Line(f"for ({steps}) {{", o.span), *body, Line("}")]
    var = r.names.give(("symbol", o.var), o.var)
    start, stop = r.integer(o.start), r.integers.term(o.stop)
    inner = replace(r, integers=r.integers.with_natural(o.var)) if r.integers.is_natural(o.start) else r
    return [
        *([Line(f"// {o.label}")] if o.label else []),
        Line("#pragma unroll 1"),
        Line(f"for (int {var} = {start}; {var} < {stop}; ++{var}) {{", o.span),
        *inside(_body(inner, o.body)),
        Line("}"),
    ]


def _is_natural(r: RoleScope, table: ItemTable, field: str) -> bool:
    """Whether a field of the table is never negative."""
    known = r.integers.with_natural(table.item)
    q = table.sequences
    if q is not None:
        lengths = [name for x in q.lengths for name in (x.start, x.length)]
        known = known.with_natural(q.all_units, q.position, q.unit, *lengths)
    for let in (*(q.ranking if q else ()), *table.lets):
        if known.is_natural(let.value):
            known = known.with_natural(let.name)
    return field in known.natural


def _table_loop(r: RoleScope, o: Work, index: str) -> list[Line]:
    """Rows of the table are read 16 bytes at a time, those that the role uses, and brought near one item ahead: into
    the cache, as they would take up registers for all of an item."""
    table = r.plan.table
    assert table is not None
    names = [index, *(r.names.give(("symbol", f), f) for f in o.fields)]
    places = [0, *(1 + table.fields.index(f) for f in o.fields)]
    pieces = sorted({p // 4 for p in places})
    entry = r.names.give(("table entry",), "entry")
    rows = {n: r.names.give(("table row", n), f"row_{n}" if len(pieces) > 1 else "row") for n in pieces}
    width = table.width // 4
    step = f"{width} * gridDim.x" if width > 1 else "gridDim.x"
    first = f"{width} * blockIdx.x" if width > 1 else "blockIdx.x"
    words = [f"{rows[p // 4]}.{'xyzw'[p % 4]}" for p in places]
    if not r.role.elected:  # the same for all threads: said once, so that what follows is uniform
        words = [f"{r.functions.helper('uniform')}({w})" for w in words]
    natural = r.integers.with_natural(o.index, *(f for f in o.fields if _is_natural(r, table, f)))

    def at(piece: int) -> str:
        return f"{entry} + {piece}" if piece else entry

    reads = ", ".join(f"{row} = __ldg({at(n)})" for n, row in rows.items())
    near = r.functions.helper("prefetch_l1")
    return [
        Line(f"const int4* {entry} = (const int4*){r.names['table',]} + {first};", o.span),
        Line("#pragma unroll 1"),
        Line("for (;;) {", o.span),
        Line(f"const int4 {reads};", o.span, 1),
        *(Line(f"const int {n} = {x};", o.span, 1) for n, x in zip(names, words, strict=True)),
        Line(f"if ({index} >= {r.integers.term(o.total)}) break;", o.span, 1),
        Line(f"{entry} += {step};", o.span, 1),
        *(Line(f"{near}({at(n)});", o.span, 1) for n in dict.fromkeys((pieces[0], pieces[-1]))),
        *inside(_body(replace(r, integers=natural), o.body)),
        Line("}"),
    ]


def _float_value(r: RoleScope, o: LetFloat) -> str:
    if o.load is not None:
        tensor, index = o.load
        load = f"__ldg({r.element(tensor, index)})"
        dtype = r.plan.tensor(tensor).dtype
        if dtype in (DType.BF16, DType.F16):
            load = f"{r.functions.helper(f'from_{dtype}')}({load})"
        elif dtype is not DType.F32 and o.name not in r.whole:
            load = f"(float){load}"
        if o.exists == Int(1):
            return load
        return f"{r.integers.factor(o.exists)} ? {load} : {'0' if o.name in r.whole else '0.0f'}"
    if o.value is None:
        raise ValueError(f"{o.name}: a float is bound to a value or to a load")
    return ElementPrinter("", {}, r.functions.local(), r.functions.helper, r.scalar, r.integer, r.whole).value(o.value)
