"""What the targets call what they all have, for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Terms:
    """worker, workers: one of those that share out rows, 64 each, and several. number: how a schedule says how many.
    another, part: what a schedule can do about the axes that are shared out, if it can say which; else empty."""

    worker: str
    workers: str
    number: str
    another: str = ""
    part: str = ""

    def fields(self, axis: str = "") -> dict[str, Any]:
        """Of a diagnostic about an axis."""
        return {**vars(self), "part": self.part.format(axis=axis)}


_CONSUMERS = Terms(
    "consumer",
    "consumers",
    "`consumers N over AXIS`",
    "share out another axis: `consumers N over AXIS`",
    "let the inner part share the rows: `consumers N over …, {axis}`",
)
TERMS = {
    "hopper": _CONSUMERS,
    "sm_80": _CONSUMERS,
    "mls": Terms("group of four waves", "groups of four waves", "`waves N`"),
}
