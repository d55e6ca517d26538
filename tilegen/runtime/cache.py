"""Compilations kept on disk between processes: where they are, what tells one from another, and whether one is whole.

An entry is a file named by its key, which covers all that a compilation depends on: nothing is ever out of date.
It is written beside its place and renamed into it, so that processes never see half of one; it carries a checksum,
and one that does not match is as good as absent. A cache that cannot be read or written costs time, never a kernel.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
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

VARIABLE = "TILEGEN_CACHE"
LIMIT = 256 * 2**20  # bytes of all entries; a kernel takes about a fifth of a megabyte
_KEPT = LIMIT * 3 // 4  # what pruning leaves, so that it is seldom done
_ABANDONED = 3600  # seconds after which a file that was never renamed belongs to no process any more
_TICK_NS = 20_000_000  # by which the clock of the file system may be behind
_SUFFIX, _UNFINISHED = ".kernel", ".part"
OF = "-"  # in the name of an entry between the key of a kernel and which of its variants it holds
_MAGIC = b"tilegen kernel 1"
_DIGEST = hashlib.sha256().digest_size
# Parts of the package that a compilation cannot depend on, since they are in layers above it.
_ABOVE = frozenset({"emulate", "oracle", "bench", "tune", "inspect", "cli"})


@dataclass(frozen=True)
class Contents:
    """What is in a cache folder. A kernel with several variants has several entries, and counts once."""

    kernels: int
    bytes: int


# ---- where ---------------------------------------------------------------------------------------


def folder() -> Path | None:
    """The cache folder: what TILEGEN_CACHE says, else in the user's cache folder. None where it says `off`."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("tilegen")


# ---- what ----------------------------------------------------------------------------------------


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


# ---- reading and writing -------------------------------------------------------------------------


def read(place: Path, key: str) -> bytes | None:
    """The entry's contents, or None if there is none that is whole and was written under this key."""
    path = place / (key + _SUFFIX)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    head, body = data[: len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    if head != _MAGIC + _checksum(key, body):
        return None
    with suppress(OSError):
        os.utime(path)  # what is in use is pruned last
    return body


def write(place: Path, key: str, body: bytes) -> None:
    """Keep an entry, replacing one that is there, and drop the oldest if there is too much. Does not fail."""
    with suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        put_whole(place / (key + _SUFFIX), _MAGIC + _checksum(key, body) + body)
        _prune(place)


def put_whole(path: Path, data: bytes) -> None:
    """Make or replace a file so that no process ever sees a part of it. Raises OSError."""
    import tempfile  # which a kernel from the cache does without

    handle, unfinished = tempfile.mkstemp(suffix=_UNFINISHED, dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


def _checksum(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + body).digest()


# ---- housekeeping --------------------------------------------------------------------------------


def contents(place: Path) -> Contents:
    """How much there is."""
    return _counted([(path, size) for path, size, _ in _listing(place) if path.suffix == _SUFFIX])


def clear(place: Path) -> Contents:
    """Remove every entry, and return what was removed. Files that are not the cache's stay."""
    gone: list[tuple[Path, int]] = []
    for path, size, _ in _listing(place):
        path.unlink(missing_ok=True)
        if path.suffix == _SUFFIX:
            gone.append((path, size))
    return _counted(gone)


def _counted(entries: list[tuple[Path, int]]) -> Contents:
    return Contents(len({path.stem.partition(OF)[0] for path, _ in entries}), sum(size for _, size in entries))


def _prune(place: Path) -> None:
    with suppress(OSError):
        listing = _listing(place)
        newest = max((used for _, _, used in listing), default=0.0)
        entries = [item for item in listing if item[0].suffix == _SUFFIX]
        for path, _, used in listing:
            if path.suffix == _UNFINISHED and used < newest - _ABANDONED:
                path.unlink(missing_ok=True)
        total = sum(size for _, size, _ in entries)
        if total <= LIMIT:
            return
        for path, size, _ in sorted(entries, key=lambda item: item[2]):
            path.unlink(missing_ok=True)
            total -= size
            if total <= _KEPT:
                return


def _listing(place: Path) -> list[tuple[Path, int, float]]:
    """(path, bytes, time of its last use) of each file of the cache."""
    found = []
    with suppress(FileNotFoundError), os.scandir(place) as files:
        for file in files:
            if file.name.endswith((_SUFFIX, _UNFINISHED)):
                with suppress(FileNotFoundError):  # another process prunes too
                    stat = file.stat()
                    found.append((Path(file.path), stat.st_size, stat.st_mtime))
    return found
