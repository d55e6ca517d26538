"""What no kernel is built for is refused by name, where the spec says it; nothing else ever stops lowering."""

from __future__ import annotations

import pytest

from tests.passes.specs import loaded, refused, sample, schedule_of, text_of
from tests.passes.test_isolate import HELD, SHARED_TILE
from tests.sema.faults import underlined
from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import TilegenError
from tilegen.diagnostics.entries import SECTIONS
from tilegen.passes.pipeline import lower, lower_all

ATTENTION = text_of("fa3_fwd")
GEMM = text_of("gemm")
SWIGLU = text_of("swiglu")
LOSS = text_of("gemm_logsumexp")
COPY = text_of("copy")
DIFFERENCE = text_of("difference")
NUMBERS = """kernel k() { size M, N input X: i32[M, N] output Y: f32[M] axis i in M, j in N tile x[i, j] = X[i, j]
Y[i] = max[j](x[i, j]) schedule hopper { oob x nan } }"""
NOTHING_TO_SHARE = "kernel k() { size M output Y: f32[M] axis i in M Y[i] = i }"
PARAMETER = "T: bf16 | f16 | f32 = bf16"


SHORTER_BY_HEAD = """kernel k(T: bf16 | f16 = bf16) {
  size H, M, N
  input Q: T[H, M, 64]
  input K: T[N, 64]
  output Y: f32[H, M]
  axis h in H, i in M, j in N
  domain h, j: j <= h
  tile q[i, d] = Q[h, i, d]
  tile k[j, d] = K[j, d]
  Y[h, i] = max[j](sum[d](q[i, d] * k[j, d]))
  schedule hopper { block h 1, i 64, j 64 consumers 1 over i multicast k over h }
}"""


ALIASED_VECTOR = """kernel aliased_vector {
  size I
  input X: bf16[I, 64]
  input V: bf16[64]
  output Y: bf16[I, 64]
  axis i in I, j in 64
  tile x[i, j] = X[i, j]
  tile v[j] = V[j]
  Y[i, j] = x[i, j] - v[j]
  schedule hopper { block i 128 alias Y, v }
}
"""


def attention(directives: str) -> str:
    return schedule_of(ATTENTION, f"block i 128, j 64 consumers 2 over i {directives}")


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def over_rows(
    equations: str, outputs: str = "output Y: f32[M]", more: str = "", tile: str = "x[i, j] = X[i, j]"
) -> str:
    """Equations over the rows of a tile x."""
    return f"""kernel k({PARAMETER}) {{
  size M, N
  input X: T[M, N]
  {outputs}
  axis i in M, j in N
  {more}
  tile {tile}
  {equations}
}}"""


# The squared distance of each row of A to the nearest of C, without the part that the row of A has alone.
NEAREST = """kernel k(T: bf16 | f16 = bf16) {
  size M, N
  input A: T[M, 64]
  input C: T[N, 64]
  output near: f32[M]
  axis m in M, n in N, d in 64
  tile a[m, d] = A[m, d]
  tile c[n, d] = C[n, d]
  near[m] = min[n](sum[d](c[n, d] * c[n, d]) - 2 * sum[d](a[m, d] * c[n, d]))
}"""


def product(a: str, b: str, value: str = "sum[k](a[m, k] * b[k, n])", more: str = "", out: str = "C: T[M, N]") -> str:
    """C = A B with other shapes or blocks."""
    return f"""kernel k(T: bf16 | f16 = bf16) {{
  size M, N, K
  input A: T[{a}]
  input B: T[{b}]
  output {out}
  axis m in M, n in N, k in K
  tile a[m, k] = A[m, k]
  tile b[k, n] = B[k, n]
  C[m, n] = {value}
  {more}
}}"""


CHUNKS = """kernel k(T: bf16 = bf16) {
  size C, N
  input X: T[64 * C, N]
  output Y: f32[64 * C]
  axis i in 64 * C, j in N
  split i into c, r by 64
  domain r, j: j <= 9 * r
  tile x[i, j] = X[i, j]
  Y[i] = logsumexp[j](x[i, j])
}"""
BOTH = """kernel k(T: bf16 = bf16) {
  size G, R, M, N
  input X: T[G * R, M, N]
  input W: T[G, M, N]
  output Y: f32[G * R, M]
  output Z: f32[G, M]
  axis h in G * R, i in M, j in N
  split h into g, r by R
  tile x[i, j] = X[h, i, j]
  tile z[i, j] = W[g, i, j]
  Y[h, i] = logsumexp[j](x[i, j])
  Z[g, i] = max[j](z[i, j])
}"""

RAGGED = text_of("ragged")


def ragged(directives: str) -> str:
    return schedule_of(RAGGED, f"block i 128, j 64 consumers 2 over i {directives}")


# code, spec, what is underlined
CASES: list[tuple[Code, str, str]] = [
    (
        Code.RAGGED_BATCHES,
        changed(
            RAGGED,
            ("B = 3,", "B = 3, C = 3,"),
            ("cu_k: i32[B + 1]", "cu_k: i32[C + 1]"),
            ("over B by cu_k", "over C by cu_k"),
            ("K: T[B, Sk", "K: T[C, Sk"),
            ("V: T[B, Sk", "V: T[C, Sk"),
            ("b in B,", "b in B, c in C,"),
            ("K[b, j", "K[0, j"),
            ("V[b, j", "V[0, j"),
        ).replace(", c in C", ""),
        "ragged Sk over C by cu_k",
    ),
    (
        Code.RAGGED_BATCHES,
        "kernel k() { size B, S input cu: i32[B + 1] input X: f32[B, S, 64] output Y: f32[S * 0 + 1, 64] "
        "ragged S over B by cu axis z in 1, j in S tile x[j, d] = X[0, j, d] Y[z, d] = sum[j](x[j, d]) + z }",
        "ragged S over B by cu",
    ),
    (
        Code.RAGGED_TENSOR,
        changed(
            RAGGED,
            ("input  V", "input  bias: f32[B, Sq, Sk]\n  input  V"),
            ("* k[j, d])", "* k[j, d]) + bias[b, i, j]"),
        ),
        "input  bias: f32[B, Sq, Sk]",
    ),
    (
        Code.RAGGED_TENSOR,
        changed(RAGGED, ("K: T[B, Sk, H", "K: T[B, Sk + 1, H"), ("K[b, j, h", "K[b, j + 1, h")),
        "input  K: T[B, Sk + 1, H, D]",
    ),
    (
        Code.PRODUCT_PAST_END,
        "kernel gram() { size B, S, D input cu: i32[B + 1] input X: bf16[B, S, D] output Y: f32[B, D, D] "
        "ragged S over B by cu axis s in S, d in D, e in D tile x[s, d] = X[b, s, d] tile y[s, e] = X[b, s, e] "
        "Y[b, d, e] = sum[s](x[s, d] * y[s, e]) }",
        "sum[s](x[s, d] * y[s, e])",
    ),
    (Code.PRODUCT_PAST_END, product("M, K + 8", "K, N"), "sum[k](a[m, k] * b[k, n])"),
    (Code.RAGGED_INDEX, changed(RAGGED, ("K[b, j", "K[0, j")), "tile k[j, d] = K[0, j, h, d]"),
    (Code.RAGGED_GRID, ragged("block b 2"), "ragged Sq over B by cu_q"),
    (Code.RAGGED_DEAL, ragged("persistent static"), "persistent static"),
    (Code.RAGGED_GROUP, ragged("group b by 32 MB"), "group b by 32 MB"),
    (Code.RAGGED_GROUP, ragged("group i by 8"), "group i by 8"),
    (Code.RAGGED_STORE, ragged("alias O, q"), "alias O, q"),
    (Code.RAGGED_STORE, ragged("stages O 2"), "O 2"),
    (
        Code.STORE_CHUNKS,
        schedule_of(
            changed(
                product("M, K", "K, 300", out="C: T[M, 300]"), ("size M, N, K", "size M, K"), ("n in N", "n in 300")
            ),
            "block m 128, n 128, k 64 consumers 2 over m via C tma",
        ),
        "C tma",
    ),
    (Code.LOOKUP_UNSUPPORTED, text_of("paged"), "tab[b, pg]"),
    (
        Code.LOOKUP_UNSUPPORTED,
        over_rows("Y[i] = max[j](x[i, j]) + W[t[i]]", "input t: i32[M] input W: f32[M] output Y: f32[M]"),
        "W[t[i]]",
    ),
    (Code.FOLD_OF_CONSTANT, over_rows("z[i, j] = 2 * i Y[i] = sum[j](z[i, j]) + max[j](x[i, j])"), "sum[j](z[i, j])"),
    (Code.FOLD_OF_CONSTANT, over_rows("z[i, j] = 2 * i Y[i] = max[j](z[i, j]) + max[j](x[i, j])"), "max[j](z[i, j])"),
    (
        Code.FOLD_OF_CONSTANT,
        over_rows("z[i, j] = 2 * i Y[i] = logsumexp[j](z[i, j]) + max[j](x[i, j])"),
        "logsumexp[j](z[i, j])",
    ),
    (Code.FOLD_OVER_PART, text_of("attention_bwd"), "sum[i, r](T(ds[i, j]) * q[i, d])"),
    (
        Code.RENAMED_READ,
        over_rows("z[i, j] = 2 * x[i, j] Y[i, j] = z[i, j] + z[i, 0]", "output Y: T[M, N]"),
        "z[i, 0]",
    ),
    (Code.RENAMED_READ, over_rows("Y[i] = max[j](x[i, j] - x[i, 0])"), "x[i, 0]"),
    (
        Code.READ_OF_OUTPUT,
        over_rows("Y[i] = max[j](x[i, j]) Z[i] = 2 * Y[i]", "output Y: f32[M] output Z: f32[M]"),
        "Y[i]",
    ),
    (
        Code.DOMAIN_CUTS_PRODUCT,
        changed(GEMM, ("\n  tile a", "\n  domain m, k: k <= m\n  tile a")),
        "domain m, k: k <= m",
    ),
    (Code.SCAN_SHARED, SHARED_TILE, "sum[j](T(p[i, j]) * c[j, d])"),
    (Code.NESTED_STREAMS, text_of("outputs_two_orders"), "j"),
    (Code.NESTED_STREAMS, schedule_of(GEMM, "stream n"), "k"),
    (Code.NO_ROWS, NOTHING_TO_SHARE, NOTHING_TO_SHARE),
    (
        Code.TOO_MANY_DIRECTIONS,
        over_rows("Y[i] = max[j](x[i, j])", "output Y: f32[M]", "axis d in 64", "x[i, d, j] = X[i, d, j]")
        .replace("x[i, j])", "max[d](x[i, d, j]))")
        .replace("X: T[M, N]", "X: T[M, 64, N]"),
        "tile x[i, d, j] = X[i, d, j]",
    ),
    (
        Code.TOO_MANY_DIRECTIONS,
        product("M, K", "K, N").replace("a[m, k] * b[k, n]", "a[m, k] * b[k, n] * k"),
        "a[m, k]",
    ),
    (Code.TOO_MANY_DIRECTIONS, NEAREST, "c[n, d]"),
    (
        Code.INDEX_NOT_AFFINE_UNIT,
        over_rows("Y[i] = max[j](x[i, j])", tile="x[i, j] = X[i, 2 * j]").replace("T[M, N]", "T[M, 2 * N]"),
        "2 * j",
    ),
    (
        Code.INDEX_NOT_AFFINE_UNIT,
        over_rows("Y[i] = max[j](x[i, j] + W[j + 1])", "input W: f32[2 * N] output Y: f32[M]").replace(
            "W[j + 1]", "W[2 * j]"
        ),
        "W[2 * j]",
    ),
    (
        Code.TMA_COLUMN_OFFSET,
        over_rows("Y[i] = max[j](x[i, j])", tile="x[i, j] = X[i, j + 12]").replace("T[M, N]", "T[M, N + 12]"),
        "j + 12",
    ),
    (Code.INNER_NOT_TILED, over_rows("Y[i] = x[i] + 1", tile="x[i] = X[i, 0]").replace(", j in N", ""), "0"),
    (Code.MMA_WIDTH, attention("").replace("j 64", "j 320"), "sum[d](q[i, d] * k[j, d])"),
    (Code.ATOM_ROWS, attention("").replace("j 64", "j 260"), "tile k[j, d] = K[b, j, g, d]"),
    (Code.INNER_EXTENT, schedule_of(COPY, "block i 128, j 24 consumers 2 over i"), "tile x[i, j] = X[i, j]"),
    (
        Code.INNER_EXTENT,
        over_rows("Y[i] = max[j](x[i, j])").replace("N", "36").replace("M, 36\n", "M\n"),
        "tile x[i, j] = X[i, j]",
    ),
    (
        Code.RANK,
        over_rows("Y[i] = max[j](x[i, j])", tile="x[i, j] = X[0, 0, 0, 0, i, j]").replace(
            "T[M, N]", "T[1, 1, 1, 1, M, N]"
        ),
        "input X: T[1, 1, 1, 1, M, N]",
    ),
    (Code.K_STEP, schedule_of(ATTENTION, "block i 128, j 72 consumers 2 over i"), "sum[j](T(p[i, j]) * v[j, e])"),
    (Code.ATOM_ROWS, schedule_of(LOSS, "block i 128, j 20 consumers 2 over i"), "sum[d](h[i, d] * w[j, d])"),
    (Code.MMA_WIDTH, schedule_of(GEMM, "block m 128, n 320, k 64 consumers 2 over m"), "sum[k](a[m, k] * b[k, n])"),
    (
        Code.SECOND_FACTOR_IN_REGISTERS,
        attention("").replace("T(p[i, j]) * v[j, e]", "T(p[i, j]) * T(2 * v[j, e])"),
        "sum[j](T(p[i, j]) * T(2 * v[j, e]))",
    ),
    (
        Code.CONTRACTED_AXES,
        product("M, K, 32", "K, 32, N", "sum[k, c](a[m, k, c] * b[k, c, n])")
        .replace("k in K", "k in K, c in 32")
        .replace("a[m, k] = A[m, k]", "a[m, k, c] = A[m, k, c]")
        .replace("b[k, n] = B[k, n]", "b[k, c, n] = B[k, c, n]"),
        "sum[k, c](a[m, k, c] * b[k, c, n])",
    ),
    (
        Code.FOLD_SHAPE,
        over_rows("Y[i] = max[j](W[j]) + max[j](x[i, j])", "input W: f32[N] output Y: f32[M]"),
        "max[j](W[j])",
    ),
    (
        Code.TILE_ROWS,
        "kernel k { size M, N  input X: f32[M, N]  output Y: f32[N]  tile x[i, j] = X[i, j]  Y[j] = sum[i](x[i, j]) }",
        "x[i, j]",
    ),
    (Code.READ_NEEDS_TILE, over_rows("Y[i] = max[j](x[i, j] + X[i, j])"), "X[i, j]"),
    (
        Code.FUNCTION_UNSUPPORTED,
        over_rows("Y[i] = i32(floor(max[j](x[i, j])))", "output Y: i32[M]"),
        "i32(floor(max[j](x[i, j])))",
    ),
    (
        Code.STORE_TYPE,
        over_rows("Y[i] = max[j](x[i, j])", "output Y: i32[M]").replace("X: T[", "X: i32[").replace(PARAMETER, ""),
        "Y[i] = max[j](x[i, j])",
    ),
    (
        Code.STORE_TYPE,
        over_rows("Y[i, j] = x[i, j]", "output Y: i32[M, N]").replace("X: T[", "X: i32[").replace(PARAMETER, ""),
        "Y[i, j] = x[i, j]",
    ),
    (
        Code.STORE_WITHOUT_ROWS,
        over_rows(
            "Y[i] = max[j](x[i, j]) z[h] = W[h] * 2 Z[h] = z[h]",
            "size H input W: f32[H] output Y: f32[M] output Z: f32[H]",
        ),
        "Z[h] = z[h]",
    ),
    (
        Code.STORE_COLUMNS_NOT_INNER,
        over_rows("Y[j, i] = x[i, j]", "output Y: T[N, M]", more="schedule hopper { consumers 2 over i block i 128 }"),
        "Y[j, i] = x[i, j]",
    ),
    (Code.BLOCK_OF_WORKERS, schedule_of(ATTENTION, "consumers 3 over i block i 128"), "i 128"),
    (Code.BLOCK_OF_ROWS, schedule_of(ATTENTION, "consumers 3 over i, r block i 16, r 12"), "r 12"),
    (Code.BLOCK_OF_ROWS, schedule_of(ATTENTION, "consumers 2 over i, r block i 1, r 128"), "r 128"),
    (
        Code.PRODUCT_ROWS,
        schedule_of(
            ATTENTION.replace("Q: T[B, Sq, Hk * G, D]", "Q: T[B, Sq, Hk, D]").replace("Q[b, i, h, d]", "Q[b, i, g, d]"),
            "consumers 1 over i, r block i 8, r 8",
        ),
        "sum[d](q[i, d] * k[j, d])",
    ),
    (Code.CONSUMER_AXIS, schedule_of(ATTENTION, "consumers 2 over i, g"), "consumers 2 over i, g"),
    (Code.BLOCK_OF_PART, attention("block g 2"), "g 2"),
    (Code.BLOCK_OF_PART, attention("grid g"), "grid g"),
    (Code.BLOCK_OF_HELD, attention("block d 64"), "d 64"),
    (Code.SPLIT_AND_PART, BOTH, "h"),
    (Code.PART_IN_TILE, CHUNKS, "split i into c, r by 64"),
    (Code.PART_IN_TILE, CHUNKS.replace("r, j: j <= 9 * r", "i, c, j: j <= i + c"), "split i into c, r by 64"),
    (Code.GRID_FOLDED, schedule_of(GEMM, "grid k"), "grid k"),
    (Code.GRID_FOLDED, attention("grid d"), "grid d"),
    (Code.HOLD_NEEDS_EXTENT, schedule_of(GEMM, "hold k"), "hold k"),
    (Code.CONSUMER_COUNT, schedule_of(GEMM, "consumers 5 over m"), "consumers 5 over m"),
    (Code.REGISTER_COUNT, schedule_of(GEMM, "registers 240, 30"), "registers 240, 30"),
    (Code.REGISTER_COUNT, schedule_of(GEMM, "registers 24, 240"), "registers 24, 240"),
    (Code.REGISTER_COUNT, schedule_of(GEMM, "consumers 1 over m registers 248, 24"), "registers 248, 24"),
    (Code.CONSUMER_AXIS, schedule_of(GEMM, "consumers 2 over k"), "consumers 2 over k"),
    (Code.NO_PRODUCT, attention("late p by 1"), "late p by 1"),
    (Code.NO_PRODUCT, attention("take_turns over s, LSE"), "take_turns over s, LSE"),
    (Code.DISTANCE_TOO_FAR, attention("late O by 2"), "late O by 2"),
    (Code.DISTANCE_TOO_FAR, attention("ahead s by 2"), "ahead s by 2"),
    (Code.STEP_ORDER, attention("batch O, s"), "batch O, s"),
    (Code.STEP_ORDER, attention("late s by 1"), "late s by 1"),
    (Code.STEP_ORDER, attention("issue s, O"), "issue s, O"),
    (Code.STEP_ORDER, attention("ahead O by 1"), "ahead O by 1"),
    (Code.TILE_AT_TWO_DISTANCES, schedule_of(SWIGLU, "late gate by 1"), "late gate by 1"),
    (Code.NOT_UNDER, attention("late O by 1 under O: p"), "under O: p"),
    (Code.NOT_UNDER, attention("under O: p"), "under O: p"),
    (Code.NOT_UNDER, attention("late O by 1 issue O, s under O: p"), "under O: p"),
    (
        Code.TURNS_ALONE,
        schedule_of(ATTENTION, "block i 64, j 64 consumers 1 over i take_turns over s"),
        "take_turns over s",
    ),
    (
        Code.SKIP_ALONE,
        schedule_of(ATTENTION, "block i 64, j 64 consumers 1 over i skip_rows"),
        "skip_rows",
    ),
    (Code.NOTHING_STALE, schedule_of(GEMM, "stale_max"), "stale_max"),
    (Code.WALK_NOT_STREAMED, schedule_of(GEMM, "walk n down"), "walk n down"),
    (Code.ORDER_AXES, schedule_of(GEMM, "order m"), "order m"),
    (Code.GROUP_AXIS, schedule_of(GEMM, "group k by 2"), "group k by 2"),
    (Code.ALIAS_NAMES, attention("alias q, O"), "alias q, O"),
    (Code.ALIAS_NAMES, ALIASED_VECTOR, "alias Y, v"),
    (Code.SCAN_HELD, HELD, "sum[k](f16(2 * a[i, k]) * b[j, k])"),
    (Code.ALIAS_ROOM, attention("alias O, k"), "alias O, k"),
    (Code.ALIAS_ROOM, attention("alias O, q stages q 2 persistent static"), "alias O, q"),
    (Code.PLACE_OF_TILE, attention("place q registers"), "q registers"),
    (Code.PLACE_NOTHING, attention("place s shared"), "s shared"),
    (Code.PLACE_NOTHING, attention("place LSE registers"), "LSE registers"),
    (
        Code.NOT_UNDER,  # the sweep of a kept exponent writes what the product reads
        attention("stages k 2, v 2 late O by 1 issue s, O under O: p stale_max place p shared"),
        "under O: p",
    ),
    (Code.HINT_OF_ROWS, attention("hint O keep"), "O keep"),
    (Code.VECTOR_STORE, attention("via LSE tma"), "LSE tma"),
    (Code.VECTOR_STORE, attention("alias LSE, q"), "alias LSE, q"),
    (
        Code.HINT_OF_VECTOR,
        over_rows(
            "Y[i] = max[j](x[i, j] + w[j]) schedule hopper { hint x keep, w keep }",
            "input W: f32[N] output Y: f32[M]",
            tile="x[i, j] = X[i, j] tile w[j] = W[j]",
        ),
        "w keep",
    ),
    (
        Code.VIA_OF_VECTOR,
        over_rows(
            "Y[i] = max[j](x[i, j] + w[j]) schedule hopper { via x cp_async, w cp_async }",
            "input W: f32[N] output Y: f32[M]",
            tile="x[i, j] = X[i, j] tile w[j] = W[j]",
        ),
        "w cp_async",
    ),
    (Code.OOB_PRODUCT, schedule_of(GEMM, "oob a nan"), "a nan"),
    (
        Code.OOB_PRODUCT,  # what becomes a factor is rounded on its way there
        schedule_of(changed(GEMM, ("a[m, k] * b", "T(a[m, k] * 2) * b")), "oob a nan"),
        "a nan",
    ),
    (Code.OOB_TYPE, schedule_of(changed(COPY, ("= bf16)", "= f32)")), "oob x nan"), "x nan"),
    (
        Code.OOB_TYPE,
        NUMBERS,
        "x nan",
    ),
    (Code.OOB_COPIES, schedule_of(DIFFERENCE, "oob y nan via y cp_async"), "y nan"),
    (Code.OOB_READ, schedule_of(COPY, "oob x nan"), "x[i, j]"),
    (
        Code.OOB_READ,
        schedule_of(changed(DIFFERENCE, ("T(y[i, j] - x[i, j])", "y[i, j] - x[i, j]")), "oob y nan"),
        "y[i, j]",
    ),
    (
        Code.OOB_READ,  # `lag` is no number of T
        schedule_of(changed(DIFFERENCE, ("T(y[i, j] - x[i, j])", "T(lag * y[i, j] - x[i, j])")), "oob y nan"),
        "y[i, j]",
    ),
    (
        Code.OOB_READ,  # 0.1 is none either
        schedule_of(changed(DIFFERENCE, ("T(y[i, j] - x[i, j])", "T(0.1 * y[i, j])  + 0 * x[i, j]")), "oob y nan"),
        "y[i, j]",
    ),
    (
        Code.OOB_READ,  # two roundings in one
        schedule_of(changed(DIFFERENCE, ("T(y[i, j] - x[i, j])", "T(y[i, j] * x[i, j] - 2 * y[i, j])")), "oob y nan"),
        "y[i, j]",
    ),
    (
        Code.OOB_READ,  # of two tiles one is no factor
        schedule_of(DIFFERENCE, "oob x nan, y nan"),
        "x[i, j]",
    ),
    (
        Code.OOB_READ,
        schedule_of(changed(DIFFERENCE, ("T(y[i, j] - x[i, j])", "T(2 * x[i, j] + y[i, j])")), "oob y nan"),
        "y[i, j]",
    ),
    (
        Code.OOB_OF_VECTOR,
        over_rows(
            "Y[i] = sum[j](bf16(x[i, j] * w[j])) schedule hopper { oob x nan, w nan }",
            "input W: bf16[N] output Y: f32[M]",
            tile="x[i, j] = X[i, j] tile w[j] = W[j]",
        ),
        "w nan",
    ),
    (Code.HINT_OF_COPIES, schedule_of(GEMM, "via a cp_async hint a keep, b keep"), "a keep"),
    (Code.MULTICAST_AXIS, schedule_of(GEMM, "multicast b over k"), "b over k"),
    (Code.MULTICAST_DEPENDS, schedule_of(GEMM, "multicast b over n by 4"), "b over n by 4"),
    (Code.MULTICAST_DEPENDS, attention("multicast k over h"), "k over h"),  # by its part g
    (Code.MULTICAST_OF_COPIES, schedule_of(GEMM, "via b cp_async multicast a over n, b over m"), "b over m"),
    (
        Code.MULTICAST_OF_VECTOR,
        over_rows(
            "Y[i] = max[j](x[i, j] + w[j]) schedule hopper { multicast w over i }",
            "input W: f32[N] output Y: f32[M]",
            tile="x[i, j] = X[i, j] tile w[j] = W[j]",
        ),
        "w over i",
    ),
    (Code.MULTICAST_DEALT, attention("persistent table multicast k over i"), "k over i"),
    (Code.MULTICAST_DEALT, schedule_of(text_of("fa3_varlen"), "multicast k over i"), "k over i"),
    (Code.MULTICAST_APART, SHORTER_BY_HEAD, "k over h"),
    (
        Code.MULTICAST_SHARE,
        schedule_of(GEMM, "block m 64, n 64, k 16 consumers 1 over m multicast b over m by 4"),
        "b over m by 4",
    ),
    (Code.CLUSTER_SIZE, schedule_of(GEMM, "multicast b over m by 3"), "b over m by 3"),
    (Code.CLUSTER_SIZE, schedule_of(GEMM, "multicast b over m by 16"), "b over m by 16"),
    (Code.CLUSTER_SIZE, schedule_of(GEMM, "multicast b over m by 4, a over n by 4"), "a over n by 4"),
    (Code.CLUSTER_COUNTS, schedule_of(SWIGLU, "multicast w1 over m, w2 over m by 4"), "w2 over m by 4"),
    (Code.DIRECTIVE_UNSUPPORTED, schedule_of(GEMM, "via C cp_async"), "C cp_async"),
    (Code.DIRECTIVE_UNSUPPORTED, text_of("split_reduction"), "split j by 4"),
    (Code.DIRECTIVE_UNSUPPORTED, schedule_of(GEMM, "outputs C { grid m }"), "outputs C { grid m }"),
    (Code.DIRECTIVE_UNSUPPORTED, schedule_of(GEMM, "persistent counter"), "persistent counter"),
    (Code.DIRECTIVE_UNSUPPORTED, schedule_of(GEMM, "via a rows"), "a rows"),
]


@pytest.mark.parametrize(("code", "text", "place"), CASES, ids=[f"{n}-{c[0].name}" for n, c in enumerate(CASES)])
def test_each_fault_is_refused_where_it_is(code: Code, text: str, place: str) -> None:
    d = refused(text)
    assert d.code == code.name, d
    assert d.span is not None
    assert underlined(text, d.span) == place


def test_a_tile_that_threads_may_have_to_copy_is_not_multicast() -> None:
    with pytest.raises(TilegenError) as error:
        lower_all(loaded(schedule_of(GEMM, "via b auto multicast b over m")))
    assert {d.code for d in error.value.diagnostics} == {"MULTICAST_OF_COPIES"}


def test_a_target_without_a_lowering_is_refused_by_name() -> None:
    with pytest.raises(TilegenError) as error:
        lower(sample("gemm"), "mls")
    assert [d.code for d in error.value.diagnostics] == ["TARGET_UNSUPPORTED"]


def test_the_cases_cover_the_section_of_the_catalogue() -> None:
    codes = {entry.code for entry in SECTIONS["schedules and lowering"]}
    assert len(codes) > 40
    assert codes == {code for code, _, _ in CASES} | {Code.TARGET_UNSUPPORTED}


@pytest.mark.parametrize(
    ("directive", "word"), [("waves 8", "consumers"), ("prefetch 2", "stages"), ("warp_rows 32", "64 rows")]
)
def test_an_option_of_another_target_is_told_what_stands_here_for_it(directive: str, word: str) -> None:
    d = refused(schedule_of(GEMM, directive))
    assert d.code == "DIRECTIVE_OF_OTHERS"
    assert word in d.message
    assert "yet" not in d.message


def test_streamed_axes_are_shown_where_they_are_folded() -> None:
    text = text_of("outputs_two_orders")
    d = refused(text)
    assert d.message.startswith("the axes i, j are all streamed")
    assert [(n.text, underlined(text, n.span)) for n in d.notes if n.span] == [
        ("`i` is streamed here", "max[i](s[i, j])"),
        ("`j` is streamed here", "sum[j](s[i, j] * s[i, j])"),
    ]
    text = schedule_of(GEMM, "stream n")
    assert [underlined(text, n.span) for n in refused(text).notes if n.span] == [
        "stream n",
        "sum[k](a[m, k] * b[k, n])",
    ]


TURNED = """kernel k { size M, N, K  input A: f16[M, K]  input B: f16[K, N]  input R: f16[M, N]  output C: f32[M, N]
  tile a[m, k] = A[m, k]  tile b[k, n] = B[k, n]  tile r[m, n] = R[m, n]
  C[m, n] = sum[k](b[k, n] * a[m, k]) REST }"""


@pytest.mark.parametrize(("rest", "code"), [("+ 0 * R[0, 0]", "STORE_COLUMNS_NOT_INNER"), ("+ r[m, n]", "TILE_ROWS")])
def test_factors_in_the_wrong_order_are_to_be_swapped(rest: str, code: str) -> None:
    text = TURNED.replace("REST", rest)
    d = refused(text if "r[m, n]" in rest else text.replace("tile r[m, n] = R[m, n]", ""))
    assert d.code == code
    assert "swap the two factors of the product in `C`: the first one gives the rows" in d.fixes
    (alone,) = (text for code, text, _ in CASES if code is Code.STORE_COLUMNS_NOT_INNER)
    assert not any("swap" in fix for fix in refused(alone).fixes)


def test_refusals_name_what_they_speak_of() -> None:
    """Got and wanted stand where two things disagree, and a fix is offered for each."""
    d = refused(schedule_of(ATTENTION, "consumers 3 over i block i 128"))
    assert (d.got, d.wanted) == ("128", "192 (3 x 64 rows)")
    d = refused(NEAREST)
    assert d.message == "a value of `near` would run along too many axes at once: n, d"
    assert d.wanted == "rows along m, and columns along one other axis"
    assert all(refused(text).fixes for _, text, _ in CASES[::7])
