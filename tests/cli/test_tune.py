"""`tilegen tune`: what it tries, prints and keeps; and the commands that build with what was kept."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import fails, tilegen
from tilegen.bench.builds import Request, compile_one
from tilegen.bench.rounds import Sample
from tilegen.cli import tune
from tilegen.runtime import cache, driver
from tilegen.runtime.driver import DeviceInfo
from tilegen.sema.loading import load
from tilegen.tune import search, store
from tilegen.tune.halving import LostError, Turn

ROOT = Path(__file__).parents[2]
COPY = ROOT / "samples" / "copy.tile"
H200 = DeviceInfo(0, "NVIDIA H200", (13, 0), (9, 0), 132)


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEGEN_TUNED", str(tmp_path / "kept"))
    monkeypatch.setattr(cache, "code_digest", lambda: "the code")
    return tmp_path / "kept"


class Bench:
    """A GPU on which the second build is twice as fast as the first and the third is wrong."""

    def __init__(self, case: search.Case, seed: int) -> None:
        self.builds: list[str] = []

    def check(self, build: str) -> float:
        if len(self.builds) == 2:
            raise LostError(f"{search.WRONG}: Y is off")
        self.builds.append(build)
        return 1e-7 * (len(self.builds) - 1)

    def measure(self, build: str, turn: Turn) -> Sample:
        return Sample(2.0 - self.builds.index(build))

    def close(self) -> None:
        pass


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(requests: Iterable[Request], folder: Path, *_: float | None) -> Iterator[tuple[Request, Path]]:
        for number, request in enumerate(requests):
            (folder / f"{number}.build").write_bytes(pickle.dumps(compile_one(request)))
            yield request, folder / f"{number}.build"

    monkeypatch.setattr(search, "compile_each", here)  # processes would take longer to start
    monkeypatch.setattr(tune, "gpu", lambda: H200)
    monkeypatch.setattr(search, "Bench", Bench)
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(driver, "device_info", lambda index=0: H200)


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "gpu", lambda: None)
    result = tilegen("tune", COPY)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "there is no Hopper GPU here to time schedules on" in result.stderr.splitlines()[0]
    assert "--no-device times none" in tilegen("tune", COPY, "--no-device", "--write").stderr


def test_without_a_device_it_lists_what_would_be_timed(tmp_path: Path, kept: Path) -> None:
    file = tmp_path / "out" / "found.json"
    result = tilegen("tune", COPY, "--no-device", "--budget", 3, "--size", "M=512,N=256", "--json", file)
    assert result.exit_code == 0, result.output
    assert "M=512, N=256" in result.stdout
    assert re.search(r"^ *\d+  own *$", result.stdout, re.M)
    assert "3 schedules compile as planned and would be timed" in result.stdout
    assert re.search(r"^compiling: 3 in \d+\.\d s", result.stderr, re.M)
    found = json.loads(file.read_text())
    assert [s["outcome"] for s in found["schedules"]] == ["ready"] * 3
    assert found["schedules"][0]["schedule"] == "block i 128, j 64  consumers 2 over i"
    assert found["sizes"] == {"M": 512, "N": 256}
    assert not kept.exists()


@pytest.mark.usefixtures("on_gpu")
def test_the_fastest_is_kept_printed_and_built_with(tmp_path: Path, kept: Path) -> None:
    file = tmp_path / "found.json"
    file.symlink_to(tmp_path / "elsewhere.json")  # which is written through, as by every command
    result = tilegen("tune", COPY, "--budget", 3, "--size", "M=512,N=256", "--write", "--json", file)
    assert result.exit_code == 0, result.output
    assert file.is_symlink()
    assert re.search(r"^1 +1000\.0 +2\.000 \(2\.000–2\.000\) +5 +1e-07 +\S", result.stdout, re.M)
    assert re.search(r"^2 +2000\.0 +1\.000 \(1\.000–1\.000\) +5 +0e\+00 +own *$", result.stdout, re.M)
    assert "another result 1" in result.stdout
    found = json.loads(file.read_text())
    assert [s["outcome"] for s in found["schedules"]] == ["timed", "timed", search.WRONG]
    assert found["schedules"][0]["times_as_fast"]["median"] == 2.0
    assert found["schedules"][2]["why"] == "Y is off"

    head = r"^  schedule hopper if T == bf16 and M <= 512 and N <= 256 \{\n"
    pasted = re.search(head + r"(.*?)\n  \}$", result.stdout, re.M | re.S)
    assert pasted is not None
    (path, entry), *others = store.everything()
    assert others == []
    assert f"kept in {path}" in result.stdout
    assert entry.schedule.split() == pasted[1].split()
    assert (entry.params, entry.defaults, entry.ratio) == ({"T": "bf16"}, {"T": "bf16"}, 2.0)

    built = tilegen("build", COPY, "--tuned", "--size", "M=300", "-o", tmp_path / "tuned")
    assert f"tuned schedule of copy T=bf16 at M=512,N=256: {entry.schedule}" in built.stderr
    tilegen("build", COPY, "-o", tmp_path / "own")
    assert (tmp_path / "own" / "copy.cu").read_text() != (tmp_path / "tuned" / "copy.1.cu").read_text()
    assert (tmp_path / "tuned" / "copy.2.cu").exists()  # the own schedule, for other sizes
    other = tilegen("check", COPY, "--tuned", "-D", "T=f16")
    assert "no tuned schedule is kept for this spec, GPU and tilegen: its own is taken" in other.stderr

    listed = tilegen("tune", "--list").stdout
    assert "copy T=bf16 at M=512,N=256" in listed
    assert entry.schedule in listed
    assert tilegen("tune", "--forget", "gemm").stdout == f"{kept}: removed 0\n"
    assert tilegen("tune", "--forget", "copy").stdout == f"{kept}: removed 1\n"
    assert tilegen("tune", "--list").stdout == f"{kept}: no schedules are kept\n"


def test_sizes_of_a_build_choose_among_tuned_schedules_alone() -> None:
    result = tilegen("build", COPY, "--size", "M=3")
    assert result.exit_code == 2
    assert "--tuned with it" in result.stderr


@pytest.mark.parametrize("command", [("--list",), ("--forget", "all")])
def test_a_store_that_is_no_folder_is_told_in_words(command: tuple[str, ...], kept: Path) -> None:
    kept.write_text("a file")
    result = tilegen("tune", *command)
    assert result.exit_code == 0
    assert "kept" in result.stdout


@pytest.mark.parametrize(
    ("words", "other"), [(("--list", "--json", "found.json"), "--json"), (("--write", "--forget", "all"), "--write")]
)
def test_what_shows_the_store_goes_alone(words: tuple[str, ...], other: str, kept: Path) -> None:
    said = fails(2, "tune", *words)
    assert "goes alone" in said
    assert f"got:    {other}\n" in said
    assert not kept.exists()


@pytest.mark.usefixtures("on_gpu")
def test_nothing_that_runs_is_a_failure_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: Bench, build: str) -> float:
        raise LostError(f"{search.BROKEN}: it hangs")

    monkeypatch.setattr(Bench, "check", lost)
    result = tilegen("tune", COPY, "--budget", 1)
    assert result.exit_code == 1
    assert "error[TUNE_FAILED]: no schedule of copy could be timed: it hangs" in result.stderr


def test_the_own_schedule_wins_where_none_is_faster_every_time() -> None:
    found = search.Search(None)  # type: ignore[arg-type]

    def tried(name: str, own: bool) -> search.Tried:
        candidate: Any = type("C", (), {"own": own, "told": name})()
        return search.Tried(candidate, build=name)

    found.tried = [tried("own", True), tried("other", False)]

    def standing(times: list[float]) -> None:
        found.standing = search.Standing(against="own", rounds=len(times), full=set(range(len(times))))
        found.standing.samples = {
            "own": [Sample(1.0, round=n) for n in range(len(times))],
            "other": [Sample(t, round=n) for n, t in enumerate(times)],
        }

    standing([0.9, 0.9, 1.01])
    assert found.timed()[0].build == "other"
    assert (winner := tune.best(found)) and winner.build == "own"
    standing([0.9, 0.9, 0.99])
    assert (winner := tune.best(found)) and winner.build == "other"
    standing([0.9, 0.9])
    assert tune.best(found) is None


def test_the_condition_names_what_it_was_found_for() -> None:
    from tilegen.tune.results import condition
    from tilegen.tune.space import space_of

    program = load(ROOT / "samples" / "fa3_fwd.tile", {"causal": True})
    sizes: dict[str, int | list[int]] = {"B": 2, "Sq": 5000, "Sk": 8192, "Hk": 8, "G": 2}
    case = search.Case(program.source, {}, program, sizes, {})
    assert condition(case, search.Search(space_of(program))) == (
        "T == bf16 and D == 128 and causal and Sq <= 8192 and Sk <= 8192"
    )
