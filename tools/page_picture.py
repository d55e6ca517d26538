"""Draws docs/inspect.png: the page of `tilegen inspect --html` for fa3_fwd, in Chromium, with a load pinned.

    python tools/page_picture.py [FILE.png]

It takes Playwright and Pillow, and a Chromium of the system's.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tilegen.cli.main import main as tilegen

ROOT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 1600, 1130
COLOURS = 64


def draw(page: Path, picture: Path) -> None:
    """The page's last variant, as it is after a click on the first load in its machine code."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        window.goto(page.as_uri())
        window.select_option("#variant", index=1)
        window.locator("#box-SASS .l", has_text="UTMALDG").first.click(position={"x": 40, "y": 8})
        window.screenshot(path=picture)
        browser.close()
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def main(arguments: list[str]) -> int:
    picture = Path(arguments[0]).resolve() if arguments else ROOT / "docs" / "inspect.png"
    os.chdir(ROOT)  # the page shows the spec's name as it is given
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "fa3_fwd.html")
        command = ["inspect", "samples/fa3_fwd.tile", "--html", str(page)]
        if tilegen.main(command, prog_name="tilegen", standalone_mode=False):
            return 1
        draw(page, picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
