"""What is kept of grammar and templates: it does what making it anew does, and a broken file is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import jinja2
import lark
import pytest

from tests.cli.test_commands import tilegen
from tilegen import disk
from tilegen.diagnostics.core import TilegenError
from tilegen.passes.pipeline import lower_all
from tilegen.sema.loading import load
from tilegen.syntax import parsing
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source
from tilegen.targets.hopper.emit import emit, functions

ROOT = Path(__file__).parents[1]
SAMPLES = [read_source(path) for path in sorted((ROOT / "samples").glob("*.tile"))]
WRONG = [
    "kernel k(A: bf16[S]) {\n",
    "kernel k(A: bf16[S] {\n}\n",
    "kernel k(in A: bf16[B, S]) {\n  load x = $;\n  frobnicate;\n}\n",
    "",
]
MADE = (parsing._parser, functions.environment, functions._macro)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, in a process that has read nothing of it yet."""
    monkeypatch.setenv("TILEGEN_CACHE", str(tmp_path / "cache"))
    forget()
    yield tmp_path / "cache"
    forget()


def forget() -> None:
    """All that this process has read or made."""
    for made in MADE:
        made.cache_clear()


def tables(place: Path) -> list[Path]:
    return sorted(place.glob("*.table"))


def parsed() -> list[object]:
    forget()
    found: list[object] = [parsing.parse(source) for source in SAMPLES]
    for text in WRONG:
        with pytest.raises(TilegenError) as error:
            parsing.parse(Source("wrong.tile", text))
        found.append(error.value.diagnostics)
    return found


def emitted() -> list[object]:
    forget()
    return [emit(plan) for name in ("gemm", "fa3_fwd") for plan in lower_all(load(named(name), {}))]


def named(sample: str) -> Source:
    return next(source for source in SAMPLES if Path(source.name).stem == sample)


def none_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> object:
        raise AssertionError("made again")

    monkeypatch.setattr(lark.Lark, "__init__", refuse)
    monkeypatch.setattr(jinja2.Environment, "_generate", refuse)


@pytest.mark.parametrize("do", [parsed, emitted])
def test_what_is_read_does_what_making_it_does(
    do: Callable[[], list[object]], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = do()
    written = {path: path.read_bytes() for path in tables(place)}
    assert written
    none_is_made(monkeypatch)
    assert do() == first
    assert {path: path.read_bytes() for path in tables(place)} == written


@pytest.mark.parametrize("do", [parsed, emitted])
def test_a_broken_file_is_made_again(do: Callable[[], list[object]], place: Path) -> None:
    first = do()
    whole = {path: path.read_bytes() for path in tables(place)}
    for number, (path, body) in enumerate(whole.items()):
        path.write_bytes((body[:-1], body[:60] + bytes(8) + body[68:], b"")[number % 3])
    assert do() == first
    assert all(disk.read(place, path.stem, disk.TABLE) is not None for path in whole)


def test_another_text_or_library_has_tables_of_its_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed()
    monkeypatch.setattr(lark, "__version__", "0.0.0")
    parsed()
    assert len(tables(place)) == 2
    monkeypatch.setattr(parsing, "grammar_text", lambda: (ROOT / "grammar" / "tile.lark").read_text() + "\n")
    parsed()
    assert len(tables(place)) == 3


def test_templates_compiled_by_other_rules_have_files_of_their_own(place: Path) -> None:
    emitted()
    before = set(tables(place))
    forget()
    environment = functions.environment()
    environment.trim_blocks = False
    environment.get_template("barriers.j2")
    assert len(set(tables(place)) - before) == 1


def test_nothing_is_written_where_the_cache_is_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = parsed(), emitted()
    disk.clear(place)
    monkeypatch.setenv("TILEGEN_CACHE", "off")
    assert (parsed(), emitted()) == first
    assert tables(place) == []


def test_the_cache_command_counts_kernels_alone_and_clears_tables_too(place: Path) -> None:
    parsed()
    assert tilegen("cache").stdout.startswith(f"{place}: 0 kernels, 0.1 MiB")
    assert tilegen("cache", "clear").stdout == f"{place}: removed 0 kernels, 0.1 MiB\n"
    assert tables(place) == []
