"""Tiles loaded once for a cluster of CTAs, in the emulator, watched: the oracle's values at sizes of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilegen
from tests.passes.specs import loaded, schedule_of, text_of
from tilegen.oracle import batch_axes, compare, evaluate, poisoned, random_inputs, scalar_values
from tilegen.passes.pipeline import lower

BLOCKS = "block m 128, n 64, k 64 consumers 2 over m stages a 2, b 2"

# Heads share keys and a bias, an odd number of them; a slope is read at each head's own place.
HEADS = """kernel heads {
  size   H, M, N
  input  Q: bf16[H, M, 64]
  input  K: bf16[N, 64]
  input  Bias: bf16[M, N]
  input  slope: f32[H]
  output top: f32[H, M]

  axis   h in H, i in M, j in N
  domain i, j: j <= i + N - M

  tile q[i, d]    = Q[h, i, d]
  tile k[j, d]    = K[j, d]
  tile bias[i, j] = Bias[i, j]

  s[i, j] = slope[h] * sum[d](q[i, d] * k[j, d]) + bias[i, j]
  top[h, i] = max[j](s[i, j])

  schedule hopper { block h 1, i 64, j 64 consumers 1 over i stages k 2, bias 2 multicast k over h, bias over h SINGLE }
}"""

CASES: dict[str, tuple[str, dict[str, Any], list[dict[str, int]]]] = {
    "b over m": (
        schedule_of(text_of("gemm"), f"{BLOCKS} multicast b over m persistent static group m by 4"),
        {},
        [{"M": 300, "N": 136, "K": 200}, {"M": 1, "N": 8, "K": 8}, {"M": 256, "N": 64, "K": 0}],
    ),
    "both, eight CTAs": (
        schedule_of(text_of("gemm"), f"{BLOCKS} multicast a over n by 4, b over m"),
        {},
        [{"M": 129, "N": 328, "K": 136}],
    ),
    "rows, stored by TMA": (
        schedule_of(text_of("gemm"), f"{BLOCKS} via C tma multicast b over m by 4 persistent static"),
        {},
        [{"M": 700, "N": 72, "K": 72}],
    ),
    "two tiles of one axis": (
        schedule_of(
            text_of("swiglu"),
            "block m 128, n 64, k 64 consumers 2 over m stages x 2, w1 2, w2 2"
            " multicast w1 over m, w2 over m, x over n persistent static",
        ),
        {},
        [{"M": 300, "N": 72, "K": 136}],
    ),
    "looked through": (
        schedule_of(
            text_of("fa3_fwd"),
            "block i 128, j 64 consumers 2 over i stages k 2, v 2 late O by 1 batch O, s stale_max walk j down"
            " skip_rows persistent static order longest_first multicast k over i, v over i",
        ),
        {"D": 64, "causal": True},
        [{"B": 1, "Sq": 300, "Sk": 200, "Hk": 1, "G": 1}, {"B": 1, "Sq": 70, "Sk": 130, "Hk": 1, "G": 2}],
    ),
    "rows of two axes": (
        schedule_of(
            text_of("attention_decode").replace("I: 1 | 4 | 8 | 16 = 8, R: 4 | 8 | 16 | 64 = 8,", ""),
            "block i 8, r 8, j 64 consumers 1 over i, r stages k 2, v 2 multicast k over i, v over r",
        ),
        {"D": 64},
        [{"B": 1, "Sq": 17, "Sk": 90, "Hk": 1, "G": 9}],
    ),
    "heads": (HEADS.replace("SINGLE", ""), {}, [{"H": 3, "M": 70, "N": 104}, {"H": 1, "M": 64, "N": 8}]),
    "heads, one after the other": (HEADS.replace("SINGLE", "persistent static"), {}, [{"H": 5, "M": 70, "N": 104}]),
}


@pytest.mark.parametrize(("text", "params", "sizes"), CASES.values(), ids=CASES)
def test_the_numbers_are_the_oracle_s(text: str, params: dict[str, Any], sizes: list[dict[str, int]]) -> None:
    kernel = tilegen.compile(text, **params)
    program = kernel.program
    for n, each in enumerate(sizes):
        scalars, inputs = scalar_values(program, each, {}), random_inputs(program, each, n)
        outputs = poisoned(program, each)
        kernel.emulate({**inputs, **outputs, **scalars})
        for name, result in evaluate(program, each, scalars, inputs).items():
            assert compare(result, outputs[name], batch_axes(program, name)).right, (each, name)


def test_bits_are_those_of_ctas_that_load_their_own() -> None:
    directives = f"{BLOCKS} persistent static"
    sizes = {"M": 400, "N": 200, "K": 328}
    found = []
    for more in ("", "multicast b over m", "multicast a over n by 4"):
        kernel = tilegen.compile(schedule_of(text_of("gemm"), f"{directives} {more}"))
        found.append(kernel.emulate(random_inputs(kernel.program, sizes, 0)))
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_a_single_cta_makes_no_cluster() -> None:
    """What a parameter turns off leaves no trace."""
    alone, plain = (schedule_of(text_of("gemm"), f"{BLOCKS} {d}") for d in ("multicast b over m by 1", ""))
    assert lower(loaded(alone)).rings == lower(loaded(plain)).rings
    assert lower(loaded(alone)).cluster == 1
