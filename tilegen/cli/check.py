"""`tilegen check`: every static check, no files."""

from __future__ import annotations

from tilegen.cli.compile import compile_spec, headings, how_long, remarks
from tilegen.cli.console import stdout
from tilegen.cli.usage import no_defect
from tilegen.cli.values import Wanted
from tilegen.runtime.compilation import Compilation


def check_command(wanted: Wanted, defect: str | None = None) -> None:
    """Compile the spec and say that nothing is wrong, or fail with all that is."""
    if wanted.target == "mls":
        from tilegen.cli.mls import check_mls

        check_mls(wanted, defect)
        return
    no_defect(defect)
    done, seconds = compile_spec(wanted)
    out = stdout()
    for line in (*_notes(done), *remarks(done)):
        out.print(line, markup=False)
    what = "all checks passed" if len(done.plans) == 1 else f"all checks of {len(done.plans)} variants passed"
    out.print(f"{done.title}: {what} ({how_long(done, seconds)})", markup=False)


def _notes(done: Compilation) -> list[str]:
    """The plans' notes, a line each, once where all variants have it."""
    of = {heading: plan.notes for heading, plan in zip(headings(done), done.plans, strict=True)}
    lines: dict[str, None] = {}
    for heading, notes in of.items():
        for note in notes:
            own = "" if all(note in others for others in of.values()) else f"{heading}: "
            lines[f"note: {own}{note}"] = None
    return list(lines)
