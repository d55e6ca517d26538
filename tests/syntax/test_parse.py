"""The syntax tree says what is written, and every node where."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sema.faults import underlined
from tilegen.syntax import ast, parse
from tilegen.syntax.span import Source, Span

ROOT = Path(__file__).parents[2]
SPECS = sorted([*ROOT.glob("samples/*.tile"), *ROOT.glob("tests/specs/*.tile")])


def kernel(body: str, head: str = "kernel k") -> ast.Kernel:
    return parse(Source("spec.tile", f"{head} {{ {body} }}"))


def value(text: str) -> ast.Expr:
    (equation,) = kernel(f"x[i] = {text}").statements
    assert isinstance(equation, ast.Equation)
    return equation.value


def shape(expr: ast.Expr) -> str:
    """The tree with every operator in parentheses."""
    match expr:
        case ast.Num(number):
            return str(number)
        case ast.Var(name):
            return name
        case ast.Unary(op, operand):
            return f"({op} {shape(operand)})"
        case ast.Binary(op, left, right):
            return f"({shape(left)} {op} {shape(right)})"
        case ast.Compare(operands, ops):
            return (
                "("
                + shape(operands[0])
                + "".join(f" {o} {shape(e)}" for o, e in zip(ops, operands[1:], strict=True))
                + ")"
            )
        case ast.Indexed(name, index):
            return f"{name.name}[{', '.join(map(shape, index))}]"
        case ast.Call(name, args):
            return f"{name.name}({', '.join(map(shape, args))})"
        case ast.FoldCall(name, axes, args, extra):
            inside = "; ".join(", ".join(map(shape, part)) for part in (args, extra))
            return f"{name.name}[{', '.join(map(shape, axes))}]({inside})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a - b - c", "((a - b) - c)"),
        ("a + b * c / d", "(a + ((b * c) / d))"),
        ("-a * -2", "((- a) * -2)"),
        ("not a < b and c or d", "(((not (a < b)) and c) or d)"),
        ("a <= b < c + 1", "(a <= b < (c + 1))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("sum[d, e](x[i, d] * y; z, w)", "sum[d, e]((x[i, d] * y); z, w)"),
        ("T(1.5e-3) + 2. - tab[b, pg]", "((T(0.0015) + 2.0) - tab[b, pg])"),
    ],
)
def test_operators_bind_as_usual(text: str, tree: str) -> None:
    assert shape(value(text)) == tree


def test_line_ends_and_comments_mean_nothing() -> None:
    spread = kernel("x[i]\n=\n# a comment = 3\na[i] # more\n+ 1\ny[i] = 2")
    assert [type(s) for s in spread.statements] == [ast.Equation, ast.Equation]


def test_keywords_are_names_where_no_statement_starts() -> None:
    text = "axis size in tile, walk in block x[size] = stages[walk] + order * input y[i] = x[i]"
    axes = [s for s in kernel(text).statements if isinstance(s, ast.AxisDecl)]
    assert [a.name.name for a in axes] == ["size", "walk"]
    assert len(kernel(text).statements) == 4


def test_a_keyword_is_a_whole_word() -> None:
    (equation,) = kernel("tiles[i] = sized + inputs").statements
    assert isinstance(equation, ast.Equation)
    assert equation.name.name == "tiles"


def test_parameters_may_be_negative_and_brackets_empty() -> None:
    tree = kernel("x[] = 1", "kernel k(N: -1 | 2.5 = -1, T: bf16)")
    assert [len(p.choices) for p in tree.params] == [2, 1]
    assert tree.params[0].default == ast.Num(-1, tree.params[0].default.span)  # type: ignore[union-attr]
    assert kernel("", "kernel k()").params == ()


def test_a_range_of_values_needs_no_spaces_and_no_step() -> None:
    tree = kernel("", "kernel k(N: 32..256 by 8 | 1 .. 4 = 2.5)")
    wide, narrow = tree.params[0].choices
    assert isinstance(wide, ast.Range)
    assert isinstance(narrow, ast.Range)
    ends = [(e.value, r.step) for r in (wide, narrow) for e in (r.first, r.last) if isinstance(e, ast.Num)]
    assert ends == [(32, 8), (256, 8), (1, 1), (4, 1)]


def test_directives_keep_their_words_in_order() -> None:
    (schedule,) = kernel(
        "schedule hopper if D == 1 { block i 64, j BM consumers 2 over i group h by 32 MB under O: p, q"
        " place P registers hint k keep, q stream registers 240, 24"
        " outputs a, b { grid i } stale_max waves 4 isolate fast }"
    ).statements
    assert isinstance(schedule, ast.ScheduleDecl)
    said = [
        " ".join([d.keyword, *(a.name if isinstance(a, ast.Ident) else str(a.value) for a in d.args)])
        for d in schedule.directives
    ]
    assert said == [
        "block i 64", "block j BM", "consumers 2 i", "group h 32 MB", "under O p q", "place P registers",
        "hint k keep", "hint q stream", "registers 240 24", "outputs a b", "stale_max",
        "option waves 4", "isolate fast",
    ]  # fmt: skip
    assert [d.keyword for d in schedule.directives[9].body] == ["grid"]


def nodes(node: object) -> Iterator[object]:
    if isinstance(node, tuple):
        for part in node:
            yield from nodes(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, Span):
        yield node
        for field in dataclasses.fields(node):
            yield from nodes(getattr(node, field.name))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_node_stands_inside_its_parent(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = parse(Source(path.name, text))
    count = 0
    for node in nodes(tree):
        own = node.span  # type: ignore[attr-defined]
        for field in dataclasses.fields(node):  # type: ignore[arg-type]
            for child in nodes(getattr(node, field.name)):
                inner = child.span  # type: ignore[attr-defined]
                assert (own.line, own.column) <= (inner.line, inner.column)
                assert (inner.end_line, inner.end_column) <= (own.end_line, own.end_column)
                count += 1
        if isinstance(node, ast.Ident | ast.Var):
            assert underlined(text, own) == node.name
    assert count > 50
