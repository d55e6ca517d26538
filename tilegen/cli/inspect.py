"""`tilegen inspect`: what was generated, and the evidence in the machine code."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from tilegen.cli.compile import compile_spec
from tilegen.cli.console import stdout, table
from tilegen.cli.summary import print_summary
from tilegen.cli.values import Wanted
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.inspect.evidence import FEATURES, Evidence, in_ptx, in_sass
from tilegen.inspect.statements import Statement, statements, unclaimed
from tilegen.syntax.reading import read_source
from tilegen.targets.hopper.sass import disassemble, parse_sass

_SHOWN = 8  # opcodes a statement; the rest are summed
_TELLING = {feature.name.split(".")[0] for feature in FEATURES}  # shown first


def inspect_command(wanted: Wanted) -> None:
    """Show a spec's statements with what became of them and the evidence; of a .ptx or .cubin, the evidence."""
    out, file = stdout(), wanted.spec
    if file.suffix == ".ptx":
        found = in_ptx(read_source(file).text)
        if not found:
            fail(Code.NOT_A_KERNEL, None, file=file, reason="it has no .entry")
        print_evidence(out, found)
    elif file.suffix == ".cubin":
        sass = parse_sass(disassemble(_bytes(file)))
        if not sass.functions:
            fail(Code.NOT_A_KERNEL, None, file=file, reason="it has no code")
        print_evidence(out, tuple(in_sass(function) for function in sass.functions))
    else:
        _inspect_spec(out, wanted)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        fail(Code.FILE_UNREADABLE, None, path=file, why=error.strerror or str(error))


def _inspect_spec(out: Console, wanted: Wanted) -> None:
    done, seconds = compile_spec(wanted)
    code = parse_sass(done.built.sass).functions[0]
    for statement in statements(done.program, done.plan, code):
        _print_statement(out, wanted.spec, statement)
    out.print(f"{unclaimed(done.program, code)} instructions belong to no statement: set-up, work items, loop counters")
    out.print()
    print_evidence(out, (in_sass(code),))
    out.print()
    print_summary(out, done, seconds)


def _print_statement(out: Console, spec: Path, statement: Statement) -> None:
    out.print(Text.assemble((f"{spec}:{statement.line}", "dim"), "  ", (statement.text, "bold")))
    for step in statement.steps:
        out.print(Text(f"    {step.role}{f' › {step.where}' if step.where else ''}"))
        for operation, times in step.operations:
            out.print(Text(f"        {operation}{f'  ×{times}' if times > 1 else ''}"))
    ranked = sorted(statement.instructions, key=lambda item: item[0] not in _TELLING)
    shown = [f"{opcode} {n}" for opcode, n in ranked[:_SHOWN]]
    if rest := sum(n for _, n in ranked[_SHOWN:]):
        shown.append(f"others {rest}")
    out.print(Text(f"    machine code: {', '.join(shown) or 'none of its own'}"))
    out.print()


def print_evidence(out: Console, found: tuple[Evidence, ...]) -> None:
    """One row a feature, one column a kernel; and the registers that the kernel's roles ask for."""
    rows: list[list[object]] = [
        [feature.name, feature.shows, *(kernel.counts[row] for kernel in found)] for row, feature in enumerate(FEATURES)
    ]
    out.print(table(["instruction", "shows", *(kernel.kernel for kernel in found)], rows))
    for kernel in found:
        if kernel.registers:
            asked = ", ".join(str(count) for count in kernel.registers)
            out.print(f"{kernel.kernel}: registers a thread that its roles ask for: {asked}", markup=False)
