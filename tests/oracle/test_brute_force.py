"""The oracle against loops over points, on every sample and on specs that use one feature each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracle.brute import brute_force
from tests.oracle.specs import FEATURES, spec
from tilegen.ir.tile import TileProgram
from tilegen.oracle import Space, evaluate, random_inputs, scalar_values
from tilegen.oracle.chunks import BUDGET, Planner
from tilegen.oracle.domain import Domain
from tilegen.oracle.field import Field
from tilegen.sema import load

ROOT = Path(__file__).parents[2]

TINY: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "samples/fa3_fwd.tile": [
        ({"D": 64, "causal": True}, {"B": 2, "Sq": 5, "Sk": 2, "Hk": 1, "G": 2}),
        ({"D": 64, "T": "f16"}, {"B": 1, "Sq": 3, "Sk": 4, "Hk": 2, "G": 3}),
        ({"D": 64, "causal": True}, {"B": 1, "Sq": 2, "Sk": 5, "Hk": 1, "G": 1}),
        ({"D": 64, "causal": True}, {"B": 1, "Sq": 2, "Sk": 0, "Hk": 1, "G": 1}),
    ],
    "samples/fa3_varlen.tile": [
        ({"D": 64, "causal": True}, {"B": 3, "Sq": [2, 0, 3], "Sk": [1, 2, 4], "Hk": 1, "G": 2}),
        ({"D": 64, "T": "f16"}, {"B": 2, "Sq": [3, 1], "Sk": [0, 2], "Hk": 2, "G": 1}),
    ],
    "samples/attention_alibi.tile": [({"D": 64}, {"B": 1, "Sq": 3, "Sk": 4, "Hk": 2, "G": 2})],
    "samples/attention_bias.tile": [({"D": 64}, {"B": 1, "Sq": 3, "Sk": 4, "Hk": 2, "G": 2})],
    "samples/attention_sink.tile": [
        ({"D": 64}, {"B": 1, "Sq": 3, "Sk": 4, "Hk": 2, "G": 2}),
        ({"D": 64}, {"B": 1, "Sq": 4, "Sk": 2, "Hk": 1, "G": 2}),
    ],
    "samples/attention_decode.tile": [({"D": 64}, {"B": 1, "Sq": 1, "Sk": 3, "Hk": 1, "G": 2})],
    "samples/attention_window.tile": [({"D": 64}, {"B": 1, "Sq": 3, "Sk": 4, "Hk": 1, "G": 2})],
    "samples/attention_prefix_lm.tile": [({"D": 64}, {"B": 1, "Sq": 3, "Sk": 5, "Hk": 1, "G": 2})],
    "samples/attention_global_tokens.tile": [({"D": 64}, {"B": 1, "Sq": 4, "Sk": 4, "Hk": 1, "G": 2})],
    "samples/attention_documents.tile": [({"D": 64}, {"B": 1, "Sq": 4, "Sk": 4, "Hk": 1, "G": 2})],
    "samples/attention_chunks.tile": [({"D": 64}, {"B": 1, "N": 2, "C": 3, "Hk": 1, "G": 2})],
    "samples/attention_mixed_heads.tile": [({}, {"B": 1, "Sq": 2, "Sk": 3, "Hk": 1, "G": 2})],
    "samples/attention_softcap.tile": [({"D": 64}, {"B": 1, "Sq": 3, "Sk": 4, "Hk": 2, "G": 2})],
    "samples/gemm.tile": [({}, {"M": 3, "N": 4, "K": 7}), ({}, {"M": 2, "N": 1, "K": 0})],
    "samples/gemm_bias_gelu.tile": [({}, {"M": 3, "N": 4, "K": 5})],
    "samples/gemm_logsumexp.tile": [({"D": 64}, {"M": 3, "V": 4})],
    "samples/row_softmax.tile": [({}, {"M": 3, "N": 5}), ({}, {"M": 2, "N": 1})],
    "samples/swiglu.tile": [({}, {"M": 3, "N": 2, "K": 5})],
    "samples/copy.tile": [({}, {"M": 3, "N": 5})],
    "samples/difference.tile": [({}, {"M": 4, "N": 3}), ({}, {"M": 1, "N": 2})],
    "tests/specs/attention_bwd.tile": [({"causal": True}, {"B": 1, "Sq": 4, "Sk": 3, "Hk": 2, "G": 2})],
    "tests/specs/variogram.tile": [({}, {"M": 2, "N": 7}), ({}, {"M": 1, "N": 2})],
    "tests/specs/matmul_at.tile": [({}, {"M": 3, "N": 2, "K": 6})],
    "tests/specs/outputs_two_orders.tile": [({}, {"M": 3, "N": 4})],
    "tests/specs/paged.tile": [({}, {"B": 2, "H": 1, "S": 2, "P": 1, "N": 3})],
    "tests/specs/ragged.tile": [
        ({}, {"B": 3, "Sq": [2, 0, 3], "Sk": [1, 2, 4], "H": 2}),
        ({"causal": False}, {"B": 2, "Sq": [3, 1], "Sk": [0, 2], "H": 1}),
        ({}, {"B": 2, "Sq": [0, 0], "Sk": [0, 1], "H": 1}),
    ],
    "tests/specs/split_reduction.tile": [({}, {"M": 2, "S": 5})],
}
CASES = [(path, params, sizes) for path, cases in TINY.items() for params, sizes in cases]


def agree(
    program: TileProgram, sizes: dict[str, Any], given: dict[str, Any] | None = None, seed: int = 0, wild: float = 0.0
) -> None:
    """The oracle and the loops give the same outputs. `wild`: the share of the inputs that is NaN or infinite."""
    scalars = scalar_values(program, sizes, given or {})
    inputs = random_inputs(program, sizes, seed)
    random = np.random.default_rng(seed)
    for array in inputs.values():
        if array.dtype.kind not in "ib":
            hit = random.random(array.shape) < wild
            array[hit] = random.choice([np.nan, np.inf, -np.inf], array.shape)[hit].astype(array.dtype)
    expected = brute_force(program, sizes, scalars, inputs)
    results = evaluate(program, sizes, scalars, inputs)
    assert results.keys() == expected.keys()
    for name, want in expected.items():
        np.testing.assert_allclose(results[name].value, want, rtol=1e-11, atol=1e-12, err_msg=name)
        assert (results[name].allowed >= 0).all()
        assert np.isfinite(results[name].allowed).all() or wild


@pytest.mark.parametrize(("path", "params", "sizes"), CASES, ids=lambda x: str(x).replace("/", "."))
def test_specs_agree_with_loops_over_points(path: str, params: dict[str, Any], sizes: dict[str, Any]) -> None:
    agree(load(ROOT / path, params), sizes)


def test_every_sample_and_spec_is_covered() -> None:
    have = {str(p.relative_to(ROOT)) for folder in ("samples", "tests/specs") for p in (ROOT / folder).glob("*.tile")}
    assert have <= TINY.keys()


@pytest.mark.parametrize("name", FEATURES)
def test_features_agree_with_loops_over_points(name: str) -> None:
    feature = FEATURES[name]
    for seed, (sizes, scalars) in enumerate(feature.runs):
        agree(spec(feature.text, **feature.params), sizes, scalars, seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FEATURES)
def test_features_agree_on_values_that_are_not_finite(name: str, seed: int) -> None:
    feature = FEATURES[name]
    sizes, scalars = feature.runs[0]
    agree(spec(feature.text, **feature.params), sizes, scalars, seed, wild=0.1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", ["samples/fa3_fwd.tile", "tests/specs/ragged.tile", "tests/specs/paged.tile"])
def test_attention_agrees_on_values_that_are_not_finite(path: str, seed: int) -> None:
    params, sizes = TINY[path][0]
    agree(load(ROOT / path, params), sizes, None, seed, wild=0.004)


@pytest.mark.parametrize("name", ["a band", "windows with guards", "wholes and parts of a split axis", "scaled sums"])
def test_small_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feature = FEATURES[name]
    monkeypatch.setattr("tilegen.oracle.chunks.BUDGET", 1)
    for sizes, scalars in feature.runs:
        agree(spec(feature.text, **feature.params), sizes, scalars)


@pytest.mark.parametrize("wild", [0.0, 0.01])
@pytest.mark.parametrize("path", ["samples/fa3_fwd.tile", "tests/specs/attention_bwd.tile", "tests/specs/ragged.tile"])
def test_small_chunks_change_no_spec(path: str, wild: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.oracle.chunks.BUDGET", 1)
    params, sizes = TINY[path][0]
    agree(load(ROOT / path, params), sizes, wild=wild)


def test_arrays_stay_within_the_budget() -> None:
    for path, sizes in [
        ("samples/fa3_fwd.tile", {"B": 4, "Sq": 8192, "Sk": 8192, "Hk": 8, "G": 4}),
        ("tests/specs/attention_bwd.tile", {"B": 1, "Sq": 4096, "Sk": 4096, "Hk": 2, "G": 1}),
        ("samples/gemm.tile", {"M": 8192, "N": 8192, "K": 8192}),
    ]:
        program = load(ROOT / path, {})
        space = Space.of(program, sizes)
        outputs = [d for d in program.definitions if d.output]
        domain = Domain(space, lambda expr, box: Field.exact((), np.zeros(())), lambda expr: ())
        seen = []
        for group, boxes in Planner(space, domain).groups(outputs):
            seen += [d.name for d in group]
            widest = {leaf: max(len(box[leaf]) for box in boxes) for leaf in boxes[0]}
            stream = max(space.extent(leaf) for leaf in space.leaf_set(a.name for a in program.axes))
            rows = [n for leaf, n in widest.items() if n > 1 and space.extent(leaf) == stream]
            assert np.prod(rows) * (stream if len(rows) == 1 else 1) <= BUDGET
        assert sorted(seen) == sorted(d.name for d in outputs)
