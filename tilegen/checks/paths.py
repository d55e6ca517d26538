"""Which way the roles of a CTA go through their loops and branches at given sizes.

What a plan does to its barriers depends on nothing else, so runs that go the same way need be made once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilegen.checks.compiled import Numbers
from tilegen.checks.items import cluster_of, items, names_of
from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.names import WARPGROUP
from tilegen.ir.plan_walk import body_of, uniforms
from tilegen.ir.uniform import symbols


class Paths:
    """The ways through one plan."""

    def __init__(self, plan: ir.Plan, numbers: Numbers) -> None:
        self._plan, self._number = plan, numbers
        ways = [(role, _steering(role.body)) for role in plan.roles]
        # what each role steers by, and how many of its warpgroups may go ways of their own
        self._ways = [(body, role.warpgroups if _tells_groups(body) else 1) for role, body in ways]
        self._turns: dict[int, bool] = {}  # operations by id: the ways keep them
        self.forks = frozenset(
            id(o) for body, _ in self._ways for o in _inside(body) if isinstance(o, ir.If | ir.For)
        )  # every loop and branch, by numbers of this object's own

    def of(self, symbols: Mapping[str, int], cta: int, ctas: int) -> tuple[int, ...]:
        """The way of every role and warpgroup, in each CTA of the cluster: rounds of loops, branches, products that
        overwrite."""
        return tuple(step for _, step in self._steps(symbols, cta, ctas))

    def entered(self, symbols: Mapping[str, int], cta: int, ctas: int) -> frozenset[int]:
        """Those of the forks that any of them goes into."""
        return frozenset(id(o) for o, step in self._steps(symbols, cta, ctas) if step > 0) & self.forks

    def _steps(self, symbols: Mapping[str, int], cta: int, ctas: int) -> Iterator[tuple[ir.Operation, int]]:
        for each in cluster_of(self._plan, cta):
            for body, groups in self._ways:
                for group in range(groups):
                    names = names_of(self._plan, symbols, each, group)
                    yield from self._body(body, names, symbols, each, ctas)

    def _body(
        self, body: tuple[ir.Operation, ...], names: dict[str, int], symbols: Mapping[str, int], cta: int, ctas: int
    ) -> Iterator[tuple[ir.Operation, int]]:
        number = self._number
        for o in body:
            match o:
                case ir.Let(name, value):
                    names[name] = number(value, names)
                case ir.If(condition, inner):
                    taken = bool(number(condition, names))
                    yield o, taken
                    if taken:
                        yield from self._body(inner, names, symbols, cta, ctas)
                case ir.For(name, start, stop, inner):
                    first, end = number(start, names), number(stop, names)
                    yield o, max(end - first, 0)
                    if self._varies(o):
                        for turn in range(first, end):
                            names[name] = turn
                            yield from self._body(inner, names, symbols, cta, ctas)
                case ir.Work():
                    for bound in items(self._plan, o, names, symbols, cta, ctas, number):
                        names.update(bound)
                        yield o, -1
                        yield from self._body(o.body, names, symbols, cta, ctas)
                    yield o, -2
                case ir.Mma() if not isinstance(o.zero, bool):
                    yield o, bool(number(o.zero, names))

    def _varies(self, loop: ir.For) -> bool:
        """Whether rounds of a loop can differ."""
        if id(loop) not in self._turns:
            self._turns[id(loop)] = any(map(_turns, loop.body))
        return self._turns[id(loop)]


def _tells_groups(body: tuple[ir.Operation, ...]) -> bool:
    """Whether anything depends on which of a role's warpgroups it is."""
    return any(WARPGROUP in symbols(e) for o in _inside(body) for e in uniforms(o))


def _turns(o: ir.Operation) -> bool:
    if isinstance(o, ir.If | ir.For):
        return True
    return (isinstance(o, ir.Mma) and not isinstance(o.zero, bool)) or any(map(_turns, body_of(o)))


def _steering(body: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
    """What decides the way: loops, branches, products that overwrite on a condition, and names that these ask for."""

    def asked(o: ir.Operation) -> frozenset[str]:
        return frozenset().union(*map(symbols, uniforms(o)))

    def kept(body: tuple[ir.Operation, ...], names: frozenset[str] | None) -> Iterator[ir.Operation]:
        """names: those that are asked for, None: all."""
        for o in body:
            if isinstance(o, ir.If | ir.For | ir.Work):
                yield replace(o, body=tuple(kept(o.body, names)))
            elif isinstance(o, ir.Let):
                if names is None or o.name in names:
                    yield o
            elif isinstance(o, ir.Mma) and not isinstance(o.zero, bool):
                yield o

    way = tuple(kept(body, None))
    every = list(_inside(way))
    names = frozenset().union(*(asked(o) for o in every if not isinstance(o, ir.Let)))
    while True:
        more = names.union(*(asked(o) for o in every if isinstance(o, ir.Let) and o.name in names))
        if more == names:
            return tuple(kept(body, names))
        names = more


def _inside(body: tuple[ir.Operation, ...]) -> Iterator[ir.Operation]:
    for o in body:
        yield o
        yield from _inside(body_of(o))
