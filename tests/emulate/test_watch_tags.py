"""What watched launches know of registers where a number may take a value's place."""

from __future__ import annotations

import numpy as np
import pytest

from tilegen.emulate.ptx.module import Immediate, Instruction, Not, Operand, Place, Register, Vector
from tilegen.emulate.ptx.watch.declared import Declared
from tilegen.emulate.ptx.watch.tags import ELEMENT, PACKED, ROW, UNKNOWN, Step, Tags, Tainted, fields, steps_of, tag
from tilegen.emulate.ptx.watch.values import Value, Values

TO, FROM, OTHER = (Register(f"%f{n}", 32, n) for n in range(3))
P = Register("%p1", 1, 1)
ZERO, HIDDEN = Immediate(0, 32), Immediate(0xFF800000, 32)
ALL, NONE, SOME = np.ones(128, np.bool_), np.zeros(128, np.bool_), np.arange(128) < 64
OF, ROW_OF = tag(0, ELEMENT, 5), tag(0, ROW, 0)


def registers() -> Tags:
    values = Values(Declared({}, {}, {}, (), {}, frozenset(), {}))
    values.all.append(Value(0, {}, {}, {}))
    return Tags(values)


def step(opcode: str, *operands: Operand, guard: Register | None = None) -> Step:
    made = steps_of(Instruction(opcode, ("f32",), (TO, *operands), Place(1), guard), {})
    assert made is not None
    return made


def after(made: Step, holds: np.ndarray | None, before: int) -> int:
    tags = registers()
    tags.put((32, FROM.index), before)
    tags.put((32, TO.index), before)
    tags.follow([made.taken(holds)])
    return tags.get((32, TO.index))


@pytest.mark.parametrize(
    ("number", "before", "holds", "expected"),
    [
        (ZERO, OF, ALL, 0),  # an accumulator begins anew
        (ZERO, OF, NONE, OF),
        (ZERO, OF, SOME, OF),
        (ZERO, OF, None, UNKNOWN),  # the predicate is another by now
        (ZERO, ROW_OF, ALL, 0),
        (HIDDEN, OF, ALL, OF),  # a mask hides all that a register holds
        (HIDDEN, ROW_OF, ALL, 0),
        (HIDDEN, ROW_OF, NONE, ROW_OF),
    ],
)
def test_a_number_instead_of_a_value(number: Immediate, before: int, holds: np.ndarray | None, expected: int) -> None:
    assert after(step("selp", number, FROM, P), holds, before) == expected
    negated = None if holds is None else ~holds
    assert after(step("selp", number, FROM, Not(P)), negated, before) == expected


@pytest.mark.parametrize(("holds", "expected"), [(ALL, 0), (NONE, OF), (SOME, OF), (None, UNKNOWN)])
def test_a_number_behind_a_guard(holds: np.ndarray | None, expected: int) -> None:
    assert after(step("mov", ZERO, guard=P), holds, OF) == expected


def test_a_number_beside_an_element_is_packed_to_what_nobody_knows() -> None:
    tags = registers()
    tags.put((32, FROM.index), tag(0, ELEMENT, 4))
    tags.put((32, OTHER.index), tag(0, ELEMENT, 5))
    tags.follow([Step("pack", ((32, 0),), ((32, OTHER.index), (32, FROM.index)))])
    assert fields(tags.get((32, 0))) == (0, PACKED, 2)
    tags.put((32, OTHER.index), ROW_OF)
    tags.follow([Step("pack", ((32, 0),), ((32, OTHER.index), (32, FROM.index)))])
    assert tags.get((32, 0)) == UNKNOWN


def test_what_packs_two_constants_is_one() -> None:
    tags = registers()
    tags.put((32, 0), UNKNOWN)
    tags.follow([Step("pack", ((32, 0),), ((32, OTHER.index), (32, FROM.index)))])
    assert tags.get((32, 0)) == 0


def test_registers_that_hold_a_constant_where_they_hold_nothing_of_an_accumulator() -> None:
    accumulator, begun, biased, loaded, chosen, moved, number, wide = (Register(f"%f{n}", 32, n) for n in range(8))
    code = [
        Instruction("wgmma", ("mma_async",), (Vector((accumulator,)),), Place(1)),
        Instruction("selp", ("f32",), (begun, ZERO, accumulator, P), Place(2)),
        Instruction("ld", ("global", "f32"), (loaded, Register("%rd1", 64, 1)), Place(3)),
        Instruction("add", ("f32",), (biased, begun, loaded), Place(4)),
        Instruction("selp", ("f32",), (chosen, loaded, begun, P), Place(5)),
        Instruction("mov", ("f32",), (moved, accumulator), Place(6)),
        Instruction("mov", ("f32",), (moved, loaded), Place(7)),
        Instruction("mov", ("f32",), (number, ZERO), Place(8)),
        Instruction("cvt", ("f32", "f64"), (wide, Register("%fd1", 64, 2)), Place(9)),
        Instruction("add", ("f32",), (wide, wide, accumulator), Place(10)),
    ]
    plain = Tainted(code).plain
    assert {r.index for r in (accumulator, begun, biased, number)} == {index for _, index in plain}
