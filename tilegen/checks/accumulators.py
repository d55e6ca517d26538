"""Whether accumulators that begin with a product's first step are begun in every work item before they are read."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.checks.regions import Regions
from tilegen.ir import plan as ir
from tilegen.ir.plan_walk import fragments_read, fragments_written, operations, storages


class Accumulators:
    """Those of one role that some product overwrites on a condition."""

    def __init__(self, role: ir.RolePlan, index: int, regions: Regions) -> None:
        self._number = regions.numbers
        if index not in regions.touched:
            regions.touched[index] = self._of_role(role, index)
        self.touched = regions.touched[index]  # operations by id: what they read and write of them
        self._begun: set[str] = set()

    @staticmethod
    def _of_role(role: ir.RolePlan, index: int) -> dict[int, tuple[frozenset[str], frozenset[str]]]:
        every = [o for _, o in operations(role, index)]
        storage = storages(role)
        watched = {storage[o.accumulator] for o in every if isinstance(o, ir.Mma) and not isinstance(o.zero, bool)}

        def held(names: tuple[str, ...]) -> frozenset[str]:
            return frozenset(storage[n] for n in names) & watched

        if not watched:
            return {}
        pairs = ((id(o), (held(fragments_read(o)), held(fragments_written(o)))) for o in every)
        return {key: pair for key, pair in pairs if pair != (frozenset(), frozenset())}

    def start(self) -> None:
        """A work item begins: what registers hold is another item's."""
        self._begun.clear()

    def run(self, operation: ir.Operation, values: Mapping[str, int]) -> bool:
        """Whether what an operation that touches them reads has been begun."""
        read, written = self.touched[id(operation)]
        if (
            isinstance(operation, ir.Mma)
            and not isinstance(operation.zero, bool)
            and self._number(operation.zero, values)
        ):
            read = frozenset()
        fine = read <= self._begun
        self._begun |= written
        return fine
