"""Reports of several runs of one benchmark as one, with its plot.

    python benchmarks/merge.py benchmarks/results/attention-2026-*.json -o benchmarks/results/attention

Writes NAME.json, NAME.md and, where matplotlib is installed, NAME.svg. One report alone is drawn anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tilegen.bench import plot
from tilegen.bench.contest import write
from tilegen.bench.merge import merge, read


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="Joins reports of one benchmark.")
    p.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    p.add_argument("-o", "--out", type=Path, required=True, metavar="NAME", help="without an ending")
    options = p.parse_args(arguments)
    try:
        report = merge([read(path) for path in options.files])
    except (OSError, ValueError) as e:
        p.error(str(e))
    print(report.text())
    for path in write(report, options.out.parent, options.out.name):
        print(f"wrote {path}")
    if not plot.available():
        print("no plot: matplotlib is not installed (`pip install tilegen[bench]`)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
