"""The other forms of attention: what they count for, what they are held against, and their exact results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.builds import SAMPLES
from benchmarks.forms import FORMS, Form, Plain, Ragged, present
from tests import formulas
from tilegen.bench.workloads import Attention
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source

ALL = [form for each in FORMS.values() for form in each]


def test_the_cells() -> None:
    assert FORMS["window"][0].plain == Attention(128, 16384, False)
    full, causal = FORMS["ragged"]
    assert isinstance(full, Ragged)
    assert len(full.lengths) == 16
    assert all(512 <= n <= 8192 for n in full.lengths)
    assert (full.plain.B, full.plain.H, full.plain.D) == (16, 16, 128)
    assert abs(full.plain.S - np.mean(full.lengths)) <= 8
    assert causal.flops == full.flops / 2
    assert full.flops > full.plain.flops  # long sequences count for more than short ones


def test_a_window_counts_the_pairs_in_it() -> None:
    form = Form("window", "attention_window", S=100, window=7, tokens=200, hidden=256)
    seen = formulas.visible(100, 100, True, (7, -1)).sum()
    assert form.flops == 4 * 2 * 2 * seen * 128


def test_labels_tell_cells_apart() -> None:
    assert len({form.label for form in ALL}) == len(ALL)
    assert len({tuple(form.columns.items()) for form in ALL}) == len(ALL)


def test_a_sample_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(FORMS, "new", [Form("new", "attention_of_another_world")])  # type: ignore[arg-type]
    assert present(["new"]) == []
    assert "there is no samples/attention_of_another_world.tile" in capsys.readouterr().out


@pytest.mark.parametrize("form", ALL, ids=lambda f: f.label)
def test_samples_take_what_the_forms_give(form: Any) -> None:
    path = SAMPLES / f"{form.spec}.tile"
    if not path.exists():
        pytest.skip(f"there is no {path.name}")
    program = load(read_source(path), form.params)
    names = {x.name for x in (*program.tensors, *program.scalars)}
    given = {"Q", "K", "V"} | ({"cu_q", "cu_k"} if isinstance(form, Ragged) else set(more(form)))
    assert given <= names
    assert {t.name for t in program.tensors if not t.output} <= given


def more(form: Form) -> list[str]:
    return {"window": ["left", "right"], "alibi": ["slope"], "softcap": ["cap"]}[form.name]


def test_the_plain_kernel_stands_on_its_own_workload() -> None:
    plain = Plain("plain", None)  # type: ignore[arg-type]
    assert plain.stands_on(ALL[0]) == ALL[0].plain
    assert plain.judged


@pytest.mark.parametrize(
    ("name", "more", "options"),
    [
        ("window", {}, {"window": (5, -1)}),
        ("alibi", {"slope": [0.5, 0.25]}, {"slopes": [0.5, 0.25]}),
        ("softcap", {"cap": 3.0}, {"softcap": 3.0}),
    ],
)
def test_exact_results(name: str, more: dict[str, Any], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    form = Form(name, "any", D=64, S=33, tokens=66, hidden=128, window=5 if name == "window" else None)
    inputs = {n: torch.randn(2, 33, 2, 64, generator=torch.Generator().manual_seed(i)) for i, n in enumerate("QKV")}
    given = {**inputs, **{n: torch.tensor(v) if isinstance(v, list) else v for n, v in more.items()}}
    o, lse = form.exact(given)
    q, k, v = (x.double().numpy() for x in inputs.values())
    s = formulas.scores(q, k, 64**-0.5)
    i, j = np.arange(33)[:, None], np.arange(33)[None]
    if "slopes" in options:
        s = s + np.array(options["slopes"])[None, :, None, None] * (j - i)
    if "softcap" in options:
        s = options["softcap"] * np.tanh(s / options["softcap"])
    p, want_lse = formulas.masked_softmax(s, formulas.visible(33, 33, True, options.get("window", (-1, -1))))
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)
    np.testing.assert_allclose(o, np.einsum("bhij,bjhd->bihd", p, v), atol=1e-5)
    found = form.distance((o, lse), (o, lse))
    assert (found.error, found.lse, found.faults) == (0.0, 0.0, [])
    off = o.clone()
    off[1, :, 1] *= 1.1
    assert form.distance((off, lse), (o, lse)).error == pytest.approx(0.1, rel=1e-3)
    assert form.distance((off, lse + 1), (o, lse)).faults[1].startswith("LSE is off by up to 1.00")
