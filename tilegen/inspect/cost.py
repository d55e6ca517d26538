"""What moving each tile costs: by TMA, by copies of every thread, and by the matrix loads of the MLS machine.

Each figure says where it comes from: *counted* in what was emitted, or *computed* by a formula that stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.inspect.moving import Moving, movings
from tilegen.ir.plan import ASYNCHRONOUS, CopyTile, Operation, Plan, RolePlan, TmaLoad
from tilegen.ir.plan_rules.memory import PIECE
from tilegen.ir.plan_walk import all_operations, body_of
from tilegen.ir.tile import TileProgram
from tilegen.targets.hopper.sass import Function
from tilegen.targets.mls import isa
from tilegen.targets.mls.build import MlsBuilt
from tilegen.targets.mls.lower.movement import Moved
from tilegen.targets.mls.program import SGPR, Instruction, Label, Line

COPY_BYTES = 16  # of a thread's copy
COPY_THREADS = 128
WARP = 32
# a copy: its predicate, its 64-bit address (two additions), itself
_A_COPY = 4


@dataclass(frozen=True)
class Movement:
    """What it takes to bring one block of a tile.

    instructions: issued, of all warps or waves together · issuers: how many of them issue · registers: that
    take part, of one issuer · predicates: conditions about what is outside, of one issuer · bytes:
    written to shared memory · detail: instructions by kind · source: where the figures come from, in words.
    """

    machine: str
    mover: str
    instructions: int
    issuers: int
    registers: int
    predicates: int
    bytes: int
    detail: tuple[tuple[str, int], ...]
    counted: bool
    source: str


@dataclass(frozen=True)
class Invariant:
    """What must hold of a moved tile, and who keeps it in each way to move it."""

    what: str
    tma: str
    copies: str
    mls: str


@dataclass(frozen=True)
class TileCost:
    """A tile: its block's shape on each machine ("" where the spec is not built for one), and what each way to move it
    costs."""

    tile: str
    tensor: str
    line: int
    hopper: str
    sm_80: str
    mls: str
    ways: tuple[Movement, ...]


INVARIANTS = (
    Invariant(
        "an address of 64 bits keeps its carry",
        "hardware: coordinates alone are issued",
        "software: two additions a copy",
        "software: s_addc_u32 behind each s_add_u32",
    ),
    Invariant(
        "nothing past the tensor is touched",
        "hardware: the map holds the extents",
        "software: a predicate a copy",
        "software: filters, and no load whose filter is everything",
    ),
    Invariant(
        "what is outside is zero",
        "hardware: filled",
        "hardware, told a copy: a size of 0 fills",
        "filtered parts by hardware, whole pieces by stores",
    ),
    Invariant(
        "data is there before it is read",
        "hardware counts the bytes; software says how many",
        "software: every thread arrives, or waits and meets the others",
        "software: s_waitcnt of every wave, then s_barrier",
    ),
    Invariant(
        "a slot is not overwritten while it is read",
        "software: an empty barrier",
        "software: an empty barrier, or a meeting of all threads",
        "software: s_barrier before the next loads",
    ),
    Invariant(
        "rows lie so that banks do not collide",
        "hardware: the map's swizzle",
        "software: exclusive or, a copy",
        "nobody: lines are packed",
    ),
    Invariant(
        "bases and strides are multiples of 16 bytes",
        "checked when arrays are bound",
        "not needed: narrower copies, or elements one by one",
        "checked when arrays are bound",
    ),
)


@dataclass(frozen=True)
class Emitted:
    """A plan and its machine code with true places, if it was compiled."""

    plan: Plan
    code: Function | None = None

    def movements(self, program: TileProgram) -> dict[str, Movement]:
        """What moves each tile, as the machine code has it."""
        if self.code is None:
            return {}
        return {m.tile: _emitted(m, self.plan) for m in movings(program, self.plan, self.code)}


def costs(program: TileProgram, hopper: Emitted, built: MlsBuilt | None, sm_80: Emitted | None) -> tuple[TileCost, ...]:
    """Every tile that the machines hold in shared memory. built, sm_80: None for what is not built for them."""
    plan = hopper.plan
    emitted, by_threads = hopper.movements(program), sm_80.movements(program) if sm_80 else {}
    found = []
    for move in program.moves:
        buffer = next((b for b in plan.buffers if b.name == move.name), None)
        ring = next((r for r in built.plan.rings if r.tile == move.name), None) if built else None
        loads = _fill(plan, move.name)
        if buffer is None or (built and ring is None):
            continue
        rank = len(program.tensor(move.tensor).dims)
        parts = buffer.parts
        moved_bytes = plan.ring(move.name).bytes * parts
        found.append(
            TileCost(
                move.name,
                move.tensor,
                move.span.line,
                _shape(plan, move.name),
                _shape(sm_80.plan, move.name) if sm_80 else "",
                f"{ring.rows} x {ring.cols}" if ring else "",
                (
                    *_on_hopper(emitted.get(move.name), loads, moved_bytes, rank),
                    *_by_threads(sm_80.plan if sm_80 else None, by_threads.get(move.name), move.name, rank),
                    *([_matrix_loads(built, move.name)] if built else []),
                ),
            )
        )
    return tuple(found)


def _shape(plan: Plan, tile: str) -> str:
    buffer = plan.buffer(tile)
    return f"{buffer.rows * buffer.parts} x {buffer.cols}"


def _on_hopper(emitted: Movement | None, loads: tuple[TmaLoad, ...], moved: int, rank: int) -> tuple[Movement, ...]:
    """What was emitted, and what copies would take where they were not."""
    if emitted is not None:
        return (emitted,) if emitted.mover == "copies" else (emitted, _copies("hopper", moved, rank))
    return (*([_tma(loads, moved)] if loads else []), _copies("hopper", moved, rank))


def _by_threads(plan: Plan | None, emitted: Movement | None, tile: str, rank: int) -> tuple[Movement, ...]:
    """What was emitted; computed where there is no code, or none on one way through which all copies of a block stand
    (columns that end inside a copied chunk leave them in a loop)."""
    if emitted is not None or plan is None:
        return (emitted,) if emitted is not None else ()
    role, copy = _copy(plan, tile)
    ring = plan.ring(tile)
    return (_copies(plan.target, ring.bytes * ring.parts, rank, role.threads, copy.width),)


# ---- TMA, and copies by threads: the machine code, where there is some ----


def _fill(plan: Plan, tile: str) -> tuple[TmaLoad, ...]:
    """The boxes of one block of a tile, for all parts of its slot."""

    def inside(body: tuple[Operation, ...]) -> tuple[TmaLoad, ...]:
        here = tuple(o for o in body if isinstance(o, TmaLoad) and o.slot.ring == tile)
        if here:
            return here
        return next((x for o in body if (x := inside(body_of(o)))), ())

    return next((x for role in plan.roles if (x := inside(role.body))), ())


def _emitted(m: Moving, plan: Plan) -> Movement:
    """As the machine code has it; of a tile that CTAs load together what one of them does, and all that comes to it."""
    shares = next((r.shares for r in plan.rings if r.name == m.tile), 1)
    mover = ("TMA" if m.mover == "TMA" else "copies") + (f", {shares} CTAs together" if shares > 1 else "")
    detail = (
        (f"{m.mover} instructions, of all warps", m.issued_copies),
        ("vector registers", m.named.vector),
        ("uniform registers", m.named.uniform),
        ("vector registers in the copies' addresses", m.addressing.vector),
        ("uniform registers in the copies' addresses", m.addressing.uniform),
    )
    registers = m.named.vector + m.named.uniform
    source = "counted in the machine code: all that names the tile's line, for a block of which nothing lies outside"
    return Movement(plan.target, mover, m.slots, m.warps, registers, m.predicates, m.bytes, detail, True, source)


def _tma(loads: tuple[TmaLoad, ...], moved: int) -> Movement:
    """Per box: an instruction of one thread, with its coordinates, the map's address (2 registers), the slot's and the
    barrier's. Per part of the slot: the announcement of its bytes."""
    parts = len({x.slot.part for x in loads})
    rank = len(loads[0].coordinates)
    detail = (("boxes", len(loads)), ("announcements of bytes", parts))
    source = "from the plan, without machine code: an instruction a box, one to announce the bytes"
    return Movement("hopper", "TMA", len(loads) + parts, 1, rank + 4, 0, moved, detail, False, source)


# ---- copies of every thread: computed ----


def _copy(plan: Plan, tile: str) -> tuple[RolePlan, CopyTile]:
    """The threads that bring a tile, and how."""
    copies = ((role, o) for role, _, o in all_operations(plan) if isinstance(o, CopyTile))
    return next((role, o) for role, o in copies if o.slot.ring == tile)


def _copies(machine: str, moved: int, rank: int, threads: int = COPY_THREADS, width: int = COPY_BYTES) -> Movement:
    each = -(-moved // (width * threads))
    whole = width in ASYNCHRONOUS
    what, stores = ("the copy", 0) if whole else (f"the load, and for {PIECE} bytes a store", each * width // PIECE)
    a_thread = rank + 2 + each * _A_COPY - 2 + stores + 1  # the last copy needs no next address
    warps = -(-threads // WARP)
    detail = (("copies of a thread", each), ("instructions of a thread", a_thread))
    registers = 2 + 2 + 1 + 2  # the address, the stride of a step, the place in shared memory, the row and its limit
    source = (
        f"{threads} threads, {width} bytes a copy; a thread: one multiply-add a dimension for its first address, "
        f"2 to swizzle, and for each copy a comparison, two additions for the next address and {what}; 1 to arrive"
    )
    return Movement(machine, "copies", a_thread * warps, warps, registers, each, moved, detail, False, source)


# ---- MLS: the lines of the emitted text ----


def _matrix_loads(built: MlsBuilt, tile: str) -> Movement:
    """The lines of one fetch, on the path of a block that nothing of lies outside; of one wave, times the waves."""
    ring = built.plan.ring(tile)
    fetch = next(m for m in reversed(built.moved) if m.tile == tile and m.what == "fetch")
    aim = next(m for m in built.moved if m.tile == tile and m.what == "aim")
    whole = _straight(built.program.lines[fetch.first : fetch.last])
    kinds = Counter(_kind(i) for i in whole)
    registers = _scalars(_lines(built, fetch)) | _scalars(_lines(built, aim))
    edge = len(_lines(built, fetch)) - len(whole)
    carries = sum(i.name == "s_addc_u32" for i in whole)
    detail = (
        *((f"{kind}, of a wave", n) for kind, n in sorted(kinds.items())),
        ("additions with carry, of a wave", carries),
        ("more where something lies outside, in the text", edge),
        ("once for a work item, of a wave", len(_lines(built, aim))),
    )
    predicates = sum(i.name.startswith("s_cmp") for i in whole)
    waves = built.plan.waves
    source = "counted in the assembly, on the path of a block that is whole"
    return Movement(
        "mls", "matrix loads", len(whole) * waves, waves, len(registers), predicates, ring.bytes, detail, True,
        source,
    )  # fmt: skip


def _lines(built: MlsBuilt, moved: Moved) -> list[Instruction]:
    return [x for x in built.program.lines[moved.first : moved.last] if isinstance(x, Instruction)]


def _straight(lines: Iterable[Line]) -> list[Instruction]:
    """Instructions that run where no branch to zeroes is taken: those up to the branch around them."""
    found: list[Instruction] = []
    skipping = False
    for line in lines:
        if isinstance(line, Label):
            skipping = False if skipping and not _zeroes(line.name) else skipping
        elif isinstance(line, Instruction):
            if skipping:
                continue
            found.append(line)
            skipping = line.name == "s_branch"
    return found


def _zeroes(label: str) -> bool:
    return "_zero_" in label


def _kind(instruction: Instruction) -> str:
    unit = isa.OPCODES[instruction.name].unit
    return {isa.SALU: "scalar", isa.SMEM: "scalar loads", isa.MLS: "matrix loads", isa.CONTROL: "control"}.get(
        unit, "vector"
    )


def _scalars(instructions: Iterable[Instruction]) -> set[int]:
    """Scalar registers that they touch."""
    return {
        n for i in instructions for o in i.operands if isinstance(o, SGPR) for n in range(o.index, o.index + o.count)
    }
