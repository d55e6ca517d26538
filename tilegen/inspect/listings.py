"""The texts of a kernel side by side: spec, plan, CUDA, PTX and SASS, and which of their lines belong together.

A line of the spec and one of the CUDA text's own are named by their numbers, `s16` and `c45`. What the compiler made
of them names, for each instruction, a line and where that was inlined: its *site*, `m3`. Plan and CUDA text name the
spec's lines themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.inspect.places import with_true_places
from tilegen.inspect.ptx import ptx_lines
from tilegen.inspect.statements import moves_and_equations
from tilegen.ir.plan import Plan
from tilegen.ir.plan_text import plan_lines
from tilegen.ir.tile import TileProgram
from tilegen.syntax.span import Span
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.emit.lines import without_margin
from tilegen.targets.hopper.sass import Instruction, Place, parse_sass


@dataclass(frozen=True)
class Row:
    """One line. margin: its number in the text, or an instruction's address. key: what it is or stems from, "" for what
    belongs to no line."""

    text: str
    margin: str = ""
    key: str = ""


@dataclass(frozen=True)
class Listing:
    """One of the texts."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Listings:
    """All five, and of each site the keys of the lines that it names."""

    texts: tuple[Listing, ...]
    sites: tuple[tuple[str, ...], ...]


class _Sites:
    """Numbers the sites. file: the spec's name; lines of the generated text have one that ends in .cu."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._numbers: dict[tuple[str, ...], int] = {}

    def key(self, places: Iterable[Place]) -> str:
        found = tuple(dict.fromkeys(k for place in places if (k := self._key_of(place))))
        return f"m{self._numbers.setdefault(found, len(self._numbers))}" if found else ""

    def _key_of(self, place: Place) -> str:
        if place.line < 1:
            return ""
        if place.file == self._file:
            return spec_key(place.line)
        return f"c{place.line}" if place.file.endswith(".cu") else ""

    @property
    def all(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self._numbers)


def spec_key(line: int) -> str:
    return f"s{line}"


def key_of(span: Span | None) -> str:
    """The key of the spec's line where a span begins."""
    return spec_key(span.line) if span is not None else ""


def listings(program: TileProgram, built: Built) -> Listings:
    """The texts of one variant of a kernel."""
    sites = _Sites(program.source.name)
    ptx = tuple(Row(line.text.expandtabs(8), str(line.number), sites.key(line.places)) for line in ptx_lines(built.ptx))
    sass = tuple(_sass(built, sites))
    cuda = tuple(_cuda(built.cuda, {key for site in sites.all for key in site}))
    plan = tuple(_plan(built.plan))
    named = {row.key for row in (*plan, *cuda)} | {key for site in sites.all for key in site}
    spec = tuple(_spec(program, named))
    texts = zip(("spec", "plan", "CUDA", "PTX", "SASS"), (spec, plan, cuda, ptx, sass), strict=True)
    return Listings(tuple(Listing(*text) for text in texts), sites.all)


def _spec(program: TileProgram, named: set[str]) -> Iterable[Row]:
    """named: the lines that something stems from. Another line of a statement stands for the one where it begins."""
    begins = {
        line: item.span.line
        for item in moves_and_equations(program)
        for line in range(item.span.line, item.span.end_line + 1)
    }
    for number, text in enumerate(program.source.text.splitlines(), 1):
        own = spec_key(number)
        yield Row(text, str(number), own if own in named else spec_key(begins.get(number, number)))


def _plan(plan: Plan) -> Iterable[Row]:
    for number, line in enumerate(plan_lines(plan), 1):
        yield Row(line.text, str(number), key_of(line.span))


def _cuda(text: str, named: set[str]) -> Iterable[Row]:
    """named: the lines that something stems from. A statement's other lines stand for the one where it begins."""
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        code, spec_line = without_margin(line)
        own = f"c{number}" if f"c{number}" in named else begun
        begun = "" if code.endswith((";", "{", "}")) else own
        yield Row(code, str(number), own if spec_line is None else spec_key(spec_line))


def _sass(built: Built, sites: _Sites) -> Iterable[Row]:
    for function in parse_sass(built.sass).functions:
        yield Row(f".text.{function.name}:")
        for instruction in with_true_places(function, built.ptx).instructions:
            yield from (Row(f"{label}:") for label in instruction.labels)
            yield Row(_instruction(instruction), f"{instruction.address:04x}", sites.key(instruction.places))


def _instruction(i: Instruction) -> str:
    return f"{i.predicate:>6} {i.opcode} {', '.join(i.operands)}".rstrip()
