"""Evaluates the integer C expressions that the emitter prints, by C's own rules for operators."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C rounds towards zero


class Evaluator:
    def __init__(self, text: str, values: Mapping[str, int]) -> None:
        self.tokens = re.findall(r"\w+|&&|\|\||[=!<>]=|[-+*/%<>?:(),]", text)
        assert "".join(self.tokens) == text.replace(" ", ""), text
        self.values = values

    def result(self) -> int:
        value = self.choice()
        assert not self.tokens, self.tokens
        return value

    def take(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False

    def choice(self) -> int:
        condition = self.binary(0)
        if not self.take("?"):
            return condition
        a = self.choice()
        assert self.take(":")
        b = self.choice()
        return a if condition else b

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.tokens and self.tokens[0] in _LEVELS[level]:
            value = self.apply(self.tokens.pop(0), value, self.binary(level + 1))
        return value

    @staticmethod
    def apply(sign: str, a: int, b: int) -> int:
        if sign in ("/", "%"):
            assert a >= 0, "a plain division of a negative number"
            q = _divide(a, b)
            return q if sign == "/" else a - q * b
        return int(
            {
                "||": bool(a or b), "&&": bool(a and b), "==": a == b, "!=": a != b, "<": a < b, "<=": a <= b,
                ">": a > b, ">=": a >= b, "+": a + b, "-": a - b, "*": a * b,
            }[sign]
        )  # fmt: skip

    def unary(self) -> int:
        if self.take("-"):
            return -self.unary()
        if self.take("("):
            value = self.choice()
            assert self.take(")")
            return value
        name = self.tokens.pop(0)
        if name.isdigit():
            return int(name)
        if not self.take("("):
            return self.values[name]
        a = self.choice()
        assert self.take(",")
        b = self.choice()
        assert self.take(")")
        if name in ("min", "max"):
            return (min if name == "min" else max)(a, b)
        return {"floor_div": a // b, "ceil_div": -(-a // b), "floor_mod": a % b}[name]
