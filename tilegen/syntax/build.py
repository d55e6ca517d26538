"""From lark's parse tree to the syntax tree: one method a grammar rule, named after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from tilegen.syntax import ast
from tilegen.syntax.span import Span

Arg = ast.Ident | ast.Num
Method = Callable[[Any, Meta, list[Any]], ast.Directive]
EachMethod = Callable[[Any, Meta, list[Any]], list[ast.Directive]]


def _plain(keyword: str) -> Method:
    """A directive whose words and numbers stand in the tree as they were written, lists flattened."""

    def method(self: Builder, meta: Meta, parts: list[Any]) -> ast.Directive:
        args: list[Arg] = []
        for part in parts:
            args.extend(part if isinstance(part, tuple) else () if part is None else (part,))
        return ast.Directive(keyword, tuple(args), (), self.span(meta))

    return method


def _each(keyword: str) -> EachMethod:
    """A directive whose list is that many directives: `block i 192, j 80`."""

    def method(self: Builder, meta: Meta, parts: list[Any]) -> list[ast.Directive]:
        return [ast.Directive(keyword, (a, b), (), a.span.until(b.span)) for a, b in parts]

    return method


@v_args(meta=True)
class Builder(Transformer[Token, Any]):
    """Makes `ast.Kernel` of the parse tree of one source."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file

    # ---- places ----

    def span(self, meta: Meta) -> Span:
        return Span(self._file, meta.line, meta.column, meta.end_line, meta.end_column)

    def _ident(self, token: Token) -> ast.Ident:
        return ast.Ident(str(token), token_span(self._file, token))

    # ---- the kernel ----

    def kernel(self, meta: Meta, parts: list[Any]) -> ast.Kernel:
        name, params, *statements = parts
        return ast.Kernel(name, params or (), tuple(_flat(statements)), self.span(meta))

    def params(self, _: Meta, parts: list[ast.Param]) -> tuple[ast.Param, ...]:
        return tuple(parts)

    def param(self, meta: Meta, parts: list[Any]) -> ast.Param:
        name, *choices, default = parts
        allowed = tuple(c if isinstance(c, ast.Range) else _as_expr(c) for c in choices)
        return ast.Param(name, allowed, default and _as_expr(default), self.span(meta))

    def range(self, meta: Meta, parts: list[Any]) -> ast.Range:
        first, last, step = parts
        return ast.Range(_as_expr(first), _as_expr(last), 1 if step is None else int(step), self.span(meta))

    # ---- statements ----

    def sizes(self, _: Meta, parts: list[ast.SizeDecl]) -> list[ast.SizeDecl]:
        return parts

    def size(self, meta: Meta, parts: list[Any]) -> ast.SizeDecl:
        name, default = parts
        return ast.SizeDecl(name, None if default is None else int(default), self.span(meta))

    def input(self, meta: Meta, parts: list[Any]) -> ast.TensorDecl:
        name, dtype, dims = parts
        return ast.TensorDecl(name, dtype, dims, False, None, self.span(meta))

    def output(self, meta: Meta, parts: list[Any]) -> ast.TensorDecl:
        name, dtype, dims, otherwise = parts
        return ast.TensorDecl(name, dtype, dims, True, otherwise, self.span(meta))

    def scalar(self, meta: Meta, parts: list[Any]) -> ast.ScalarDecl:
        name, dtype, op, bound, default = parts
        return ast.ScalarDecl(name, dtype, op, bound, default, self.span(meta))

    def axes(self, _: Meta, parts: list[ast.AxisDecl]) -> list[ast.AxisDecl]:
        return parts

    def axis(self, meta: Meta, parts: list[Any]) -> ast.AxisDecl:
        return ast.AxisDecl(parts[0], parts[1], self.span(meta))

    def split(self, meta: Meta, parts: list[Any]) -> ast.SplitDecl:
        axis, outer, inner, extent = parts
        return ast.SplitDecl(axis, outer, inner, extent, self.span(meta))

    def domain(self, meta: Meta, parts: list[Any]) -> ast.DomainDecl:
        axes, condition, guard = parts
        return ast.DomainDecl(axes, condition, guard, self.span(meta))

    def ragged(self, meta: Meta, parts: list[Any]) -> ast.RaggedDecl:
        size, over, by = parts
        return ast.RaggedDecl(size, over, by, self.span(meta))

    def tile(self, meta: Meta, parts: list[Any]) -> ast.TileDecl:
        name, index, tensor, at = parts
        return ast.TileDecl(name, index, tensor, at, self.span(meta))

    def equation(self, meta: Meta, parts: list[Any]) -> ast.Equation:
        name, index, value = parts
        return ast.Equation(name, index or (), value, self.span(meta))

    def schedule(self, meta: Meta, parts: list[Any]) -> ast.ScheduleDecl:
        target, condition, *directives = parts
        return ast.ScheduleDecl(target, condition, tuple(_flat(directives)), self.span(meta))

    # ---- expressions ----

    def _chain(self, _: Meta, parts: list[Any]) -> ast.Expr:
        left: ast.Expr = parts[0]
        for op, right in zip(parts[1::2], parts[2::2], strict=True):
            left = ast.Binary(op, left, right, left.span.until(right.span))
        return left

    def expr(self, _: Meta, parts: list[Any]) -> ast.Expr:
        return _logical("or", parts)

    def conjunction(self, _: Meta, parts: list[Any]) -> ast.Expr:
        return _logical("and", parts)

    sum = _chain
    product = _chain

    def comparison(self, meta: Meta, parts: list[Any]) -> ast.Compare:
        return ast.Compare(tuple(parts[0::2]), tuple(parts[1::2]), self.span(meta))

    def not_(self, meta: Meta, parts: list[Any]) -> ast.Unary:
        return ast.Unary("not", parts[0], self.span(meta))

    def negative(self, meta: Meta, parts: list[Any]) -> ast.Expr:
        operand = parts[0]
        if isinstance(operand, ast.Num):
            return ast.Num(-operand.value, self.span(meta))
        return ast.Unary("-", operand, self.span(meta))

    def variable(self, meta: Meta, parts: list[Token]) -> ast.Var:
        return ast.Var(str(parts[0]), self.span(meta))

    def read(self, meta: Meta, parts: list[Any]) -> ast.Indexed:
        return ast.Indexed(self._ident(parts[0]), parts[1], self.span(meta))

    def call(self, meta: Meta, parts: list[Any]) -> ast.Call:
        return ast.Call(self._ident(parts[0]), parts[1], self.span(meta))

    def fold(self, meta: Meta, parts: list[Any]) -> ast.FoldCall:
        name, axes, args, extra = parts
        return ast.FoldCall(self._ident(name), axes, args, extra or (), self.span(meta))

    def _operator(self, _: Meta, parts: list[Token]) -> str:
        return str(parts[0])

    compare = _operator
    add = _operator
    multiply = _operator

    # ---- words ----

    def name(self, _: Meta, parts: list[Token]) -> ast.Ident:
        return self._ident(parts[0])

    def names(self, _: Meta, parts: list[ast.Ident]) -> tuple[ast.Ident, ...]:
        return tuple(parts)

    def exprs(self, _: Meta, parts: list[ast.Expr]) -> tuple[ast.Expr, ...]:
        return tuple(parts)

    def integer(self, meta: Meta, parts: list[Token]) -> ast.Num:
        return ast.Num(int(parts[0]), self.span(meta))

    def real(self, meta: Meta, parts: list[Token]) -> ast.Num:
        return ast.Num(float(parts[0]), self.span(meta))

    # ---- schedules ----

    def _pair(self, _: Meta, parts: list[Any]) -> tuple[Any, Any]:
        return parts[0], parts[1]

    name_count = _pair
    name_name = _pair
    hinting = _pair
    placing = _pair

    def registers_word(self, meta: Meta, _: list[Any]) -> ast.Ident:
        return ast.Ident("registers", self.span(meta))

    def stream_word(self, meta: Meta, _: list[Any]) -> ast.Ident:
        return ast.Ident("stream", self.span(meta))

    def unit(self, meta: Meta, parts: list[Token]) -> ast.Ident:
        return self._ident(parts[0])

    block = _each("block")
    stages = _each("stages")
    via = _each("via")
    hint = _each("hint")
    oob = _each("oob")
    place = _each("place")

    def sharing(self, meta: Meta, parts: list[Any]) -> ast.Directive:
        return ast.Directive("multicast", tuple(p for p in parts if p is not None), (), self.span(meta))

    def multicast(self, _: Meta, parts: list[ast.Directive]) -> list[ast.Directive]:
        return parts

    consumers = _plain("consumers")
    late = _plain("late")
    ahead = _plain("ahead")
    batch = _plain("batch")
    issue = _plain("issue")
    under = _plain("under")
    take_turns = _plain("take_turns")
    stale_max = _plain("stale_max")
    walk = _plain("walk")
    persistent = _plain("persistent")
    order = _plain("order")
    group = _plain("group")
    alias = _plain("alias")
    grid = _plain("grid")
    stream = _plain("stream")
    hold = _plain("hold")
    split_reduction = _plain("split")
    registers = _plain("registers")
    exact_max = _plain("exact_max")
    skip_rows = _plain("skip_rows")
    isolate = _plain("isolate")
    dependent_launch = _plain("dependent_launch")

    def option(self, meta: Meta, parts: list[Any]) -> ast.Directive:
        name, token = parts
        value = ast.Num(int(token), token_span(self._file, token))
        return ast.Directive("option", (name, value), (), self.span(meta))

    def outputs(self, meta: Meta, parts: list[Any]) -> ast.Directive:
        names, *body = parts
        return ast.Directive("outputs", names, tuple(_flat(body)), self.span(meta))


def token_span(file: str, token: Token) -> Span:
    """Where a token stands."""
    line, column = token.line or 1, token.column or 1
    return Span(file, line, column, token.end_line or line, token.end_column or column + 1)


def _flat(parts: Sequence[Any]) -> Iterable[Any]:
    for part in parts:
        if isinstance(part, list):
            yield from part
        else:
            yield part


def _logical(op: str, parts: list[Any]) -> ast.Expr:
    left: ast.Expr = parts[0]
    for right in parts[1:]:
        left = ast.Binary(op, left, right, left.span.until(right.span))
    return left


def _as_expr(part: ast.Ident | ast.Num) -> ast.Expr:
    return ast.Var(part.name, part.span) if isinstance(part, ast.Ident) else part
