"""Output files appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tilegen.diagnostics.catalogue import Code, fail


def publish(files: dict[str, bytes], folder: Path) -> None:
    """Write every file (name → contents) into `folder`, made if need be, or leave it as it was.

    Everything is written to a folder beside the targets first, so that a full disk or an interrupt cannot
    leave half a file; then files are moved into place, and moved back if one of them cannot be.
    Fails with CANNOT_WRITE.
    """
    made = _outermost_missing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tilegen-", dir=folder) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            new.mkdir()
            old.mkdir()
            for name, contents in files.items():
                (new / name).write_bytes(contents)
            _swap(list(files), folder, new, old)
    except OSError as error:
        if made:
            shutil.rmtree(made, ignore_errors=True)
        reason = _in_the_way(list(files), folder) or error.strerror or str(error)
        fail(Code.CANNOT_WRITE, None, folder=folder, reason=reason)
    except BaseException:
        if made:
            shutil.rmtree(made, ignore_errors=True)
        raise


def publish_file(file: Path, contents: bytes) -> None:
    """Write one file that somebody named: whole or not at all, but into what is there if that is no regular file, such
    as a device or a pipe; through links. Fails with CANNOT_WRITE."""
    place = file.resolve()
    if not place.exists() or place.is_file() or place.is_dir():
        publish({place.name: contents}, place.parent)
        return
    try:
        place.write_bytes(contents)
    except OSError as error:
        fail(Code.CANNOT_WRITE, None, folder=file, reason=error.strerror or str(error))


def _swap(names: list[str], folder: Path, new: Path, old: Path) -> None:
    done: list[str] = []
    try:
        for name in names:
            target = folder / name
            done.append(name)
            if os.path.lexists(target) and not target.is_dir():
                target.rename(old / name)
            (new / name).rename(target)
    except BaseException:
        for name in done:
            target = folder / name
            if not (new / name).exists():
                target.unlink()
            if os.path.lexists(old / name):
                (old / name).rename(target)
        raise


def _in_the_way(names: list[str], folder: Path) -> str:
    """The path that is a file where a folder must be, or the reverse, in words; "" if there is none."""
    for path in (folder, *folder.parents):
        if os.path.lexists(path) and not path.is_dir():
            return f"{path} is not a folder"
    return next((f"{folder / name} is a folder" for name in names if (folder / name).is_dir()), "")


def _outermost_missing(folder: Path) -> Path | None:
    """The highest folder on the way that does not exist yet: what to remove if nothing can be written."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    return missing[-1] if missing else None
