"""The allowed error holds what right kernels do, and no more: wrong ones are outside."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import emulated
from tests.oracle.specs import spec
from tilegen.ir.dtypes import DType
from tilegen.oracle import Comparison, Result, compare, evaluate, random_inputs
from tilegen.oracle.arithmetic import apply
from tilegen.oracle.field import Field
from tilegen.oracle.rounding import unit
from tilegen.sema import load

ROOT = Path(__file__).parents[2]
S = 600


def inputs(kind: str, T: str, Sq: int = S, Sk: int = S) -> dict[str, np.ndarray]:
    """Q, K, V of one head: ordinary data, and kinds on which errors are not as if random."""
    random = np.random.default_rng(11)
    Q, K, V = (random.standard_normal((1, n, 1, 64)) for n in (Sq, Sk, Sk))
    if kind == "peaked":
        Q, K = 4 * Q, 3 * K
    elif kind == "constant scores":
        Q, V = 0 * Q, np.abs(V) + 1
    elif kind == "equal keys":
        K, V = np.broadcast_to(K[:, :1], K.shape), np.broadcast_to(V[:, :1], V.shape)
    elif kind == "growing keys":
        K = K * np.linspace(0.1, 3, Sk)[None, :, None, None]
    elif kind == "large values":
        V = 100 * V
    dtype = DType(T).numpy
    return {"Q": Q.astype(dtype), "K": K.astype(dtype), "V": V.astype(dtype)}


def judge(kind: str, T: str, causal: bool, **how: Any) -> tuple[Comparison, Comparison]:
    """O and LSE of an emulated kernel beside the oracle's."""
    program = load(ROOT / "samples/fa3_fwd.tile", {"D": 64, "T": T, "causal": causal})
    data = inputs(kind, T)
    scale = float(np.float32(1 / 8))
    want = evaluate(program, {"B": 1, "Sq": S, "Sk": S, "Hk": 1, "G": 1}, {"scale": scale}, data)
    out, lse = emulated.attention(*(data[n][0, :, 0] for n in "QKV"), scale, causal, **how)
    return compare(want["O"], out[None, :, None], (0, 2)), compare(want["LSE"], lse[None, None], (0, 1))


@pytest.mark.parametrize("T", ["bf16", "f16"])
@pytest.mark.parametrize(("causal", "stale", "block"), [(False, False, 80), (True, False, 64), (True, True, 80)])
@pytest.mark.parametrize("kind", ["normal", "peaked", "constant scores", "equal keys", "growing keys", "large values"])
def test_blocked_attention_is_allowed(kind: str, T: str, causal: bool, stale: bool, block: int) -> None:
    if stale and (T, kind) == ("f16", "peaked"):
        pytest.skip("weights above the range of f16: a kernel takes its exact path there")
    out, lse = judge(kind, T, causal, stale=stale, block=block)
    assert out.right, out
    assert lse.right, lse


@pytest.mark.parametrize("T", ["bf16", "f16"])
@pytest.mark.parametrize("causal", [False, True])
def test_the_allowed_error_is_not_far_above_the_real_one(T: str, causal: bool) -> None:
    out, lse = judge("normal", T, causal)
    assert 0.15 < out.worst <= 0.6
    assert lse.worst > 0.005
    assert out.relative is not None
    assert out.relative < (3e-3 if T == "bf16" else 5e-4)
    assert lse.relative is None
    assert lse.absolute < 1e-5


@pytest.mark.parametrize("T", ["bf16", "f16"])
def test_a_block_left_out_is_not_allowed(T: str) -> None:
    out, lse = judge("normal", T, False, skip=3)
    assert out.worst > 5
    assert lse.worst > 100


@pytest.mark.parametrize("T", ["bf16", "f16"])
def test_a_single_wrong_key_is_not_allowed(T: str) -> None:
    program = load(ROOT / "samples/fa3_fwd.tile", {"D": 64, "T": T})
    data = inputs("normal", T)
    sizes, scale = {"B": 1, "Sq": S, "Sk": S, "Hk": 1, "G": 1}, float(np.float32(1 / 8))
    want = evaluate(program, sizes, {"scale": scale}, data)
    without = [data["Q"][0, :, 0], data["K"][0, :-1, 0], data["V"][0, :-1, 0]]
    out, lse = emulated.attention(*without, scale, False)
    assert compare(want["O"], out[None, :, None], (0, 2)).worst > 1
    assert compare(want["LSE"], lse[None, None], (0, 1)).worst > 1


def test_a_wrong_scale_is_not_allowed() -> None:
    program = load(ROOT / "samples/fa3_fwd.tile", {"D": 64})
    data = inputs("normal", "bf16")
    want = evaluate(program, {"B": 1, "Sq": S, "Sk": S, "Hk": 1, "G": 1}, {"scale": 0.125}, data)
    out, _ = emulated.attention(*(data[n][0, :, 0] for n in "QKV"), 0.13, False)
    assert compare(want["O"], out[None, :, None], (0, 2)).worst > 1


PRODUCT = """
kernel product(T: bf16 | f16 = bf16) {
  size M, N, K
  input  A: T[M, K]
  input  B: T[K, N]
  output C: f32[M, N]
  axis m in M, n in N, k in K
  C[m, n] = sum[k](A[m, k] * B[k, n])
}
"""


@pytest.mark.parametrize("K", [16, 128, 1000, 6000])
@pytest.mark.parametrize("positive", [False, True])
def test_tensor_core_sums_are_allowed(K: int, positive: bool) -> None:
    program = spec(PRODUCT)
    sizes = {"M": 40, "N": 50, "K": K}
    data = random_inputs(program, sizes, 8)
    if positive:
        data = {n: np.abs(a) for n, a in data.items()}
    want = evaluate(program, sizes, {}, data)["C"]
    judged = compare(want, emulated.tensor_core(data["A"], data["B"]), ())
    assert judged.right
    assert judged.worst > 0.02
    wrong = emulated.tensor_core(data["A"][:, :-1], data["B"][:-1])
    assert compare(want, wrong, ()).worst > 10


def test_f32_sums_are_allowed() -> None:
    program = spec("kernel total { size M, N  input X: f32[M, N]  output Y: f32[M]  Y[i] = sum[j](X[i, j] * X[i, j]) }")
    data = random_inputs(program, {"M": 50, "N": 3000}, 3)
    want = evaluate(program, {"M": 50, "N": 3000}, {}, data)["Y"]
    one_by_one = np.add.accumulate(data["X"] ** 2, axis=1)[:, -1]
    judged = compare(want, one_by_one, ())
    assert judged.right
    assert judged.worst > 0.01
    assert compare(want, one_by_one * np.float32(1 + 1e-4), ()).worst > 1


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16, DType.F32])
def test_a_unit_is_the_spacing_of_the_type(dtype: DType) -> None:
    values = np.array([1.0, 1.5, 2.0, 3e-3, 100.0, 2.0**-13]).astype(dtype.numpy)
    above = np.nextafter(values, np.inf).astype(np.float64) if dtype is not DType.BF16 else None
    got = unit(values.astype(np.float64), np.zeros(()), dtype)
    if above is not None:
        np.testing.assert_array_equal(got, above - values.astype(np.float64))
    else:
        np.testing.assert_array_equal(got[:3], [2.0**-7, 2.0**-7, 2.0**-6])
    smallest = 2.0**dtype.smallest_normal_exponent
    tiny = unit(np.array([0.0, smallest / 8, smallest]), np.zeros(()), dtype)
    assert (tiny == smallest * 2.0 ** (1 - dtype.precision)).all()


def test_what_may_overflow_its_type_may_be_infinite() -> None:
    program = spec("kernel big(T: f16 = f16) { size N  input X: f32[N]  output Y: T[N]  Y[i] = T(2 * X[i]) }")
    X = np.array([30000, 40000, -40000], dtype=np.float32)
    want = evaluate(program, {"N": 3}, {}, {"X": X})["Y"]
    assert compare(want, np.array([60000, np.inf, -np.inf], dtype=np.float16), ()).right
    assert not compare(want, np.array([60000, np.nan, -np.inf], dtype=np.float16), ()).right
    assert not compare(want, np.array([60000, np.inf, np.inf], dtype=np.float16), ()).right
    assert not compare(want, np.array([np.inf, np.inf, -np.inf], dtype=np.float16), ()).right


F32: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "div_rn": np.divide,
    "neg": np.negative, "abs": np.abs, "max": np.maximum, "min": np.minimum,
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "sqrt": np.sqrt, "rsqrt": lambda x: np.float32(1) / np.sqrt(x), "tanh": np.tanh, "floor": np.floor,
    "sigmoid": lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)),
    "erf": lambda x: np.vectorize(math.erf, otypes=[np.float32])(x),
    "pow": lambda x, y: np.exp2(y * np.log2(x)),
}  # fmt: skip
POSITIVE = {"log", "log2", "sqrt", "rsqrt", "pow"}
BINARY = {"add", "sub", "mul", "div", "div_rn", "max", "min", "pow"}


@settings(max_examples=60, deadline=None)
@given(
    op=st.sampled_from(sorted(F32)),
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([1e-3, 1.0, 20.0]),
    error=st.sampled_from([0.0, 1e-6, 1e-3, 0.1]),
)
def test_f32_functions_of_inexact_arguments_are_allowed(op: str, seed: int, spread: float, error: float) -> None:
    random = np.random.default_rng(seed)
    fields, args = [], []
    for _ in range(2 if op in BINARY else 1):
        value = spread * random.standard_normal(200)
        value = np.abs(value) if op in POSITIVE else value
        bound = error * np.abs(value) * random.random(200)
        fields.append(Field(("i",), value, bound + np.abs(value) * 2.0**-24))
        args.append((value + bound * random.uniform(-1, 1, 200)).astype(np.float32))
    with np.errstate(all="ignore"):
        field = apply(op, tuple(fields))
        got = F32[op](*args).astype(np.float64)
        off = np.abs(got - field.value)
        assert (np.isnan(off) | (off <= field.error)).all()
        assert (np.isnan(got) <= (field.error > 0)).all()  # an argument near the edge may fall out of the domain


def test_conditions_that_may_fall_either_way_allow_both() -> None:
    x = Field(("i",), np.array([1.0, 1.0, 1.0]), np.array([0.1, 0.1, 0.1]))
    y = Field(("i",), np.array([1.05, 0.5, 2.0]), np.zeros(3))
    condition = apply("lt", (x, y))
    assert condition.value.tolist() == [True, False, True]
    a, b = (Field((), np.asarray(v), np.asarray(0.0)) for v in (3.0, 7.0))
    chosen = apply("select", (condition, a, b))
    assert chosen.value.tolist() == [3, 7, 3]
    assert chosen.bound.tolist() == [4, 0, 0]


@pytest.mark.parametrize(("loose", "telling"), [(0, True), (1, True), (60, False), (100, False)])
def test_what_is_allowed_as_much_as_it_is_large_tells_nothing(loose: int, telling: bool) -> None:
    value = np.random.default_rng(4).standard_normal(100)
    allowed = np.full(100, 1e-6)
    allowed[:loose] = np.inf
    found = compare(Result(value, allowed, np.ones(100, np.bool_), DType.F32), value, ())
    assert found.right
    assert found.telling == telling


def test_few_points_that_matter_tell_nothing_of_the_others() -> None:
    value = np.zeros(100)
    value[::41] = 1.0
    allowed = np.where(value, 1.0, 0.0)
    assert not compare(Result(value, allowed, np.ones(100, np.bool_), DType.F32), np.zeros(100), ()).telling
