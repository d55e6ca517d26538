"""Products of a plan, which take effect when they are issued or, `lazy`, when they are awaited."""

from __future__ import annotations

import numpy as np

from tests.passes.interpreter.state import F32, ROWS, Misuse, State
from tilegen.ir import plan as ir


class Products(State):
    def do_Mma(self, o: ir.Mma) -> None:
        at = {s.slot: self.place(s.slot) for s in (o.a, o.b) if isinstance(s, ir.SlotOperand)}

        overwrites = o.zero if isinstance(o.zero, bool) else bool(self.int(o.zero))

        def multiply() -> None:
            depth = 16 * len(o.b.offsets)
            if isinstance(o.a, ir.FragmentOperand):
                a = self.read(o.a.fragment)
            elif isinstance(o.a, ir.BufferOperand):
                a = np.moveaxis(self.staged[o.a.buffer, 0], 0, 1).reshape(ROWS, -1)[:, :depth]
            else:
                a = self.tile(o.a.slot, at[o.a.slot])
                a = a if o.a.major == "k" else a.T
                first = ROWS * self.warpgroup if o.a.warpgroup else 0
                a = a[first : first + ROWS, :depth]
            b = self.tile(o.b.slot, at[o.b.slot])
            b = b.T if o.b.major == "k" else b
            b = b[:depth, : o.n]
            assert a.shape == (ROWS, depth)
            assert b.shape == (depth, o.n)
            with np.errstate(all="ignore"):
                total = a.astype(F32) @ b.astype(F32)
            self.write(o.accumulator, total if overwrites else self.read(o.accumulator) + total)

        if self.lazy:
            self.issued.append((o.token, multiply))
        else:
            multiply()
            self.issued.append((o.token, lambda: None))

    def do_MmaCommit(self, o: ir.MmaCommit) -> None:
        assert tuple(t for t, _ in self.issued) == o.tokens
        self.flying.append((o.tokens, [f for _, f in self.issued]))
        self.issued = []

    def do_MmaWait(self, o: ir.MmaWait) -> None:
        retired: list[str] = []
        while len(self.flying) > o.pending:
            tokens, effects = self.flying.pop(0)
            retired += tokens
            for effect in effects:
                effect()
        if retired != list(o.retires):
            raise Misuse(f"a wait that is to retire {list(o.retires)} retires {retired}")
