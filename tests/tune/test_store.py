"""What is kept of a search: found again, told apart, and never trusted when broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen.runtime import cache, driver
from tilegen.runtime.driver import DeviceInfo
from tilegen.sema.params import defaults
from tilegen.syntax.parsing import parse
from tilegen.syntax.reading import read_source
from tilegen.syntax.span import Source
from tilegen.tune import store
from tilegen.tune.spelling import place_for_schedule
from tilegen.tune.store import Kept

ROOT = Path(__file__).parents[2]
FA3 = read_source(ROOT / "samples" / "fa3_fwd.tile")
COPY = read_source(ROOT / "samples" / "copy.tile")
H200 = "NVIDIA H200"
SIZES = {"B": 2, "Sq": 8192, "Sk": 8192, "Hk": 16, "G": 1}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEGEN_TUNED", str(tmp_path / "tuned"))
    monkeypatch.setattr(cache, "code_digest", lambda: "the code")
    return tmp_path / "tuned"


def entry(source: Source = FA3, **changes: Any) -> Kept:
    made = store.made_with()
    assert made is not None
    known = {name: store.spelt(value) for name, value in defaults(parse(source)).items()}
    kept = Kept(
        kernel="fa3_fwd", device=H200, made_with=made, text=store.text_of(source), params=dict(known), defaults=known,
        sizes=SIZES, classes={name: store.size_class(n) for name, n in SIZES.items()}, guard="Sq > 4096 and Sq <= 8192",
        schedule="block i 64  consumers 1 over i", place=place_for_schedule(source, "hopper"), ratio=1.02,
        when="2026-11-30T01:00:00+00:00",
    )  # fmt: skip
    return replace(kept, **changes)


def test_an_entry_is_found_by_parameters_and_classes_of_sizes() -> None:
    kept = entry()
    store.keep(kept)
    assert store.find(FA3, {}, SIZES, H200) == (kept,)
    assert store.find(FA3, {"D": 128, "causal": False}, {"Sq": 5000, "Sk": 8192}, H200) == (kept,)
    assert store.find(FA3, {"D": "128"}, {"scale": 1}, H200) == (kept,)
    assert store.find(FA3, {"D": 64}, SIZES, H200) == ()
    assert store.find(FA3, {"causal": True}, SIZES, H200) == ()
    assert store.find(FA3, {}, {"Sq": 4096}, H200) == ()
    assert store.find(FA3, {}, {"Sq": 8193}, H200) == ()


def test_classes_are_powers_of_two_and_lengths_count_by_the_longest() -> None:
    assert [store.size_class(n) for n in (0, 1, 2, 3, 4, 5, 4096, 4097, 8192)] == [0, 0, 1, 2, 2, 3, 12, 13, 13]
    assert store.size_class([5, 0, 130]) == store.size_class(130)
    assert store.size_class([]) == 0


def test_guards_tell_classes_apart() -> None:
    assert store.guard_of({"M": 9, "N": 0, "K": 1}) == "M > 256 and M <= 512 and N <= 1 and K > 1 and K <= 2"
    assert store.guard_of({}) == ""
    for n in (1, 2, 3, 255, 256, 257, 512, 513):
        held = [c for c in range(12) if eval(store.guard_of({"n": c}), {"n": n})]
        assert held == [store.size_class(n)]


@pytest.mark.parametrize("other", ["device", "code", "tools", "text"])
def test_another_gpu_compiler_or_text_finds_nothing(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.keep(entry())
    source, device = FA3, H200
    if other == "device":
        device = "NVIDIA H100 80GB HBM3"
    elif other == "code":
        monkeypatch.setattr(cache, "code_digest", lambda: "other code")
    elif other == "tools":
        monkeypatch.setattr(cache, "tools_in_use", lambda: ["another NVRTC"])
    else:
        source = Source(FA3.name, FA3.text + "\n")
    assert store.find(source, {}, SIZES, device) == ()


def test_nothing_is_used_while_the_code_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    store.keep(entry())
    monkeypatch.setattr(cache, "code_digest", lambda: None)
    assert store.made_with() is None
    assert store.find(FA3, {}, SIZES, H200) == ()


def test_the_newest_of_several_is_taken_and_one_for_the_same_replaced() -> None:
    older = entry(classes={**entry().classes, "Sq": 12}, guard="Sq <= 4096", when="2026-11-29T01:00:00+00:00")
    alike = entry(classes={**entry().classes, "Sk": 12}, when="2026-11-28T01:00:00+00:00")
    for each in (alike, older, entry()):
        store.keep(each)
    assert store.find(FA3, {}, {}, H200) == (entry(), older)  # launches cannot tell `alike` from the newest
    assert store.find(FA3, {}, {"Sk": 4096}, H200) == (alike,)
    assert store.find(FA3, {}, {"Sq": 4096}, H200) == (older,)
    store.keep(entry(schedule="block j 64"))
    assert store.find(FA3, {}, SIZES, H200) == (entry(schedule="block j 64"),)
    assert len(store.everything()) == 3


@pytest.mark.parametrize("damage", ["cut", "changed", "format", "no json", "not ours", "empty"])
def test_a_broken_entry_is_as_good_as_absent(damage: str, place: Path) -> None:
    path = store.keep(entry())
    text = path.read_text()
    if damage == "cut":
        path.write_text(text[: len(text) // 2])
    elif damage == "changed":
        path.write_text(text.replace("block i 64", "block i 128"))
    elif damage == "format":
        value = json.loads(text)
        path.write_text(json.dumps({**value, "format": 2}))
    elif damage == "no json":
        path.write_bytes(b"\xff\xfe")
    elif damage == "not ours":
        path.write_text("[1, 2]")
    else:
        path.write_text("")
    assert store.find(FA3, {}, SIZES, H200) == ()
    assert store.everything() == []
    store.keep(entry())
    assert store.find(FA3, {}, SIZES, H200) == (entry(),)
    assert store.forget() == 1


def test_forgetting_one_kernel_leaves_the_others(place: Path) -> None:
    store.keep(entry())
    store.keep(entry(COPY, kernel="copy"))
    assert store.forget(kernel="copy") == 1
    assert [kept.kernel for _, kept in store.everything()] == ["fa3_fwd"]
    assert store.forget() == 1
    assert store.forget() == 0
    assert list(place.iterdir()) == []


def test_processes_that_keep_at_once_leave_a_whole_entry(place: Path) -> None:
    code = (
        "import sys\n"
        "from tests.tune.test_store import entry\n"
        "from tilegen.runtime import cache\n"
        "from tilegen.tune import store\n"
        "cache.code_digest = lambda: 'the code'\n"
        "kept = entry(schedule=f'{sys.argv[1]} ' * 500)\n"
        "for n in range(100): store.keep(kept)\n"
    )
    environment = {**os.environ, "TILEGEN_TUNED": str(place)}
    running = [
        subprocess.Popen([sys.executable, "-c", code, name], cwd=ROOT, env=environment) for name in ("one", "other")
    ]
    while any(process.poll() is None for process in running):
        found = store.find(FA3, {}, SIZES, H200)
        assert not found or found[0].schedule in ("one " * 500, "other " * 500)
    assert [process.returncode for process in running] == [0, 0]
    assert len(store.find(FA3, {}, SIZES, H200)) == 1
    assert [path.suffix for path in place.iterdir()] == [".json"]


def test_a_kernel_is_compiled_with_what_is_kept_only_if_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGEN_CACHE", "off")
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(driver, "device_info", lambda index=0: DeviceInfo(0, H200, (13, 0), (9, 0), 132))
    path = ROOT / "samples" / "copy.tile"
    sizes = {"M": 512, "N": 64}
    classes = {name: store.size_class(n) for name, n in sizes.items()}
    guard = store.guard_of(classes)
    schedule = "block i 64  consumers 1 over i"
    store.keep(entry(COPY, kernel="copy", sizes=sizes, classes=classes, guard=guard, schedule=schedule))
    own, kernel = tilegen.compile(path), tilegen.compile(path, tuned=True)
    assert kernel.variant(M=400, N=64).cuda != own.cuda
    assert kernel.variant(M=513, N=64).cuda.count("\n") == own.cuda.count("\n")  # at other sizes the own one
    x = np.random.default_rng(2).standard_normal((300, 64)).astype(np.float32)
    x = (x * 4).round().astype(own.plan.tensors[0].dtype.numpy)
    np.testing.assert_array_equal(kernel(X=x), x)
    sources: list[Source] = []

    def compile_source(source: Source, given: object, target: str) -> Any:
        sources.append(source)
        return SimpleNamespace(kernel=lambda: None)

    monkeypatch.setattr("tilegen.runtime.compilation.compile_source", compile_source)
    for used in (True, {"M": 400}, sizes):
        tilegen.compile(path, tuned=used)
        put_in = f"schedule hopper if true and M > 256 and M <= 512 and N > 32 and N <= 64 {{ {schedule} }} "
        assert sources[-1].text == COPY.text.replace("schedule hopper", put_in + "schedule hopper")
    tilegen.compile(path, tuned={"M": 4096})  # nothing is kept for that class
    tilegen.compile(path, T="f16", tuned=True)
    tilegen.compile(path)
    assert [s.text for s in sources[-3:]] == [COPY.text] * 3


def test_without_a_gpu_the_own_schedule_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    store.keep(entry())
    monkeypatch.setattr(driver, "available", lambda: False)
    assert store.applied(FA3, {}, {}) == (FA3, ())
