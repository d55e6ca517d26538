"""Which bytes of the outputs a launch has written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.watch.context import Context


class Outputs:
    """Those of one launch. Of sequences none: there may be tokens that belong to none, which nobody writes."""

    def __init__(self, context: Context) -> None:
        self._program = context.program
        judged = () if context.program is None or context.program.ragged else context.tensors
        self._written = [(t, np.zeros(t.span, np.bool_)) for t in judged if t.output and t.forward]

    def by_threads(self, addresses: Array, nbytes: int) -> None:
        """Threads write so many bytes at each of these addresses."""
        first, last = int(addresses.min()), int(addresses.max())
        for tensor, written in self._written:
            if tensor.address <= first and last + nbytes <= tensor.address + tensor.span:
                at = addresses.astype(np.int64) - tensor.address
                for n in range(nbytes):
                    written[at + n] = True

    def by_box(self, address: int, counts: Sequence[int], pitches: Sequence[int]) -> None:
        """TMA writes a box: `counts` along each dimension, `pitches` bytes apart; the innermost counts bytes."""
        span = sum((n - 1) * p for n, p in zip(counts, pitches, strict=True)) + 1
        for tensor, written in self._written:
            if tensor.address <= address and address + span <= tensor.address + tensor.span:
                np.lib.stride_tricks.as_strided(written[address - tensor.address :], counts, pitches)[...] = True

    def judge(self) -> None:
        """The launch has ended. Raises TilegenError for an element of an output that nothing has written."""
        for tensor, written in self._written:
            every = np.lib.stride_tricks.as_strided(written, tensor.shape, tensor.strides)
            if not every.all():
                index = ", ".join(str(n) for n in np.argwhere(~every)[0])
                span = None if self._program is None else self._program.definition(tensor.name).span
                fail(Code.EMULATED_OUTPUT, span, output=tensor.name, index=index, count=int((~every).sum()))
