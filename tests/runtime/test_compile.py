"""`tilegen.compile`: light to import, from a path or a text, faults as TilegenError."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilegen

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
