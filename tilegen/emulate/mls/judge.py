"""Holds what an instruction moved against what its braces say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.expect import Expectation
from tilegen.emulate.mls.faults import FaultError
from tilegen.emulate.mls.lds import FILLED, LANES, NEVER, Index, Lds
from tilegen.emulate.mls.memory import Tensor
from tilegen.emulate.mls.wave import Wave

if TYPE_CHECKING:
    from tilegen.emulate.mls.operation import Context

_Bools = npt.NDArray[np.bool_]
_Ints = npt.NDArray[np.int64]


def judge_load(expectation: Expectation, wave: Wave, kept: _Bools | None, sources: _Ints) -> None:
    """Raise FaultError unless each pair of bytes that a load brings (`kept`; None: all) is the one it is to bring."""
    expected = expectation.evaluate(wave)
    wrong = sources != expected.addresses
    if expected.inside is not None:
        wrong = wrong | ~expected.inside
    if kept is not None:
        wrong = wrong & kept
    if wrong.any():
        first = int(np.argmax(wrong))
        source = int(sources[first])
        wanted = expectation.element(wave, first)
        if source != int(expected.addresses[first]):
            raise _misplaced(source, int(expected.addresses[first]), wanted, expectation.tensor)
        what = f"it brings {wanted} at {source:#x}, which lies outside what is to be loaded: the filter is too small"
        raise FaultError(Code.MLS_WRONG_ELEMENT, what)


def judge_lanes(expectation: Expectation, wave: Wave, among: _Bools, addresses: _Ints, verb: str) -> None:
    """Raise FaultError unless lanes read or write the very elements that they are to. among: which of the pairs that
    the braces speak of are those at `addresses`."""
    expected = expectation.evaluate(wave).among(among)
    wrong = addresses != expected.addresses
    if expected.inside is not None:
        wrong = wrong | ~expected.inside
    if wrong.any():
        first = int(np.argmax(wrong))
        source = int(addresses[first])
        wanted = expectation.element(wave, _which(among, first))
        if source != int(expected.addresses[first]):
            raise _misplaced(source, int(expected.addresses[first]), wanted, expectation.tensor)
        what = f"a lane {verb} {wanted} at {source:#x}, which lies outside what it is to touch"
        raise FaultError(Code.MLS_WRONG_ELEMENT, what)


def _which(among: _Bools | None, number: int) -> int:
    """The place, among all pairs, of one of the kept."""
    return number if among is None else int(np.flatnonzero(among)[number])


def _misplaced(source: int, address: int, wanted: str, tensor: Tensor) -> FaultError:
    if (source - address) % (1 << 32) == 0:
        return FaultError(
            Code.MLS_CARRY,
            f"{wanted} lies at {address:#x}, and {source:#x} is accessed: {abs(source - address) >> 32} × 4 GiB "
            f"{'below' if source < address else 'above'}; a carry between the words of the address is lost",
        )
    there = tensor.element(source) if tensor.base <= source < tensor.end else f"no element of {tensor.name}"
    return FaultError(
        Code.MLS_WRONG_ELEMENT,
        f"{wanted} is meant, at {address:#x}, and {source:#x} is accessed, which is {there}",
    )


def judge_read(
    lds: Lds, at: Index, expectation: Expectation | None, wave: Wave, context: Context, among: _Bools | None = None
) -> None:
    """Raise FaultError unless the pairs of LDS that are read hold what they are to hold: always something that was
    written; where the braces name elements, those, and zeros outside. among: which of the pairs that the braces speak
    of are read (None: all)."""
    origins = lds.origin[at]
    never = origins == NEVER
    if never.any():
        bad = int(np.argmax(never))
        wanted = ""
        if expectation is not None:
            wanted = f", where {expectation.element(wave, _which(among, bad))} was to be"
        what = f"{2 * int(never.sum())} bytes of LDS, from byte {2 * int(at[bad])} on, were never written{wanted}"
        raise FaultError(Code.MLS_DIRTY_LDS, what)
    if expectation is None:
        return
    expected = expectation.evaluate(wave).among(among)
    if expected.inside is None:
        wrong = origins != expected.addresses
    else:
        zero = (origins == FILLED) | ((origins == LANES) & (lds.data[at] == 0))
        wrong = np.where(expected.inside, origins != expected.addresses, ~zero)
    if wrong.any():
        bad = int(np.argmax(wrong))
        wanted = expectation.element(wave, _which(among, bad))
        line = lds.writer(int(at[bad]))
        place = f"byte {2 * int(at[bad])} of LDS ({2 * int(wrong.sum())} bytes are wrong; line {line} wrote it)"
        inside = expected.inside is None or bool(expected.inside[bad])
        raise _wrong_read(int(origins[bad]), int(expected.addresses[bad]), wanted, place, inside, context)


def _wrong_read(origin: int, address: int, wanted: str, place: str, inside: bool, context: Context) -> FaultError:
    """The fault of a read that is to find `wanted` (or zeros, where that is not `inside`) and finds another origin."""
    if origin == FILLED:
        what = f"{wanted} of {address:#x} is to be read, and {place} is zero fill: the filter is too large"
        return FaultError(Code.MLS_WRONG_ELEMENT, what)
    if origin == LANES:
        want = wanted if inside else f"zeros, for {wanted} lies outside,"
        return FaultError(Code.MLS_WRONG_ELEMENT, f"{want} is to be read, and {place} holds what lanes wrote")
    holds = f"{context.memory.describe(origin).removeprefix('it is ')} of {origin:#x}"
    if inside:
        what = f"{wanted} of {address:#x} is to be read, and {place} holds {holds}"
        return FaultError(Code.MLS_WRONG_ELEMENT, what)
    if origin == address:
        what = f"{place} holds {holds}, which lies outside what is to be read: the filter is too small"
        return FaultError(Code.MLS_WRONG_ELEMENT, what)
    return FaultError(
        Code.MLS_DIRTY_LDS,
        f"{place} is stale: it holds {holds}, of an earlier load, and zeros are to be read, for {wanted} lies outside",
    )
