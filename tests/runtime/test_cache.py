"""The compile cache: it gives what compiling gives, its keys tell compilations apart, broken entries are rebuilt."""

from __future__ import annotations

import _ctypes
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen import disk
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.runtime import cache, compiler, entry
from tilegen.runtime.compilation import Compilation, compile_source
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source
from tilegen.targets.hopper import tools

ROOT = Path(__file__).parents[2]
COPY = read_source(ROOT / "samples" / "copy.tile")
FA3 = read_source(ROOT / "samples" / "fa3_fwd.tile")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TILEGEN_CACHE", str(folder))
    return folder


@pytest.fixture
def whole_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's code counts as unchanged since it was loaded, whoever edits it while the tests run."""
    monkeypatch.setattr(cache, "code_digest", lambda: "the code")


pytestmark = pytest.mark.usefixtures("whole_code")


@pytest.fixture(scope="module")
def compiled() -> Compilation:
    return compile_source(COPY, {}, use_cache=False)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, compiled: Compilation) -> list[Source]:
    """What was compiled and did not come from the cache; nothing takes the time to be compiled in truth."""
    sources: list[Source] = []

    def plan_spec(source: Source, params: object, target: str) -> tuple[Any, Any]:
        sources.append(source)
        return compiled.program, compiled.plans

    monkeypatch.setattr(compiler, "plan_spec", plan_spec)
    monkeypatch.setattr(compiler, "compile_plan", lambda plan, stem, program: compiled.variants[0].built)
    return sources


def only_entry(place: Path) -> Path:
    (path,) = place.iterdir()
    return path


def same(one: Compilation, other: Compilation) -> bool:
    built = [[v.built for v in each.variants] for each in (one, other)]
    return (one.title, one.program, one.plans) == (other.title, other.program, other.plans) and built[0] == built[1]


# ---- what comes from the cache -------------------------------------------------------------------


def test_the_cache_gives_back_all_of_a_compilation(place: Path) -> None:
    first = compile_source(FA3, {"D": 64, "causal": True, "T": "f16"})
    second = compile_source(FA3, {"D": "64", "causal": "true", "T": DType.F16})
    assert (first.cached, second.cached) == (False, True)
    assert same(first, second)
    assert first.title == "fa3_fwd T=f16 D=64 causal=true"
    assert second.variants[0].cubin.startswith(b"\x7fELF")


def test_a_kernel_from_the_cache_computes(place: Path) -> None:
    tilegen.compile(COPY.text)
    kernel = compile_source(Source("<text>", COPY.text), {})
    assert kernel.cached
    dtype = kernel.plans[0].tensors[0].dtype.numpy
    x = np.random.default_rng(1).standard_normal((70, 128)).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(tilegen.compile(COPY.text)(X=x), x)
    assert len(list(place.iterdir())) == 1


def test_without_the_cache_nothing_is_read_or_written(
    place: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[Source]
) -> None:
    assert not compile_source(COPY, {}, use_cache=False).cached
    assert not place.exists()
    compile_source(COPY, {})
    assert not compile_source(COPY, {}, use_cache=False).cached
    monkeypatch.setenv("TILEGEN_CACHE", "off")
    assert not compile_source(COPY, {}).cached
    assert len(compilations) == 4


def test_what_fails_is_not_kept(place: Path) -> None:
    broken = Source("broken.tile", COPY.text.replace("kernel", "kernle", 1))
    for _ in range(2):
        with pytest.raises(TilegenError):
            compile_source(broken, {})
    assert not place.exists()


def test_the_default_place_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TILEGEN_CACHE", raising=False)
    assert disk.folder() == tmp_path / "tilegen"
    monkeypatch.setenv("TILEGEN_CACHE", "OFF")
    assert disk.folder() is None


# ---- keys ----------------------------------------------------------------------------------------


def key(source: Source = COPY, target: str = "hopper", **params: Any) -> str:
    made = cache.key_of(source, params, target)
    assert made is not None
    return made


def test_a_value_and_its_spelling_are_one_key() -> None:
    assert key(D=64, c=True, x=0.5, T=DType.BF16) == key(T="bf16", x="0.5", c="true", D="64")


@pytest.mark.parametrize(
    "other",
    [
        lambda: key(replace(COPY, text=COPY.text + " ")),
        lambda: key(replace(COPY, name="elsewhere/copy.tile")),
        lambda: key(D=64),
        lambda: key(D=64.0),
        lambda: key(D=128),
        lambda: key(D=True),
        lambda: key(E=64),
        lambda: key(target="blackwell"),
    ],
)
def test_what_differs_has_another_key(other: Callable[[], str]) -> None:
    keys = {key(), key(D=64), key(D=64.0), key(D=128), key(D=True), key(E=64)}
    assert len(keys) == 6
    assert other() != key()


def test_the_tools_and_the_code_are_in_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = {key()}
    for name in ("nvrtc_library", "nvdisasm"):
        tool = tmp_path / name
        tool.write_text("another")
        with monkeypatch.context() as patch:
            patch.setattr(cache, name, lambda tool=tool: tool)
            keys.add(key())
            tool.write_text("another version")
            keys.add(key())
            patch.setattr(cache, name, lambda: None)
            keys.add(key())
    monkeypatch.setattr(cache, "code_digest", lambda: "other code")
    keys.add(key())
    monkeypatch.setattr(cache, "VERSION", "0.0.0")
    keys.add(key())
    assert len(keys) == 9


def test_a_value_that_no_parameter_can_have_is_not_looked_up() -> None:
    assert cache.key_of(COPY, {"D": np.float64(0.5)}, "hopper") is None


def test_an_nvrtc_that_is_loaded_already_is_the_one_in_the_key(tmp_path: Path) -> None:
    assert tools.nvrtc_library() is not None  # the wheel's
    library = tmp_path / "libnvrtc.so.13"
    shutil.copy(_ctypes.__file__, library)  # any library will do
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); from tilegen.targets.hopper import tools; "
    code += "print(tools.nvrtc_library())"
    done = subprocess.run([sys.executable, "-c", code, library], capture_output=True, text=True, check=True, cwd=ROOT)
    assert Path(done.stdout.strip()) == library


def test_code_changed_after_it_was_loaded_switches_the_cache_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()  # the fixture that says that code never changes
    old = tmp_path / "old.py"
    old.write_text("x = 1\n")
    stat = old.stat()
    monkeypatch.setattr(cache, "_files", lambda: ((str(old), stat.st_size, stat.st_ctime_ns),))
    monkeypatch.setattr(cache, "LOADED_NS", stat.st_ctime_ns + 10**9)
    digest = cache.code_digest()
    assert digest is not None
    monkeypatch.setattr(cache, "LOADED_NS", stat.st_ctime_ns - 10**9)
    assert cache.code_digest() is None
    assert cache.key_of(COPY, {}, "hopper") is None


def test_the_digest_is_of_the_contents_of_code_grammar_and_templates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    names = {Path(path).relative_to(ROOT).as_posix() for path, _, _ in cache._files()}
    assert {"grammar/tile.lark", "templates/hopper/kernel.cu.j2", "tilegen/version.py"} <= names
    assert {"tilegen/passes/pipeline.py", "tilegen/targets/hopper/nvrtc.py", "tilegen/runtime/entry.py"} <= names
    assert not any(name.startswith(("tilegen/cli", "tilegen/oracle", "tilegen/emulate")) for name in names)

    file = tmp_path / "a.py"
    digests = []
    for text, time in (("x = 1\n", 1), ("x = 2\n", 2), ("x = 1\n", 3)):
        file.write_text(text)
        digests.append(cache._digest(((str(file), len(text), time),)))
    assert digests[0] == digests[2] != digests[1]


def test_code_that_changes_while_compiling_is_not_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[Source]
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr(cache, "code_digest", lambda: next(digests))
    assert not compile_source(COPY, {}).cached
    assert not place.exists()


# ---- broken entries ------------------------------------------------------------------------------


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _resealed(path: Path, body: bytes) -> bytes:
    """An entry whose checksum is right."""
    return disk._MAGIC + disk._checksum(path.stem, body) + body


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, data: b"",
        lambda path, data: data[:10],
        lambda path, data: data[: len(data) // 2],
        lambda path, data: data + b"x",
        lambda path, data: _flipped(data, 3),
        lambda path, data: _flipped(data, 20),
        lambda path, data: _flipped(data, len(data) // 2),
        lambda path, data: _flipped(data, len(data) - 1),
        lambda path, data: os.urandom(len(data)),
        lambda path, data: _resealed(path, b"no zlib"),
        lambda path, data: _resealed(path, zlib.compress(b"{}")),
        lambda path, data: _resealed(path, zlib.compress(b"[1, 2]")),
        lambda path, data: disk._MAGIC + disk._checksum("another key", data[48:]) + data[48:],
    ],
)
def test_a_broken_entry_is_rebuilt(
    place: Path, compilations: list[Source], compiled: Compilation, damage: Callable[[Path, bytes], bytes]
) -> None:
    compile_source(COPY, {})
    path = only_entry(place)
    whole = path.read_bytes()
    path.write_bytes(damage(path, whole))
    rebuilt = compile_source(COPY, {})
    assert not rebuilt.cached
    assert same(rebuilt, compiled)
    assert only_entry(place).read_bytes() == whole
    assert compile_source(COPY, {}).cached
    assert len(compilations) == 2


def test_an_entry_under_another_name_is_not_taken(place: Path, compilations: list[Source]) -> None:
    compile_source(COPY, {})
    path = only_entry(place)
    path.rename(path.with_stem(cache.key_of(FA3, {}, "hopper") or ""))
    assert not compile_source(FA3, {}).cached


def test_a_plan_of_another_form_is_no_entry(compiled: Compilation) -> None:
    built = compiled.variants[0].built
    value = json.loads(zlib.decompress(entry.encode(compiled.title, compiled.program, compiled.plans, built)))
    assert entry.decode(zlib.compress(json.dumps(value).encode())) is not None
    for name in value:
        less = {k: v for k, v in value.items() if k != name}
        assert entry.decode(zlib.compress(json.dumps(less).encode())) is None, name
    made = json.loads(zlib.decompress(entry.encode_built(built)))
    assert made == value["built"]
    wrong = [{k: v for k, v in made.items() if k != name} for name in made]
    for broken in (*wrong, {**made, "notes": 5}, {**made, "nvrtc_version": 13}):
        assert entry.decode_built(zlib.compress(json.dumps(broken).encode()), built.plan) is None
        assert entry.decode(zlib.compress(json.dumps({**value, "built": broken}).encode())) is None
    assert entry.decode(zlib.compress(json.dumps({**value, "plans": ["{}"]}).encode())) is None


# ---- a folder that resists, and several processes ------------------------------------------------


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[Source]
) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    for place in (file, file / "below"):
        monkeypatch.setenv("TILEGEN_CACHE", str(place))
        assert not compile_source(COPY, {}).cached
    assert file.read_text() == "no folder"


def test_an_interrupted_write_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        disk.write(place, "k", b"body")
    assert list(place.iterdir()) == []


_WRITER = """
import sys
from pathlib import Path
from tilegen import disk
place, seed = Path(sys.argv[1]), int(sys.argv[2])
disk.LIMIT = disk._KEPT = 300_000
for turn in range(40):
    key = f"key{(turn + seed) % 5}"
    body = key.encode() * 20_000
    found = disk.read(place, key)
    assert found is None or found == body
    disk.write(place, key, body)
"""


def test_processes_that_write_and_prune_together_see_whole_entries_or_none(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    running = [subprocess.Popen([*command, str(seed)], cwd=ROOT, stderr=subprocess.PIPE) for seed in range(4)]
    for process in running:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told.decode()
    left = list(tmp_path.iterdir())
    assert left
    for path in left:
        assert disk.read(tmp_path, path.stem) == path.stem.encode() * 20_000


def test_processes_that_compile_the_same_spec_at_once_agree(place: Path) -> None:
    code = "import hashlib, tilegen; print(hashlib.sha256(tilegen.compile('samples/copy.tile').cubin).hexdigest())"
    running = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    told = [process.communicate(timeout=100) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], told
    assert len({out for out, _ in told}) == 1


def test_a_kernel_from_the_cache_needs_neither_the_compiler_nor_numpy(place: Path, compilations: list[Source]) -> None:
    compile_source(COPY, {})
    code = (
        "import sys\n"
        "from tilegen.runtime import cache\n"
        "cache.code_digest = lambda: 'the code'\n"
        "from tilegen.runtime.compilation import compile_source\n"
        "from tilegen.syntax.reading import read_source\n"
        f"done = compile_source(read_source({COPY.name!r}), {{}})\n"
        "assert done.cached and done.variants[0].cubin\n"
        "heavy = {'numpy', 'ml_dtypes', 'lark', 'jinja2', 'cuda', 'tilegen.sema', 'tilegen.passes', 'tilegen.checks'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


# ---- size ----------------------------------------------------------------------------------------


def test_the_entries_used_last_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LIMIT", 4000)
    monkeypatch.setattr(disk, "_KEPT", 3000)
    for age, name in enumerate("abc"):
        disk.write(tmp_path, name, bytes(1200))
        os.utime(tmp_path / f"{name}.kernel", (1000 + age, 1000 + age))
    assert disk.read(tmp_path, "a") == bytes(1200)  # now the newest
    disk.write(tmp_path, "d", bytes(1200))
    assert {path.stem for path in tmp_path.iterdir()} == {"a", "d"}


def test_only_the_caches_own_files_are_ever_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    abandoned = tmp_path / "x.part"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (1000, 1000))
    fresh = tmp_path / "y.part"
    fresh.write_bytes(b"another process is writing this")
    disk.write(tmp_path, "a", b"body")
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt", "a.kernel", "y.part"}
    assert disk.contents(tmp_path).kernels == 1
    removed = disk.clear(tmp_path)
    assert (removed.kernels, removed.bytes) == (1, len(disk._MAGIC) + 32 + 4)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert disk.contents(tmp_path / "missing") == disk.Contents(0, 0)
