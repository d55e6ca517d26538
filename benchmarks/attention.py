"""Attention forward, tilegen's samples/fa3_fwd.tile beside all peers that are installed and the hand-written kernels.

python benchmarks/attention.py --reference DIR                   the 18 cells: D × S × mask, bf16, 16384 tokens
python benchmarks/attention.py -D 128 -S 8192 --mask causal -T f16 -G 8
python benchmarks/attention.py --more                            S = 512, 1024, 4096, then G = 8 and f16 as well
python benchmarks/attention.py -D 64 --budget 170                a part that fits a short run; benchmarks/merge.py joins
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contest import (
    contestants,
    finished,
    parser,
    requested,
    say,
    settings,
    temporary_folder,
    yardstick_cubins,
)
from benchmarks.providers import Yardstick
from tilegen.bench.contest import compete
from tilegen.bench.peers import Provider, attention_peers
from tilegen.bench.suites import LENGTHS, MASKS, SIZES, attention_cells, more_attention_cells


def main() -> int:
    p = parser("Times attention forward on the GPU beside its peers.")
    p.add_argument("-D", type=int, nargs="+", default=SIZES, help="head sizes")
    p.add_argument("-S", type=int, nargs="+", default=LENGTHS, help="sequence lengths")
    p.add_argument("-T", nargs="+", default=["bf16"], choices=["bf16", "f16"], help="types")
    p.add_argument("-G", type=int, nargs="+", default=[1], help="query heads a key head")
    p.add_argument("--mask", nargs="+", default=list(MASKS), choices=list(MASKS), help="masks")
    p.add_argument("--more", action="store_true", help="add S = 512, 1024, 4096, then G = 8 and f16")
    p.add_argument("--flex", action="store_true", help="FlexAttention as well; torch compiles it for many seconds")
    p.add_argument("--no-fa2", action="store_true", help="leave FA2 out")
    p.add_argument("--reference", type=Path, help="folder of reference.py and its kernels, to be timed as well")
    options = p.parse_args()
    s = settings(options)
    cells = attention_cells(options.D, options.S, options.mask, options.T, options.G)
    cells += [w for w in more_attention_cells(options.D, options.mask) if options.more and w not in cells]
    with temporary_folder() as made:
        folder = Path(made)
        others: list[Provider] = attention_peers(flex=options.flex, fa2=not options.no_fa2)
        if options.reference:
            kernels = [(w.D, w.causal, w.T) for w in cells if w.G == 1]
            cubins = yardstick_cubins(options.reference, kernels, folder / "cubins")
            others.append(Yardstick("by hand", options.reference, cubins))
            say("the hand-written kernels are compiled")
        ours = contestants({"tilegen": requested}, cells, folder, options, s.seed)
        report = compete("Attention forward", "attention", cells, [*ours, *others], "tilegen", s, say)
    print(report.text())
    return finished(report, ["tilegen"])


if __name__ == "__main__":
    sys.exit(main())
