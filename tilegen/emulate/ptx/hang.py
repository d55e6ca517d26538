"""The report of a hang: every group of threads, what it waits for, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import Note

if TYPE_CHECKING:
    from tilegen.emulate.ptx.cluster import Cluster


def report_hang(cluster: Cluster) -> NoReturn:
    """Raise the error that says who waits for what."""
    lines: list[str] = []
    notes: list[Note] = []
    first = None
    for unit in cluster.units:
        whose = f"CTA {unit.cta.index}, " if len(cluster.ctas) > 1 else ""
        for group in unit.groups:
            ins = cluster.machine.program.code[group.pc]
            reason = group.wait.say() if group.wait is not None else "able to run"
            text = f"{whose}{unit.describe(group.bits)}: {reason}"
            lines.append(f"{text} ({ins.name}, PTX line {ins.place.line})")
            if ins.place.source is not None:
                notes.append(Note(ins.place.source, text))
                first = first or ins.place.source
    fail(Code.EMULATED_HANG, first, notes=tuple(notes), cta=cluster.ctas[0].index, waits="\n  ".join(lines))
