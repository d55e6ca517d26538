"""Registers handed out and taken back: the lowest free range that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


class Pool:
    """Registers `first` … `limit` - 1. `top`: the highest index ever handed out, plus one."""

    def __init__(self, first: int, limit: int, exhausted: Callable[[], NoReturn]) -> None:
        self._free = [first <= n for n in range(limit)]
        self._exhausted = exhausted
        self.top = first

    def take(self, count: int = 1, align: int = 1) -> int:
        """The index of the first of `count` registers in a row. Ends in `exhausted` where there are none."""
        for start in range(0, len(self._free) - count + 1, align):
            if all(self._free[start : start + count]):
                self._free[start : start + count] = [False] * count
                self.top = max(self.top, start + count)
                return start
        self._exhausted()

    def give(self, start: int, count: int = 1) -> None:
        assert not any(self._free[start : start + count]), (start, count)
        self._free[start : start + count] = [True] * count
