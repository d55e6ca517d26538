"""The fastest schedules found on this machine, kept between processes.

One entry is one JSON file that people can read: what it is for, the schedule, and how much faster it was. It is for one
GPU, one spec's text, one tilegen, one NVRTC, the kernel's parameters and the class of its sizes; whatever else changes,
it is simply not found. Files are put in place whole and carry a checksum; one that is broken is as good as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilegen import disk
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import cache, driver
from tilegen.syntax.span import Source
from tilegen.tune.spelling import in_front

VARIABLE = "TILEGEN_TUNED"
_SUFFIX = ".tuned.json"
_FORMAT = 1

SizeValue = int | list[int]


@dataclass(frozen=True)
class Kept:
    """What was found.

    device: the GPU's name · made_with: a hash of tilegen's code and the tools that it compiles with · text: of the spec
    · params, defaults: spelt as on the command line, all of them · sizes: those that it was timed at, all · classes:
    theirs · guard: a condition that holds at launches with sizes of these classes, "" where none can be said ·
    schedule: its directives · place: where in the spec's text a schedule stands in front of all others · ratio: how
    many times as fast as the spec's own schedule, or 0 where that could not be timed · when: in UTC.
    """

    kernel: str
    device: str
    made_with: str
    text: str
    params: Mapping[str, str]
    defaults: Mapping[str, str]
    sizes: Mapping[str, SizeValue]
    classes: Mapping[str, int]
    guard: str
    schedule: str
    place: int
    ratio: float
    when: str

    @property
    def title(self) -> str:
        params = " ".join(f"{name}={value}" for name, value in self.params.items())
        sizes = ",".join(f"{name}={value}".replace(" ", "") for name, value in self.sizes.items())
        return f"{self.kernel} {params} at {sizes}" if params else f"{self.kernel} at {sizes}"


def folder() -> Path:
    """Where entries are: what TILEGEN_TUNED says, else in the user's data folder."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("tilegen") / "tuned"


def applied(
    source: Source, params: Mapping[str, Any], sizes: Mapping[str, SizeValue]
) -> tuple[Source, tuple[Kept, ...]]:
    """The spec with what is kept for this machine's GPU in front of its own schedules, each for launches with sizes of
    its classes, on lines that keep their numbers; and what that is. The spec itself where nothing is kept."""
    found = find(source, params, sizes, driver.device_info(0).name) if driver.available() else ()
    schedules = [(kept.schedule, kept.guard) for kept in found]
    return (in_front(source, found[0].place, schedules) if found else source), found


# ---- what tells entries apart ----------------------------------------------------------------------


def made_with() -> str | None:
    """A hash of what makes kernels here; None where the code on disk is not what runs, so that nothing is kept."""
    try:
        code, tools = cache.code_digest(), cache.tools_in_use()
    except (OSError, TilegenError):
        return None
    return None if code is None else _hash(code, tools)


def text_of(source: Source) -> str:
    """A hash of a spec's text."""
    return _hash(source.text)


def size_class(value: SizeValue) -> int:
    """Sizes of one class are served by one schedule: those up to the same power of two. Lengths count by the
    longest."""
    most = max(value, default=0) if isinstance(value, list) else value
    return max(0, most - 1).bit_length()


def guard_of(classes: Mapping[str, int]) -> str:
    """The condition that sizes are of these classes."""
    parts: list[str] = []
    for name, number in classes.items():
        if number:
            parts.append(f"{name} > {1 << (number - 1)}")
        parts.append(f"{name} <= {1 << number}")
    return " and ".join(parts)


def spelt(value: object) -> str:
    """A parameter's value as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _family(device: str, text: str, made: str) -> str:
    return _hash(device, text, made)[:16]


# ---- keeping and finding ---------------------------------------------------------------------------


def keep(kept: Kept, place: Path | None = None) -> Path:
    """Write an entry, in place of one for the same. Raises OSError."""
    place = folder() if place is None else place
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    what = _hash(dict(kept.params), dict(kept.classes))[:16]
    path = place / f"{_family(kept.device, kept.text, kept.made_with)}-{what}{_SUFFIX}"
    value = {"format": _FORMAT, **asdict(kept)}
    disk.put_whole(path, json.dumps({**value, "checksum": _hash(value)}, indent=1).encode())
    return path


def find(
    source: Source,
    params: Mapping[str, Any],
    sizes: Mapping[str, SizeValue],
    device: str,
    place: Path | None = None,
) -> tuple[Kept, ...]:
    """What was found for a spec with these parameters, defaults among them or not, at sizes of these classes, the
    newest first; of those that launches cannot tell apart the newest alone. A size that is not given may be of any
    class. Other names than sizes do not matter."""
    made = made_with()
    if made is None:
        return ()
    place = folder() if place is None else place
    given = {name: spelt(value) for name, value in params.items()}
    found = [
        kept
        for _, kept in _entries(place, _family(device, text_of(source), made))
        if kept.device == device
        and kept.text == text_of(source)
        and kept.made_with == made
        and kept.params == {**kept.defaults, **given}
        and all(size_class(sizes[name]) == number for name, number in kept.classes.items() if name in sizes)
    ]
    newest = sorted(found, key=lambda kept: kept.when, reverse=True)
    return tuple(kept for n, kept in enumerate(newest) if kept.guard not in {k.guard for k in newest[:n]})


def everything(place: Path | None = None) -> list[tuple[Path, Kept]]:
    """All entries that are whole, for whatever they are, by name of the file."""
    return list(_entries(folder() if place is None else place, ""))


def forget(place: Path | None = None, kernel: str | None = None) -> int:
    """Remove every entry, or those of one kernel, broken ones only with all. How many there were. Raises OSError."""
    place = folder() if place is None else place
    if kernel is not None:
        paths = [path for path, kept in everything(place) if kept.kernel == kernel]
    else:
        paths = sorted(place.glob(f"*{_SUFFIX}")) if place.is_dir() else []
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _entries(place: Path, family: str) -> Iterator[tuple[Path, Kept]]:
    if not place.is_dir():
        return
    for path in sorted(place.glob(f"{family}*{_SUFFIX}")):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            value = json.loads(path.read_bytes())
            if value.pop("checksum") == _hash(value) and value.pop("format") == _FORMAT:
                yield path, Kept(**value)
