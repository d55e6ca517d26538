"""What a launch reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """`instructions`: warp instructions executed, by opcode with modifiers. `tma_loads`, `tma_stores`: issued, by the
    kernel parameter that holds the descriptor (or its address). `seconds` of wall time. `steps` executed."""

    instructions: dict[str, int]
    tma_loads: dict[str, int]
    tma_stores: dict[str, int]
    seconds: float
    steps: int

    def count(self, prefix: str) -> int:
        """Warp instructions whose name begins with `prefix`."""
        return sum(n for name, n in self.instructions.items() if name.startswith(prefix))
