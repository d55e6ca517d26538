"""`tilegen check`: every static check, no files."""

from __future__ import annotations

from pathlib import Path

from tilegen.cli.compile import compile_spec
from tilegen.cli.console import stdout
from tilegen.cli.values import Parameters


def check_command(spec: Path, parameters: Parameters, target: str) -> None:
    """Compile the spec and say that nothing is wrong, or fail with all that is."""
    done, seconds = compile_spec(spec, parameters, target)
    out = stdout()
    for note in done.plan.notes:
        out.print(f"note: {note}", markup=False)
    out.print(f"{done.title}: all checks passed ({seconds:.1f} s)", markup=False)
