"""Which mutants a run of a mutation suite takes, and how its command says so."""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tests.suites.record import common

_T = TypeVar("_T")


def drawn(mutants: Iterable[tuple[str, _T]], each: int, key: str) -> Iterator[list[_T]]:
    """Of each kind, in the order in which they come, `each` of its mutants (0: every one). key: seeds the draw."""
    by_kind: dict[str, list[_T]] = defaultdict(list)
    for kind, mutant in mutants:
        by_kind[kind].append(mutant)
    rng = random.Random(key)
    for every in by_kind.values():
        yield every if each == 0 else rng.sample(every, min(each, len(every)))


def shuffled(mutants: Iterable[list[_T]], key: str) -> list[_T]:
    """All of them, so that a run that is cut short has met every kind alike. key: seeds the order."""
    every = [mutant for some in mutants for mutant in some]
    random.Random(key).shuffle(every)
    return every


def parser(description: str | None) -> argparse.ArgumentParser:
    """Of a command that puts faults into what samples become."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--each", type=int, default=1)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--kinds", type=_names, default=())
    made.add_argument("--samples", type=_names, default=())
    common(made)
    return made


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
