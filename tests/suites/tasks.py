"""What test_pool.py runs in processes of the pool."""

from __future__ import annotations

import os
import time


def double(n: int) -> int:
    return 2 * n


def die(code: int) -> None:
    os._exit(code)


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def divide(n: int) -> float:
    return 1 / (n - n)


def place(name: str) -> tuple[str, str | None]:
    return name, os.environ.get("OPENBLAS_NUM_THREADS")
