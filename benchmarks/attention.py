"""Attention forward, tilegen's samples/fa3_fwd.tile beside what comes with torch and the hand-written kernels.

python benchmarks/attention.py --reference DIR                   the 18 cells: D × S × mask, bf16, 16384 tokens
python benchmarks/attention.py -D 128 -S 8192 --mask causal -T f16 -G 8
python benchmarks/attention.py --more                            S = 512, 1024, 4096, then G = 8 and f16 as well
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contest import (
    compete,
    contestants,
    finished,
    parser,
    requested,
    say,
    settings,
    temporary_folder,
    yardstick_cubins,
)
from benchmarks.providers import Flex, Provider, Sdpa, Yardstick
from benchmarks.workloads import Attention

LENGTHS = [2048, 8192, 16384]
MASKS = {"full": False, "causal": True}


def workloads(
    sizes: list[int], lengths: list[int], masks: list[str], types: list[str], groups: list[int]
) -> list[Attention]:
    """Every combination, in the order of the columns."""
    every = product(types, groups, sizes, lengths, masks)
    return [Attention(D, S, MASKS[mask], T, G) for T, G, D, S, mask in every]


def more(sizes: list[int], masks: list[str]) -> list[Attention]:
    """The other rows: short and middle lengths, eight query heads a key head, f16."""
    return [
        *workloads(sizes, [512, 1024, 4096], masks, ["bf16"], [1]),
        *workloads(sizes, [8192], masks, ["bf16"], [8]),
        *workloads(sizes, [8192], masks, ["f16"], [1]),
    ]


def main() -> int:
    p = parser("Times attention forward on the GPU beside its peers.")
    p.add_argument("-D", type=int, nargs="+", default=[64, 128, 256], help="head sizes")
    p.add_argument("-S", type=int, nargs="+", default=LENGTHS, help="sequence lengths")
    p.add_argument("-T", nargs="+", default=["bf16"], choices=["bf16", "f16"], help="types")
    p.add_argument("-G", type=int, nargs="+", default=[1], help="query heads a key head")
    p.add_argument("--mask", nargs="+", default=list(MASKS), choices=list(MASKS), help="masks")
    p.add_argument("--more", action="store_true", help="add S = 512, 1024, 4096, and S = 8192 with G = 8 and with f16")
    p.add_argument("--flex", action="store_true", help="FlexAttention as well; torch compiles it for many seconds")
    p.add_argument("--no-fa2", action="store_true", help="leave FA2 out")
    p.add_argument("--reference", type=Path, help="folder of reference.py and its kernels, to be timed as well")
    options = p.parse_args()
    s = settings(options)
    cells = workloads(options.D, options.S, options.mask, options.T, options.G)
    cells += [w for w in more(options.D, options.mask) if options.more and w not in cells]
    with temporary_folder() as made:
        folder = Path(made)
        others: list[Provider] = [Sdpa("cuDNN", "CUDNN_ATTENTION")]
        others += [] if options.no_fa2 else [Sdpa("FA2", "FLASH_ATTENTION")]
        others += [Flex()] if options.flex else []
        if options.reference:
            kernels = [(w.D, w.causal, w.T) for w in cells if w.G == 1]
            others.append(Yardstick(options.reference, yardstick_cubins(options.reference, kernels, folder / "cubins")))
            say("the hand-written kernels are compiled")
        ours = contestants({"tilegen": requested}, cells, folder, s)
        report = compete("Attention forward", "attention", cells, [*ours, *others], "tilegen", s)
    print(report.text())
    return finished(report, ["tilegen"])


if __name__ == "__main__":
    sys.exit(main())
