"""Benchmarks where there is nothing to time on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("script", ["attention.py", "gemm.py", "forms.py", "sm80.py"])
def test_a_benchmark_without_a_gpu_ends_in_words(script: str) -> None:
    command = [sys.executable, ROOT / "benchmarks" / script]
    result = subprocess.run(
        command, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 1
    assert result.stderr == "benchmarks need torch and a Hopper GPU: the inputs are torch's, and so are the peers\n"
