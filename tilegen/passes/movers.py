"""Which mover a launch's arrays allow: directives that leave it open become a choice for each alignment of tensors.

TMA takes rows that begin at multiples of 16 bytes, a thread's copy such as begin at multiples of its own width. What a
launch brings is known then; so there is a plan for each, and of a kernel's plans a launch takes the first that fits.
An output leaves by TMA where its rows end with whole 16 bytes too, and from registers, row by row, elsewhere; one
without columns always does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeAlias

from tilegen.ir.folded import FoldedProgram, Output
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan import ASYNCHRONOUS, STORE_CHUNK
from tilegen.ir.schedule import Alias, Block, Consumers, Directive, Hint, Stages, Via
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Affine, Move, Tensor, TileProgram
from tilegen.ir.uniform import Int, Uniform, from_poly, op
from tilegen.ir.variants import alignment
from tilegen.passes.rewrites import apply_directives, default_schedule
from tilegen.passes.synchronise.geometry import MAX_RANK, inside_a_piece, offset_unit, value_shape, width_of

# Directives, and the condition under which they are for a launch; None: always.
Choice: TypeAlias = "tuple[tuple[Directive, ...], Uniform | None]"


def by_alignment(
    folded: FoldedProgram, directives: tuple[Directive, ...], target: str, guard: Uniform | None = None
) -> tuple[Choice, ...]:
    """The directives once for each width of copies that indices allow, the widest first, and before these for outputs
    that TMA may store; the condition `guard` and that on tensors' alignment with each. Themselves alone where no mover
    is left open."""
    program = folded.tile
    if "tma" not in MACHINES[target].movers:
        directives = _all_copied(program, directives)
    widths = _by_width(program, directives, guard)
    asked = {d.tile for d in directives if isinstance(d, Via) and d.mover == "auto"}
    left_open = [o for o in folded.ops if isinstance(o, Output) and o.tensor in asked]
    boxed = [o.tensor for o in _with_columns(left_open, folded, directives, target) if _tma_stores(o, program)]
    others = [o.tensor for o in left_open if o.tensor not in boxed]
    in_rows = tuple((_in_rows(chosen, (*boxed, *others)), condition) for chosen, condition in widths)
    if not boxed:
        return in_rows
    (first, condition), *_ = widths
    by_tma = tuple(replace(d, mover="tma") if isinstance(d, Via) and d.tile in boxed else d for d in first)
    condition = reduce(_both, (_whole_rows(program.tensor(name)) for name in boxed), condition)
    return ((_in_rows(by_tma, others), condition), *in_rows)


def _in_rows(directives: tuple[Directive, ...], outputs: Collection[str]) -> tuple[Directive, ...]:
    """The directives with these outputs stored from registers: through no shared memory, and not by TMA, which hints
    are for."""
    kept = (d for d in directives if not isinstance(d, Alias | Stages | Hint) or _about(d) not in outputs)
    return tuple(replace(d, mover="rows") if isinstance(d, Via) and d.tile in outputs else d for d in kept)


def _about(d: Alias | Stages | Hint) -> str:
    match d:
        case Alias(buffer=name) | Stages(tile=name) | Hint(name=name):
            return name


def _with_columns(
    outputs: Sequence[Output], folded: FoldedProgram, directives: tuple[Directive, ...], target: str
) -> list[Output]:
    """Those of which a warpgroup holds more than a number a row, whatever moves them. Raises TilegenError for rows and
    blocks that cannot be."""
    if not outputs:
        return []
    s = _shaped(folded, directives, target)
    return [o for o in outputs if value_shape(s.op(o.source).axes, s, o.span, o.statement).cols is not None]


def _shaped(folded: FoldedProgram, directives: tuple[Directive, ...], target: str) -> Scheduled:
    """The program with the rows and blocks alone that directives give."""
    shaping = tuple(d for d in directives if isinstance(d, Block | Consumers))
    return apply_directives(default_schedule(folded, directives, target), shaping)


def _tma_stores(output: Output, program: TileProgram) -> bool:
    """Whether TMA can store an output, of some arrays: boxes are cut at its end alone, chunks written whole."""
    tensor = program.tensor(output.tensor)
    inner = tensor.dims[-1].constant
    whole = inner is None or inner * tensor.dtype.bytes % STORE_CHUNK == 0
    return len(tensor.dims) <= MAX_RANK and whole and not any(e.offset.terms for e in output.at)


def _whole_rows(tensor: Tensor) -> Uniform:
    """The condition that rows begin at multiples of what a TMA store writes at least, and end there."""
    ends = op("eq", op("mod", from_poly(tensor.dims[-1]), STORE_CHUNK // tensor.dtype.bytes), 0)
    return op("and", op("ge", alignment(tensor.name), STORE_CHUNK), ends)


def _by_width(program: TileProgram, directives: tuple[Directive, ...], guard: Uniform | None) -> tuple[Choice, ...]:
    """A choice for each width of the copies by threads that directives ask for."""
    moves = {m.name: program.tensor(m.tensor) for m in program.moves}
    open_ones = [d for d in directives if isinstance(d, Via) and d.tile in moves and d.mover in ("cp_async", "auto")]
    if not open_ones:
        return ((directives, guard),)
    size = min(moves[d.tile].dtype.bytes for d in open_ones)
    out: dict[tuple[tuple[str, int], ...], Choice] = {}
    for width in (*(w for w in ASYNCHRONOUS if w > size), size):
        settled = {d: _settled(d, width, program) for d in open_ones}
        taken = [_taken(d, program) for d in settled.values()]
        aligned = _aligned([(moves[d.tile], unit) for d, unit in zip(settled, taken, strict=True)])
        key = tuple((d.mover, unit) for d, unit in zip(settled.values(), taken, strict=True))
        chosen = tuple(settled.get(d, d) if isinstance(d, Via) else d for d in directives)
        out.setdefault(key, (chosen, _both(guard, aligned)))
    return tuple(out.values())


def _all_copied(program: TileProgram, directives: tuple[Directive, ...]) -> tuple[Directive, ...]:
    """The directives with every tile copied by threads, and outputs left open stored by them; `via … tma` stays, to be
    refused by name."""
    said = {d.tile: d for d in directives if isinstance(d, Via)}
    others = tuple(d for d in directives if not (isinstance(d, Via) and d.mover == "auto"))
    open_ones = (m for m in program.moves if m.name not in said or said[m.name].mover == "auto")
    return (*others, *(Via(m.name, "cp_async", m.span) for m in open_ones))


def _settled(d: Via, width: int, program: TileProgram) -> Via:
    if d.mover == "auto" and width == ASYNCHRONOUS[0] and _tma_takes(program.move(d.tile), program):
        return replace(d, mover="tma")
    return replace(d, mover="cp_async", width=width)


def _taken(d: Via, program: TileProgram) -> int:
    """Bytes at whose multiples rows have to begin for this mover: of a copy, the narrower the index, the fewer."""
    move = program.move(d.tile)
    last, dtype = move.at[-1], program.tensor(move.tensor).dtype
    return width_of(d.width, offset_unit(last) * dtype.bytes if isinstance(last, Affine) else 0, dtype)


def _tma_takes(move: Move, program: TileProgram) -> bool:
    """Whether TMA can bring a tile of a tensor whose rows begin where it wants them."""
    tensor, last = program.tensor(move.tensor), move.at[-1]
    shifted = isinstance(last, Affine) and inside_a_piece(last, tensor.dtype)
    return len(tensor.dims) <= MAX_RANK and not shifted


def _aligned(wanted: Sequence[tuple[Tensor, int]]) -> Uniform | None:
    """The condition that rows of tensors begin at multiples of these bytes, which they do of an element's."""
    most: dict[str, int] = {}
    for tensor, width in wanted:
        if width > tensor.dtype.bytes:
            most[tensor.name] = max(width, most.get(tensor.name, 0))
    condition: Uniform = Int(1)
    for name, width in most.items():
        condition = op("and", condition, op("ge", alignment(name), width))
    return condition if most else None


def _both(guard: Uniform | None, other: Uniform | None) -> Uniform | None:
    if guard is None or other is None:
        return other if guard is None else guard
    return op("and", guard, other)
