"""Kernels whose schedule depends on sizes: which variant a launch takes, when it is compiled, where it is kept."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tests.runtime import kernels
from tests.runtime.test_cache import place as place
from tests.runtime.test_cache import whole_code as whole_code
from tests.runtime.test_driver import ELSEWHERE, FakeDriver
from tests.runtime.test_driver import fake as fake
from tests.runtime.test_kernel import Gpu
from tests.runtime.test_kernel import on_gpu as on_gpu
from tilegen import disk
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.uniform import op
from tilegen.runtime import cache, compiler
from tilegen.runtime import kernel as runtime
from tilegen.runtime.compilation import compile_source
from tilegen.runtime.kernel import Kernel
from tilegen.runtime.variants import Variant
from tilegen.syntax.span import Source

DOUBLE = """
kernel twofold(N: int = 64) {
  size   M
  input  X: f32[M, N]
  output Y: f32[M, N]
  scalar few: i32 = 2 * M
  axis   i in M, j in N
  tile x[i, j] = X[i, j]
  Y[i, j] = 2 * x[i, j]
  schedule hopper if N <= 64 and M <= 190 and few != 7 { block i 64  consumers 1 over i }
  schedule hopper if few >= 7 { block i 128  consumers 2 over i }
}
"""
SOURCE = Source("twofold.tile", DOUBLE)
OPEN = DOUBLE.replace("schedule hopper if few >= 7 {", "schedule hopper {")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the variants that were compiled."""
    real, stems = compiler.compile_plan, []

    def compile_plan(plan: Any, stem: str, program: Any) -> Any:
        stems.append(stem)
        return real(plan, stem, program)

    monkeypatch.setattr(compiler, "compile_plan", compile_plan)
    return stems


def rows(count: int) -> Any:
    return np.random.default_rng(count).standard_normal((count, 64), dtype=np.float32)


def loads(kernel: Kernel) -> int:
    """Boxes that the last launch loaded."""
    assert kernel.last_report is not None
    return sum(kernel.last_report.tma_loads.values())


def boxes(count: int, block: int) -> int:
    """Of 64 rows in whole tiles."""
    return -(-count // block) * block // 64


# ---- which one a launch takes -----------------------------------------------------------------------


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.usefixtures("whole_code")
def test_a_launch_takes_the_first_variant_whose_guard_holds(place: Path, compiled: list[str], use_cache: bool) -> None:
    kernel = compile_source(SOURCE, {}, use_cache=use_cache).kernel()
    assert [v.guard for v in kernel.variants] == ["M <= 190 and few != 7", "few >= 7"]
    assert compiled == []  # none before one is needed
    for count, numbers, stem in [
        (190, {}, "twofold.1"), (1, {"few": 3}, "twofold.1"), (191, {}, "twofold.2"), (9, {"few": 7}, "twofold.2"),
        (190, {}, "twofold.1"), (0, {}, "twofold.1"),
    ]:  # fmt: skip
        x = rows(count)
        np.testing.assert_array_equal(kernel(X=x, **numbers), 2 * x)
        chosen = kernel.variant(**{"M": count, "few": 2 * count, **numbers})
        assert kernel.variants.index(chosen) + 1 == int(stem[-1])
        if count:
            assert loads(kernel) == boxes(count, 64 * int(stem[-1]))
        assert stem in compiled
    assert compiled == ["twofold.1", "twofold.2"]


def test_a_launch_that_no_variant_is_for_is_refused_with_the_conditions() -> None:
    kernel = tilegen.compile(DOUBLE)
    with pytest.raises(TilegenError) as caught:
        kernel(X=rows(191), few=6)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.got) == ("NO_VARIANT", "M = 191, few = 6")
    assert fault.wanted == "M <= 190 and few != 7 or few >= 7"
    assert fault.span is not None
    assert DOUBLE.splitlines()[fault.span.line - 1].startswith("  schedule hopper if few >= 7")
    with pytest.raises(TilegenError, match="NO_VARIANT"):
        kernel.variant(M=191, few=6)
    with pytest.raises(TilegenError, match="NO_VARIANT"):
        kernel.prepare(X=rows(191), few=6)


def test_sizes_that_a_variant_is_asked_for_by_are_checked() -> None:
    kernel = tilegen.compile(DOUBLE)
    with pytest.raises(TilegenError, match=r"VARIANT_UNKNOWN: .* depends on few too\n.*variant\(M=191, few=…\)"):
        kernel.variant(M=191)
    with pytest.raises(TilegenError, match=r"UNKNOWN_ARGUMENT: .*N"):
        kernel.variant(M=191, few=6, N=3)
    for wrong in ({"M": "many"}, {"M": 1.5}, {"M": True}, {"M": 191, "few": 2.5}, {"M": 191, "few": [6]}):
        with pytest.raises(TilegenError, match=r"SIZE_VALUE|SCALAR_VALUE"):
            kernel.variant(**{"few": 6, **wrong})


def test_parameters_that_decide_leave_one_variant_and_its_names(compiled: list[str]) -> None:
    kernel = tilegen.compile(OPEN, N=128)
    assert len(kernel.variants) == 1
    assert kernel.variants[0].guard is kernel.plan.guard is None
    assert "__global__" in kernel.cuda
    assert compiled in (["twofold"], [])  # or from the cache


def test_a_prepared_launch_keeps_its_variant() -> None:
    kernel = tilegen.compile(OPEN)
    few, many = rows(190), rows(191)
    launches = [kernel.prepare(X=x) for x in (few, many)]
    for x in (few, many):
        x *= 3
    for launch, x in zip(launches, (few, many), strict=True):
        np.testing.assert_array_equal(launch(), 2 * x)
        assert loads(kernel) == boxes(len(x), 64 if x is few else 128)


def test_what_each_variant_has_for_itself_is_asked_of_it() -> None:
    kernel = tilegen.compile(OPEN)
    for name in ("plan", "cuda", "ptx", "cubin", "sass"):
        with pytest.raises(TilegenError, match="SEVERAL_VARIANTS: twofold has 2 variants"):
            getattr(kernel, name)
    first, last = kernel.variants
    assert first.plan != last.plan
    assert "128" in last.cuda
    assert first.cubin[:4] == b"\x7fELF"
    assert "UTMALDG" in first.sass
    assert kernel.name == kernel.entry == "twofold"


def test_build_compiles_every_variant(compiled: list[str]) -> None:
    kernel = compile_source(Source("spec.tile", OPEN), {}, use_cache=False).kernel()
    kernel.build()
    assert sorted(compiled) == ["twofold.1", "twofold.2"]
    kernel(X=rows(3))
    assert len(compiled) == 2


def test_faults_of_all_variants_are_told_when_the_kernel_is_compiled() -> None:
    wrong = OPEN.replace("block i 64  consumers 1 over i", "block i 63").replace("block i 128 ", "walk i up ")
    with pytest.raises(TilegenError) as caught:
        tilegen.compile(wrong)
    lines = {d.span.line for d in caught.value.diagnostics if d.span}
    assert {9, 10} & lines == {10} or len(lines) >= 2
    assert len(caught.value.diagnostics) >= 2


def test_the_guard_is_in_the_plans_text_and_json() -> None:
    kernel = tilegen.compile(DOUBLE)
    for variant in kernel.variants:
        assert f"launched if {variant.guard}\n" in print_plan(variant.plan)
        assert plan_from_json(plan_to_json(variant.plan)) == variant.plan
        assert variant.plan.guard is not None


# ---- on a GPU ---------------------------------------------------------------------------------------


def guarded_sums() -> Kernel:
    """Two variants of one kernel, told apart by the bytes of shared memory that a launch asks for."""
    whole = kernels.padded_sum()
    built = whole.variants[0].built
    small = replace(whole.plan, guard=op("le", "M", 64), shared_bytes=9000)
    return Kernel(whole.program, [Variant(small, lambda: replace(built, plan=small)), *whole.variants])


def test_each_variant_is_loaded_once_and_launched_for_its_sizes(on_gpu: FakeDriver) -> None:
    kernel = guarded_sums()
    for count in (64, 65, 64, 1, 200):
        kernel(X=Gpu(count, 64, at=0x2000_0000))
        assert on_gpu.launched.shared_bytes == (9000 if count <= 64 else 8192)
        assert on_gpu.launched.grid == -(-count // 64)
    assert on_gpu.names().count("cuModuleLoadData") == 2


def test_only_what_is_launched_is_loaded(on_gpu: FakeDriver) -> None:
    kernel = guarded_sums()
    kernel(X=Gpu(300, 64, at=0x2000_0000))
    assert on_gpu.names().count("cuModuleLoadData") == 1


def test_a_repeated_call_of_either_variant_only_launches(on_gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = guarded_sums()
    calls = [{"X": Gpu(n, 64, at=0x2000_0000), "Y": Gpu(n, at=0x3000_0000)} for n in (64, 65)]
    for given in calls:
        kernel(**given)
    on_gpu.calls.clear()
    monkeypatch.setattr(runtime, "taken", lambda *_: pytest.fail("the guards were looked at again"))
    for given in calls:
        kernel(**given)
    assert on_gpu.names() == [*ELSEWHERE, *ELSEWHERE]


def test_prepared_launches_of_both_variants_only_launch(on_gpu: FakeDriver) -> None:
    kernel = guarded_sums()
    launches = [kernel.prepare(X=Gpu(n, 64, at=0x2000_0000), Y=Gpu(n, at=0x3000_0000)) for n in (64, 65)]
    on_gpu.calls.clear()
    shared = []
    for launch in (*launches, *launches):
        launch()
        shared.append(on_gpu.launched.shared_bytes)
    assert shared == [9000, 8192, 9000, 8192]
    assert on_gpu.names() == ELSEWHERE * 4


# ---- the cache --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("whole_code")
def test_each_variant_has_an_entry_of_its_own(place: Path, compiled: list[str]) -> None:
    first = compile_source(SOURCE, {})
    assert not first.cached
    assert len(list(place.iterdir())) == 1
    _ = first.variants[1].cubin
    second = compile_source(SOURCE, {})
    assert second.variants[1].built == first.variants[1].built
    assert second.cached
    assert compiled == ["twofold.2"]
    _ = second.variants[0].cubin
    assert not second.cached
    assert compiled == ["twofold.2", "twofold.1"]
    third = compile_source(SOURCE, {})
    third.build()
    assert third.cached
    assert [v.built for v in third.variants] == [second.variants[0].built, first.variants[1].built]
    assert (third.program, third.plans) == (first.program, first.plans)
    assert len(list(place.iterdir())) == 3
    assert disk.contents(place).kernels == 1


@pytest.mark.usefixtures("whole_code")
def test_a_broken_entry_of_one_variant_is_compiled_again(place: Path, compiled: list[str]) -> None:
    compile_source(SOURCE, {}).build()
    (entry,) = (path for path in place.iterdir() if "twofold.2" in path.name)
    entry.write_bytes(entry.read_bytes()[:-9])
    compiled.clear()
    compile_source(SOURCE, {}).build()
    assert compiled == ["twofold.2"]


@pytest.mark.usefixtures("whole_code")
def test_a_variant_made_by_code_that_has_changed_since_is_not_kept(
    place: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = compile_source(SOURCE, {})
    monkeypatch.setattr(cache, "code_digest", lambda: "other code")
    done.build()
    assert sorted(compiled) == ["twofold.1", "twofold.2"]
    assert len(list(place.iterdir())) == 1


# ---- sequences --------------------------------------------------------------------------------------

SIMILAR = """
kernel similar(D: 64 | 128 = 64) {
  size   B, S
  input  cu: i32[B + 1]
  input  X: bf16[B, S, D]
  output Y: f32[B, S]
  scalar few: i32 = 0
  ragged S over B by cu
  axis   i in S, j in S
  tile x[i, d] = X[b, i, d]
  tile y[j, d] = X[b, j, d]
  Y[b, i] = logsumexp[j](sum[d](x[i, d] * y[j, d]) / sqrt(D))
  schedule hopper if few == 1 { block i 64, j 32  consumers 1 over i }
  schedule hopper { block i 128, j 64  consumers 2 over i }
}
"""


def test_other_sequences_change_no_bit_whichever_variant_the_caller_takes() -> None:
    kernel = tilegen.compile(SIMILAR)
    data = np.random.default_rng(3).standard_normal((400, 64)).astype(ml_dtypes.bfloat16)
    for few in (0, 1):
        alone = kernel(X=data[:70], cu=np.array([0, 70], np.int32), few=few)
        for others in ([1], [130], [0, 5, 20]):
            lengths = [70, *others]
            cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            together = kernel(X=data[: cu[-1]], cu=cu, few=few)
            np.testing.assert_array_equal(together[:70].view(np.int32), alone.view(np.int32))
        wide = data[:70].astype(np.float64)
        scores = wide @ wide.T / 8
        np.testing.assert_allclose(alone, np.log(np.exp(scores).sum(1)), rtol=1e-5)
    blocks = [re.search(r"units of a sequence S cdiv (\d+)", print_plan(v.plan)) for v in kernel.variants]
    assert [found and found[1] for found in blocks] == ["64", "128"]


def test_wrong_starts_are_found_by_either_variant() -> None:
    kernel = tilegen.compile(SIMILAR)
    x = np.zeros((9, 64), ml_dtypes.bfloat16)
    for few in (0, 1):
        with pytest.raises(TilegenError, match="RAGGED_STARTS"):
            kernel(X=x, cu=np.array([0, 8], np.int32), few=few)
    kernel.check()
