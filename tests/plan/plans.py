"""Small plans written by hand: a product of two matrices, and attention in FA3's order."""

from __future__ import annotations

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import (
    Advance,
    ArriveEmpty,
    Bound,
    Buffer,
    Compute,
    Cursor,
    Descriptor,
    Element,
    Expect,
    FenceAsync,
    For,
    Fragment,
    FragmentOperand,
    GroupSync,
    If,
    Init,
    Map,
    MapDim,
    MapParam,
    Mask,
    Mma,
    MmaCommit,
    MmaFence,
    MmaWait,
    Operation,
    OrderPass,
    OrderStart,
    OrderWait,
    Plan,
    PointerParam,
    QuadReduce,
    Relayout,
    Ring,
    RolePlan,
    RowFold,
    ScalarParam,
    SetRegisters,
    SizeParam,
    Slot,
    SlotOperand,
    StoreCommit,
    StoreVector,
    StoreWait,
    StrideParam,
    TensorShape,
    TmaLoad,
    TmaStore,
    Value,
    WaitEmpty,
    WaitFull,
    Work,
    WriteShared,
)
from tilegen.ir.uniform import Int, Sym, Uniform, op
from tilegen.syntax.span import Span

BF16, F32 = DType.BF16, DType.F32
ZERO = Int(0)


def at(line: int) -> Span:
    return Span("sample.tile", line, 3, line, 20)


def matrix(name: str, line: int, rows: int) -> Descriptor:
    """Boxes of 64 columns x `rows` rows of a matrix."""
    return Descriptor(name, name, (MapDim(1, 64), MapDim(0, rows)), 128, "zero", name == "C", at(line))


def operand(
    slot: Slot, offsets: tuple[int, ...], warpgroup: int = 0, major: str = "k", leading: int = 16
) -> SlotOperand:
    return SlotOperand(slot, major, offsets, warpgroup, leading, 1024, 128)


def gemm(stages: int = 2, consumers: int = 2) -> Plan:
    """C[M, N] = A[M, K] B[N, K]^T in blocks of (64 * consumers) x 64 x 64, bf16, stored by TMA; persistent."""
    block_m = 64 * consumers
    a_bytes, b_bytes, c_bytes = block_m * 128, 64 * 128, 64 * 128
    b_at = stages * a_bytes
    c_at = b_at + stages * b_bytes
    barriers = c_at + c_bytes * consumers
    steps = op("ceildiv", "K", 64)
    tiles_n = op("ceildiv", "N", 64)
    total = op("mul", op("ceildiv", "M", block_m), tiles_n)
    m0 = op("mul", op("floordiv", "item", tiles_n), block_m)
    n0 = op("mul", op("mod", "item", tiles_n), 64)
    k0 = op("mul", "t", 64)

    a, b = Slot("a", "pa"), Slot("b", "pb")
    produce = Work(
        "item",
        total,
        "static",
        (
            For(
                "t",
                ZERO,
                steps,
                (
                    WaitEmpty(a, at(5), "a"),
                    Expect(a, a_bytes, at(5), "a"),
                    TmaLoad("A", (k0, m0), a, 0, a_bytes, at(5), "a"),
                    Advance("pa", at(5), "a"),
                    WaitEmpty(b, at(6), "b"),
                    Expect(b, b_bytes, at(6), "b"),
                    TmaLoad("B", (k0, n0), b, 0, b_bytes, at(6), "b"),
                    Advance("pb", at(6), "b"),
                ),
                "stream k",
                at(7),
            ),
        ),
        at(4),
    )
    ca, cb = Slot("a", "ca"), Slot("b", "cb")
    offsets = (0, 32, 64, 96)
    consume = Work(
        "item",
        total,
        "static",
        (
            Init("c", 0.0, at(7), "C"),
            For(
                "t",
                ZERO,
                steps,
                (
                    WaitFull(ca, at(7), "C"),
                    WaitFull(cb, at(7), "C"),
                    MmaFence(at(7), "C"),
                    Mma("t0", "c", operand(ca, offsets, 8192), operand(cb, offsets), 64, BF16, False, at(7), "C"),
                    MmaCommit(("t0",), at(7), "C"),
                    MmaWait(0, ("t0",), at(7), "C"),
                    ArriveEmpty(ca, at(7), "C"),
                    Advance("ca", at(7), "C"),
                    ArriveEmpty(cb, at(7), "C"),
                    Advance("cb", at(7), "C"),
                ),
                "stream k",
                at(7),
            ),
            StoreWait(0, True, at(7), "C"),
            GroupSync(1, at(7), "C"),
            WriteShared("c_out", "c", at(7), "C"),
            FenceAsync(at(7), "C"),
            GroupSync(1, at(7), "C"),
            TmaStore("C", (n0, op("add", m0, op("mul", "warpgroup", 64))), "c_out", 0, c_bytes, at(7), "C"),
            StoreCommit(at(7), "C"),
        ),
        at(4),
    )
    split = {1: None, 2: 240, 3: 160}[consumers]
    dims: dict[str, tuple[Uniform, ...]] = {
        "A": (Sym("M"), Sym("K")),
        "B": (Sym("N"), Sym("K")),
        "C": (Sym("M"), Sym("N")),
    }
    return Plan(
        name="gemm",
        target="hopper",
        source_name="sample.tile",
        params=(
            *(MapParam(t) for t in "ABC"),
            *(SizeParam(s) for s in "MNK"),
        ),
        tensors=tuple(TensorShape(t, BF16, dims[t], t == "C") for t in "ABC"),
        descriptors=(matrix("A", 5, block_m), matrix("B", 6, 64), matrix("C", 7, 64)),
        buffers=(
            Buffer("a", BF16, block_m, 64, 64, 128, 128, 0, a_bytes, stages, 1, None, at(5)),
            Buffer("b", BF16, 64, 64, 64, 128, 128, b_at, b_bytes, stages, 1, None, at(6)),
            Buffer("c_out", BF16, 64, 64, 64, 128, 128, c_at, c_bytes, 1, consumers, None, at(7)),
        ),
        rings=(
            Ring("a", "a", stages, 1, barriers, barriers + 8 * stages, 1, consumers, "warpgroup", a_bytes, at(5)),
            Ring(
                "b",
                "b",
                stages,
                1,
                barriers + 16 * stages,
                barriers + 24 * stages,
                1,
                4 * consumers,
                "warp",
                b_bytes,
                at(6),
            ),
        ),
        roles=(
            RolePlan(
                "producer",
                "producer",
                0,
                1,
                split and 24,
                True,
                (Cursor("pa", "a"), Cursor("pb", "b")),
                (),
                (*((SetRegisters(24, False, at(4)),) if split else ()), produce),
            ),
            RolePlan(
                "consumer",
                "consumer",
                1,
                consumers,
                split,
                False,
                (Cursor("ca", "a"), Cursor("cb", "b")),
                (Fragment("c", "acc", 64, 64, F32, "c", at(7)),),
                (
                    *((SetRegisters(split, True, at(4)),) if split else ()),
                    consume,
                    StoreWait(0, True, at(7), "C"),
                ),
            ),
        ),
        threads=128 * (consumers + 1),
        shared_bytes=barriers + 32 * stages,
        registers_at_entry={1: 255, 2: 168, 3: 128}[consumers],
        grid=op("min", "sm_count", total),
    )


def attention() -> Plan:
    """O, LSE of one head of Q[Sq, 64], K, V[Sk, 64]: two consumers of 64 rows, keys in blocks of 64, two stages,
    s of the next step issued before O of this one, softmax under O, turns; O is stored through q's bytes."""
    q_bytes = kv_bytes = 64 * 128
    k_at, v_at = 2 * q_bytes, 2 * q_bytes + 2 * kv_bytes
    barriers = v_at + 2 * kv_bytes
    blocks = op("ceildiv", "Sk", 64)
    total = op("ceildiv", "Sq", 128)
    row0 = op("mul", "item", 128)
    my_row = op("add", row0, op("mul", "warpgroup", 64))

    def load(tensor: str, slot: Slot, row: Uniform, line: int) -> tuple[Operation, ...]:
        return (
            WaitEmpty(slot, at(line), slot.ring),
            Expect(slot, 8192, at(line), slot.ring),
            TmaLoad(tensor, (ZERO, row), slot, 0, 8192, at(line), slot.ring),
        )

    produce: tuple[Operation, ...] = (
        *load("Q", Slot("q", "pq", 0), row0, 8),
        *load("Q", Slot("q", "pq", 1), op("add", row0, 64), 8),
        Advance("pq", at(8), "q"),
        For(
            "t",
            ZERO,
            blocks,
            (
                *load("K", Slot("k", "pk"), op("mul", "t", 64), 9),
                Advance("pk", at(9), "k"),
                *load("V", Slot("v", "pv"), op("mul", "t", 64), 10),
                Advance("pv", at(10), "v"),
            ),
            "",
            at(13),
        ),
    )

    q, k, v = Slot("q", "cq"), Slot("k", "ck"), Slot("v", "cv")
    four = (0, 32, 64, 96)
    lines = (0, 2048, 4096, 6144)

    def scores() -> tuple[Operation, ...]:
        return (
            WaitFull(k, at(12), "s"),
            OrderWait(1, at(12), "s"),
            MmaFence(at(12), "s"),
            Mma("ts", "s", operand(q, four), operand(k, four), 64, BF16, True, at(12), "s"),
            MmaCommit(("ts",), at(12), "s"),
        )

    def output() -> tuple[Operation, ...]:
        return (
            WaitFull(v, at(14), "O"),
            MmaFence(at(14), "O"),
            Mma("to", "o", FragmentOperand("pa"), operand(v, lines, 0, "mn", 8192), 64, BF16, False, at(14), "O"),
            MmaCommit(("to",), at(14), "O"),
        )

    def softmax() -> tuple[Operation, ...]:
        score, new = Element("s"), Element("m")
        return (
            RowFold("mb", "s", "max", "quad", at(13), "p"),
            Map("mb", Compute("max", (new, Element("mb"))), at(13), "p"),
            Map("alpha", Compute("ex2", (Compute("sub", (new, Element("mb"))),)), at(13), "p"),
            Map("m", Element("mb"), at(13), "p"),
            Map("s", Compute("ex2", (Compute("fma", (score, Value("scale"), Compute("neg", (new,)))),)), at(13), "p"),
            RowFold("r", "s", "sum", "thread", at(13), "p"),
            Map("z", Compute("fma", (Element("z"), Element("alpha"), Element("r"))), at(13), "p"),
        )

    release_k = (ArriveEmpty(k, at(12), "s"), Advance("ck", at(12), "s"))
    release_v = (ArriveEmpty(v, at(14), "O"), Advance("cv", at(14), "O"))
    rescale = Map("o", Compute("mul", (Element("o"), Element("alpha"))), at(14), "O")
    mask = Mask(
        "s",
        ((Bound(0, -1, op("sub", "Sk", 1)),),),
        float("-inf"),
        at(12),
        "s",
    )
    consume: tuple[Operation, ...] = (
        Init("o", 0.0, at(14), "O"),
        Init("m", float("-inf"), at(13), "p"),
        Init("z", 0.0, at(13), "p"),
        WaitFull(q, at(8), "q"),
        If(
            op("gt", blocks, 0),
            (
                *scores(),
                OrderPass(1, at(12), "s"),
                MmaWait(0, ("ts",), at(12), "s"),
                *release_k,
                mask,
                *softmax(),
                Relayout("pa", "s", at(14), "O"),
                For(
                    "t",
                    Int(1),
                    blocks,
                    (
                        *scores(),
                        *output(),
                        OrderPass(1, at(14), "O"),
                        MmaWait(1, ("ts",), at(12), "s"),
                        *release_k,
                        *softmax(),
                        MmaWait(0, ("to",), at(14), "O"),
                        *release_v,
                        rescale,
                        Relayout("pa", "s", at(14), "O"),
                    ),
                    "inside",
                    at(13),
                ),
                *output(),
                MmaWait(0, ("to",), at(14), "O"),
                *release_v,
            ),
            at(13),
        ),
        QuadReduce("z", "sum", at(13), "p"),
        Map("o", Compute("ratio", (Element("o"), Element("z"))), at(14), "O"),
        WriteShared("o_out", "o", at(14), "O"),
        FenceAsync(at(14), "O"),
        GroupSync(4, at(14), "O"),
        TmaStore("O", (ZERO, my_row), "o_out", 0, 8192, at(14), "O"),
        StoreCommit(at(14), "O"),
        Map("m", Compute("add", (Element("m"), Compute("lg2", (Element("z"),)))), at(15), "LSE"),
        StoreVector("m", "LSE", (my_row,), 0, Sym("Sq"), at(15), "LSE"),
        StoreWait(0, True, at(14), "O"),
        ArriveEmpty(q, at(8), "q"),
        Advance("cq", at(8), "q"),
    )

    def ring(name: str, buffer: str, depth: int, parts: int, index: int, arrivals: int, line: int) -> Ring:
        base = barriers + 64 * index
        return Ring(name, buffer, depth, parts, base, base + 32, 1, arrivals, "warpgroup", 8192, at(line))

    def fragment(name: str, layout: str, line: int, dtype: DType = F32) -> Fragment:
        return Fragment(name, layout, 64, 1 if layout == "row" else 64, dtype, name, at(line))

    def head(name: str, line: int) -> Descriptor:
        return Descriptor(name, name, (MapDim(1, 64), MapDim(0, 64)), 128, "zero", name == "O", at(line))

    def buffer(name: str, offset: int, stages: int, parts: int, host: str | None, line: int) -> Buffer:
        return Buffer(name, BF16, 64, 64, 64, 128, 128, offset, 8192, stages, parts, host, at(line))

    def shape(name: str, rows: str) -> TensorShape:
        return TensorShape(name, BF16, (Sym(rows), Int(64)), name == "O")

    work = op("min", "sm_count", total)
    return Plan(
        name="attention",
        target="hopper",
        source_name="sample.tile",
        params=(
            *(MapParam(t) for t in "QKVO"),
            SizeParam("Sq"),
            SizeParam("Sk"),
            ScalarParam("scale"),
            PointerParam("LSE"),
            StrideParam("LSE", 0),
        ),
        tensors=(
            shape("Q", "Sq"),
            shape("K", "Sk"),
            shape("V", "Sk"),
            shape("O", "Sq"),
            TensorShape("LSE", F32, (Sym("Sq"),), True),
        ),
        descriptors=(head("Q", 8), head("K", 9), head("V", 10), head("O", 14)),
        buffers=(
            buffer("q", 0, 1, 2, None, 8),
            buffer("o_out", 0, 1, 2, "q", 14),
            buffer("k", k_at, 2, 1, None, 9),
            buffer("v", v_at, 2, 1, None, 10),
        ),
        rings=(
            ring("q", "q", 1, 2, 0, 1, 8),
            ring("k", "k", 2, 1, 1, 2, 9),
            ring("v", "v", 2, 1, 2, 2, 10),
        ),
        roles=(
            RolePlan(
                "producer",
                "producer",
                0,
                1,
                24,
                True,
                (Cursor("pq", "q"), Cursor("pk", "k"), Cursor("pv", "v")),
                (),
                (SetRegisters(24, False, at(7)), Work("item", total, "static", produce, at(7))),
            ),
            RolePlan(
                "consumer",
                "consumer",
                1,
                2,
                240,
                False,
                (Cursor("cq", "q"), Cursor("ck", "k"), Cursor("cv", "v")),
                (
                    fragment("o", "acc", 14),
                    fragment("s", "acc", 12),
                    fragment("pa", "a", 14, BF16),
                    *(fragment(n, "row", 13) for n in ("m", "mb", "z", "r", "alpha")),
                ),
                (
                    SetRegisters(240, True, at(7)),
                    OrderStart(1, at(14), "O"),
                    Work("item", total, "static", consume, at(7)),
                ),
            ),
        ),
        threads=384,
        shared_bytes=barriers + 192,
        registers_at_entry=168,
        grid=work,
        notes=("q's bytes serve O as well",),
    )
