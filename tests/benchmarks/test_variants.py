"""Files of schedules, and specs that get them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.builds import SAMPLES
from benchmarks.variants import Variant, by_name, own_request, read_variants, request_of
from tilegen.bench.workloads import Attention, Gemm
from tilegen.ir.tile_text import directive_text
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source
from tilegen.tune.spelling import with_schedule

SCHEDULES = Path(__file__).parents[2] / "benchmarks" / "schedules"
FILE = """
=== wide
block i 128, j [64|80]
stages k [2|3], v 2
=== narrow if D=64 causal=true
block i 64, j 64
"""


def test_alternatives_are_spelt_out() -> None:
    assert read_variants(FILE) == [
        Variant("wide 64 2", "block i 128, j 64\nstages k 2, v 2"),
        Variant("wide 64 3", "block i 128, j 64\nstages k 3, v 2"),
        Variant("wide 80 2", "block i 128, j 80\nstages k 2, v 2"),
        Variant("wide 80 3", "block i 128, j 80\nstages k 3, v 2"),
        Variant("narrow", "block i 64, j 64", (("D", "64"), ("causal", "true"))),
    ]


@pytest.mark.parametrize("text", ["", "block i 128\n=== a\nblock i 64", "=== a if D\nblock i 64"])
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_variants(text)


def test_a_condition_limits_a_schedule() -> None:
    narrow = read_variants(FILE)[-1]
    assert narrow.serves(Attention(64, 2048, True))
    assert not narrow.serves(Attention(64, 2048, False))
    assert not narrow.serves(Attention(128, 2048, True))
    assert request_of([narrow], Attention(128, 2048, True)) is None


def test_of_one_name_the_first_for_a_kernel_competes() -> None:
    small, large, causal = (("D", "64"),), (("D", "128"),), (("D", "64"), ("causal", "true"))
    full_64, full_128 = Attention(64, 2048, False), Attention(128, 2048, False)
    a, b, c = (Variant("v", text, only) for text, only in (("block i 64", small), ("block i 128", large), ("", causal)))
    assert by_name([a, b], [full_64, full_128]) == {"v": [a, b]}
    assert by_name([a, b, Variant("w", "", causal)], [full_64]) == {"v": [a]}
    assert by_name([c, a], [Attention(64, 2048, True)]) == {"v": [c, a]}
    found = request_of([a, b], full_128)
    assert found is not None and "block i 128" in found.spec and "block i 64" not in found.spec
    for taken in ([a, a], [a, c], [Variant("own", "")]):
        with pytest.raises(ValueError, match="is taken"):
            by_name(taken, [full_64])


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm"])
def test_a_spec_gets_a_schedule_in_place_of_its_own(name: str) -> None:
    axes = {"fa3_fwd": "block i 128, j 64", "gemm": "block m 64, n 64, k 64"}[name]
    request = request_of(
        [Variant("v", f"{axes}  # small\n  ")], {"fa3_fwd": Attention(64, 512, True), "gemm": Gemm(8, 8, 8)}[name]
    )
    assert request is not None
    program = load(Source("<text>", request.spec), dict(request.params))
    assert [directive_text(d) for d in program.directives("hopper")] == [
        f"block {each}" for each in axes[6:].split(", ")
    ]
    own = load(SAMPLES / f"{name}.tile", dict(request.params))
    assert [d.span for d in program.definitions] == [replace(d.span, file="<text>") for d in own.definitions]


def test_requests_are_ungated_and_keep_their_parameters() -> None:
    workload = Gemm(64, 64, 64, "f16")
    request = request_of([Variant("v", "block m 64, n 64, k 64")], workload)
    assert request is not None
    assert (request.params, request.gated) == ((("T", "f16"),), False)
    assert own_request(workload).gated is False


@pytest.mark.parametrize("path", sorted(SCHEDULES.glob("*.txt")), ids=lambda p: p.stem)
def test_schedules_that_are_kept_can_be_read(path: Path) -> None:
    spec = read_source(SAMPLES / ("gemm.tile" if path.stem.endswith("gemm") else "fa3_fwd.tile"))
    variants = read_variants(path.read_text(encoding="utf-8"))
    assert len({v.name for v in variants}) == len(variants)
    for v in variants:
        program = load(with_schedule(spec, v.directives), dict(v.only))
        assert program.directives("hopper")
