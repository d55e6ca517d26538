"""Basic blocks and natural loops of machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilegen.targets.hopper.sass import Instruction

_LEAVES = ("EXIT", "RET", "KILL", "BPT")  # where these stand, this path ends
_JUMPS = ("BRA", "JMP", "BRX", "JMX")


@dataclass(frozen=True)
class Block:
    """Instructions that run one after the other. Successors are indices of blocks."""

    index: int
    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A natural loop. `always` are the blocks that every iteration runs through, in their order of execution;
    `children` the loops directly inside (a spin on a barrier is one)."""

    header: int
    blocks: frozenset[int]
    always: tuple[int, ...]
    children: tuple[int, ...]  # headers

    def __contains__(self, block: int) -> bool:
        return block in self.blocks


def basic_blocks(code: Sequence[Instruction]) -> tuple[Block, ...]:
    """The blocks of a function, in order of address. Calls fall through; a subroutine has no predecessor."""
    leaders = {code[0].address} if code else set()
    for i, following in zip(code, [*code[1:], None], strict=True):
        if i.target is not None:
            leaders.add(i.target)
        if following is not None and i.is_a(*_JUMPS, *_LEAVES, "BSYNC"):
            leaders.add(following.address)
    starts = [n for n, i in enumerate(code) if i.address in leaders]
    pieces = [tuple(code[a:b]) for a, b in zip(starts, [*starts[1:], len(code)], strict=True)]
    at = {piece[0].address: n for n, piece in enumerate(pieces)}
    rejoin = _rejoin_points(pieces, at)
    return tuple(Block(n, piece, _successors(n, piece, at, len(pieces), rejoin)) for n, piece in enumerate(pieces))


def _successors(
    n: int, piece: tuple[Instruction, ...], at: dict[int, int], total: int, rejoin: dict[int, frozenset[int]]
) -> tuple[int, ...]:
    last = piece[-1]
    after = (n + 1,) if n + 1 < total else ()
    if last.is_a("BSYNC"):
        return tuple(sorted(rejoin.get(n, frozenset()))) or after
    if last.is_a(*_LEAVES):
        return after if last.predicate else ()
    if last.is_a(*_JUMPS):
        target = (at[last.target],) if last.target is not None else ()
        conditional = last.predicate or last.is_a("BRA.DIV", "BRA.CONV") or len(last.operands) > 1
        return tuple(dict.fromkeys((*target, *after))) if conditional else target
    return after


def _rejoin_points(pieces: list[tuple[Instruction, ...]], at: dict[int, int]) -> dict[int, frozenset[int]]:
    """Block with BSYNC -> blocks it may continue at: the targets of the BSSYs that reach it."""
    reaching: list[dict[str, frozenset[int]]] = [{} for _ in pieces]
    rejoin: dict[int, frozenset[int]] = {}
    work = [0] if pieces else []
    seen: set[int] = set()
    while work:
        n = work.pop()
        seen.add(n)
        state = dict(reaching[n])
        for i in pieces[n]:
            if i.is_a("BSSY") and i.target is not None:
                state[i.operands[0]] = frozenset({at[i.target]})
            elif i.is_a("BSYNC"):
                rejoin[n] = state.get(i.operands[0], frozenset())
        for s in _successors(n, pieces[n], at, len(pieces), rejoin):
            merged = dict(reaching[s])
            for register, targets in state.items():
                merged[register] = merged.get(register, frozenset()) | targets
            if merged != reaching[s] or s not in seen:
                reaching[s] = merged
                work.append(s)
    return rejoin


def natural_loops(blocks: Sequence[Block]) -> tuple[Loop, ...]:
    """Loops by back edges (to a block that dominates their source); those with one header are one loop."""
    order = _postorder(blocks)
    dominators = _dominators(blocks, order)
    sources: dict[int, list[int]] = {}
    for n in order:
        for s in blocks[n].successors:
            if dominators[n] >> s & 1:
                sources.setdefault(s, []).append(n)
    predecessors: dict[int, list[int]] = {n: [] for n in order}
    for n in order:
        for s in blocks[n].successors:
            predecessors[s].append(n)
    members: dict[int, frozenset[int]] = {}
    for header, latches in sources.items():
        inside, work = {header}, list(latches)
        while work:
            n = work.pop()
            if n not in inside:
                inside.add(n)
                work.extend(predecessors[n])
        members[header] = frozenset(inside)
    loops = []
    for header in sorted(members):
        mine = members[header]
        inner = [h for h in members if members[h] < mine]
        children = tuple(sorted(h for h in inner if not any(members[h] < members[g] for g in inner)))
        every = ~0
        for latch in sources[header]:
            every &= dominators[latch]
        # blocks that dominate one block form a chain: the more dominators, the later
        always = sorted((b for b in mine if every >> b & 1), key=lambda b: dominators[b].bit_count())
        loops.append(Loop(header, mine, tuple(always), children))
    return tuple(loops)


def _postorder(blocks: Sequence[Block]) -> list[int]:
    """Blocks reachable from the entry, successors before predecessors where no cycle says otherwise."""
    out: list[int] = []
    seen = {0}
    stack = [(0, iter(blocks[0].successors))] if blocks else []
    while stack:
        n, rest = stack[-1]
        nxt = next((s for s in rest if s not in seen), None)
        if nxt is None:
            out.append(n)
            stack.pop()
        else:
            seen.add(nxt)
            stack.append((nxt, iter(blocks[nxt].successors)))
    return out


def _dominators(blocks: Sequence[Block], order: Sequence[int]) -> dict[int, int]:
    """Block -> bit set of the blocks on every path from the entry to it, itself included."""
    everything = (1 << len(blocks)) - 1
    dominators = dict.fromkeys(order, everything)
    dominators[0] = 1
    predecessors: dict[int, list[int]] = {n: [] for n in order}
    for n in order:
        for s in blocks[n].successors:
            predecessors[s].append(n)
    changed = True
    while changed:
        changed = False
        for n in reversed(order):
            if n == 0:
                continue
            common = everything
            for p in predecessors[n]:
                common &= dominators[p]
            common |= 1 << n
            if common != dominators[n]:
                dominators[n], changed = common, True
    return dominators
