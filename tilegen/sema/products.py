"""What a tensor core would do must be in types that it takes, as written."""

from __future__ import annotations

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.products import product_factors
from tilegen.ir.reach import AxisTree, Named
from tilegen.ir.tile import Expr, Fold
from tilegen.ir.walk import subexpressions
from tilegen.sema.scope import Scope


def check_products(value: Expr, scope: Scope, names: dict[str, Named], tree: AxisTree) -> None:
    """Notes factors of products that are not 16-bit, and pairs of two types."""
    for node in subexpressions(value):
        factors = product_factors(node, names, tree) if isinstance(node, Fold) else None
        if factors is None:
            continue
        wide = [f for f in factors if not (f.dtype.is_float and f.dtype.bits == 16)]
        for factor in wide:
            scope.faults.add(Code.PRODUCT_FACTOR, factor.span, got=str(factor.dtype), wanted="bf16 or f16")
        left, right = factors
        if not wide and left.dtype is not right.dtype:
            scope.faults.add(Code.PRODUCT_TYPES, node.span, got=f"{left.dtype} · {right.dtype}", wanted="one type")
