"""Runs every sample on the GPU under compute-sanitizer: out-of-bounds accesses and races between threads.

    python tools/sanitize.py [--tool memcheck --tool racecheck] [--workers 4] [-o FILE.md] [SAMPLE …]

Each run is `tilegen run` at the small sizes that the emulator takes, so that results are compared with the oracle too.
Exits 1 if anything was found, or if no run could be made.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.gpu.record import machine  # noqa: E402  (found from the root)
from tilegen.cli.run import arguments as sizes_of  # noqa: E402
from tilegen.sema.loading import load  # noqa: E402
from tilegen.syntax.reading import read_source  # noqa: E402

TOOLS = ("memcheck", "racecheck")
SECONDS = 180  # a run
FOUND = 9  # exit code of the sanitizer where it found something
# beside every sample as it is: what its schedules differ in
MORE = {
    "fa3_fwd": [
        {"D": D, "causal": causal}
        for D in ("64", "128", "256")
        for causal in ("false", "true")
        if (D, causal) != ("128", "false")
    ],
    "fa3_varlen": [{"causal": "true"}],
}


@dataclass(frozen=True)
class Run:
    """What came of one: `summary` is the sanitizer's last line; `lines` what it reported, or the command's end."""

    tool: str
    label: str
    code: int
    seconds: float
    summary: str
    lines: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return self.code == 0 and bool(re.search(r"SUMMARY: 0 (errors|hazards)", self.summary))


def cases(names: Sequence[str]) -> list[tuple[Path, dict[str, str]]]:
    """Samples with the parameters to run them with."""
    found = []
    for path in sorted((ROOT / "samples").glob("*.tile")):
        if not names or path.stem in names:
            found += [(path, parameters) for parameters in ({}, *MORE.get(path.stem, ()))]
    return found


def run(tool: str, path: Path, parameters: dict[str, str]) -> Run:
    """One sample under one tool."""
    program = load(read_source(path), parameters)
    sizes, _ = sizes_of(program, {}, "hopper", small=True)
    label = " ".join([path.stem, *(f"{name}={value}" for name, value in parameters.items())])
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "5"]
    command += [sys.executable, "-m", "tilegen", "run", str(path)]
    for name, value in parameters.items():
        command += ["-D", f"{name}={value}"]
    command += ["--size", ",".join(f"{name}={value}".replace(" ", "") for name, value in sizes.items())]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
        code, lines = done.returncode, (done.stdout + done.stderr).splitlines()
    except subprocess.TimeoutExpired:
        code, lines = -1, [f"not over in {SECONDS} s"]
    told = [line for line in lines if line.startswith("=========")]
    summary = next((line.strip("= ") for line in reversed(told) if "SUMMARY" in line), "no summary")
    shown = () if code == 0 else tuple((told or lines)[-20:])
    return Run(tool, label, code, time.monotonic() - began, summary, shown)


def report(runs: Sequence[Run]) -> str:
    facts = machine()
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=False).stdout
    facts["compute-sanitizer"] = next(iter(re.findall(r"Version (\S+)", version)), "of an unknown version")
    lines = ["# Samples under compute-sanitizer", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]
    lines += ["| tool | sample | found | seconds |", "|---|---|---|---:|"]
    lines += [f"| {r.tool} | {r.label} | {r.summary} | {r.seconds:.0f} |" for r in runs]
    for r in runs:
        if not r.clean:
            lines += ["", f"## {r.tool}, {r.label}: exit code {r.code}", "", "```", *r.lines, "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("samples", nargs="*", metavar="SAMPLE", help="names; all by default")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="each may be given; both by default")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="processes at once; default 4")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE.md", help="write the table there")
    options = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        parser.error("compute-sanitizer is not on the PATH")
    jobs = [(tool, *case) for tool in options.tool or TOOLS for case in cases(options.samples)]
    runs = []
    with ThreadPoolExecutor(options.workers) as pool:
        for done in pool.map(lambda job: run(*job), jobs):
            print(f"{done.tool} {done.label}: {done.summary} ({done.seconds:.0f} s)", flush=True)
            runs.append(done)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(report(runs), encoding="utf-8")
        print(f"wrote {options.output}")
    return 0 if runs and all(r.clean for r in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
