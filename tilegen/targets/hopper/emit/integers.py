"""Uniform integer expressions as C++: 32-bit, with divisions that round as `ir.uniform` says."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.ir.uniform import Int, Op, Sym, Uniform

# How tightly each operation binds, loosest first.
_OR, _AND, _EQUAL, _ORDER, _SUM, _PRODUCT, _ATOM = range(7)
_INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "lt": ("<", _ORDER),
    "le": ("<=", _ORDER),
    "gt": (">", _ORDER),
    "ge": (">=", _ORDER),
    "eq": ("==", _EQUAL),
    "ne": ("!=", _EQUAL),
    "and": ("&&", _AND),
    "or": ("||", _OR),
}
_TRUTH = frozenset(("lt", "le", "gt", "ge", "eq", "ne", "and", "or"))
_PLAIN_DIVISION = {"floordiv": "/", "mod": "%"}
_HELPERS = {"floordiv": "floor_div", "ceildiv": "ceil_div", "mod": "floor_mod"}


class Integers:
    """Prints uniform expressions in one scope.

    name: the identifier of a symbol · helper: the name of a device function of templates/hopper/arithmetic.j2,
    which it makes sure is emitted · natural: symbols known to be at least 0.
    """

    def __init__(
        self, name: Callable[[str], str], helper: Callable[[str], str], natural: frozenset[str] = frozenset()
    ) -> None:
        self._name = name
        self._helper = helper
        self.natural = natural

    def with_natural(self, *symbols: str) -> Integers:
        """The same, with more symbols known to be at least 0."""
        return Integers(self._name, self._helper, self.natural | set(symbols))

    def called(self, symbol: str, identifier: str) -> Integers:
        """The same, with another identifier of one symbol."""
        return Integers(lambda s: identifier if s == symbol else self._name(s), self._helper, self.natural)

    def is_natural(self, e: Uniform) -> bool:
        """Whether the value is known to be at least 0."""
        if isinstance(e, Int):
            return e.value >= 0
        if isinstance(e, Sym):
            return e.name in self.natural
        if e.op == "mod" or e.op in _TRUTH:
            return True
        if e.op == "max":
            return any(map(self.is_natural, e.args))
        if e.op == "select":
            return all(map(self.is_natural, e.args[1:]))
        if e.op in ("floordiv", "ceildiv"):
            return self.is_natural(e.args[0])
        return e.op in ("add", "mul", "min") and all(map(self.is_natural, e.args))

    def text(self, e: Uniform, least: int = _OR) -> str:
        """The expression, in parentheses if it binds more loosely than `least`."""
        text, binds = self._print(e)
        return f"({text})" if binds < least else text

    def factor(self, e: Uniform) -> str:
        """The expression, fit to stand in a product."""
        return self.text(e, _ATOM)

    def term(self, e: Uniform) -> str:
        """The expression, fit to stand in a sum."""
        return self.text(e, _PRODUCT)

    def _print(self, e: Uniform) -> tuple[str, int]:
        if isinstance(e, Int):
            return str(e.value), _ATOM if e.value >= 0 else _SUM
        if isinstance(e, Sym):
            return self._name(e.name), _ATOM
        if e.op in _INFIX:
            sign, binds = _INFIX[e.op]
            return f" {sign} ".join(self._operand(e.op, binds, a, n) for n, a in enumerate(e.args)), binds
        if e.op == "select":
            condition, a, b = e.args
            return f"({self.text(condition, _OR)} ? {self.text(a)} : {self.text(b)})", _ATOM
        if e.op in ("min", "max"):
            return f"{e.op}({self.text(e.args[0])}, {self.text(e.args[1])})", _ATOM
        a, b = e.args
        if self.is_natural(a):
            if e.op == "ceildiv":
                above = Op("add", (a, Int(b.value - 1) if isinstance(b, Int) else Op("sub", (b, Int(1)))))
                return f"{self.text(above, _PRODUCT)} / {self.text(b, _ATOM)}", _PRODUCT
            return f"{self.text(a, _PRODUCT)} {_PLAIN_DIVISION[e.op]} {self.text(b, _ATOM)}", _PRODUCT
        return f"{self._helper(_HELPERS[e.op])}({self.text(a)}, {self.text(b)})", _ATOM

    def _operand(self, op: str, binds: int, e: Uniform, position: int) -> str:
        if op in ("and", "or"):
            return self.text(e, _OR if isinstance(e, Op) and e.op == op else _EQUAL)
        if op in _TRUTH:
            return self.text(e, _SUM)
        return self.text(e, binds if position == 0 or op == "add" else binds + 1)
