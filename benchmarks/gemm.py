"""C = A B by samples/gemm.tile beside cuBLAS.

python benchmarks/gemm.py
python benchmarks/gemm.py --size 8192,8192,8192 --size 4096,4096,1024 -T bf16 f16
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contest import contestants, finished, parser, requested, say, settings, temporary_folder
from tilegen.bench.contest import compete
from tilegen.bench.peers import Matmul
from tilegen.bench.suites import PRODUCTS, gemm_cells


def size(text: str) -> tuple[int, int, int]:
    """M,N,K."""
    try:
        m, n, k = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not M,N,K") from None
    return m, n, k


def main() -> int:
    p = parser("Times matrix products on the GPU beside cuBLAS.")
    p.add_argument("--size", type=size, action="append", metavar="M,N,K", help="may be given several times")
    p.add_argument("-T", nargs="+", default=["bf16"], choices=["bf16", "f16"], help="types")
    options = p.parse_args()
    s = settings(options)
    cells = gemm_cells(options.size or PRODUCTS, options.T)
    with temporary_folder() as made:
        ours = contestants({"tilegen": requested}, cells, Path(made), options, s.seed)
        report = compete("Matrix product", "gemm", cells, [*ours, Matmul()], "tilegen", s, say)
    print(report.text())
    return finished(report, ["tilegen"])


if __name__ == "__main__":
    sys.exit(main())
