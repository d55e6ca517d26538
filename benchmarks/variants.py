"""Schedules of one sample against each other and against its own: one line each, best first.

    python benchmarks/variants.py fa3_fwd FILE -D 128 -S 8192 --mask causal
    python benchmarks/variants.py gemm FILE --size 8192,8192,8192

FILE holds schedules, each below a line `=== NAME`, without the words `schedule hopper { }` around them:

    === wide
    block i 192, j [80|96|112]
    consumers 3 over i
    stages k [2|3], v 2

Alternatives in brackets make a schedule of every combination (here six). A line `=== NAME if D=64 causal=true` limits
a schedule to kernels with these parameters; of several with one name the first that is for a kernel competes. The
sample's own schedule competes as "own", and cuBLAS beside those of a product.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.builds import Request
from benchmarks.contest import contestants, parser, requested, say, settings, temporary_folder
from benchmarks.gemm import size
from benchmarks.providers import OTHER_KERNELS, Requested
from tilegen.bench.contest import compete
from tilegen.bench.peers import Matmul
from tilegen.bench.report import Report, aligned, paired, tflops
from tilegen.bench.suites import LENGTHS, MASKS, PRODUCTS, attention_cells, gemm_cells
from tilegen.syntax.reading import read_source
from tilegen.tune.spelling import with_schedule

OWN = "own"


@dataclass(frozen=True)
class Variant:
    """The directives of one schedule, and the parameters it is for."""

    name: str
    directives: str
    only: tuple[tuple[str, str], ...] = ()

    def serves(self, workload: Any) -> bool:
        params = {name: str(value).lower() for name, value in workload.params.items()}
        return all(params.get(name) == value.lower() for name, value in self.only)


def read_variants(text: str) -> list[Variant]:
    """The schedules of a FILE, alternatives spelt out. Raises ValueError for text before the first `===`."""
    before, *parts = re.split(r"^===[ \t]*(.*)$", text, flags=re.M)
    if before.strip() or not parts:
        raise ValueError("the file does not begin with a line `=== NAME`")
    found = []
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        name, _, condition = head.partition(" if ")
        only = tuple(tuple(word.split("=", 1)) for word in condition.split())
        if any(len(pair) != 2 for pair in only):
            raise ValueError(f"`{condition}` is not NAME=VALUE …")
        found += [Variant(" ".join([name.strip(), *chosen]), text, only) for chosen, text in _spelt_out(body.strip())]
    return found


def _spelt_out(body: str) -> list[tuple[list[str], str]]:
    """Every combination of the bracketed alternatives: what was chosen, and the text."""
    pieces = re.split(r"\[([^\]]*\|[^\]]*)\]", body)
    choices = [[c.strip() for c in piece.split("|")] for piece in pieces[1::2]]
    out = []
    for chosen in product(*choices):
        text = "".join(a + b for a, b in zip(pieces[::2], [*chosen, ""], strict=True))
        out.append((list(chosen), text))
    return out


def by_name(variants: Sequence[Variant], workloads: Sequence[Any]) -> dict[str, list[Variant]]:
    """Those that are for one of the workloads. Raises ValueError where a name is the sample's own schedule's, and where
    a variant comes behind one of its name that is for all it is for."""
    found: dict[str, list[Variant]] = {}
    for v in variants:
        if v.name == OWN or any(set(w.only) <= set(v.only) for w in found.get(v.name, [])):
            raise ValueError(f"`{v.name}` is taken")
        if any(v.serves(w) for w in workloads):
            found.setdefault(v.name, []).append(v)
    return found


def request_of(variants: Sequence[Variant], workload: Any) -> Request | None:
    """None where the variants, all of one name, are for other kernels."""
    variant = next((v for v in variants if v.serves(workload)), None)
    if variant is None:
        return None
    own = own_request(workload)
    return replace(own, spec=with_schedule(read_source(own.spec), variant.directives).text)


def own_request(workload: Any) -> Request:
    """Ungated: a schedule whose machine code is not as planned is timed all the same, and said to be so."""
    return replace(requested(workload), gated=False)


def ranking(report: Report, notes: Callable[[str, Any], str]) -> list[str]:
    """For each workload a line a schedule, fastest first: TFLOP/s, how many times as fast as `own`, error, notes."""
    lines = []
    for cell in report.cells:
        own = cell.samples.get(OWN, [])
        rows = [["schedule", "TFLOP/s", "/ own", "error", ""]]
        competing = [n for n in report.names if cell.absent.get(n) != OTHER_KERNELS]
        for name in sorted(competing, key=lambda n: -(tflops(cell, n) or 0.0)):
            speed = tflops(cell, name)
            ratio = paired(cell.samples.get(name, []), own)
            rows.append([
                name, "–" if speed is None else f"{speed:.1f}", str(ratio or "–"),
                f"{cell.errors[name]['output']:.1e}" if name in cell.errors else "–",
                cell.absent.get(name) or notes(name, cell.workload),
            ])  # fmt: skip
        lines += [cell.workload.label, *aligned(rows), ""]
    return lines


def main() -> int:
    p = parser("Times schedules of a sample against each other on the GPU.")
    p.formatter_class = argparse.RawDescriptionHelpFormatter
    p.add_argument("sample", choices=["fa3_fwd", "gemm"])
    p.add_argument("files", type=Path, nargs="+", metavar="FILE", help="schedules, each below a line `=== NAME`")
    p.add_argument("-D", type=int, nargs="+", default=[128], help="head sizes")
    p.add_argument("-S", type=int, nargs="+", default=LENGTHS[1:2], help="sequence lengths")
    p.add_argument("-T", nargs="+", default=["bf16"], choices=["bf16", "f16"], help="types")
    p.add_argument("--mask", nargs="+", default=list(MASKS), choices=list(MASKS), help="masks")
    p.add_argument("--size", type=size, action="append", metavar="M,N,K", help="of a product")
    p.set_defaults(rounds=3)
    options = p.parse_args()
    s = settings(options)
    cells: Sequence[Any] = gemm_cells(options.size or PRODUCTS, options.T)
    if options.sample == "fa3_fwd":
        cells = attention_cells(options.D, options.S, options.mask, options.T)
    try:
        read = [v for file in options.files for v in read_variants(file.read_text(encoding="utf-8"))]
        variants = by_name(read, cells)
    except (OSError, ValueError) as e:
        p.error(str(e))
    with temporary_folder() as made:
        names: dict[str, Requested] = {OWN: own_request}
        names |= {name: partial(request_of, found) for name, found in variants.items()}
        providers = {p.name: p for p in contestants(names, cells, Path(made), options, s.seed)}
        stem = f"variants-{options.sample}"
        peers = [Matmul()] if options.sample == "gemm" else []
        report = compete(f"Schedules of {options.sample}", stem, cells, [*providers.values(), *peers], OWN, s, say)

        def notes(name: str, workload: Any) -> str:
            built = providers[name].build(workload) if name in providers else None
            return built.summary() if built else ""

        print("\n".join(ranking(report, notes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
