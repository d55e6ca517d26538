"""Sizes of a launch, inferred from the arrays' shapes; where shapes disagree, the message says which and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fail, fault
from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import TensorShape
from tilegen.ir.uniform import Sym, Uniform, evaluate, symbols, text
from tilegen.runtime.arrays import ArrayView
from tilegen.syntax.span import Span

MAX_SIZE = 2**31 - 1  # kernels take sizes as int32


@dataclass(frozen=True)
class _Extent:
    """One dimension of one array: what the spec says it is, and what it is."""

    tensor: str
    dim: int
    expression: Uniform
    extent: int


def infer_sizes(
    tensors: Iterable[TensorShape],
    views: Mapping[str, ArrayView],
    given: Mapping[str, int],
    spans: Mapping[str, Span],
) -> dict[str, int]:
    """Every size: those `given`, and those that the shapes of the arrays in `views` determine.

    `given` also holds the integer scalars. Raises TilegenError for ranks and extents that disagree with the
    tensors' declarations, and for a size that nothing determines.
    """
    tensors = tuple(tensors)
    _check_ranks(tensors, views, spans)
    facts = [
        _Extent(t.name, n, expression, extent)
        for t in tensors
        if t.name in views
        for n, (expression, extent) in enumerate(zip(t.dims, views[t.name].shape, strict=True))
    ]
    values = dict(given)
    why = {name: f"{name} = {value} as given" for name, value in given.items()}
    pending = sorted(facts, key=lambda f: not isinstance(f.expression, Sym))  # plain sizes before products of them
    while pending:
        rest = [f for f in pending if not _solve(f, values, why, spans)]
        if len(rest) == len(pending):
            break
        pending = rest
    for f in pending:
        unknown = sorted(symbols(f.expression) - values.keys())
        if unknown and evaluate(f.expression, {**values, **dict.fromkeys(unknown, 1)}) == f.extent == 0:
            # a factor is 0, so the others do not matter
            values.update(dict.fromkeys(unknown, 1))
    needed = {name for t in tensors for d in t.dims for name in symbols(d)}
    missing = sorted(needed - values.keys())
    if missing:
        raise TilegenError(tuple(fault(Code.SIZE_UNKNOWN, spans.get(name), size=name) for name in missing))
    _check_extents(facts, values, why, spans)
    for name in sorted(needed):
        if not 0 <= values[name] <= MAX_SIZE:
            fail(Code.SIZE_RANGE, spans.get(name), got=str(values[name]), wanted=f"0 to {MAX_SIZE}", size=name)
    return values


def _check_ranks(tensors: Iterable[TensorShape], views: Mapping[str, ArrayView], spans: Mapping[str, Span]) -> None:
    for t in tensors:
        if t.name in views and len(views[t.name].shape) != len(t.dims):
            dims = ", ".join(text(d) for d in t.dims)
            got, wanted = f"shape {views[t.name].shape}", f"{len(t.dims)} dimensions"
            fail(Code.ARRAY_RANK, spans.get(t.name), got=got, wanted=wanted, tensor=t.name, dims=dims)


def _solve(f: _Extent, values: dict[str, int], why: dict[str, str], spans: Mapping[str, Span]) -> bool:
    """Whether this extent says no more: all of its symbols are known, or its one unknown is found now."""
    unknown = symbols(f.expression) - values.keys()
    if not unknown:
        return True
    if len(unknown) > 1:
        return False
    (name,) = unknown
    at_0, at_1 = (evaluate(f.expression, {**values, name: n}) for n in (0, 1))
    step = at_1 - at_0
    if not step:
        return False
    size, left = divmod(f.extent - at_0, step)
    if left or evaluate(f.expression, {**values, name: size}) != f.extent or size < 0:
        others = sorted(symbols(f.expression) - unknown)
        reasons = "; ".join(why[n] for n in others)
        if at_0 == 0 and step > 1:
            factor = f"{others[0]} = {step}" if [values[n] for n in others] == [step] else str(step)
            wanted = f"a multiple of {step}" + (f" ({reasons})" if reasons else "")
            _disagree(f, f"does not fit: {f.extent} is not a multiple of {factor}", wanted, spans)
        _disagree(f, f"disagrees with any {name}" + (f" ({reasons})" if reasons else ""), "", spans)
    values[name] = size
    why[name] = f"{name} = {size} of {f.tensor}"
    return True


def _check_extents(
    facts: Iterable[_Extent], values: Mapping[str, int], why: Mapping[str, str], spans: Mapping[str, Span]
) -> None:
    for f in facts:
        wanted = evaluate(f.expression, values)
        if wanted != f.extent:
            names = sorted(symbols(f.expression))
            reason = "; ".join(why[n] for n in names) if names else "the value it is compiled for"
            _disagree(f, f"disagrees with {reason}", str(wanted), spans)


def _disagree(f: _Extent, reason: str, wanted: str, spans: Mapping[str, Span]) -> None:
    fail(
        Code.ARRAY_EXTENT, spans.get(f.tensor), got=str(f.extent), wanted=wanted,
        tensor=f.tensor, dim=f.dim, expression=text(f.expression), why=reason,
    )  # fmt: skip
