"""Folds of fields over the points of the domain: select first, then combine, so that no dead point enters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilegen.oracle.arithmetic import apply
from tilegen.oracle.domain import Mask
from tilegen.oracle.field import CastError, Field, full, together
from tilegen.oracle.named import Array, Axes, contract, expand, positions, union
from tilegen.oracle.rounding import (
    EX2,
    LG2,
    SMALLEST_NORMAL,
    ULP,
    cast_error,
    exponential_error,
    proper,
    summation_error,
)


@dataclass(frozen=True)
class Folded:
    """What a fold runs over: leaf axes, the extents of every axis around it, and the points that are in the domain."""

    over: frozenset[str]
    extents: Mapping[str, int]
    mask: Mask | None

    @property
    def mask_axes(self) -> Axes:
        return self.mask[0] if self.mask else ()

    @property
    def count(self) -> int:
        """The number of points, masked ones included."""
        return int(np.prod([self.extents[axis] for axis in self.over], dtype=np.int64))

    def live(self, axes: Axes) -> Array:
        """The mask over `axes`, a superset of its own."""
        if self.mask is None:
            return np.ones((1,) * len(axes), dtype=np.bool_)
        return expand(self.mask[1], self.mask[0], axes)

    def spread(self, field: Field) -> Field:
        """`field` over its axes, the mask's and the folded ones, every dimension at its full extent."""
        return full(field, union(field.axes, self.mask_axes, self.over), self.extents)

    def rest(self, axes: Axes) -> Axes:
        return tuple(axis for axis in axes if axis not in self.over)


# ---- maximum and minimum -------------------------------------------------------------------------------


def fold_extreme(kind: str, body: Field, folded: Folded) -> Field:
    """`max` or `min`; the empty one is -inf or +inf, and a NaN makes it NaN."""
    x = folded.spread(body.settled())
    identity = -np.inf if kind == "max" else np.inf
    where = positions(x.axes, folded.over)
    live = folded.live(x.axes)
    reduce = np.max if kind == "max" else np.min
    value = np.asarray(reduce(np.where(live, x.value, identity), axis=where, initial=identity))
    bound = np.max(np.where(live, x.bound, 0.0), axis=where, initial=0.0)
    return Field(folded.rest(x.axes), value, proper(bound, value))


# ---- sums ----------------------------------------------------------------------------------------------


def fold_sum(factors: Sequence[Field], folded: Folded, tensor_core: bool) -> Field:
    """The sum of the product of `factors`. `tensor_core`: products exact, added as a tensor core adds."""
    terms = _pairwise(list(factors))
    if len(terms) == 1 or not folded.over:
        body = terms[0] if len(terms) == 1 else apply("mul", (terms[0], terms[1]))
        return _plain_sum(body, folded, tensor_core)
    x, y = _over_all(terms[0], terms[1], folded)
    if folded.mask is None:
        return _product_sum(x, y, folded, None, tensor_core)
    mask = set(folded.mask_axes)
    if not mask <= set(x.axes) and not mask <= set(y.axes):
        x = folded.spread(x)
    x, y = _select(x, folded), _select(y, folded)
    bad = _bad_points([f for f in (x, y) if not mask <= set(f.axes)], folded)
    return _product_sum(x, y, folded, bad, tensor_core)


def _pairwise(factors: list[Field]) -> list[Field]:
    """At most two factors, made by multiplying those that together span the fewest points first."""

    def span(pair: tuple[int, int]) -> int:
        a, b = together(factors[pair[0]], factors[pair[1]])
        return int(np.prod(np.broadcast_shapes(a.value.shape, b.value.shape), dtype=np.int64))

    while len(factors) > 2:
        a, b = min(itertools.combinations(range(len(factors)), 2), key=span)
        product = apply("mul", (factors[a], factors[b]))
        factors = [f for n, f in enumerate(factors) if n not in (a, b)] + [product]
    return factors


def _over_all(x: Field, y: Field, folded: Folded) -> tuple[Field, Field]:
    """Both factors over every folded axis, so that the sum is one product of matrices."""

    def spread(field: Field) -> Field:
        return full(field, union(field.axes, folded.over), folded.extents)

    return spread(x), spread(y)


def _select(field: Field, folded: Folded) -> Field:
    """`field` with 0 at dead points; where it does not span the mask, at points that are dead for all others."""
    assert folded.mask is not None
    axes, live = folded.mask
    elsewhere = tuple(axis for axis in axes if axis not in field.axes)
    live = expand(
        np.asarray(live.any(axis=positions(axes, elsewhere))), tuple(a for a in axes if a in field.axes), field.axes
    )
    cast = field.cast and CastError(np.where(live, field.cast.units, 0.0), field.cast.relative, field.cast.axes)
    return Field(field.axes, np.where(live, field.value, 0.0), np.where(live, field.bound, 0.0), cast)


def _bad_points(fields: Sequence[Field], folded: Folded) -> Array | None:
    """Over the folded axes, in order: where a factor that is live for some and dead for others is not finite."""
    over = tuple(sorted(folded.over))
    bad: Array = np.zeros(tuple(folded.extents[axis] for axis in over), dtype=np.bool_)
    for field in fields:
        others = tuple(n for n, axis in enumerate(field.axes) if axis not in folded.over)
        bad = bad | (~np.isfinite(field.value)).any(axis=others)
    return bad if bad.any() else None


def _product_sum(x: Field, y: Field, folded: Folded, bad: Array | None, tensor_core: bool) -> Field:
    def product(a: Array, b: Array) -> Array:
        return contract(a, x.axes, b, y.axes, folded.over)[0]

    def casts(cast: CastError, units: Array, squares: Array) -> Array:
        return cast_error(total, units, squares, cast.relative) if folded.over <= cast.axes else units

    if bad is None:
        value, axes = contract(x.value, x.axes, y.value, y.axes, folded.over)
    else:
        value, axes = contract(_without(x, folded, bad), x.axes, _without(y, folded, bad), y.axes, folded.over)
        value = value + _one_by_one(x, y, folded, bad)
    total = np.where(np.isfinite(value), value, 0.0)
    x, y = _finite(x), _finite(y)  # what is no number has no error, and its neighbours have theirs
    ax, ay = np.abs(x.value), np.abs(y.value)
    bound = summation_error(folded.count, total, product(ax, ay), product(ax**2, ay**2), tensor_core)
    if np.any(x.bound):
        bound = bound + product(x.bound, ay + y.bound)
    if np.any(y.bound):
        bound = bound + product(ax, y.bound)
    if x.cast is not None:
        u, weight = x.cast.units, ay + y.error
        bound = bound + casts(x.cast, product(u, weight), product(u**2, weight**2))
    if y.cast is not None:
        u, weight = y.cast.units, ax + x.bound
        bound = bound + casts(y.cast, product(weight, u), product(weight**2, u**2))
    return Field(axes, value, proper(bound, value))


def _without(field: Field, folded: Folded, bad: Array) -> Array:
    """The values of a field with 0 at the bad points."""
    return np.where(expand(~bad, tuple(sorted(folded.over)), field.axes), field.value, 0.0)


def _finite(field: Field) -> Field:
    """`field` with 0, exactly, where it is not finite."""
    keep = np.isfinite(field.value)
    if keep.all():
        return field
    cast = field.cast and CastError(np.where(keep, field.cast.units, 0.0), field.cast.relative, field.cast.axes)
    return Field(field.axes, np.where(keep, field.value, 0.0), np.where(keep, field.bound, 0.0), cast)


def _one_by_one(x: Field, y: Field, folded: Folded, bad: Array) -> Array:
    """The contribution of the bad points, term by term: IEEE arithmetic where they are live, nothing where not."""
    over = tuple(sorted(folded.over))
    axes = union(x.axes, y.axes)
    live = folded.live(axes)
    total: Array = np.zeros((1,) * len(folded.rest(axes)))
    for point in np.argwhere(bad):
        at = {axis: slice(n, n + 1) for axis, n in zip(over, point.tolist(), strict=True)}

        def here(array: Array, at: Mapping[str, slice] = at) -> Array:
            """`array`, over all axes, at this point."""
            return array[
                tuple(at[a] if a in at and n > 1 else slice(None) for a, n in zip(axes, array.shape, strict=True))
            ]

        term = here(expand(x.value, x.axes, axes)) * here(expand(y.value, y.axes, axes))
        total = total + np.where(here(live), term, 0.0).sum(axis=positions(axes, over))
    return total


def _plain_sum(body: Field, folded: Folded, tensor_core: bool) -> Field:
    t = folded.spread(body)
    live = folded.live(t.axes)
    where = positions(t.axes, folded.over)

    def total(array: Array) -> Array:
        return np.asarray(np.where(live, array, 0.0).sum(axis=where))

    value = total(t.value)
    magnitudes = np.abs(t.value)
    bound = summation_error(folded.count, value, total(magnitudes), total(magnitudes**2), tensor_core) + total(t.bound)
    if t.cast is not None:
        units = total(t.cast.units)
        independent = folded.over <= t.cast.axes
        bound = bound + (cast_error(value, units, total(t.cast.units**2), t.cast.relative) if independent else units)
    return Field(folded.rest(t.axes), value, proper(bound, value))


# ---- sums of exponentials --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaled:
    """e**(x - top) at every point, 0 at dead ones, with `relative` errors; `top` is the row's largest exponent."""

    axes: Axes
    weights: Array
    relative: Array
    rest: Axes
    top: Array


def _scale(x: Field, folded: Folded, extra: Sequence[Field]) -> tuple[Scaled, list[Field]]:
    """The weights of a row relative to its maximum, for range alone. A row of -inf has weights 0."""
    x = folded.spread(x.settled())
    rest = union(folded.rest(x.axes), *(c.axes for c in extra))
    axes = union(x.axes, rest)
    x = full(x, axes, folded.extents)
    extra = [c.settled().onto(rest) for c in extra]
    live = folded.live(axes)
    top = np.asarray(np.max(np.where(live, x.value, -np.inf), axis=positions(axes, folded.over), initial=-np.inf))
    for c in extra:
        top = np.maximum(top, c.value)
    reference = expand(np.where(top == -np.inf, 0.0, top), rest, axes)
    weights = np.where(live, np.exp(x.value - reference), 0.0)
    relative = np.where(live & (weights > 0), exponential_error(x.value, x.bound, reference), 0.0)
    return Scaled(axes, weights, relative, rest, top), extra


def _denominator(scaled: Scaled, extra: Sequence[Field], folded: Folded) -> tuple[Array, Array]:
    """The sum of the weights and of the extra terms, and its relative error."""
    where = positions(scaled.axes, folded.over)
    total = scaled.weights.sum(axis=where)
    error = (scaled.weights * scaled.relative).sum(axis=where)
    error = error + summation_error(folded.count, total, total, (scaled.weights**2).sum(axis=where), False)
    reference = np.where(scaled.top == -np.inf, 0.0, scaled.top)
    for c in extra:
        term = np.exp(c.value - reference)
        total = total + term
        error = error + np.where(term > 0, term * exponential_error(c.value, c.bound, reference), 0.0) + ULP * total
    return total, np.where(total > 0, error / total, 0.0)


def weights(x: Field, extra: Sequence[Field], folded: Folded) -> Field:
    """`softmax`: the weight of each point, e**x over the sum of them all and of e**c."""
    scaled, terms = _scale(x, folded, extra)
    total, error = _denominator(scaled, terms, folded)
    total, error = expand(total, scaled.rest, scaled.axes), expand(error, scaled.rest, scaled.axes)
    value = np.where(total == 0, 0.0, scaled.weights / total)
    relative = np.where(error < 1, (1 + scaled.relative) / (1 - error) - 1, np.inf) + EX2
    bound = np.where(value == 0, 0.0, np.minimum(value * relative, 1.0)) + SMALLEST_NORMAL
    return Field(scaled.axes, value, proper(bound, value))


def logsumexp(x: Field, extra: Sequence[Field], folded: Folded) -> Field:
    """log(sum e**x + sum e**c); -inf where there is nothing to add."""
    scaled, terms = _scale(x, folded, extra)
    total, error = _denominator(scaled, terms, folded)
    value = np.where(scaled.top == -np.inf, -np.inf, scaled.top + np.log(total))
    spread = np.where(error < 1, -np.log1p(-np.minimum(error, 1.0)), np.inf)
    bound = spread + LG2 * (1 + np.abs(np.log(total))) + 2 * ULP * (np.abs(scaled.top) + np.abs(value))
    return Field(scaled.rest, value, proper(bound, value))


def fold_expsum(x: Field, factors: Sequence[Field], folded: Folded, tensor_core: bool) -> Field:
    """sum of e**x times the product of `factors`; the empty one is 0."""
    scaled, _ = _scale(x, folded, ())
    weight = Field(scaled.axes, scaled.weights, scaled.weights * scaled.relative)
    total = fold_sum([weight, *factors], folded, tensor_core)
    axes = union(scaled.rest, total.axes)
    total = total.onto(axes)
    top = expand(np.where(scaled.top == -np.inf, 0.0, scaled.top), scaled.rest, axes)
    factor = np.exp(top)
    value = total.value * factor
    bound = total.bound * factor + np.abs(value) * exponential_error(top, np.zeros(())) + SMALLEST_NORMAL
    return Field(axes, value, proper(bound, value))
