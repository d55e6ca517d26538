"""Specs on the MLS machine: every sample, defects put back, schedules, and what is refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.mls_shapes import outcome, shapes, with_schedules
from tests.test_language_doc import VALID, kernel_name
from tilegen.cli.main import main
from tilegen.cli.mls import emulated
from tilegen.cli.run import arguments, dense
from tilegen.cli.values import Sizes
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.tile import TileProgram
from tilegen.oracle import batch_axes, compare, evaluate, poisoned, random_inputs
from tilegen.passes.pipeline import lower
from tilegen.runtime.mls import run
from tilegen.sema.loading import load
from tilegen.syntax.span import Source
from tilegen.targets.mls.build import MlsBuilt, build
from tilegen.targets.mls.checks import check as static_checks
from tilegen.targets.mls.parsing import parse
from tilegen.targets.mls.verify import verify

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.tile"))
ATTENTION: Sizes = {"B": 1, "Sq": 35, "Sk": 70, "Hk": 1, "G": 2}
SIZES: dict[str, Sizes] = {
    "attention_bias": {**ATTENTION, "Sk": 72},
    "attention_chunks": {"B": 1, "N": 2, "C": 40, "Hk": 1, "G": 2},
    "attention_global_tokens": {**ATTENTION, "globals": 3, "window": 9},
    "attention_window": {**ATTENTION, "left": 20, "right": 3},
    "attention_prefix_lm": {**ATTENTION, "prefix": 33},
    "copy": {"M": 37, "N": 72},
    "difference": {"M": 70, "N": 72},
    "fa3_varlen": {"Sq": [0, 9, 70], "Sk": [5, 9, 40], "Hk": 1, "G": 2},
    "gemm": {"M": 37, "N": 72, "K": 88},
    "gemm_bias_gelu": {"M": 37, "N": 72, "K": 88},
    "gemm_logsumexp": {"M": 37, "V": 75},
    "row_softmax": {"M": 37, "N": 88},
    "swiglu": {"M": 37, "N": 72, "K": 88},
}
OTHERS = {
    "column_sums": """kernel sums { size M, N input X: bf16[M, N] output Y: f32[N] axis i in M, j in N
        tile x[i, j] = X[i, j] Y[j] = sum[i](x[i, j]) }""",
    "no_rows": "kernel k { size M output Y: f32[M] axis i in M Y[i] = i }",
}
EXAMPLES = [text for text in VALID if kernel_name(text) != "every_directive"]
DEFECTS = {"carry": "MLS_CARRY", "tail": "MLS_TAIL", "dirty-lds": "MLS_DIRTY_LDS"}


def sample(name: str, **parameters: str) -> TileProgram:
    return load(SAMPLES / f"{name}.tile", parameters)


def check(program: TileProgram, given: Sizes, built: MlsBuilt | None = None, *, straddle: bool = False) -> None:
    """Run it on random data, and hold every output against the oracle."""
    sizes, scalars = arguments(program, given, "mls", small=True)
    trial = emulated(built or build(program), program, sizes, scalars, 1, straddle=straddle)
    assert trial.judged
    for judged in trial.judged:
        assert judged.comparison.right, (judged.name, judged.comparison)


def refused(text: str, **parameters: str) -> Diagnostic:
    with pytest.raises(TilegenError) as error:
        build(load(Source("t.tile", text), parameters))
    (found,) = error.value.diagnostics
    return found


# ---- results ----


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_right(name: str) -> None:
    check(sample(name), SIZES.get(name, ATTENTION))


@pytest.mark.parametrize(
    ("parameters", "sizes"),
    [
        ({"D": "64", "causal": "true"}, {**ATTENTION, "G": 4}),
        ({"D": "64", "causal": "true"}, {**ATTENTION, "G": 1, "Sq": 70, "Sk": 33}),
        ({"D": "72"}, ATTENTION),  # columns that no matrix instruction divides
        ({"D": "64", "causal": "true"}, {**ATTENTION, "Sq": 5, "Sk": 2}),  # rows that see no key
        ({"D": "64"}, {**ATTENTION, "Sk": 0}),
    ],
)
def test_attention_is_right_for_other_parameters(parameters: dict[str, str], sizes: Sizes) -> None:
    check(sample("fa3_fwd", **parameters), sizes)


def test_numbers_of_32_bits_are_moved_as_they_are() -> None:
    check(sample("copy", T="f32"), {"M": 33, "N": 20})


def test_functions_of_numbers_are_right() -> None:
    text = """kernel functions {
      size   M, N
      input  X: f32[M, N]
      output Y: f32[M, N]
      output Z: f32[M, N]
      tile x[i, j] = X[i, j]
      Y[i, j] = pow(x[i, j], 3) / (x[i, j] - 0.25) + erf(x[i, j]) + tanh(x[i, j]) + pow(x[i, j] * x[i, j], 0)
      Z[i, j] = select(i - j > 3 and not x[i, j] < 0, sqrt(abs(x[i, j])), rsqrt(1 + x[i, j] * x[i, j])) + floor(x[i, j])
                + min(x[i, j], pow(2, -j), sigmoid(x[i, j])) + log2(2 + abs(x[i, j])) + exp(-x[i, j]) + pow(-2, i)
    }"""
    check(load(Source("t.tile", text), {}), {"M": 19, "N": 40})


def test_random_shapes_are_right() -> None:
    """A few of what `benchmarks/mls_shapes.py` runs."""
    some = [*shapes(4, 7, most=60), *with_schedules(shapes(4, 8, most=60), 9)]
    found = [outcome(shape, n) for n, shape in enumerate(some)]
    assert len({f["shape"].split()[0] for f in found}) > 2
    assert [f for f in found if not f["right"]] == []


def test_an_output_without_an_axis_of_the_grid_is_stored_once() -> None:
    text = """kernel apart {
      size   K
      input  X: bf16[320, 64]
      input  Z: bf16[K, 320, 64]
      output Y: f32[320, 64]
      output W: bf16[K, 320, 64]
      axis   b in 320, j in 64, k in K
      tile x[b, j] = X[b, j]
      tile z[b, j] = Z[k, b, j]
      Y[b, j]    = softmax[j](x[b, j])
      W[k, b, j] = z[b, j]
    }"""
    check(load(Source("t.tile", text), {}), {"K": 3})


HOPPERS = re.compile("wgmma|consumer|warpgroup|swizzle|TMA|PTX|mbarrier", re.IGNORECASE)


@pytest.mark.parametrize(
    ("name", "directives", "code"),
    [
        ("gemm", "block m 100", "BLOCK_OF_WORKERS"),
        ("gemm", "block m 64  waves 8", "BLOCK_OF_WORKERS"),
        ("gemm", "block n 100", "INNER_EXTENT"),
        ("fa3_fwd", "block j 24", "K_STEP"),
        ("fa3_fwd", "block r 8", "BLOCK_OF_PART"),
        ("gemm", "grid m stream n", "NESTED_STREAMS"),
        ("fa3_fwd", "block h 2", "TOO_MANY_DIRECTIONS"),
        ("column_sums", "", "TILE_ROWS"),
        ("no_rows", "", "NO_ROWS"),
    ],
)
def test_schedules_are_refused_in_this_machines_words(name: str, directives: str, code: str) -> None:
    text = OTHERS[name] if name in OTHERS else (SAMPLES / f"{name}.tile").read_text(encoding="utf-8")
    end = text.rindex("}")
    found = refused(f"{text[:end]} schedule mls {{ {directives} }} }}")
    assert found.code == code
    told = [found.message, found.got, found.wanted, found.rule, *found.fixes]
    assert found.fixes and all(told[:1])
    assert not [line for line in told if HOPPERS.search(line)]


# ---- the program ----


@pytest.mark.parametrize("name", NAMES)
def test_the_program_of_a_sample_is_one_that_the_machine_takes(name: str) -> None:
    assert verify(build(sample(name)).program) == []


@pytest.mark.parametrize("name", ["copy", "gemm", "row_softmax", "fa3_varlen"])
def test_the_text_of_a_sample_is_read_back_to_its_program(name: str) -> None:
    built = build(sample(name))
    assert static_checks(built.program) == []
    assert parse(Source(f"{name}.mls", built.text)) == built.program


def test_the_text_shows_the_lines_of_the_spec() -> None:
    program = sample("fa3_fwd")
    text = build(program).text
    for line in (15, 16, 17, 19, 20, 21, 22):
        assert f"; {program.source.name}:{line}: {program.source.line(line).strip()}" in text


def test_every_sum_of_an_address_carries() -> None:
    """Low words are added without, high words with a carry, one behind the other."""
    lines = build(sample("fa3_fwd")).text.splitlines()
    sums = [n for n, line in enumerate(lines) if "base, low word" in line]
    assert len(sums) > 6
    assert all(lines[n].lstrip().startswith("s_add_u32") for n in sums)
    assert all(lines[n + 1].lstrip().startswith("s_addc_u32") for n in sums)


@pytest.mark.parametrize("text", EXAMPLES, ids=kernel_name)
def test_what_builds_for_hopper_builds_for_mls(text: str) -> None:
    program = load(Source("docs/language.md", text), {})
    try:
        lower(program)
    except TilegenError:
        return
    assert verify(build(program).program) == []


# ---- defects ----


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm", "row_softmax"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_and_named(defect: str, name: str, tmp_path: Path) -> None:
    arguments = ["run", str(SAMPLES / f"{name}.tile"), "--target", "mls", "--defect", defect]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1, result.output
    report = result.output.replace("\n", " ")
    assert f"error[{DEFECTS[defect]}]: defect {defect}: tile " in report
    assert re.search(r"`(matrix_load|ds_read_matrix)_\w+ ", report)
    assert re.search(r"[A-Z]\[\d+(, \d+)*\]|past the end of [A-Z]", report)  # the element
    assert re.search(r"0x[0-9a-f]+|byte \d+ of LDS", report)  # the address


def test_a_defect_that_the_sizes_do_not_meet_is_told_of() -> None:
    arguments = ["run", str(SAMPLES / "copy.tile"), "--target", "mls", "--size", "M=64,N=64", "--defect", "tail"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "error[MLS_DEFECT_UNMET]" in result.output


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm", "row_softmax"])
def test_without_defects_the_same_situations_are_right(name: str) -> None:
    program = sample(name)
    check(program, {}, straddle=False)
    check(program, SIZES.get(name, ATTENTION), straddle=True)


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm", "row_softmax", "copy"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found_before_running(defect: str, name: str) -> None:
    found = static_checks(build(sample(name), frozenset({defect})).program)
    assert DEFECTS[defect] in {d.code for d in found}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_marked_in_the_text_and_changes_nothing_else(defect: str) -> None:
    program = sample("gemm")
    right, wrong = build(program).text.splitlines(), build(program, frozenset({defect})).text.splitlines()
    assert f"; defect {defect}: put in on purpose" in wrong
    assert not any("defect" in line for line in right)
    assert sum(f"defect {defect}" in line for line in wrong) > 1


# ---- schedules ----

PRODUCT = """kernel product(N: int = 64) {
  size   M, K
  input  A: bf16[M, K]
  input  B: bf16[N, K]
  output C: f32[M, N]
  tile a[m, k] = A[m, k]
  tile b[n, k] = B[n, k]
  C[m, n] = sum[k](a[m, k] * b[n, k])
  SCHEDULE
}
"""


def product(schedule: str = "") -> TileProgram:
    return load(Source("t.tile", PRODUCT.replace("SCHEDULE", schedule)), {})


def test_a_schedule_says_blocks_waves_and_stages() -> None:
    program = product("schedule mls { block k 32  waves 8  prefetch 1  walk k down }")
    built = build(program)
    assert built.program.waves == 8
    assert dict(built.plan.blocks) == {"m": 128, "n": 64, "k": 32}
    assert [r.depth for r in built.plan.rings] == [1, 1]
    check(program, {"M": 150, "K": 88}, built)


@pytest.mark.parametrize(
    "schedule",
    [
        "block n 128, k 64  prefetch 1",  # columns of two pieces a wave, and two waves a stripe of rows
        "block n 32, k 128  prefetch 1",  # two stripes of rows a wave
        "block k 48",  # stripes that no number of waves divides
        "block n 48, k 32  waves 12  prefetch 1",
    ],
)
def test_waves_share_out_tiles_of_any_block(schedule: str) -> None:
    text = (SAMPLES / "gemm.tile").read_text(encoding="utf-8")
    program = load(Source("t.tile", text[: text.index("schedule")] + f"schedule mls {{ {schedule} }} }}"), {})
    check(program, {"M": 75, "N": 200, "K": 136})


def test_blocks_shrink_until_lds_holds_them() -> None:
    wide, narrow = build(sample("fa3_fwd", D="64")).plan, build(sample("fa3_fwd", D="256")).plan
    assert dict(wide.blocks)["j"] > dict(narrow.blocks)["j"]
    assert max(p.lds_bytes for p in (wide, narrow)) <= 64 << 10


def test_each_schedule_is_a_program_of_its_own(tmp_path: Path) -> None:
    spec = tmp_path / "product.tile"
    schedules = "schedule mls if M <= 64 { block k 32 } schedule mls { block k 64 }"
    spec.write_text(PRODUCT.replace("SCHEDULE", schedules), encoding="utf-8")
    result = CliRunner().invoke(main, ["build", str(spec), "--target", "mls", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {p.name for p in tmp_path.glob("*.mls")} == {"product.1.mls", "product.2.mls"}
    result = CliRunner().invoke(main, ["run", str(spec), "--target", "mls", "--size", "M=40,K=72"])
    assert result.exit_code == 0, result.output
    spec.write_text(PRODUCT.replace("SCHEDULE", "schedule mls if M <= 64 { block k 32 }"), encoding="utf-8")
    result = CliRunner().invoke(main, ["run", str(spec), "--target", "mls", "--size", "M=80,K=72"])
    assert "error[NO_VARIANT]" in result.output


# ---- refusals ----


def test_what_lds_cannot_hold_is_refused_with_its_bytes() -> None:
    found = refused(PRODUCT.replace("SCHEDULE", "schedule mls { block k 256  waves 16 }"))
    assert found.code == "MLS_LDS"
    assert "a 1 x 131072, b 1 x 32768" in found.got  # of the smallest choice
    assert found.wanted == "at most 65536"


def test_columns_that_begin_inside_16_bytes_are_refused_in_the_machines_words() -> None:
    found = refused("""kernel shifted {
      size   M, N
      input  X: bf16[M, N + 1]
      output Y: bf16[M, N]
      axis   i in M, j in N
      tile x[i, j] = X[i, j + 1]
      Y[i, j] = x[i, j]
    }""")
    assert found.code == "MLS_COLUMN_OFFSET" and "TMA" not in str(found)


def test_what_registers_cannot_hold_is_refused() -> None:
    text = """kernel wide {
      size   M, K
      input  A: bf16[M, K]
      input  B: bf16[K, 256]
      input  C: bf16[K, 256]
      input  D: bf16[K, 256]
      input  E: bf16[K, 256]
      output Y: bf16[M, 256]
      tile a[m, k] = A[m, k]
      tile b[k, n] = B[k, n]
      tile c[k, n] = C[k, n]
      tile d[k, n] = D[k, n]
      tile e[k, n] = E[k, n]
      Y[m, n] = sum[k](a[m, k] * b[k, n]) * sum[k](a[m, k] * c[k, n])
                + sum[k](a[m, k] * d[k, n]) * sum[k](a[m, k] * e[k, n])
    }"""
    found = refused(text)
    assert found.code == "MLS_REGISTERS"
    assert found.wanted == "at most 256"


@pytest.mark.parametrize(
    ("schedule", "code"),
    [
        ("waves 6", "MLS_WAVES"),
        ("waves 20", "MLS_WAVES"),
        ("prefetch 3", "MLS_PREFETCH"),
        ("stale_max", "DIRECTIVE_UNSUPPORTED"),
        ("take_turns over C", "DIRECTIVE_UNSUPPORTED"),
        ("stages C 2", "DIRECTIVE_UNSUPPORTED"),
    ],
)
def test_directives_that_mean_nothing_here_are_refused(schedule: str, code: str) -> None:
    assert refused(PRODUCT.replace("SCHEDULE", f"schedule mls {{ {schedule} }}")).code == code


def test_a_tile_that_begins_before_its_tensor_is_refused() -> None:
    text = """kernel shifted {
      size   M, N
      input  X: bf16[M, N]
      output Y: bf16[M, N] else 0
      axis   i in M, j in N
      domain i: i >= 1
      tile x[i, j] = X[i - 1, j]
      Y[i, j] = x[i, j]
    }"""
    found = refused(text)
    assert found.code == "MLS_UNSUPPORTED"
    assert "which can begin before its tensor" in found.message


def test_a_tile_of_bytes_is_refused() -> None:
    text = """kernel masked {
      size   M, N
      input  X: bf16[M, N]
      input  keep: bool[M, N]
      output Y: bf16[M, N]
      tile x[i, j] = X[i, j]
      tile m[i, j] = keep[i, j]
      Y[i, j] = where(m[i, j], x[i, j], 0)
    }"""
    found = refused(text)
    assert found.code == "MLS_UNSUPPORTED"
    assert found.message.endswith("tile m, of bool, which no load brings")


def test_rows_that_are_no_whole_lines_are_refused_by_name() -> None:
    with pytest.raises(TilegenError) as error:
        check(sample("copy"), {"M": 9, "N": 12})
    assert {d.code for d in error.value.diagnostics} == {"MLS_LINES"}
    with pytest.raises(TilegenError) as error:
        check(product(), {"M": 9, "K": 12})
    assert {d.code for d in error.value.diagnostics} == {"MLS_LINES"}


def test_the_plan_is_data() -> None:
    """Equal for equal specs, so that a program depends on nothing else."""
    first, second = (build(sample("gemm")) for _ in range(2))
    assert first == second
    assert replace(first.plan, waves=8) != second.plan


# ---- isolation ----


def spoiled(name: str, given: Sizes, places: dict[tuple[int, ...], float], **parameters: str) -> bool:
    """Whether a run in which V has these entries equals the oracle, at rows that see them and at the others."""
    program = sample(name, **parameters)
    sizes, scalars = arguments(program, given, "mls", small=True)
    inputs = random_inputs(program, sizes, 5)
    for place, value in places.items():
        inputs["V"][place] = value
    results = evaluate(program, sizes, scalars, inputs)
    outputs = {n: array.copy() for n, array in poisoned(program, sizes).items()}
    run(build(program), program, inputs, outputs, {**dense(sizes), **scalars})
    assert not np.isfinite(outputs["O"].astype(np.float32)).all()
    assert np.isfinite(outputs["O"].astype(np.float32)).any()
    return all(compare(r, outputs[n], batch_axes(program, n)).right for n, r in results.items())


NAN, INF = float("nan"), float("inf")


def test_what_is_not_finite_reaches_the_rows_that_see_it_alone() -> None:
    places = {(0, 10, 0, 5): INF, (0, 13, 0, 7): NAN, (0, 17, 0, 3): -INF, (0, 12, 0, 5): -INF, (0, 15, 0, 5): NAN}
    sizes: Sizes = {"B": 1, "Sq": 15, "Sk": 18, "Hk": 1, "G": 1}
    assert spoiled("fa3_fwd", sizes, places, D="64", causal="true")
    assert spoiled("fa3_fwd", sizes, places, D="32", causal="true", T="f16")
    assert spoiled("attention_window", {**sizes, "Sk": 40, "left": 20, "right": 3}, places, D="64")


def test_a_neighbour_of_a_batch_does_not_spoil_a_sequence() -> None:
    """Rows behind a sequence's end are the next one's."""
    sizes: Sizes = {"Sq": [9, 12], "Sk": [5, 11], "Hk": 1, "G": 1}
    assert spoiled("fa3_varlen", sizes, {(5, 0, 3): NAN, (6, 0, 4): INF}, D="32")
    assert spoiled("fa3_varlen", sizes, {(14, 0, 3): NAN, (4, 0, 4): INF}, D="32", causal="true")


def test_a_fast_schedule_leaves_the_scan_out(tmp_path: Path) -> None:
    text = (SAMPLES / "fa3_fwd.tile").read_text(encoding="utf-8")
    text = text[: text.index("schedule")] + "schedule mls { isolate fast } }"
    fast = build(load(Source("t.tile", text), {"causal": "true"}))
    exact = build(sample("fa3_fwd", causal="true"))
    assert "finite numbers alone" in exact.text
    assert "finite numbers alone" not in fast.text
