"""Kernel parameters: their names, declarations and meaning."""

from __future__ import annotations

from tilegen.ir.plan import (
    CtasParam,
    FaultParam,
    MapParam,
    Param,
    Plan,
    PointerParam,
    ScalarParam,
    ScratchParam,
    SizeParam,
    TableParam,
)
from tilegen.ir.uniform import text
from tilegen.targets.hopper.emit.names import Names
from tilegen.targets.hopper.emit.scope import ELEMENT


def parameter(plan: Plan, kernel: Names, p: Param, *, deals: bool = False) -> dict[str, str]:
    """Name, declaration and meaning of a parameter; `deals`: of the kernel that writes the table."""
    if isinstance(p, MapParam):
        d = plan.descriptor(p.descriptor)
        name = kernel.give(("map", p.descriptor), f"map_{p.descriptor}")
        box = " x ".join(str(m.box) for m in d.dims)
        swizzle = f", {d.swizzle}-byte swizzle" if d.swizzle else ""
        return _described(
            name, f"const __grid_constant__ TensorMap {name}", f"tensor map of {d.tensor}: boxes of {box}{swizzle}"
        )
    if isinstance(p, SizeParam):
        name = kernel.give(("symbol", p.name), p.name)
        return _described(name, f"const int {name}", "int32")
    if isinstance(p, ScalarParam):
        name = kernel.give(("symbol", p.name), p.name)
        return _described(name, f"const float {name}", "f32")
    if isinstance(p, TableParam):
        name = kernel.give(("table",), "item_table")
        width = plan.table.width if plan.table else 0
        meaning = f"work items, int32[rounds, CTAs, {width}]: a CTA reads its column"
        return _described(name, f"{'' if deals else 'const '}int* const {name}", meaning)
    if isinstance(p, ScratchParam):
        name = kernel.give(("scratch",), "scratch")
        return _described(name, f"int* const {name}", "int32 words to work in")
    if isinstance(p, FaultParam):
        name = kernel.give(("fault",), "fault")
        return _described(name, f"int* const {name}", "int32 words that say what is wrong with starts")
    if isinstance(p, CtasParam):
        name = kernel.give(("ctas",), "ctas")
        return _described(name, f"const int {name}", "CTAs that items are dealt out to")
    tensor = plan.tensor(p.tensor)
    if isinstance(p, PointerParam):
        name = kernel.give(("pointer", p.tensor), f"global_{p.tensor}")
        const = "" if tensor.output else "const "
        shape = f"{tensor.dtype}[{', '.join(map(text, tensor.dims))}]"
        return _described(name, f"{const}{ELEMENT[tensor.dtype]}* const {name}", f"{tensor.name}: {shape}")
    name = kernel.give(("stride", p.tensor, p.dim), f"{p.tensor}_stride{p.dim}")
    return _described(name, f"const long long {name}", f"elements from one to the next along dimension {p.dim}")


def _described(name: str, declaration: str, meaning: str) -> dict[str, str]:
    return {"name": name, "declaration": declaration, "meaning": meaning}
