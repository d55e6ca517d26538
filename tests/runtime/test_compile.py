"""`tilegen.compile`: light to import, from a path or a text, faults as TilegenError."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilegen
from tilegen.targets.hopper.emit import expectations

SAMPLES = Path(__file__).parents[2] / "samples"

COPY = """
kernel twice(T: f16 | f32 = f32) {
  size   M, N
  input  X: T[M, N]
  output Y: T[M, N]
  axis   i in M, j in N
  tile x[i, j] = X[i, j]
  Y[i, j] = 2 * x[i, j]
}
"""


def test_importing_tilegen_loads_nothing_heavy() -> None:
    program = "import sys, tilegen; print(*({'numpy', 'lark', 'cuda', 'torch', 'jinja2'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_missing_file_is_a_fault_in_words(tmp_path: Path) -> None:
    with pytest.raises(tilegen.TilegenError, match="FILE_MISSING"):
        tilegen.compile(tmp_path / "no.tile")


@pytest.mark.parametrize("spec", [3, None, b"kernel k {}"])
def test_a_spec_that_is_neither_text_nor_a_path_is_a_fault_in_words(spec: Any) -> None:
    with pytest.raises(tilegen.TilegenError, match="SPEC_TYPE") as caught:
        tilegen.compile(spec)
    (fault,) = caught.value.diagnostics
    assert fault.got == f"an object of type {type(spec).__name__}"


def test_a_text_with_a_fault_is_placed_in_it() -> None:
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.compile(COPY.replace("X[i, j]", "Z[i, j]"))
    places = [(d.span.file, d.span.line) for d in caught.value.diagnostics if d.span]
    assert ("<text>", 7) in places


def test_a_text_becomes_a_kernel_with_all_its_forms() -> None:
    kernel = tilegen.compile(COPY, T="f16")
    assert kernel.name == kernel.entry == "twice"
    assert "__global__" in kernel.cuda
    assert ".entry twice" in kernel.ptx
    assert kernel.cubin[:4] == b"\x7fELF"
    assert "UTMALDG" in kernel.sass
    assert kernel.plan.name == "twice"


def test_a_compiled_text_runs_on_numpy_arrays() -> None:
    x = np.random.default_rng(5).standard_normal((70, 136), dtype=np.float32)
    kernel = tilegen.compile(COPY)
    np.testing.assert_array_equal(kernel(X=x), 2 * x)


def test_code_that_spends_more_than_it_need_is_right_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions beside a number that is no whole one: a clause that only masks. No moves at all are thought needed."""
    monkeypatch.setattr(expectations, "MAX_MOVES", -1)
    text = (SAMPLES / "attention_window.tile").read_text(encoding="utf-8")
    start, end = text.index("  scalar left"), text.index("  axis")
    text = text[:start] + "  scalar W: f32 = 64\n" + text[end:]
    start, end = text.index("  domain"), text.index("  tile q")
    k = tilegen.compile(text[:start] + "  domain i, j: i - W < j <= i\n" + text[end:], D=64)
    assert any("spends more register moves on every step" in note for note in k.plan.notes)
    again = tilegen.compile(text[:start] + "  domain i, j: i - W < j <= i\n" + text[end:], D=64)
    assert again.plan.notes == k.plan.notes  # the cache keeps them
    g = np.random.default_rng(0)
    q, keys, v = (g.standard_normal((1, 90, 1, 64)).astype(np.float32) for _ in range(3))
    given = {name: x.astype(ml_dtypes.bfloat16) for name, x in (("Q", q), ("K", keys), ("V", v))}
    got = k(**given, W=20.5).O[0, :, 0].astype(np.float64)
    q, keys, v = (x[0, :, 0].astype(np.float64) for x in given.values())
    i, j = np.indices((90, 90))
    s = np.where((i - 20.5 < j) & (j <= i), q @ keys.T / 8, -np.inf)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    want = p / p.sum(axis=1, keepdims=True) @ v
    assert np.linalg.norm(got - want) < 4e-3 * np.linalg.norm(want)


def test_names_that_cuda_and_python_have_taken() -> None:
    text = """kernel tanh { size M, N  input self: f32[M, N]  output y: f32[M, N]  axis i in M, j in N
      tile x[i, j] = self[i, j]  y[i, j] = x[i, j] * 2  schedule hopper { block i 128, j 64 consumers 2 over i } }"""
    k = tilegen.compile(text)
    x = np.ones((130, 64), np.float32)
    assert (k(self=x) == 2).all()
    assert (k.prepare(self=x)() == 2).all()
