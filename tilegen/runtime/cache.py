"""What tells one compilation from another, and so names its entries among the files that are kept (`tilegen.disk`)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.resources import resource
from tilegen.syntax.span import Source
from tilegen.targets.hopper.nvrtc_library import nvrtc_version
from tilegen.targets.hopper.tools import nvdisasm, nvrtc_library
from tilegen.version import LOADED_NS, VERSION

if TYPE_CHECKING:
    from tilegen.ir.tile import ParamValue

_TICK_NS = 20_000_000  # by which the clock of the file system may be behind
# Parts of the package that a compilation cannot depend on, since they are in layers above it.
_ABOVE = frozenset({"emulate", "oracle", "bench", "tune", "inspect", "cli"})


def key_of(source: Source, params: Mapping[str, str | ParamValue], target: str) -> str | None:
    """The name of this compilation: a hash of all that it depends on.

    A parameter's value and the text that spells it on the command line are the same; a default and its value are
    not. None where that cannot be said: the code on disk is not what runs here, or a value is of no known type.
    """
    spelt = {name: _spelling(value) for name, value in params.items()}
    try:
        code, tools = code_digest(), tools_in_use()
    except (OSError, TilegenError):  # a file that is being replaced; no NVRTC, which compiling says better
        return None
    if code is None or None in spelt.values():
        return None
    # the name is in spans and in the code's line numbers
    parts = [VERSION, code, tools, source.name, source.text, sorted(spelt.items()), target]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _spelling(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if type(value) in (str, int, float, DType) else None


def code_digest() -> str | None:
    """A hash of all code, grammar and templates that a compilation runs.

    None if any was changed after this process began to load it: what runs may then be neither the old nor the new.
    """
    files = _files()
    if any(changed >= LOADED_NS - _TICK_NS for _, _, changed in files):
        return None
    return _digest(files)


def _files() -> tuple[tuple[str, int, int], ...]:
    """(path, size, time of the last change of any kind, in ns) of each, in order."""
    package = Path(__file__).parents[1]
    found = []
    for root in (package, resource("grammar"), resource("templates")):
        for folder, inner, names in os.walk(root):
            inner[:] = [name for name in inner if Path(folder) != package or name not in _ABOVE]
            found += [os.path.join(folder, name) for name in names if name.endswith((".py", ".lark", ".j2"))]
    stats = ((path, os.stat(path)) for path in sorted(found))
    return tuple((path, stat.st_size, stat.st_ctime_ns) for path, stat in stats)


@lru_cache(maxsize=1)
def _digest(files: tuple[tuple[str, int, int], ...]) -> str:
    total = hashlib.sha256()
    for path, _, _ in files:
        total.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return total.hexdigest()


def tools_in_use() -> list[object]:
    """What tells these NVRTC and nvdisasm from others: their files, or else NVRTC's version.

    Loading NVRTC to ask for its version takes as long as all the rest of a kernel from the cache.
    """
    compiler, disassembler = nvrtc_library(), nvdisasm()
    return [
        _identity(compiler) if compiler else nvrtc_version(),
        _identity(disassembler) if disassembler else None,
    ]


def _identity(path: Path) -> list[str | int]:
    stat = path.stat()
    return [str(path), stat.st_size, stat.st_mtime_ns]
