"""A schedule changes speed, never meaning: plans run on numpy against the oracle, whatever the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.passes import interpret
from tests.passes.specs import (
    CASES,
    TWO_LOOPS,
    case_id,
    loaded,
    planned_sample,
    sample,
    schedule_of,
    text_of,
    unscheduled,
)
from tilegen.checks.pipeline import check
from tilegen.ir import plan as ir
from tilegen.ir.plan import Plan
from tilegen.ir.tile import ParamValue, TileProgram
from tilegen.oracle import compare, evaluate, random_inputs, scalar_values
from tilegen.passes.pipeline import lower, to_scheduled

ATTENTION = text_of("fa3_fwd")


def agrees(program: TileProgram, plan: Plan, sizes: Mapping[str, int], effect: tuple[bool, ...] = (True,)) -> None:
    """The plan computes what the equations say, and its pipeline runs through.

    effect: products take effect when they are awaited (True), when they are issued (False), or each in turn.
    """
    scalars = scalar_values(program, sizes, {})
    inputs = random_inputs(program, sizes, 3)
    wanted = evaluate(program, sizes, scalars, inputs)
    for lazy in effect:
        got = interpret.run(plan, sizes, scalars, inputs, lazy=lazy)
        for name, result in wanted.items():
            found = compare(result, got[name], ())
            assert found.right, (name, lazy, found)
    integers = {k: v for k, v in scalars.items() if isinstance(v, int)}
    assert check(plan, {**sizes, **integers, "sm_count": 3}) == []


def lowered(text: str, **params: ParamValue) -> tuple[TileProgram, Plan]:
    program = loaded(text, **params)
    return program, lower(program)


# ---- the samples -----------------------------------------------------------------------------------

LENGTHS: dict[str, dict[str, int]] = {
    "fa3_fwd": {"B": 1, "Sq": 201, "Sk": 170, "Hk": 1, "G": 1},
    "attention_window": {"B": 1, "Sq": 201, "Sk": 300, "Hk": 1, "G": 1},
    "attention_global_tokens": {"B": 1, "Sq": 300, "Sk": 310, "Hk": 1, "G": 1},
    "attention_documents": {"B": 1, "Sq": 201, "Sk": 170, "Hk": 1, "G": 1},
    "attention_alibi": {"B": 1, "Sq": 201, "Sk": 170, "Hk": 2, "G": 1},
    "attention_bias": {"B": 1, "Sq": 201, "Sk": 170, "Hk": 2, "G": 1},
    "attention_sink": {"B": 1, "Sq": 201, "Sk": 170, "Hk": 1, "G": 2},
    "attention_softcap": {"B": 1, "Sq": 130, "Sk": 170, "Hk": 2, "G": 1},
    "gemm": {"M": 140, "N": 136, "K": 136},
    "gemm_bias_gelu": {"M": 130, "N": 40, "K": 136},
    "swiglu": {"M": 140, "N": 136, "K": 136},
    "gemm_logsumexp": {"M": 140, "V": 270},
    "row_softmax": {"M": 140, "N": 200},
    "copy": {"M": 140, "N": 72},
    "difference": {"M": 140, "N": 72},
}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_a_sample_means_what_its_equations_say(case: tuple[str, dict[str, ParamValue]]) -> None:
    name, params = case
    agrees(sample(name, **params), planned_sample(name, **params), LENGTHS[name])


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_so_it_does_without_a_schedule(case: tuple[str, dict[str, ParamValue]]) -> None:
    name, params = case
    agrees(*lowered(unscheduled(text_of(name)), **params), LENGTHS[name])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("Sq", "Sk"), [(1, 1), (1, 300), (300, 1), (70, 0), (64, 64), (129, 65)])
def test_attention_of_any_length(Sq: int, Sk: int, causal: bool) -> None:
    """Rows without a key among them: they give 0 and -inf."""
    agrees(
        sample("fa3_fwd", D=64, causal=causal),
        planned_sample("fa3_fwd", D=64, causal=causal),
        {"B": 1, "Sq": Sq, "Sk": Sk, "Hk": 1, "G": 1},
    )


@pytest.mark.parametrize("D", [72, 80, 96])
def test_heads_that_fill_no_line(D: int) -> None:
    sizes = {"B": 1, "Sq": 70, "Sk": 90, "Hk": 1, "G": 1}
    agrees(sample("fa3_fwd", D=D, causal=True), planned_sample("fa3_fwd", D=D, causal=True), sizes)


@pytest.mark.parametrize(("Sq", "G"), [(1, 3), (9, 5), (17, 12)])
def test_heads_that_share_the_rows(Sq: int, G: int) -> None:
    sizes = {"B": 2, "Sq": Sq, "Sk": 90, "Hk": 2, "G": G}
    agrees(sample("attention_decode", D=64), planned_sample("attention_decode", D=64), sizes, (True, False))


@pytest.mark.parametrize("J", [0, 64, 200])
def test_a_slot_is_free_behind_a_late_await_in_one_loop_and_at_once_in_another(J: int) -> None:
    agrees(*lowered(TWO_LOOPS), {"I": 70, "J": J}, (True, False))


SHARED_ROWS = "block i 16, r 8, j 64 consumers 2 over i, r late O by 1 walk j down skip_rows persistent table"
GROUPS = {"B": 1, "Sq": 19, "Sk": 72, "Hk": 2, "G": 5}


@pytest.mark.parametrize(
    ("name", "more", "sizes"),
    [
        ("attention_alibi", "batch O, s", GROUPS),
        ("attention_bias", "batch O, s", GROUPS),
        ("attention_sink", "batch O, s stale_max", GROUPS),
        ("attention_documents", "batch O, s", {"B": 1, "Sq": 19, "Sk": 72, "Hk": 2, "G": 5}),
        ("attention_global_tokens", "batch O, s", GROUPS),
        ("attention_chunks", "batch O, s", {"B": 1, "N": 3, "C": 24, "Hk": 2, "G": 5}),
    ],
)
def test_scores_and_domains_of_heads_that_share_the_rows(name: str, more: str, sizes: Mapping[str, int]) -> None:
    agrees(*lowered(schedule_of(text_of(name), f"{SHARED_ROWS} {more}")), sizes)


# ---- schedules of one spec ---------------------------------------------------------------------------

ORDERS = (
    "",
    "late O by 1",
    "late O by 1 batch O, s",
    "late O by 1 batch s, O",
    "late O by 1 issue O, s",
    "late O by 1 issue s, O under O: p",
    "ahead s by 1",
)
MORE = (
    "walk j down stale_max",
    "take_turns over s, O",
    "walk j down skip_rows stale_max take_turns over s, O persistent static order longest_first group h by 1 MB",
    "alias O, q via O tma persistent table stages q 1",
    "order b, i, h skip_rows group h by 2",
    "place p shared walk j down stale_max via O tma",
)
DEPTHS = ("stages k 1, v 1", "stages k 3, v 2")


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("order", ORDERS)
def test_orders_of_the_loop_body(order: str, more: str) -> None:
    n, m = ORDERS.index(order), MORE.index(more)
    depth, causal = DEPTHS[(n + m) % 2], (n + m // 2) % 2 == 0
    if "under" in order and "shared" in more:
        more = more.replace("stale_max", "")  # what it writes is in flight with the product
    text = schedule_of(ATTENTION, f"block i 128, j 32 consumers 2 over i {depth} {order} {more}")
    sizes = {"B": 1, "Sq": 140, "Sk": 110, "Hk": 1, "G": 1 if causal else 2}
    agrees(*lowered(text, D=64, causal=causal), sizes, effect=(False, True))


@pytest.mark.parametrize(
    "directives",
    [
        "block m 64, n 64, k 64 consumers 1 over m",
        "block m 192, n 64, k 32 consumers 3 over m stages a 1, b 2",
        "block m 256, n 128, k 64 consumers 4 over m take_turns over gate, up persistent static",
        "late gate by 1 late up by 1",
        "batch up, gate walk k down",
        "issue gate, up persistent table",
        "via Y tma persistent static group m by 2",
        "order n, m group n by 1 MB",
    ],
)
def test_schedules_of_two_products(directives: str) -> None:
    text = schedule_of(text_of("swiglu"), directives.replace("stages a 1, b 2", "stages x 1, w1 2"))
    agrees(*lowered(text), {"M": 140, "N": 136, "K": 136})


@pytest.mark.parametrize(
    "directives",
    [
        "",
        "stages x 2 persistent static",
        "via Y tma persistent static",
        "stream j",
        "alias Y, x",
        "order j, i group i by 1",
    ],
)
def test_schedules_of_a_copy(directives: str) -> None:
    text = schedule_of(text_of("copy"), f"block i 128, j 64 consumers 2 over i {directives}")
    agrees(*lowered(text, T="f16"), {"M": 300, "N": 136})


# ---- specs -----------------------------------------------------------------------------------------


def scores(equations: str, domain: str = "", outputs: str = "O: T[M, 64]", more: str = "", order: str = "") -> str:
    """Equations over s[i, j] = q kᵀ and a third tile v."""
    declared = "\n".join(f"output {o}" for o in outputs.split("; "))
    return f"""kernel k(T: bf16 | f16 = bf16) {{
      size M, N
      input Q: T[M, 64]
      input K: T[N, 64]
      input V: T[N, 64]
      {declared}
      {more}
      axis i in M, j in N
      {f"domain {domain}" if domain else ""}
      tile q[i, d] = Q[i, d]
      tile k[j, d] = K[j, d]
      tile v[j, e] = V[j, e]
      s[i, j] = 0.2 * sum[d](q[i, d] * k[j, d])
      {equations}
      schedule hopper {{ block i 128, j 64 consumers 2 over i {order} }}
    }}"""


SOFTMAX = "O[i, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e])"
WEIGHTS = "p[i, j] = softmax[j](s[i, j]) O[i, e] = sum[j](T(p[i, j]) * v[j, e])"
TWO = "O: T[M, 64]; L: f32[M]"

SCORES: dict[str, str] = {
    "window": scores(SOFTMAX, "i, j: j <= i + 5 and j >= i - 40"),
    "window of two clauses": scores(SOFTMAX, "i, j: j <= i + 5 domain i, j: j >= i - 40"),
    "window and first keys": scores(SOFTMAX, "i, j: j < 4 or j >= i - 40"),
    "guarded": scores(SOFTMAX, "i, j: j <= i + 5 if w > 0", more="scalar w: i32 = 30"),
    "guarded off": scores(SOFTMAX, "i, j: j <= i + 5 if w > 0", more="scalar w: i32 = 0"),
    "guarded or": scores(SOFTMAX, "i, j: j < 4 or j >= i - w if w > 0", more="scalar w: i32 = 30"),
    "other slopes": scores(SOFTMAX, "i, j: 2 * j <= 3 * i + 5"),
    "columns cut": scores(SOFTMAX, "j: j >= 3 and j < 100"),
    "rows cut": scores(SOFTMAX, "i: i >= 70", "O: T[M, 64] else 7"),
    "rows cut, a vector": scores(
        SOFTMAX + " L[i] = logsumexp[j](s[i, j])", "i: i >= 30 and i < 100", "O: T[M, 64] else 7; L: f32[M] else 5"
    ),
    "negative factor": scores(SOFTMAX.replace("s[i", "-1 * s[i")),
    "no factor": scores(SOFTMAX.replace("s[i", "0 * s[i"), "i, j: j <= i"),
    "run-time factor": scores(SOFTMAX.replace("s[i", "a * s[i"), more="scalar a: f32 = -0.3"),
    "factors around": scores(f"{SOFTMAX.replace('T(', 'T(-2 * a *')} / 3 + i", more="scalar a: f32 = 0.7"),
    "expsum": scores(SOFTMAX + " L[i] = expsum[j](s[i, j], 1 + s[i, j])", "i, j: j <= i", TWO),
    "weights folded again": scores(WEIGHTS + " L[i] = sum[j](p[i, j] * s[i, j])", "i, j: j <= i", TWO),
    "weights squared": scores(WEIGHTS + " L[i] = sum[j](p[i, j] * p[i, j])", "i, j: j <= i", TWO),
    "entropy": scores(WEIGHTS + " L[i] = 0 - sum[j](p[i, j] * log(p[i, j]))", "", TWO),
    "spread around a weighted mean": scores(
        WEIGHTS + " m[i] = sum[j](p[i, j] * s[i, j]) L[i] = sum[j](p[i, j] * (s[i, j] - m[i]) * (s[i, j] - m[i]))",
        "i, j: j <= i + 70",
        TWO,
    ),
    "rounded weights folded again": scores(WEIGHTS + " L[i] = max[j](T(p[i, j]))", "", TWO),
    "weights stored": scores(WEIGHTS + " P[i, j] = p[i, j]", "i, j: j <= i", "O: T[M, 64]; P: T[M, N] else 0"),
    "scores stored": scores(SOFTMAX + " P[i, j] = s[i, j]", "i, j: j <= i", "O: T[M, 64]; P: T[M, N] else 3"),
    "scores stored first": scores("P[i, j] = s[i, j] " + SOFTMAX, "i, j: j <= i", "O: T[M, 64]; P: T[M, N] else 3"),
    "maximum": scores(SOFTMAX + " L[i] = max[j](s[i, j])", "i, j: j <= i + 3", TWO),
    "minimum": scores(SOFTMAX + " L[i] = min[j](s[i, j] + j)", "i, j: j <= i + 3", TWO),
    "sum of squares": scores(SOFTMAX + " L[i] = sum[j](s[i, j] * s[i, j])", "i, j: j <= i + 3", TWO),
    "two softmaxes": scores(
        SOFTMAX + " P[i, e] = sum[j](T(softmax[j](-1 * s[i, j])) * v[j, e])", "", "O: T[M, 64]; P: T[M, 64]"
    ),
    "plain exp": scores("O[i, e] = sum[j](T(exp(s[i, j])) * v[j, e])", "i, j: j <= i"),
    "sigmoid": scores("O[i, e] = sum[j](T(sigmoid(s[i, j])) * v[j, e])", "i, j: j >= i - 9"),
    "largest first": scores("m[i] = max[j](s[i, j]) O[i, e] = sum[j](T(exp(s[i, j] - m[i])) * v[j, e])"),
    "factors exchanged": scores("O[i, e] = sum[j](v[j, e] * T(softmax[j](s[i, j])))"),
    "a tile read again": scores(SOFTMAX + " P[i, d] = q[i, d] + 1", "", "O: T[M, 64]; P: T[M, 64]"),
    "norms": scores("r[i] = sum[d](q[i, d] * q[i, d]) " + SOFTMAX.replace("s[i, j]", "s[i, j] / r[i]")),
    "names that are taken": scores(
        "s_live[i, j] = 2 * s[i, j] p_max[i, j] = s_live[i, j] + 1 p[i, j] = softmax[j](p_max[i, j])"
        " O[i, e] = sum[j](T(p[i, j]) * v[j, e])"
    ),
    "a vector along each side": scores(
        SOFTMAX.replace("s[i, j]", "s[i, j] + a[j] * b[i]"), more="input a: f32[N] input b: i32[M]"
    ),
}


@pytest.mark.parametrize("order", ["", "late O by 1 walk j down"])
@pytest.mark.parametrize("name", SCORES)
def test_equations_over_scores(name: str, order: str) -> None:
    text = SCORES[name]
    if order and ("P[i, e]" in text and "softmax[j](-1" in text):
        order = "walk j down"  # two products read v, and one alone cannot be late
    agrees(*lowered(text.replace("consumers 2 over i ", f"consumers 2 over i {order} ")), {"M": 140, "N": 104})


def rows(equations: str, outputs: str, domain: str = "", more: str = "") -> str:
    """Equations over the rows of a tile x, and vectors y and z along them."""
    return f"""kernel k(T: bf16 | f16 = bf16) {{
      size M, N
      input X: T[M, N]
      {more}
      {outputs}
      axis i in M, j in N
      {f"domain {domain}" if domain else ""}
      tile x[i, j] = X[i, j]
      {equations}
      schedule hopper {{ block i 128, j 64 consumers 2 over i }}
    }}"""


ROWS: dict[str, str] = {
    "mean": rows("O[i] = sum[j](x[i, j]) / N", "output O: f32[M]"),
    "weighted sum": rows("O[i] = sum[j](x[i, j] * y[j])", "output O: f32[M]", more="input y: f32[N]"),
    "norm": rows(
        "r[i] = rsqrt(sum[j](x[i, j] * x[i, j]) / N + 1) O[i, j] = x[i, j] * r[i] * y[j]",
        "output O: T[M, N]",
        more="input y: f32[N]",
    ),
    "two statistics": rows(
        "m[i] = sum[j](x[i, j]) / N v[i] = sum[j]((x[i, j] - m[i]) * (x[i, j] - m[i])) / N"
        " O[i, j] = (x[i, j] - m[i]) * rsqrt(v[i] + 1)",
        "output O: T[M, N]",
    ),
    "triangle": rows("O[i, j] = 2 * x[i, j]", "output O: T[M, N] else 0", "i, j: j <= i"),
    "triangle of weights": rows("O[i, j] = softmax[j](x[i, j])", "output O: T[M, N] else 0", "i, j: j <= i"),
    "two triangles": rows(
        "O[i, j] = softmax[j](x[i, j]) P[i, j] = x[i, j]",
        "output O: T[M, N] else 0 output P: T[M, N] else 4",
        "i, j: j <= i",
    ),
    "stored twice": rows(
        "P[i, j] = 2 * x[i, j] O[i, j] = 2 * x[i, j]",
        "output O: T[M, N] else 3 output P: T[M, N] else 4",
        "i, j: j <= i",
    ),
    "positions": rows("O[i, j] = x[i, j] + 3 * i + j", "output O: f32[M, N]"),
    "first largest": rows(
        "m[i] = max[j](x[i, j]) O[i] = min[j](select(x[i, j] == m[i], j, 1000000))", "output O: f32[M]"
    ),
    "softmax of softmax": rows("p[i, j] = softmax[j](x[i, j]) O[i, j] = softmax[j](p[i, j])", "output O: T[M, N]"),
    "two logsumexps": rows(
        "O[i] = logsumexp[j](x[i, j]) P[i] = logsumexp[j](2 * x[i, j])", "output O: f32[M] output P: f32[M]"
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_equations_over_rows(name: str) -> None:
    agrees(*lowered(ROWS[name]), {"M": 140, "N": 136})


def heads(equations: str, domain: str = "", output: str = "O: T[B, Sq, Hk * G, 64]") -> str:
    return f"""kernel k(T: bf16 | f16 = bf16) {{
      size B, Sq, Sk, Hk, G
      input Q: T[B, Sq, Hk * G, 64]
      input K: T[B, Sk, Hk, 64]
      input V: T[B, Sk, Hk, 64]
      output {output}
      axis b in B, h in Hk * G, i in Sq, j in Sk
      split h into g, r by G
      {f"domain {domain}" if domain else ""}
      tile q[i, d] = Q[b, i, h, d]
      tile k[j, d] = K[b, j, g, d]
      tile v[j, e] = V[b, j, g, e]
      s[i, j] = 0.2 * sum[d](q[i, d] * k[j, d])
      {equations}
      schedule hopper {{ block i 64, j 32 consumers 1 over i late O by 1 }}
    }}"""


EACH_HEAD = "O[b, i, h, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e])"
HEADS: dict[str, str] = {
    "shared keys": heads(EACH_HEAD),
    "a domain of a head": heads(EACH_HEAD, "h, i, j: j <= i + h"),
    "a domain of a group": heads(EACH_HEAD, "g, i, j: j <= i + 5 * g"),
    "a domain of a member": heads(EACH_HEAD, "r, i, j: j >= i - 7 * r"),
    "a domain of a batch": heads(EACH_HEAD, "b, j: j <= 20 + 30 * b"),
    "a bias by both parts": heads(EACH_HEAD.replace("s[i, j]", "s[i, j] + g * j / 30 - r")),
    "an output by parts": heads(EACH_HEAD.replace("b, i, h, e", "b, i, g, r, e"), "", "O: T[B, Sq, Hk, G, 64]"),
}


@pytest.mark.parametrize("name", HEADS)
def test_equations_over_split_axes(name: str) -> None:
    agrees(*lowered(HEADS[name]), {"B": 2, "Sq": 70, "Sk": 50, "Hk": 2, "G": 3})


def test_a_clause_of_one_fold_does_not_cut_another() -> None:
    text = """kernel k(T: bf16 | f16 = bf16) {
      size H, M, N
      input X: T[H, M, N]
      input W: f32[N]
      output A: f32[H, M]
      output Z: f32[M]
      axis h in H, i in M, j in N
      domain h, j: j <= 30 * h
      tile x[i, j] = X[h, i, j]
      tile z[i, j] = X[0, i, j]
      A[h, i] = logsumexp[j](x[i, j])
      Z[i] = max[j](z[i, j] * W[j])
    }"""
    agrees(*lowered(text), {"H": 3, "M": 100, "N": 136})


@pytest.mark.parametrize("axes", ["b in B, m in M", "m in M, b in B"])
def test_rows_by_default_are_no_axis_of_which_tiles_have_one_position(axes: str) -> None:
    text = f"""kernel k(T: bf16 | f16 = bf16) {{
      size B, M, N, K
      input A: T[B, M, K]
      input W: T[K, N]
      output C: T[B, M, N]
      axis {axes}, n in N, k in K
      tile a[m, k] = A[b, m, k]
      tile w[k, n] = W[k, n]
      C[b, m, n] = T(sum[k](a[m, k] * w[k, n]))
    }}"""
    blocks = {r.axis: r.block for r in to_scheduled(loaded(text)).roles if r.role == "grid"}
    assert blocks == {"b": 1, "m": 128, "n": 128}
    agrees(*lowered(text), {"B": 2, "M": 140, "N": 72, "K": 72})


# ---- the interpreter itself ----------------------------------------------------------------------------


def test_what_touches_a_product_in_flight_is_seen() -> None:
    """The tests above would find a wait that comes late: then the two times of effect disagree."""

    def hasty(body: tuple[Any, ...]) -> tuple[Any, ...]:
        """Each wait for products moved behind the operation that follows it."""
        out = [replace(o, body=hasty(o.body)) if isinstance(o, ir.Work | ir.For | ir.If) else o for o in body]
        for n in range(len(out) - 1):
            if isinstance(out[n], ir.MmaWait):
                later = next((m for m in range(n, len(out)) if isinstance(out[m], ir.Map | ir.RowFold)), None)
                if later is not None:
                    out.insert(later, out.pop(n))
                    break
        return tuple(out)

    program = sample("fa3_fwd", D=64)
    plan = planned_sample("fa3_fwd", D=64)
    roles = tuple(replace(r, body=hasty(r.body)) for r in plan.roles)
    with pytest.raises(AssertionError):
        agrees(program, replace(plan, roles=roles), {"B": 1, "Sq": 100, "Sk": 150, "Hk": 1, "G": 1}, (False, True))
