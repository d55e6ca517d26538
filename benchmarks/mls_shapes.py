"""Samples on the MLS machine at random shapes, each held against its equations.

    python benchmarks/mls_shapes.py [--count 200] [--seed 0] [--schedules] [-o benchmarks/results/mls-shapes.json]

--schedules: with blocks, waves and stages drawn at random too, of which LDS cannot hold all. Prints a line a shape and
exits 1 if one is wrong or refused for another reason, or if the static checks find something.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tilegen.cli.mls import emulated  # noqa: E402
from tilegen.cli.run import arguments  # noqa: E402
from tilegen.diagnostics.catalogue import Code  # noqa: E402
from tilegen.diagnostics.core import TilegenError  # noqa: E402
from tilegen.sema.loading import load  # noqa: E402
from tilegen.syntax.reading import read_source  # noqa: E402
from tilegen.syntax.span import Source  # noqa: E402
from tilegen.targets.mls.build import build  # noqa: E402
from tilegen.targets.mls.checks import check  # noqa: E402
from tilegen.version import VERSION  # noqa: E402


@dataclass(frozen=True)
class Shape:
    """A sample with its parameters and sizes. schedule: its directives for mls, None for what stands in the sample."""

    name: str
    parameters: dict[str, str]
    sizes: dict[str, int | list[int]]
    schedule: str | None = None

    def __str__(self) -> str:
        pairs = {**self.parameters, **self.sizes}
        words = [self.name, *(f"{k}={v}".replace(" ", "") for k, v in pairs.items())]
        return " ".join(words if self.schedule is None else [*words, "{", self.schedule, "}"])

    @property
    def source(self) -> Source:
        path = ROOT / "samples" / f"{self.name}.tile"
        if self.schedule is None:
            return read_source(path)
        text = path.read_text(encoding="utf-8")
        return Source(path.name, f"{text[: text.index('schedule')]}schedule mls {{ {self.schedule} }} }}")


def shapes(count: int, seed: int, most: int = 300) -> Iterator[Shape]:
    """Random shapes, their extents up to about `most`; the same for the same seed."""
    draw = random.Random(seed)

    def length() -> int:
        return draw.choice((draw.randint(0, 20), draw.randint(1, most), draw.randint(1, most), 64 * draw.randint(1, 3)))

    def row() -> int:
        return 8 * draw.randint(1, most // 8)

    def attention() -> dict[str, int | list[int]]:
        return {"B": draw.randint(1, 2), "Sq": length(), "Sk": length(), "Hk": 1, "G": draw.choice((1, 2, 4))}

    for _ in range(count):
        name = draw.choice(("fa3_fwd", "fa3_fwd", "fa3_varlen", "gemm", "row_softmax", "copy", "swiglu"))
        parameters = {"T": draw.choice(("bf16", "f16"))}
        sizes: dict[str, int | list[int]]
        if name.startswith("fa3"):
            parameters |= {"D": draw.choice(("64", "64", "128", "32", "72", "96")),
                           "causal": draw.choice(("true", "false"))}  # fmt: skip
            sizes = attention()
            if name == "fa3_varlen":
                batch = draw.randint(1, 3)
                del sizes["B"]
                sizes |= {"Sq": [length() for _ in range(batch)], "Sk": [length() for _ in range(batch)]}
        elif name in ("row_softmax", "copy"):
            sizes = {"M": length(), "N": row()}
        else:
            sizes = {"M": length(), "N": row(), "K": row()}
        yield Shape(name, parameters, sizes)


_BLOCKED = {"fa3_fwd": "j", "fa3_varlen": "j", "row_softmax": "j", "copy": "j", "gemm": "nk", "swiglu": "nk"}


def with_schedules(some: Iterator[Shape], seed: int) -> Iterator[Shape]:
    """The same shapes with blocks, waves, stages and directions drawn at random."""
    draw = random.Random(seed)
    for shape in some:
        axes = _BLOCKED[shape.name]
        words = [f"block {a} {16 * draw.randint(1, 9)}" for a in axes if draw.random() < 0.8]
        words += [f"waves {4 * draw.randint(1, 4)}"] if draw.random() < 0.6 else []
        words += [f"prefetch {draw.randint(1, 2)}"] if draw.random() < 0.6 else []
        words += [f"walk {axes[-1]} down"] if draw.random() < 0.3 and shape.name != "copy" else []
        yield replace(shape, schedule="  ".join(words))


def outcome(shape: Shape, seed: int) -> dict[str, Any]:
    """What came of a shape: `right`, or `fault` in words, the code first; its largest error in each output."""
    program = load(shape.source, shape.parameters)
    try:
        sizes, scalars = arguments(program, dict(shape.sizes), "mls", small=True)
        built = build(program)
        if faults := check(built.program):
            raise TilegenError(tuple(faults))
        trial = emulated(built, program, sizes, scalars, seed)
    except TilegenError as error:
        fits = error.diagnostics[0].code in (Code.MLS_LDS.name, Code.MLS_REGISTERS.name)
        fault = f"{error.diagnostics[0].code}: {error.diagnostics[0].message}"
        return {"shape": str(shape), "right": shape.schedule is not None and fits, "fault": fault}
    found: dict[str, Any] = {"shape": str(shape), "right": all(j.comparison.right for j in trial.judged)}
    found["relative"] = {j.name: j.comparison.relative for j in trial.judged}
    found["instructions"] = trial.instructions
    found["seconds"] = round(trial.seconds, 2)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schedules", action="store_true")
    parser.add_argument("-o", dest="file", type=Path)
    options = parser.parse_args()
    started = time.time()
    found = []
    some = shapes(options.count, options.seed)
    for n, shape in enumerate(with_schedules(some, options.seed) if options.schedules else some):
        found.append(outcome(shape, options.seed + n))
        fault = found[-1].get("fault", "")
        print(("refused" if fault else "right") if found[-1]["right"] else "WRONG", shape, fault, flush=True)
    right = sum(f["right"] for f in found)
    refused = sum(f["right"] and "fault" in f for f in found)
    print(f"{right - refused} of {len(found)} right" + (f", {refused} refused for want of room" if refused else ""))
    if options.file:
        record = {
            "tilegen": VERSION,
            "seed": options.seed,
            "schedules": options.schedules,
            "count": len(found),
            "right": right - refused,
            "refused": refused,
            "seconds": round(time.time() - started, 1),
            "shapes": found,
        }
        options.file.parent.mkdir(parents=True, exist_ok=True)
        options.file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if right == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
