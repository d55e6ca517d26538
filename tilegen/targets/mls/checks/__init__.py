"""Checks on an MLS program before it runs."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.diagnostics.core import Diagnostic
from tilegen.syntax.span import Span
from tilegen.targets.mls.checks.barriers import barriers, tiles
from tilegen.targets.mls.checks.carry import carry
from tilegen.targets.mls.checks.flow import flow_of
from tilegen.targets.mls.checks.hazards import hazards
from tilegen.targets.mls.checks.registers import registers
from tilegen.targets.mls.checks.tail import tail
from tilegen.targets.mls.checks.values import Values
from tilegen.targets.mls.program import Program
from tilegen.targets.mls.verify import program_spans


def check(program: Program, spans: Sequence[Span] | None = None) -> list[Diagnostic]:
    """All faults that the text of a verified program shows. spans: where its lines stand (else in its own text)."""
    flow = flow_of(program, program_spans(program) if spans is None else list(spans))
    values = Values(flow)
    return [
        *carry(values),
        *tail(values),
        *registers(flow),
        *hazards(flow),
        *barriers(values),
        *tiles(flow),
    ]
