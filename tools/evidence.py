"""Writes docs/evidence.md: what the machine code of samples holds, and what moving each of their tiles takes.

    python tools/evidence.py                               writes it, with the NVRTC that is installed
    python tools/evidence.py --check [--libraries DIR]     fails if it is not what the compiler makes now
    python tools/evidence.py --nvrtc                       prints the version of nvidia-cuda-nvrtc that made it

Counts in machine code depend on the compiler, so the check is made with the NVRTC that the document names: the
installed one, or that in DIR, as `pip install --target DIR nvidia-cuda-nvrtc==…` lays it out under nvidia/cu13/lib.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from build_with_nvrtc import preload

if TYPE_CHECKING:
    from tilegen.inspect.evidence import Evidence
    from tilegen.inspect.moving import Moving
    from tilegen.ir.plan import Plan
    from tilegen.syntax.span import Source

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "evidence.md"
# Samples with the parameters that they are built with, and the movers that their tiles are asked for, or another target
# than hopper.
KERNELS: tuple[tuple[str, dict[str, str], tuple[str, ...]], ...] = (
    ("copy", {"T": "f16"}, ("tma", "cp_async", "sm_80")),
    ("gemm", {"T": "f16"}, ("tma", "cp_async", "sm_80")),
    ("row_softmax", {}, ("tma",)),
    ("fa3_fwd", {"D": "64"}, ("tma", "sm_80")),
    ("fa3_fwd", {"D": "128"}, ("tma", "cp_async", "sm_80")),
    ("fa3_varlen", {"D": "128"}, ("tma",)),
)
TARGETS = ("sm_80",)
MADE_WITH = re.compile(r"nvidia-cuda-nvrtc (\S+), NVRTC (\S+)\.$", re.M)
HEAD = """# What the machine code shows

Made by `python tools/evidence.py`; CI checks that it is still so. `tilegen inspect SPEC` prints the same for any spec.
Compiled by nvidia-cuda-nvrtc {wheel}, NVRTC {nvrtc}.

## What a kernel has

How often each instruction stands in the code of a variant (`tilegen inspect` tells when a launch takes it); registers
of a thread that brings tiles, and of the others; bytes spilled. `for sm_80`: the target without TMA and `wgmma`, whose
threads all do everything.

"""
MOVED = """
## What a block of a tile takes

Counted are the instructions that name the tile's line of the spec, on the way of a block of which nothing lies outside,
in the streamed loop if the tile is in one. Each warp that issues an instruction takes a slot. Registers and predicates
are the different ones that these instructions name, vector + uniform. A block of 128 x 64 elements of 16 bits (`a` of
gemm) is one box for TMA, which one thread asks for; as copies of 16 bytes a thread it takes 32 of a warp.

"""


@dataclass(frozen=True)
class Kernel:
    """One variant of a sample."""

    name: str
    plan: Plan
    evidence: Evidence
    registers: tuple[int, ...]
    spills: int
    movings: tuple[Moving, ...]


def kernels() -> Iterator[Kernel]:
    """Every variant of every sample, by each mover."""
    from tilegen.inspect.budget import registers_of
    from tilegen.inspect.evidence import in_sass
    from tilegen.inspect.moving import movings
    from tilegen.inspect.places import with_true_places
    from tilegen.runtime.compilation import compile_source
    from tilegen.targets.hopper.sass import parse_sass

    for sample, parameters, movers in KERNELS:
        for mover in movers:
            target = mover if mover in TARGETS else "hopper"
            done = compile_source(_asked(sample, parameters, mover), parameters, target)
            for n, variant in enumerate(done.variants):
                if not _by_boxes_or_whole_pieces(variant.plan):
                    continue
                built = variant.built
                code = with_true_places(parse_sass(built.sass).functions[0], built.ptx)
                words = [sample, *(f"{key}={value}" for key, value in parameters.items())]
                words += [f"for {mover}"] if mover in TARGETS else [f"via {mover}"] if mover != "tma" else []
                words += [f"({n + 1} of {len(done.plans)})"] if len(done.plans) > 1 else []
                spills = built.usage.spill_store_bytes + built.usage.spill_load_bytes
                moved = movings(done.program, built.plan, code)
                taken = dict.fromkeys(registers_of(r, built.plan, built.usage.registers) for r in built.plan.roles)
                yield Kernel(" ".join(words), built.plan, in_sass(code), tuple(taken), spills, moved)


def _by_boxes_or_whole_pieces(plan: Plan) -> bool:
    """Whether threads copy whole pieces, if they copy: variants of smaller ones are for arrays that lie oddly."""
    from tilegen.ir.plan import CopyTile
    from tilegen.ir.plan_rules.memory import PIECE
    from tilegen.ir.plan_walk import all_operations

    return all(o.width == PIECE for _, _, o in all_operations(plan) if isinstance(o, CopyTile))


def _asked(sample: str, parameters: dict[str, str], mover: str) -> Source:
    """The sample with this mover in each of its schedules; TMA is what they take without being asked."""
    from tilegen.passes.pipeline import to_scheduled
    from tilegen.passes.synchronise.hopper import tiles_in_shared
    from tilegen.sema.loading import load
    from tilegen.syntax.span import Source

    name = f"samples/{sample}.tile"
    source = Source(name, (ROOT / name).read_text(encoding="utf-8"))
    if mover == "tma" or mover in TARGETS:
        return source
    tiles = tiles_in_shared(to_scheduled(load(source, parameters)))
    via = ", ".join(f"{tile} {mover}" for tile in tiles)
    return Source(name, re.sub(r"(schedule hopper[^{]*\{)", rf"\1 via {via} ", source.text))


def document(wheel: str) -> str:
    """The text. wheel: the version of nvidia-cuda-nvrtc that compiles."""
    from tilegen.inspect.evidence import FEATURES
    from tilegen.inspect.moving import MOVING_HEADER, moving_row
    from tilegen.targets.hopper.nvrtc_library import nvrtc_version

    made = list(kernels())
    head = HEAD.format(wheel=wheel, nvrtc=".".join(map(str, nvrtc_version())))
    names = ["kernel", *(f.name for f in FEATURES), "registers", "spilled"]
    rows = []
    for kernel in made:
        registers = ", ".join(map(str, kernel.registers))
        rows.append([kernel.name, *kernel.evidence.counts, registers, kernel.spills])
    tiles = [[kernel.name, *moving_row(m)] for kernel in made for m in kernel.movings]
    return head + _table(names, rows) + MOVED + _table(["kernel", *MOVING_HEADER], tiles)


def _table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    numbers = [all(isinstance(row[n], int) for row in rows) for n in range(len(names))]
    rule = ["---:" if number else "---" for number in numbers]
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (names, rule, *rows))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Write docs/evidence.md, or check it.")
    parser.add_argument("--check", action="store_true", help="fail if the document is out of date")
    parser.add_argument("--libraries", type=Path, help="folder that holds libnvrtc.so.13")
    parser.add_argument("--nvrtc", action="store_true", help="print the version that the document was made with")
    options = parser.parse_args(arguments)
    there = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    named = MADE_WITH.search(there)
    if options.check or options.nvrtc:
        if named is None:
            print(f"{DOCUMENT.name} names no compiler: python tools/evidence.py", file=sys.stderr)
            return 1
        if options.nvrtc:
            print(named[1])
            return 0
    if options.libraries:
        preload(options.libraries)
    made = document(named[1] if options.check and named else version("nvidia-cuda-nvrtc"))
    if not options.check:
        DOCUMENT.write_text(made, encoding="utf-8")
        return 0
    if made == there:
        return 0
    sys.stdout.writelines(unified_diff(there.splitlines(True), made.splitlines(True), DOCUMENT.name, "made now"))
    print(f"{DOCUMENT.name} is out of date: python tools/evidence.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
