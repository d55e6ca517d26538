"""`tilegen check`: every static check, no files."""

from __future__ import annotations

from tilegen.cli.compile import compile_spec, how_long
from tilegen.cli.console import stdout
from tilegen.cli.values import Wanted


def check_command(wanted: Wanted) -> None:
    """Compile the spec and say that nothing is wrong, or fail with all that is."""
    done, seconds = compile_spec(wanted)
    out = stdout()
    for note in done.plan.notes:
        out.print(f"note: {note}", markup=False)
    out.print(f"{done.title}: all checks passed ({how_long(done, seconds)})", markup=False)
