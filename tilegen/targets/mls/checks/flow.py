"""The control flow of an MLS program: blocks of instructions, who follows whom, who comes after all of a branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from tilegen.syntax.span import Span
from tilegen.targets.mls.program import Instruction, Label, Program, Target

_ENDS = ("s_endpgm", "s_branch")


@dataclass(frozen=True)
class Site:
    """An instruction and where it stands; `number` counts the program's instructions."""

    number: int
    instruction: Instruction
    span: Span


@dataclass(frozen=True)
class Block:
    """Instructions that run one after another. `after`: the blocks that may follow; of a conditional branch the one
    that it leads to comes last."""

    number: int
    sites: tuple[Site, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """A program's blocks in the order of its text; the first is where it begins."""

    program: Program
    blocks: tuple[Block, ...]
    before: tuple[tuple[int, ...], ...]

    def sites(self) -> Iterator[tuple[Block, Site]]:
        return ((block, site) for block in self.blocks for site in block.sites)

    def reachable(self, start: int, stop: int | None = None) -> set[int]:
        """Blocks that may run after block `start` has ended, not going on behind block `stop`."""
        found: set[int] = set()
        waiting = list(self.blocks[start].after)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            if number != stop:
                waiting += self.blocks[number].after
        return found

    def meeting(self, start: int) -> int | None:
        """The first block that every way from `start` to an end of the program comes through; None if there is none."""
        common = self._after_all[start] - {start}
        return max(common, key=lambda b: len(self._after_all[b]), default=None)

    @cached_property
    def _after_all(self) -> tuple[frozenset[int], ...]:
        """For each block those that every way from it comes through, itself among them."""
        everything = frozenset(range(len(self.blocks)))
        found = [everything if block.after else frozenset({block.number}) for block in self.blocks]
        changed = True
        while changed:
            changed = False
            for block in reversed(self.blocks):
                if not block.after:
                    continue
                common = frozenset.intersection(*(found[n] for n in block.after)) | {block.number}
                if common != found[block.number]:
                    found[block.number] = common
                    changed = True
        return tuple(found)


def flow_of(program: Program, spans: list[Span]) -> Flow:
    """The blocks of a verified program; spans: of its lines."""
    sites: list[Site] = []
    labels: dict[str, int] = {}
    starts = {0}
    for line, span in zip(program.lines, spans, strict=True):
        if isinstance(line, Label):
            labels[line.name] = len(sites)
            starts.add(len(sites))
        elif isinstance(line, Instruction):
            sites.append(Site(len(sites), line, span))
            if _target(line) is not None or line.name == "s_endpgm":
                starts.add(len(sites))
    bounds = [*sorted(s for s in starts if s < len(sites)), len(sites)]
    number = {start: k for k, start in enumerate(bounds[:-1])}
    blocks = []
    for k, (start, end) in enumerate(pairwise(bounds)):
        last = sites[end - 1].instruction
        target = _target(last)
        after = [] if last.name in _ENDS or k + 2 == len(bounds) else [k + 1]
        if target is not None:
            after.append(number[labels[target]])
        blocks.append(Block(k, tuple(sites[start:end]), tuple(after)))
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for other in block.after:
            before[other].append(block.number)
    return Flow(program, tuple(blocks), tuple(map(tuple, before)))


def _target(instruction: Instruction) -> str | None:
    return next((o.label for o in instruction.operands if isinstance(o, Target)), None)
