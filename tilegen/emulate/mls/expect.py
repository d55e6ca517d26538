"""What the braces of an instruction say, at the moment when a wave executes it: the addresses of the elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilegen.emulate.mls.memory import Tensor
from tilegen.targets.mls.program import SGPR, VGPR, Access, Part

if TYPE_CHECKING:
    from tilegen.emulate.mls.wave import Wave

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Expected:
    """addresses: of each pair of bytes that an instruction moves, in its order; inside: which of them belong to
    elements that are to be moved (None: all)."""

    addresses: _Ints
    inside: npt.NDArray[np.bool_] | None

    def among(self, kept: npt.NDArray[np.bool_] | None) -> Expected:
        """What is said of some of the pairs (None: all)."""
        if kept is None:
            return self
        return Expected(self.addresses[kept], None if self.inside is None else self.inside[kept])


@dataclass(frozen=True)
class _Axis:
    constant: int
    scalars: tuple[Part, ...]
    lanes: tuple[Part, ...]
    pattern: _Ints | None  # what `line` and `run` contribute to each pair
    low: int  # the pattern's extremes
    high: int
    limit: SGPR | int | None


class Expectation:
    """The braces of one instruction. line, run: of each pair of bytes that it moves; byte: of the pair inside its
    element. lanes: the lane of each pair, for instructions whose coordinates may vary by lane."""

    def __init__(
        self, access: Access, tensor: Tensor, line: _Ints, run: _Ints, byte: _Ints, lanes: _Ints | None
    ) -> None:
        self.tensor = tensor
        self._lanes = lanes
        self._axes = tuple(_axis(c.parts, c.constant, c.limit, line, run) for c in access.coordinates)
        offsets = byte.copy()
        for axis, stride in zip(self._axes, tensor.strides, strict=True):
            if axis.pattern is not None:
                offsets += axis.pattern * stride
        self._offsets = offsets

    def evaluate(self, wave: Wave) -> Expected:
        tensor = self.tensor
        address = tensor.base
        addresses = self._offsets
        inside: npt.NDArray[np.bool_] | None = None
        for axis, stride, extent in zip(self._axes, tensor.strides, tensor.shape, strict=True):
            scalar = _scalar(wave, axis)
            address += scalar * stride
            bound = extent if axis.limit is None else min(extent, _limit(wave, axis.limit))
            position: _Ints | int = scalar
            low, high = scalar + axis.low, scalar + axis.high
            if axis.lanes:
                assert self._lanes is not None
                varying = sum((_lane_values(wave, p)[self._lanes] for p in axis.lanes), np.zeros(1, np.int64))
                addresses = addresses + varying * stride
                position = scalar + varying
                low, high = low + int(varying.min()), high + int(varying.max())
            if low >= 0 and high < bound:
                continue
            if axis.pattern is not None:
                position = position + axis.pattern
            here = np.broadcast_to((np.asarray(position) >= 0) & (np.asarray(position) < bound), addresses.shape)
            inside = here if inside is None else inside & here
        return Expected(addresses + address, inside)

    def element(self, wave: Wave, pair: int) -> str:
        """The element that one of the pairs belongs to, in words: also where the tensor has none there."""
        found = []
        for axis in self._axes:
            position = _scalar(wave, axis) + (0 if axis.pattern is None else int(axis.pattern[pair]))
            if axis.lanes and self._lanes is not None:
                position += sum(int(_lane_values(wave, p)[self._lanes[pair]]) for p in axis.lanes)
            found.append(str(position))
        return f"{self.tensor.name}[{', '.join(found)}]"


def _axis(parts: tuple[Part, ...], constant: int, limit: SGPR | int | None, line: _Ints, run: _Ints) -> _Axis:
    scalars = tuple(p for p in parts if isinstance(p.of, SGPR))
    lanes = tuple(p for p in parts if isinstance(p.of, VGPR))
    named = [_applied(line if p.of == "line" else run, p) for p in parts if isinstance(p.of, str)]
    if not named:
        return _Axis(constant, scalars, lanes, None, 0, 0, limit)
    pattern = np.sum(named, axis=0)
    return _Axis(constant, scalars, lanes, pattern, int(pattern.min()), int(pattern.max()), limit)


def _scalar(wave: Wave, axis: _Axis) -> int:
    return axis.constant + sum(_value(wave.signed(p.of.index), p) for p in axis.scalars if isinstance(p.of, SGPR))


def _applied(values: _Ints, part: Part) -> _Ints:
    taken: _Ints = values % part.divisor if part.rest else values // part.divisor
    return taken * part.factor


def _value(value: int, part: Part) -> int:
    return part.factor * (value % part.divisor if part.rest else value // part.divisor)


def _lane_values(wave: Wave, part: Part) -> _Ints:
    assert isinstance(part.of, VGPR)
    return _applied(wave.vi[part.of.index].astype(np.int64), part)


def _limit(wave: Wave, limit: SGPR | int) -> int:
    return wave.signed(limit.index) if isinstance(limit, SGPR) else limit
