"""The import order of tilegen's packages holds, and the check that says so finds what breaks it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def layers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools" / "check_layers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_layers"] = module
    spec.loader.exec_module(module)
    return module


def package(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / "tilegen" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tilegen"


def test_this_project_keeps_its_layers(layers: ModuleType) -> None:
    assert layers.check(ROOT / "tilegen") == []


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("syntax/a.py", "from tilegen.ir.plan import Plan", "tilegen.ir.plan, which is in a layer above"),
        ("syntax/a.py", "from ..ir.plan import Plan", "tilegen.ir.plan, which is in a layer above"),
        ("syntax/a.py", "import tilegen.sema", "tilegen.sema, which is in a layer above"),
        ("diagnostics/core.py", "from tilegen.syntax import ast", "tilegen.syntax, which is in a layer above"),
        ("passes/a.py", "def f():\n    from tilegen.targets import hopper", "which is in a layer above"),
        ("passes/a.py", "from tilegen import compile", "tilegen, which is in a layer above"),
        ("ir/plan.py", "from cuda.bindings import driver", "which only tilegen.targets and tilegen.runtime may know"),
        ("sema/a.py", "import lark", "which only tilegen.syntax and"),
        ("oracle/a.py", "from tilegen.passes import pipeline", "tilegen.oracle may import only"),
        ("emulate/a.py", "from tilegen.targets.hopper import emit", "tilegen.emulate may import only"),
        ("newpart/a.py", "from tilegen.ir import plan", "tilegen.newpart.a has no layer"),
    ],
)
def test_an_import_against_the_order_is_named_with_its_place(
    layers: ModuleType, tmp_path: Path, file: str, line: str, says: str
) -> None:
    found = layers.check(package(tmp_path, {file: f'"""Doc."""\n\n{line}\n'}))
    assert len(found) == 1
    place = 3 + line.count("\n")
    assert found[0].startswith(f"{tmp_path / 'tilegen' / file}:{place}: ")
    assert says in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("diagnostics/core.py", "from tilegen.syntax.span import Span"),
        ("ir/plan.py", "from tilegen.ir.dtypes import DType"),
        ("targets/hopper/build.py", "from cuda.bindings import nvrtc"),
        ("emulate/ptx/tma.py", "from tilegen.targets.hopper.tensor_map import TensorMap"),
        ("cli/main.py", "import click\nfrom tilegen import oracle, runtime"),
        ("__init__.py", "from tilegen.runtime.kernel import compile"),
        ("sema/a.py", "import tilegenerator"),
    ],
)
def test_an_import_along_the_order_is_allowed(layers: ModuleType, tmp_path: Path, file: str, line: str) -> None:
    stubs = {"oracle/__init__.py": "", "runtime/__init__.py": ""}
    assert layers.check(package(tmp_path, {**stubs, file: line})) == []


def test_the_command_exits_with_1_and_prints_the_offence(
    layers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = package(tmp_path, {"syntax/a.py": "import tilegen.cli"})
    assert layers.main([str(folder)]) == 1
    assert "a.py:1: tilegen.syntax.a imports tilegen.cli" in capsys.readouterr().out
    assert layers.main([str(ROOT / "tilegen")]) == 0
