"""What it takes to bring one block of each tile into shared memory, counted in the machine code.

Counted are the instructions that name the tile's line of the spec, on the way through the code on which most of its
copies stand: that of a block of which nothing lies outside of the tensor, without the polls of a barrier that come
after the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilegen.inspect.statements import stems_from
from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.memory import PIECE
from tilegen.ir.plan_walk import all_operations, operations
from tilegen.ir.tile import Move, TileProgram
from tilegen.targets.hopper.control_flow import Loop
from tilegen.targets.hopper.sass import NO_BYTES, Function, Instruction

COPIES = {"UTMALDG": "TMA", "LDGSTS": "cp.async"}
_LANES = 32
_BLOCK_OVER = ("SYNCS.ARRIVE.TRANS64", "ARRIVES.LDGSTSBAR")  # one for each part of a slot, behind its copies
_REGISTER = re.compile(r"(?<![\w.])(U?[RP])(\d+)(\.64)?\b")


@dataclass(frozen=True)
class Registers:
    """How many different registers are named, vector and uniform ones."""

    vector: int
    uniform: int


@dataclass(frozen=True)
class Moving:
    """A block of a tile, all parts of its slot together, as it is brought in a loop if it is in one.

    shape: of the block, with the element type · mover: of COPIES · warps: how many run these instructions ·
    instructions, copies: of one of them · named: in all its instructions · addressing: in the addresses of its copies ·
    predicates: predicate registers that are named.
    """

    tile: str
    line: int
    shape: str
    bytes: int
    mover: str
    warps: int
    instructions: int
    copies: int
    named: Registers
    addressing: Registers
    predicates: int

    @property
    def slots(self) -> int:
        """Issue slots that a block takes, of all warps together."""
        return self.instructions * self.warps

    @property
    def issued_copies(self) -> int:
        """Copies of all warps together, each for up to 32 threads."""
        return self.copies * self.warps


MOVING_HEADER = (
    "tile",
    "block",
    "bytes",
    "by",
    "copies",
    "issue slots",
    "warps",
    "registers named",
    "in the copies' addresses",
    "predicates",
)


def moving_row(m: Moving) -> list[object]:
    """What stands under MOVING_HEADER."""
    registers = (f"{r.vector} + {r.uniform}" for r in (m.named, m.addressing))
    return [m.tile, m.shape, m.bytes, m.mover, m.issued_copies, m.slots, m.warps, *registers, m.predicates]


def movings(program: TileProgram, plan: ir.Plan, code: Function) -> tuple[Moving, ...]:
    """Every tile that copies of COPIES bring; one moved element by element, by loads and stores, has none. code: the
    plan's kernel, with true places."""
    found = (_moving(program.source.name, move, plan, code) for move in program.moves)
    return tuple(moving for moving in found if moving is not None)


def _moving(file: str, move: Move, plan: ir.Plan, code: Function) -> Moving | None:
    ring = next((r for r in plan.rings if r.name == move.name), None)
    role = _mover_of(plan, move.name)
    if ring is None or role is None:
        return None
    lines = range(move.span.line, move.span.end_line + 1)

    own = [i for i in code.instructions if stems_from(i, file, lines)]
    buffer = plan.buffer(ring.buffer)
    each = 0 if ring.barriers else _copies_of(role, buffer, move.name)
    way = _way(code, {i.address for i in own if i.is_a(*COPIES)}, each)
    mine = [i for i in way if stems_from(i, file, lines)]
    copies = [i for i in mine if i.is_a(*COPIES)]
    over = len(copies) // each if each else sum(i.is_a(*_BLOCK_OVER) and NO_BYTES not in i.opcode for i in mine)
    if not copies or not over:
        return None
    named = _named(part for i in mine for part in (i.predicate, *i.operands))
    return Moving(
        move.name,
        move.span.line,
        f"{buffer.rows * ring.parts} x {buffer.cols} {buffer.dtype}",
        ring.bytes * ring.parts,
        COPIES[copies[0].opcode.split(".")[0]],
        -(-role.threads // _LANES),
        len(mine) * ring.parts // over,
        len(copies) * ring.parts // over,
        _registers(named),
        _registers(_named(part for i in copies for part in i.operands if "[" in part)),
        sum("P" in kind for kind, _ in named),
    )


def _mover_of(plan: ir.Plan, tile: str) -> ir.RolePlan | None:
    """The role that brings the tile."""
    for role, _, o in all_operations(plan):
        if isinstance(o, ir.TmaLoad | ir.CopyTile) and o.slot.ring == tile:
            return role
    return None


def _copies_of(role: ir.RolePlan, buffer: ir.Buffer, tile: str) -> int:
    """Asynchronous copies of each thread for a block of the tile; 0 where they are others."""
    copy = next(o for _, o in operations(role, 0) if isinstance(o, ir.CopyTile) and o.slot.ring == tile)
    if copy.width not in ir.ASYNCHRONOUS:
        return 0
    apart = role.threads * PIECE // buffer.line
    return -(-buffer.rows // apart) * -(-buffer.cols // buffer.chunk) * (PIECE // copy.width)


def _named(parts: Iterable[str]) -> set[tuple[str, int]]:
    """Registers and predicates, by their kind and number; the two of a pair."""
    found = (m for part in parts for m in _REGISTER.finditer(part))
    return {(m[1], int(m[2]) + n) for m in found for n in range(2 if m[3] else 1)}


def _registers(named: set[tuple[str, int]]) -> Registers:
    return Registers(sum(kind == "R" for kind, _ in named), sum(kind == "UR" for kind, _ in named))


# ---- the way of a whole block --------------------------------------------------------------------------


def _way(code: Function, copies: set[int], enough: int) -> tuple[Instruction, ...]:
    """The way with most of the copies (given by address), or with `enough` of them if that is not 0: through the
    innermost loop that has such a way, where its own copies stand in no loop inside it, or through all of the code."""
    regions = [*code.loops, None]
    ways = [(found, region) for region in regions if (found := _best(code, region, copies)) is not None]
    full = max((count for (count, _), _ in ways), default=0)
    least = enough or full
    if not full or full < least:
        return ()
    (_, blocks), _ = min(
        (w for w in ways if w[0][0] >= least),
        key=lambda w: len(w[1].blocks) if w[1] is not None else len(code.blocks),
    )
    return code.code(blocks)


def _best(code: Function, region: Loop | None, copies: set[int]) -> tuple[int, tuple[int, ...]] | None:
    """(copies, blocks) of the best way from a loop's header to its end, or through all of the code. Loops inside are
    gone through once, and their copies do not count. Of ways with as many copies the shortest."""
    inside = region.blocks if region is not None else frozenset(range(len(code.blocks)))
    inner = {b for loop in code.loops if loop.blocks < inside for b in loop.blocks}
    start = region.header if region is not None else 0
    best: dict[int, tuple[int, int, tuple[int, ...]] | None] = {}
    for block in _ends_first(code, start, inside):
        here = code.blocks[block]
        count = 0 if block in inner else sum(i.address in copies for i in here.instructions)
        ahead = [s for s in here.successors if s in inside and not _back(code, block, s)]
        further = [found for s in ahead if (found := best.get(s)) is not None]
        ends = not here.successors if region is None else region.header in here.successors
        options = [(count + n, length - len(here.instructions), (block, *rest)) for n, length, rest in further]
        options += [(count, -len(here.instructions), (block,))] * ends
        best[block] = max(options, default=None)
    found = best.get(start)
    return None if found is None else (found[0], found[2])


def _back(code: Function, source: int, to: int) -> bool:
    return any(loop.header == to and source in loop for loop in code.loops)


def _ends_first(code: Function, start: int, inside: frozenset[int]) -> Iterator[int]:
    """The blocks that can be reached inside, each behind those that it leads to, back edges aside."""
    seen = {start}
    stack = [(start, iter(code.blocks[start].successors))]
    while stack:
        block, rest = stack[-1]
        following = next((s for s in rest if s in inside and s not in seen and not _back(code, block, s)), None)
        if following is None:
            yield block
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(code.blocks[following].successors)))
