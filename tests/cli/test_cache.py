"""What the commands say and do about the cache of compiled kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import tilegen
from tilegen.runtime import cache

ROOT = Path(__file__).parents[2]
COPY = str(ROOT / "samples" / "copy.tile")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, in a process whose code counts as unchanged."""
    monkeypatch.setenv("TILEGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "code_digest", lambda: "the code")
    return tmp_path / "cache"


def test_a_second_build_comes_from_the_cache_says_so_and_writes_the_same_files(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    assert re.search(
        r"^time: compiled in \d+\.\d\d s, of which NVRTC", tilegen("build", COPY, "-o", first).stdout, re.M
    )
    assert re.search(r"^time: from the cache in \d+\.\d\d s$", tilegen("build", COPY, "-o", second).stdout, re.M)
    assert "time: compiled in" in tilegen("build", COPY, "-o", third, "--no-cache").stdout
    written = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (first, second, third)]
    assert len(written[0]) == 6
    assert written[0] == written[1] == written[2]


def test_every_command_that_compiles_uses_the_cache(place: Path) -> None:
    assert "compiled in" in tilegen("check", COPY).stdout
    assert "from the cache in" in tilegen("check", COPY).stdout
    assert "from the cache in" in tilegen("inspect", COPY).stdout
    assert "from the cache in" in tilegen("run", COPY, "--emulate").stdout
    assert len(list(place.glob("*.kernel"))) == 1
    for command in (["check"], ["inspect"], ["run", "--emulate"]):
        assert "compiled in" in tilegen(*command, COPY, "--no-cache").stdout


def test_nothing_is_kept_without_the_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tilegen("check", COPY, "--no-cache")
    monkeypatch.setenv("TILEGEN_CACHE", "off")
    tilegen("check", COPY)
    assert not list(place.glob("*.kernel"))
    assert tilegen("cache").stdout == "the cache is off (TILEGEN_CACHE=off)\n"


def test_cache_shows_what_is_there_and_clears_it(place: Path) -> None:
    assert tilegen("cache").stdout == f"{place}: 0 kernels, 0.0 MiB of at most 256\n"
    tilegen("check", COPY)
    assert re.fullmatch(rf"{place}: 1 kernel, 0\.\d MiB of at most 256\n", tilegen("cache", "info").stdout)
    assert re.fullmatch(rf"{place}: removed 1 kernel, 0\.\d MiB\n", tilegen("cache", "clear").stdout)
    assert list(place.iterdir()) == []
    assert "compiled in" in tilegen("check", COPY).stdout


def test_a_cache_that_is_no_folder_is_told_in_words(place: Path) -> None:
    place.write_text("a file")
    result = tilegen("cache", "clear")
    assert result.exit_code == 2
    assert "CACHE_UNREADABLE" in result.stderr
    assert place.read_text() == "a file"


def test_help_loads_neither_the_compiler_nor_numpy() -> None:
    code = (
        "import sys\n"
        "from tilegen.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'lark', 'jinja2', 'cuda', 'tilegen.ir.plan', 'tilegen.passes'}\n"
        "heavy |= {'tilegen.diagnostics.entries'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded []\n")


@pytest.mark.slow
def test_a_build_from_the_cache_in_a_fresh_process_is_quick(place: Path, tmp_path: Path) -> None:
    code = "from tilegen.runtime import cache\ncache.code_digest = lambda: 'the code'\n"
    code += "from tilegen.cli.main import main\nmain()\n"
    command = [sys.executable, "-c", code, "build", "samples/fa3_fwd.tile", "-o", str(tmp_path / "out")]
    environment = {**os.environ, "TILEGEN_CACHE": str(place)}
    for _ in range(2):  # the first fills the cache
        before = os.times()
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        after = os.times()
    assert "from the cache in" in done.stdout
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    assert spent < 1.0  # s of CPU, several times what it takes: a compiler that is loaded needlessly shows
