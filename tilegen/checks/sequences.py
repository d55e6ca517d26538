"""Lengths of sequences in the checks' runs: a symbol `S.n` for the length of sequence n of the ragged size S."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tilegen.ir.deal import DealError
from tilegen.ir.plan import Sequences
from tilegen.ir.uniform import evaluate


def length_symbol(size: str, sequence: int) -> str:
    return f"{size}.{sequence}"


def starts_of(q: Sequences, symbols: Mapping[str, int]) -> dict[str, npt.NDArray[np.int64]]:
    """The tensors of starts at these lengths. Raises DealError where a sequence has none."""
    count = evaluate(q.count, symbols)
    if any(length_symbol(x.length, count - 1) not in symbols for x in q.lengths if count > 0):
        raise DealError("there are more sequences than the sizes that count them say")
    lengths = {x.starts: [symbols[length_symbol(x.length, n)] for n in range(count)] for x in q.lengths}
    return {name: np.concatenate([[0], np.cumsum(each)]).astype(np.int64) for name, each in lengths.items()}
