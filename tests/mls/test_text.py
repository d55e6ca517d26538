"""The text of MLS programs: read back as it was, and its faults reported as diagnostics, all of them at once."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.dtypes import DType
from tilegen.syntax.span import Source
from tilegen.targets.mls import isa
from tilegen.targets.mls.parsing import parse
from tilegen.targets.mls.program import (
    SGPR,
    VGPR,
    Access,
    Argument,
    Coordinate,
    Float,
    Instruction,
    Int,
    Label,
    Operand,
    Part,
    Program,
    Remark,
    Ring,
    Signed,
    Special,
    Target,
)
from tilegen.targets.mls.text import program_text

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
COMMENTS = st.text("abc |@:;12", max_size=9).map(str.strip).filter(lambda t: not t.startswith("@"))
ARGUMENTS = (
    Argument(0, "K", "input", DType.BF16, 2),
    Argument(8, "O", "output", DType.F32, 1),
    Argument(16, "K.stride0", "i64"),
    Argument(24, "Sq", "i32"),
    Argument(28, "scale", "f32"),
)
RINGS = (Ring("k", DType.BF16, 0, 2, 4096),)


def sgprs(count: int) -> st.SearchStrategy[SGPR]:
    step = min(count, 4)
    return st.integers(0, (isa.SGPRS - count) // step).map(lambda i: SGPR(i * step, count))


def vgprs(count: int) -> st.SearchStrategy[VGPR]:
    return st.integers(0, isa.VGPRS - count).map(lambda i: VGPR(i, count))


INTS = st.one_of(st.integers(-(1 << 31), (1 << 32) - 1), st.integers(-64, 64)).map(Int)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: Float(float(np.float32(x))))
MASKS = st.one_of(sgprs(2), st.sampled_from([Special("vcc"), Special("exec")]))
SIGNED = st.builds(Signed, st.one_of(sgprs(1), vgprs(1)), st.booleans(), st.booleans()).filter(
    lambda s: s.negative or s.magnitude
)


def operand(form: isa.Form, off: bool) -> st.SearchStrategy[Operand]:
    m0 = st.just(Special("m0"))
    match form.kind, form.width:
        case "s", 1:
            return st.one_of(sgprs(1), m0)
        case "s", width:
            return sgprs(width)
        case "n", 1:
            return st.one_of(sgprs(1), m0, INTS, FLOATS)
        case "n", _:
            return st.one_of(MASKS, INTS)
        case "b", _:
            return st.one_of(sgprs(1), m0)
        case "k", _:
            return MASKS
        case "v", width:
            return vgprs(width)
        case "x", _:
            return st.one_of(vgprs(1), sgprs(1), INTS, FLOATS)
        case "f", _:
            return st.one_of(vgprs(1), sgprs(1), INTS, FLOATS, SIGNED)
        case "c", width:
            return st.one_of(vgprs(width), st.just(Int(0)))
        case "i", _:
            return st.integers(0, 15).map(Int)
        case "l", _:
            return st.just(Target("here"))
        case "g", _:
            return vgprs(2 if off else 1)
        case "e", _:
            return st.just(Special("off")) if off else sgprs(2)
    raise AssertionError(form)


def accesses(opcode: isa.Opcode) -> st.SearchStrategy[Access | None]:
    if opcode.unit not in (isa.MLS, isa.LDS, isa.LDS_MATRIX, isa.GLOBAL):
        return st.none()
    lines = opcode.unit in (isa.MLS, isa.LDS_MATRIX)
    of = st.one_of(sgprs(1), st.sampled_from(["line", "run"] if lines else ["run"]), *([] if lines else [vgprs(1)]))
    parts = st.builds(Part, of, st.integers(-3, 9), st.integers(1, 4), st.booleans())
    limits = st.one_of(st.none(), sgprs(1), st.integers(0, 99))
    coordinates = st.builds(Coordinate, st.lists(parts, max_size=3).map(tuple), st.integers(-9, 99), limits)
    named = st.builds(Access, NAMES, st.just("K"), st.tuples(coordinates, coordinates))
    return st.one_of(st.none(), st.builds(Access, NAMES), named)


RANGES = {"moffset": (-512, 511), "row_ror": (1, 15), "vmcnt": (0, 63), "lgkmcnt": (0, 15)}


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    opcode = isa.OPCODES[draw(st.sampled_from(sorted(isa.OPCODES)))]
    off = draw(st.booleans())
    operands = tuple(draw(operand(form, off)) for form in opcode.forms)
    modifiers = []
    for name in opcode.modifiers:
        least, most = RANGES.get(name, (-4096, 4095) if opcode.unit == isa.GLOBAL else (0, 65535))
        if name in ("row_ror", "lgkmcnt") or draw(st.booleans()):
            modifiers.append((name, draw(st.integers(least, most))))
    words: tuple[str, ...] = ()
    if opcode.unit == isa.MLS:
        t = opcode.name in isa.TRANSPOSED or (opcode.name not in isa.PLAIN and draw(st.booleans()))
        words = (*(["t"] if t else []), *(["r"] if draw(st.booleans()) else []), "lds")
    comment = draw(COMMENTS)
    return Instruction(
        opcode.name, operands, tuple(modifiers), words, draw(accesses(opcode)), comment, draw(st.integers(0, 99))
    )


def program(lines: tuple[Instruction | Label | Remark, ...]) -> Program:
    end = (Label("here"), Instruction("s_endpgm"))
    return Program("one", "folder/one.tile", 4, 8192, isa.SGPRS, isa.VGPRS, ARGUMENTS, RINGS, (*lines, *end))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(instructions(), COMMENTS.map(Remark)), max_size=6))
def test_text_and_program_are_the_same_thing(lines: list[Instruction | Remark]) -> None:
    made = program(tuple(lines))
    text = program_text(made)
    read = parse(Source("one.mls", text))
    assert read == made
    assert program_text(read) == text


def test_every_instruction_is_read_back() -> None:
    zero = Int(0)
    simple: dict[str, Operand] = {"n": zero, "b": Special("m0"), "k": Special("vcc"), "x": zero, "f": zero, "c": zero,
                                  "i": zero, "l": Target("here"), "e": Special("off"), "g": VGPR(0, 2)}  # fmt: skip
    lines = []
    for opcode in isa.OPCODES.values():
        operands = tuple(
            SGPR(8, f.width) if f.kind == "s" else VGPR(1, f.width) if f.kind == "v" else simple[f.kind]
            for f in opcode.forms
        )
        words = ("t", "lds") if opcode.name in isa.TRANSPOSED else ("lds",) if opcode.unit == isa.MLS else ()
        modifiers = tuple((m, 1) for m in opcode.modifiers)
        lines.append(Instruction(opcode.name, operands, modifiers, words))
    made = program(tuple(lines))
    assert parse(Source("one.mls", program_text(made))) == made


HEAD = """\
.kernel one
.source one.tile
.waves 1
.lds 1024
.sgprs 32
.vgprs 16
.arg 0 X: input f16[2]
"""


def faults(body: str, head: str = HEAD) -> list[str]:
    with pytest.raises(TilegenError) as caught:
        parse(Source("one.mls", head + body))
    return [f"{d.span.line if d.span else 0}: {d.code}: {d.message}" for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("s_mov_b32 s4", "s_mov_b32 takes 2 operands, and has 1"),
        ("s_mov_b32 s4, v1", "`v1` cannot stand here in `s_mov_b32 s4, v1`: wanted an SGPR, m0 or a number"),
        ("s_mov_b32 s40, 1", "`s40` is beyond `.sgprs 32`"),
        ("v_mov_b32 v16, 1", "`v16` is beyond `.vgprs 16`"),
        ("s_load_dwordx4 s[2:5], s[0:1], 0", "`s[2:5]` cannot stand here"),
        ("s_frob s4, s5", "there is no instruction s_frob"),
        ("s_branch away", "there is no label away"),
        ("s_mov_b32 s4, s5 s6", "s_mov_b32 has no word s6"),
        ("s_waitcnt vmcnt(64)", "vmcnt 64 is not from 0 to 63"),
        ("matrix_load_32x32_b16 s[8:11], m0 moffset:512 lds", "moffset 512 is not from -512 to 511"),
        ("matrix_load_32x32_b16 s[8:11], m0", "matrix_load_32x32_b16 needs the word lds"),
        ("matrix_load_32x16_b16 s[8:11], m0 t lds", "has no form with t"),
        ("matrix_load_16x32_b16 s[8:11], m0 lds", "needs the word t"),
        ("v_mov_b32_dpp v1, v2", "needs row_ror"),
        ("global_load_dword v1, v2, off", "`v2` cannot stand here"),
        ("global_load_dword v1, v[2:3], s[4:5]", "`v[2:3]` cannot stand here"),
        ("ds_read_b32 v1, v2 {x: Y[s4]}", "there is no tensor Y among the arguments"),
        ("ds_read_b32 v1, v2 {x: X[s4]}", "X has 2 axes, and 1 coordinates stand here"),
        ("ds_read_b32 v1, v2 {x: X[s4, line]}", "what ds_read_b32 moves has no lines"),
        ("s_mov_b32 s4, 0 {x}", "s_mov_b32 moves nothing"),
        ("s_mov_b32 s4, 4294967296", "wanted a number of 32 bits"),
        ("s_mov_b32 s4, 1e60", "wanted a number that f32 holds"),
        ("s_mov_b32 s4,", "the line ends too early"),
        ("s_mov_b32 s4, $", "`$` cannot stand here"),
        ("s_nop 16", "s_nop takes a number from 0 to 15"),
        ("v_mov_b32 v1, v[3:3]", "wanted a range of two registers"),
        ("m0:", "a label cannot be called m0"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(line: str, says: str) -> None:
    found = faults(f"    {line}\n    s_endpgm\n")
    assert len(found) == 1, found
    assert found[0].startswith("8: MLS_")
    assert says in found[0]


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (HEAD.replace(".waves 1\n", ""), "no line `.waves`"),
        (HEAD.replace(".waves 1", ".waves 17"), "`.waves 17` is not from 1 to 16"),
        (HEAD + ".waves 2\n", "`.waves` stands here for the second time"),
        (HEAD + ".arg 4 y: i32\n", "the argument y at byte 4 overlaps another"),
        (HEAD + ".arg 8 y: u9\n", "wanted input, output, i32, i64 or f32"),
        (HEAD + ".arg 8 y: i32 f16[2]\n", "wanted `i32` alone"),
        (HEAD + ".arg 8 Y: input\n", "wanted `input f32[2]`"),
        (HEAD + ".ring k: bf16 at 512, 2 of 512\n", "the ring of k leaves the 1024 bytes of LDS"),
        (HEAD + ".ring k: f99 at 512, 2 of 512\n", "wanted an element type"),
    ],
)
def test_a_wrong_header_is_named(head: str, says: str) -> None:
    found = faults("    s_endpgm\n", head)
    assert len(found) == 1, found
    assert says in found[0]


def test_all_faults_of_a_text_come_at_once() -> None:
    found = faults("    s_mov_b32 s4,\n    s_nop 1\n    s_mov_b32 $\n")
    assert [f.split(":")[0] for f in found] == ["8", "10"]


def test_a_program_ends() -> None:
    assert "the program runs past its end" in faults("    s_nop 1\n")[0]
    assert "the program runs past its end" in faults("    s_branch end\nend:\n")[0]


@settings(max_examples=300, deadline=None)
@given(st.text("sv0189[]:,;{}<+*/% mn_.-xK|e\n", max_size=60))
def test_no_text_is_more_than_wrong(text: str) -> None:
    with contextlib.suppress(TilegenError):  # anything else that is raised fails the test
        parse(Source("one.mls", HEAD + text + "\n    s_endpgm\n"))
