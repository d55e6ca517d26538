"""Element-wise operations and folds of a plan, and the expressions that they hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.passes.interpreter.state import F32, FILL, QUAD, ROWS, Array, State, row_positions
from tilegen.ir import plan as ir


class Elements(State):
    def value(self, e: ir.ElementExpr, layout: str, cols: int) -> Any:
        """An expression at every element of a fragment of this layout (or of none: "uniform")."""
        match e:
            case ir.Element(name):
                array, held = self.read(name), self.fragment(name).layout
                if layout == "acc" and held == "row":
                    return array[:, _lane_of(cols)]
                return array
            case ir.Literal(value):
                return F32(value)
            case ir.Value(name):
                return self.floats[name]
            case ir.IntValue(value):
                return F32(self.int(value))
            case ir.Coordinate(along, origin, digit):
                line = F32(self.int(origin) + (row_positions(digit) if along == "row" else np.arange(cols)))
                return line[:, None] if along == "row" else line
            case ir.Place(row_factor, col_factor, offset, digits):
                first = 2 * np.arange(QUAD)  # the first column that each lane holds
                columns = first if layout == "row" else np.arange(cols)
                rows = row_factor * np.arange(ROWS) + sum(
                    (n * row_positions(d) for n, d in digits), np.zeros(ROWS, np.int64)
                )
                return F32(rows[:, None] + col_factor * columns + self.int(offset))
            case ir.Past():
                return F32(np.arange(cols) - 2 * _lane_of(cols))
            case ir.Compute(op, args, dtype):
                values = [self.value(a, layout, cols) for a in args]
                if not (op in _COMPARISONS and all(np.asarray(v).dtype == np.int32 for v in values)):
                    values = [np.asarray(v).astype(F32) if np.asarray(v).dtype == np.int32 else v for v in values]
                if op == "round":
                    assert dtype is not None
                    return np.asarray(values[0]).astype(dtype.numpy).astype(F32)
                with np.errstate(all="ignore"):
                    return np.asarray(_COMPUTE[op](*values)).astype(F32)
        raise NotImplementedError(type(e).__name__)

    def do_Init(self, o: ir.Init) -> None:
        self.write(o.fragment, np.asarray(F32(o.value)))

    def do_Map(self, o: ir.Map) -> None:
        f = self.fragment(o.out)
        self.write(o.out, self.value(o.value, f.layout, f.cols))

    def do_FmaOob(self, o: ir.FmaOob) -> None:
        cols = self.fragment(o.out).cols
        operands = [np.broadcast_to(self.value(e, "acc", cols), (ROWS, cols)) for e in (o.a, o.b, o.c)]
        outside = np.zeros((ROWS, cols), np.bool_)
        for e in (o.a, o.b):
            if isinstance(e, ir.Element) and self.fragment(e.fragment).layout == "pair":
                outside |= self.read(e.fragment).view(np.uint16) == FILL
        with np.errstate(all="ignore"):
            a, b, c = (x.astype(np.float64) for x in operands)
            made = (a * b + c).astype(o.dtype.numpy).astype(F32)
        self.write(o.out, np.where(outside, F32(0), made))

    def do_Mask(self, o: ir.Mask) -> None:
        cols = self.fragment(o.fragment).cols
        row, col = np.arange(ROWS)[:, None], np.arange(cols)[None, :]
        live = np.zeros((ROWS, cols), np.bool_)
        layout = self.fragment(o.fragment).layout
        for conditions in o.alternatives:
            every = np.ones((ROWS, cols), np.bool_)
            for c in conditions:
                if isinstance(c, ir.Bound):
                    at_row, at_col = self.counted(row, c.row_chunks), self.counted(col, c.col_chunks)
                    digits = sum((n * row_positions(d) for n, d in c.digits), np.zeros(ROWS, np.int64))[:, None]
                    every &= c.row_factor * at_row + digits + c.col_factor * at_col + self.int(c.offset) >= 0
                else:
                    every &= self.value(c, layout, cols) != 0
            live |= every
        self.write(o.fragment, np.where(live, self.read(o.fragment), F32(o.identity)))

    def counted(self, places: Array, chunks: ir.Chunks | None) -> Array:
        if chunks is None:
            return places
        if chunks.digit is not None:
            places = row_positions(chunks.digit)[:, None]
        found: Array = (self.int(chunks.origin) + places) // self.int(chunks.length)
        return found

    def do_RowFold(self, o: ir.RowFold) -> None:
        source = self.read(o.source)
        fold = _FOLD[o.kind]
        with np.errstate(all="ignore"):
            lanes = [fold(source[:, _lane_of(source.shape[1]) == n], axis=1) for n in range(QUAD)]
        part = np.stack(lanes, axis=1).astype(F32)
        self.write(o.out, part if o.scope == "thread" else fold(part, axis=1)[:, None])

    def do_QuadReduce(self, o: ir.QuadReduce) -> None:
        self.write(o.fragment, _FOLD[o.kind](self.read(o.fragment), axis=1)[:, None])

    def do_Relayout(self, o: ir.Relayout) -> None:
        out, source = self.fragment(o.out), self.read(o.source)
        more = out.cols - source.shape[1]
        self.write(o.out, np.pad(source, ((0, 0), (0, more))).astype(out.dtype.numpy))

    def do_CopyOperand(self, o: ir.CopyOperand) -> None:
        self.write(o.out, self.read(o.source))


def _lane_of(cols: int) -> npt.NDArray[np.int64]:
    """The lane, of four, that holds each column of an accumulator."""
    return np.arange(cols) % 8 // 2


_FOLD: dict[str, Any] = {"sum": np.sum, "max": np.max, "min": np.min}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_COMPUTE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "div_rn": np.divide,
    "neg": np.negative,
    "fma": lambda a, b, c: np.float64(a) * np.float64(b) + np.float64(c),
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda a: np.divide(1, a),
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "tanh": np.tanh,
    "tanh_approx": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "abs": np.abs,
    "floor": np.floor,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
    "ratio": lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
}
