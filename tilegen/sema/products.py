"""What a tensor core would do must be in types that it takes, as written."""

from __future__ import annotations

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.dtypes import DType
from tilegen.ir.products import product_factors
from tilegen.ir.reach import AxisTree, Named
from tilegen.ir.tile import Expr, Fold
from tilegen.ir.tile_text import expr_text
from tilegen.ir.walk import subexpressions
from tilegen.sema.scope import Scope


def check_products(value: Expr, scope: Scope, names: dict[str, Named], tree: AxisTree) -> None:
    """Notes factors of products that are not 16-bit, and pairs of two types."""
    for node in subexpressions(value):
        factors = product_factors(node, names, tree) if isinstance(node, Fold) else None
        if factors is None:
            continue
        wide = [f for f in factors if not _is_narrow(f.dtype)]
        for factor in wide:
            cast = f"{_narrow(factors, scope)}({expr_text(factor)})"
            scope.faults.add(Code.PRODUCT_FACTOR, factor.span, got=str(factor.dtype), wanted="bf16 or f16", cast=cast)
        left, right = factors
        if not wide and left.dtype is not right.dtype:
            scope.faults.add(Code.PRODUCT_TYPES, node.span, got=f"{left.dtype} · {right.dtype}", wanted="one type")


def _is_narrow(dtype: object) -> bool:
    return isinstance(dtype, DType) and dtype.is_float and dtype.bits == 16


def _narrow(factors: tuple[Expr, Expr], scope: Scope) -> str:
    """The type to cast a factor to, as the spec names it: what the other has, else any that a parameter stands for."""
    meant = next((f.dtype for f in factors if _is_narrow(f.dtype)), None)
    named = (name for name, v in scope.params.items() if _is_narrow(v) and meant in (None, v))
    return next(named, str(meant or DType.BF16))
