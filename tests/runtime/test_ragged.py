"""Kernels over sequences of different lengths in the emulator: both kernels' PTX, on arrays in CPU memory."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import tilegen
from tests import formulas
from tilegen.cli.main import main
from tilegen.diagnostics.core import TilegenError
from tilegen.emulate.memory import GlobalMemory
from tilegen.emulate.ptx import launch
from tilegen.ir import plan as ir
from tilegen.ir.deal import deal_sequences, rounds_of, with_given
from tilegen.ir.uniform import evaluate
from tilegen.runtime import executable
from tilegen.runtime.kernel import Kernel

ROOT = Path(__file__).parents[2]
BF16 = ml_dtypes.bfloat16
H, D = 2, 64
Arrays = dict[str, Any]


@cache
def attention(causal: bool) -> Kernel:
    return tilegen.compile(ROOT / "samples" / "fa3_varlen.tile", D=D, causal=causal)


def starts(lengths: list[int]) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def inputs(q: list[int], k: list[int], seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    out: Arrays = {"cu_q": starts(q), "cu_k": starts(k)}
    for name, lengths, heads in (("Q", q, H), ("K", k, 1), ("V", k, 1)):
        out[name] = rng.standard_normal((sum(lengths), heads, D)).astype(BF16)
    return out


def run(kernel: Kernel, given: Arrays) -> tuple[Any, Any]:
    """O and LSE. What was not written, or was around them, fails."""
    tokens = len(given["Q"])
    o = np.full((tokens + 20, H, D), np.nan, BF16)
    lse = np.full((H, tokens + 20), np.nan, np.float32)
    kernel(**given, G=2, O=o[10 : 10 + tokens], LSE=lse[:, 10 : 10 + tokens])
    for around in (o[:10], o[10 + tokens :], lse[:, :10], lse[:, 10 + tokens :]):
        assert np.isnan(around.astype(np.float32)).all()
    return o[10 : 10 + tokens], lse[:, 10 : 10 + tokens]


def check_each(given: Arrays, o: Any, lse: Any, causal: bool) -> None:
    """Every sequence against the formula for it alone."""
    q, k = given["cu_q"], given["cu_k"]
    for b in range(len(q) - 1):
        rows, keys = slice(q[b], q[b + 1]), slice(k[b], k[b + 1])
        if q[b] == q[b + 1]:
            continue
        want, want_lse = formulas.attention(
            given["Q"][None, rows], given["K"][None, keys], given["V"][None, keys], scale=D**-0.5, causal=causal
        )
        np.testing.assert_allclose(o[rows].astype(np.float64), want[0], atol=2e-2, rtol=2e-2)
        np.testing.assert_allclose(lse[:, rows], want_lse[0], atol=1e-4)


@pytest.mark.parametrize(
    ("q", "k"),
    [([0, 9, 130], [5, 9, 137]), ([0, 0, 300], [0, 1, 330]), ([12, 1, 137], [12, 0, 65]), ([3], [0])],
    ids=str,
)
@pytest.mark.parametrize("causal", [False, True])
def test_each_sequence_is_computed_as_if_it_were_alone(q: list[int], k: list[int], causal: bool) -> None:
    """Cases 9 and 21."""
    given = inputs(q, k)
    check_each(given, *run(attention(causal), given), causal)


def test_case_16_shortening_a_sequence_leaves_the_others_bits_alone() -> None:
    q, k = [70, 50, 300], [70, 150, 290]
    given = inputs(q, k)
    o, lse = run(attention(True), given)
    shorter = dict(given, cu_q=starts([70, 7, 300]), cu_k=starts([70, 30, 290]))
    shorter["Q"] = np.delete(given["Q"], slice(77, 120), axis=0)
    for name in "KV":
        shorter[name] = np.delete(given[name], slice(100, 220), axis=0)
    o2, lse2 = run(attention(True), shorter)
    for before, after in ((slice(0, 70), slice(0, 70)), (slice(120, 420), slice(77, 377))):
        assert o[before].tobytes() == o2[after].tobytes()
        assert lse[:, before].tobytes() == lse2[:, after].tobytes()


@pytest.mark.parametrize(("causal", "poison"), [(False, np.nan), (True, np.inf)])
def test_case_11_what_stands_in_a_neighbour_reaches_no_other_sequence(causal: bool, poison: float) -> None:
    q, k = [70, 50, 30], [70, 150, 90]
    given = inputs(q, k)
    o, lse = run(attention(causal), given)
    spoiled = {name: given[name].copy() for name in ("Q", "K", "V")}
    spoiled["Q"][70:120] = poison
    spoiled["K"][70:220] = poison
    spoiled["V"][70:220] = poison
    o2, lse2 = run(attention(causal), {**given, **spoiled})
    for rows in (slice(0, 70), slice(120, 150)):
        assert o[rows].tobytes() == o2[rows].tobytes()
        assert lse[:, rows].tobytes() == lse2[:, rows].tobytes()


def test_nothing_to_do_and_nothing_to_see() -> None:
    """Case 8: no tokens at all, no sequences, no keys."""
    o, lse = run(attention(False), inputs([0, 0], [4, 0]))
    assert o.shape == (0, H, D)
    assert lse.shape == (H, 0)
    assert run(attention(False), inputs([], []))[0].shape == (0, H, D)
    o, lse = run(attention(True), inputs([9, 3], [0, 0]))
    assert (o == 0).all()
    assert (lse == -np.inf).all()


def test_outputs_are_allocated_over_the_tokens() -> None:
    out = attention(False)(**inputs([3, 5], [4, 4]), G=2)
    assert out.O.shape == (8, H, D)
    assert out.LSE.shape == (H, 8)
    prepared = attention(False).prepare(**inputs([3, 5], [4, 4]), G=2)
    assert prepared().O.tobytes() == out.O.tobytes()


# ---- the kernel that deals items out -----------------------------------------------------------------


def dealt(kernel: Kernel, given: Arrays, ctas: int) -> tuple[Any, Any, list[int]]:
    """The table that the device makes, the model's, and the fault words."""
    table = kernel.plan.table
    assert table is not None
    q = table.sequences
    assert q is not None
    sizes = {"B": len(given["cu_q"]) - 1, "Hk": 1, "G": 2, "Sq.tokens": len(given["Q"]), "Sk.tokens": len(given["K"])}
    values = with_given(q, sizes)
    memory = GlobalMemory()
    made = np.zeros((rounds_of(table, values, ctas), ctas, table.width), np.int32)
    scratch, words = np.zeros(evaluate(q.scratch, values), np.int32), np.zeros(8, np.int32)
    addresses = {ir.TableParam: made, ir.ScratchParam: scratch, ir.FaultParam: words}
    arguments = []
    for p in q.params:
        if type(p) in addresses:
            arguments.append(struct.pack("<Q", memory.alloc(addresses[type(p)])))
        elif isinstance(p, ir.PointerParam):
            arguments.append(struct.pack("<Q", memory.alloc(given[p.tensor])))
        else:
            arguments.append(struct.pack("<i", ctas if isinstance(p, ir.CtasParam) else values[p.name]))
    launch(kernel._executables[0].module, f"{kernel.entry}_deal", (1, 1, 1), (1024, 1, 1), arguments, memory, 0)
    if words[0]:
        return made, None, words.tolist()
    return made, deal_sequences(table, sizes, {n: given[n] for n in ("cu_q", "cu_k")}, ctas), words.tolist()


@pytest.mark.parametrize(("count", "most", "ctas"), [(1, 3, 2), (40, 2000, 132), (1500, 40, 7), (3, 1, 20)], ids=str)
def test_the_device_deals_items_as_the_model_does(count: int, most: int, ctas: int) -> None:
    rng = np.random.default_rng(count)
    given: Arrays = {name: starts(rng.integers(0, most + 1, count).tolist()) for name in ("cu_q", "cu_k")}
    given |= {"Q": np.empty(given["cu_q"][-1]), "K": np.empty(given["cu_k"][-1])}
    made, model, words = dealt(attention(True), given, ctas)
    assert words == [0] * 8
    np.testing.assert_array_equal(made, model)


BAD = {
    "no 0 first": ("cu_q", [1, 5, 9], [0, 0, 1, 0, 9]),
    "falling": ("cu_q", [0, 10, 9], [0, 2, 9, 10, 9]),
    "an end before the last token": ("cu_k", [0, 5, 6], [1, 2, 6, 5, 7]),
    "an end behind the last token": ("cu_k", [0, 5, 1000000], [1, 2, 1000000, 5, 7]),
    "a negative start": ("cu_q", [0, -2000000000, 9], [0, 1, -2000000000, 0, 9]),
}


@pytest.mark.parametrize(("name", "cu", "found"), BAD.values(), ids=BAD)
def test_the_device_finds_starts_that_are_wrong_and_deals_nothing(name: str, cu: list[int], found: list[int]) -> None:
    given = {**inputs([4, 5], [3, 4]), name: np.array(cu, np.int32)}
    made, _, words = dealt(attention(True), given, 3)
    assert words[:6] == [1, *found]
    table = attention(True).plan.table
    assert table is not None
    total = evaluate(table.total, {"B": 2, "Hk": 1, "G": 2, "Sq.tokens": 9})
    assert (made[0, :, 0] == total).all()


@pytest.mark.parametrize(("name", "cu", "found"), BAD.values(), ids=BAD)
def test_wrong_starts_are_named(name: str, cu: list[int], found: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the host where they are in its memory; by the kernel in front elsewhere (which the emulator plays here)."""
    given = {**inputs([4, 5], [3, 4]), name: np.array(cu, np.int32)}
    kernel = attention(True)
    with pytest.raises(TilegenError, match="RAGGED_STARTS") as by_host:
        kernel(**given, G=2)
    assert f"{name}[{found[1]}] = {found[2]}" in str(by_host.value)
    monkeypatch.setattr(executable, "check_starts", lambda *_: None)
    with pytest.raises(TilegenError, match="RAGGED_STARTS") as by_device:
        kernel(**given, G=2)
    assert str(by_device.value) == str(by_host.value)


@pytest.mark.parametrize(
    ("name", "value", "code", "words"),
    [
        ("cu_q", np.array([0, 4, 9]), "ARRAY_DTYPE", "int64"),
        ("cu_k", np.array([0, 3, 5, 7], np.int32), "ARRAY_EXTENT", "B = 2 of cu_q"),
        ("cu_q", np.zeros((3, 1), np.int32), "ARRAY_RANK", "B + 1"),
        ("cu_q", np.array([0, 1, 4, 1, 9, 1], np.int32)[::2], "ARRAY_INNER_STRIDE", "cu_q"),
        ("cu_k", None, "MISSING_ARRAY", "cu_k"),
        ("Sq", 9, "UNKNOWN_ARGUMENT", "Sq"),
        ("V", np.zeros((8, 1, D), BF16), "ARRAY_EXTENT", "Sk.tokens = 7 of K"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_wrong_arguments_are_named(name: str, value: Any, code: str, words: str) -> None:
    with pytest.raises(TilegenError, match=code) as found:
        attention(False)(**{**inputs([4, 5], [3, 4]), "G": 2, name: value})
    assert words in str(found.value)


# ---- commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["--size", "Sq=[0,9,130],Sk=[5,9,137],Hk=1,G=2"],
        ["--size", "Sq=[0,0],Sk=[1,0],Hk=1,G=1"],
        ["--size", "Sq=[3,4,5,6,7]"],
        ["--size", "B=1"],
        [],
    ],
    ids=str,
)
def test_tilegen_run_compares_with_the_oracle(options: list[str]) -> None:
    arguments = ["run", str(ROOT / "samples" / "fa3_varlen.tile"), "-D", "D=64", "--emulate", *options]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "wrong" not in result.output
