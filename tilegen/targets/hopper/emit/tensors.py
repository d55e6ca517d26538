"""Fragments from and to memory without TMA: one statement and one device function an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Buffer, Digit, LoadVector, Mend, ReadShared, RowStep, StoreRows, StoreVector, WriteShared
from tilegen.ir.uniform import Int, Uniform
from tilegen.targets.hopper.emit.elements import digit, element_type
from tilegen.targets.hopper.emit.scope import ELEMENT, EXPONENT, RoleScope

_SWIZZLE_MASK = {128: "0x70", 64: "0x30", 32: "0x10"}
_FROM = {DType.BF16: "from_bf16", DType.F16: "from_f16"}
_TO = {DType.BF16: "to_bf16", DType.F16: "to_f16"}
_PAIR = {DType.F32: "load_pair_f32", DType.I32: "load_pair_i32", DType.BOOL: "load_pair_bool"}


def geometry(r: RoleScope, b: Buffer) -> dict[str, object]:
    """How a tile lies in shared memory, and the function that crosses its addresses."""
    if b.chunk % 8:
        raise ValueError(f"{b.name}: chunks of {b.chunk} elements are not read by blocks of 8 columns")
    wish = f"swizzle_{b.swizzle}"
    swizzle = r.functions.specific(wish, "swizzle", mask=_SWIZZLE_MASK[b.swizzle]) if b.swizzle else ""
    return {"rows": b.rows, "chunk": b.chunk, "line": b.line, "swizzle": swizzle}


def _first(r: RoleScope) -> dict[str, str]:
    return {"first_row": r.functions.helper("first_row"), "first_column": r.functions.helper("first_column")}


def _to_element(r: RoleScope, dtype: DType) -> str:
    """What turns an f32 into an element of a tensor."""
    return r.functions.helper(_TO[dtype]) if dtype in _TO else {DType.F32: "", DType.I32: "__float2int_rn"}[dtype]


def load_pair(r: RoleScope, b: Buffer) -> str:
    """The function that reads two neighbouring elements."""
    if b.dtype in _FROM:
        return r.functions.specific(f"load_pair_{b.dtype}", "load_pair_16", convert=r.functions.helper(_FROM[b.dtype]))
    return r.functions.helper(_PAIR[b.dtype])


def read_shared(r: RoleScope, op: ReadShared) -> str:
    out = r.fragments[op.out]
    buffer = r.plan.buffer(r.plan.ring(op.slot.ring).buffer)
    if out.layout == "pair":
        macro, load = "read_pairs", r.functions.helper("load_pair")
    else:
        macro, load = "read_shared", load_pair(r, buffer)
    name = r.functions.specific(
        f"read_{op.slot.ring}",
        macro,
        out=r.functions.local(macro).give(0, out.name),
        registers=out.registers,
        bytes=buffer.dtype.bytes,
        load=load,
        **geometry(r, buffer),
        row=digit(f"{r.functions.helper('first_row')}() + 8 * half", op.digit),
        **_first(r),
    )
    return f"{name}({r.array(out.name)}, {r.slot(op.slot, 0, op.row_offset * buffer.line)});"


def write_shared(r: RoleScope, op: WriteShared) -> str:
    source, buffer = r.fragments[op.source], r.plan.buffer(op.buffer)
    columns = min(buffer.cols, source.cols - op.first)
    fields = {
        "source": r.functions.local("write_shared_matrix").give(0, source.name),
        "registers": source.registers,
        "piece": source.registers * columns // source.cols,
        **geometry(r, buffer),
    }
    wish = f"write_{op.buffer}"
    if buffer.dtype in _TO:
        pack = r.functions.specific(f"pack_{buffer.dtype}", "pack", type=buffer.dtype.value)
        padded = buffer.cols > source.cols
        name = r.functions.specific(wish, "write_shared_matrix", pack=pack, padded=padded, **fields)
    elif buffer.dtype is DType.F32:
        name = r.functions.specific(wish, "write_shared_f32", **fields, **_first(r))
    else:
        raise ValueError(f"{op.buffer}: tiles of {buffer.dtype} are not written from registers")
    template = f"<{op.first}>" if columns < source.cols else ""
    return f"{name}{template}({r.part(op.buffer, op.stage)}, {r.array(source.name)});"


def load_vector(r: RoleScope, op: LoadVector) -> str:
    out, dtype = r.fragments[op.out], r.plan.tensor(op.tensor).dtype
    first, position = {
        "row": ("first_row", "8 * v"),
        "col": ("first_column", "8 * (v / 2) + v % 2"),
    }[out.layout]
    convert = r.functions.helper(_FROM[dtype]) if dtype in _FROM else "" if dtype is out.dtype else "(float)"
    name = r.functions.specific(
        f"load_{out.name}",
        "load_vector",
        out=r.functions.local("load_vector").give(0, out.name),
        registers=out.registers,
        kind=element_type(out),
        zero="0" if out.dtype is DType.I32 else "0.0f",
        element=ELEMENT[dtype],
        at=digit(f"{r.functions.helper(first)}() + {position}", op.digit),
        convert=convert,
        from_below=op.from_below,
    )
    start = r.element(op.tensor, op.index)
    counts = [r.left(op.limit, op.index[op.dim])]
    if op.from_below:
        counts.append(r.left(Int(0), op.index[op.dim]))
    return f"{name}({r.array(out.name)}, {start}, {r.stride(op.tensor, op.dim)}, {', '.join(counts)});"


def store_vector(r: RoleScope, op: StoreVector) -> str:
    source, dtype = r.fragments[op.fragment], r.plan.tensor(op.tensor).dtype
    name = r.functions.specific(
        f"store_{op.tensor}",
        "store_vector",
        source=r.functions.local("store_vector").give(0, source.name),
        element=ELEMENT[dtype],
        convert=_to_element(r, dtype),
        first_row=r.functions.helper("first_row"),
        **_steps("at", op.shared, "stride", "count"),
    )
    start = r.element(op.tensor, op.index)
    steps = _step_arguments(r, op.tensor, op.index, op.shared or (RowStep(op.dim, _ROW, op.limit),))
    return f"{name}({r.array(source.name)}, {start}, {steps});"


_ROW = Digit(1, 0)


def _steps(row: str, shared: tuple[RowStep, ...], stride: str, count: str) -> dict[str, str]:
    """How a function that stores rows says where they go: its parameters, the offset of `row` and whether it exists."""
    numbers = [str(n) for n in range(len(shared))] or [""]
    places = [digit(row, x.digit) for x in shared] or [row]
    return {
        "steps": ", ".join(f"long long {stride}{n}, int {count}{n}" for n in numbers),
        "offset": " + ".join(f"{p} * {stride}{n}" for p, n in zip(places, numbers, strict=True)),
        "exists": " && ".join(f"{p} < {count}{n}" for p, n in zip(places, numbers, strict=True)),
    }


def _step_arguments(r: RoleScope, tensor: str, index: tuple[Uniform, ...], shared: tuple[RowStep, ...]) -> str:
    return ", ".join(f"{r.stride(tensor, x.dim)}, {r.left(x.limit, index[x.dim])}" for x in shared)


def store_rows(r: RoleScope, op: StoreRows) -> str:
    source, dtype = r.fragments[op.fragment], r.plan.tensor(op.tensor).dtype
    fields: dict[str, Any] = {
        "source": r.functions.local("store_rows_16").give(0, source.name),
        "registers": source.registers,
    }
    fields |= _steps("r" if op.vector == 1 else "row", op.shared, "row_stride", "rows")
    wish = f"store_{op.tensor}"
    if op.vector == 1:
        convert = _to_element(r, dtype)
        name = r.functions.specific(
            wish, "store_rows_single", element=ELEMENT[dtype], convert=convert, **fields, **_first(r)
        )
    elif op.vector * dtype.bytes == 16 and dtype in (*_TO, DType.F32):
        word, constraint = ("float", "f") if dtype is DType.F32 else ("unsigned", "r")
        store = r.functions.specific("store_16_bytes", "store_16_bytes", type=word, constraint=constraint)
        fields |= {"store": store, "first_row": r.functions.helper("first_row"), "whole": op.whole_vectors}
        if dtype is DType.F32:
            transpose = r.functions.helper("transpose_pair")
            name = r.functions.specific(wish, "store_rows_f32", transpose=transpose, **fields)
        else:
            pack = r.functions.specific(f"pack_{dtype}", "pack", type=dtype.value)
            transpose = r.functions.helper("transpose_quad")
            name = r.functions.specific(wish, "store_rows_16", transpose=transpose, pack=pack, **fields)
    else:
        raise ValueError(f"{op.tensor}: rows of {dtype} are not stored {op.vector} elements at once")
    steps = _step_arguments(r, op.tensor, op.index, op.shared or (RowStep(op.row_dim, _ROW, op.row_limit),))
    columns = r.left(op.col_limit, op.index[op.col_dim])
    start = r.element(op.tensor, op.index)
    return f"{name}({r.array(source.name)}, {start}, {steps}, {columns});"


def mend(r: RoleScope, op: Mend) -> str:
    acc, live, dtype = r.fragments[op.fragment], r.fragments[op.live], r.plan.tensor(op.tensor).dtype
    local = r.functions.local("mend")
    packed = r.stride(op.tensor, op.col_dim) == "1" and acc.cols % 2 == 0  # TMA's rows start at multiples of 16 bytes
    whole = packed and op.col_limit == Int(acc.cols)
    name = r.functions.specific(
        f"mend_{acc.name}",
        "mend",
        out=local.give(0, acc.name),
        registers=acc.registers,
        live=local.give(1, live.name),
        live_registers=live.registers,
        bits="unsigned long long" if live.registers > 64 else "unsigned",
        exponent=EXPONENT[dtype],
        convert=r.functions.helper(_FROM[dtype]),
        first_column=r.functions.helper("first_column"),
        columns=whole,
        packed=packed,
    )
    arguments = [r.array(acc.name), r.array(live.name), r.element(op.tensor, op.index), r.stride(op.tensor, op.dim)]
    arguments += [] if packed else [r.stride(op.tensor, op.col_dim)]
    arguments += [r.integer(op.count)] + ([] if whole else [r.left(op.col_limit, op.index[op.col_dim])])
    return f"{name}({', '.join(arguments)});"


STATEMENTS: dict[type, Callable[[RoleScope, Any], str]] = {
    ReadShared: read_shared,
    WriteShared: write_shared,
    LoadVector: load_vector,
    StoreVector: store_vector,
    StoreRows: store_rows,
    Mend: mend,
}
