"""`tilegen explain`: where a tile lies, in its tensor and in shared memory."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.text import Text

from tilegen.cli.compile import source_of
from tilegen.cli.console import stdout, table
from tilegen.cli.publish import publish_file
from tilegen.cli.run import arguments, dense
from tilegen.cli.usage import wrong_usage
from tilegen.cli.values import Positions, Sizes, Wanted
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.diagnostics.core import TilegenError
from tilegen.inspect.drawing import LINE, Lines, Piece, copy_of, element_piece, shared_lines, svg
from tilegen.inspect.geometry import (
    PlacedTile,
    as_json,
    declared,
    dense_map,
    held_positions,
    moved_by_tma,
    place_tile,
    tile_axes,
)
from tilegen.ir.plan import CopyTile, Plan
from tilegen.ir.plan_verify import verify
from tilegen.ir.plan_walk import all_operations
from tilegen.ir.schedule import Via
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.tile import Ragged, TileProgram
from tilegen.ir.variants import heading
from tilegen.passes.pipeline import Way, of_launch
from tilegen.passes.synchronise import synchronise
from tilegen.passes.synchronise.geometry import extent_in_tile
from tilegen.passes.tokens import start_of
from tilegen.sema.faults import suggestion
from tilegen.sema.loading import load
from tilegen.targets.hopper.box import Box
from tilegen.targets.hopper.tensor_map_text import map_text


@dataclass(frozen=True)
class Asked:
    """What is shown of a tile. at: None where only its axes are asked for. element: of an element, what differs from
    `at`. map: in the terminal · svg: the file that it goes to."""

    tile: str
    at: Positions | None
    element: Positions
    map: bool
    svg: Path | None
    json: bool


@dataclass(frozen=True)
class _Place:
    """A program at sizes, as what a launch of them takes was scheduled. heading: which of the variants that is ·
    lengths: of ragged sizes, by sequence."""

    program: TileProgram
    way: Way
    heading: str
    scheduled: Scheduled
    plan: Plan
    numbers: Mapping[str, int]
    lengths: Mapping[str, list[int]]

    def values(self, at: Mapping[str, int]) -> dict[str, int]:
        """Sizes and integer scalars, ragged sizes as the sequence at hand has them. Axes that are not in `at`: 0."""
        found = dict(self.numbers)
        for ragged in self.program.ragged:
            lengths = self.lengths[ragged.size]
            sequence = at.get(self.sequences(ragged), 0)
            found[ragged.size] = lengths[sequence] if sequence < len(lengths) else 0
            found[start_of(ragged.size)] = sum(lengths[:sequence])
            found[f"{ragged.size}.tokens"] = sum(lengths)
        return found

    def longest(self) -> dict[str, int]:
        """The longest sequence by its axis; nothing, where no size is ragged."""
        each = list(zip(*self.lengths.values(), strict=True))
        number = max(range(len(each)), key=lambda n: min(each[n]), default=0)
        return {self.sequences(ragged): number for ragged in self.program.ragged}

    def sequences(self, ragged: Ragged) -> str:
        """The axis that numbers the sequences."""
        return next(a.name for a in self.program.axes if a.extent.symbols == {ragged.over})


def explain_command(wanted: Wanted, given: Sizes, asked: Asked) -> None:
    """Show where a tile of a spec lies; without a position, which axes say where it is."""
    program = load(source_of(wanted, given), wanted.parameters)
    sizes, scalars = arguments(program, given, wanted.target, small=False)
    integers = {name: value for name, value in scalars.items() if isinstance(value, int)}
    numbers = {**dense(sizes), **integers}
    ways, taken = of_launch(program, wanted.target, numbers)
    scheduled = ways[taken].scheduled()
    plan = synchronise(scheduled, ways[taken].guard)
    verify(plan)
    lengths = {name: value for name, value in sizes.items() if isinstance(value, list)}
    place = _Place(scheduled.program.tile, ways[taken], heading(ways, taken), scheduled, plan, numbers, lengths)
    _check_name(asked.tile, place)
    out = stdout()
    if asked.at is None:
        if asked.svg or asked.map or asked.element:
            wrong_usage("a tile is shown at a position", wanted="--at with it; without it, the axes are listed")
        axes = _axes(asked.tile, place)
        example = _example(wanted, given, asked.tile, axes, place)
        if asked.json:
            listed = {"tile": asked.tile, "variant": place.heading, "axes": axes, "example": example}
            out.print(json.dumps(listed, indent=1), markup=False)
            return
        _print_axes(out, asked.tile, axes, example, _assumed(sizes, given))
        return
    _check_axes(asked.tile, asked.at, place, "--at")
    _check_axes(asked.tile, asked.element, place, "--element")
    at = _completed(asked.at, place, "--at")
    values = place.values(at)
    _check_range(at, place, values, "--at")
    element = _completed({**asked.at, **asked.element}, place, "--element")
    _check_range(element, place, values, "--element")
    for axis, held in held_positions(asked.tile, scheduled, values, at).items():
        if element[axis] not in held:
            told = f"{axis} {held.start} to {held.stop - 1}"
            wrong_usage("--element: the tile at --at does not hold it", got=f"{axis}={element[axis]}", wanted=told)
    tile = place_tile(asked.tile, scheduled, plan, values, at, element)
    if asked.svg is not None:
        picture = svg(tile, f"{program.title}: {tile.name} at {_at(tile.at, tuple(tile.held))}")
        publish_file(asked.svg, picture.encode())
    if asked.json:
        out.print(json.dumps({"variant": place.heading, **as_json(tile)}, indent=1), markup=False)
        return
    _print(out, wanted, place, tile, sizes, _assumed(sizes, given), tuple(dict.fromkeys([*asked.at, *tile.held])))
    if asked.map:
        _print_map(out, tile)
    if asked.svg is not None:
        out.print(f"wrote {asked.svg}", markup=False)


# ---- what is asked for -----------------------------------------------------------------------------


def _check_name(name: str, place: _Place) -> None:
    moved = moved_by_tma(place.plan)
    if name in moved:
        return
    program = place.program
    known = [*(m.name for m in program.moves), *(d.name for d in program.definitions if d.output)]
    if name not in known:
        inputs = {m.tensor: m.name for m in program.moves}
        hint = f"`{inputs[name]}` is a tile of it" if name in inputs else suggestion(name, known)
        wrong_usage(f"{program.name} has no tile {name}", got=name, wanted=hint)
    stated = [d.mover for d in program.directives(place.way.target) if isinstance(d, Via) and d.tile == name]
    refusal, by_tma = _refusal_of_tma(name, place), ""
    if not refusal:
        instead = f", in place of `via {name} {stated[-1]}`" if stated else ""
        by_tma = f"let TMA move it: `via {name} tma` in the schedule{instead}"
    left_open = "auto" in stated
    fail(
        Code.NOT_BOXED,
        declared(name, program).span,
        got=refusal or (place.heading if left_open else ""),
        name=name,
        what=f"{_moved(name, place)}{' at these sizes' if left_open else ''}",
        known=", ".join(moved) or "none",
        by_tma=by_tma,
    )


def _moved(name: str, place: _Place) -> str:
    """How a tile or an output moves that no box does."""
    if any(t.name == name for t in place.program.tensors):
        return "stored in rows from registers"
    copied = any(isinstance(o, CopyTile) and o.slot.ring == name for _, _, o in all_operations(place.plan))
    return "copied by threads" if copied else "read without TMA"


def _refusal_of_tma(name: str, place: _Place) -> str:
    """Why TMA cannot move a tile or an output of these sizes, with the schedule as it is else; "" if it can."""
    others = (d for d in place.way.directives if not (isinstance(d, Via) and d.tile == name))
    by_tma = replace(place.way, directives=(*others, Via(name, "tma", place.program.span)))
    try:
        dense_map(name, place.program, by_tma.plan(), place.values(place.longest()))
    except TilegenError as error:
        return error.diagnostics[0].message
    return ""


def _check_axes(tile: str, given: Mapping[str, int], place: _Place, option: str) -> None:
    """Refuses what is no axis, and an axis that says nothing of where a tile is: the tile has not got it, nor its whole
    or a part of it."""
    program = place.program
    axes = tile_axes(tile, place.scheduled)
    telling = {*axes, *map(place.sequences, program.ragged)}
    for axis in program.axes:
        if axis.split is not None:
            parts = {axis.split.outer, axis.split.inner}
            telling |= parts if axis.name in axes else {axis.name} if parts & set(axes) else set()
    for name in given:
        if all(a.name != name for a in program.axes):
            wrong_usage(f"{option}: {program.name} has no axis {name}", got=name, wanted=suggestion(name, telling))
        if name not in telling:
            wrong_usage(
                f"{option}: {tile} is where {', '.join(axes)} are, whatever {name} is",
                got=f"{name}={given[name]}",
                wanted=f"{', '.join(f'{a}=…' for a in axes)}",
            )


def _completed(given: Mapping[str, int], place: _Place, option: str) -> dict[str, int]:
    """The position along every axis: those given, those that follow for split axes, and 0 along the others."""
    program = place.program
    axes = {a.name: a for a in program.axes}
    found = {name: given.get(name, 0) for name in axes}
    values = place.values(found)
    for axis in program.axes:
        if axis.split is None:
            continue
        outer, inner = axis.split.outer, axis.split.inner
        length = max(axes[inner].extent.evaluate(values), 1)
        if axis.name in given:
            parts = {outer: found[axis.name] // length, inner: found[axis.name] % length}
            for part, position in parts.items():
                if given.get(part, position) != position:
                    wrong_usage(
                        f"{option}: {part} follows from {axis.name}",
                        got=f"{part}={given[part]}",
                        wanted=f"{part}={position}, or leave it out",
                    )
            found |= parts
        else:
            found[axis.name] = found[outer] * length + found[inner]
    return found


def _check_range(at: Mapping[str, int], place: _Place, values: Mapping[str, int], option: str) -> None:
    for axis in place.program.axes:
        extent, position = axis.extent.evaluate(values), at[axis.name]
        if not 0 <= position < extent:
            wanted = f"0 to {extent - 1}" if extent > 0 else "longer axes"
            wrong_usage(
                f"{option}: {axis.name} has {extent} positions at these sizes; --size changes them",
                got=f"{axis.name}={position}",
                wanted=wanted,
            )


class _Axis(TypedDict):
    """An axis that says where a tile is. held: so many positions of it at once."""

    axis: str
    positions: int
    extent: str
    held: int


def _axes(name: str, place: _Place) -> list[_Axis]:
    """Of the longest sequence, where sizes are ragged."""
    values = place.values(place.longest())
    extents = {axis: place.program.axis(axis).extent for axis in tile_axes(name, place.scheduled)}
    return [
        _Axis(axis=a, positions=e.evaluate(values), extent=str(e), held=extent_in_tile(a, place.scheduled))
        for a, e in extents.items()
    ]


def _example(wanted: Wanted, given: Sizes, name: str, axes: Sequence[_Axis], place: _Place) -> str:
    """A command that places the tile in the middle of its axes, as what was asked for has it else."""
    middle = {**{a["axis"]: max(a["positions"] // 2, 0) for a in axes}, **place.longest()}
    words = ["tilegen", "explain", str(wanted.spec)]
    words += [word for key, value in wanted.parameters.items() for word in ("-D", f"{key}={value}")]
    words += [name, "--at", ",".join(f"{a['axis']}={middle[a['axis']]}" for a in axes)]
    if given:
        words += ["--size", ",".join(f"{key}={value}".replace(" ", "") for key, value in given.items())]
    return shlex.join([*words, "--tuned"] if wanted.tuned else words)


def _assumed(sizes: Mapping[str, object], given: Sizes) -> str:
    """Which sizes nobody gave."""
    names = [name for name in sizes if name not in given]
    return f"assumed, as --size does not give them: {', '.join(f'{n}={sizes[n]}' for n in names)}" if names else ""


def _print_axes(out: Console, name: str, axes: Sequence[_Axis], example: str, assumed: str) -> None:
    """The axes that say where a tile is, and a command that places it."""
    out.print(f"{name} is where these axes are:", markup=False)
    held = [f"{a['held']} together" if a["held"] > 1 else "one at a time" for a in axes]
    rows = [[a["axis"], a["positions"], a["extent"], h] for a, h in zip(axes, held, strict=True)]
    out.print(table(["axis", "positions", "which are", "held"], rows))
    if assumed:
        out.print(assumed, markup=False)
    out.print(f"for example: {example}", markup=False)


# ---- words -----------------------------------------------------------------------------------------


def _at(at: Mapping[str, int], axes: tuple[str, ...]) -> str:
    return ", ".join(f"{axis}={at[axis]}" for axis in axes)


def _print(
    out: Console,
    wanted: Wanted,
    place: _Place,
    tile: PlacedTile,
    sizes: Mapping[str, object],
    assumed: str,
    axes: tuple[str, ...],
) -> None:
    program = place.program
    source = program.source.line(tile.span.line).split("#")[0].strip()
    out.print(Text.assemble((f"{wanted.spec}:{tile.span.line}", "dim"), "  ", (source, "bold")))
    out.print(f"{program.title}: {', '.join(f'{k}={v}' for k, v in sizes.items())}", markup=False)
    if assumed:
        out.print(assumed, markup=False)
    if place.heading:
        out.print(place.heading, markup=False)
    held = ", ".join(f"{a} {r.start} to {r.stop - 1}" for a, r in tile.held.items() if len(r) > 1)
    out.print(f"at {_at(tile.at, axes)}, the tile holds {held or 'that position'}", markup=False)
    out.print()
    shape = ", ".join(map(str, tile.shape))
    out.print(f"tensor map over {tile.tensor.name}[{shape}], contiguous; bytes count from its start", markup=False)
    for line in map_text(tile.boxes[0].box.map).splitlines()[1:]:
        out.print(line, markup=False)
    out.print()
    rows = [_box_row(tile, number) for number in range(len(tile.boxes))]
    labels = ", ".join(tile.labels)
    out.print(f"boxes, at [{labels}]", markup=False)
    away = "not written" if tile.store else f"filled with {_fill(tile)}"
    whose = "of consumer" if tile.boxes[0].sharer is None else "loaded by CTA"
    out.print(table(["box", whose, "coordinates", "inside", away, "begins at shared byte", "bytes"], rows))
    brought = sum(_inside(b.box) for b in tile.boxes) - prod(len(r) for r in tile.held.values())
    if brought > 0 and not tile.store:
        out.print(f"{brought} elements of {tile.tensor.name} lie behind the ends of the axes: brought, never used")
    for line in _barrier(tile):
        out.print(line, markup=False)
    out.print()
    _print_corners(out, tile)
    out.print()
    _print_element(out, tile)


def _inside(box: Box) -> int:
    """Elements of a box that are inside of the tensor."""
    return prod(map(len, box.inside))


def _box_row(tile: PlacedTile, number: int) -> list[object]:
    placed = tile.boxes[number]
    box = placed.box
    total, here = prod(box.shape), _inside(box)
    clipped = [
        f"{label} from {part.stop + at} on" if part.stop < count else f"{label} below {part.start + at}"
        for label, count, part, at in zip(tile.labels, box.shape, box.inside, box.coordinates, strict=True)
        if here and len(part) < count
    ]
    away = "none" if here == total else "all" if not here else f"{total - here} elements: {' and '.join(clipped)}"
    whose = "".join(str(n) for n in (placed.part,) if n is not None)
    if placed.sharer is not None:
        whose = f"{placed.sharer}, for consumer {placed.part}" if whose else str(placed.sharer)
    coordinates = f"[{', '.join(map(str, box.coordinates))}]"
    return [number, whose, coordinates, f"{here} elements", away, placed.shared_byte, box.map.box_bytes]


def _barrier(tile: PlacedTile) -> Iterator[str]:
    b = tile.buffer
    copies = f", {b.parts} copies, one a consumer" if b.parts > 1 else ""
    stages = f"{b.stages} stages, {b.stage_bytes * b.parts} bytes apart" if b.stages > 1 else "one stage"
    yield f"shared memory: {b.name} from byte {b.offset} on, {stages}{copies}"
    if tile.barrier_bytes:
        yield f"barrier: each full barrier expects {tile.barrier_bytes} bytes, what is filled among them"


def _print_corners(out: Console, tile: PlacedTile) -> None:
    number = tile.element.number
    box = tile.boxes[number].box
    rows: list[list[object]] = []
    for corner in box.corners():
        place = f"[{', '.join(map(str, box.position(corner)))}]"
        byte = box.global_byte(corner)
        rows.append([place, f"byte {byte}" if box.holds(corner) else f"outside of {tile.tensor.name}"])
    out.print(f"corners of box {number}, in coordinates", markup=False)
    out.print(table(["corner", f"in {tile.tensor.name}"], rows))


def _print_element(out: Console, tile: PlacedTile) -> None:
    e = tile.element
    where = ", ".join(map(str, e.position))
    place = f"byte {e.global_byte} of it" if e.inside else "outside of it"
    out.print(f"element {tile.tensor.name}[{where}]: {place}", markup=False)
    placed = tile.boxes[e.number]
    slot = "the slot" if placed.part is None else f"consumer {placed.part}'s slot"
    where = f"shared byte {e.shared_byte} for stage {placed.stage}, bank {e.bank}"
    out.print(f"  in box {e.number}, byte {e.slot_byte} of {slot}: {where}", markup=False)


# ---- the map ---------------------------------------------------------------------------------------

_REPEAT = 8  # lines of 128 bytes
_COLOURS = ("blue", "dark_orange", "green", "magenta", "red", "cyan", "yellow", "purple")


def _print_map(out: Console, tile: PlacedTile) -> None:
    """Shared memory of one copy, 128 bytes a line; of lines that are alike but for their positions only the first
    eight."""
    lines, marked = shared_lines(tile), element_piece(tile)
    out.print()
    copy = copy_of(tile)
    whose = "" if copy is None else f" of consumer {copy}"
    cells = "a cell is 16 bytes, by the positions of its first element; colours are places in the tensor's rows"
    out.print(f"shared memory{whose}, 128 bytes a line: {cells}", markup=False)
    width = max(len(_cell(p)) for line in lines for p in line if p is not None)
    skipped = 0
    for n, line in enumerate(lines):
        if _seen(lines, n) and not any(p is not None and p.at == marked for p in line):
            skipped += 1
            continue
        if skipped:
            out.print(f"         … {skipped} lines like these", style="dim", markup=False)
            skipped = 0
        row = Text(f"{n * LINE:>7}  ", "dim")
        for piece in line:
            row.append_text(_styled(piece, marked, width))
        out.print(row)
    if skipped:
        out.print(f"         … {skipped} lines like these", style="dim", markup=False)
    away = "not written" if tile.store else _fill(tile)
    legend = f"( ) outside of {tile.tensor.name}: {away} · ( * cut by its border · [[ ]] the element"
    out.print(legend, markup=False)


def _fill(tile: PlacedTile) -> str:
    """What stands outside of a tensor."""
    return "NaN" if tile.boxes[0].box.map.fill == "nan" else "zeros"


def _seen(lines: Lines, n: int) -> bool:
    """Whether a line looks as the one eight lines above does: every swizzle repeats after that."""
    return n >= _REPEAT and _looks(lines[n]) == _looks(lines[n - _REPEAT])


def _looks(line: Sequence[Piece | None]) -> list[tuple[str, int] | None]:
    return [None if p is None else (p.state, p.number) for p in line]


def _cell(piece: Piece) -> str:
    return ",".join(map(str, piece.at))


def _styled(piece: Piece | None, marked: tuple[int, ...], width: int) -> Text:
    if piece is None:
        return Text(" " * (width + 5))
    marks = {"inside": (" ", " "), "outside": ("(", ")"), "cut": ("(", "*")}[piece.state]
    if piece.at == marked:
        marks = ("[[", "]]")
    style = "dim" if piece.state == "outside" else _COLOURS[piece.number % len(_COLOURS)]
    return Text(f"{marks[0] + _cell(piece) + marks[1]:>{width + 4}} ", f"bold {style}" if piece.at == marked else style)
