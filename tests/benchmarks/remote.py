"""What test_gpu_worker.py runs in the other process."""

from __future__ import annotations

import os
import time

from tilegen.bench.gpu_worker import HangError


def pid() -> int:
    return os.getpid()


def double(x: int) -> int:
    return 2 * x


def divide(x: int) -> float:
    return x / 0


def disagree() -> None:
    raise AssertionError("3 is not 4")


def hang() -> None:
    raise HangError("a launch did not finish within 5 s: it hangs")


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def crash() -> None:
    os._exit(7)
