"""Kernels built in parallel once, and checks on the GPU in a process that a hanging kernel may take down."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.builds import Request, compile_all
from benchmarks.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError

_DEATHS = 2  # of a kernel's processes, after which it is not run again: each costs seconds of the GPU's time


class Harness:
    """`run` fails the one test that calls it, in words, whatever the GPU does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[Request, Path] = {}
        self._worker = GpuWorker()
        self._deaths: Counter[Request] = Counter()

    def build(self, requests: Iterable[Request]) -> None:
        """Compile these, in parallel. A fault fails the tests that run the kernel."""
        self._paths.update(compile_all(requests, self._folder))

    def run(self, check: str, request: Request, limit: float = 60.0, **arguments: Any) -> Any:
        """The value of `check`, a "module:function" of this folder, called with the build's path and a fresh seed."""
        if self._deaths[request] >= _DEATHS:
            pytest.fail(f"{request.label} hung or broke the GPU {_DEATHS} times: not run again", pytrace=False)
        self.build([request])
        seed = int(os.environ.get("TILEGEN_TEST_SEED") or secrets.randbits(31))
        told = ", ".join(f"{name}={value}" for name, value in {**arguments, "seed": seed}.items())
        try:
            return self._worker.call(
                f"tests.gpu.{check}", str(self._paths[request]), seed=seed, limit=limit, **arguments
            )
        except (WorkerDiedError, CallFailedError) as e:
            self._deaths[request] += isinstance(e, WorkerDiedError)
            pytest.fail(f"{request.label}: {told}\n{e}", pytrace=False)

    def close(self) -> None:
        self._worker.close()
