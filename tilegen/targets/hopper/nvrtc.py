"""CUDA text → PTX and cubin, by the NVRTC of the installed wheel, and what its log says.

One program for one architecture yields both, so the PTX that the emulator runs is the PTX the cubin came from.
What the log calls a mere performance note (serialised products, an injected wait, an ignored setmaxnreg)
breaks the plan, and is an error here. Messages are told apart by their text: the codes move between versions.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.syntax.span import Span
from tilegen.targets.hopper.nvrtc_library import compile_program, nvrtc_version

# NVRTC puts the working directory before relative file names; under this root the outputs do not depend on it.
_ROOT = "/tilegen.src/"


@dataclass(frozen=True)
class Usage:
    """What ptxas reports for one entry: registers a thread at entry, bytes of local memory, named barriers.

    `registers` is the count at entry: with setmaxnreg it says nothing about a role; the spills do.
    """

    entry: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    barriers: int


@dataclass(frozen=True)
class Compiled:
    """The outcome of one compilation. `seconds` is NVRTC's own time."""

    ptx: str
    cubin: bytes
    log: str
    nvrtc_version: tuple[int, int]
    seconds: float
    usage: tuple[Usage, ...]


def compile_cuda(
    source: str,
    name: str,
    architecture: str = "sm_90a",
    *,
    include_line_info: bool = True,
    begun: Callable[[], None] = lambda: None,
) -> Compiled:
    """Compile one CUDA text, reported under `name`.cu. begun: called when NVRTC begins.

    Raises TilegenError with a diagnostic for each error, placed on the spec line that the text's `#line` names.
    """
    # Where there is a driver, NVRTC keeps machine code in the driver's cache, without the log that goes with it.
    options = [f"--gpu-architecture={architecture}", "-default-device", "--ptxas-options=-v", "--no-cache"]
    if include_line_info:
        options.append("-lineinfo")
    version = nvrtc_version()
    start = time.perf_counter()
    ok, log, ptx, cubin = _compile(source, f"{name}.cu", options, ("PTX", "CUBIN"), begun)
    seconds = time.perf_counter() - start
    places = _Places(source, name)
    if not ok:
        if "ptxas" in log and not ptx:
            # ptxas speaks of lines of a PTX text that NVRTC then withholds: compile for the virtual architecture.
            virtual = [f"--gpu-architecture={architecture.replace('sm_', 'compute_')}", "-default-device", "-lineinfo"]
            ptx = _compile(source, f"{name}.cu", virtual, ("PTX",))[2]
        places.read(_text(ptx))
        raise TilegenError(tuple(_errors(log, places)) or (fault(Code.CUDA_COMPILE, None, reason=log.strip()),))
    text = _text(ptx)
    places.read(text)
    faults = scan_log(log, places)
    if faults:
        raise TilegenError(tuple(faults))
    return Compiled(text, cubin, log, version, seconds, parse_usage(log))


# ---- what the log says ---------------------------------------------------------------------------


_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")


class _Places:
    """From a line of the generated text or of the PTX to the spec line it came from."""

    def __init__(self, source: str, name: str) -> None:
        self.own = f"{name}.cu"
        self.files = set(re.findall(r'^\s*#\s*(?:line\s+)?\d+\s+"([^"]+)"', source, re.M)) - {self.own}
        self.lines: list[Span | None] = []

    def read(self, ptx: str) -> None:
        """Take the `.loc` of every line of the PTX; of an inlined function, that of the call in the spec's code."""
        numbered = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', ptx, re.M))
        here: Span | None = None
        calls: dict[tuple[str, ...], tuple[str, ...]] = {}  # from a place to where its function is inlined now
        self.lines = []
        for line in ptx.splitlines():
            if m := _LOC.match(line):
                at, call = m.groups()[:3], m.groups()[3:]
                if call[0]:
                    calls[at] = call
                for _ in calls:
                    if numbered.get(at[0]) in self.files or at not in calls:
                        break
                    at = calls[at]
                here = self.span(numbered.get(at[0], ""), int(at[1]))
            self.lines.append(here)

    def span(self, file: str, line: int) -> Span | None:
        return Span(file, line, 1, line, 1) if file in self.files else None

    def ptx_line(self, number: int) -> Span | None:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None


_SPOKEN = re.compile(r"^ptxas\s+\w+\s*:\s*(?:\(\w+\)\s*)?(?:Potential Performance Loss:\s*)?(?P<text>.*)$", re.M)


def scan_log(log: str, places: _Places | None = None) -> list[Diagnostic]:
    """The notes of a successful compilation that break the plan, as diagnostics."""
    found: list[Diagnostic] = []
    for m in _SPOKEN.finditer(log):
        text = m["text"].strip()
        number = re.search(r"\bline (\d+)", text)
        span = places.ptx_line(int(number[1])) if places and number else None
        if "serialized due to" in text:
            found.append(fault(Code.MMA_SERIALISED, span, reason=text.split("serialized due to", 1)[1].strip()))
        elif "is injected in" in text:
            found.append(
                fault(Code.WAIT_INJECTED, span, what=text.split(" is injected in")[0].split()[-1], reason=text)
            )
        elif "'setmaxnreg' ignored" in text:
            found.append(fault(Code.SET_REGISTERS_IGNORED, span, reason=text.split("ignored", 1)[1].strip(" ;.")))
    return found


def parse_usage(log: str) -> tuple[Usage, ...]:
    """What `--ptxas-options=-v` reports for each entry."""
    out = []
    for part in re.split(r"Compiling entry function ", log)[1:]:
        entry = part.split("'")[1]
        spills = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers(?:, used (\d+) barriers)?", part)
        stack, stores, loads = (int(g) for g in spills.groups()) if spills else (0, 0, 0)
        registers, barriers = (int(used[1]), int(used[2] or 0)) if used else (0, 0)
        out.append(Usage(entry, registers, stack, stores, loads, barriers))
    return tuple(out)


def _errors(log: str, places: _Places) -> list[Diagnostic]:
    found = []
    for m in re.finditer(
        r"^(?P<file>.+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<text>.*)$", log, re.M
    ):
        got = f"{m['file']}:{m['line']}"
        found.append(fault(Code.CUDA_COMPILE, places.span(m["file"], int(m["line"])), reason=m["text"], got=got))
    for m in re.finditer(r"^ptxas (?:.*?line (?P<line>\d+); )?(?:error|fatal)\s*: (?P<text>.*)$", log, re.M):
        span = places.ptx_line(int(m["line"])) if m["line"] else None
        if m["line"] or not found:
            got = f"PTX line {m['line']}" if m["line"] else ""
            found.append(fault(Code.CUDA_COMPILE, span, reason=m["text"], got=got))
    return found


# ---- the library ---------------------------------------------------------------------------------


def _compile(
    source: str, file: str, options: list[str], wanted: tuple[str, ...], begun: Callable[[], None] = lambda: None
) -> tuple[bool, str, bytes, bytes]:
    """(succeeded, log, PTX, cubin); what was not wanted or not made is empty."""
    text, path = _rooted(source).encode(), (_ROOT + file).encode()
    done = compile_program(text, path, [o.encode() for o in options], wanted, begun)
    return done.ok, _text(done.log), done.outputs.get("PTX", b""), done.outputs.get("CUBIN", b"")


def _text(raw: bytes) -> str:
    return strip_root(raw.rstrip(b"\0 ").decode(errors="replace"))


def strip_root(text: str) -> str:
    """`text` with file names as the `#line` directives gave them."""
    return text.replace(_ROOT, "")


def _rooted(source: str) -> str:
    return re.sub(r'^(\s*#\s*(?:line\s+)?\d+\s+")(?!/)', rf"\1{_ROOT}", source, flags=re.M)
