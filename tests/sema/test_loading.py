"""Files that are no specs are refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sema.faults import BASE
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.sema import load


def refused(path: Path) -> Diagnostic:
    with pytest.raises(TilegenError) as error:
        load(path, {})
    (found,) = error.value.diagnostics
    return found


def test_a_file_is_read_under_its_name(tmp_path: Path) -> None:
    file = tmp_path / "ok.tile"
    file.write_text("\ufeff" + BASE.replace("\n", "\r\n"), encoding="utf-8")  # as Windows editors save
    program = load(file, {})
    assert program.source.name == str(file)
    assert program.move("b").span.line == 11


def test_a_missing_file_is_told_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "there.tile").write_text(BASE)
    found = refused(tmp_path / "their.tile")
    assert (found.code, found.wanted) == ("FILE_MISSING", "did you mean there.tile?")
    assert refused(tmp_path / "no" / "such.tile").code == "FILE_MISSING"


def test_of_many_neighbours_some_are_named(tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / f"spec{n}.tile").write_text(BASE)
    named = refused(tmp_path / "other").wanted
    assert named == ", ".join(f"spec{n}.tile" for n in range(8)) + ", …"


def test_a_folder_is_no_spec(tmp_path: Path) -> None:
    assert refused(tmp_path).code == "FILE_IS_FOLDER"


def test_a_path_through_a_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.tile").write_text(BASE)
    assert refused(tmp_path / "x.tile" / "y.tile").code == "FILE_UNREADABLE"


def test_other_encodings_are_refused_where_they_show(tmp_path: Path) -> None:
    file = tmp_path / "latin.tile"
    file.write_bytes(b"kernel k {\n  # gr\xf6sse\n}\n")
    found = refused(file)
    assert (found.code, found.got) == ("FILE_ENCODING", "byte 0xf6")
    assert found.span is not None
    assert (found.span.line, found.span.column) == (2, 7)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\x00\x01\x02"])
def test_a_file_without_a_kernel_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.tile"
    file.write_text(text)
    assert refused(file).code == ("BAD_CHARACTER" if "\x00" in text else "EMPTY_FILE")
