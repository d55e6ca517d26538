"""Threads that part at branches around arithmetic, as compilers make them of conditional expressions: what registers
hold is followed all the same, and a fault is still seen."""

from __future__ import annotations

import re
from itertools import count

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen.diagnostics.core import TilegenError

SPEC = """
kernel masked(T: bf16 | f16 = bf16) {
  size   S
  input  Q: T[S, 64]
  input  K: T[S, 64]
  input  V: T[S, 64]
  output O: T[S, 64]
  axis   i in S, j in S
  DOMAIN
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  tile v[j, e] = V[j, e]
  s[i, j] = sum[d](q[i, d] * k[j, d]) / 8
  p[i, j] = softmax[j](SCORE)
  O[i, e] = sum[j](T(p[i, j]) * v[j, e])
}
"""
# (domain, scores): each a condition of rows and columns, with arithmetic in it or behind it
MASKS = {
    "scores behind a condition": ("", "where(j <= i, s[i, j], -inf)"),
    "more of them": ("", "where(j <= i and (2 * j > i or s[i, j] > 0), -s[i, j] * 2 + j, where(j < 70, 1.0, -inf))"),
    "a condition with arithmetic": ("domain i, j: j <= 0.5 * i", "s[i, j]"),
    "both": ("domain i, j: j <= 0.5 * i + 3", "where(1.5 * j > i, -(-s[i, j]), 0)"),
}
_SELECT = re.compile(r"selp\.f32\s+(%\w+), (%?\w+), (%?\w+), (%p\d+);")


def spec(name: str) -> str:
    domain, scores = MASKS[name]
    return SPEC.replace("DOMAIN", domain).replace("SCORE", scores)


def kernel(name: str) -> tilegen.Kernel:
    return tilegen.compile(spec(name))


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.standard_normal((72, 64)).astype(ml_dtypes.bfloat16) for name in "QKV"}


def with_branches(ptx: str) -> str:
    """Each choice between a value and a number as a branch around a move."""
    number = count()

    def branch(m: re.Match[str]) -> str:
        to, yes, no, predicate = m.groups()
        if yes.startswith("%") == no.startswith("%"):
            return m[0]
        not_, first, second = ("!", no, yes) if yes.startswith("%") else ("", yes, no)
        assert to != second
        label = f"$L_parted_{next(number)}"
        return f"mov.f32 {to}, {first};\n@{not_}{predicate} bra {label};\nmov.f32 {to}, {second};\n{label}:"

    changed = _SELECT.sub(branch, ptx)
    assert changed != ptx
    return changed


@pytest.mark.parametrize("name", MASKS)
def test_masks_are_followed(name: str) -> None:
    kernel(name).emulate(arrays())


@pytest.mark.parametrize("name", MASKS)
def test_masks_by_branches_are_followed(name: str) -> None:
    k = kernel(name)
    wanted = k.emulate(arrays())
    assert np.array_equal(k.emulate(arrays(), ptx=with_branches(k.ptx)), wanted)


def test_no_branch_is_made_around_an_element() -> None:
    k = kernel("more of them")
    forward = [line for line in k.ptx.splitlines() if re.search(r"@!?%p\d+ bra", line)]
    assert len(forward) < 40  # of each block, an element at a time, there would be a hundred
    assert "choose(" in k.cuda


def test_mixed_columns_are_seen_behind_branches() -> None:
    k = kernel("scores behind a condition")
    lines = with_branches(k.ptx).splitlines()
    packs = [n for n, line in enumerate(lines) if line.strip().startswith("cvt.rn.bf16x2.f32")]
    first, second = packs[0], packs[1]
    (a,), (b,) = (re.findall(r"cvt\S+\s+(%r\d+)", lines[n]) for n in (first, second))
    lines[first], lines[second] = lines[first].replace(a, b), lines[second].replace(b, a)
    with pytest.raises(TilegenError, match="EMULATED_TILE"):
        k.emulate(arrays(), ptx="\n".join(lines))
