"""Builds for sm_80, without TMA and wgmma, beside those for Hopper and what torch brings, on the same GPU.

python benchmarks/sm80.py                                  fa3_fwd at D = 128, beside FA2, which has the same means
python benchmarks/sm80.py gemm                             gemm, beside cuBLAS
python benchmarks/sm80.py --schedule "block i 192, j 64  consumers 3 over i"   with another schedule for sm_80
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.builds import SAMPLES, Request, sample
from benchmarks.contest import contestants, finished, parser, requested, say, settings, temporary_folder
from benchmarks.providers import Requested
from tilegen.bench.contest import compete
from tilegen.bench.peers import Matmul, Provider, Sdpa
from tilegen.bench.suites import MASKS, attention_cells
from tilegen.bench.workloads import Gemm

OURS = "sm_80"


def for_sm80(schedule: str, workload: Any) -> Request:
    """The sample for sm_80, with a schedule of its own if one is given."""
    plain = sample(workload.spec, **workload.params)
    if not schedule:
        return Request(plain.spec, plain.params, target=OURS)
    text = (SAMPLES / f"{workload.spec}.tile").read_text(encoding="utf-8")
    end = text.rindex("}")
    own = f"{text[:end]}\n  schedule {OURS} {{ {schedule} }}\n}}\n"
    return Request(own, plain.params, gated=False, target=OURS)  # to be timed even if some registers are spilled


def main() -> int:
    p = parser("Times builds for sm_80 beside those for Hopper.")
    p.add_argument("kernel", nargs="?", default="attention", choices=["attention", "gemm"])
    p.add_argument("-D", type=int, nargs="+", default=[128], help="head sizes")
    p.add_argument("-S", type=int, nargs="+", default=[2048, 8192], help="sequence lengths")
    p.add_argument("--mask", nargs="+", default=list(MASKS), choices=list(MASKS), help="masks")
    p.add_argument("--schedule", action="append", default=[], help="directives of a schedule for sm_80 to time as well")
    options = p.parse_args()
    s = settings(options)
    names: dict[str, Requested] = {OURS: partial(for_sm80, "")}
    names |= {f"schedule {n + 1}": partial(for_sm80, text) for n, text in enumerate(options.schedule)}
    names["hopper"] = requested
    cells: list[Any] = attention_cells(options.D, options.S, options.mask)
    others: list[Provider] = [Sdpa("FA2", "FLASH_ATTENTION")]
    if options.kernel == "gemm":
        cells, others = [Gemm(4096, 4096, 4096), Gemm(8192, 8192, 8192)], [Matmul()]
    with temporary_folder() as made:
        ours = contestants(names, cells, Path(made), options, s.seed)
        stem = f"sm80-{options.kernel}"
        report = compete(f"Builds for sm_80: {options.kernel}", stem, cells, [*ours, *others], OURS, s, say)
    print(report.text())
    return finished(report, [OURS])


if __name__ == "__main__":
    sys.exit(main())
