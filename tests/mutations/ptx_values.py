"""Faults put into the PTX of kernels: what is computed, where it goes, and on what way. Adds to `KINDS`."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from tests.mutations.ptx_kinds import KINDS, Change, Made, changed, doubled, dropped, moved, respelt
from tests.mutations.ptx_text import Instruction, Lines, Text, registers, shifted, through, width

# ---- memory --------------------------------------------------------------------------------------------

_SIZES = {"b16": 2, "u16": 2, "b32": 4, "f32": 4, "u32": 4, "s32": 4, "b64": 8}
_TO_SHARED, _FROM_SHARED = ("st.shared", "stmatrix"), ("ld.shared", "ldmatrix")


def _address(n: int, by: int | None = None) -> Change:
    """The address in operand n moved, by an element if nothing is said."""

    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        operand = i.operands[n]
        base, _, offset = operand.strip("[] ").partition("+")
        step = _SIZES.get(i.type, 4) if by is None else by
        yield (str(i.put(n, f"[{base}+{int(offset or 0) + step}]")),)

    return change


def _read_as_zero(text: Text, i: Instruction) -> Iterator[Lines]:
    yield tuple(f"mov.{width(r)} {r}, {'0f00000000' if width(r) == 'f32' else '0'};" for r in registers(i.operands[0]))


KINDS["a store to shared memory 16 bytes on"] = changed(_TO_SHARED, _address(0, 16))
KINDS["a store to shared memory a line on"] = changed(_TO_SHARED, _address(0, 128))
KINDS["a store to shared memory dropped"] = dropped(*_TO_SHARED)
KINDS["a matrix stored transposed"] = respelt("stmatrix", r"\.x4\.shared", ".x4.trans.shared")
KINDS["a matrix read otherwise transposed"] = changed(
    "ldmatrix",
    lambda text, i: iter(
        [(str(i).replace(".trans", "") if ".trans" in i.name else str(i).replace(".x4", ".x4.trans"),)]
    ),
)
KINDS["a read of shared memory 16 bytes on"] = changed(_FROM_SHARED, _address(1, 16))
KINDS["a store to device memory an element on"] = changed("st.global", _address(0))
KINDS["a store to device memory dropped"] = dropped("st.global")
KINDS["a read of device memory an element on"] = changed("ld.global", _address(1))
KINDS["a read of device memory as zero"] = changed("ld.global", _read_as_zero)


def _next_parameter(text: Text, i: Instruction) -> Iterator[Lines]:
    """The next parameter of the same type in place of this one."""
    same = [j for j in text.named("ld.param") if j.name == i.name and j.operands[1] != i.operands[1]]
    later = [j for j in same if j.at > i.at] or same
    if later:
        yield (str(i.put(1, later[0].operands[1])),)


KINDS["another parameter read"] = changed("ld.param", _next_parameter)

# ---- arithmetic ----------------------------------------------------------------------------------------

_FLOATS = ("add.rn.f32", "add.f32", "sub.rn.f32", "sub.f32", "mul.rn.f32", "mul.f32", "fma.rn.f32")
_INTEGERS = (
    *("add.s32", "sub.s32", "add.s64", "mul.lo.s32", "mul.wide", "mul.lo.s64"),
    *("mad.lo", "div.s32", "min.s32", "max.s32"),
)


def _number(operand: str) -> float | None:
    match = re.fullmatch(r"0f([0-9a-fA-F]{8})", operand, re.IGNORECASE)
    return struct.unpack(">f", bytes.fromhex(match[1]))[0] if match else None


def _spelt(value: float) -> str:
    return "0f" + struct.pack(">f", value).hex().upper()


def _float_constants(make: str) -> Change:
    """A number among the operands changed: doubled ("other"), or another kind of number in its place."""

    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        for n, operand in enumerate(i.operands):
            value = _number(operand)
            if n == 0 or value is None:
                continue
            infinite = value in (float("inf"), float("-inf"))
            if make == "finite" and infinite:
                yield (str(i.put(n, _spelt(0.0))),)
            elif make == "other" and not infinite and value:
                yield (str(i.put(n, _spelt(value * 1.5))),)
            elif make == "one" and value == 0:
                yield (str(i.put(n, _spelt(1.0))),)

    return change


def _integer_constants(by: int) -> Change:
    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        for n, operand in enumerate(i.operands):
            if n and re.fullmatch(r"-?\d+", operand):
                yield (str(i.put(n, str(int(operand) + by))),)

    return change


def _operands_exchanged(n: int, m: int) -> Change:
    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        if m < len(i.operands) and i.operands[n] != i.operands[m]:
            yield (str(i.swapped(n, m)),)

    return change


def _operand_of_neighbour(text: Text, i: Instruction) -> Iterator[Lines]:
    """The source of an instruction of the same kind just before, in place of its own."""
    at = text.by_line[i.at]
    for j in reversed(text.instructions[max(at - 12, 0) : at]):
        if j.name == i.name and len(j.operands) == len(i.operands) > 1 and j.operands[1] != i.operands[1]:
            if registers(j.operands[1]) and text.straight_between(j.at, i.at):
                yield (str(i.put(1, j.operands[1])),)
            return


def _as_moved(n: int) -> Change:
    """An instruction that only copies its operand n."""

    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        target = registers(i.operands[0])[:1]
        if target and registers(i.operands[n]):
            yield (f"{i.guard} mov.{width(target[0])} {target[0]}, {i.operands[n]};".lstrip(),)

    return change


KINDS["an addition for a subtraction"] = respelt(("sub.s32", "sub.rn.f32", "sub.f32"), r"\bsub\.", "add.")
KINDS["a subtraction for an addition"] = respelt(("add.s32", "add.s64", "add.rn.f32", "add.f32"), r"\badd\.", "sub.")
KINDS["a sum for a product of numbers"] = respelt(("mul.rn.f32", "mul.f32"), r"\bmul\.", "add.")
KINDS["a minimum for a maximum"] = respelt("max.", r"\bmax\.", "min.")
KINDS["a maximum for a minimum"] = respelt("min.", r"\bmin\.", "max.")
KINDS["operands of a difference exchanged"] = changed(("sub.",), _operands_exchanged(1, 2))
KINDS["operands of a quotient or shift exchanged"] = changed(("div.", "shl.", "shr."), _operands_exchanged(1, 2))
KINDS["factor and addend exchanged"] = changed(("fma.rn.f32", "mad.lo"), _operands_exchanged(2, 3))
KINDS["an operand of the instruction before"] = changed(
    (*_FLOATS, *_INTEGERS, "max.NaN", "ex2."), _operand_of_neighbour
)
KINDS["an addend dropped"] = changed(("add.rn.f32", "add.s32", "add.s64"), _as_moved(1))
KINDS["a function dropped"] = changed(("ex2.", "lg2.", "rcp.", "tanh.", "abs.", "neg.f32"), _as_moved(1))
KINDS["another function"] = respelt("ex2.", r"\bex2\.", "lg2.")
KINDS["a constant of arithmetic changed"] = changed((*_FLOATS, "mov.f32"), _float_constants("other"))
KINDS["an infinity as 0"] = changed(
    ("mov.f32", "selp.f32", "max.NaN", "add.rn.f32", "fma.rn.f32"), _float_constants("finite")
)
KINDS["a zero as 1"] = changed(("mov.f32", "selp.f32"), _float_constants("one"))
KINDS["a whole constant +1"] = changed((*_INTEGERS, "shl.", "shr.", "mov.u32", "mov.b32"), _integer_constants(1))
KINDS["a whole constant -1"] = changed((*_INTEGERS, "shl.", "shr.", "mov.u32", "mov.b32"), _integer_constants(-1))
KINDS["a mask of bits changed"] = changed(("and.b32", "or.b32", "xor.b32"), lambda text, i: (
    (str(i.put(n, str(int(o) ^ 16))),) for n, o in enumerate(i.operands) if n and re.fullmatch(r"-?\d+", o)
))  # fmt: skip
KINDS["an or for a crossing of bits"] = respelt("xor.b32", r"\bxor\.", "or.")
KINDS["a crossing for an or of bits"] = respelt("or.b32", r"\bor\.", "and.")
KINDS["halves exchanged in a cast"] = changed(("cvt.rn.bf16x2", "cvt.rn.f16x2"), _operands_exchanged(1, 2))
KINDS["a cast that rounds to zero"] = respelt(("cvt.rn.bf16x2", "cvt.rn.f16x2"), r"cvt\.rn", "cvt.rz")


def _carried_dropped(text: Text, i: Instruction) -> Iterator[Lines]:
    """What a loop or a branch hands on: a move to a register that has several writers."""
    if registers(i.operands[0]) and len(text.writers(i, i.operands[0])) > 1:
        yield ()


KINDS["an assignment dropped"] = changed(("mov.b32", "mov.u32", "mov.f32"), _carried_dropped)

# ---- comparisons, selections, predicates ---------------------------------------------------------------

_LOOSE = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
_OTHER = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq", "neu": "eq"}


def _compared(names: dict[str, str]) -> Change:
    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        kind = i.name.split(".")[1]
        if kind in names:
            yield (str(i).replace(f"setp.{kind}.", f"setp.{names[kind]}.", 1),)

    return change


def _guard_turned(text: Text, i: Instruction) -> Iterator[Lines]:
    if i.guard:
        other = i.guard.replace("@!", "@") if i.guard.startswith("@!") else i.guard.replace("@", "@!")
        yield (str(i).replace(i.guard, other, 1),)


def _branches(change: Change) -> Change:
    def make(text: Text, i: Instruction) -> Iterator[Lines]:
        if i.guard and i.operands[0] != "again":
            yield from change(text, i)

    return make


def _loop_bounds(text: Text) -> Made:
    """The comparison of whole numbers that a branch backwards asks, off by one."""
    for i in text.named("bra"):
        if i.guard and text.labels.get(i.operands[0], i.at) < i.at:
            writers = text.writers(i, i.guard.lstrip("@!"))
            if len(writers) == 1 and re.fullmatch(r"setp\.\w+\.[su]32", writers[0].name):
                yield from ((writers[0], ((writers[0].at, shifted(writers[0], 2, by)),)) for by in (1, -1))


KINDS["a comparison that takes its border in or not"] = changed("setp.", _compared(_LOOSE))
KINDS["a comparison turned"] = changed("setp.", _compared(_OTHER))
KINDS["a comparison's constant +1"] = changed("setp.", _integer_constants(1))
KINDS["a comparison's constant -1"] = changed("setp.", _integer_constants(-1))
KINDS["what is selected exchanged"] = changed("selp.", _operands_exchanged(1, 2))
KINDS["a selection dropped"] = changed("selp.f32", lambda text, i: (
    new for n in (1, 2) if registers(i.operands[n]) for new in _as_moved(n)(text, i)
))  # fmt: skip
KINDS["an or for an and of conditions"] = respelt("and.pred", r"\band\.", "or.")
KINDS["an and for an or of conditions"] = respelt("or.pred", r"\bor\.", "and.")
KINDS["a branch turned"] = changed("bra", _branches(_guard_turned))
KINDS["a branch dropped"] = changed("bra", _branches(lambda text, i: iter([()])))
KINDS["a branch always taken"] = changed("bra", _branches(lambda text, i: iter([(f"bra {i.operands[0]};",)])))
KINDS["a loop's bound off by one"] = _loop_bounds

# ---- lanes and threads ---------------------------------------------------------------------------------

KINDS["a lane of a shuffle changed"] = changed("shfl.sync.bfly", lambda text, i: iter([
    through(i, 2, i.operands[2], "xor.b32 {new}, {old}, 4") if registers(i.operands[2])
    else (str(i.put(2, str(int(i.operands[2], 0) ^ 4))),)
]))  # fmt: skip
KINDS["a shuffle dropped"] = changed("shfl.sync", _as_moved(1))
KINDS["a vote for all in place of any"] = respelt("vote.sync.any", r"\.any\.", ".all.")
KINDS["every lane elected"] = changed(
    "selp.u32", lambda text, i: iter([(str(i.put(2, "1")),)] if i.operands[3] == "p" else [])
)
KINDS["an update of shared memory made twice"] = doubled("atom.shared")
KINDS["an address of a tile 32 bytes on"] = moved("stmatrix", 0, 32)

_SPECIAL = {"%ctaid.x": "0", "%nctaid.x": "1", "%tid.x": "%laneid"}


def _special(text: Text, i: Instruction) -> Iterator[Lines]:
    if i.operands[1] in _SPECIAL:
        yield (str(i.put(1, _SPECIAL[i.operands[1]])),)


KINDS["another special register"] = changed("mov.u32", _special)
