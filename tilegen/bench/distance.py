"""How far a result is from the exact one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Distance:
    """`error`: relative, by the Frobenius norm, of the worst batch and head; `lse`: the largest absolute one;
    `by_rounding`: how many batches and heads were right by `exact.TIMES_EXPECTED` alone; `faults`: in words, what is
    beyond the allowed."""

    error: float = 0.0
    lse: float | None = None
    by_rounding: int = 0
    faults: list[str] = field(default_factory=list)
