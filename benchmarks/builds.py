"""Requests for the samples' kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilegen.bench.builds import Build as Build
from tilegen.bench.builds import Request as Request
from tilegen.bench.builds import compile_all as compile_all
from tilegen.bench.builds import compile_each as compile_each
from tilegen.bench.builds import compile_one as compile_one
from tilegen.bench.builds import read as read

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "samples"


def sample(name: str, **params: Any) -> Request:
    """A request for one of the samples."""
    return Request(str(SAMPLES / f"{name}.tile"), tuple(params.items()))
