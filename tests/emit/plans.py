"""Plans written by hand, small enough to read: a copy, a GEMM, an attention forward."""

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
    ElementExpr,
    Expect,
    FenceAsync,
    For,
    Fragment,
    FragmentOperand,
    GroupSync,
    If,
    Init,
    Let,
    Literal,
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
    ReadShared,
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
    StoreRows,
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
from tilegen.ir.uniform import Int, Sym, Uniform, as_uniform, op
from tilegen.syntax.span import Span


def at(line: int, file: str = "hand.tile") -> Span:
    return Span(file, line, 1, line, 10)


def tiles(extent: str, block: int) -> Uniform:
    return op("ceildiv", extent, block)


def apply(name: str, *args: ElementExpr) -> Compute:
    return Compute(name, args)


def copy_plan(dtype: DType = DType.BF16, cols: int = 64, swizzle: int = 128) -> Plan:
    """Y = X for [M, N], by tiles of 128 x cols, TMA in and out, two consumer warpgroups of 64 rows."""
    chunk = min(cols, (swizzle or cols * dtype.bytes) // dtype.bytes)
    line, s = chunk * dtype.bytes, at(4)
    size = 128 * cols * dtype.bytes
    dims = (MapDim(1, chunk), MapDim(0, 64))
    load = Descriptor("x", "X", (MapDim(1, chunk), MapDim(0, 128)), swizzle, "zero", False, s)
    store = Descriptor("y", "Y", dims, swizzle, "zero", True, s)
    x = Buffer("x", dtype, 128, cols, chunk, line, swizzle, 0, size, 2, 1, None, s)
    y = Buffer("y", dtype, 64, cols, chunk, line, swizzle, 2 * size, size // 2, 1, 2, None, s)
    ring = Ring("x", "x", 2, 1, 3 * size, 3 * size + 16, 1, 8, "warp", size, s)
    total = op("mul", tiles("M", 128), tiles("N", cols))
    where = (
        Let("row", op("mul", op("mod", "w", tiles("M", 128)), 128), s),
        Let("column", op("mul", op("floordiv", "w", tiles("M", 128)), cols), s),
    )
    slot = Slot("x", "x")
    boxes = range(cols // chunk)
    load_bytes, store_bytes = 128 * line, 64 * line
    producer: tuple[Operation, ...] = (
        SetRegisters(24, False, s),
        Work("w", total, "static", (
            *where,
            WaitEmpty(slot, s),
            Expect(slot, size, s),
            *(
                TmaLoad("x", (op("add", "column", n * chunk), Sym("row")), slot, n * load_bytes, load_bytes, s)
                for n in boxes
            ),
            Advance("x", s),
        ), s),
    )  # fmt: skip
    own_row = op("add", "row", op("mul", "warpgroup", 64))
    consumer: tuple[Operation, ...] = (
        SetRegisters(240, True, s),
        Work("w", total, "static", (
            *where,
            WaitFull(slot, s),
            ReadShared("v", slot, 64, s),
            ArriveEmpty(slot, s),
            Advance("x", s),
            StoreWait(0, True, s),
            GroupSync(1, s),
            WriteShared("y", "v", s),
            FenceAsync(s),
            GroupSync(1, s),
            *(
                TmaStore("y", (op("add", "column", n * chunk), own_row), "y", n * store_bytes, store_bytes, s)
                for n in boxes
            ),
            StoreCommit(s),
        ), s),
        StoreWait(0, False, s),
    )  # fmt: skip
    shape = (Sym("M"), Sym("N"))
    return Plan(
        name="copy",
        target="hopper",
        source_name="copy.tile",
        params=(MapParam("x"), MapParam("y"), SizeParam("M"), SizeParam("N")),
        tensors=(TensorShape("X", dtype, shape, False), TensorShape("Y", dtype, shape, True)),
        descriptors=(load, store),
        buffers=(x, y),
        rings=(ring,),
        roles=(
            RolePlan("load", "producer", 0, 1, 24, True, (Cursor("x", "x"),), (), producer),
            RolePlan(
                "compute", "consumer", 1, 2, 240, False, (Cursor("x", "x"),),
                (Fragment("v", "acc", 64, cols, DType.F32, "v", s),), consumer,
            ),
        ),
        threads=384,
        shared_bytes=3 * size + 32,
        registers_at_entry=168,
        grid=op("min", total, "sm_count"),
    )  # fmt: skip


def gemm_plan(dtype: DType = DType.BF16) -> Plan:
    """C[M, N] = A[M, K] B[K, N], 128 x 256 x 64, ring of 4, two consumers over M; slot t-1 is freed at step t."""
    s, t = at(3, "gemm.tile"), at(4, "gemm.tile")
    a_bytes, b_bytes = 128 * 128, 64 * 512
    a = Buffer("a", dtype, 128, 64, 64, 128, 128, 0, a_bytes, 4, 1, None, s)
    b = Buffer("b", dtype, 64, 256, 64, 128, 128, 4 * a_bytes, b_bytes, 4, 1, None, s)
    end = 4 * (a_bytes + b_bytes)
    rings = (
        Ring("a", "a", 4, 1, end, end + 32, 1, 2, "warpgroup", a_bytes, s),
        Ring("b", "b", 4, 1, end + 64, end + 96, 1, 2, "warpgroup", b_bytes, s),
    )
    total = op("mul", tiles("M", 128), tiles("N", 256))
    steps = tiles("K", 64)
    where = (
        Let("row", op("mul", op("mod", "w", tiles("M", 128)), 128), s),
        Let("column", op("mul", op("floordiv", "w", tiles("M", 128)), 256), s),
    )
    at_a, at_b = Slot("a", "a"), Slot("b", "b")
    old_a, old_b = Slot("a", "a_read"), Slot("b", "b_read")
    producer: tuple[Operation, ...] = (
        SetRegisters(40, False, s),
        Work("w", total, "static", (
            *where,
            For("t", Int(0), steps, (
                WaitEmpty(at_a, s),
                Expect(at_a, a_bytes, s),
                TmaLoad("a", (op("mul", "t", 64), Sym("row")), at_a, 0, a_bytes, s),
                Advance("a", s),
                WaitEmpty(at_b, s),
                Expect(at_b, b_bytes, s),
                TmaLoad("b", (Int(0), op("mul", "t", 64), op("floordiv", "column", 64)), at_b, 0, b_bytes, s),
                Advance("b", s),
            ), "all blocks of k", s),
        ), s),
    )  # fmt: skip
    product = Mma(
        "c", "c",
        SlotOperand(at_a, "k", (0, 32, 64, 96), 64 * 128, 16, 1024, 128),
        SlotOperand(at_b, "mn", (0, 2048, 4096, 6144), 0, 64 * 128, 1024, 128),
        256, dtype, False, t, "C",
    )  # fmt: skip
    free = (ArriveEmpty(old_a, t), Advance("a_read", t), ArriveEmpty(old_b, t), Advance("b_read", t))
    own_row = op("add", "row", op("mul", "warpgroup", 64))
    consumer: tuple[Operation, ...] = (
        SetRegisters(232, True, s),
        Work("w", total, "static", (
            *where,
            Init("c", 0.0, t),
            For("t", Int(0), steps, (
                WaitFull(at_a, t),
                WaitFull(at_b, t),
                MmaFence(t),
                product,
                MmaCommit(("c",), t),
                Advance("a", t),
                Advance("b", t),
                MmaWait(1, (), t),
                If(op("gt", "t", 0), free, t),
            ), "all blocks of k", t),
            MmaWait(0, ("c",), t),
            If(op("gt", "K", 0), free, t),
            StoreRows("c", "C", (own_row, Sym("column")), 0, 1, Sym("M"), Sym("N"), 8, True, t),
        ), s),
    )  # fmt: skip
    return Plan(
        name="gemm",
        target="hopper",
        source_name="gemm.tile",
        params=(
            MapParam("a"), MapParam("b"), PointerParam("C"), StrideParam("C", 0),
            SizeParam("M"), SizeParam("N"), SizeParam("K"),
        ),
        tensors=(
            TensorShape("A", dtype, (Sym("M"), Sym("K")), False),
            TensorShape("B", dtype, (Sym("K"), Sym("N")), False),
            TensorShape("C", dtype, (Sym("M"), Sym("N")), True),
        ),
        descriptors=(
            Descriptor("a", "A", (MapDim(1, 64), MapDim(0, 128)), 128, "zero", False, s),
            Descriptor(
                "b", "B", (MapDim(1, 64, 64, "inner"), MapDim(0, 64), MapDim(1, 4, 64, "outer")),
                128, "zero", False, s,
            ),
        ),
        buffers=(a, b),
        rings=rings,
        roles=(
            RolePlan("load", "producer", 0, 1, 40, True, (Cursor("a", "a"), Cursor("b", "b")), (), producer),
            RolePlan(
                "multiply", "consumer", 1, 2, 232, False,
                (Cursor("a", "a"), Cursor("b", "b"), Cursor("a_read", "a"), Cursor("b_read", "b")),
                (Fragment("c", "acc", 64, 256, DType.F32, "c", t),), consumer,
            ),
        ),
        threads=384,
        shared_bytes=end + 128,
        registers_at_entry=168,
        grid=op("min", total, "sm_count"),
    )  # fmt: skip


ROWS, KEYS, HEAD = 192, 80, 128
SCALE, LOWEST = Value("scale_log2"), Literal(float("-inf"))


def attention_plan(dtype: DType = DType.BF16) -> Plan:
    """Causal attention, [B, S, H, 128], 192 queries x 80 keys, three consumers taking turns.

    At a step, O's product of the step before and s's of this one are one batch; the diagonal comes first.
    """
    s, p_line, o_line, lse_line = (at(n, "attention.tile") for n in (16, 17, 18, 19))
    q_line, k_line, v_line = (at(n, "attention.tile") for n in (12, 13, 14))
    tile, q_tile = KEYS * HEAD * 2, 64 * HEAD * 2
    k = Buffer("k", dtype, KEYS, HEAD, 64, 128, 128, 0, tile, 3, 1, None, k_line)
    v = Buffer("v", dtype, KEYS, HEAD, 64, 128, 128, 3 * tile, tile, 3, 1, None, v_line)
    q = Buffer("q", dtype, 64, HEAD, 64, 128, 128, 6 * tile, q_tile, 1, 3, None, q_line)
    bars = 6 * tile + 3 * q_tile
    rings = (
        Ring("k", "k", 3, 1, bars, bars + 24, 1, 3, "warpgroup", tile, k_line),
        Ring("v", "v", 3, 1, bars + 48, bars + 72, 1, 3, "warpgroup", tile, v_line),
        Ring("q", "q", 1, 3, bars + 96, bars + 120, 1, 1, "warpgroup", q_tile, q_line),
    )
    blocks = tiles("Sq", ROWS)
    total = op("mul", op("mul", blocks, "H"), "B")
    shift = op("sub", "Sk", "Sq")
    last_key = op("min", "Sk", op("add", op("add", "row", ROWS), shift))
    where = (
        Let("row", op("mul", op("sub", op("sub", blocks, 1), op("mod", "w", blocks)), ROWS), s),
        Let("head", op("mod", op("floordiv", "w", blocks), "H"), s),
        Let("batch", op("floordiv", op("floordiv", "w", blocks), "H"), s),
        Let("visited", op("max", op("ceildiv", last_key, KEYS), 1), s),
        Let("whole", op("min", op("floordiv", "Sk", KEYS),
            op("max", op("floordiv", op("add", op("add", "row", shift), 1), KEYS), 0)), s),
        Let("straddling", op("max", op("sub", "visited", "whole"), 1), s),
    )  # fmt: skip
    at_q, at_k, at_v = Slot("q", "q"), Slot("k", "k"), Slot("v", "v")

    def key(step: Uniform) -> Uniform:
        """First key of the block at a step: the walk goes down."""
        return op("mul", op("sub", op("sub", "visited", 1), step), KEYS)

    def load(tensor: str, slot: Slot, step: Uniform, span: Span) -> tuple[Operation, ...]:
        to = (Int(0), key(step), Int(0), Sym("head"), Sym("batch"))
        return (
            WaitEmpty(slot, span),
            Expect(slot, tile, span),
            TmaLoad(tensor, to, slot, 0, tile, span),
            Advance(tensor, span),
        )

    def load_q(part: int) -> tuple[Operation, ...]:
        slot = Slot("q", "q", part)
        to = (Int(0), op("add", "row", 64 * part), Int(0), Sym("head"), Sym("batch"))
        return (
            WaitEmpty(slot, q_line),
            Expect(slot, q_tile, q_line),
            TmaLoad("q", to, slot, 0, q_tile, q_line),
        )

    producer: tuple[Operation, ...] = (
        SetRegisters(32, False, s),
        Work("w", total, "static", (
            *where,
            *load("k", at_k, Int(0), k_line),
            *(o for part in range(3) for o in load_q(part)),
            Advance("q", q_line),
            For("t", Int(1), Sym("visited"), (
                *load("k", at_k, Sym("t"), k_line),
                *load("v", at_v, op("sub", "t", 1), v_line),
            ), "all but the first block of keys", s),
            *load("v", at_v, op("sub", "visited", 1), v_line),
        ), s),
    )  # fmt: skip

    scores = Mma(
        "s", "s",
        SlotOperand(at_q, "k", tuple(8192 * (n // 4) + 32 * (n % 4) for n in range(8)), 0, 16, 1024, 128),
        SlotOperand(at_k, "k", tuple(KEYS * 128 * (n // 4) + 32 * (n % 4) for n in range(8)), 0, 16, 1024, 128),
        KEYS, dtype, True, s, "s",
    )  # fmt: skip
    output = Mma(
        "o", "o", FragmentOperand("p"),
        SlotOperand(at_v, "mn", tuple(2048 * n for n in range(5)), 0, KEYS * 128, 1024, 128),
        HEAD, dtype, False, o_line, "O",
    )  # fmt: skip

    def release(slot: Slot, span: Span) -> tuple[Operation, ...]:
        return ArriveEmpty(slot, span), Advance(slot.cursor, span)

    own_row = op("add", "row", op("mul", "warpgroup", 64))

    def mask(step: Uniform) -> Mask:
        first = key(step)
        causal = Bound(1, -1, op("sub", op("add", own_row, shift), first))
        exists = Bound(0, -1, op("sub", op("sub", "Sk", 1), first))
        return Mask("s", ((causal, exists),), float("-inf"), s, "s")

    new = Element("m_new")
    softmax: tuple[Operation, ...] = (
        RowFold("top", "s", "max", "quad", p_line, "p"),
        Map("m_new", apply("max", apply("mul", Element("top"), SCALE), Element("m")), p_line, "p"),
        Map("m_safe", apply("select", apply("eq", new, LOWEST), Literal(0.0), new), p_line, "p"),
        Map("alpha", apply("ex2", apply("sub", Element("m"), Element("m_safe"))), p_line, "p"),
        Map("m", Element("m_new"), p_line, "p"),
        Map("e", apply("ex2", apply("fma", Element("s"), SCALE, apply("neg", Element("m_safe")))), p_line, "p"),
        RowFold("part", "e", "sum", "thread", p_line, "p"),
        Map("l", apply("fma", Element("l"), Element("alpha"), Element("part")), p_line, "p"),
        Relayout("p", "e", p_line, "p"),
    )
    rescale = Map("o", apply("mul", Element("o"), Element("alpha")), o_line, "O")

    def step(masked: bool) -> tuple[Operation, ...]:
        return (
            WaitFull(at_v, v_line),
            WaitFull(at_k, k_line),
            OrderWait(1, s),
            MmaFence(o_line),
            output,
            scores,
            MmaCommit(("o", "s"), s),
            OrderPass(1, s),
            MmaWait(0, ("o", "s"), s),
            *release(at_v, v_line),
            *release(at_k, k_line),
            *((mask(Sym("t")),) if masked else ()),
            *softmax,
            rescale,
        )

    log2 = apply("add", Element("m"), apply("lg2", Element("l")))
    corner = (Sym("batch"), own_row, Sym("head"), Int(0))
    consumer: tuple[Operation, ...] = (
        SetRegisters(160, True, s),
        OrderStart(1, s),
        Work("w", total, "static", (
            *where,
            Init("m", float("-inf"), p_line),
            Init("l", 0.0, p_line),
            Init("o", 0.0, o_line),
            WaitFull(at_q, q_line),
            WaitFull(at_k, k_line),
            OrderWait(1, s),
            MmaFence(s),
            scores,
            MmaCommit(("s",), s),
            OrderPass(1, s),
            MmaWait(0, ("s",), s),
            *release(at_k, k_line),
            mask(Int(0)),
            *softmax,
            For("t", Int(1), Sym("straddling"), step(True), "right straddle", s),
            For("t", Sym("straddling"), Sym("visited"), step(False), "inside", s),
            *release(at_q, q_line),
            WaitFull(at_v, v_line),
            OrderWait(1, o_line),
            MmaFence(o_line),
            output,
            MmaCommit(("o",), o_line),
            OrderPass(1, o_line),
            MmaWait(0, ("o",), o_line),
            *release(at_v, v_line),
            QuadReduce("l", "sum", p_line),
            Map("o", apply("ratio", Element("o"), Element("l")), o_line, "O"),
            StoreRows("o", "O", corner, 1, 3, Sym("Sq"), Int(HEAD), 8, True, o_line),
            Map("lse", apply("mul", log2, Literal(0.6931471805599453)), lse_line, "LSE"),
            StoreVector("lse", "LSE", (Sym("batch"), Sym("head"), own_row), 2, Sym("Sq"), lse_line),
        ), s),
    )  # fmt: skip

    def shape(length: str) -> tuple[Uniform, ...]:
        return tuple(map(as_uniform, ("B", length, "H", HEAD)))

    def descriptor(name: str, rows: int, span: Span) -> Descriptor:
        dims = (
            MapDim(3, 64, 64, "inner"), MapDim(1, rows), MapDim(3, 2, 64, "outer"), MapDim(2, 1), MapDim(0, 1),
        )  # fmt: skip
        return Descriptor(name, name.upper(), dims, 128, "zero", False, span)

    state = ("m", "l", "alpha", "top", "m_new", "m_safe", "part", "lse")
    rows = [Fragment(n, "row", 64, 1, DType.F32, n, p_line) for n in state]
    cursors = (Cursor("k", "k"), Cursor("v", "v"), Cursor("q", "q"))
    return Plan(
        name="attention",
        target="hopper",
        source_name="attention.tile",
        params=(
            MapParam("q"), MapParam("k"), MapParam("v"), PointerParam("O"), StrideParam("O", 0), StrideParam("O", 1),
            StrideParam("O", 2), PointerParam("LSE"), StrideParam("LSE", 0), StrideParam("LSE", 1),
            SizeParam("B"), SizeParam("Sq"), SizeParam("Sk"), SizeParam("H"), ScalarParam("scale_log2"),
        ),
        tensors=(
            TensorShape("Q", dtype, shape("Sq"), False),
            TensorShape("K", dtype, shape("Sk"), False),
            TensorShape("V", dtype, shape("Sk"), False),
            TensorShape("O", dtype, shape("Sq"), True),
            TensorShape("LSE", DType.F32, (Sym("B"), Sym("H"), Sym("Sq")), True),
        ),
        descriptors=(descriptor("q", 64, q_line), descriptor("k", KEYS, k_line), descriptor("v", KEYS, v_line)),
        buffers=(k, v, q),
        rings=rings,
        roles=(
            RolePlan("load", "producer", 0, 1, 32, True, cursors, (), producer),
            RolePlan(
                "attend", "consumer", 1, 3, 160, False, cursors,
                (
                    Fragment("s", "acc", 64, KEYS, DType.F32, "s", s),
                    Fragment("e", "acc", 64, KEYS, DType.F32, "s", p_line),
                    Fragment("p", "a", 64, KEYS, dtype, "p", p_line),
                    Fragment("o", "acc", 64, HEAD, DType.F32, "o", o_line),
                    *rows,
                ),
                consumer,
            ),
        ),
        threads=512,
        shared_bytes=bars + 144,
        registers_at_entry=128,
        grid=op("min", total, "sm_count"),
    )  # fmt: skip
