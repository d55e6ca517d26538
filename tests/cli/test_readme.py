"""What the README shows is what happens."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tilegen.cli.main import main
from tilegen.ir.machines import MACHINES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks in a language."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
    return [text for name, text in every if name == language]


def shown(text: str) -> list[list[str | float]]:
    """Its lines word by word, numbers as numbers, times left out: they differ from run to run."""
    timeless = re.sub(r"\d+\.\d+ s\b", "# s", text)
    return [[_word(word) for word in line.split()] for line in timeless.strip().splitlines()]


def _word(word: str) -> str | float:
    try:
        return float(word)
    except ValueError:
        return word


def alike(one: list[list[str | float]], other: list[list[str | float]]) -> bool:
    """Whether all words agree, and figures to a part in a hundred: libraries round exponentials differently."""

    def same(a: str | float, b: str | float) -> bool:
        return math.isclose(a, b, rel_tol=0.01) if isinstance(a, float) and isinstance(b, float) else a == b

    return [len(line) for line in one] == [len(line) for line in other] and all(
        same(a, b) for ours, theirs in zip(one, other, strict=True) for a, b in zip(ours, theirs, strict=True)
    )


def test_the_first_command_prints_what_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = blocks("sh")[0].strip().rsplit(".venv/bin/tilegen ", 1)[1].split()
    result = CliRunner().invoke(main, [*command, "--emulate", "--no-cache"])
    assert result.exit_code == 0, result.output
    told = f"in the emulator: no {MACHINES['hopper'].words} here, random"  # where nobody asked for the emulator
    printed = result.stdout.replace("in the emulator, random", told)
    assert alike(shown(printed), shown(blocks("")[0])), printed


def test_a_figure_that_is_out_of_date_is_seen() -> None:
    sample = blocks("")[0]
    assert alike(shown(sample), shown(sample.replace(" s in the emulator", "9 s in the emulator")))
    figure = re.search(r"\d\.\d\de-03", sample)
    assert figure
    assert not alike(shown(sample), shown(sample.replace(figure[0], "9.99e-03")))


def test_the_python_shown_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)
    out, same, o = names["out"], names["same"], names["o"]
    assert out.O.shape == names["q"].shape
    assert out.LSE.shape == (1, 4, 70)
    assert np.array_equal(same.O, out.O)
    assert np.array_equal(o, out.O)  # the third call wrote into it, with the scale of the first
    assert np.isfinite(out.LSE).all()


def test_the_spec_shown_is_the_sample() -> None:
    sample = (ROOT / "samples" / "fa3_fwd.tile").read_text(encoding="utf-8")
    without_comments = re.sub(r" *#.*", "", sample)
    start, end = without_comments.index("kernel"), without_comments.index("  schedule")
    assert blocks("tile")[0] == without_comments[start:end].rstrip() + "\n}\n"


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of the README's table, and what is said to follow each."""
    return re.findall(r"^\| `tilegen (\w+) ([^|]*(?:\\\|[^|]*)*)` \|", text, re.M)


def misstated(text: str) -> list[str]:
    """What the table says of options and choices that the commands' help does not."""
    found = []
    for name, usage in commands(text):
        help_text = CliRunner().invoke(main, [name, "--help"]).stdout
        usage = usage.replace("\\|", "|")
        options = re.findall(r"(?<![\w-])(--\w+|-\w)\b", usage)
        found += [f"{name} has no {o}" for o in options if not re.search(rf"^  .*{o}\b", help_text, re.M)]
        # of an option, and of an argument of which a few words are all that it may be
        for option, choices in re.findall(r"\[(?:(--\w+) )?(\w+(?:\|\w+)+)\]", usage):
            place = rf"^  .*{option} " if option else rf"^Usage: .*{name} .*"
            if not re.search(rf"{place}\[{re.escape(choices)}\]", help_text, re.M):
                found.append(f"{name} {option} is not of {choices}".replace("  ", " "))
    return found


def test_every_command_is_listed_with_options_that_exist() -> None:
    rows = commands(README)
    assert [name for name, _ in rows] == [
        "build",
        "check",
        "run",
        "inspect",
        "explain",
        "cost",
        "bench",
        "tune",
        "cache",
    ]
    assert {name for name, _ in rows} == set(main.commands)
    assert misstated(README) == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (r"cost SPEC [-D …] [--target hopper\|sm_80]", "cost --target is not of hopper|sm_80"),
        (r"run SPEC [--target hopper\|sm_80]", "run --target is not of hopper|sm_80"),
        (r"run SPEC [--seed 0\|1]", "run --seed is not of 0|1"),
        (r"run SPEC [--sed N]", "run has no --sed"),
        (r"cache [info\|empty]", "cache is not of info|empty"),
        (r"build SPEC [--target hopper\|sm_80\|mls] [-o DIR]", ""),
    ],
)
def test_choices_that_a_command_does_not_have_are_seen(row: str, fault: str) -> None:
    assert misstated(f"| `tilegen {row}` | does something |") == ([fault] if fault else [])


def test_every_sample_kind_named_has_a_sample() -> None:
    for path in re.findall(r"\]\(([\w./]+)\)", README):
        assert (ROOT / path).exists(), path


def test_the_speeds_shown_are_those_of_the_record() -> None:
    record = re.search(r"\[lengths above\]\(([\w/-]+)\.md\)", README)
    assert record
    cells = json.loads((ROOT / f"{record[1]}.json").read_text(encoding="utf-8"))["cells"]
    measured = {(c["workload"]["D"], c["workload"]["S"], c["workload"]["causal"]): c["providers"] for c in cells}
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \(([\d.]+)\) \| (\d+) \(([\d.]+)\) \|$", README, re.M)
    assert len(rows) * 2 == len(measured) == 30
    for d, s, *figures in rows:
        for causal, speed, ratio in ((False, *figures[:2]), (True, *figures[2:])):
            providers = measured[int(d), int(s), causal]
            assert speed == f"{providers['tilegen']['tflops']:.0f}"
            assert ratio == f"{providers['cuDNN']['ours_over_it']['median']:.2f}"


def test_the_products_shown_are_those_of_the_record() -> None:
    record = re.search(r"\[products against cuBLAS\]\(([\w/-]+)\.md\)", README)
    assert record
    cells = json.loads((ROOT / f"{record[1]}.json").read_text(encoding="utf-8"))["cells"]
    shown = re.findall(r"^\| (\d+) x (\d+) x (\d+) \| (\d+) \(([\d.]+)\) \|$", README, re.M)
    assert len(shown) == len(cells) == 2
    for row, cell in zip(shown, cells, strict=True):
        p = cell["providers"]
        figures = (f"{p['tilegen']['tflops']:.0f}", f"{p['cuBLAS']['ours_over_it']['median']:.2f}")
        assert row == (*(str(cell["workload"][n]) for n in "MNK"), *figures)


def test_the_other_forms_shown_are_those_of_the_record() -> None:
    record = re.search(r"\[other forms\]\(([\w/-]+)\.md\)", README)
    assert record
    cells = json.loads((ROOT / f"{record[1]}.json").read_text(encoding="utf-8"))["cells"]
    measured = {}
    for cell in cells:
        ours, plain = cell["providers"]["tilegen"], cell["providers"]["plain"]["ours_over_it"]["median"]
        name = cell["workload"].get("name", "ragged")
        measured[name, cell["workload"]["causal"]] = f"{ours['tflops']:.0f} ({plain:.2f})"
    shown = {}
    for name, full, causal in re.findall(
        r"^\| (window|ragged|alibi|softcap)\b[^|]*\|([^|]*)\|([^|]*)\|$", README, re.M
    ):
        shown |= {(name, False): full.strip(), (name, True): causal.strip()}
    assert {key: text for key, text in shown.items() if text} == measured
