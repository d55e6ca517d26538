"""Block ranges against brute force: on random affine domains, and as the samples' loops use them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.specs import loaded, sample, schedule_of, scheduled_sample, text_of
from tests.passes.walks import check_loops, live, loops, whole
from tilegen.ir.uniform import Int, Sym, Uniform, evaluate
from tilegen.passes.pipeline import to_scheduled
from tilegen.passes.ranges import Conjunction, Constraint, block_ranges
from tilegen.passes.synchronise.geometry import WARPGROUP_ROWS
from tilegen.passes.synchronise.work import total_items

Points = npt.NDArray[np.bool_]

# ---- random domains --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """alpha * (j div unit) + sum(slopes * rows) + beta >= 0, if active (None: always)."""

    alpha: int
    slopes: tuple[int, ...]
    beta: int
    active: bool | None
    unit: int = 1

    def holds(self, j: int, rows: tuple[int, ...]) -> bool:
        return (
            self.active is False
            or self.alpha * (j // self.unit) + sum(s * x for s, x in zip(self.slopes, rows, strict=True)) + (self.beta)
            >= 0
        )


@dataclass(frozen=True)
class Domain:
    """extent of j, block, clauses, and for each row axis its whole range and the part that must need no mask."""

    extent: int
    block: int
    clauses: tuple[Clause, ...]
    boxes: tuple[tuple[int, int], ...]
    parts: tuple[tuple[int, int], ...]
    symbolic: bool

    def live(self, j: int, rows: tuple[int, ...]) -> bool:
        return 0 <= j < self.extent and all(c.holds(j, rows) for c in self.clauses)

    def rows(self, boxes: tuple[tuple[int, int], ...]) -> list[tuple[int, ...]]:
        return list(product(*(range(first, last + 1) for first, last in boxes)))

    def live_blocks(self) -> set[int]:
        rows = self.rows(self.boxes)
        return {j // self.block for j in range(self.extent) if any(self.live(j, x) for x in rows)}

    def whole(self, block: int) -> bool:
        """Whether a block needs no mask for any row of the part."""
        rows = self.rows(self.parts)
        return all(self.live(j, x) for j in range(block * self.block, (block + 1) * self.block) for x in rows)

    def found(self, masked: bool = False) -> tuple[range, range]:
        """(visited, inside) blocks by the function under test, from numbers or from names bound to them."""
        values: dict[str, int] = {}

        def term(name: str, value: int) -> Uniform:
            if not self.symbolic:
                return Int(value)
            values[name] = value
            return Sym(name)

        axes = [f"x{n}" for n in range(len(self.boxes))]
        constraints = [
            Constraint(
                c.alpha,
                tuple((a, s) for a, s in zip(axes, c.slopes, strict=True) if s),
                term(f"beta{n}", c.beta),
                None if c.active is None else term(f"active{n}", int(c.active)),
                Int(c.unit),
            )
            for n, c in enumerate(self.clauses)
        ]

        def box(kind: str, boxes: tuple[tuple[int, int], ...]) -> dict[str, tuple[Uniform, Uniform]]:
            return {
                a: (term(f"{kind}{a}_first", low), term(f"{kind}{a}_last", high))
                for a, (low, high) in zip(axes, boxes, strict=True)
            }

        (r,) = block_ranges(
            term("extent", self.extent),
            self.block,
            [Conjunction(tuple(constraints), masked)],
            box("visit_", self.boxes),
            box("inside_", self.parts),
        )
        first, last = evaluate(r.first, values), evaluate(r.last, values)
        start, stop = (evaluate(u, values) for u in r.inside(r.first, r.last))
        assert last >= first, "a range ends before it starts"
        assert first <= start <= stop <= last, "the inside leaves the visited range"
        named = tuple(evaluate(u, {**values, "first": first, "last": last}) for u in r.inside("first", "last"))
        assert named == (start, stop), "bounds given by name mean something else"
        return range(first, last), range(start, stop)


SLOPES = st.integers(-3, 3)


@st.composite
def domains(draw: st.DrawFn, *, one_sign: bool = False) -> Domain:
    count = 1 if one_sign else draw(st.integers(1, 2))
    boxes, parts = [], []
    for _ in range(count):
        first = draw(st.integers(0, 20))
        size = draw(st.integers(1, 12))
        boxes.append((first, first + size - 1))
        low = draw(st.integers(first, first + size - 1))
        parts.append((low, draw(st.integers(low - 1, first + size - 1))))  # it may be empty
    clauses = []
    sign = draw(st.sampled_from([-1, 1]))
    for _ in range(draw(st.integers(0, 4))):
        beta = draw(st.integers(-40, 40))
        active = draw(st.sampled_from([None, None, True, False]))
        if one_sign:  # bounds of j that move by at most one position a row, all the same way: causal, window, chunks
            alpha = draw(st.sampled_from([-1, 1]))
            slope = draw(st.sampled_from([0, -alpha * sign]))
            clauses.append(Clause(alpha, (slope,), beta, active))
        else:
            unit = draw(st.sampled_from([1, 1, 1, 4, 7]))
            clauses.append(Clause(draw(SLOPES), tuple(draw(SLOPES) for _ in boxes), beta, active, unit))
    return Domain(
        draw(st.integers(0, 40)),
        draw(st.integers(1, 9)),
        tuple(clauses),
        tuple(boxes),
        tuple(parts),
        draw(st.booleans()),
    )


@settings(max_examples=250, deadline=None)
@given(domains())
def test_no_live_point_is_left_out_and_no_dead_one_goes_unmasked(domain: Domain) -> None:
    visited, inside = domain.found()
    assert domain.live_blocks() <= set(visited)
    assert all(domain.whole(block) for block in inside)


@settings(max_examples=250, deadline=None)
@given(domains(one_sign=True))
def test_ranges_are_minimal_where_slopes_have_one_sign(domain: Domain) -> None:
    visited, inside = domain.found()
    assert set(visited) == domain.live_blocks()
    if domain.rows(domain.parts):
        assert set(inside) == {block for block in visited if domain.whole(block)}


@settings(max_examples=50, deadline=None)
@given(domains())
def test_a_domain_with_a_clause_that_only_masks_has_nothing_inside(domain: Domain) -> None:
    visited, inside = domain.found(masked=True)
    assert domain.live_blocks() <= set(visited)
    assert not inside


def test_an_empty_axis_visits_nothing() -> None:
    domain = Domain(0, 4, (), ((0, 3),), ((0, 3),), True)
    assert domain.found() == (range(0, 0), range(0, 0))


def test_a_row_clause_that_fails_everywhere_visits_nothing() -> None:
    rows_from_ten = Clause(0, (1,), -10, None)
    assert not Domain(32, 4, (rows_from_ten,), ((0, 9),), ((0, 9),), True).found()[0]
    visited, inside = Domain(32, 4, (rows_from_ten,), ((8, 11),), ((8, 11),), True).found()
    assert visited == range(0, 8)
    assert not inside


@pytest.mark.parametrize("active", [None, True])
@pytest.mark.parametrize("lower", [Clause(1, (-1,), -2, None), Clause(1, (0,), -30, None)])
def test_bounds_that_exclude_each_other_visit_nothing(lower: Clause, active: bool | None) -> None:
    """j >= x + 2 and j <= x + 1, or j >= 30 and j <= 29: no row's own bounds tell."""
    upper = Clause(-1, lower.slopes and (-lower.slopes[0],), 1 if lower.slopes[0] else 29, active)
    assert not Domain(64, 4, (lower, upper), ((5, 20),), ((5, 20),), True).found()[0]
    off = Clause(upper.alpha, upper.slopes, upper.beta, False)
    assert Domain(64, 4, (lower, off), ((5, 20),), ((5, 20),), True).found()[0]


def test_far_positions_are_visited() -> None:
    """Positions go up to 2**31 - 1, and a row clause that holds cuts nothing."""
    extent = 2**31 - 1
    box: dict[str, tuple[Uniform, Uniform]] = {"x": (Int(0), Int(9))}
    (r,) = block_ranges(Int(extent), 64, [Conjunction((Constraint(0, (("x", 1),), Int(0)),))], box, box)
    assert evaluate(r.last, {}) == -(-extent // 64)


# ---- the samples -----------------------------------------------------------------------------------

WINDOW = """
kernel window(T: bf16 = bf16) {
  size Sq, Sk
  input Q: T[Sq, 64]
  input K: T[Sk, 64]
  output O: f32[Sq]
  scalar left: i32 = -1
  scalar right: i32 = 0
  axis i in Sq, j in Sk
  domain i, j: j >= i + Sk - Sq - left if left >= 0
  domain i, j: j <= i + Sk - Sq + right
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  s[i, j] = sum[d](q[i, d] * k[j, d])
  O[i] = logsumexp[j](s[i, j])
  schedule hopper { block i 128, j 32 consumers 2 over i WALK }
}
"""


LENGTHS = [(1, 1), (1, 300), (64, 64), (137, 200), (200, 137), (300, 1), (385, 383), (5, 0), (192, 81)]


@pytest.mark.parametrize(("Sq", "Sk"), LENGTHS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [64, 128, 256])
def test_attention_visits_the_blocks_of_its_domain(D: int, causal: bool, Sq: int, Sk: int) -> None:
    s = scheduled_sample("fa3_fwd", D=D, causal=causal)
    check_loops(s, {"B": 1, "Sq": Sq, "Sk": Sk, "Hk": 1, "G": 1})


@pytest.mark.parametrize("walk", ["", "walk j down"])
@pytest.mark.parametrize(("left", "right"), [(-1, 0), (0, 0), (40, 0), (70, 33), (500, 500)])
@pytest.mark.parametrize(("Sq", "Sk"), [(1, 100), (137, 137), (300, 200), (200, 300)])
def test_a_window_visits_the_blocks_of_its_domain(Sq: int, Sk: int, left: int, right: int, walk: str) -> None:
    s = to_scheduled(loaded(WINDOW.replace("WALK", walk)))
    check_loops(s, {"Sq": Sq, "Sk": Sk, "left": left, "right": right})


@pytest.mark.parametrize("N", [1, 64, 65, 200])
@pytest.mark.parametrize("name", ["row_softmax", "gemm_logsumexp"])
def test_without_clauses_only_the_last_block_is_masked(name: str, N: int) -> None:
    s = scheduled_sample(name)
    check_loops(s, {"M": 200, "N": N, "V": N})


def test_products_alone_need_no_mask() -> None:
    s = scheduled_sample("gemm")
    for loop in loops(s, {"M": 130, "N": 130, "K": 333, "n.0": 0}):
        assert loop.visited == tuple(range(0, 6))
        assert loop.walked == tuple((b, False) for b in loop.visited)


@pytest.mark.parametrize("walk", ["", "walk j down"])
@pytest.mark.parametrize(("left", "right"), [(-1, 0), (0, 0), (70, 33), (500, 500)])
@pytest.mark.parametrize("order", ["ahead s by 1", "skip_rows", "ahead s by 1 skip_rows", "late O by 1"])
def test_orders_mask_by_the_iteration_of_their_own_steps(order: str, left: int, right: int, walk: str) -> None:
    """`ahead s by 1`: the element-wise steps of time t work on iteration t - 1, and so do the cuts."""
    if order.startswith("late"):
        s = to_scheduled(loaded(schedule_of(text_of("fa3_fwd"), f"block i 128, j 64 {order} {walk}"), causal=True))
        check_loops(s, {"B": 1, "Sq": 200, "Sk": 300 - left, "Hk": 1, "G": 1})
        return
    s = to_scheduled(loaded(WINDOW.replace("WALK", f"{order} {walk}")))
    check_loops(s, {"Sq": 200, "Sk": 300, "left": left, "right": right})


@pytest.mark.parametrize("walk", ["", "walk j down"])
@pytest.mark.parametrize("domain", ["2 * j <= 3 * i + 5", "j >= 3 and j < 100", "j <= i and i >= 70"])
def test_other_domains_are_masked_where_they_need_it(domain: str, walk: str) -> None:
    """What cuts rows or has other slopes is sound, if not minimal."""
    start, end = WINDOW.index("  domain"), WINDOW.index("  tile")
    spec = f"{WINDOW[:start]}  domain {'i, ' if 'i' in domain else ''}j: {domain}\n{WINDOW[end:]}"
    spec = spec.replace("  scalar left: i32 = -1\n  scalar right: i32 = 0\n", "").replace("WALK", walk)
    s = to_scheduled(loaded(spec))
    values = {"Sq": 200, "Sk": 150}
    points = live(s.program.tile, ("i", "j"), values)
    for loop in loops(s, values):
        own = range(*(min(loop.first_row + (loop.warpgroup + n) * WARPGROUP_ROWS, 200) for n in (0, 1)))
        cta = points[loop.first_row : loop.first_row + 128]
        assert {b for b in range(5) if cta[:, b * 32 : b * 32 + 32].any()} <= set(loop.visited)
        assert tuple(b for b, _ in loop.walked) == loop.visited
        for b, masked in loop.walked:
            assert masked or whole(points, own, range(b * 32, b * 32 + 32))


def test_an_output_with_a_constant_outside_its_domain_visits_every_block() -> None:
    spec = """kernel k(T: bf16 = bf16) {
      size M, N
      input X: T[M, N]
      output Y: T[M, N] else 0
      axis i in M, j in N
      domain i, j: j <= i
      tile x[i, j] = X[i, j]
      Y[i, j] = softmax[j](x[i, j])
      schedule hopper { block i 128, j 64 consumers 2 over i }
    }"""
    for loop in loops(to_scheduled(loaded(spec)), {"M": 256, "N": 300}):
        assert loop.visited == tuple(range(0, 5))


def test_a_clause_of_one_fold_does_not_cut_another() -> None:
    spec = """kernel k(T: bf16 = bf16) {
      size H, M, N
      input X: T[H, M, N]
      input W: f32[N]
      output A: f32[H, M]
      output Z: f32[M]
      axis h in H, i in M, j in N
      domain h, j: j <= 30 * h
      tile x[i, j] = X[h, i, j]
      tile z[i, j] = X[0, i, j]
      A[h, i] = logsumexp[j](x[i, j])
      Z[i] = max[j](z[i, j] * W[j])
    }"""
    for loop in loops(to_scheduled(loaded(spec)), {"H": 3, "M": 100, "N": 300, "h": 0}):
        assert len(loop.visited) == 5
        assert all(masked for _, masked in loop.walked[1:])


def test_work_items_cover_the_grid() -> None:
    s = scheduled_sample("fa3_fwd", D=128)
    assert evaluate(total_items(s), {"B": 2, "Sq": 193, "Hk": 3, "G": 2, "Sk": 5}) == 2 * 2 * 6
    assert sample("fa3_fwd").axis("h").split is not None
