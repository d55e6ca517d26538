"""Reads PTX text into a Module. Instructions are decoded here, so that an unknown one is found before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilegen.emulate.ptx.body import Body
from tilegen.emulate.ptx.faults import syntax_error
from tilegen.emulate.ptx.lexer import Token, tokens
from tilegen.emulate.ptx.literals import number
from tilegen.emulate.ptx.module import Function, Immediate, Module, Place, Symbol, Variable
from tilegen.emulate.ptx.scope import RegisterCount
from tilegen.emulate.ptx.types import TYPES

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".param"}


class Cursor:
    """A position in the tokens, with the small helpers that every part of the parser uses."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The token ahead."""
        return self._tokens[self._at]

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` after the next one."""
        return self._tokens[min(self._at + distance, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Consume and return the next token."""
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token if it is `text`."""
        if self._tokens[self._at].text == text and self._tokens[self._at].kind != "string":
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume `text`, or fail naming what stands there instead."""
        if not self.accept(text):
            token = self.next
            syntax_error(f"expected {text!r}, found {token.text or 'the end of the text'!r}", Place(token.line))

    def rest_of_line(self) -> list[Token]:
        """Consume and return what is left on the line of the last token taken."""
        line = self._tokens[self._at - 1].line
        out = []
        while self.next.line == line and self.next.kind != "end":
            out.append(self.take())
        return out

    def skip_braces(self) -> None:
        """Consume a balanced `{ … }`."""
        self.expect("{")
        depth = 1
        while depth and self.next.kind != "end":
            text = self.take().text
            depth += (text == "{") - (text == "}")


def parse(ptx: str) -> Module:
    """The module in `ptx`. Raises TilegenError for a syntax fault or an unknown instruction, with its PTX line and,
    where the text has `.loc`, the source line."""
    return _ModuleParser(ptx).module()


class _ModuleParser:
    def __init__(self, ptx: str) -> None:
        self.cursor = Cursor(ptx)
        self.count = RegisterCount()
        # The file table may stand at the end of the text, after the .loc that use it.
        self.files = {int(number): name for number, name in _FILE.findall(ptx)}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.bodies: list[Body] = []
        self.version = self.target = ""

    def module(self) -> Module:
        c = self.cursor
        while c.next.kind != "end":
            word = c.next.text
            if word == ".version":
                c.take()
                self.version = c.take().text
            elif word == ".target":
                c.take()
                self.target = ",".join(t.text for t in c.rest_of_line())
            elif word == ".address_size":
                c.take()
                c.take()
            elif word == ".file":
                c.take()
                c.rest_of_line()
            elif word == ".section":
                c.take()
                c.take()
                c.skip_braces()
            elif word == ".pragma":
                c.take()
                while not c.accept(";"):
                    c.take()
            elif word in _LINKAGE or word in _SPACES or word in (".entry", ".func", ".alias"):
                self._declaration()
            else:
                syntax_error(f"cannot read {word!r} here", Place(c.next.line))
        for body in self.bodies:
            function = body.finish(set(self.functions) | {b.name for b in self.bodies})
            self.functions[function.name] = function
        return Module(self.version, self.target, self.functions, self.variables, dict(self.count.used))

    def _declaration(self) -> None:
        c = self.cursor
        extern = False
        while c.next.text in _LINKAGE:
            extern |= c.take().text == ".extern"
        if c.next.text in (".entry", ".func"):
            self._function(entry=c.take().text == ".entry")
            return
        for variable in variables(c, extern):
            self.variables[variable.name] = variable

    def _function(self, entry: bool) -> None:
        c = self.cursor
        results = self._params() if c.next.text == "(" else ()
        name = c.take().text
        params = self._params() if c.next.text == "(" else ()
        body = Body(c, name, entry, params, results, self.count, self.files, self.variables)
        body.attributes()
        if c.accept(";"):
            return
        body.read()
        self.bodies.append(body)

    def _params(self) -> tuple[Variable, ...]:
        c = self.cursor
        c.expect("(")
        out: list[Variable] = []
        while not c.accept(")"):
            out.append(_variable(c, c.take().text[1:], False))
            c.accept(",")
        return tuple(out)


def variables(c: Cursor, extern: bool) -> Iterator[Variable]:
    """The variables of one declaration, up to and with its `;`."""
    space = c.take().text[1:]
    first = _variable(c, space, extern)
    yield first
    while c.accept(","):
        yield Variable(c.take().text, space, first.align, first.size)
    c.expect(";")


def _variable(c: Cursor, space: str, extern: bool) -> Variable:
    align, width, kind = 0, 0, ""
    while c.next.text.startswith("."):
        word = c.take().text
        if word == ".align":
            align = int(c.take().text)
        elif word == ".attribute":
            while not c.accept(")"):
                c.take()
        elif word == ".ptr":
            # `.ptr .global .align 16`: a hint about what the parameter points to, not about the parameter itself.
            while c.next.text in (".global", ".const", ".shared", ".local", ".align"):
                if c.take().text == ".align":
                    c.take()
        elif word in (".v2", ".v4"):
            width = (width or 1) * int(word[2])
        elif word[1:] in TYPES:
            kind = word[1:]
            width = max(width, 1) * TYPES[kind].bytes
        else:
            syntax_error(f"unknown word {word!r} in the declaration of a variable", Place(c.next.line))
    name = c.take().text
    elements, unsized = 1, False
    while c.accept("["):
        if c.accept("]"):
            unsized = True
            continue
        elements *= int(c.take().text, 0)
        c.expect("]")
    init: bytes = b""
    relocations: tuple[tuple[int, Symbol], ...] = ()
    if c.accept("="):
        init, relocations = _initialiser(c, kind)
    size = len(init) if unsized else elements * width
    return Variable(
        name, space, align or max(width, 1), size, init.ljust(size, b"\0") if init else b"", extern, relocations
    )


def _initialiser(c: Cursor, kind: str) -> tuple[bytes, tuple[tuple[int, Symbol], ...]]:
    out = bytearray()
    relocations: list[tuple[int, Symbol]] = []
    element = TYPES[kind]
    depth = 0
    while True:
        if c.accept("{"):
            depth += 1
        elif c.accept("}"):
            depth -= 1
        elif c.accept(","):
            continue
        elif c.next.kind == "word":
            word = c.take().text
            generic = word == "generic"
            if generic:
                c.expect("(")
                word = c.take().text
                c.expect(")")
            offset = int(c.take().text, 0) if c.accept("+") else 0
            relocations.append((len(out), Symbol(word, offset)))
            out += bytes(element.bytes)
        else:
            out += literal_bytes(number(c), kind)
        if depth == 0:
            return bytes(out), tuple(relocations)


def literal_bytes(literal: Immediate, kind: str) -> bytes:
    """Memory image of a literal of PTX type `kind`, little-endian."""
    import numpy as np

    element = TYPES[kind]
    if literal.width:
        return int(literal.value).to_bytes(literal.width // 8, "little")[: element.bytes]
    if element.kind == "f" and element.name != "bf16":
        return np.array([literal.value], element.dtype).tobytes()
    return (int(literal.value) & ((1 << element.bits) - 1)).to_bytes(element.bytes, "little")
