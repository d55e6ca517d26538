"""Files kept on disk between processes: where they are, and whether one is whole.

A file is named by its key, which covers all that its contents depend on: nothing is ever out of date. It is written
beside its place and renamed into it, so that processes never see half of one; it carries a checksum, and one that does
not match is as good as absent. What cannot be read or written costs time, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TILEGEN_CACHE"
LIMIT = 256 * 2**20  # bytes of all entries; a kernel takes about a fifth of a megabyte
_KEPT = LIMIT * 3 // 4  # what pruning leaves, so that it is seldom done
_ABANDONED = 3600  # seconds after which a file that was never renamed belongs to no process any more
KERNEL, TABLE = ".kernel", ".table"  # compilations, and what compiling makes of its own grammar and templates
_UNFINISHED = ".part"
OF = "-"  # in the name of an entry between the key of a kernel and which of its variants it holds
_MAGIC = b"tilegen kernel 1"
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Contents:
    """What is in a cache folder. A kernel with several variants has several entries, and counts once; tables count as
    bytes alone."""

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


# ---- reading and writing -------------------------------------------------------------------------


def read(place: Path, key: str, kind: str = KERNEL) -> bytes | None:
    """The entry's contents, or None if there is none that is whole and was written under this key."""
    path = place / (key + kind)
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


def write(place: Path, key: str, body: bytes, kind: str = KERNEL) -> None:
    """Keep an entry, replacing one that is there, and drop the oldest if there is too much. Does not fail."""
    with suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        put_whole(place / (key + kind), _MAGIC + _checksum(key, body) + body)
        _prune(place)


def read_table(made_from: Sequence[object]) -> bytes | None:
    """What `write_table` kept of the same texts, values and Python; None if there is no such file, or no cache."""
    place = folder()
    return None if place is None else read(place, _table(made_from), TABLE)


def write_table(made_from: Sequence[object], body: bytes) -> None:
    """Keep what takes longer to make than to read, and depends on these texts and values alone. Does not fail."""
    place = folder()
    if place is not None:
        write(place, _table(made_from), body, TABLE)


def _table(made_from: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([sys.version, *made_from]).encode()).hexdigest()


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
    return _counted([(path, size) for path, size, _ in _listing(place) if path.suffix != _UNFINISHED])


def clear(place: Path) -> Contents:
    """Remove every entry, and return what was removed. Files that are not the cache's stay."""
    gone: list[tuple[Path, int]] = []
    for path, size, _ in _listing(place):
        path.unlink(missing_ok=True)
        if path.suffix != _UNFINISHED:
            gone.append((path, size))
    return _counted(gone)


def _counted(entries: list[tuple[Path, int]]) -> Contents:
    kernels = {path.stem.partition(OF)[0] for path, _ in entries if path.suffix == KERNEL}
    return Contents(len(kernels), sum(size for _, size in entries))


def _prune(place: Path) -> None:
    with suppress(OSError):
        listing = _listing(place)
        newest = max((used for _, _, used in listing), default=0.0)
        entries = [item for item in listing if item[0].suffix != _UNFINISHED]
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
            if file.name.endswith((KERNEL, TABLE, _UNFINISHED)):
                with suppress(FileNotFoundError):  # another process prunes too
                    stat = file.stat()
                    found.append((Path(file.path), stat.st_size, stat.st_mtime))
    return found
