"""The document check finds broken links and missing samples, and this project has none."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_docs", ROOT / "tools" / "check_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_broken_link_and_a_missing_sample_are_named_with_their_place(docs: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#x) [b](https://example.org/x)\n[c](gone.md) and `samples/gone.tile`\n")
    assert list(docs.offences(page, tmp_path)) == [
        "page.md:2: link to gone.md, which is not there",
        "page.md:2: names samples/gone.tile, which is not there",
    ]


def test_this_project_has_none(docs: ModuleType) -> None:
    assert docs.main() == 0
