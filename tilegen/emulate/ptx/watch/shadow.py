"""What is known of each 16 bytes of shared memory: who wrote them last, who has read them since, whence they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.watch.clocks import HAPPENED, VISIBLE

CHUNK = 16
_NOBODY = -1
_ALL = 0xFFFF


@dataclass(frozen=True)
class Access:
    """An access to shared memory. `agent`, `time`: known to whoever knows that it is over. `know`: what was known when
    it began. `engine`: through the asynchronous proxy. `deed`: in words, as of the one who did it. `origin`: number of
    what is written in the launch's list of loads; -1 for what threads write."""

    pc: int
    agent: int
    time: int
    know: Array
    engine: bool
    deed: str
    origin: int = -1


@dataclass(frozen=True)
class Conflict:
    """What a check finds: the fault's code, the later access, the byte offset of the place, and the earlier access as
    (program counter, in words)."""

    code: Code
    access: Access
    at: int
    earlier_pc: int
    earlier: str


class Shadow:
    """Of `chunks` pieces of 16 bytes. Faults go to `report`, which raises."""

    def __init__(self, chunks: int, readers: int, report: Callable[[Conflict], NoReturn]) -> None:
        self._report = report
        self._writer: Array = np.full(chunks, _NOBODY, np.int32)
        self._time: Array = np.zeros(chunks, np.int32)
        self._generic: Array = np.zeros(chunks, np.bool_)
        self._write: Array = np.zeros(chunks, np.int32)  # number of the access in `_writes`
        self._writes: list[Access] = []
        #: Which of its bytes a chunk's last writer has written, a bit each.
        self._bytes: Array = np.zeros(chunks, np.uint16)
        self._reads: Array = np.zeros((readers, chunks), np.int32)
        self._read_pc: Array = np.zeros((readers, chunks), np.int32)
        #: Number of the load that brought a chunk (-1: threads wrote it), and which chunk of its box it is.
        self.origin: Array = np.full(chunks, -1, np.int32)
        self.place: Array = np.zeros(chunks, np.int32)

    def read(self, chunks: Array, access: Access) -> None:
        """A read of these chunks. Reports one that was never written, or written by somebody not known to be done."""
        writer = self._writer[chunks]
        if (writer == _NOBODY).any():
            self._find(Code.EMULATED_UNWRITTEN, access, chunks, writer == _NOBODY)
        time = self._time[chunks]
        unordered = access.know[HAPPENED][writer] < time
        if unordered.any():
            self._find(Code.EMULATED_RACE, access, chunks, unordered)
        if access.engine:
            unseen = self._generic[chunks] & (access.know[VISIBLE][writer] < time)
            if unseen.any():
                self._find(Code.EMULATED_PROXY, access, chunks, unseen)
        self._reads[access.agent, chunks] = np.maximum(self._reads[access.agent, chunks], access.time)
        self._read_pc[access.agent, chunks] = access.pc

    def write(self, chunks: Array, access: Access, places: Array | None = None, parts: Array | None = None) -> None:
        """A write. Reports one that others are not known to be ready for. `places`: of each chunk in its load. `parts`:
        which of its bytes are written, a bit each, if not all: one agent may write the others before it is done."""
        still = self._reads[:, chunks] > access.know[HAPPENED][: len(self._reads), None]
        if still.any():
            reader, number = np.argwhere(still)[0]
            at = int(chunks[number])
            pc = int(self._read_pc[reader, at])
            self._report(Conflict(Code.EMULATED_RACE, access, at * CHUNK, pc, "read"))
        writer = self._writer[chunks]
        known = writer != _NOBODY
        late = known & (access.know[HAPPENED][writer] < self._time[chunks])
        bytes_ = np.full(len(chunks), _ALL, np.uint16) if parts is None else parts
        beside = late & (writer == access.agent) & (self._bytes[chunks] & bytes_ == 0)
        late &= ~beside
        if late.any():
            self._find(Code.EMULATED_RACE, access, chunks, late)
        if access.engine:
            unseen = known & self._generic[chunks] & (access.know[VISIBLE][writer] < self._time[chunks])
            if unseen.any():
                self._find(Code.EMULATED_PROXY, access, chunks, unseen)
        self._bytes[chunks] = np.where(beside, self._bytes[chunks] | bytes_, bytes_)
        self._writer[chunks] = access.agent
        # lanes of one warp that have gone apart may write at earlier times than others of them did
        self._time[chunks] = np.where(writer == access.agent, np.maximum(self._time[chunks], access.time), access.time)
        self._generic[chunks] = not access.engine
        self._write[chunks] = len(self._writes)
        self._writes.append(access)
        self._reads[:, chunks] = 0
        self.origin[chunks] = access.origin
        if places is not None:
            self.place[chunks] = places

    def _find(self, code: Code, access: Access, chunks: Array, wrong: Array) -> NoReturn:
        at = int(chunks[int(wrong.argmax())])
        earlier = self._writes[int(self._write[at])] if code is not Code.EMULATED_UNWRITTEN else None
        pc, deed = (-1, "") if earlier is None else (earlier.pc, earlier.deed)
        self._report(Conflict(code, access, at * CHUNK, pc, deed))


def parts_of(chunks: Array, addresses: Array, nbytes: int) -> Array:
    """Which bytes of each of these chunks, sorted, lie in the `nbytes` from one of the addresses on: a bit each."""
    parts: Array = np.zeros(len(chunks), np.uint16)
    whose, first = addresses // CHUNK, addresses % CHUNK
    for chunk, at in zip(whose.tolist(), first.tolist(), strict=True):
        n = int(np.searchsorted(chunks, chunk))
        if n < len(chunks) and chunks[n] == chunk:
            parts[n] |= ((1 << nbytes) - 1) << at
    return parts
