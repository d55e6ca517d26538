"""Element expressions as C++: what is computed for one element of a fragment, or for a uniform float."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    Compute,
    Coordinate,
    Digit,
    Element,
    ElementExpr,
    Fragment,
    IntValue,
    Literal,
    Past,
    Place,
    Value,
)
from tilegen.ir.uniform import Sym, Uniform
from tilegen.targets.hopper.emit.literals import literal, pair_literal
from tilegen.targets.hopper.emit.names import Names

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TRUTH = frozenset((*_COMPARISONS, "and", "or", "not"))
_WHOLE = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}", "fma": "{} * {} + {}"}
_CALLS = {  # what CUDA provides
    "add": "__fadd_rn",
    "sub": "__fsub_rn",
    "mul": "__fmul_rn",
    "div_rn": "__fdiv_rn",
    "fma": "fmaf",
    "abs": "fabsf",
    "floor": "floorf",
    "pow": "powf",
}
_HELPERS = {  # macros of templates/hopper/arithmetic.j2
    "min": "minimum",
    "max": "maximum",
    "ex2": "ex2",
    "lg2": "lg2",
    "rcp": "rcp",
    "sqrt": "square_root",
    "rsqrt": "rsqrt",
    "div": "divide",
    "ratio": "ratio",
    "tanh": "tanh_f32",
    "tanh_approx": "tanh_approx",
    "erf": "erf_f32",
}
_ROUNDINGS: dict[DType | None, str] = {DType.BF16: "round_bf16", DType.F16: "round_f16"}
# Which register of a fragment (first) meets element v of another (second).
_INDEX = {
    ("acc", "acc"): "v",
    ("row", "acc"): "v / 2 % 2",
    ("col", "acc"): "v / 4 * 2 + v % 2",
    ("row", "row"): "v",
    ("col", "col"): "v",
}
# Position of element v past the thread's first row or column.
_ROW_OF = {"acc": "8 * (v / 2 % 2)", "row": "8 * v"}
_COLUMN_OF = {"acc": "8 * (v / 4) + v % 2", "col": "8 * (v / 2) + v % 2"}


def element_type(fragment: Fragment) -> str:
    """The C++ type of a fragment's registers."""
    return "unsigned" if fragment.layout in ("a", "pair") else "int" if fragment.dtype is DType.I32 else "float"


def digit(row: str, d: Digit | None) -> str:
    """Where a row is along one of the axes that share the rows."""
    if d is None:
        return row
    inner = f"({row})" if " " in row else row
    divided = f"{inner} / {d.divide}" if d.divide > 1 else inner
    return f"{divided} % {d.modulo}" if d.modulo else divided


@dataclass
class ElementPrinter:
    """Collects what the function of one element-wise operation needs while it prints.

    layout: of the fragment computed, "" for a uniform float (then there are no fragments, and `scalar` names
    values at once) · helper: as in `Integers`. Parameters are kept in the order met, with their arguments.
    """

    layout: str
    fragments: dict[str, Fragment]
    names: Names
    helper: Callable[[str], str]
    scalar: Callable[[str], str]
    integer: Callable[[Uniform], str]
    whole: frozenset[str] = frozenset()  # values that are whole numbers
    exact: bool = False  # whether comparisons of whole numbers are made in integers wherever these come from
    local: dict[str, str] = field(default_factory=dict)  # fragments that are variables here: their element v
    parameters: list[tuple[str, str]] = field(default_factory=list)  # (declaration, argument)
    before: list[str] = field(default_factory=list)  # lines ahead of the loop over elements
    shared: list[str] = field(default_factory=list)  # lines in it, ahead of the value
    _known: dict[ElementExpr | tuple[str, object], str] = field(default_factory=dict)
    _hoisted: set[ElementExpr] = field(default_factory=set)

    def value(self, e: ElementExpr) -> str:
        """The expression; what occurs in it more than once becomes a line of `shared`."""
        if self.layout:
            counts = Counter(sub for sub in _occurrences(e) if isinstance(sub, Compute))
            for sub in sorted((s for s, n in counts.items() if n > 1), key=_size):
                if sub.op not in _TRUTH and sub.op != "neg":
                    text = self._float(sub)
                    name = self.names.give(("shared", sub), "x")
                    self.shared.append(f"const float {name} = {text};")
                    self._known[sub] = name
        return self._float(e)

    @property
    def declarations(self) -> list[str]:
        """The parameters that what was printed so far needs."""
        return [declaration for declaration, _ in self.parameters]

    def fragment(self, fragment: Fragment, *, written: bool = False) -> str:
        """The parameter that stands for a fragment."""
        key = ("fragment", fragment.name)
        if key not in self._known:
            name = self._known[key] = self.names.give(key, fragment.name)
            kind = "" if written else "const "
            self.parameters.append((f"{kind}{element_type(fragment)} (&{name})[{fragment.registers}]", fragment.name))
        return self._known[key]

    def pair(self, e: ElementExpr, dtype: DType, pack: str) -> str:
        """Two neighbours, element 2 * pair and the one behind it, in a register. They are numbers of the 16-bit type
        already; `pack` is the function that makes a register of two."""
        if isinstance(e, Element) and self.fragments[e.fragment].layout == "pair":
            return f"{self.fragment(self.fragments[e.fragment])}[pair]"
        if isinstance(e, Literal):
            return pair_literal(e.value, dtype)
        if _is_uniform_value(e):
            key = ("packed", e)
            if key not in self._known:
                value = self._float(e)
                name = self._known[key] = self.names.give(key, f"{value}_pair")
                self.before.append(f"const unsigned {name} = {pack}({value}, {value});")
            return self._known[key]
        key = ("both", e)
        if key not in self._known:
            name = self._known[key] = self.names.give(key, "both")
            value = self._float(e)
            self.shared += [
                f"float {name}[2];",
                "#pragma unroll",
                f"for (int v = 2 * pair; v < 2 * pair + 2; ++v) {name}[v % 2] = {value};",
            ]
        name = self._known[key]
        return f"{pack}({name}[0], {name}[1])"

    def _float(self, e: ElementExpr) -> str:
        if e in self._known:
            return self._known[e]
        if isinstance(e, Element):
            if e.fragment in self.local:
                return self.local[e.fragment]
            f = self.fragments[e.fragment]
            return f"{self.fragment(f)}[{_INDEX[f.layout, self.layout]}]"
        if isinstance(e, Literal):
            return literal(e.value)
        if isinstance(e, Value):
            return self._given(e, e.name, "int" if e.name in self.whole else "float", self.scalar(e.name))
        if isinstance(e, IntValue):
            return self._given(
                e, e.value.name if isinstance(e.value, Sym) else "n", "float", f"(float)({self.integer(e.value)})"
            )
        if isinstance(e, Coordinate):
            return self._coordinate(e)
        if isinstance(e, Place):
            return self._place(e)
        if isinstance(e, Past):
            return f"(float)({_COLUMN_OF[self.layout]})"
        if self.layout and e not in self._hoisted and _is_uniform(e):
            return self._ahead(e)
        if e.op in _TRUTH:
            return f"({self.truth(e)} ? 1.0f : 0.0f)"
        if e.op == "neg":
            text = self._float(e.args[0])
            return f"-({text})" if text.startswith("-") else f"-{text}"
        if e.op == "select":
            return self._select(*e.args)
        if e.op == "div" and (factor := self._reciprocal(e.args[1])):
            return f"__fmul_rn({self._float(e.args[0])}, {factor})"
        if e.op in ("mul", "fma") and e.args[1] == Past() and _is_uniform_value(e.args[0]):
            self._per_lane(e.args[0])
        if e.op == "round":
            call = self.helper(_ROUNDINGS[e.dtype]) if e.dtype in _ROUNDINGS else ""
        else:
            call = _CALLS.get(e.op) or self.helper(_HELPERS[e.op])
        return f"{call}({', '.join(map(self._float, e.args))})"

    def _select(self, condition: ElementExpr, a: ElementExpr, b: ElementExpr) -> str:
        """One of two. What takes computing is an argument of a function, and so computed in all lanes: of a conditional
        expression the compiler makes a branch around it, an element at a time. A lane's two rows may have theirs."""
        texts = self.truth(condition), self._float(a), self._float(b)
        computed = any(isinstance(arm, Compute) and arm not in self._known for arm in (a, b))
        if computed and self.layout in ("acc", "col") and not _is_uniform(condition):
            return f"{self.helper('choose')}({', '.join(texts)})"
        return "({} ? {} : {})".format(*texts)

    def _reciprocal(self, e: ElementExpr) -> str:
        """The factor that stands for a divisor which is one number for all elements, "" for any other divisor.

        The product is within the 2 ulp of a division: a constant's reciprocal is rounded, a run-time value's within
        1 ulp and computed ahead of the loop. (Of run-time divisors beyond 2**126 it is subnormal, and less exact.)
        """
        if isinstance(e, Literal):
            return literal(1.0 / e.value) if 2.0**-100 < abs(e.value) < 2.0**100 else ""
        if not self.layout or not isinstance(e, Value | IntValue):
            return ""
        key = ("reciprocal", e)
        if key not in self._known:
            divisor = self._float(e)
            name = self._known[key] = self.names.give(key, f"{divisor}_rcp")
            self.before.append(f"const float {name} = {self.helper('reciprocal')}({divisor});")
        return self._known[key]

    def _ahead(self, e: ElementExpr) -> str:
        """A uniform expression, computed ahead of the loop over elements."""
        self._hoisted.add(e)
        text = self._float(e)
        name = self._known[e] = self.names.give(("ahead", e), "u")
        self.before.append(f"const float {name} = {text};")
        return name

    def _per_lane(self, e: ElementExpr) -> None:
        """Have a uniform factor of a column number in a register of each lane: an instruction takes one constant."""
        if ("lane", e) not in self._known:
            text = self._float(e)
            name = self._known[e] = self._known["lane", e] = self.names.give(("lane", e), f"{text}_lane")
            self.before.append(f"const float {name} = {self.helper('per_lane')}({text});")

    def truth(self, e: ElementExpr) -> str:
        """The expression as a condition."""
        if isinstance(e, Compute) and e.op in _COMPARISONS:
            if all(map(self._is_whole, e.args)) and (self.exact or any(map(self._from_i32, _occurrences(e)))):
                return f"({self._integer(e.args[0])} {_COMPARISONS[e.op]} {self._integer(e.args[1])})"
            return f"({self._float(e.args[0])} {_COMPARISONS[e.op]} {self._float(e.args[1])})"
        if isinstance(e, Compute) and e.op in ("and", "or"):
            # both sides in all lanes: of && and || the compiler makes branches, an element at a time
            return f"({(' & ' if e.op == 'and' else ' | ').join(map(self.truth, e.args))})"
        if isinstance(e, Compute) and e.op == "not":
            return f"!{self.truth(e.args[0])}"
        return f"({self._float(e)} != 0.0f)"

    def _from_i32(self, e: ElementExpr) -> bool:
        if isinstance(e, Value):
            return e.name in self.whole
        return isinstance(e, Element) and self.fragments[e.fragment].dtype is DType.I32

    def _is_whole(self, e: ElementExpr) -> bool:
        """Whether `_integer` can print it."""
        if isinstance(e, Compute):
            return e.op in _WHOLE and all(map(self._is_whole, e.args))
        if isinstance(e, Literal):
            return e.value == int(e.value) and abs(e.value) < 2.0**31 if math.isfinite(e.value) else False
        return isinstance(e, IntValue | Coordinate) or self._from_i32(e)

    def _integer(self, e: ElementExpr) -> str:
        """A whole number, computed in 32-bit integers."""
        if isinstance(e, Literal):
            return str(int(e.value))
        if isinstance(e, IntValue):
            return self._given(
                ("whole", e), e.value.name if isinstance(e.value, Sym) else "n", "int", self.integer(e.value)
            )
        if isinstance(e, Coordinate):
            origin = self._given(("whole", e), "origin", "int", self.integer(e.origin))
            first = self.helper("first_row" if e.along == "row" else "first_column")
            step = (_ROW_OF if e.along == "row" else _COLUMN_OF)[self.layout]
            return f"({origin} + {digit(f'{first}() + {step}', e.digit)})"
        if isinstance(e, Compute):
            return f"({_WHOLE[e.op].format(*map(self._integer, e.args))})"
        return self._float(e)

    def _given(self, key: ElementExpr | tuple[str, object], wish: str, kind: str, argument: str) -> str:
        """A uniform value: named at once where it stands, a parameter inside a function."""
        if not self.layout:
            return argument
        if key in self._known:
            return self._known[key]
        name = self._known[key] = self.names.give(key, wish)
        self.parameters.append((f"{kind} {name}", argument))
        return name

    def _coordinate(self, e: Coordinate) -> str:
        if e.digit is not None:
            return f"(float){self._integer(e)}"
        start = self._known.get(("start", e))
        if start is None:
            origin = self._given(e, "origin", "int", self.integer(e.origin))
            del self._known[e]
            first = self.helper("first_row" if e.along == "row" else "first_column")
            start = self._known["start", e] = self.names.give(("start", e), f"first_{e.along}_at")
            self.before.append(f"const float {start} = (float)({origin} + {first}());")
        step = (_ROW_OF if e.along == "row" else _COLUMN_OF)[self.layout]
        return f"__fadd_rn({start}, (float)({step}))"

    def _place(self, e: Place) -> str:
        """A position as a whole number at the lane's first column in each of its two rows; the columns past it are
        added to that: exact, whatever the origin."""
        lead = self._known.get(("lead", e))
        if lead is None:
            offset = self._given(e, "offset", "int", self.integer(e.offset))
            del self._known[e]
            at = offset
            for factor, first in ((e.row_factor, "first_row"), (e.col_factor, "first_column")):
                if factor:
                    size = f"{abs(factor)} * " if abs(factor) != 1 else ""
                    at += f" {'+' if factor > 0 else '-'} {size}{self.helper(first)}()"
            lead = self._known["lead", e] = self.names.give(("lead", e), "at")
            second = f"{at} + {8 * e.row_factor}" if e.row_factor else at
            for factor, place in e.digits:
                size = f"{abs(factor)} * " if abs(factor) != 1 else ""
                sign, row = "+" if factor > 0 else "-", f"{self.helper('first_row')}()"
                at += f" {sign} {size}({digit(row, place)})"
                second += f" {sign} {size}({digit(f'{row} + 8', place)})"
            self.before.append(f"const float {lead}[2] = {{(float)({at}), (float)({second})}};")
        if self.layout == "row":
            return f"{lead}[v]"
        first = f"{lead}[v / 2 % 2]"
        if not e.col_factor:
            return first
        past = _COLUMN_OF["acc"] if e.col_factor == 1 else f"{e.col_factor} * ({_COLUMN_OF['acc']})"
        return f"__fadd_rn({first}, (float)({past}))"


def _is_uniform_value(e: ElementExpr) -> bool:
    return isinstance(e, Value | IntValue) or _is_uniform(e)


def _is_uniform(e: ElementExpr) -> bool:
    """Whether it is one number for all elements, and more than a sign or a constant."""

    def found(e: ElementExpr) -> Iterator[ElementExpr]:
        return (sub for sub in _occurrences(e) if not isinstance(sub, Compute))

    if not isinstance(e, Compute) or e.op == "neg" or e.op in _TRUTH:
        return False
    return all(isinstance(s, Value | IntValue | Literal) for s in found(e)) and any(
        isinstance(s, Value | IntValue) for s in found(e)
    )


def _occurrences(e: ElementExpr) -> Iterator[ElementExpr]:
    yield e
    if isinstance(e, Compute):
        for a in e.args:
            yield from _occurrences(a)


def _size(e: ElementExpr) -> int:
    return sum(1 for _ in _occurrences(e))
