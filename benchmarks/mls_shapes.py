"""Samples on the MLS machine at random shapes, each held against its equations.

    python benchmarks/mls_shapes.py [--count 200] [--seed 0] [-o benchmarks/results/mls-shapes.json]

Prints a line a shape and exits 1 if one is wrong or refused.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tilegen.cli.mls import emulated  # noqa: E402
from tilegen.cli.run import arguments  # noqa: E402
from tilegen.diagnostics.core import TilegenError  # noqa: E402
from tilegen.sema.loading import load  # noqa: E402
from tilegen.targets.mls.build import build  # noqa: E402
from tilegen.version import VERSION  # noqa: E402


@dataclass(frozen=True)
class Shape:
    """A sample with its parameters and sizes."""

    name: str
    parameters: dict[str, str]
    sizes: dict[str, int | list[int]]

    def __str__(self) -> str:
        pairs = {**self.parameters, **self.sizes}
        return " ".join((self.name, *(f"{k}={v}".replace(" ", "") for k, v in pairs.items())))


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


def outcome(shape: Shape, seed: int) -> dict[str, Any]:
    """What came of a shape: `right`, or `fault` in words; the largest error, relative to what is allowed."""
    program = load(ROOT / "samples" / f"{shape.name}.tile", shape.parameters)
    try:
        sizes, scalars = arguments(program, dict(shape.sizes), small=True)
        trial = emulated(build(program), program, sizes, scalars, seed)
    except TilegenError as error:
        return {"shape": str(shape), "right": False, "fault": str(error)}
    found: dict[str, Any] = {"shape": str(shape), "right": all(j.comparison.right for j in trial.judged)}
    found["relative"] = {j.name: j.comparison.relative for j in trial.judged}
    found["instructions"] = trial.instructions
    found["seconds"] = round(trial.seconds, 2)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", dest="file", type=Path)
    options = parser.parse_args()
    started = time.time()
    found = []
    for n, shape in enumerate(shapes(options.count, options.seed)):
        found.append(outcome(shape, options.seed + n))
        print("right" if found[-1]["right"] else "WRONG", shape, found[-1].get("fault", ""), flush=True)
    right = sum(f["right"] for f in found)
    print(f"{right} of {len(found)} right")
    if options.file:
        record = {"tilegen": VERSION, "seed": options.seed, "count": len(found), "right": right,
                  "seconds": round(time.time() - started, 1), "shapes": found}  # fmt: skip
        options.file.parent.mkdir(parents=True, exist_ok=True)
        options.file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if right == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
