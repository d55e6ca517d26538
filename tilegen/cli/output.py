"""Stdout whose failures are told from those of every other file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO, cast


class CannotPrintError(OSError):
    """Stdout is closed, or took nothing of what was written."""


class _Output:
    """A stream that raises CannotPrintError; a reader that has gone away stays a BrokenPipeError, which is no fault."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _told():
            return self._stream.write(text)

    def flush(self) -> None:
        with _told():
            self._stream.flush()


@contextmanager
def watched_stdout() -> Iterator[None]:
    """Inside, writing to stdout raises CannotPrintError where it fails."""
    if sys.stdout is None:  # the process was started without one
        yield
        return
    with redirect_stdout(cast(TextIO, _Output(sys.stdout))):
        yield


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrintError(error.errno, error.strerror) from error
