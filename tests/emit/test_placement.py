"""Products whose first factor goes through shared memory: the same bits as from registers, and the machine code."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from tests.emit.running import random, run
from tests.passes.specs import loaded, schedule_of, text_of
from tilegen.checks.trials import check_all
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.tile import ParamValue
from tilegen.passes.pipeline import lower
from tilegen.targets.hopper.build import build

Arrays = dict[str, npt.NDArray[np.generic]]

CHAIN = """kernel chain(T: bf16 | f16 = bf16, H: 24 | 40 | 64 = 24) {
  size   M
  input  A: T[M, 64]
  input  B: T[H, 64]
  input  V: T[H, 72]
  output C: f32[M, 72]
  tile a[i, d] = A[i, d]
  tile b[j, d] = B[j, d]
  tile v[j, e] = V[j, e]
  s[i, j] = sum[d](a[i, d] * b[j, d]) / 8
  w[i, j] = T(max(s[i, j], 0))
  C[i, e] = sum[j](w[i, j] * v[j, e])
}"""


@cache
def plan(text: str, directives: str, **params: ParamValue) -> ir.Plan:
    return lower(loaded(schedule_of(text, directives), **params))


def both(text: str, directives: str, name: str, inputs: Arrays, sizes: dict[str, int], **params: ParamValue) -> Arrays:
    """The outputs, which are the same with the factor in registers and in shared memory."""
    here, there = (plan(text, f"{directives} place {name} {where}", **params) for where in ("shared", "registers"))
    factors = [o.a for _, _, o in all_operations(here) if isinstance(o, ir.Mma)]
    assert any(isinstance(a, ir.BufferOperand) for a in factors)
    assert not any(isinstance(a, ir.FragmentOperand) for a in factors)
    assert check_all(here) == []
    scalars = {"scale": 0.125} if "scalar scale" in text else {}
    found, wanted = (run(p, inputs, scalars, sizes) for p in (here, there))
    for output, values in wanted.items():
        assert np.isfinite(values.astype(np.float64)).all()
        assert np.array_equal(found[output].view(np.uint8), values.view(np.uint8)), output
    return found


def attention_inputs(Sq: int, Sk: int, dtype: DType) -> Arrays:
    """Scores that grow along the keys, so that kept exponents are outgrown."""
    q, k, v = (random((1, n, h, 64), dtype, seed) for seed, (n, h) in enumerate(((Sq, 2), (Sk, 1), (Sk, 1))))
    grown = k.astype(np.float32) * np.linspace(0.2, 30, Sk, dtype=np.float32)[None, :, None, None]
    return {"Q": q, "K": grown.astype(dtype.numpy), "V": v}


SCHEDULES = [
    ("block i 64, j 64 consumers 1 over i late O by 1 batch O, s stale_max", {}),
    (
        "block i 128, j 80 consumers 2 over i stages k 2, v 2 late O by 1 batch O, s take_turns over s, O stale_max"
        " skip_rows walk j down persistent table",
        {"causal": True},
    ),
    ("block i 64, j 48 consumers 1 over i stages k 2, v 2 via O tma", {"causal": True, "T": DType.F16}),
]


@pytest.mark.parametrize(("directives", "params"), SCHEDULES)
def test_attention_gives_the_same_bits(directives: str, params: dict[str, ParamValue]) -> None:
    dtype = params.get("T", DType.BF16)
    assert isinstance(dtype, DType)
    inputs = attention_inputs(71, 203, dtype)
    sizes = {"B": 1, "G": 2, "Hk": 1}
    out = both(text_of("fa3_fwd"), directives, "p", inputs, sizes, **{"D": 64, **params})
    q, k, v = (inputs[name].astype(np.float64) for name in ("Q", "K", "V"))
    s = np.einsum("bihd,bjxd->bhij", q, k) / 8
    if params.get("causal"):
        i, j = np.indices(s.shape[2:])
        s = np.where(j <= i + 203 - 71, s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    lse = np.log(p.sum(-1)) + top[..., 0]
    assert np.abs(out["LSE"] - lse).max() <= 1e-3
    exact = np.einsum("bhij,bjxd->bihd", p / p.sum(-1, keepdims=True), v)
    assert np.linalg.norm(out["O"].astype(np.float64) - exact) / np.linalg.norm(exact) <= 4e-3


@pytest.mark.parametrize("width", [24, 40, 64])
def test_a_factor_that_a_statement_casts_itself(width: int) -> None:
    """Of 24 and 40 columns the last half k step is zeros."""
    rows = random((100, 64), DType.BF16), random((width, 64), DType.BF16, 1), random((width, 72), DType.BF16, 2)
    inputs: Arrays = dict(zip("ABV", rows, strict=True))
    out = both(CHAIN, "block i 128 consumers 2 over i", "w", inputs, {}, H=width)
    a, b, v = (x.astype(np.float64) for x in rows)
    exact = np.maximum(a @ b.T / 8, 0) @ v
    assert np.linalg.norm(out["C"] - exact) / np.linalg.norm(exact) <= 4e-3


def test_machine_code_passes_its_gates() -> None:
    """Of a block whose weights do not fit the registers beside its scores."""
    schedule = (
        "block i 192, j 96 consumers 3 over i stages k 2, v 2 late O by 1 batch O, s take_turns over s, O stale_max"
        " walk j down persistent table place p shared"
    )
    built = build(plan(text_of("fa3_fwd"), schedule, D=128))
    assert built.diagnostics == ()
    assert built.ptx.count("stmatrix.sync.aligned.m8n8.x4") >= 96 // 16
