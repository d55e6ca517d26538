"""`dataclass` for the classes of the intermediate programs, which are defined in half the time.

There are hundreds of them, and a kernel from the cache waits for a hundred. The standard decorator writes and compiles
a text for each method of each class; to compare, to hash and to show need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, frozen):
        """As `dataclasses.dataclass(frozen=True)`, for fields that all take part in comparing, hashing and showing."""
        assert frozen
        return _made

    def _made(cls):
        own = dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        names = tuple(f.name for f in dataclasses.fields(own))
        values = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, n) for n in names)

        def equal(self, other):
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        def shown(self):
            every = (f"{name}={value!r}" for name, value in zip(names, values(self), strict=True))
            return f"{self.__class__.__qualname__}({', '.join(every)})"

        own.__eq__, own.__hash__, own.__repr__ = equal, lambda self: hash(values(self)), shown
        return own
