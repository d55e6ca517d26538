"""What runs beside what when a spec is compiled, and what is loaded before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from tests.runtime.test_compile import COPY
from tilegen.checks import trials
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.runtime import compiler
from tilegen.sema.loading import load
from tilegen.syntax.span import Source


@pytest.fixture
def program() -> TileProgram:
    return load(Source("copy.tile", COPY), {})


@pytest.fixture
def plan() -> Plan:
    return compiler.plan_spec(Source("copy.tile", COPY), {}, "hopper")[1][0]


def test_the_trial_runs_begin_beside_nvrtc_once_it_has_begun(
    plan: Plan, program: TileProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    checked = Event()
    real = compiler.assemble

    def assemble(plan: Plan, cuda: str, stem: str, begun: Callable[[], None]) -> Any:
        def called() -> None:
            order.append("NVRTC")
            begun()
            assert checked.wait(60)  # they do not wait for it to end

        return real(plan, cuda, stem, called)

    def check_all(plan: Plan, shown: bool) -> list[Diagnostic]:
        order.append("trial runs")
        checked.set()
        return []

    monkeypatch.setattr(compiler, "assemble", assemble)
    monkeypatch.setattr(trials, "check_all", check_all)
    assert compiler.compile_plan(plan, "twice", program).cubin[:4] == b"\x7fELF"
    assert order == ["NVRTC", "trial runs"]


def test_what_fails_before_nvrtc_begins_is_raised(
    plan: Plan, program: TileProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "assemble", lambda *_: fail(Code.NVRTC_MISSING, None, reason="it is not there"))
    with pytest.raises(TilegenError, match="NVRTC_MISSING"):
        compiler.compile_plan(plan, "twice", program)


def test_nvrtc_begins_before_what_it_needs_not_is_loaded() -> None:
    code = f"""
import os, sys
from tilegen.syntax.span import Source
from tilegen.runtime.compilation import compile_source
from tilegen.targets.hopper import nvrtc

def began(*_):
    print(*sorted({{"numpy", "ml_dtypes", "cuda", "tilegen.checks.trials", "tilegen.oracle", "rich"}} & set(sys.modules)), flush=True)
    print("began", flush=True)
    os._exit(0)

nvrtc.compile_program = began
compile_source(Source("copy.tile", {COPY!r}), {{}}, use_cache=False)
"""  # noqa: E501
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "began"]
