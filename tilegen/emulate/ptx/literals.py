"""Numbers in PTX text."""

from __future__ import annotations

from tilegen.emulate.ptx.cursor import Cursor
from tilegen.emulate.ptx.faults import syntax_error
from tilegen.emulate.ptx.module import Immediate, Place


def number(c: Cursor) -> Immediate:
    """The literal ahead, with its sign."""
    negative = False
    while c.next.text in ("-", "+", "~"):
        sign = c.take().text
        if sign == "~":
            return Immediate(~int(number(c).value))
        negative ^= sign == "-"
    token = c.take()
    if token.kind != "number":
        syntax_error(f"expected a number, found {token.text!r}", Place(token.line))
    literal = literal_of(token.text)
    if not negative:
        return literal
    if literal.width:
        return Immediate(int(literal.value) ^ 1 << literal.width - 1, literal.width)
    return Immediate(-literal.value)


def literal_of(text: str) -> Immediate:
    """The value of one number token, without sign."""
    prefix = text[:2].lower()
    if prefix == "0f":
        return Immediate(int(text[2:], 16), 32)
    if prefix == "0d":
        return Immediate(int(text[2:], 16), 64)
    if prefix in ("0x", "0b"):
        return Immediate(int(text.rstrip("U"), 0))
    digits = text.rstrip("U")
    if "." in digits or "e" in digits.lower():
        return Immediate(float(digits))
    if len(digits) > 1 and digits[0] == "0":
        return Immediate(int(digits, 8))
    return Immediate(int(digits))
