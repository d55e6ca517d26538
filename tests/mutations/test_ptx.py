"""A seeded sample of the faults that `tools/mutate_ptx.py` puts into PTX: what does harm is told.

The two judges are tested too: kernels that are right do no harm at any times, and kinds of faults do that must.
"""

from __future__ import annotations

import random

import pytest

from tests.mutations import ptx_values  # noqa: F401  (adds kinds)
from tests.mutations.ptx_judging import ROOM, bench, harm, judged, report, run, subject
from tests.mutations.ptx_kinds import KINDS, mutants
from tests.mutations.ptx_text import Mutant, Text
from tilegen.diagnostics.core import TilegenError

COPY, PRODUCTS, COPIES = "copy", "gemm_logsumexp D=64", "gemm a+b by cp_async"
SMALL = (COPY, PRODUCTS)
SAMPLED = 8  # of each
SEEDS = 2
NOTHING = Mutant("", "", ())
# Kinds that do harm wherever they are put in, by the kernel they are tried on, or the judge of harm is blind to them.
HARMFUL = (
    (COPY, "expected bytes +16", "hang"),
    (COPY, "a barrier never begun", "fault"),
    (COPY, "a coordinate +1", "wrong"),
    (COPY, "registers not given back", "hang"),
    (PRODUCTS, "a descriptor's swizzle changed", "wrong"),
    (PRODUCTS, "a product's sign turned", "wrong"),
    (PRODUCTS, "a wait for products dropped", "wrong"),
    (COPIES, "an arrival behind copies at once", "wrong"),
)


@pytest.mark.parametrize("name", SMALL)
def test_a_kernel_that_is_right_does_no_harm_and_is_not_reported(name: str) -> None:
    assert harm(subject(name), NOTHING, SEEDS).kind == ""
    assert report(subject(name), NOTHING, SEEDS) is None


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("attention_decode D=64", 0),  # 5 heads of a group in rows of 8
        ("fa3_fwd D=64 causal=True", 4),  # NaN behind the diagonal: zeros are rescaled
    ],
)
def test_a_kernel_that_is_right_meets_no_fault(name: str, seed: int) -> None:
    b = bench(subject(name))
    case = b.case(seed)
    assert not b.wrong(case, run(b.kernel(b.built.ptx), case, watch=True, times=seed), ROOM)


@pytest.mark.parametrize("name", SMALL)
def test_what_does_harm_is_told(name: str) -> None:
    s = subject(name)
    rng = random.Random(11)
    by_kind = [list(mutants(bench(s).text, (kind,))) for kind in KINDS]
    sample = rng.sample([every for every in by_kind if every], SAMPLED)
    harmful = 0
    for mutant in [rng.choice(every) for every in sample]:
        done, told = judged(s, mutant, SEEDS)
        if done.kind:
            harmful += 1
            assert told is not None, (mutant.kind, mutant.where, done)
            assert told.placed, (mutant.kind, mutant.where, told)
    assert harmful > SAMPLED // 3


@pytest.mark.parametrize(("name", "kind", "wanted"), HARMFUL)
def test_the_judge_sees_what_a_kind_does(name: str, kind: str, wanted: str) -> None:
    s = subject(name)
    found = [harm(s, mutant, SEEDS).kind for mutant in list(mutants(bench(s).text, (kind,)))[:2]]
    assert wanted in found


NAMED = {
    "a wait for products dropped": "EMULATED_IN_FLIGHT",
    "a fence before products dropped": "EMULATED_REGISTER_FENCE",
    "a meeting at a named barrier dropped": "EMULATED_RACE",
}


@pytest.mark.parametrize("kind", NAMED)
def test_faults_of_order_are_named_whatever_comes_of_them(kind: str) -> None:
    s = subject(PRODUCTS)
    told = [report(s, mutant, 1) for mutant in list(mutants(bench(s).text, (kind,)))[:2]]
    assert NAMED[kind] in {r.code for r in told if r}


def test_every_kind_has_a_place() -> None:
    text = bench(subject("fa3_fwd D=64 causal=True k by cp_async")).text
    elsewhere = {
        "an update of shared memory made twice",  # in kernels that deal items
        "a product added whatever its predicate",  # where a late product may be an item's first
        # for sm_80
        *("a commit of copies dropped", "a wait for copies dropped", "a wait for copies that leaves one more"),
        "a matrix read otherwise transposed",
    }
    assert {kind for kind in KINDS if not any(mutants(text, (kind,)))} == elsewhere
    assert len(KINDS) >= 25


TEXT = """
.visible .entry k(
	.param .align 128 .b8 k_param_0[128]
)
{
	@!%p1 bra 	$L__BB0_2;
	ld.param.u64 	%rd1, [k_param_0];
$L__BB0_2:
	mov.b64 da, { %r5, 0x40000040};
	cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1+16], [%rd2, {%r3, %r4}], [%r1];
}
"""


def test_a_text_is_taken_apart() -> None:
    text = Text(TEXT)
    assert [i.name for i in text.instructions[:2]] == ["bra", "ld.param.u64"]
    assert text.instructions[0].guard == "@!%p1"
    assert text.instructions[2].operands == ("da", "{ %r5, 0x40000040}")
    assert text.instructions[3].operands == ("[%r1+16]", "[%rd2, {%r3, %r4}]", "[%r1]")
    assert text.maps == ("k_param_0",)
    assert [i.at for i in text.writers(text.instructions[1], "%rd1")] == [6]


def test_a_mutant_changes_what_it_says_alone() -> None:
    text = Text(TEXT)
    assert NOTHING.applied(text) == TEXT
    (mutant,) = mutants(text, ("a descriptor's start one step on",))
    changed = mutant.applied(text).splitlines()
    assert "add.s32 mutated, %r5, 2;" in changed
    assert "mov.b64 da, { mutated, 0x40000040};" in changed
    assert [line for line in TEXT.splitlines() if line not in changed] == ["	mov.b64 da, { %r5, 0x40000040};"]
    moved = [m.applied(text) for m in mutants(text, ("a load one swizzle's repeat on in shared memory",))]
    assert [m.count("[%r1+1040]") + m.count("[%r1+-1008]") for m in moved] == [1, 1]


def test_data_reach_every_column_that_is_mended() -> None:
    """Entries that are no finite numbers lie in the blocks that are looked through, in those of the watched run too."""
    b = bench(subject("attention_decode D=64"))
    reads = [m for m in mutants(b.text, ("a read of device memory an element on",)) if ".u16" in m.where]
    assert len(reads) >= 16
    for mutant in random.Random(5).sample(reads, 3):
        told = []
        for seed in range(b.seeds + 2 * len(b.sizes), 2 * b.seeds):  # the spoiled ones
            case = b.case(seed)
            try:
                told.append(b.wrong(case, run(b.kernel(mutant.applied(b.text)), case)))
            except TilegenError as error:
                told.append(error.diagnostics[0].code)
        assert any(told), mutant.where
