"""Ragged tensors as plain ones over an axis of tokens.

`ragged S over B by cu`: dimensions that list B and S become one dimension of tokens, and the index (b, i) there
becomes i + `S.start`. The start and the length (which keeps the name S) of the sequence at hand are uniform integers
that each work item brings along, so that extents, domains and masks follow from S as they do for a dense size. What
else knows of sequences is where items come from (`synchronise/items.py`) and how a launch learns its sizes.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.folded import Elementwise, FoldedOp, FoldedProgram, Output
from tilegen.ir.poly import Poly
from tilegen.ir.tile import Affine, Axis, Expr, Index, Ragged, Read, Size, Tensor, TileProgram
from tilegen.passes.expressions import rebuild
from tilegen.syntax.span import Span

# Names that the rewriting makes have a dot, which no name of a spec can have.


def tokens_of(size: str) -> str:
    """The size that counts the tokens of all sequences of a ragged size."""
    return f"{size}.tokens"


def start_of(size: str) -> str:
    """The name of the first token of the sequence at hand."""
    return f"{size}.start"


def batch_axis(program: TileProgram) -> Axis:
    """The axis whose positions are the sequences of a ragged program. Raises TilegenError if there is more than one."""
    first = program.ragged[0]
    for other in program.ragged:
        if other.over != first.over:
            got, wanted = f"{first.over} and {other.over}", "one"
            fail(Code.RAGGED_BATCHES, other.span, got=got, wanted=wanted, over=other.over)
    axis = next((a for a in program.axes if a.extent == Poly.symbol(first.over)), None)
    if axis is None:
        fail(Code.RAGGED_BATCHES, first.span, got="none", wanted="one", over=first.over)
    return axis


def ragged_extent(axis: Axis, program: TileProgram) -> bool:
    """Whether the extent of an axis differs from one sequence to the next."""
    return any(r.size in axis.extent.symbols for r in program.ragged)


def as_tokens(program: FoldedProgram) -> FoldedProgram:
    """`program` with its ragged tensors over tokens. Raises TilegenError for what cannot be stored so."""
    if not program.tile.ragged:
        return program
    return _Tokens(program.tile).run(program)


class _Tokens:
    def __init__(self, tile: TileProgram) -> None:
        self.tile = tile
        self.sequence = batch_axis(tile).name
        self.places = {t.name: place for t in tile.tensors if (place := self._place(t)) is not None}

    def _place(self, tensor: Tensor) -> tuple[int, int, Ragged] | None:
        """(the dimension of sequences, the ragged one, of which size), None for a tensor that is not ragged."""
        sizes = {r.size: r for r in self.tile.ragged}
        found = [(n, dim) for n, dim in enumerate(tensor.dims) if dim.symbols & sizes.keys()]
        if not found:
            return None
        at, dim = found[0]
        size = next((s for s in sizes if dim == Poly.symbol(s)), None)
        if len(found) > 1 or size is None:
            dims = " and ".join(str(d) for _, d in found)
            fail(Code.RAGGED_TENSOR, tensor.span, tensor=tensor.name, got=dims, wanted="one, which is a size alone")
        batch = [n for n, d in enumerate(tensor.dims) if d == Poly.symbol(sizes[size].over)]
        if len(batch) > 1:
            got = f"{len(batch)} of {sizes[size].over}"
            fail(Code.RAGGED_TENSOR, tensor.span, tensor=tensor.name, got=got, wanted="one dimension of sequences")
        return batch[0], at, sizes[size]

    def run(self, program: FoldedProgram) -> FoldedProgram:
        tile = self.tile
        ragged = {r.size for r in tile.ragged}
        counts = tuple(Size(tokens_of(s.name), None, s.span) for s in tile.sizes if s.name in ragged)
        tile = replace(
            tile,
            sizes=(*(s for s in tile.sizes if s.name not in ragged), *counts),
            tensors=tuple(map(self._tensor, tile.tensors)),
            moves=tuple(replace(m, at=self._index(m.tensor, m.at, m.span)) for m in tile.moves),
            domain=tuple(
                replace(c, alternatives=tuple(tuple(map(self._member, a)) for a in c.alternatives)) for c in tile.domain
            ),
        )
        return FoldedProgram(tile, tuple(map(self._operation, program.ops)))

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.name not in self.places:
            return tensor
        batch, at, ragged = self.places[tensor.name]
        dims = [Poly.symbol(tokens_of(ragged.size)) if n == at else d for n, d in enumerate(tensor.dims)]
        del dims[batch]
        return replace(tensor, dims=tuple(dims))

    def _index(self, tensor: str, index: tuple[Index, ...], span: Span) -> tuple[Index, ...]:
        if tensor not in self.places:
            return index
        batch, at, ragged = self.places[tensor]
        sequence, inside = index[batch], index[at]
        if not isinstance(sequence, Affine) or sequence.axis != self.sequence or not isinstance(inside, Affine):
            fail(Code.RAGGED_INDEX, span, tensor=tensor, axis=self.sequence, size=ragged.size)
        shifted = replace(inside, offset=inside.offset + Poly.symbol(start_of(ragged.size)))
        entries = [shifted if n == at else e for n, e in enumerate(index)]
        del entries[batch]
        return tuple(entries)

    def _member(self, member: Affine | Expr) -> Affine | Expr:
        return member if isinstance(member, Affine) else self._expr(member)

    def _expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Read):
            return replace(expr, index=self._index(expr.name, expr.index, expr.span))
        return rebuild(expr, self._expr)

    def _operation(self, op: FoldedOp) -> FoldedOp:
        if isinstance(op, Elementwise):
            return replace(op, value=self._expr(op.value))
        if isinstance(op, Output):
            at = self._index(op.tensor, op.at, op.span)
            return replace(op, at=tuple(e for e in at if isinstance(e, Affine)))
        return op
