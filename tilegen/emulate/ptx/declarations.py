"""Reads declarations of variables and their initialisers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilegen.emulate.ptx.cursor import Cursor
from tilegen.emulate.ptx.faults import syntax_error
from tilegen.emulate.ptx.literals import number
from tilegen.emulate.ptx.module import Immediate, Place, Symbol, Variable
from tilegen.emulate.ptx.types import TYPES


def variables(c: Cursor, extern: bool) -> Iterator[Variable]:
    """The variables of one declaration, up to and with its `;`."""
    space = c.take().text[1:]
    first = variable(c, space, extern)
    yield first
    while c.accept(","):
        yield Variable(c.take().text, space, first.align, first.size)
    c.expect(";")


def variable(c: Cursor, space: str, extern: bool) -> Variable:
    """One variable, up to its `,`, `)` or `;`."""
    align, width, kind = 0, 0, ""
    while c.next.text.startswith("."):
        word = c.take().text
        if word == ".align":
            align = c.integer()
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
        elements *= c.integer()
        c.expect("]")
    init: bytes = b""
    relocations: tuple[tuple[int, Symbol], ...] = ()
    if c.accept("="):
        if not kind:
            syntax_error(f"{name} has values, and no type", Place(c.next.line))
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
            offset = c.integer() if c.accept("+") else 0
            relocations.append((len(out), Symbol(word, offset)))
            out += bytes(element.bytes)
        else:
            out += _literal_bytes(number(c), kind)
        if depth == 0:
            return bytes(out), tuple(relocations)


def _literal_bytes(literal: Immediate, kind: str) -> bytes:
    """Memory image of a literal of PTX type `kind`, little-endian."""
    element = TYPES[kind]
    if literal.width:
        return int(literal.value).to_bytes(literal.width // 8, "little")[: element.bytes]
    if element.kind == "f" and element.name != "bf16":
        return np.array([literal.value], element.dtype).tobytes()
    return (int(literal.value) & ((1 << element.bits) - 1)).to_bytes(element.bytes, "little")
