"""Machine code that keeps values in local memory where it hurts."""

from __future__ import annotations

from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.control_flow import Loop
from tilegen.targets.hopper.emit.names import kernel_name
from tilegen.targets.hopper.sass import TENSOR_CORE, Function, count, parse_sass


def spills_in_loops(built: Built) -> int:
    """Loads from and stores to local memory in innermost loops without products, which the gates do not look at. What a
    loop that issues TMA loads spills costs nothing. A spin on a barrier is no loop of its own."""
    return spills(parse_sass(built.sass).function(kernel_name(built.plan.name)))


def spills(function: Function) -> int:
    """`spills_in_loops` of a kernel's code."""
    by_header = {loop.header: loop for loop in function.loops}
    found = 0
    for loop in function.loops:
        children = [by_header[header] for header in loop.children]
        inside = {block for child in children for block in child.blocks}
        code = function.code(sorted(loop.blocks - inside))
        if all(_spins(child, function) for child in children) and not count(code, *TENSOR_CORE, "UTMALDG"):
            found += count(code, "LDL", "STL")
    return found


def _spins(loop: Loop, function: Function) -> bool:
    return not loop.children and count(function.code(sorted(loop.blocks)), "SYNCS.PHASECHK") > 0
