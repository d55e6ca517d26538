"""Domains with alternatives: sorted ranges that never become their hull, and loops that go through them."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.specs import loaded
from tests.passes.test_meaning import agrees
from tests.passes.test_ranges import Domain, domains
from tests.passes.walks import check_loops
from tilegen.checks.trials import check_all
from tilegen.ir.scheduled import Scheduled
from tilegen.ir.uniform import Int, Uniform, evaluate
from tilegen.passes.pipeline import lower, to_scheduled
from tilegen.passes.ranges import Conjunction, Constraint, block_ranges, in_order

# ---- the function ----------------------------------------------------------------------------------


def as_conjunction(domain: Domain) -> Conjunction:
    axes = [f"x{n}" for n in range(len(domain.boxes))]
    return Conjunction(
        tuple(
            Constraint(
                c.alpha,
                tuple((a, s) for a, s in zip(axes, c.slopes, strict=True) if s),
                Int(c.beta),
                None if c.active is None else Int(int(c.active)),
                Int(c.unit),
            )
            for c in domain.clauses
        )
    )


def boxes(ranges: tuple[tuple[int, int], ...]) -> dict[str, tuple[Uniform, Uniform]]:
    return {f"x{n}": (Int(first), Int(last)) for n, (first, last) in enumerate(ranges)}


@st.composite
def unions(draw: st.DrawFn, *, one_sign: bool = False) -> list[Domain]:
    """Alternatives over one extent, block and box."""
    first = draw(domains(one_sign=one_sign))
    others = draw(st.lists(domains(one_sign=one_sign), max_size=3))
    same = [o for o in others if len(o.boxes) == len(first.boxes)]
    return [first, *(Domain(first.extent, first.block, o.clauses, first.boxes, first.parts, False) for o in same)]


def found(union: list[Domain]) -> tuple[list[range], set[int]]:
    """(visited ranges in order, blocks inside)."""
    one = union[0]
    conjunctions = [as_conjunction(d) for d in union]
    ranges = block_ranges(Int(one.extent), one.block, conjunctions, boxes(one.boxes), boxes(one.parts))
    names: dict[str, int] = {}

    def bind(name: str, value: Uniform) -> Uniform:
        assert name not in names
        names[name] = evaluate(value, {})
        return Int(names[name])

    visited = [range(evaluate(a, {}), evaluate(b, {})) for a, b in in_order([(r.first, r.last) for r in ranges], bind)]
    inside: set[int] = set()
    for r in ranges:
        start, stop = r.inside(r.first, r.last)
        inside |= set(range(evaluate(start, {}), evaluate(stop, {})))
    return visited, inside


def live_blocks(union: list[Domain]) -> set[int]:
    return set().union(*(d.live_blocks() for d in union))


def whole(union: list[Domain], block: int) -> bool:
    """Whether each point of a block is live for each row of the part."""
    one = union[0]
    columns = range(block * one.block, (block + 1) * one.block)
    return all(any(d.live(j, x) for d in union) for j, x in product(columns, one.rows(one.parts)))


@settings(max_examples=200, deadline=None)
@given(unions())
def test_unions_are_sound_sorted_and_disjoint(union: list[Domain]) -> None:
    visited, inside = found(union)
    for a, b in pairwise(visited):
        assert a.start <= a.stop <= b.start <= b.stop
    blocks = {n for r in visited for n in r}
    assert live_blocks(union) <= blocks
    assert inside <= blocks
    assert all(whole(union, n) for n in inside)


@settings(max_examples=200, deadline=None)
@given(unions(one_sign=True))
def test_a_union_of_minimal_ranges_is_minimal(union: list[Domain]) -> None:
    visited, inside = found(union)
    assert {n for r in visited for n in r} == live_blocks(union)
    if union[0].rows(union[0].parts):
        assert inside == {n for n in live_blocks(union) if any(d.whole(n) for d in union)}


def test_ranges_that_begin_together_are_one() -> None:
    """Prefix or causal: both begin at the first block, so one range is left, and with it today's loops."""
    prefix, causal = Constraint(-1, (), Int(39)), Constraint(-1, (("x", 1),), Int(0))
    box: dict[str, tuple[Uniform, Uniform]] = {"x": (Int(0), Int(15))}
    (r,) = block_ranges(Int(100), 8, [Conjunction((prefix,)), Conjunction((causal,))], box, box)
    assert (evaluate(r.first, {}), evaluate(r.last, {})) == (0, 5)
    assert [evaluate(u, {}) for u in r.inside(r.first, r.last)] == [0, 5]


# ---- loops -----------------------------------------------------------------------------------------

SPEC = """
kernel k(T: bf16 = bf16) {
  size Sq, Sk
  input Q: T[Sq, 64]
  input K: T[Sk, 64]
  input V: T[Sk, 64]
  output O: T[Sq, 64]
  scalar a: i32 = 0
  scalar b: i32 = 0
  scalar c: i32 = 0
  axis i in Sq, j in Sk
  DOMAIN
  tile q[i, d] = Q[i, d]
  tile k[j, d] = K[j, d]
  tile v[j, e] = V[j, e]
  s[i, j] = sum[d](q[i, d] * k[j, d])
  O[i, e] = sum[j](T(softmax[j](s[i, j])) * v[j, e])
  schedule hopper { block i 128, j 16 consumers 2 over i ORDER }
}
"""
DOMAINS = {
    "global": "domain i, j: j < a or j >= i + Sk - Sq - b  domain i, j: j <= i + Sk - Sq + c",
    "two bands": "domain i, j: i - a <= j <= i + 20 or i + b <= j <= i + c",
    "prefix": "domain i, j: j < a or j <= i + Sk - Sq  domain j: j >= b + c",
    "three": "domain i, j: j < a or b <= j < c or j == i",
    "guarded": "domain i, j: j < a or j >= i + Sk - Sq - b if b >= 0  domain i, j: j <= i + Sk - Sq if c >= 0",
    "rows": "domain i, j: i < a or j >= i - b  domain j: j >= c",
}
ORDERS = (
    "",
    "walk j down skip_rows late O by 1 batch O, s stale_max",
    "skip_rows ahead s by 1",
    "walk j down skip_rows",
)


def spec(domain: str, order: str = "") -> str:
    text = SPEC.replace("DOMAIN", DOMAINS.get(domain, domain)).replace("ORDER", order)
    for name in "abc":
        if f" {name}" not in DOMAINS.get(domain, domain):
            text = text.replace(f"  scalar {name}: i32 = 0\n", "")
    return text


SCHEDULED: dict[tuple[str, str], Scheduled] = {}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("domain", DOMAINS)
@settings(max_examples=12, deadline=None)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(0, 300)),
    scalars=st.tuples(st.integers(-20, 150), st.integers(-20, 150), st.integers(-20, 200)),
)
def test_loops_go_through_the_blocks_of_the_union(
    domain: str, order: str, size: tuple[int, int], scalars: tuple[int, int, int]
) -> None:
    key = (domain, order)
    if key not in SCHEDULED:
        SCHEDULED[key] = to_scheduled(loaded(spec(domain, order)))
    values = dict(zip(("Sq", "Sk", "a", "b", "c"), (*size, *scalars), strict=True))
    check_loops(SCHEDULED[key], values, minimal=False)


WAYS = (
    "walk j down skip_rows late O by 1 batch O, s stale_max take_turns over s, O",
    "skip_rows ahead s by 1 take_turns over s, O persistent static",
    "walk j down skip_rows late O by 1 stages k 1, v 1 take_turns over s, O",
    "skip_rows late O by 1 issue s, O stages k 1, v 1 persistent table order longest_first",
)


@pytest.mark.parametrize("domain", DOMAINS)
def test_distances_turns_and_depths_go_with_ranges(domain: str) -> None:
    """Computed as the equations say, and without a wait for ever, whatever the rings' depth."""
    n = list(DOMAINS).index(domain)
    for way in (WAYS[n % 4], WAYS[(n + 2) % 4]):
        text = spec(domain, way)
        for name, value in (("a", 37), ("b", 21), ("c", 100)):
            text = text.replace(f"scalar {name}: i32 = 0", f"scalar {name}: i32 = {value}")
        program = loaded(text)
        plan = lower(program)
        agrees(program, plan, {"Sq": 150, "Sk": 190})
        agrees(program, plan, {"Sq": 140, "Sk": 60}, (False,))
        assert check_all(plan) == [], way
