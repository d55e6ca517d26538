"""The program under construction: its lines, its registers, and where each line comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn, TypeVar

import numpy as np

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.syntax.span import Span
from tilegen.targets.mls import isa
from tilegen.targets.mls.lower.registers import Pool
from tilegen.targets.mls.program import (
    SGPR,
    VGPR,
    Access,
    Float,
    Instruction,
    Int,
    Label,
    Line,
    Operand,
    Remark,
    Signed,
    Special,
    Target,
)

R = TypeVar("R", SGPR, VGPR)
EXEC, OFF = (Special(name) for name in ("exec", "off"))


def number(value: float) -> Operand:
    """An f32 literal."""
    rounded = float(np.float32(value))
    if math.isfinite(rounded):
        return Float(rounded)
    return Int(int(np.float32(value).view(np.uint32)))


class Writer:
    """Appends instructions. Registers that `scalar`, `vector` hand out are given back by `release`, those of an
    operand that was not handed out stay as they are."""

    def __init__(self, span: Span) -> None:
        self.lines: list[Line] = []
        self.span = span  # of the statement at hand
        self._lent: set[SGPR | VGPR] = set()
        self._labels = 0
        self.scalars = Pool(isa.WAVE + 1, isa.SGPRS, self._no_sgpr)
        self.vectors = Pool(isa.LANE + 1, isa.VGPRS, self._no_vgpr)

    def _no_sgpr(self) -> NoReturn:
        fail(Code.MLS_REGISTERS, self.span, wanted=f"at most {isa.SGPRS}", kind="scalar registers")

    def _no_vgpr(self) -> NoReturn:
        fail(Code.MLS_REGISTERS, self.span, wanted=f"at most {isa.VGPRS}", kind="vector registers")

    # ---- lines ----

    def op(
        self,
        name: str,
        *operands: Operand | int | str,
        comment: str = "",
        access: Access | None = None,
        words: tuple[str, ...] = (),
        **modifiers: int,
    ) -> None:
        """Append an instruction; a whole number is a literal, a string a label."""
        given = tuple(Int(o) if isinstance(o, int) else Target(o) if isinstance(o, str) else o for o in operands)
        pairs = tuple((k, v) for k, v in modifiers.items() if v or k in ("vmcnt", "lgkmcnt"))
        line = self.span.line
        self.lines.append(Instruction(name, given, pairs, words, access, comment, line))

    def remark_last(self, comment: str) -> None:
        """Say of the last instruction what it makes."""
        last = self.lines[-1]
        if isinstance(last, Instruction) and not last.comment:
            self.lines[-1] = replace(last, comment=comment)

    def retarget(self, operand: Operand, out: SGPR | VGPR) -> bool:
        """Have the last instruction write `out` instead of `operand`, if it made that and it was handed out."""
        last = self.lines[-1]
        if not (isinstance(last, Instruction) and operand in self._lent and last.operands[:1] == (operand,)):
            return False
        if not isa.OPCODES[last.name].forms[0].written or isa.OPCODES[last.name].counter:
            return False
        self.release(operand)
        self.lines[-1] = replace(last, operands=(out, *last.operands[1:]))
        return True

    def label(self, wish: str) -> str:
        """A label of its own, for `place` and branches."""
        self._labels += 1
        return f"{wish}_{self._labels}"

    def place(self, label: str) -> None:
        self.lines.append(Label(label))

    def remark(self, text: str) -> None:
        self.lines.append(Remark(text))

    # ---- registers ----

    def scalar(self, count: int = 1) -> SGPR:
        register = SGPR(self.scalars.take(count, 1 if count == 1 else 2 if count == 2 else 4), count)
        self._lent.add(register)
        return register

    def vector(self, count: int = 1) -> VGPR:
        register = VGPR(self.vectors.take(count), count)
        self._lent.add(register)
        return register

    def release(self, *operands: Operand) -> None:
        """Give back what was handed out; anything else is left alone."""
        for operand in operands:
            inner = operand.of if isinstance(operand, Signed) else operand
            if isinstance(inner, SGPR | VGPR) and inner in self._lent:
                self._lent.discard(inner)
                (self.scalars if isinstance(inner, SGPR) else self.vectors).give(inner.index, inner.count)

    def keep(self, register: SGPR | VGPR) -> None:
        """Never give it back."""
        self._lent.discard(register)

    @contextmanager
    def scratch(self, count: int) -> Iterator[SGPR]:
        register = self.scalar(count)
        yield register
        self.release(register)

    @contextmanager
    def vector_scratch(self, count: int) -> Iterator[VGPR]:
        register = self.vector(count)
        yield register
        self.release(register)

    def wait_lds(self) -> None:
        self.op("s_waitcnt", lgkmcnt=0)


def nth(registers: R, n: int, count: int = 1) -> R:
    """`count` of its registers from the nth on."""
    return replace(registers, index=registers.index + n, count=count)


def low(pair: R) -> R:
    return nth(pair, 0)


def high(pair: R) -> R:
    return nth(pair, 1)
