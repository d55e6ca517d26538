"""LDS of a workgroup: its bytes, where each came from, and who touched them last.

Everything is kept for pairs of bytes: no instruction writes less. An *event* is one access of one wave; event 0 is
what was there before the workgroup. Times are counts of barriers: an event that its wave had waited for before it came
to barrier t is over for everybody behind barrier t.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.faults import FaultError

Index = npt.NDArray[np.int64]
NEVER, FILLED, LANES = -1, -2, -3  # origins that are no address in global memory
_POISON = 0xFFFF  # a NaN of f16 and bf16, and two of them one of f32
_OPEN = 1 << 30  # an event that its wave has not waited for


class Lds:
    """The LDS of one workgroup of `waves` waves; `size` bytes are its own."""

    def __init__(self, size: int, waves: int) -> None:
        pairs = -(-size // 2)
        self.size = size
        self.data = np.full(pairs, _POISON, np.uint16)
        self.origin = np.full(pairs, NEVER, np.int64)
        self._written = np.zeros(pairs, np.int32)  # the event that wrote it last
        self._read = np.zeros((waves, pairs), np.int32)  # by each wave
        self._wave = np.full(256, -1, np.int32)
        self._over = np.full(256, -1, np.int64)  # barriers that the event's wave had passed when it waited for it
        self._loads = np.zeros(256, np.bool_)  # events of matrix loads
        self._line = np.full(256, -1, np.int32)
        self._events = 1

    # ---- events ----

    def begin(self, wave: int, line: int, load: bool) -> int:
        """A new event of a wave, by the instruction in this line of the text; `load`: of a matrix load."""
        number = self._events
        if number == len(self._wave):
            for name in ("_wave", "_over", "_loads", "_line"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self._wave[number], self._over[number], self._loads[number] = wave, _OPEN, load
        self._line[number] = line
        self._events += 1
        return number

    def end(self, event: int, barriers: int) -> None:
        """Its wave, which has passed so many barriers, has waited for it."""
        self._over[event] = barriers

    # ---- accesses ----

    def check_range(self, low: int, high: int) -> None:
        """Raise FaultError unless bytes low … high - 1 are LDS of the program."""
        if low < 0 or high > self.size:
            raise FaultError(Code.MLS_BAD_ACCESS, f"LDS bytes {low} to {high - 1} are not within `.lds {self.size}`")

    def read(self, wave: int, barriers: int, event: int, at: Index) -> npt.NDArray[np.uint16]:
        """The pairs `at`, read by a wave. Raises FaultError where a write of them may still be under way."""
        events = self._written[at]
        over = self._over[events]
        mine = self._wave[events] == wave
        fine = np.where(mine, (over < _OPEN) | ~self._loads[events], over < barriers)
        if not fine.all():
            bad = int(np.argmin(fine))
            raise self._race("reads", self._wrote(int(events[bad])), int(events[bad]), wave, int(at[bad]))
        self._read[wave, at] = event
        values: npt.NDArray[np.uint16] = self.data[at]
        return values

    def claim(self, wave: int, barriers: int, event: int, at: Index, load: bool) -> None:
        """A wave is to write the pairs `at`. Raises FaultError where somebody may still read or write them."""
        readers = self._read[:, at]
        over = self._over[readers]
        fine = over < barriers
        fine[wave] = (over[wave] < _OPEN) | (not load)
        if not fine.all():
            reader, pair = divmod(int(np.argmin(fine)), fine.shape[1])
            raise self._race("overwrites", "read", int(readers[reader, pair]), wave, int(at[pair]))
        events = self._written[at]
        over = self._over[events]
        mine = self._wave[events] == wave
        in_order = self._loads[events] == load  # the loads of a wave complete in order, and so do its LDS accesses
        fine = np.where(mine, in_order | (over < _OPEN), over < barriers)
        if not fine.all():
            bad = int(np.argmin(fine))
            raise self._race("overwrites", self._wrote(int(events[bad])), int(events[bad]), wave, int(at[bad]))
        self._written[at] = event

    def _wrote(self, event: int) -> str:
        return "loaded" if self._loads[event] else "written"

    def _race(self, verb: str, what: str, event: int, wave: int, pair: int) -> FaultError:
        other = int(self._wave[event])
        waited = self._over[event] < _OPEN
        who = "this wave" if other == wave else f"wave {other}"
        missing = "no barrier stands between" if waited else f"{who} has not waited for it"
        return FaultError(
            Code.MLS_RACE,
            f"race: {verb} LDS byte {2 * pair}, which {who} has {what} in line {int(self._line[event])}, and {missing}",
        )

    def writer(self, pair: int) -> int:
        """The line that wrote a pair last, -1 for none."""
        return int(self._line[self._written[pair]])
