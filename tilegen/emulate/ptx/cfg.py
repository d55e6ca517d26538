"""Control flow: block leaders, and the order in which diverged threads are run so that they meet again.

Threads of a warpgroup that took different ways are run lowest rank first. With blocks ranked topologically, and each
loop's blocks kept together (before everything after the loop), the threads ahead wait where the ways join, and go on as
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilegen.emulate.ptx.module import Instruction, Label, Vector

_ENDS = {"bra", "brx", "ret", "exit", "trap"}


def targets_of(instruction: Instruction) -> list[int]:
    """Indices that a branch may jump to."""
    if instruction.opcode not in ("bra", "brx"):
        return []
    out: list[int] = []
    for operand in instruction.operands:
        if isinstance(operand, Label):
            out.append(operand.target)
        elif isinstance(operand, Vector):
            out += [item.target for item in operand.items if isinstance(item, Label)]
    return out


def leaders_of(code: Sequence[Instruction]) -> frozenset[int]:
    """Indices at which a basic block begins."""
    leaders = {0}
    for index, instruction in enumerate(code):
        if instruction.opcode in _ENDS:
            leaders.add(index + 1)
            leaders.update(targets_of(instruction))
    return frozenset(i for i in leaders if i <= len(code))


def schedule_order(code: Sequence[Instruction], leaders: frozenset[int]) -> tuple[int, ...]:
    """Rank of every instruction (and of the end); inside a block ranks rise."""
    starts = sorted(leaders | {len(code)})
    block_of = {start: n for n, start in enumerate(starts)}
    successors: list[list[int]] = []
    for n, start in enumerate(starts):
        if start >= len(code):
            successors.append([])
            continue
        last = code[starts[n + 1] - 1]
        out = [block_of[t] for t in targets_of(last)]
        if last.opcode not in _ENDS or last.guard is not None:
            out.append(n + 1)
        successors.append(out)
    ranks = [0] * (len(code) + 1)
    rank = 0
    for n in _order(range(len(starts)), successors):
        for index in range(starts[n], starts[n + 1] if n + 1 < len(starts) else len(code) + 1):
            ranks[index] = rank
            rank += 1
    return tuple(ranks)


def _order(nodes: Iterable[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """Topological order of `nodes`; a strongly connected part stays in one piece, header first, its inside alike."""
    members = set(nodes)
    out: list[int] = []
    for part in reversed(_components(sorted(members), members, successors)):
        if len(part) == 1:
            out += part
            continue
        inside = set(part)
        entered = {t for n in members - inside for t in successors[n] if t in inside}
        header = min(entered or inside)
        out.append(header)
        out += _order(inside - {header}, successors)
    return out


def _components(nodes: Sequence[int], members: set[int], successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Strongly connected components (Tarjan, without recursion), in reverse topological order."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    out: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            following = [s for s in successors[node] if s in members]
            for position in range(at, len(following)):
                other = following[position]
                if other not in index:
                    work += [(node, position + 1), (other, 0)]
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                if low[node] == index[node]:
                    part: list[int] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.append(member)
                        if member == node:
                            break
                    out.append(part)
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
    return out
