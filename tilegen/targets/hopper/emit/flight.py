"""Which products are in flight where: what a fence or a wait may name as its operands.

Registers of a product in flight must not be named: the compiler might copy them, and then waits by itself.
"""

from __future__ import annotations

from tilegen.ir.plan import For, FragmentOperand, If, Mma, MmaCommit, MmaFence, MmaWait, Operation, Work

Groups = tuple[tuple[str, ...], ...]  # tokens of the groups not known to be complete, oldest first


class Flight:
    """One role's products. `leaves`: for each fence and wait, by identity, the tokens in flight once it is done,
    on any way that leads there; `starts`: for each fence, the products issued next."""

    def __init__(self, body: tuple[Operation, ...]) -> None:
        self.leaves: dict[int, frozenset[str]] = {}
        self.starts: dict[int, tuple[Mma, ...]] = {}
        self._body(body, ())

    def _body(self, body: tuple[Operation, ...], groups: Groups) -> Groups:
        for n, o in enumerate(body):
            if isinstance(o, MmaCommit):
                groups = (*groups, o.tokens)
            elif isinstance(o, MmaWait):
                groups = groups[-o.pending :] if o.pending else ()
                self._note(o, groups)
            elif isinstance(o, MmaFence):
                self._note(o, groups)
                self.starts[id(o)] = self.starts.get(id(o), ()) + _issued(body[n + 1 :])
            elif isinstance(o, Work | For):
                groups = self._body(o.body, self._body(o.body, groups))  # twice: what an iteration leaves to the next
            elif isinstance(o, If):
                groups = max(groups, self._body(o.body, groups), key=len)
        return groups

    def _note(self, o: MmaWait | MmaFence, groups: Groups) -> None:
        self.leaves[id(o)] = self.leaves.get(id(o), frozenset()).union(*groups)


def _issued(body: tuple[Operation, ...]) -> tuple[Mma, ...]:
    """Products up to the next fence or wait."""
    found: list[Mma] = []
    for o in body:
        if isinstance(o, MmaFence | MmaWait | Work | For | If):
            break
        if isinstance(o, Mma):
            found.append(o)
    return tuple(found)


def fragments(products: tuple[Mma, ...] | list[Mma]) -> list[str]:
    """Accumulators, then A operands, each once."""
    accumulators = [p.accumulator for p in products]
    return list(dict.fromkeys(accumulators + [p.a.fragment for p in products if isinstance(p.a, FragmentOperand)]))
