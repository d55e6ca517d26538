"""The instructions of the MLS-style machine: operands, implicit registers, counters, modifiers. docs/mls.md says what
each of them does.

An operand's form is written as in the manual's tables: `=` in front of what is written, then

| form | operand |
|---|---|
| s, s2, s4, s8 | SGPRs; s takes m0 too; ranges begin at a multiple of 2 (s2) or of 4 (s4, s8) |
| n | 32-bit scalar source: SGPR, m0, literal · n2: 64-bit scalar source: SGPR pair, vcc, exec, literal |
| k | a bit a lane: SGPR pair, vcc, exec |
| v, v2, v4 | VGPRs |
| x | 32-bit vector source: VGPR, or SGPR or literal, the same for all lanes |
| f | as x, a float: takes -x, |x| and -|x| |
| c4 | accumulator source: four VGPRs, or the literal 0 |
| b | an address in LDS: SGPR or m0 |
| g, e | an address in global memory: a VGPR pair and `off`, or a VGPR (unsigned bytes) and an SGPR pair |
| i, l | integer literal, label |
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = 64
SGPRS = 102
VGPRS = 256
WAVES = 16  # of a workgroup, at most
LDS_BYTES = 1 << 16
PAGE_BYTES = 1 << 12
ADDRESS_BITS = 48
VMCNT_MAX = 63
LGKMCNT_MAX = 15
LINE_BYTES = 64  # pitch of a tile's lines in LDS
PART_BYTES = 16  # what a filtered load still touches; alignment of a descriptor's base

# Registers at the start of a wave.
ARGUMENTS = 0  # s[0:1]: address of the kernel's arguments
GROUP = (2, 3, 4)  # s2, s3, s4: the workgroup's index along x, y, z
WAVE = 5  # s5: the wave's index in its workgroup
LANE = 0  # v0: the lane's index

SALU, SMEM, VALU, MATRIX, MLS, LDS, LDS_MATRIX, GLOBAL, CONTROL = (
    "salu", "smem", "valu", "matrix", "mls", "lds", "lds matrix", "global", "control",
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One operand: `kind` as in the module's table without its width; `width` in registers."""

    kind: str
    width: int
    written: bool

    def __str__(self) -> str:
        return f"{'=' if self.written else ''}{self.kind}{self.width if self.width > 1 else ''}"


@dataclass(frozen=True)
class Opcode:
    """One instruction.

    unit: which part of the machine executes it. counter: "vm" or "lgkm" for what s_waitcnt waits for, "" for what is
    done when the next instruction issues. reads, writes: implicit ones among scc, exec, m0. modifiers: names with a
    value (`offset:16`); words: names without (`t`).
    """

    name: str
    forms: tuple[Form, ...]
    unit: str
    counter: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    modifiers: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    bytes: int = 0  # a lane, of loads and stores; an element, of matrix loads


@dataclass(frozen=True)
class TileShape:
    """What one matrix load moves: `lines` along the non-contiguous axis of memory, each `run` elements along the
    contiguous one. In LDS the run is cut into halves of `LINE_BYTES`, each a packed block of all lines."""

    lines: int
    run: int
    element_bytes: int

    @property
    def bytes(self) -> int:
        return self.lines * self.run * self.element_bytes

    def place(self, line: int, position: int) -> int:
        """Byte offset in LDS, from the tile's address, of the element at `position` of `line`."""
        part, inside = divmod(position * self.element_bytes, LINE_BYTES)
        return part * self.lines * LINE_BYTES + line * LINE_BYTES + inside


def _form(text: str) -> Form:
    written = text.startswith("=")
    body = text.lstrip("=")
    kind = body.rstrip("0123456789")
    return Form(kind, int(body[len(kind) :] or 1), written)


def _each(name: str, words: str) -> str:
    return " ".join(name.format(word) for word in words.split())


def _table() -> dict[str, Opcode]:
    table: dict[str, Opcode] = {}

    def add(
        names: str, forms: str, unit: str, counter: str = "", reads: str = "", writes: str = "", modifiers: str = "",
        words: str = "", size: int = 0,
    ) -> None:  # fmt: skip
        for name in names.split():
            parts = tuple(map(_form, forms.split()))
            table[name] = Opcode(
                name, parts, unit, counter, tuple(reads.split()), tuple(writes.split()), tuple(modifiers.split()),
                tuple(words.split()), size,
            )  # fmt: skip

    # scalar moves and arithmetic
    add("s_mov_b32", "=s n", SALU)
    add("s_mov_b64", "=k n2", SALU)
    add("s_add_u32 s_add_i32 s_sub_u32 s_sub_i32", "=s n n", SALU, writes="scc")
    add("s_addc_u32 s_subb_u32", "=s n n", SALU, reads="scc", writes="scc")
    add("s_mul_i32 s_mul_hi_u32 s_mul_hi_i32", "=s n n", SALU)
    add("s_lshl_b32 s_lshr_b32 s_ashr_i32 s_and_b32 s_or_b32 s_xor_b32", "=s n n", SALU, writes="scc")
    add("s_min_i32 s_max_i32 s_min_u32 s_max_u32", "=s n n", SALU, writes="scc")
    add("s_cselect_b32", "=s n n", SALU, reads="scc")
    for kind in ("i32", "u32"):
        add(_each("s_cmp_{}_" + kind, "eq lg gt ge lt le"), "n n", SALU, writes="scc")
    add("s_and_b64 s_or_b64 s_xor_b64 s_andn2_b64", "=k n2 n2", SALU, writes="scc")
    add("s_and_saveexec_b64", "=k n2", SALU, reads="exec", writes="exec scc")
    # control
    add("s_branch", "l", CONTROL)
    add("s_cbranch_scc0 s_cbranch_scc1", "l", CONTROL, reads="scc")
    add("s_cbranch_execz s_cbranch_execnz", "l", CONTROL, reads="exec")
    add("s_cbranch_vccz s_cbranch_vccnz", "l", CONTROL, reads="vcc")
    add("s_waitcnt", "", CONTROL, modifiers="vmcnt lgkmcnt")
    add("s_barrier s_endpgm", "", CONTROL)
    add("s_nop", "i", CONTROL)
    # scalar memory
    for count, name in ((1, "s_load_dword"), (2, "s_load_dwordx2"), (4, "s_load_dwordx4"), (8, "s_load_dwordx8")):
        add(name, f"=s{count} s2 n", SMEM, "lgkm", size=4 * count)
    # vector moves and float arithmetic
    add("v_mov_b32", "=v x", VALU, reads="exec")
    add("v_mov_b32_dpp", "=v v", VALU, reads="exec", modifiers="row_ror")
    add("v_add_f32 v_sub_f32 v_mul_f32 v_max_f32 v_min_f32", "=v f f", VALU, reads="exec")
    add("v_fma_f32", "=v f f f", VALU, reads="exec")
    add(_each("v_{}_f32", "exp log rcp sqrt rsq floor tanh"), "=v f", VALU, reads="exec")
    add("v_cvt_pk_f16_f32 v_cvt_pk_bf16_f32", "=v f f", VALU, reads="exec")
    add("v_cvt_f32_f16 v_cvt_f32_bf16 v_cvt_f32_i32 v_cvt_f32_u32", "=v x", VALU, reads="exec")
    add("v_cvt_i32_f32", "=v f", VALU, reads="exec")
    # vector integers
    add("v_add_u32 v_sub_u32 v_mul_lo_u32 v_mul_hi_u32 v_and_b32 v_or_b32 v_xor_b32", "=v x x", VALU, reads="exec")
    add("v_lshlrev_b32 v_lshrrev_b32 v_ashrrev_i32", "=v x x", VALU, reads="exec")
    add("v_min_i32 v_max_i32 v_min_u32 v_max_u32", "=v x x", VALU, reads="exec")
    add("v_add_co_u32", "=v =k x x", VALU, reads="exec")
    add("v_addc_co_u32", "=v =k x x k", VALU, reads="exec")
    add("v_mad_u64_u32", "=v2 =k x x v2", VALU, reads="exec")
    # compares, selects, lanes
    for kind in ("i32", "u32"):
        add(_each("v_cmp_{}_" + kind, "eq ne gt ge lt le"), "=k x x", VALU, reads="exec")
    add(_each("v_cmp_{}_f32", "eq neq gt ge lt le o u"), "=k f f", VALU, reads="exec")
    add("v_cndmask_b32", "=v x x k", VALU, reads="exec")
    add("v_readfirstlane_b32", "=s v", VALU, reads="exec")
    add("v_readlane_b32", "=s v n", VALU)
    # matrix products: D, A, B, C
    add("v_mmac_f32_16x16x16_f16 v_mmac_f32_16x16x16_bf16", "=v4 v2 v2 c4", MATRIX)
    # matrix loads to LDS: descriptor, LDS address
    for name, shape in SHAPES.items():
        add(name, "s4 b", MLS, "vm", modifiers="moffset", words="t r lds", size=shape.element_bytes)
    add("ds_read_matrix_b16 ds_read_matrix_trans_b16", "=v2 b", LDS_MATRIX, "lgkm", modifiers="offset", size=2)
    # LDS, each lane its own address
    for name, width, size in (("u16", 1, 2), ("b32", 1, 4), ("b64", 2, 8), ("b128", 4, 16)):
        add(f"ds_read_{name}", f"=v{width} v", LDS, "lgkm", "exec", modifiers="offset", size=size)
    for name, width, size in (("b16", 1, 2), ("b32", 1, 4), ("b64", 2, 8), ("b128", 4, 16)):
        add(f"ds_write_{name}", f"v v{width}", LDS, "lgkm", "exec", modifiers="offset", size=size)
    add("ds_bpermute_b32", "=v v v", LDS, "lgkm", "exec", modifiers="offset")
    # global memory, each lane its own address: a VGPR pair, or a VGPR offset and an SGPR base
    for name, width, size in (("ushort", 1, 2), ("dword", 1, 4), ("dwordx2", 2, 8), ("dwordx4", 4, 16)):
        add(f"global_load_{name}", f"=v{width} g e", GLOBAL, "vm", "exec", modifiers="offset", size=size)
    for name, width, size in (("short", 1, 2), ("dword", 1, 4), ("dwordx2", 2, 8), ("dwordx4", 4, 16)):
        add(f"global_store_{name}", f"g v{width} e", GLOBAL, "vm", "exec", modifiers="offset", size=size)
    return table


def _shapes() -> dict[str, TileShape]:
    """Names are MN x K. Each shape exists with K contiguous (word `t`) or MN contiguous (without); see `shape_of`."""
    return {
        "matrix_load_32x16_b16": TileShape(16, 32, 2),
        "matrix_load_64x16_b16": TileShape(16, 64, 2),
        "matrix_load_32x32_b16": TileShape(32, 32, 2),
        "matrix_load_16x32_b16": TileShape(16, 32, 2),
        "matrix_load_16x64_b16": TileShape(16, 64, 2),
        "matrix_load_16x16_b32": TileShape(16, 16, 4),
    }


SHAPES = _shapes()
TRANSPOSED = frozenset({"matrix_load_16x32_b16", "matrix_load_16x64_b16"})  # only with `t`: K runs on
PLAIN = frozenset({"matrix_load_32x16_b16", "matrix_load_64x16_b16"})  # only without: MN runs on
OPCODES = _table()
