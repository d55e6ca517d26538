"""Element expressions: operations, their numbers of arguments, and layouts that can be read together."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir

# Arguments of each operation of ir.Compute.
ARITY = {
    **dict.fromkeys(
        ("neg", "ex2", "lg2", "rcp", "sqrt", "rsqrt", "tanh", "tanh_approx", "erf", "abs", "floor", "not", "round"), 1
    ),
    **dict.fromkeys(("add", "sub", "mul", "div", "div_rn", "min", "max", "pow", "and", "or", "ratio"), 2),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), 2),
    **dict.fromkeys(("fma", "select"), 3),
}

# What each layout can read, element by element.
READABLE = {"acc": ("acc", "row", "col"), "row": ("row",), "col": ("col",), "a": (), "pair": ()}


def check_expression(expr: ir.ElementExpr, role: ir.RolePlan, out: ir.Fragment | None) -> Iterator[str]:
    """Breaches in an expression over the layout of `out`; None: a uniform float, in which no fragment may stand."""
    match expr:
        case ir.Element(name):
            fragment = next(f for f in role.fragments if f.name == name)
            if out is None:
                yield f"fragment {name} in a uniform value"
            elif fragment.layout not in READABLE[out.layout]:
                yield f"{name} of layout {fragment.layout} cannot be read into {out.name} of layout {out.layout}"
            elif fragment.layout != "row" and fragment.cols != out.cols:
                yield f"{name} has {fragment.cols} columns, {out.name} {out.cols}"
        case ir.Coordinate(along):
            if along not in ("row", "col"):
                yield f'coordinate along "{along}", which is neither "row" nor "col"'
            elif out is None:
                yield "a coordinate of an element in a uniform value"
            elif out.layout in ("row", "col") and out.layout != along:
                yield f"{out.name} has no {along}s"
        case ir.Place() | ir.Past():
            kind = type(expr).__name__.lower()
            if out is None or out.layout not in (("acc", "row") if kind == "place" else ("acc",)):
                yield f"a {kind} in {'a uniform value' if out is None else f'{out.name} of layout {out.layout}'}"
        case ir.Compute(op, args, dtype):
            if op not in ARITY:
                yield f'no operation "{op}"'
            elif len(args) != ARITY[op]:
                yield f"{op} takes {ARITY[op]} arguments, not {len(args)}"
            if (op == "round") != (dtype is not None):
                yield "a type is given to round, and to nothing else"
            for arg in args:
                yield from check_expression(arg, role, out)
