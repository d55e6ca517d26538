"""The named benchmarks: their cells, and who competes in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tilegen.bench.peers import Matmul, Provider, attention_peers
from tilegen.bench.workloads import Attention, Gemm

SIZES = [64, 128, 256]
LENGTHS = [2048, 8192, 16384]
MASKS = {"full": False, "causal": True}
PRODUCTS = [(8192, 8192, 8192), (4096, 4096, 1024)]


def attention_cells(
    sizes: Sequence[int] = SIZES,
    lengths: Sequence[int] = LENGTHS,
    masks: Sequence[str] = tuple(MASKS),
    types: Sequence[str] = ("bf16",),
    groups: Sequence[int] = (1,),
) -> list[Attention]:
    """Every combination, in the order of the columns: by default the 18 cells."""
    return [Attention(D, S, MASKS[mask], T, G) for T, G, D, S, mask in product(types, groups, sizes, lengths, masks)]


def more_attention_cells(sizes: Sequence[int] = SIZES, masks: Sequence[str] = tuple(MASKS)) -> list[Attention]:
    """The other rows: short and middle lengths, eight query heads a key head, f16."""
    return [
        *attention_cells(sizes, [512, 1024, 4096], masks),
        *attention_cells(sizes, [8192], masks, groups=[8]),
        *attention_cells(sizes, [8192, 16384], masks, types=["f16"]),
    ]


def gemm_cells(sizes: Sequence[tuple[int, int, int]] = PRODUCTS, types: Sequence[str] = ("bf16",)) -> list[Gemm]:
    return [Gemm(*each, T=T) for T in types for each in sizes]


@dataclass(frozen=True)
class Suite:
    """title: of the report · cells · peers: anew for each run; `flex`: FlexAttention, which torch compiles long."""

    title: str
    cells: Callable[[], Sequence[Attention | Gemm]]
    peers: Callable[[bool], list[Provider]]


SUITES: Mapping[str, Suite] = {
    "attention": Suite("Attention forward", attention_cells, lambda flex: attention_peers(flex=flex)),
    "gemm": Suite("Matrix product", gemm_cells, lambda flex: [Matmul()]),
}


def counterpart(kernel: str, params: Mapping[str, object], sizes: Mapping[str, object]) -> Attention | Gemm | None:
    """The workload that a kernel with these parameters and sizes is, where one of the suites knows its peers."""
    match kernel, sizes:
        case "fa3_fwd", {"B": int(B), "Sq": int(S), "Sk": int(Sk), "Hk": int(Hk), "G": int(G)} if Sk == S and S > 0:
            D = int(str(params["D"]))
            found = Attention(D, S, bool(params["causal"]), str(params["T"]), G, tokens=B * S, hidden=Hk * G * D)
            return found if found.B == B else None
        case "gemm", {"M": int(M), "N": int(N), "K": int(K)}:
            return Gemm(M, N, K, T=str(params["T"]))
    return None


def peers_of(workload: Attention | Gemm, flex: bool) -> list[Provider]:
    return SUITES["attention" if isinstance(workload, Attention) else "gemm"].peers(flex)
