"""What a plan moves between tensors and registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from tests.passes.interpreter.state import F32, QUAD, ROWS, State, row_positions
from tilegen.ir import plan as ir


class Tensors(State):
    def do_Mend(self, o: ir.Mend) -> None:
        tensor, acc = self.tensors[o.tensor], self.read(o.fragment).copy()
        sees = self.read(o.live) != 0
        index = [self.int(i) for i in o.index]
        cols = min(acc.shape[1], self.int(o.col_limit) - index[o.col_dim])
        for n in range(self.int(o.count)):
            where: list[int | slice] = list(index)
            where[o.dim] = index[o.dim] + n
            where[o.col_dim] = slice(index[o.col_dim], index[o.col_dim] + cols)
            entries = tensor[tuple(where)].astype(F32)
            added = sees[:, n, None] & ~np.isfinite(entries)
            with np.errstate(invalid="ignore"):
                acc[:, :cols] = np.where(added, acc[:, :cols] + entries, acc[:, :cols])
        self.write(o.fragment, acc)

    def do_LoadVector(self, o: ir.LoadVector) -> None:
        tensor = self.tensors[o.tensor]
        index = [self.int(i) for i in o.index]
        limit = self.int(o.limit)
        count = ROWS if self.fragment(o.out).layout == "row" else self.fragment(o.out).cols
        found = np.zeros(count, self.fragment(o.out).dtype.numpy)
        for n, step in enumerate(row_positions(o.digit) if self.is_row(o.out) else range(count)):
            at = index[o.dim] + int(step)
            if at < limit:
                found[n] = tensor[(*index[: o.dim], at, *index[o.dim + 1 :])]
        self.write(o.out, np.repeat(found[:, None], QUAD, axis=1) if count == ROWS and self.is_row(o.out) else found)

    def do_StoreRows(self, o: ir.StoreRows) -> None:
        tensor, source = self.tensors[o.tensor], self.read(o.fragment)
        index = [self.int(i) for i in o.index]
        cols = min(source.shape[1], self.int(o.col_limit) - index[o.col_dim])
        if o.shared:
            for n, at in self.rows(o.shared, index):
                at[o.col_dim] = slice(index[o.col_dim], index[o.col_dim] + max(cols, 0))
                tensor[tuple(at)] = source[n, : max(cols, 0)].astype(tensor.dtype)
            return
        rows = min(ROWS, self.int(o.row_limit) - index[o.row_dim])
        if rows <= 0 or cols <= 0:
            return
        where: list[int | slice] = list(index)
        where[o.row_dim] = slice(index[o.row_dim], index[o.row_dim] + rows)
        where[o.col_dim] = slice(index[o.col_dim], index[o.col_dim] + cols)
        assert o.row_dim < o.col_dim == tensor.ndim - 1
        tensor[tuple(where)] = source[:rows, :cols].astype(tensor.dtype)

    def do_StoreVector(self, o: ir.StoreVector) -> None:
        tensor, source = self.tensors[o.tensor], self.read(o.fragment)
        index = [self.int(i) for i in o.index]
        if o.shared:
            for n, at in self.rows(o.shared, index):
                tensor[tuple(at)] = source[n, 0].astype(tensor.dtype)
            return
        rows = min(ROWS, self.int(o.limit) - index[o.dim])
        if rows > 0:
            where: list[int | slice] = list(index)
            where[o.dim] = slice(index[o.dim], index[o.dim] + rows)
            tensor[tuple(where)] = source[:rows, 0].astype(tensor.dtype)

    def rows(self, shared: tuple[ir.RowStep, ...], index: list[int]) -> Iterator[tuple[int, list[int | slice]]]:
        """Each row that exists, with its index in the tensor."""
        for n in range(ROWS):
            at: list[int | slice] = list(index)
            for x in shared:
                at[x.dim] = index[x.dim] + int(row_positions(x.digit)[n])
            if all(cast("int", at[x.dim]) < self.int(x.limit) for x in shared):
                yield n, at
