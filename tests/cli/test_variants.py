"""Commands on a spec whose schedule depends on sizes: files and checks of all variants, runs of the one that fits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.test_commands import EXTENSIONS, fails, tilegen
from tests.runtime.test_variants import DOUBLE, OPEN
from tilegen.ir.plan_json import plan_from_json
from tilegen.ir.plan_text import print_plan


@pytest.fixture
def limited(tmp_path: Path) -> Path:
    """Without a schedule for some sizes."""
    path = tmp_path / "limited.tile"
    path.write_text(DOUBLE)
    return path


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "whole.tile"
    path.write_text(OPEN)
    return path


def test_build_writes_the_files_of_every_variant(limited: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = tilegen("build", limited, "-o", out)
    assert result.exit_code == 0, result.output
    wanted = {f"twofold.{n}.{extension}" for n in (1, 2) for extension in EXTENSIONS}
    assert {path.name for path in out.iterdir()} == wanted
    for n, condition in ((1, "M <= 190 and few != 7"), (2, "few >= 7")):
        text = (out / f"twofold.{n}.plan.txt").read_text()
        assert f"launched if {condition}\n" in text
        assert print_plan(plan_from_json((out / f"twofold.{n}.plan.json").read_text())) == text
        assert f'"twofold.{n}.cu"' in (out / f"twofold.{n}.ptx").read_text()  # what its lines are lines of
    assert "consumer      128" in result.stdout
    assert "consumer      256" in result.stdout
    headings = [line for line in result.stdout.splitlines() if line.startswith("variant")]
    assert headings == ["variant 1 of 2, if M <= 190 and few != 7", "variant 2 of 2, else if few >= 7"]
    assert re.search(r"^time: .*", result.stdout, re.M)


def test_a_kernel_with_one_variant_has_plain_names(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = tilegen("build", whole, "-D", "N=128", "-o", out, "--emit", "cu,ptx")
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {"twofold.cu", "twofold.ptx"}
    assert "variant 1" not in result.stdout


def test_check_checks_every_variant_and_says_what_launches_have_none(limited: Path, whole: Path) -> None:
    text = tilegen("check", limited).stdout
    assert "all checks of 2 variants passed" in text
    assert "note: no schedule is for other launches than M <= 190 and few != 7 or few >= 7\n" in text
    text = tilegen("check", whole).stdout
    assert "all checks of 2 variants passed" in text
    assert "no schedule is for" not in text
    lone = limited.with_name("lone.tile")
    lone.write_text(DOUBLE.replace("schedule hopper if few >= 7", "schedule mls"))
    text = tilegen("check", lone).stdout
    assert "note: no schedule is for other launches than M <= 190 and few != 7\n" in text
    assert "twofold N=64: all checks passed" in text


def test_check_finds_what_is_wrong_with_a_later_variant(whole: Path) -> None:
    whole.write_text(OPEN.replace("consumers 2 over i", "consumers 2 over i  take_turns over x"))
    assert "WRONG_KIND" in fails(1, "check", whole)
    whole.write_text(OPEN.replace("block i 128", "block i 100"))
    text = fails(1, "check", whole)
    assert f"{whole}:11:" in text


def test_run_says_which_variant_it_took(whole: Path, limited: Path) -> None:
    for sizes, heading in (
        ("M=190", "variant 1 of 2, if M <= 190 and few != 7"),
        ("M=191", "variant 2 of 2, otherwise"),
        ("M=5,few=7", "variant 2 of 2, otherwise"),
    ):
        result = tilegen("run", whole, "--emulate", "--size", sizes)
        assert result.exit_code == 0, result.output
        assert heading in result.stdout.splitlines()
        assert re.search(r"^Y .* right", result.stdout, re.M)
    text = fails(2, "run", limited, "--emulate", "--size", "M=191,few=6")
    assert "NO_VARIANT" in text
    assert "M <= 190 and few != 7 or few >= 7" in text


def test_inspect_shows_each_variant(whole: Path) -> None:
    text = tilegen("inspect", whole).stdout
    first, second = (text.index(f"variant {n} of 2") for n in (1, 2))
    assert first < text.index("UTMALDG") < second < text.rindex("UTMALDG")
    assert text.count("instructions belong to no statement") == 2
