"""Each suite's command, on next to nothing: it ends by itself, finds no fault, and leaves a whole record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("command", "ran", "row"),
    [
        ("check_samples --samples copy --most 1", "all 1 bound specs", "| copy | 1 | 1 |  |  |"),
        ("mutate_plans --samples copy --kinds", "all 1 mutants", "| expected bytes +16 | 1 | 1 | 1 |  |  |  |  |  |"),
        ("mutate_ptx --samples copy --kinds", "all 1 mutants drawn", "| expected bytes +16 | 1 | 1 |  | 1 |"),
        ("fuzz --specs 3 --plans 0 --ptx 0", "all 3 cases", "| specs | 3 | 3 | "),
    ],
)
def test_a_record_says_what_was_run_and_found(command: str, ran: str, row: str, tmp_path: Path) -> None:
    name, *arguments = command.split()
    arguments += ["expected bytes +16"] if arguments[-1] == "--kinds" else []
    output = tmp_path / "record.md"
    call = [sys.executable, f"tools/{name}.py", *arguments, "--jobs", "1", "--output", str(output)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = output.read_text(encoding="utf-8")
    assert f" s in 1 processes; {ran}\n" in text
    assert f"\n{row}" in text
    assert f"- command: `python tools/{name}.py " in text
    assert str(tmp_path) not in text
