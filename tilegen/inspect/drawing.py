"""Pictures of a tile: which 16 bytes of it lie where in shared memory, and which are filled instead of loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tilegen.inspect.geometry import PlacedBox, PlacedTile
from tilegen.ir.plan_rules.memory import PIECE

LINE = 128  # bytes: every bank once
PIECES = LINE // PIECE


@dataclass(frozen=True)
class Piece:
    """16 bytes of a tile. at: the positions of their first element along the dimensions in which the tile extends,
    outermost first. number: which piece of its swizzle's span it is, in the order of the tensor. inside: how many of
    its `count` elements are inside the tensor."""

    at: tuple[int, ...]
    number: int
    inside: int
    count: int

    @property
    def state(self) -> str:
        """inside | outside | cut, where the tensor's border goes through it."""
        return "inside" if self.inside == self.count else "cut" if self.inside else "outside"


Lines = Sequence[Sequence[Piece | None]]


def copy_of(tile: PlacedTile) -> int | None:
    """The part that pictures show: the one that holds the element."""
    return tile.boxes[tile.element.number].part


def shared_lines(tile: PlacedTile) -> Lines:
    """One copy of the tile as it lies in shared memory: a list a line of 128 bytes, of what each 16 bytes hold."""
    boxes = tile.beside_element
    start = boxes[0].shared_byte - boxes[0].slot_byte
    found: dict[int, Piece] = {}
    for placed in boxes:
        for index in placed.box.pieces():
            byte = placed.box.shared_byte(index, placed.shared_byte) - start
            found[byte // PIECE] = _piece(tile, placed, index)
    return [[found.get(n) for n in range(first, first + PIECES)] for first in range(0, max(found) + 1, PIECES)]


def _piece(tile: PlacedTile, placed: PlacedBox, index: tuple[int, ...]) -> Piece:
    box = placed.box
    size = box.map.element_bytes
    count = PIECE // size
    elements = ((index[0] + n, *index[1:]) for n in range(count))
    span = max(box.map.swizzle, PIECE)
    return Piece(
        _at(tile, placed, index),
        index[0] * size % span // PIECE,
        sum(box.holds(e) for e in elements),
        count,
    )


def _at(tile: PlacedTile, placed: PlacedBox, index: tuple[int, ...]) -> tuple[int, ...]:
    """Where an element of a box is along the dimensions in which boxes extend, outermost first. What a box brings in
    chunks counts as one dimension."""
    found: dict[tuple[int, str], int] = {}
    for m, side, position in zip(tile.descriptor.dims, placed.box.shape, placed.box.position(index), strict=True):
        if m.chunk:
            found[m.dim, ""] = found.get((m.dim, ""), 0) + position * (m.chunk if m.part == "outer" else 1)
        elif side > 1:
            found[m.dim, m.part] = position
    return tuple(position for _, position in sorted(found.items()))


# ---- SVG -------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP = 64, 18, 24  # of a cell, and between what does not belong together
_HUES = (210, 30, 130, 280, 0, 180, 60, 330)  # one a piece of a swizzle's span


def svg(tile: PlacedTile, title: str) -> str:
    """Two panels in one picture: the tile in the order of its tensor, and as it lies in shared memory. Pieces of a row
    keep their colour; grey is filled with zeros (or, of a store, not written); a bold frame is the element's."""
    shared = shared_lines(tile)
    ordered = _in_order(shared)
    lines = max(len(shared), len(ordered))
    left, width = 70, PIECES * _WIDTH
    top = 64
    body = [*_panel(ordered, tile, left, top, None), *_panel(shared, tile, left * 2 + width + _GAP, top, LINE)]
    total = (left * 2 + 2 * width + 2 * _GAP, top + lines * _HEIGHT + _GAP)
    filled = "not written" if tile.store else "filled"
    caption = f"grey: outside of {tile.tensor.name}, {filled}. Left: in the order of the tensor. Right: shared memory."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" '
            f'viewBox="0 0 {total[0]} {total[1]}" font-family="monospace" font-size="11">',
            f'<rect width="{total[0]}" height="{total[1]}" fill="white"/>',
            f'<text x="{left}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
            f'<text x="{left}" y="44">{escape(caption)}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


def _in_order(shared: Lines) -> Lines:
    """The pieces in the order of the tensor, a list a row."""
    rows: dict[tuple[int, ...], list[Piece]] = {}
    for line in shared:
        for piece in line:
            if piece is not None:
                rows.setdefault(piece.at[:-1], []).append(piece)
    ordered = (sorted(pieces, key=lambda p: p.at[-1]) for _, pieces in sorted(rows.items()))
    return [row[n : n + PIECES] for row in ordered for n in range(0, len(row), PIECES)]


def _panel(lines: Lines, tile: PlacedTile, left: int, top: int, pitch: int | None) -> Iterator[str]:
    """pitch: bytes from one line to the next, shown in front of it; None where lines are rows of the tensor."""
    marked = element_piece(tile)
    for n, line in enumerate(lines):
        y = top + n * _HEIGHT
        first = next((p for p in line if p is not None), None)
        name = str(n * pitch) if pitch else ",".join(map(str, first.at[:-1])) if first else ""
        yield f'<text x="{left - 6}" y="{y + 13}" text-anchor="end" fill="#666">{name}</text>'
        for column, piece in enumerate(line):
            if piece is None:
                continue
            x, here = left + column * _WIDTH, piece.at == marked
            frame = 'stroke="black" stroke-width="2"' if here else 'stroke="white"'
            yield f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" fill="{_colour(piece)}" {frame}/>'
            yield f'<text x="{x + _WIDTH // 2}" y="{y + 13}" text-anchor="middle">{",".join(map(str, piece.at))}</text>'


def _colour(piece: Piece) -> str:
    if piece.state == "outside":
        return "#cccccc"
    return f"hsl({_HUES[piece.number % len(_HUES)]},70%,{78 if piece.state == 'inside' else 90}%)"


def element_piece(tile: PlacedTile) -> tuple[int, ...]:
    """Where the 16 bytes that hold the element begin: `Piece.at`."""
    placed = tile.boxes[tile.element.number]
    count = PIECE // placed.box.map.element_bytes
    index = tile.element.index
    return _at(tile, placed, (index[0] - index[0] % count, *index[1:]))
