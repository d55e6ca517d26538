"""What was used last, by key, within a number and a weight."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

MOST = 512
BYTES = 256 << 20

_V = TypeVar("_V")


class Recent(Generic[_V]):
    """The values used last, by key. `weigh`: the bytes that one holds."""

    def __init__(self, weigh: Callable[[_V], int] = lambda value: 0, most: int = MOST, bytes: int = BYTES) -> None:
        self._weigh, self._most, self._bytes = weigh, most, bytes
        self._held = 0
        self._values: OrderedDict[Any, _V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def peek(self, key: Any) -> _V | None:
        """The value, if it is there; as if it were not used."""
        return self._values.get(key)

    def find(self, key: Any) -> _V | None:
        """The value, if it is there."""
        value = self._values.get(key)
        if value is not None:
            try:
                self._values.move_to_end(key)
            except KeyError:  # another thread has just dropped it
                return value
        return value

    def get(self, key: Any, make: Callable[[], _V]) -> _V:
        """The value, made if it is not there."""
        value = self.find(key)
        if value is None:
            value = make()
            if key not in self._values:  # another thread may have made it, too
                self._held += self._weigh(value)
            self._values[key] = value
            while len(self._values) > 1 and (len(self._values) > self._most or self._held > self._bytes):
                self._held -= self._weigh(self._values.popitem(last=False)[1])
        return value
