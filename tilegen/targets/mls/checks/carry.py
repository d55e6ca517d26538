"""64-bit addresses in pairs of registers: where the low word comes from an addition, the high word takes its carry."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, Note
from tilegen.targets.mls import isa
from tilegen.targets.mls.checks.flow import Site
from tilegen.targets.mls.checks.values import SCC, Made, Met, Value, Values, places
from tilegen.targets.mls.program import Instruction
from tilegen.targets.mls.text import instruction_text

_PAIRS = {"s_add_u32": "s_addc_u32", "s_sub_u32": "s_subb_u32", "v_add_co_u32": "v_addc_co_u32"}
_OVERFLOWS = frozenset({"s_add_i32", "s_sub_i32"})
_COPIES = frozenset({"s_mov_b32", "s_mov_b64", "v_mov_b32", "v_readfirstlane_b32"})
_MASKS = frozenset({"s_and_b32", "s_or_b32"})  # of a high word alone: its upper bits are no part of the address


def carry(values: Values) -> Iterator[Diagnostic]:
    """A fault for each sum of low words whose carry an address misses."""
    told: set[int] = set()
    for _, site, _ in values.states():
        for low, high in _addresses(site.instruction, values.sources[site.number]):
            for culprit, why in _Search(values).wrong(low, high):
                if culprit not in told:
                    told.add(culprit)
                    yield _fault(values.sites[culprit], site, why)


def _fault(culprit: Site, user: Site, why: str) -> Diagnostic:
    access = user.instruction.access
    tile = f"tile {access.tile}: " if access else ""
    text = instruction_text(culprit.instruction)
    notes = (Note(user.span, "the address is used here"),)
    return fault(Code.MLS_CARRY, culprit.span, notes=notes, what=f"{tile}the carry of `{text}` is lost: {why}")


def _addresses(instruction: Instruction, sources: tuple[tuple[Value, ...], ...]) -> Iterator[tuple[Value, Value]]:
    """The words of the global addresses that an instruction takes, low and high."""
    unit = isa.OPCODES[instruction.name].unit
    if unit == isa.MLS:
        yield sources[0][0], sources[0][1]
    elif unit == isa.SMEM:
        yield sources[1][0], sources[1][1]
    elif unit == isa.GLOBAL:
        forms = isa.OPCODES[instruction.name].forms
        for words, form in zip(sources, forms, strict=True):
            if form.kind in ("g", "e") and len(words) == 2:
                yield words[0], words[1]


class _Search:
    """Goes back from an address to where its words were made."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._seen: set[tuple[Value, Value]] = set()

    def wrong(self, low: Value, high: Value) -> Iterator[tuple[int, str]]:
        """Additions whose carry does not reach the high word, and why."""
        low, high = self._source(low, False), self._source(high, True)
        if (low, high) in self._seen:
            return
        self._seen.add((low, high))
        if isinstance(low, Met) or isinstance(high, Met):
            yield from self._meeting(low, high)
        elif isinstance(low, Made):
            yield from self._made(low, high)

    def _made(self, low: Made, high: Value) -> Iterator[tuple[int, str]]:
        values = self._values
        name = values.sites[low.site].instruction.name
        above = values.sites[high.site].instruction.name if isinstance(high, Made) else ""
        if name in _OVERFLOWS and above in _PAIRS.values():
            yield low.site, f"{name} leaves its overflow in scc, not its carry"
        if name not in _PAIRS:
            return
        wanted = _PAIRS[name]
        if not isinstance(high, Made) or above != wanted:
            made = (
                f"is made by `{instruction_text(values.sites[high.site].instruction)}`"
                if isinstance(high, Made)
                else "is left as it was"
            )
            yield low.site, f"the high word {made}, and wants {wanted}"
            return
        if (lost := self._intruder(low, high, name)) is not None:
            yield low.site, lost
            return
        sums, highs = values.sources[low.site], values.sources[high.site]
        first = 2 if name.startswith("v_") else 1
        for a, b in zip(sums[first : first + 2], highs[first : first + 2], strict=True):
            if a and b:
                yield from self.wrong(a[0], b[0])

    def _intruder(self, low: Made, high: Made, name: str) -> str | None:
        """Why the carry that the high word takes is not that of the low word."""
        values = self._values
        if name.startswith("v_"):
            taken, own = values.sources[high.site][4][0], values.sites[low.site].instruction.operands[1]
            given = isinstance(taken, Made) and taken.site == low.site
            return None if given else f"the high word takes another carry than that in {own}"
        taken = values.carry[high.site]
        if taken == Made(low.site, SCC):
            return None
        if isinstance(taken, Made):
            between = values.sites[taken.site]
            return f"`{instruction_text(between.instruction)}` in line {between.span.line} writes scc in between"
        return "another instruction may have written scc in between"

    def _meeting(self, low: Value, high: Value) -> Iterator[tuple[int, str]]:
        """Ways meet: the words that each brings belong together."""
        meetings = self._values.meetings
        block = max(v.block for v in (low, high) if isinstance(v, Met))
        lows = meetings[low] if isinstance(low, Met) and low.block == block else None
        highs = meetings[high] if isinstance(high, Met) and high.block == block else None
        for way in lows or highs or {}:
            yield from self.wrong(lows[way] if lows else low, highs[way] if highs else high)

    def _source(self, value: Value, high: bool) -> Value:
        """The value behind copies; of a high word also behind masks with literals."""
        values = self._values
        while isinstance(value, Made):
            instruction = values.sites[value.site].instruction
            sources = values.sources[value.site]
            if instruction.name in _COPIES:
                operand = sources[1]
                if not operand:
                    return value
                first = places(instruction.operands[0]).index(value.place)
                value = operand[min(first, len(operand) - 1)]
            elif high and instruction.name in _MASKS and any(isinstance(s[0], int) for s in sources[1:] if s):
                value = next((s[0] for s in sources[1:] if s and not isinstance(s[0], int)), value)
            else:
                return value
        return value
