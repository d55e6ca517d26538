"""Built-in functions and folds: their names, operations and how many arguments they take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    """`op` as in `ir.tile.Apply`; `most` None: any number from `least` on, taken two at a time."""

    op: str
    least: int
    most: int | None


def _unary(*names: str) -> dict[str, Function]:
    return {name: Function(name, 1, 1) for name in names}


FUNCTIONS: dict[str, Function] = {
    **_unary("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "tanh_approx", "abs", "floor", "erf", "sigmoid"),
    "min": Function("min", 2, None),
    "max": Function("max", 2, None),
    "pow": Function("pow", 2, 2),
    "select": Function("select", 3, 3),
    "where": Function("select", 3, 3),
}

# fold: number of arguments before the `;`, and whether further exponents may follow it
FOLDS: dict[str, tuple[int, bool]] = {
    "sum": (1, False),
    "max": (1, False),
    "min": (1, False),
    "expsum": (2, False),
    "softmax": (1, True),
    "logsumexp": (1, True),
}
