"""`tilegen inspect`: what was generated, and the evidence in the machine code."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from tilegen.cli.compile import compile_spec, headings
from tilegen.cli.console import stdout, table
from tilegen.cli.publish import publish_file
from tilegen.cli.summary import print_summary
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Wanted
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.inspect.evidence import FEATURES, Evidence, in_ptx, in_sass
from tilegen.inspect.moving import MOVING_HEADER, Moving, moving_row, movings
from tilegen.inspect.places import with_true_places
from tilegen.inspect.statements import Statement, statements, unclaimed
from tilegen.syntax.reading import read_source
from tilegen.targets.hopper.sass import disassemble, parse_sass

_TAKES = "inspect takes a .tile, .ptx or .cubin"
_OTHERS = (".cu", ".sass", ".json", ".txt")  # what else `build` writes
_ELF = b"\x7fELF"
_SHOWN = 8  # opcodes a statement; the rest are summed
_TELLING = {feature.name.split(".")[0] for feature in FEATURES}  # shown first


def inspect_command(wanted: Wanted, html: Path | None) -> None:
    """Show a spec's statements with what became of them and the evidence; of a .ptx or .cubin, the evidence.

    html: write the page of the spec's kernel there instead.
    """
    out, file = stdout(), wanted.spec
    if html is not None and file.suffix in (".ptx", ".cubin"):
        wrong_usage("--html is of a .tile: the page shows what its statements became", got=str(file))
    if file.suffix == ".ptx":
        found = in_ptx(read_source(file).text)
        if not found:
            fail(Code.NOT_A_KERNEL, None, file=file, reason="it has no .entry")
        print_evidence(out, found, in_words_of="PTX")
    elif file.suffix == ".cubin":
        contents = _bytes(file)
        if not contents.startswith(_ELF):
            fail(Code.NOT_A_KERNEL, None, file=file, reason=f"it is no ELF file, as a cubin is; {_TAKES}")
        sass = parse_sass(disassemble(contents))
        if not sass.functions:
            fail(Code.NOT_A_KERNEL, None, file=file, reason="it has no code")
        print_evidence(out, tuple(in_sass(function) for function in sass.functions))
    elif file.suffix in _OTHERS:
        wrong_usage(_TAKES, got=str(file))
    elif html is not None:
        _write_page(out, wanted, html)
    else:
        _inspect_spec(out, wanted)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        fail(Code.FILE_MISSING, None, path=file)
    except OSError as error:
        fail(Code.FILE_UNREADABLE, None, path=file, why=error.strerror or str(error))


def _write_page(out: Console, wanted: Wanted, html: Path) -> None:
    from tilegen.inspect.page import Shown, page  # jinja2, which the others do without

    done, seconds = compile_spec(wanted)
    shown = [Shown(heading, v.built) for heading, v in zip(headings(done), done.variants, strict=True)]
    publish_file(html, page(done.title, done.program, shown).encode())
    print_summary(out, done, seconds)
    out.print(f"wrote {html}", markup=False)


def _inspect_spec(out: Console, wanted: Wanted) -> None:
    done, seconds = compile_spec(wanted)
    for heading, variant in zip(headings(done), done.variants, strict=True):
        if heading:
            out.print(heading, style="bold", markup=False)
        code = with_true_places(parse_sass(variant.sass).functions[0], variant.ptx)
        for statement in statements(done.program, variant.plan, code):
            _print_statement(out, wanted.spec, statement)
        number = unclaimed(done.program, code)
        out.print(f"{number} instructions belong to no statement: set-up, work items, loop counters")
        out.print()
        print_evidence(out, (in_sass(code),))
        out.print()
        if moved := movings(done.program, variant.plan, code):
            print_movings(out, moved)
            out.print()
    print_summary(out, done, seconds)


def print_movings(out: Console, moved: tuple[Moving, ...]) -> None:
    """One row a tile: what bringing one block of it takes."""
    out.print("what one block of a tile takes, of all warps together; registers: vector + uniform")
    out.print(table(MOVING_HEADER, [moving_row(m) for m in moved]))


def _print_statement(out: Console, spec: Path, statement: Statement) -> None:
    out.print(Text.assemble((f"{spec}:{statement.line}", "dim"), "  ", (statement.text, "bold")))
    for step in statement.steps:
        out.print(Text(f"    {step.role}{f' › {step.where}' if step.where else ''}"))
        for lines, times in step.operations:
            out.print(Text(f"        {lines[0]}{f'  ×{times}' if times > 1 else ''}"))
            for line in lines[1:]:
                out.print(Text(f"        {line}"))
    ranked = sorted(statement.instructions, key=lambda item: item[0] not in _TELLING)
    shown = [f"{opcode} {n}" for opcode, n in ranked[:_SHOWN]]
    if rest := sum(n for _, n in ranked[_SHOWN:]):
        shown.append(f"others {rest}")
    out.print(Text(f"    machine code: {', '.join(shown) or 'none of its own'}"))
    out.print()


def print_evidence(out: Console, found: tuple[Evidence, ...], in_words_of: str = "SASS") -> None:
    """One row a feature, one column a kernel; and the registers that the kernel's roles ask for.

    in_words_of: what was counted, SASS or PTX. A PTX instruction is shown with the SASS that it becomes.
    """
    names = {f: [f.spelling, f.name] if in_words_of == "PTX" else [f.name] for f in FEATURES}
    rows: list[list[object]] = [
        [*names[feature], feature.shows, *(kernel.counts[row] for kernel in found)]
        for row, feature in enumerate(FEATURES)
    ]
    header = ["PTX instruction", "becomes"] if in_words_of == "PTX" else ["instruction"]
    out.print(table([*header, "shows", *(kernel.kernel for kernel in found)], rows))
    for kernel in found:
        if kernel.registers:
            asked = ", ".join(str(count) for count in kernel.registers)
            out.print(f"{kernel.kernel}: registers a thread that its roles ask for: {asked}", markup=False)
