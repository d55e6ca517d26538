"""A breach of a plan's rules."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.plan_text import Path


@dataclass(frozen=True)
class Violation:
    """`path`: the plan's node at fault, as in plan_text."""

    path: Path
    message: str
