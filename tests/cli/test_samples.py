"""Every sample runs and is right, at sizes that are and are not multiples of its blocks; what cannot be built is named.

The sizes are small: without a GPU the generated PTX runs in the emulator.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import tilegen
from tilegen.cli.main import main

ROOT = Path(__file__).parents[2]
ATTENTION = (
    "B=1,Sq=256,Sk=256,Hk=1,G=1",
    "B=2,Sq=137,Sk=75,Hk=1,G=3",
    "B=1,Sq=9,Sk=0,Hk=2,G=1",
    "B=0,Sq=9,Sk=9,Hk=1,G=1",
)
SIZES = {
    "attention_alibi": ATTENTION[1:3],
    "attention_bias": ("B=1,Sq=9,Sk=0,Hk=2,G=1", "B=2,Sq=137,Sk=72,Hk=1,G=3"),
    "attention_decode": ("B=2,Sq=1,Sk=75,Hk=2,G=5", *ATTENTION[1:3]),
    "attention_sink": ATTENTION[1:3],
    "attention_softcap": ATTENTION[1:3],
    "attention_mixed_heads": ATTENTION[:3],
    "attention_global_tokens": (f"{ATTENTION[1]},globals=20,window=9", "B=1,Sq=90,Sk=300,Hk=1,G=1"),
    "attention_chunks": ("B=1,N=2,C=100,Hk=1,G=1", "B=2,N=3,C=64,Hk=1,G=2"),
    "attention_documents": ATTENTION[1:3],
    "attention_prefix_lm": (f"{ATTENTION[0]},prefix=70", ATTENTION[1]),
    "attention_window": (f"{ATTENTION[0]},left=70", f"{ATTENTION[1]},left=20,right=33"),
    "copy": ("M=256,N=256", "M=137,N=136", "M=1,N=8", "M=0,N=8"),
    "difference": ("M=256,N=64", "M=137,N=136,lag=9", "M=1,N=8", "M=3,N=8,lag=5"),
    "fa3_fwd": (*ATTENTION, "B=1,Sq=1025,Sk=90,Hk=1,G=1", "B=1,Sq=90,Sk=1025,Hk=1,G=1"),
    "fa3_varlen": (
        "Sq=[0,9,130],Sk=[5,9,137],Hk=1,G=1",
        "Sq=[1,12,137,0],Sk=[9,0,75,1],Hk=1,G=2",
        "Sq=[0,0],Sk=[3,0],Hk=1,G=1",
    ),
    "gemm": ("M=128,N=256,K=128", "M=137,N=72,K=200", "M=1,N=8,K=8", "M=5,N=8,K=0"),
    "gemm_bias_gelu": ("M=128,N=256,K=128", "M=137,N=72,K=200", "M=1,N=8,K=8"),
    "gemm_logsumexp": ("M=128,V=256", "M=137,V=200", "M=1,V=1"),
    "row_softmax": ("M=128,N=512", "M=137,N=200", "M=1,N=8"),
    "swiglu": ("M=128,N=128,K=128", "M=137,N=72,K=200", "M=1,N=8,K=8"),
}
CASES = [(name, sizes) for name, several in SIZES.items() for sizes in several]
EMPTY = {  # no sum has a point
    ("difference", "M=1,N=8"),
    ("difference", "M=3,N=8,lag=5"),
    ("gemm", "M=5,N=8,K=0"),
}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["run", *arguments, "--emulate"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_sample_is_tested() -> None:
    assert {path.stem for path in (ROOT / "samples").glob("*.tile")} == set(SIZES)


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=[f"{name}-{sizes}" for name, sizes in CASES])
def test_a_sample_is_right(name: str, sizes: str) -> None:
    text = run(str(ROOT / "samples" / f"{name}.tile"), "--size", sizes)
    judged = "unjudged: the reference is all zeros" if (name, sizes) in EMPTY else "right"
    assert re.search(rf"^\w+ .* {judged} *$", text, re.M)
    assert "wrong" not in text


@pytest.mark.parametrize("name", [name for name in SIZES if name != "fa3_fwd"])
def test_a_sample_is_right_in_half_precision(name: str) -> None:
    run(str(ROOT / "samples" / f"{name}.tile"), "-D", "T=f16", "--size", SIZES[name][1])


@pytest.mark.parametrize("causal", ["false", "true"])
@pytest.mark.parametrize("head", ["64", "128", "256"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_the_flagship_is_right_for_every_parameter(dtype: str, head: str, causal: str) -> None:
    run(
        *(str(ROOT / "samples" / "fa3_fwd.tile"), "--size", "B=1,Sq=75,Sk=200,Hk=1,G=2"),
        *("-D", f"T={dtype}", "-D", f"D={head}", "-D", f"causal={causal}"),
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("attention_bwd", "FOLD_OVER_PART"),
        ("outputs_two_orders", "NESTED_STREAMS"),
        ("paged", "LOOKUP_UNSUPPORTED"),
        ("split_reduction", "DIRECTIVE_UNSUPPORTED"),
    ],
)
def test_what_cannot_be_built_yet_is_refused_by_name(name: str, code: str) -> None:
    result = CliRunner().invoke(main, ["check", str(ROOT / "tests" / "specs" / f"{name}.tile")])
    assert result.exit_code == 1
    assert re.search(rf"{name}\.tile:\d+:\d+: error\[{code}\]: ", result.stderr)


def test_rows_that_tma_cannot_step_over_are_refused_by_name() -> None:
    result = CliRunner().invoke(main, ["run", str(ROOT / "samples" / "copy.tile"), "--emulate", "--size", "M=5,N=37"])
    assert result.exit_code == 2
    assert "TMA_STRIDE_ALIGNMENT" in result.stderr


@pytest.mark.parametrize("name", SIZES)
def test_a_sample_spends_no_more_than_it_need(name: str) -> None:
    k = tilegen.compile(ROOT / "samples" / f"{name}.tile")
    k.build()
    assert not [note for variant in k.variants for note in variant.plan.notes if "spends more" in note]
