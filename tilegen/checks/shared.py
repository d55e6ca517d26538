"""Shared memory in a run: who wrote each piece, who has read it since, and whether two accesses are ordered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from tilegen.checks.clocks import Clock, Stamps
from tilegen.diagnostics.catalogue import Code
from tilegen.ir import plan as ir
from tilegen.ir.plan_text import Path


class Site(NamedTuple):
    """An operation as one process runs it."""

    process: str
    operation: ir.Operation
    path: Path


@dataclass(eq=False)
class Flight:
    """Reads of an asynchronous engine, not known to be over."""

    site: Site
    pieces: tuple[int, ...]


class _Write(NamedTuple):
    """`stamps`: known to those for whom the write has happened. `content`: what the bytes now are."""

    site: Site
    stamps: Stamps
    content: Hashable
    asynchronous: bool


@dataclass
class _Piece:
    write: _Write | None = None
    reads: dict[int, tuple[int, Site]] = field(default_factory=dict)  # agent -> its last read
    flights: list[Flight] = field(default_factory=list)


# (code, the later access, the earlier one, what the earlier one did)
Report = Callable[[Code, Site, Site | None, str], None]


class SharedMemory:
    """Pieces of shared memory. Faults go to `report`; each access reports its first."""

    def __init__(self, pieces: int, report: Report) -> None:
        self._pieces = [_Piece() for _ in range(pieces)]
        self._report = report

    def write(
        self, site: Site, pieces: tuple[int, ...], content: Hashable, stamps: Stamps, clock: Clock, asynchronous: bool
    ) -> None:
        """A write that begins with the knowledge `clock` and is over for those who know `stamps`."""
        faulty = False
        for number in pieces:
            piece = self._pieces[number]
            faulty = faulty or self._may_not_write(site, piece, content, clock, asynchronous)
            before = () if piece.write is None or not _shared_out(site, content, piece.write) else piece.write.stamps
            piece.write = _Write(site, (*before, *stamps), content, asynchronous)
            piece.reads.clear()
            piece.flights.clear()

    def read(self, site: Site, pieces: tuple[int, ...], content: Hashable, stamps: Stamps, clock: Clock) -> None:
        """A read by threads, over for those who know `stamps`."""
        self._begin(site, pieces, content, clock, False)
        for number in pieces:
            for agent, event in stamps:
                self._pieces[number].reads[agent] = (event, site)

    def fly(self, site: Site, pieces: tuple[int, ...], content: Hashable, clock: Clock) -> Flight:
        """Begin a read by an asynchronous engine."""
        self._begin(site, pieces, content, clock, True)
        flight = Flight(site, pieces)
        for number in pieces:
            self._pieces[number].flights.append(flight)
        return flight

    def land(self, flight: Flight, stamps: Stamps) -> None:
        """The flight's reads are over for those who know `stamps`."""
        for number in flight.pieces:
            piece = self._pieces[number]
            if flight in piece.flights:
                piece.flights.remove(flight)
                for agent, event in stamps:
                    piece.reads[agent] = (event, flight.site)

    def _begin(self, site: Site, pieces: tuple[int, ...], content: Hashable, clock: Clock, asynchronous: bool) -> None:
        for number in pieces:
            write = self._pieces[number].write
            if write is None:
                return self._report(Code.PIPELINE_STALE, site, None, "nothing was written there")
            if write.content != content:
                return self._report(Code.PIPELINE_STALE, site, write.site, "written here")
            if not clock.knows(write.stamps) and not _shared_out(site, content, write):
                return self._report(Code.PIPELINE_UNORDERED, site, write.site, "written here")
            if asynchronous and not write.asynchronous and not clock.has_fenced(write.stamps):
                return self._report(Code.PIPELINE_FENCE, site, write.site, "written here")
        return None

    def _may_not_write(self, site: Site, piece: _Piece, content: Hashable, clock: Clock, asynchronous: bool) -> bool:
        if piece.flights:
            self._report(Code.PIPELINE_UNORDERED, site, piece.flights[0].site, "still being read here")
            return True
        for agent, (event, reader) in piece.reads.items():
            if not clock.knows(((agent, event),)):
                self._report(Code.PIPELINE_UNORDERED, site, reader, "read here")
                return True
        write = piece.write
        if write is None:
            return False
        fine = _again(site, write.site) or _shared_out(site, content, write)
        if not clock.knows(write.stamps) and not fine:
            self._report(Code.PIPELINE_UNORDERED, site, write.site, "written here")
            return True
        if asynchronous and not write.asynchronous and not clock.has_fenced(write.stamps):
            self._report(Code.PIPELINE_FENCE, site, write.site, "written here")
            return True
        return False


def _shared_out(site: Site, content: Hashable, before: _Write) -> bool:
    """Whether warpgroups of one role copy a tile, or look through it, together: each writes other bytes of it."""
    together = isinstance(site.operation, ir.CopyTile | ir.ScanSlot) and site.path == before.site.path
    return together and before.content == content and before.site.process != site.process


def _again(site: Site, before: Site) -> bool:
    """Whether the same threads write the same bytes, each its own."""
    one, other = site.operation, before.operation
    if not isinstance(one, ir.WriteShared) or not isinstance(other, ir.WriteShared):
        return False
    return (site.process, one.buffer) == (before.process, other.buffer)
