"""Tile programs as text: a `.tile` file with its parameters bound, every axis declared and equations in order.

What is printed can be read again and gives the same program, places aside.
"""

from __future__ import annotations

import math
import re

from tilegen.ir import schedule as sched
from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree, Named
from tilegen.ir.tile import (
    Affine,
    Apply,
    Cast,
    Clause,
    Definition,
    Expr,
    Fold,
    Index,
    Lookup,
    Move,
    Number,
    ParamValue,
    Position,
    Read,
    Scalar,
    Symbol,
    Tensor,
    TileProgram,
)
from tilegen.ir.uniform import condition_text

# operator and how tightly it binds; a child that binds less tightly is put in parentheses
_INFIX = {
    "or": ("or", 1), "and": ("and", 2),
    "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4), "eq": ("==", 4), "ne": ("!=", 4),
    "add": ("+", 5), "sub": ("-", 5), "mul": ("*", 6), "div": ("/", 6), "div_rn": ("/", 6),
}  # fmt: skip
_PREFIX = {"not": ("not ", 3), "neg": ("-", 7)}
_ATOM = 8


def print_program(program: TileProgram) -> str:
    """The program as text, the same for equal programs."""
    tree = AxisTree(program.axes)
    params = ", ".join(f"{name} = {_param(value)}" for name, value in program.params)
    lines = [f"kernel {program.name} {{" + (f"  # {params}" if params else "")]
    body = [
        *([f"size {', '.join(_size(s.name, s.default) for s in program.sizes)}"] if program.sizes else []),
        *(_tensor(t) for t in program.tensors),
        *(_scalar(s) for s in program.scalars),
        *(f"axis {a.name} in {a.extent}" for a in program.axes if not _is_part(program, a.name)),
        *(_split(program, a.name) for a in program.axes if a.split),
        *(f"ragged {r.size} over {r.over} by {r.by}" for r in program.ragged),
        *(_clause(c) for c in program.domain),
        *(_move(m, tree) for m in program.moves),
        *(_definition(d, tree) for d in program.definitions),
    ]
    lines += [f"  {line}" for line in body]
    for schedule in program.schedules:
        condition = f" if {condition_text(schedule.guard)}" if schedule.guard else ""
        lines += [f"  schedule {schedule.target}{condition} {{", *_directives(schedule.directives, "    "), "  }"]
    return "\n".join([*lines, "}", ""])


# ---- declarations --------------------------------------------------------------------------------


def _param(value: ParamValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _size(name: str, default: int | None) -> str:
    return name if default is None else f"{name} = {default}"


def _tensor(tensor: Tensor) -> str:
    kind = "output" if tensor.output else "input"
    otherwise = "" if tensor.otherwise is None else f" else {_number(tensor.otherwise)}"
    return f"{kind} {tensor.name}: {tensor.dtype}[{_dims(tensor.dims)}]{otherwise}"


def _dims(dims: tuple[Poly, ...]) -> str:
    return ", ".join(str(d) for d in dims)


def _scalar(scalar: Scalar) -> str:
    constraint = f" {scalar.constraint.op} {_number(scalar.constraint.bound)}" if scalar.constraint else ""
    default = f" = {expr_text(scalar.default)}" if scalar.default else ""
    return f"scalar {scalar.name}: {scalar.dtype}{constraint}{default}"


def _is_part(program: TileProgram, name: str) -> bool:
    return any(a.split and name in (a.split.outer, a.split.inner) for a in program.axes)


def _split(program: TileProgram, name: str) -> str:
    split = program.axis(name).split
    assert split is not None
    return f"split {name} into {split.outer}, {split.inner} by {program.axis(split.inner).extent}"


def _clause(clause: Clause) -> str:
    groups = [" and ".join(_conjunct(c, len(group) > 1) for c in group) for group in clause.alternatives]
    written = set(re.findall(r"\w+", " ".join(groups)))
    # an axis that cancelled out still says where the clause counts
    groups[0] += "".join(f" and 0 * {axis} >= 0" for axis in clause.axes if axis not in written)
    guard = clause.guard
    condition = f" if {guard.left} {guard.op} {guard.right}" if guard else ""
    return f"domain {', '.join(clause.axes)}: {' or '.join(groups)}{condition}"


def _conjunct(member: Affine | Expr, joined: bool) -> str:
    if isinstance(member, Affine):
        return f"{affine_text(member)} >= 0"
    return _within(member, _INFIX["and"][1] + 1 if joined else _INFIX["or"][1] + 1)


def _move(move: Move, tree: AxisTree) -> str:
    at = ", ".join(index_text(i) for i in move.at)
    return f"tile {move.name}[{', '.join(move.index)}] = {move.tensor}[{at}]{_facts(move, tree)}"


def _definition(definition: Definition, tree: AxisTree) -> str:
    left = f"{definition.name}[{', '.join(definition.index)}]"
    return f"{left} = {expr_text(definition.value)}{_facts(definition, tree)}"


def _facts(node: Move | Definition, tree: AxisTree) -> str:
    """What the front end worked out, as a comment."""
    carried = Named.of(node, tree).carried
    return f"  # {node.dtype}" + (f", carries {', '.join(carried)}" if carried else "")


# ---- expressions ---------------------------------------------------------------------------------


def affine_text(value: Affine) -> str:
    """`2 * i - j + Sk - Sq`."""
    text = ""
    for axis, coefficient in value.terms:
        magnitude = axis if abs(coefficient) == 1 else f"{abs(coefficient)} * {axis}"
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {magnitude}" if text else (f"-{magnitude}" if coefficient < 0 else magnitude)
    if value.offset.terms or not text:
        offset = str(value.offset)
        if not text:
            return offset
        text += f" - {offset[1:]}" if offset.startswith("-") else f" + {offset}"
    return text


def index_text(index: Index) -> str:
    """One dimension of an index."""
    match index:
        case Affine():
            return affine_text(index)
        case Lookup(table, inner):
            return f"{table}[{', '.join(affine_text(a) for a in inner)}]"


def expr_text(expr: Expr) -> str:
    """An expression as a `.tile` file writes it."""
    return _expr(expr)[0]


def _expr(expr: Expr) -> tuple[str, int]:
    """The text and how tightly it binds."""
    match expr:
        case Number(value, dtype):
            if dtype is DType.BOOL:
                return ("true" if value else "false"), _ATOM
            return _literal(value, dtype), _ATOM if value >= 0 else _PREFIX["neg"][1]
        case Symbol(name) | Position(name):
            return name, _ATOM
        case Read(name, index):
            return f"{name}[{', '.join(index_text(i) for i in index)}]", _ATOM
        case Apply(op, (left, right)) if op in _INFIX:
            sign, level = _INFIX[op]
            # comparisons do not chain here; - and / are not associative
            tighter = level if op in ("or", "and", "add", "sub", "mul", "div", "div_rn") else level + 1
            return f"{_within(left, tighter)} {sign} {_within(right, level + 1)}", level
        case Apply(op, (operand,)) if op in _PREFIX:
            sign, level = _PREFIX[op]
            return f"{sign}{_within(operand, level)}", level
        case Apply(op, args):
            return f"{op}({', '.join(expr_text(a) for a in args)})", _ATOM
        case Cast(value, dtype):
            return f"{dtype}({expr_text(value)})", _ATOM
        case Fold(kind, axes, args, extra):
            behind = f"; {', '.join(expr_text(e) for e in extra)}" if extra else ""
            return f"{kind}[{', '.join(axes)}]({', '.join(expr_text(a) for a in args)}{behind})", _ATOM


def _within(expr: Expr, level: int) -> str:
    text, own = _expr(expr)
    return text if own >= level else f"({text})"


def _literal(value: float, dtype: DType) -> str:
    if dtype is DType.I32:
        return str(int(value))
    return _number(value) if math.isinf(value) else repr(float(value))


def _number(value: float) -> str:
    """A constant without a type of its own: `0`, `0.5`, `-inf`."""
    return str(int(value)) if value == int(value if math.isfinite(value) else 0) else repr(float(value))


# ---- schedules -----------------------------------------------------------------------------------


def _directives(directives: tuple[sched.Directive, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for directive in directives:
        if isinstance(directive, sched.Outputs):
            names = ", ".join(directive.names)
            lines += [f"{indent}outputs {names} {{", *_directives(directive.directives, indent + "  "), indent + "}"]
        else:
            lines.append(indent + directive_text(directive))
    return lines


def directive_text(directive: sched.Directive) -> str:
    """One directive as a schedule writes it."""
    match directive:
        case sched.Block(axis, extent):
            return f"block {axis} {extent}"
        case sched.Consumers(count, axes):
            return f"consumers {count} over {', '.join(axes)}"
        case sched.Stages(tile, depth):
            return f"stages {tile} {depth}"
        case sched.Late(name, distance):
            return f"late {name} by {distance}"
        case sched.Ahead(name, distance):
            return f"ahead {name} by {distance}"
        case sched.Batch(names):
            return f"batch {', '.join(names)}"
        case sched.Issue(names):
            return f"issue {', '.join(names)}"
        case sched.Under(product, names):
            return f"under {product}: {', '.join(names)}"
        case sched.TakeTurns(names):
            return f"take_turns over {', '.join(names)}"
        case sched.StaleMax():
            return "stale_max"
        case sched.Walk(axis, direction):
            return f"walk {axis} {direction}"
        case sched.Persistent(mode):
            return f"persistent {mode}"
        case sched.Order(names):
            return f"order {', '.join(names)}"
        case sched.Group(axis, None, count):
            return f"group {axis} by {count}"
        case sched.Group(axis, size, _):
            assert size is not None
            return f"group {axis} by {size >> 20} MB" if size % (1 << 20) == 0 else f"group {axis} by {size >> 10} KB"
        case sched.Alias(buffer, host):
            return f"alias {buffer}, {host}"
        case sched.Role(role, axes):
            return f"{role} {', '.join(axes)}"
        case sched.SplitReduction(axis, parts):
            return f"split {axis} by {parts}"
        case sched.Via(tile, mover):
            return f"via {tile} {mover}"
        case sched.Hint(name, how):
            return f"hint {name} {how}"
        case sched.Oob(tile, fill):
            return f"oob {tile} {fill}"
        case sched.Multicast(tile, axis, count):
            return f"multicast {tile} over {axis} by {count}"
        case sched.Place(name, where):
            return f"place {name} {where}"
        case sched.Registers(consumer, producer):
            return f"registers {consumer}, {producer}"
        case sched.Option(name, value):
            return name if value is None else f"{name} {value}"
        case sched.Outputs(names):
            return f"outputs {', '.join(names)} {{ {' '.join(directive_text(d) for d in directive.directives)} }}"
