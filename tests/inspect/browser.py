"""Chromium without a window, as the distribution installs it, for tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "TILEGEN_BROWSER"  # set in CI: a browser that is missing is a failure there


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser. Without one, or without Playwright, the tests are skipped, or fail where one is required."""
    program = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("Playwright is not installed")
    if program is None:
        _missing("there is no Chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program)
        yield running
        running.close()


def _missing(what: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{what}, and {REQUIRED} says that it has to be")
    pytest.skip(what)
