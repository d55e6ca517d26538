"""MLS assembly to programs. One run reports every line that is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.dtypes import DType
from tilegen.resources import resource
from tilegen.syntax.grammar import parser
from tilegen.syntax.span import Source, Span
from tilegen.targets.mls.program import (
    SGPR,
    VGPR,
    Access,
    Argument,
    Coordinate,
    Float,
    Instruction,
    Int,
    Label,
    Line,
    Operand,
    Part,
    Program,
    Remark,
    Ring,
    Signed,
    Special,
    Target,
)
from tilegen.targets.mls.verify import verify

_COMMENT = re.compile(r"@(\d+)(?: \| (.*))?$")
_SPECIAL = frozenset({"m0", "vcc", "exec", "off"})
_SINGLE = ("kernel", "source", "waves", "lds", "sgprs", "vgprs")


@dataclass(frozen=True)
class _Setting:
    """A directive that stands once."""

    name: str
    value: str | int


_Parsed: TypeAlias = "_Setting | Argument | Ring | Line"


class _LineError(Exception):
    """A line that no program may hold, and what is wrong with it."""

    def __init__(self, what: str, column: int = 1, end: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.column = column
        self.end = end


def parse(source: Source) -> Program:
    """The program of a text. Raises TilegenError with all faults of its lines, or else all of the program."""
    settings: dict[str, _Setting] = {}
    arguments: list[Argument] = []
    rings: list[Ring] = []
    lines: list[Line] = []
    numbers: list[int] = []
    errors: list[Diagnostic] = []
    for number, text in enumerate(source.text.split("\n"), start=1):
        if not text.strip():
            continue
        try:
            found = parse_line(text)
            match found:
                case _Setting():
                    if found.name in settings:
                        raise _LineError(f"`.{found.name}` stands here for the second time")
                    settings[found.name] = found
                case Argument():
                    arguments.append(found)
                case Ring():
                    rings.append(found)
                case _:
                    lines.append(found)
                    numbers.append(number)
                    continue
            if lines:
                raise _LineError("a directive stands before all instructions")
        except _LineError as error:
            errors.append(_fault(source, number, error))
    missing = [name for name in _SINGLE if name not in settings]
    if missing and not errors:
        end = source.text.count("\n") + 1
        errors.append(_fault(source, end, _LineError(f"the text has no line `.{missing[0]}`")))
    if errors:
        raise TilegenError(tuple(errors))
    value: dict[str, Any] = {name: s.value for name, s in settings.items()}
    program = Program(
        value["kernel"], value["source"], value["waves"], value["lds"], value["sgprs"], value["vgprs"],
        tuple(arguments), tuple(rings), tuple(lines),
    )  # fmt: skip
    errors = verify(program, [line_span(source, n) for n in numbers])
    if errors:
        raise TilegenError(tuple(errors))
    return program


def line_span(source: Source, number: int) -> Span:
    """Line `number` from its first visible character to its comment."""
    text = source.line(number)
    body = text.split(";")[0].rstrip() or text
    start = len(body) - len(body.lstrip()) + 1
    return Span(source.name, number, start, number, max(len(body) + 1, start + 1))


@lru_cache(maxsize=1 << 14)
def parse_line(text: str) -> _Parsed:
    """What one line holds. Raises _LineError."""
    try:
        tree = _parser().parse(text)
        parsed: _Parsed = _Builder().transform(tree)
    except UnexpectedInput as error:
        column = error.column if error.column > 0 else len(text.rstrip()) + 1
        if isinstance(error, UnexpectedToken) and error.token.type != "$END":
            raise _LineError(f"`{error.token}` cannot stand here", column, column + len(error.token)) from None
        if isinstance(error, UnexpectedToken):
            raise _LineError("the line ends too early", len(text.rstrip()), len(text.rstrip()) + 1) from None
        raise _LineError(f"`{text[column - 1 : column]}` cannot stand here", column, column + 1) from None
    except VisitError as error:
        if isinstance(error.orig_exc, _LineError):
            raise error.orig_exc from None
        raise
    return parsed


@cache
def _parser() -> Lark:
    return parser(resource("grammar", "mls.lark").read_text(encoding="utf-8"), "line")


def _fault(source: Source, number: int, error: _LineError) -> Diagnostic:
    span = Span(source.name, number, max(error.column, 1), number, max(error.end, error.column + 1))
    return fault(Code.MLS_SYNTAX, span, what=error.what)


class _Builder(Transformer[Token, Any]):
    """Lark's tree of a line to what it holds."""

    # ---- directives ----

    def kernel(self, items: list[Token]) -> _Setting:
        return _Setting("kernel", str(items[0]))

    def source(self, items: list[Token]) -> _Setting:
        return _Setting("source", str(items[0]).strip())

    def waves(self, items: list[Token]) -> _Setting:
        return _Setting("waves", _number(items[0]))

    def lds(self, items: list[Token]) -> _Setting:
        return _Setting("lds", _number(items[0]))

    def sgprs(self, items: list[Token]) -> _Setting:
        return _Setting("sgprs", _number(items[0]))

    def vgprs(self, items: list[Token]) -> _Setting:
        return _Setting("vgprs", _number(items[0]))

    def argument(self, items: list[Any]) -> Argument:
        offset, name, kind, dtype, rank = items
        if kind not in ("input", "output", "i32", "i64", "f32"):
            raise _word(kind, "input, output, i32, i64 or f32")
        if (kind in ("input", "output")) != (dtype is not None):
            raise _word(kind, f"`{kind} f32[2]`" if dtype is None else f"`{kind}` alone")
        if dtype is None:
            return Argument(_number(offset), str(name), str(kind))
        return Argument(_number(offset), str(name), str(kind), _dtype(dtype), _number(rank))

    def ring(self, items: list[Token]) -> Ring:
        tile, dtype, base, slots, size = items
        return Ring(str(tile), _dtype(dtype), _number(base), _number(slots), _number(size))

    # ---- lines ----

    def label(self, items: list[Any]) -> Label:
        if items[1] is not None:
            raise _LineError("a comment stands beside an instruction or on a line of its own", items[1].column or 1)
        return Label(str(items[0]))

    def remark(self, items: list[Token]) -> Remark:
        return Remark(str(items[0])[1:].strip())

    def instruction(self, items: list[Any]) -> Instruction:
        name, rest, access, comment = items
        operands, modifiers, words = rest or ((), (), ())
        line, text = _comment(comment)
        return Instruction(str(name), operands, modifiers, words, access, text, line)

    def bare(self, items: list[Any]) -> Instruction:
        name, *modifiers, comment = items
        line, text = _comment(comment)
        return Instruction(str(name), (), tuple(modifiers), (), None, text, line)

    def operands(self, items: list[Any]) -> tuple[tuple[Operand, ...], tuple[tuple[str, int], ...], tuple[str, ...]]:
        modifiers = tuple(i for i in items if isinstance(i, tuple))
        words = tuple(i for i in items if isinstance(i, str))
        return tuple(i for i in items if not isinstance(i, (tuple, str))), modifiers, words

    def modifier(self, items: list[Token]) -> tuple[str, int]:
        return str(items[0]), _number(items[1])

    def word(self, items: list[Token]) -> str:
        return str(items[0])

    # ---- operands ----

    def register(self, items: list[Token]) -> SGPR | VGPR:
        token = items[0]
        kind = SGPR if token.type.startswith("S") else VGPR
        first, *last = map(int, re.findall(r"\d+", token))
        if not last:
            return kind(first)
        if last[0] <= first:
            raise _word(token, "a range of two registers or more, the lower one first")
        return kind(first, last[0] - first + 1)

    def negative(self, items: list[SGPR | VGPR]) -> Signed:
        return Signed(items[0], negative=True)

    def magnitude(self, items: list[SGPR | VGPR]) -> Signed:
        return Signed(items[0], magnitude=True)

    def negative_magnitude(self, items: list[SGPR | VGPR]) -> Signed:
        return Signed(items[0], negative=True, magnitude=True)

    def integer(self, items: list[Token]) -> Int:
        value = _number(items[0])
        if not -(1 << 31) <= value < 1 << 32:
            raise _word(items[0], "a number of 32 bits")
        return Int(value)

    def real(self, items: list[Token]) -> Float:
        with np.errstate(over="ignore"):
            value = float(np.float32(items[0]))
        if not np.isfinite(value):
            raise _word(items[0], "a number that f32 holds; infinities are written as patterns, 0x7f800000")
        return Float(value)

    def name(self, items: list[Token]) -> Special | Target:
        text = str(items[0])
        return Special(text) if text in _SPECIAL else Target(text)

    # ---- accesses ----

    def access(self, items: list[Any]) -> Access:
        tile, tensor, *coordinates = items
        if tensor is None:
            return Access(str(tile))
        return Access(str(tile), str(tensor), tuple(coordinates))

    def coordinate(self, items: list[Any]) -> Coordinate:
        *terms, limit = items
        parts = tuple(t for t in terms if isinstance(t, Part))
        constant = sum(t for t in terms if isinstance(t, int))
        match limit:
            case VGPR():
                raise _LineError("a limit is an SGPR or a number")
            case Int(value):
                return Coordinate(parts, constant, value)
        return Coordinate(parts, constant, limit)

    def part(self, items: list[Any]) -> Part:
        factor, of, divide, divisor = items
        if isinstance(of, Target | Special):
            of = of.label if isinstance(of, Target) else of.name
            if of not in ("line", "run"):
                raise _LineError(f"`{of}` is no register, nor `line` or `run`")
        rest = divide is not None and str(divide) == "%"
        amount = 1 if divisor is None else _number(divisor)
        if amount < 1:
            raise _word(divisor, "a positive divisor")
        return Part(of, 1 if factor is None else _number(factor), amount, rest)

    def constant(self, items: list[Token]) -> int:
        return _number(items[0])

    def divide(self, items: list[Token]) -> Token:
        return items[0]


def _comment(token: Token | None) -> tuple[int, str]:
    """Line of the spec and text of a comment."""
    text = "" if token is None else str(token)[1:].strip()
    match = _COMMENT.match(text)
    return (int(match[1]), match[2] or "") if match else (0, text)


def _number(token: Token) -> int:
    return int(token, 0) if "0x" in token else int(token)


def _dtype(token: Token) -> DType:
    try:
        return DType(str(token))
    except ValueError:
        raise _word(token, "an element type: bf16, f16, f32, i32 or bool") from None


def _word(token: Token, wanted: str) -> _LineError:
    column = token.column or 1
    return _LineError(f"`{token}` cannot stand here: wanted {wanted}", column, column + len(token))
