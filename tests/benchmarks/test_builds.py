"""Kernels compiled in other processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilegen
from benchmarks.builds import Request, compile_all, compile_each, compile_one, read, sample


def test_kernels_travel_as_files(tmp_path: Path) -> None:
    requests = [sample("copy", T="f32"), sample("copy", T="f16"), sample("copy", T="nothing")]
    paths = compile_all(requests, tmp_path, processes=2)
    x = np.random.default_rng(3).standard_normal((9, 24)).astype(np.float16)
    np.testing.assert_array_equal(read(paths[requests[1]]).kernel()(X=x), x)
    assert "registers" in read(paths[requests[0]]).summary()
    with pytest.raises(tilegen.TilegenError, match="PARAMETER_VALUE"):
        read(paths[requests[2]]).kernel()
    assert "PARAMETER_VALUE" in read(paths[requests[2]]).summary()


def test_what_is_there_is_not_compiled_again(tmp_path: Path) -> None:
    request = sample("copy", T="bf16")
    path = compile_all([request], tmp_path)[request]
    before = path.stat().st_mtime_ns
    assert compile_all([request], tmp_path) == {request: path}
    assert path.stat().st_mtime_ns == before


def test_only_what_was_begun_in_time_comes_and_the_first_always(tmp_path: Path) -> None:
    requests = [sample("copy", T=T) for T in ("f32", "f16", "bf16")]
    assert [r for r, _ in compile_each(requests, tmp_path, processes=1, until=0.0)] == requests[:1]
    assert [r for r, _ in compile_each(requests[::-1], tmp_path, processes=1)] == [requests[0], *requests[:0:-1]]


def test_a_text_is_a_spec_too() -> None:
    built = compile_one(Request("kernel broken() { nonsense }"))
    assert isinstance(built.error, tilegen.TilegenError)
    assert built.request.label == "spec"
