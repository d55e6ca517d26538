"""Kernels built in parallel once, and checks on the GPU in a process that a hanging kernel may take down."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.builds import Request, compile_all
from tilegen.bench.gpu_worker import CallFailedError, GpuWorker, WorkerDiedError

_DEATHS = 2  # of a kernel's processes, after which it is not run again: each costs seconds of the GPU's time


@dataclass
class Measured:
    """What is shown when all tests are done. counts: how many of what. worst: of what, the largest error."""

    notes: list[str] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def saw(self, of: str, error: float) -> None:
        self.worst[of] = max(error, self.worst.get(of, 0.0))

    def add(self, other: Measured) -> None:
        """What another process measured."""
        self.notes += other.notes
        for of, error in other.worst.items():
            self.saw(of, error)
        self.counts.update(other.counts)

    def lines(self) -> list[str]:
        return [
            *self.notes,
            *(f"largest error of {of}: {error:.2e}" for of, error in sorted(self.worst.items())),
            *(f"{of}: {count}" for of, count in sorted(self.counts.items())),
        ]


class Harness:
    """`run` fails the one test that calls it, in words, whatever the GPU does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worker = GpuWorker()
        self._deaths: Counter[str] = Counter()
        self.measured = Measured()
        self.notes, self.counts, self.saw = self.measured.notes, self.measured.counts, self.measured.saw

    def build(self, requests: Iterable[Request]) -> None:
        """Compile these, in parallel. A fault fails the tests that run the kernel."""
        compile_all(requests, self._folder)

    def built(self, request: Request) -> Path:
        """The file of a build."""
        return compile_all([request], self._folder)[request]

    def run(self, check: str, request: Request | None = None, limit: float = 60.0, **arguments: Any) -> Any:
        """The value of `check`, a "module:function" of this folder, called with a fresh seed and, where a kernel is
        requested, the path of its build."""
        what = request.label if request else check
        if self._deaths[what] >= _DEATHS:
            pytest.fail(f"{what} hung or broke the GPU {_DEATHS} times: not run again", pytrace=False)
        build = [str(self.built(request))] if request else []
        seed = int(os.environ.get("TILEGEN_TEST_SEED") or secrets.randbits(31))
        told = ", ".join(f"{name}={value}" for name, value in {**arguments, "seed": seed}.items())
        try:
            return self._worker.call(f"tests.gpu.{check}", *build, seed=seed, limit=limit, **arguments)
        except (WorkerDiedError, CallFailedError) as e:
            failure = e
        self._deaths[what] += isinstance(failure, WorkerDiedError)
        pytest.fail(f"{what}: {told}\n{failure}", pytrace=False)

    def close(self) -> None:
        self._worker.close()
