"""Good plans, each with one rule broken, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

from tests.plan import edits
from tests.plan.plans import F32, at, attention, gemm, operand
from tilegen.ir import plan as ir
from tilegen.ir.dtypes import DType
from tilegen.ir.uniform import Int, Op, Sym

HERE = at(1)
G = gemm()
A = attention()
P, C = "producer", "consumer"
CA, CB = ir.Slot("a", "ca"), ir.Slot("b", "cb")


def mma(**fields: object) -> ir.Plan:
    return edits.alter(G, C, ir.Mma, **fields)


def let(name: str, value: str) -> ir.Let:
    return ir.Let(name, Sym(value), HERE)


RULES_OF_UNIFORMS: dict[str, tuple[ir.Plan, str]] = {
    "unknown operation": (replace(G, grid=Op("modulo", (Sym("M"), Int(2)))), 'no operation "modulo"'),
    "arguments": (replace(G, grid=Op("add", (Sym("M"),))), "add takes 2 arguments, not 1"),
    "no arguments": (replace(G, grid=Op("mod", ())), "mod takes 2 arguments, not 0"),
    "select": (edits.alter(G, P, ir.For, stop=Op("select", (Sym("K"), Int(2)))), "select takes 3 arguments, not 2"),
    "division by 0": (edits.alter(G, P, ir.For, stop=Op("floordiv", (Sym("K"), Int(0)))), "floordiv by 0"),
    "grid by a size": (replace(G, grid=Op("ceildiv", (Sym("M"), Sym("N")))), "divides by what may be 0"),
}

NAMES: dict[str, tuple[ir.Plan, str]] = {
    "no target": (replace(G, target="sm_1"), "no target sm_1: one of hopper, sm_80"),
    "tensor twice": (replace(G, tensors=(*G.tensors, G.tensors[0])), "tensor A is declared more than once"),
    "ring twice": (replace(G, rings=(*G.rings, G.rings[0])), "ring a is declared more than once"),
    "role twice": (replace(G, roles=(*G.roles, G.roles[0])), "role producer is declared more than once"),
    "parameter twice": (replace(G, params=(*G.params, G.params[0])), "the parameter is given twice"),
    "map of nothing": (replace(G, params=(*G.params, ir.MapParam("X"))), "no descriptor X"),
    "pointer to nothing": (replace(G, params=(*G.params, ir.PointerParam("X"))), "no tensor X"),
    "stride of nothing": (replace(G, params=(*G.params, ir.StrideParam("A", 2))), "A has no dimension 2"),
    "map without parameter": (replace(G, params=G.params[1:]), "no parameter carries the tensor map A"),
    "size without parameter": (replace(G, params=G.params[:-1]), "no size K among the parameters"),
    "grid of unknown": (replace(G, grid=Sym("X")), "no size X among the parameters"),
    "descriptor of nothing": (edits.descriptor(G, "A", tensor="X"), "no tensor X"),
    "descriptor of a dimension": (edits.descriptor(G, "A", dims=(ir.MapDim(2, 64),)), "A has dimensions 0 to 1 only"),
    "ring of nothing": (edits.ring(G, "a", buffer="X"), "no buffer X"),
    "alias of nothing": (edits.buffer(A, "o_out", host="X"), "no buffer X"),
    "alias of an alias": (edits.buffer(A, "k", host="o_out"), "o_out has no bytes of its own"),
    "cursor twice": (edits.role(G, P, cursors=(*G.roles[0].cursors, ir.Cursor("pa", "a"))), "cursor pa is declared"),
    "cursor of nothing": (edits.role(G, P, cursors=(*G.roles[0].cursors, ir.Cursor("x", "x"))), "no ring x"),
    "cursor unused": (edits.role(G, P, cursors=(*G.roles[0].cursors, ir.Cursor("x", "a"))), "cursor x is never used"),
    "cursor unknown": (edits.alter(G, P, ir.Advance, cursor="x"), "producer has no cursor x"),
    "cursor of another ring": (
        edits.alter(G, C, ir.WaitFull, slot=ir.Slot("b", "ca")),
        "cursor ca counts positions of a, not of b",
    ),
    "slot of nothing": (edits.alter(G, C, ir.WaitFull, slot=ir.Slot("x", "ca")), "no ring x"),
    "fragment unknown": (edits.alter(G, C, ir.Init, fragment="x"), "consumer has no fragment x"),
    "fragment unused": (
        edits.role(G, C, fragments=(*G.roles[1].fragments, ir.Fragment("x", "acc", 64, 8, F32, "x", HERE))),
        "fragment x is never used",
    ),
    "fragment twice": (edits.role(G, C, fragments=G.roles[1].fragments * 2), "fragment c is declared more than once"),
    "storage unknown": (edits.fragment(G, "c", storage="x"), "no fragment x"),
    "storage of a sharer": (
        edits.fragment(edits.fragment(A, "m", storage="mb"), "mb", storage="z"),
        "mb has no registers of its own",
    ),
    "descriptor unknown": (edits.alter(G, P, ir.TmaLoad, descriptor="X"), "no descriptor X"),
    "buffer unknown": (edits.alter(G, C, ir.WriteShared, buffer="x"), "no buffer x"),
    "tensor unknown": (edits.alter(A, C, ir.StoreVector, tensor="X"), "no tensor X"),
    "no pointer": (replace(A, params=A.params[:-2]), "no parameter carries the address of LSE"),
    "no stride": (
        edits.alter(replace(A, params=(*A.params, ir.PointerParam("O"))), C, ir.StoreVector, tensor="O"),
        "no parameter carries the stride of dimension 0 of O",
    ),
    "symbol out of scope": (
        edits.alter(G, C, ir.TmaStore, coordinates=(Sym("t"), Int(0))),
        "nothing named t is in scope",
    ),
    "warpgroup in the producer": (
        edits.before(G, P, ir.For, let("x", "warpgroup")),
        "nothing named warpgroup is in scope",
    ),
    "let out of its body": (
        edits.after(edits.before(G, C, ir.WaitFull, let("x", "t")), C, ir.For, let("y", "x")),
        "nothing named x is in scope",
    ),
    "let twice": (edits.before(G, C, ir.For, let("x", "M"), let("x", "N")), "x already has a meaning here"),
    "loop over a size": (edits.alter(G, C, ir.For, var="K"), "K already has a meaning here"),
    "float out of scope": (
        edits.before(G, C, ir.For, ir.Map("c", ir.Value("x"), HERE)),
        "no float named x is in scope",
    ),
}

ROLES: dict[str, tuple[ir.Plan, str]] = {
    "kind": (edits.role(G, C, kind="helper"), 'kind "helper" is none of producer, copier, scanner, consumer'),
    "warpgroup twice": (edits.role(G, C, first=0), "warpgroup 0 also runs producer"),
    "idle warpgroup": (replace(G, threads=512), "512 threads, and roles for the warpgroups [0, 1, 2]"),
    "two elected": (edits.role(G, P, warpgroups=2), "2 warpgroups for a producer"),
    "consumer elected": (edits.role(G, C, elected=True, warpgroups=1), "a consumer is run by one elected thread"),
    "registers": (
        edits.alter(edits.role(G, C, registers=250), C, ir.SetRegisters, count=250),
        "from 24 to 256, not 250",
    ),
    "registers not set": (edits.drop(G, C, ir.SetRegisters), "does not begin by setting its 240 registers"),
    "registers set twice": (
        edits.before(G, C, ir.Init, ir.SetRegisters(240, True, HERE)),
        "registers are set once, at the start",
    ),
    "registers the wrong way": (edits.alter(G, C, ir.SetRegisters, increase=False), "down to 240 from 168 at entry"),
    "no work": (
        edits.change(G, C, ir.Work, lambda o: (ir.For("item", Int(0), o.total, o.body, "", HERE),)),
        "0 loops over work items",
    ),
    "nested work": (
        edits.change(G, P, ir.Work, lambda o: (ir.If(Int(1), (o,), HERE),)),
        "the loop over work items stands inside another operation",
    ),
    "mode": (edits.alter(G, C, ir.Work, mode="lucky"), 'mode "lucky" is none of'),
    "other work": (edits.alter(G, C, ir.Work, total=Sym("M")), "go through different work items"),
    "consumer loads": (
        edits.before(G, C, ir.WaitFull, ir.Expect(CA, 64, HERE)),
        "a consumer does not do this",
    ),
    "producer computes": (edits.before(G, P, ir.For, ir.MmaFence(HERE)), "a producer does not do this"),
    "named barrier": (
        edits.alter(edits.alter(G, C, ir.GroupSync, first_id=15), C, ir.GroupSync, 1, first_id=15),
        "need 16",
    ),
    "barrier of two": (edits.alter(A, C, ir.GroupSync, first_id=2), "barrier 2 serves the turns of consumer already"),
    "turns alone": (edits.role(A, C, warpgroups=1), "consumer has one warpgroup, and takes turns"),
    "turn kept": (edits.drop(A, C, ir.OrderPass), "the turn is not handed on in this body"),
    "turn invented": (edits.drop(A, C, ir.OrderWait), "hands on a turn that this warpgroup does not have"),
    "turn taken twice": (
        edits.before(A, C, ir.OrderWait, ir.OrderWait(1, HERE)),
        "waits for a turn that this warpgroup has",
    ),
}

MEMORY: dict[str, tuple[ir.Plan, str]] = {
    "no rows": (edits.buffer(G, "a", rows=0), "are at least 1"),
    "swizzle": (edits.buffer(G, "a", swizzle=96), "swizzle 96 is none of"),
    "line of a swizzle": (edits.buffer(G, "a", swizzle=64), "lines of 128 bytes do not hold a swizzle of 64"),
    "line of a chunk": (edits.buffer(G, "a", chunk=128), "a line of 128 bytes does not hold 128 elements"),
    "tile too large": (edits.buffer(G, "a", rows=256), "a tile takes 32768 bytes, its stage has 16384"),
    "alignment": (edits.buffer(G, "c_out", offset=49152 + 512), "offset 49664 is no multiple of 1024"),
    "outside": (replace(G, shared_bytes=4096), "do not lie in the 4096 of shared memory"),
    "alias outside its host": (edits.buffer(A, "o_out", offset=8192), "do not lie in those of q"),
    "overlap": (edits.buffer(G, "b", offset=16384), "overlap those of buffer a"),
    "barriers in a buffer": (edits.ring(G, "a", empty=0), "overlap those of buffer a"),
    "barrier alignment": (edits.ring(G, "a", full=G.rings[0].full + 4), "start at a multiple of 8"),
    "barrier outside": (edits.ring(G, "a", full=G.shared_bytes), "do not lie in shared memory"),
    "depth": (edits.ring(G, "a", depth=3), "differ from a's 2 and 1"),
    "release": (edits.ring(G, "a", release="thread"), 'release "thread" is none of'),
    "arrivals": (edits.ring(G, "a", empty_arrivals=0), "empty barriers take 1 to 1048575 arrivals, not 0"),
    "bytes": (edits.ring(G, "a", bytes=20000), "20000 bytes do not fit a stage of 16384"),
    "rank": (edits.descriptor(G, "A", dims=()), "a tensor map has 1 to 5 dimensions, not 0"),
    "descriptor swizzle": (edits.descriptor(G, "A", swizzle=96), "swizzle 96 is none of"),
    "fill": (edits.descriptor(G, "A", fill="one"), 'fill "one" is neither'),
    "NaN in a product": (edits.descriptor(G, "A", fill="nan"), "a is filled with NaN outside its tensor"),
    "NaN of whole numbers": (
        edits.descriptor(edits.tensor(G, "A", dtype=DType.I32), "A", fill="nan"),
        "A holds i32, which has no NaN to be filled with",
    ),
    "store to an input": (edits.tensor(G, "C", output=False), "C is an input, and stored to"),
    "box": (edits.descriptor(G, "A", dims=(ir.MapDim(1, 64), ir.MapDim(0, 512))), "1 to 256 positions, not 512"),
    "chunk part": (edits.descriptor(G, "A", dims=(ir.MapDim(1, 64, 64), ir.MapDim(0, 128))), 'part "" of a cut'),
    "part of a split": (
        edits.descriptor(G, "A", dims=(ir.MapDim(1, 64), ir.MapDim(0, 128, by=Int(8)))),
        'part "" of a cut',
    ),
    "box wider than chunk": (
        edits.descriptor(G, "A", dims=(ir.MapDim(1, 64, 32, "inner"), ir.MapDim(0, 128))),
        "a box of 64 is wider than its chunk of 32",
    ),
    "inner bytes": (
        edits.descriptor(G, "A", dims=(ir.MapDim(1, 60), ir.MapDim(0, 128))),
        "120 bytes, no multiple of 16",
    ),
    "inner swizzle": (
        edits.descriptor(G, "A", dims=(ir.MapDim(1, 72), ir.MapDim(0, 128))),
        "144 bytes, the swizzle 128",
    ),
    "load by a store": (edits.descriptor(G, "A", store=True), "A is a descriptor for stores"),
    "coordinates": (edits.alter(G, P, ir.TmaLoad, coordinates=(Int(0),)), "1 coordinates for 2 dimensions"),
    "box bytes": (edits.alter(G, P, ir.TmaLoad, bytes=8192), "the box of A has 16384 bytes, not 8192"),
    "box outside its slot": (edits.alter(G, P, ir.TmaLoad, offset=1024), "do not lie in a stage of a"),
    "box alignment": (edits.alter(G, P, ir.TmaLoad, offset=-16), "offset -16 is no multiple of 1024"),
    "box swizzle": (edits.descriptor(G, "A", swizzle=0), "swizzle 0 of A differs from 128 of a"),
    "box type": (edits.tensor(G, "A", dtype=DType.F16), "A holds f16, a bf16"),
}

SHAPES: dict[str, tuple[ir.Plan, str]] = {
    "layout": (edits.fragment(G, "c", layout="b"), 'layout "b" is none of'),
    "rows": (edits.fragment(G, "c", rows=128), "a fragment has 64 rows, not 128"),
    "columns": (edits.fragment(G, "c", cols=60), "60 columns are no multiple of 8"),
    "A type": (edits.fragment(A, "pa", dtype=F32), "a fragment of layout a holds 16-bit elements, not f32"),
    "accumulator type": (edits.fragment(G, "c", dtype=DType.BF16), "a fragment of layout acc holds f32, not bf16"),
    "shared registers": (edits.fragment(A, "m", storage="s"), "s has another layout or number of registers"),
    "accumulator layout": (edits.alter(A, C, ir.Mma, accumulator="m"), "m has layout row, acc is wanted"),
    "n odd": (mma(n=60), "n is a multiple of 8 up to 256, not 60"),
    "n differs": (mma(n=32), "c has 64 columns, the product 32"),
    "type": (mma(dtype=DType.F32), "a product of f32 is not possible"),
    "operand type": (mma(dtype=DType.F16), "A: a holds bf16, the product f16"),
    "no steps": (edits.operand(G, "b", offsets=()), "no k steps"),
    "steps differ": (edits.operand(G, "b", offsets=(0, 32)), "A has 4 k steps, B 2"),
    "fragment columns": (edits.operand(A, "b", 2, offsets=(0, 2048)), "pa has 64 columns for 2 k steps of 16"),
    "fragment layout": (edits.operand(A, "a", 2, fragment="s"), "s has layout acc, a is wanted"),
    "fragment type": (edits.fragment(A, "pa", dtype=DType.F16), "pa holds f16, the product bf16"),
    "operand swizzle": (edits.operand(G, "b", swizzle=64), "B: swizzle 64 differs from 128 of b"),
    "major": (edits.operand(G, "b", major="n"), 'B: major "n" is neither'),
    "operand alignment": (edits.operand(G, "b", stride=1000), "B: stride 1000 is no multiple of 16"),
    "operand outside": (
        edits.operand(G, "b", offsets=(0, 32, 64, 8192)),
        "B: the k step at 8192 reads bytes 8192 .. 16384",
    ),
    "warpgroup outside": (edits.operand(G, "a", warpgroup=16384), "A: the k step at 0 reads bytes 0 .. 24576"),
    "mn-major outside": (
        edits.operand(A, "b", 2, offsets=(0, 2048, 4096, 7168)),
        "B: the k step at 7168 reads bytes 7168",
    ),
    "element layout": (edits.alter(A, C, ir.Map, value=ir.Element("s")), "s of layout acc cannot be read into mb"),
    "element columns": (
        edits.role(
            edits.before(A, C, ir.QuadReduce, ir.Init("w", 0.0, HERE), ir.Map("o", ir.Element("w"), HERE)),
            C,
            fragments=(*A.roles[1].fragments, ir.Fragment("w", "acc", 64, 32, F32, "w", HERE)),
        ),
        "w has 32 columns, o 64",
    ),
    "coordinate": (
        edits.before(A, C, ir.QuadReduce, ir.Map("z", ir.Coordinate("col", Int(0)), HERE)),
        "z has no cols",
    ),
    "coordinate along": (
        edits.before(A, C, ir.QuadReduce, ir.Map("z", ir.Coordinate("depth", Int(0)), HERE)),
        'coordinate along "depth"',
    ),
    "uniform place": (
        edits.before(A, C, ir.QuadReduce, ir.LetFloat("u", ir.Place(1, 0, Int(0)), None, HERE)),
        "a place in a uniform value",
    ),
    "past in a row": (edits.before(A, C, ir.QuadReduce, ir.Map("z", ir.Past(), HERE)), "a past in z of layout row"),
    "operation": (edits.before(A, C, ir.QuadReduce, ir.Map("o", ir.Compute("cube", ()), HERE)), 'no operation "cube"'),
    "arguments": (
        edits.before(A, C, ir.QuadReduce, ir.Map("o", ir.Compute("add", (ir.Literal(1),)), HERE)),
        "add takes 2 arguments, not 1",
    ),
    "round": (
        edits.before(A, C, ir.QuadReduce, ir.Map("o", ir.Compute("round", (ir.Literal(1),)), HERE)),
        "a type is given to round",
    ),
    "uniform value": (
        edits.before(A, C, ir.QuadReduce, ir.LetFloat("u", ir.Element("z"), None, HERE)),
        "fragment z in a uniform value",
    ),
    "uniform coordinate": (
        edits.before(A, C, ir.QuadReduce, ir.LetFloat("u", ir.Coordinate("row", Int(0)), None, HERE)),
        "a coordinate of an element in a uniform value",
    ),
    "neither value nor load": (
        edits.before(A, C, ir.QuadReduce, ir.LetFloat("u", None, None, HERE)),
        "either a value or a load",
    ),
    "load of a scalar": (
        edits.before(A, C, ir.QuadReduce, ir.LetFloat("u", None, ("LSE", ()), HERE)),
        "0 positions for the 1 dimensions of LSE",
    ),
    "mask of an operand": (edits.alter(A, C, ir.Mask, fragment="pa"), "a fragment of layout a cannot be masked"),
    "mask of a row": (edits.alter(A, C, ir.Mask, fragment="m"), "m has no columns to bound"),
    "init of an operand": (
        edits.before(A, C, ir.QuadReduce, ir.Init("pa", 0.0, HERE)),
        "holds what is put there whole",
    ),
    "fold source": (edits.alter(A, C, ir.RowFold, source="m"), "m has layout row, acc is wanted"),
    "fold kind": (edits.alter(A, C, ir.RowFold, kind="product"), '"product" is none of'),
    "fold scope": (edits.alter(A, C, ir.RowFold, scope="warp"), 'scope "warp" is neither'),
    "quad kind": (edits.alter(A, C, ir.QuadReduce, kind="product"), '"product" is none of'),
    "quad of an accumulator": (edits.alter(A, C, ir.QuadReduce, fragment="o"), "o has layout acc, row is wanted"),
    "relayout": (edits.fragment(A, "pa", cols=32), "s has 64 columns, pa 32"),
    "copy of an accumulator": (
        edits.after(A, C, ir.Relayout, ir.CopyOperand("pa", "s", HERE)),
        "s has layout acc, a is wanted",
    ),
    "written tile": (edits.buffer(G, "c_out", cols=32), "c_out has 64 x 32 elements, c 64 x 64"),
    "written stage": (
        edits.after(G, C, ir.FenceAsync, ir.WriteShared("c_out", "c", HERE, stage=1)),
        "c_out has 2 parts and 1 stages, consumer needs a part for each of its 2 warpgroups, of stage 1",
    ),
    "written line": (
        edits.buffer(G, "c_out", cols=32, chunk=32),
        "c_out has 64 x 32 elements, c 64 x 64",
    ),
    "stores left": (edits.before(G, C, ir.FenceAsync, ir.StoreWait(-1, True, HERE)), "-1 groups of stores left"),
    "written piece": (
        edits.after(G, C, ir.FenceAsync, ir.WriteShared("c_out", "c", HERE, first=8)),
        "c_out has 64 x 64 elements, c 64 x 64 from column 8",
    ),
    "written parts": (
        edits.buffer(G, "c_out", parts=1),
        "c_out has 1 parts and 1 stages, consumer needs a part for each of its 2 warpgroups",
    ),
    "read tile": (
        edits.before(G, C, ir.MmaFence, ir.ReadShared("c", CA, 128, HERE)),
        "192 rows are read from a, which has 128",
    ),
    "loaded vector": (
        edits.before(A, C, ir.QuadReduce, ir.LoadVector("o", "LSE", (Int(0),), 0, Sym("Sq"), HERE)),
        "o has layout acc, row or col is wanted",
    ),
    "vector's index": (edits.alter(A, C, ir.StoreVector, index=()), "0 positions for the 1 dimensions of LSE"),
    "vector's dimension": (edits.alter(A, C, ir.StoreVector, dim=1), "LSE has no dimension 1"),
    "vector to an input": (edits.tensor(A, "LSE", output=False), "LSE is an input, and stored to"),
}


def store_rows(**fields: object) -> ir.Plan:
    plan = replace(G, params=(*G.params, ir.PointerParam("C"), ir.StrideParam("C", 0)))
    store = ir.StoreRows("c", "C", (Int(0), Int(0)), 0, 1, Sym("M"), Sym("N"), 8, True, HERE)
    return edits.before(plan, C, ir.WriteShared, replace(store, **fields))


SHAPES |= {
    "rows and columns": (store_rows(row_dim=1), "rows and columns run along the same dimension"),
    "columns not innermost": (
        store_rows(row_dim=1, col_dim=0),
        "columns run along dimension 0, which is not the innermost",
    ),
    "vector": (store_rows(vector=16), "vectors of 16 bf16 are no power of two of at most 16 bytes"),
}

SLOTS: dict[str, tuple[ir.Plan, str]] = {
    "part": (edits.alter(A, P, ir.WaitEmpty, slot=ir.Slot("q", "pq", 2)), "q has 2 parts, no part 2"),
    "no part": (edits.alter(A, P, ir.WaitEmpty, slot=ir.Slot("q", "pq")), "which part of q?"),
    "full arrivals": (edits.ring(G, "a", full_arrivals=2), "full barriers take 2 arrivals, 1 come"),
    "empty arrivals": (edits.ring(G, "a", empty_arrivals=1), "empty barriers take 1 arrivals, 2 come"),
    "arrivals of warps": (edits.ring(G, "a", release="warp"), "empty barriers take 2 arrivals, 8 come"),
    "arrivals of parts": (edits.ring(A, "q", empty_arrivals=2), "empty barriers of part 0 take 2 arrivals, 1 come"),
    "second wait": (edits.before(G, C, ir.MmaFence, ir.WaitFull(CA, HERE)), "a second wait full of the same position"),
    "second arrival": (
        edits.before(G, C, ir.Advance, ir.ArriveEmpty(CA, HERE)),
        "a second arrive empty of the same position",
    ),
    "expected bytes": (edits.alter(G, P, ir.Expect, bytes=8192), "a holds 16384 bytes, not 8192"),
    "loaded bytes": (edits.drop(G, P, ir.TmaLoad), "16384 bytes are expected and others loaded"),
    "load without expect": (edits.drop(G, P, ir.Expect), "the load's bytes are not expected in this body"),
    "filled unasked": (edits.drop(G, P, ir.WaitEmpty), "the slot is filled without waiting until it is empty"),
    "cursor idle": (
        edits.after(G, C, ir.Advance, ir.Advance("ca", HERE)),
        "nothing in this body was done with the position",
    ),
    "slot skipped": (
        edits.drop(edits.drop(G, P, ir.Expect), P, ir.TmaLoad),
        "cursor pa moves on from a slot that was not filled",
    ),
    "wait beside others": (
        edits.before(
            G,
            C,
            ir.MmaFence,
            ir.If(Int(1), (ir.WaitFull(ir.Slot("a", "ca"), HERE), ir.Init("c", 0.0, HERE)), HERE),
        ),
        "the cursor does not move on in this body",
    ),
    "cursor stays": (edits.drop(G, C, ir.Advance), "the cursor does not move on in this body"),
}


def group_of_s(**fields: object) -> ir.Plan:
    """attention with the loop's await of s changed."""
    return edits.alter(A, C, ir.MmaWait, 1, **fields)


TOKENS: dict[str, tuple[ir.Plan, str]] = {
    "commit": (edits.alter(G, C, ir.MmaCommit, tokens=("t1",)), "issued since the last commit: {t0}"),
    "no commit": (edits.drop(G, C, ir.MmaCommit), "t0 not committed"),
    "retires": (group_of_s(retires=("ts", "to")), "retires {ts} with 1 pending"),
    "pending": (group_of_s(pending=0), "retires {to, ts} with 0 pending"),
    "no wait": (edits.drop(G, C, ir.MmaWait), "t0 is in flight and still reads the slot"),
    "released early": (
        edits.before(A, C, ir.MmaWait, ir.ArriveEmpty(ir.Slot("k", "ck"), HERE)),
        "ts is in flight and still",
    ),
    "accumulator read": (
        edits.before(G, C, ir.MmaWait, ir.Mask("c", (), 0.0, HERE)),
        "t0 is in flight and accumulates in c",
    ),
    "operand written": (
        edits.before(A, C, ir.MmaWait, ir.Relayout("pa", "s", HERE), nth=2),
        "to is in flight and reads pa",
    ),
    "operand copied": (
        edits.before(A, C, ir.MmaWait, ir.CopyOperand("pa", "pa", HERE), nth=2),
        "to is in flight and reads pa",
    ),
    "left in flight": (
        edits.after(
            edits.after(G, C, ir.StoreWait, ir.MmaFence(HERE), nth=1),
            C,
            ir.MmaFence,
            ir.Mma("t9", "c", operand(CA, (0,)), operand(CB, (0,)), 64, DType.BF16, True, HERE),
            ir.MmaCommit(("t9",), HERE),
            nth=1,
        ),
        "the role ends with t9 in flight",
    ),
    "piling up": (
        edits.drop(edits.drop(edits.drop(G, C, ir.MmaWait), C, ir.ArriveEmpty), C, ir.ArriveEmpty),
        "every round of the loop leaves more in flight",
    ),
    "no fence": (edits.drop(G, C, ir.MmaFence), "no fence since c was last touched"),
    "no fence in the loop": (edits.drop(A, C, ir.MmaFence, 1), "no fence since s was last touched"),
}

VALUES: dict[str, tuple[ir.Plan, str]] = {
    "not written": (edits.drop(G, C, ir.Init), "c has no value here on every path"),
    "written in the loop only": (edits.drop(A, C, ir.Init, 2), "z has no value here on every path"),
    "written in a branch only": (
        edits.before(A, C, ir.QuadReduce, ir.Map("o", ir.Element("s"), HERE)),
        "s has no value here on every path",
    ),
    "partial by another name": (edits.fragment(A, "alpha", storage="r"), "alpha is not combined over the quad yet"),
    "partial": (edits.drop(A, C, ir.QuadReduce), "z is not combined over the quad yet"),
    "combined twice": (
        edits.after(A, C, ir.QuadReduce, ir.QuadReduce("z", "sum", HERE)),
        "z is whole already: its sum would count four times",
    ),
}


def swept(*body: ir.Operation, vote: tuple[ir.Operation, ...] = (), of: str = "r") -> ir.Plan:
    """attention whose sum z is not combined, but folded anew from o by a sweep over it and voted on."""
    sweep = ir.Sweep(body, HERE)  # type: ignore[arg-type] # some of them must not stand there
    plan = edits.change(A, C, ir.QuadReduce, lambda o: (sweep, ir.IfVote(of, (sweep, *vote), HERE), o))
    extra = (
        ir.Fragment("h", "acc", 64, 64, F32, "", HERE),
        ir.Fragment("half", "acc", 64, 32, F32, "half", HERE),
    )
    used = ir.Init("half", 0.0, HERE)
    return edits.role(edits.before(plan, C, ir.Init, used), C, fragments=(*A.roles[1].fragments, *extra))


DOUBLE = ir.Map("h", ir.Compute("add", (ir.Element("o"), ir.Element("o"))), HERE)
SUM = ir.RowFold("r", "h", "sum", "thread", HERE)
PACK = ir.Relayout("pa", "h", HERE)

SWEEPS: dict[str, tuple[ir.Plan, str]] = {
    "whole rows": (swept(DOUBLE, replace(SUM, scope="quad")), "r is folded by quad, which needs whole rows"),
    "own fold": (swept(DOUBLE, SUM, ir.Map("h", ir.Element("r"), HERE)), "r is read in the sweep that folds it"),
    "row": (swept(DOUBLE, SUM, ir.Map("m", ir.Element("z"), HERE)), "m of layout row is not made column by column"),
    "widths": (
        swept(DOUBLE, SUM, ir.Map("half", ir.Literal(1.0), HERE)),
        "fragments of 32 and 64 columns in one sweep",
    ),
    "unwritten": (swept(SUM, DOUBLE), "h is read before this sweep writes it"),
    "outside": (swept(DOUBLE, SUM, vote=(PACK,)), "h exists inside sweeps only"),
    "transient row": (edits.fragment(swept(DOUBLE, SUM), "m", storage=""), "a fragment of layout row needs registers"),
    "vote of an accumulator": (swept(DOUBLE, SUM, of="o"), "o has layout acc, row is wanted"),
    "vote on a tile": (
        swept(ir.ReadShared("h", ir.Slot("q", "cq"), 64, HERE), SUM),
        "a ReadShared that some warps may not reach",
    ),
    "vote and meet": (swept(DOUBLE, SUM, vote=(ir.GroupSync(4, HERE),)), "a GroupSync that some warps may not reach"),
    "vote and leave": (
        swept(DOUBLE, SUM, vote=(ir.Map("alpha", ir.Literal(1.0), HERE), ir.Map("m", ir.Element("mb"), HERE))),
        "mb has no value here on every path",
    ),
}

BREACHES: dict[str, dict[str, tuple[ir.Plan, str]]] = {
    "uniforms": RULES_OF_UNIFORMS,
    "names": NAMES,
    "roles": ROLES,
    "memory": MEMORY,
    "shapes": SHAPES,
    "slots": SLOTS,
    "tokens": TOKENS,
    "values": VALUES,
    "sweeps": SWEEPS,
}
