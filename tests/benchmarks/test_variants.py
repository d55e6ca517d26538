"""Files of schedules, and specs that get them."""

from __future__ import annotations

import pytest

from benchmarks.builds import SAMPLES
from benchmarks.variants import Variant, own_request, read_variants, request_of, with_schedule
from tilegen.bench.workloads import Attention, Gemm
from tilegen.sema.loading import load
from tilegen.syntax.span import Source

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
    assert request_of(narrow, Attention(128, 2048, True)) is None


@pytest.mark.parametrize("name", ["fa3_fwd", "gemm"])
def test_a_spec_gets_a_schedule_in_place_of_its_own(name: str) -> None:
    axes = {"fa3_fwd": "block i 128, j 64", "gemm": "block m 64, n 64, k 64"}[name]
    text = with_schedule((SAMPLES / f"{name}.tile").read_text(encoding="utf-8"), axes)
    assert text.count("schedule hopper") == 1
    program = load(Source("<text>", text), {})
    assert len(program.schedules) == 1
    own = load(SAMPLES / f"{name}.tile", {})
    assert [d.name for d in program.definitions] == [d.name for d in own.definitions]


def test_nested_braces_are_part_of_a_schedule() -> None:
    spec = "kernel x() {\n  a\n  schedule hopper {\n    outputs O { block i 1 }\n  }\n  b\n}\n"
    assert with_schedule(spec, "c") == "kernel x() {\n  a\n  b\n  schedule hopper {\nc\n  }\n}\n"


def test_requests_are_ungated_and_keep_their_parameters() -> None:
    workload = Gemm(64, 64, 64, "f16")
    request = request_of(Variant("v", "block m 64, n 64, k 64"), workload)
    assert request is not None
    assert (request.params, request.gated) == ((("T", "f16"),), False)
    assert own_request(workload).gated is False
