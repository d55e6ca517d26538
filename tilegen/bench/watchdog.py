"""Ends a process that waits for a GPU which does not answer."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def watchdog(what: str, seconds: float) -> Iterator[None]:
    """End this process, saying so, where the block takes longer: nothing else ends a call that waits for the GPU."""

    def end() -> None:
        print(f"{what}: nothing came back from the GPU within {seconds:g} s, so this process ends", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(3)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
