"""What happens in the process with the GPU, with the emulator in the GPU's place; and that process's end and return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilegen.bench.builds import Request, compile_one
from tilegen.bench.gpu_worker import CallFailedError, WorkerDiedError
from tilegen.bench.rounds import Sample
from tilegen.diagnostics.core import TilegenError
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.tune import device, search
from tilegen.tune.device import Wanted
from tilegen.tune.halving import FIRST, LostError
from tilegen.tune.loops import spills_in_loops
from tilegen.tune.search import BROKEN, SPILLS, WRONG, Bench, Case

COPY = read_source(Path(__file__).parents[2] / "samples" / "copy.tile")


class HostArray(np.ndarray[Any, Any]):
    """An array in CPU memory in place of one on the GPU: kernels then run in the emulator."""

    def __new__(cls, host: Any) -> HostArray:
        return np.array(host).view(cls)  # type: ignore[no-any-return]

    def write(self, host: Any) -> None:
        self[...] = host

    def numpy(self) -> Any:
        return np.array(self)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(device, "DeviceArray", HostArray)
    monkeypatch.setattr(device, "finish", lambda what, limit: None)
    monkeypatch.setattr(device.machine, "reader", lambda: lambda: (1500, 600.0))
    device.begin(COPY, {"T": "f32"}, {"M": 37, "N": 48}, {}, 5)
    yield
    device._CASE.clear()


def launches(monkeypatch: pytest.MonkeyPatch, **made: Any) -> None:
    """Builds by name: each a function of the case's arrays that writes Y."""
    monkeypatch.setattr(device, "read", lambda name: Build(made[name]))


class Build:
    def __init__(self, made: Any) -> None:
        self.made = made

    def kernel(self) -> Build:
        return self

    def prepare(self, *, X: Any, Y: Any, M: int, N: int) -> Any:
        assert (M, N) == (37, 48)
        return lambda: self.made(X, Y)


def right(x: Any, y: Any) -> None:
    y[...] = x


def nearly(x: Any, y: Any) -> None:
    y[...] = x * (1 + 1e-6)


def off(x: Any, y: Any) -> None:
    y[...] = x * 1.01


def half(x: Any, y: Any) -> None:
    y[:20] = x[:20]


def nothing(x: Any, y: Any) -> None:
    pass


@pytest.mark.usefixtures("case")
def test_results_are_held_against_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    launches(monkeypatch, right=right, nearly=nearly, off=off, half=half, nothing=nothing)
    assert device.check("right", 1.0) == 0.0
    assert 0 < device.check("nearly", 1.0) < 1e-5
    with pytest.raises(AssertionError, match=r"Y is off by 1.0e-02 of its norm"):
        device.check("off", 1.0)
    with pytest.raises(AssertionError, match=r"Y is nan in place of .* in 816 of 1776 places"):
        device.check("half", 1.0)
    with pytest.raises(AssertionError, match="Y is nan"):
        device.check("nothing", 1.0)


@pytest.mark.usefixtures("case")
@pytest.mark.parametrize("first", [half, nothing])
def test_a_first_one_that_leaves_places_unwritten_is_none(first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launches(monkeypatch, first=first, right=right)
    with pytest.raises(AssertionError, match="Y is not written everywhere"):
        device.check("first", 1.0)
    assert device.check("right", 1.0) == 0.0


@pytest.mark.usefixtures("case")
def test_a_real_build_is_checked_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    built = compile_one(Request(str(COPY.name), (("T", "f32"),)))
    monkeypatch.setattr(device, "read", lambda name: built)
    monkeypatch.setattr("tilegen.bench.rounds.seconds_on_gpu", lambda launch, times: [2e-3] * times)
    assert device.check("own", 1.0) == 0.0
    assert device.measure("own", 10, 20) == Sample(2.0, 1500, 600.0)
    assert [spills_in_loops(artefacts) for artefacts in built.artefacts] == [0]


def test_one_element_among_many_is_not_lost_in_the_norm() -> None:
    a = np.random.default_rng(1).standard_normal((1000, 1000)).astype(np.float32)
    b = a.copy()
    b[3, 4] += 0.05
    with pytest.raises(AssertionError, match="in 1 places"):
        device.distance("Y", b, Wanted.of(a), 1e-4, 1e-2)


def test_infinite_places_have_to_be_the_same() -> None:
    a = np.array([1.0, -np.inf, 2.0], np.float32)
    finite = np.array([1.0, 0.0, 2.0], np.float32)
    assert device.distance("LSE", a.copy(), Wanted.of(a), 1e-4, 1e-2) == 0.0
    assert device.distance("LSE", a * np.float32(1 + 1e-6), Wanted.of(a), 1e-4, 1e-2) > 0.0
    with pytest.raises(AssertionError, match="in place of -inf"):
        device.distance("LSE", finite, Wanted.of(a), 1e-4, 1e-2)
    with pytest.raises(AssertionError, match="is -inf in place of"):
        device.distance("LSE", a, Wanted.of(finite), 1e-4, 1e-2)


# ---- that process, from the other side -------------------------------------------------------------


class Worker:
    """Answers as told; logs what it was asked."""

    def __init__(self) -> None:
        self.log: list[tuple[str, ...]] = []
        self.answers: dict[str, Any] = {}

    def call(self, function: str, *args: Any, limit: float) -> Any:
        name = function.removeprefix("tilegen.tune.device:")
        asked = (name, *(str(a) for a in args[:1] if name != "begin"))
        self.log.append(asked)
        answer = self.answers.get(" ".join(asked), 0.0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.log.append(("close",))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    monkeypatch.setattr(search, "GpuWorker", lambda: made)
    return made


def bench() -> Bench:
    return Bench(Case(COPY, {}, load(COPY, {}), {"M": 37, "N": 48}, {}), 5)


def test_a_process_that_died_is_begun_again_with_the_first_result(worker: Worker) -> None:
    worker.answers = {"check hangs": WorkerDiedError("one launch did not finish within 10 s: it hangs"),
                      "measure a": Sample(1.0)}  # fmt: skip
    b = bench()
    assert b.check("a") == 0.0
    with pytest.raises(LostError, match=f"{BROKEN}: one launch did not finish"):
        b.check("hangs")
    assert b.measure("a", FIRST) == Sample(1.0)
    assert worker.log == [("begin",), ("check", "a"), ("check", "hangs"), ("begin",), ("check", "a"), ("measure", "a")]


def test_a_wrong_result_leaves_the_process_as_it_is(worker: Worker) -> None:
    worker.answers = {"check b": CallFailedError("Traceback:\n…\nY is off by 1e-2 of its norm")}
    b = bench()
    b.check("a")
    with pytest.raises(LostError, match=f"^{WRONG}: Y is off"):
        b.check("b")
    b.check("c")
    assert [asked[0] for asked in worker.log].count("begin") == 1


def test_arrays_that_cannot_be_made_end_the_search_in_words(worker: Worker) -> None:
    worker.answers = {"begin": CallFailedError("TilegenError: the GPU has no memory left")}
    with pytest.raises(TilegenError, match=r"TUNE_FAILED.*no memory left"):
        bench().check("a")


def test_a_build_that_spills_in_a_loop_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    built = compile_one(Request("kernel broken() { nonsense }"))
    assert search._judged(built)[0] == "UNKNOWN_STATEMENT"
    monkeypatch.setattr(search, "spills_in_loops", lambda artefacts: 3)
    assert search._judged(replace(built, error=None, artefacts=(object(),)))[0] == SPILLS  # type: ignore[arg-type]
