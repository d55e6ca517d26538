"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.cli.main import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks in a language."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
    return [text for name, text in every if name == language]


def shape(text: str) -> list[str]:
    """Its lines with numbers of errors and times, which move between versions, taken out."""
    measured = re.sub(r"\d+\.\d+(e-\d+)?(?= s\b| |$)", "#", text, flags=re.M)
    return [re.sub(r" +", " ", line).strip() for line in measured.strip().splitlines()]


def test_the_first_command_prints_what_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = blocks("sh")[0].strip().rsplit(".venv/bin/tilegen ", 1)[1].split()
    result = CliRunner().invoke(main, [*command, "--emulate", "--no-cache"])
    assert result.exit_code == 0, result.output
    printed = result.stdout.replace("in the emulator, random", "in the emulator: no Hopper GPU here, random")
    assert shape(printed) == shape(blocks("")[0])


def test_the_spec_shown_is_the_sample() -> None:
    sample = (ROOT / "samples" / "fa3_fwd.tile").read_text(encoding="utf-8")
    without_comments = re.sub(r" *#.*", "", sample)
    start, end = without_comments.index("kernel"), without_comments.index("  schedule")
    assert blocks("tile")[0] == without_comments[start:end].rstrip() + "\n}\n"


def test_every_command_is_listed_with_options_that_exist() -> None:
    rows = re.findall(r"^\| `tilegen (\w+) ([^|]*(?:\\\|[^|]*)*)` \|", README, re.M)
    assert [name for name, _ in rows] == ["build", "check", "run", "inspect", "cache"]
    for name, usage in rows:
        help_text = CliRunner().invoke(main, [name, "--help"]).stdout
        for option in re.findall(r"(?<![\w-])(--\w+|-\w)\b", usage):
            assert re.search(rf"^  .*{option}\b", help_text, re.M), f"{name} has no {option}"


def test_every_sample_kind_named_has_a_sample() -> None:
    for path in re.findall(r"\]\(([\w./]+)\)", README):
        assert (ROOT / path).exists(), path
