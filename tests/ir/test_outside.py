"""Whether indices leave their dimensions, held against every position of small axes."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.outside import Outside, accesses, declared, undecided
from tilegen.sema import load
from tilegen.syntax.span import Source

SPEC = """kernel k {{ size M, N scalar p: i32 >= 1 = 1 scalar q: i32 = 0
    input X: f32[M] output Y: f32[M] else 0 axis i in M, j in N domain i, j: {condition} if {guard}
    Y[i] = sum[j](X[{index}] * (p + q + 0 * (i - j))) }}"""
SIZES = (1, 2, 3, 5)
SCALARS = tuple(product((1, 3), (-2, 0, 1)))
LARGE = (25, 26, 40)  # for the numbers below


def some_affine(rng: random.Random, axes: str) -> str:
    terms = [f"{rng.choice(('', '', '2 * '))}{a}" for a in axes if rng.random() < 0.7] or [axes[0]]
    text = f" {rng.choice('+-')} ".join(terms)
    more = rng.choice(("", "", " + M - N", " + p", " - q", " - M", " + N"))
    return f"{text}{more} {rng.choice('+-')} {rng.randrange(3)}"


def some_condition(rng: random.Random) -> str:
    def comparison() -> str:
        return f"{some_affine(rng, 'ij')} {rng.choice(('<', '<=', '>', '>=', '=='))} {rng.choice('0ijMN')}"

    joined = [f"{comparison()} {rng.choice(('and', 'or'))} {comparison()}" for _ in range(rng.randrange(1, 3))]
    return " and ".join(f"({c})" for c in (*joined, "i + j >= 0 - N"))


def leaves(condition: str, guard: str, index: str, at: dict[str, int]) -> bool:
    """Whether some position of the domain has an index outside [0, M)."""
    limited = eval(guard, {}, at)
    for i, j in product(range(at["M"]), range(at["N"])):
        here = {**at, "i": i, "j": j}
        if (not limited or eval(condition, {}, here)) and not 0 <= eval(index, {}, here) < at["M"]:
            return True
    return False


@pytest.mark.parametrize("seed", range(25))
def test_what_is_said_of_an_index_holds_at_every_position(seed: int) -> None:
    rng = random.Random(seed)
    condition, index = some_condition(rng), some_affine(rng, "ij")
    guard = rng.choice(("p > 0", "q >= 0", "p == 1", "M > N"))
    text = SPEC.format(condition=condition, guard=guard, index=index)
    try:
        program = load(Source("spec.tile", text), {})
    except TilegenError as error:
        if {d.code for d in error.diagnostics} == {"INDEX_RANGE"}:
            for (M, N), (p, q) in product(product(LARGE, LARGE), SCALARS):
                assert leaves(condition, guard, index, {"M": M, "N": N, "p": p, "q": q}), text
        return
    outside, reads, open_ones = Outside(program.scalars), accesses(declared(program)), undecided(program)
    for (M, N), (p, q) in product(product(SIZES, SIZES), SCALARS):
        at = {"M": M, "N": N, "p": p, "q": q}
        found = any(outside.at(read, at) for read in reads if read.tensor == "X")
        assert found == leaves(condition, guard, index, at), (text, at)
        assert not found or any(outside.at(read, at) for read in open_ones)
