"""Names, loops and branches of a plan."""

from __future__ import annotations

import numpy as np

from tests.passes.interpreter.elements import Elements
from tests.passes.interpreter.state import F32, ROWS
from tilegen.ir import plan as ir
from tilegen.ir.deal import deal, deal_sequences


class Control(Elements):
    def do_Let(self, o: ir.Let) -> None:
        self.names[o.name] = self.int(o.value)

    def do_LetFloat(self, o: ir.LetFloat) -> None:
        if o.load is not None:
            tensor, index = o.load
            found = self.tensors[tensor][tuple(self.int(i) for i in index)]
            self.floats[o.name] = found if found.dtype == np.int32 else F32(found)
        else:
            assert o.value is not None
            self.floats[o.name] = F32(self.value(o.value, "uniform", 1))

    def do_Work(self, o: ir.Work) -> None:
        total = self.int(o.total)
        rows: list[list[int]] = [[n] for n in range(self.cta, total, self.ctas)]
        if o.mode == "single":
            rows = rows[:1]
        elif o.mode == "table":
            assert self.plan.table is not None
            table = self.plan.table
            if table.sequences is None:
                dealt = deal(table, self.names, self.ctas)[:, self.cta]
            else:
                starts = {x.starts: self.tensors[x.starts] for x in table.sequences.lengths}
                dealt = deal_sequences(table, self.names, starts, self.ctas)[:, self.cta]
            end = next(n for n, row in enumerate(dealt) if row[0] >= total)
            rows = [list(map(int, row)) for row in dealt[:end]]
        for row in rows:
            fields = self.plan.table.fields if self.plan.table else ()
            given = dict(zip((o.index, *fields), row, strict=False))
            self.names |= {name: given[name] for name in (o.index, *o.fields)}
            self.body(o.body)

    def do_For(self, o: ir.For) -> None:
        for n in range(self.int(o.start), self.int(o.stop)):
            self.names[o.var] = n
            self.body(o.body)

    def do_If(self, o: ir.If) -> None:
        if self.int(o.condition):
            self.body(o.body)

    def do_Sweep(self, o: ir.Sweep) -> None:
        self.body(o.body)

    def do_IfVote(self, o: ir.IfVote) -> None:
        """Warp by warp: the rows of warps that do not take the branch keep what they have."""
        taken = self.read(o.fragment).reshape(4, -1).any(axis=1)
        before = {name: array.copy() for name, array in self.registers.items()}
        floats = dict(self.floats)
        staged = {place: array.copy() for place, array in self.staged.items()}
        self.body(o.body)
        for name, array in before.items():
            if len(array) == ROWS:
                stays = np.repeat(~taken, ROWS // 4)
                self.registers[name][stays] = array[stays]
        for place, array in staged.items():
            stays = np.repeat(~taken, ROWS // 4)
            self.staged[place][:, stays] = array[:, stays]
        self.floats = floats

    def do_IfSpoiled(self, o: ir.IfSpoiled) -> None:
        if o.ring in self.shared.spoiled:
            self.body(o.body)
