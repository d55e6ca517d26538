"""Output files appear whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from tilegen.cli.publish import publish, publish_file
from tilegen.diagnostics.core import TilegenError

FILES = {"k.cu": b"cuda", "k.ptx": b"ptx", "k.cubin": b"\x7fELF"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_file_is_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    publish(FILES, folder)
    assert contents(folder) == FILES
    assert len(list(folder.iterdir())) == len(FILES)


def test_files_of_an_earlier_build_are_replaced_and_others_kept(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_bytes(b"old")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    publish(FILES, tmp_path)
    assert contents(tmp_path) == {**FILES, "notes.txt": b"mine"}


def test_a_target_that_cannot_be_replaced_leaves_the_earlier_build_whole(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_bytes(b"old cuda")
    (tmp_path / "k.cubin").mkdir()  # in the way of the last file
    with pytest.raises(TilegenError, match="CANNOT_WRITE"):
        publish(FILES, tmp_path)
    assert contents(tmp_path) == {"k.cu": b"old cuda"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.cu", "k.cubin"]


def test_a_write_that_fails_half_way_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full_disk(self: Path, data: bytes) -> int:
        if self.name == "k.ptx":
            write(self, data[:1])
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(TilegenError, match="No space left on device"):
        publish(FILES, tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()


def test_an_interrupt_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.cu").write_bytes(b"old cuda")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "k.ptx":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(FILES, tmp_path)
    assert contents(tmp_path) == {"k.cu": b"old cuda"}


def test_a_file_in_the_place_of_the_folder_is_a_fault_in_words(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(TilegenError, match="CANNOT_WRITE"):
        publish(FILES, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "a file"


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(TilegenError, match=f"/deep/er: {re.escape(str(tmp_path / 'out'))} is not a folder"):
        publish(FILES, tmp_path / "out" / "deep" / "er")
    (tmp_path / "k.cubin").mkdir()
    with pytest.raises(TilegenError, match=f"{re.escape(str(tmp_path / 'k.cubin'))} is a folder"):
        publish(FILES, tmp_path)


def test_a_file_that_is_named_may_be_a_pipe_or_a_link(tmp_path: Path) -> None:
    """What is there stays what it is: nothing takes a device's place."""
    pipe, kept, link = tmp_path / "pipe", tmp_path / "kept", tmp_path / "link"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    publish_file(pipe, b"into a pipe")
    assert os.read(reader, 64) == b"into a pipe"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    kept.write_bytes(b"old")
    link.symlink_to(kept)
    publish_file(link, b"new")
    assert link.is_symlink()
    assert kept.read_bytes() == b"new"
    publish_file(tmp_path / "folder" / "made", b"whole")
    assert (tmp_path / "folder" / "made").read_bytes() == b"whole"
    with pytest.raises(TilegenError, match="CANNOT_WRITE"):
        publish_file(tmp_path, b"a folder")
