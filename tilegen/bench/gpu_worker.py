"""Calls functions in a process of its own, so that a kernel that hangs or breaks its GPU's context ends that process
and not this one: the next call gets a fresh process.

Functions are named as "package.module:function" and are imported only there.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from tilegen.runtime import driver
from tilegen.runtime.device_memory import finishes

LAUNCH_LIMIT = 5.0  # seconds: the kernels here take milliseconds
CALL_LIMIT = 60.0
START_LIMIT = 120.0


class HangError(RuntimeError):
    """Work on the GPU did not finish in time. Only ending the process ends it."""


class CallFailedError(RuntimeError):
    """The function raised; the text says what."""


class WorkerDiedError(RuntimeError):
    """The process is gone, or had to be ended; the text says why."""


def finish(what: str, seconds: float = LAUNCH_LIMIT) -> None:
    """Wait for the default stream, and torch's current one if it is loaded, but not for ever. Raises HangError, or the
    driver's or torch's error."""
    if driver.in_use() and not finishes(seconds):
        raise HangError(f"{what} did not finish within {seconds:g} s: it hangs")
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    deadline = time.monotonic() + seconds
    for stream in (torch.cuda.default_stream(), torch.cuda.current_stream()):
        event = torch.cuda.Event()
        event.record(stream)
        while not event.query():
            if time.monotonic() > deadline:
                raise HangError(f"{what} did not finish within {seconds:g} s: it hangs")
            time.sleep(2e-4)


class GpuWorker:
    """The process is started by the first call, and again by the first call after one that ended it."""

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Connection | None = None

    def call(self, function: str, *args: Any, limit: float = CALL_LIMIT, **kwargs: Any) -> Any:
        """The function's value. Raises CallFailedError if it raised, WorkerDiedError if the process did not live
        through it or the answer took more than `limit` seconds."""
        connection = self._start()
        connection.send((function, args, kwargs))
        return self._answer(connection, limit, function)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None

    def interrupt(self) -> None:
        """End the process from another thread: the call under way raises WorkerDiedError."""
        if (process := self._process) is not None:
            process.kill()

    def _start(self) -> Connection:
        if self._connection is None:
            context = get_context("spawn")
            ours, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._connection = ours
            self._answer(ours, START_LIMIT, "the start of the process")
        return self._connection

    def _answer(self, connection: Connection, limit: float, what: str) -> Any:
        try:
            if not connection.poll(limit):
                self.close()
                raise WorkerDiedError(f"{what}: no answer within {limit:g} s, so its process was ended")
            kind, value = connection.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            self.close()
            raise WorkerDiedError(f"{what}: its process ended by itself with exit code {code}") from None
        if kind == "died":
            self.close()
            raise WorkerDiedError(value)
        if kind == "raised":
            raise CallFailedError(value)
        return value


# ---- in that process -----------------------------------------------------------------------------


def serve(connection: Connection) -> None:
    """Answer calls until the other side closes. A hang, or an error that breaks the GPU's context, ends the process."""
    connection.send(("value", None))
    with contextlib.suppress(EOFError):
        while True:
            function, args, kwargs = connection.recv()
            connection.send(reply := _reply(function, args, kwargs))
            if reply[0] == "died":
                os._exit(1)  # an orderly end would wait for the GPU


def _reply(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any]:
    module, _, name = function.partition(":")
    try:
        return "value", getattr(import_module(module), name)(*args, **kwargs)
    except HangError as e:
        return "died", str(e)
    except AssertionError as e:
        return "raised", str(e) or traceback.format_exc()
    except Exception as e:
        text = f"{type(e).__name__}: {e}" if type(e).__name__ == "TilegenError" else traceback.format_exc()
    try:
        finish("what the GPU was left with")
    except Exception as e:
        return "died", f"{text}\nand the GPU cannot be used any more: {e}"
    return "raised", text
