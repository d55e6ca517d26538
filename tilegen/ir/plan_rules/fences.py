"""wgmma.fence stands between every access to a product's registers and the product (hardware.md 3.4)."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.ir import plan as ir
from tilegen.ir.plan_rules.violation import Violation
from tilegen.ir.plan_text import Path
from tilegen.ir.plan_walk import forward, fragments_read, fragments_written, storages


def check(plan: ir.Plan) -> Iterator[Violation]:
    """Products whose registers were touched, on some path, since the last fence."""
    for index, role in enumerate(plan.roles):
        storage = storages(role)
        found: dict[tuple[Path, str], None] = {}

        def step(
            operation: ir.Operation,
            path: Path,
            touched: frozenset[str],
            storage: dict[str, str] = storage,
            found: dict[tuple[Path, str], None] = found,
        ) -> frozenset[str]:
            if isinstance(operation, ir.MmaFence):
                return frozenset()
            if isinstance(operation, ir.Mma):
                names = [operation.accumulator]
                names += [operation.a.fragment] if isinstance(operation.a, ir.FragmentOperand) else []
                for name in names:
                    if storage[name] in touched:
                        found[(path, f"no fence since {name} was last touched")] = None
                return touched
            names = [*fragments_read(operation), *fragments_written(operation)]
            return touched | {storage[name] for name in names}

        # a kernel's first product needs a fence whatever it uses
        forward(role.body, ("role", index), frozenset(storage.values()), step, frozenset.union)
        yield from (Violation(path, message) for path, message in found)
