"""From a plan to what gets loaded: CUDA text, PTX, cubin and SASS, and what the SASS gates found."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.ir.machines import MACHINES
from tilegen.ir.plan import Plan
from tilegen.targets.hopper.built import Built as Built
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.emit.expectations import expectations
from tilegen.targets.hopper.emit.lines import directed
from tilegen.targets.hopper.emit.names import kernel_name
from tilegen.targets.hopper.gates import check_gates
from tilegen.targets.hopper.nvrtc import compile_cuda
from tilegen.targets.hopper.sass import disassemble, parse_sass


def build(plan: Plan) -> Built:
    """Emit, compile, disassemble, and hold the machine code against the plan.

    Raises TilegenError where the text does not compile,
    or where the compiler says that it serialised products, added a wait or ignored a register count.
    """
    return assemble(plan, emit(plan), plan.name)


def assemble(
    plan: Plan, cuda: str, stem: str, begun: Callable[[], None] = lambda: None, architecture: str = ""
) -> Built:
    """`build` from the plan's CUDA text on, which is to be in a file of this name; for another architecture than that
    of the plan's target, if one is named. Once it has called `begun`, nearly all of its time is spent outside Python,
    and without its lock."""
    architecture = architecture or MACHINES[plan.target].architecture
    compiled = compile_cuda(directed(cuda, f"{stem}.cu", plan.source_name), plan.name, architecture, begun=begun)
    sass = disassemble(compiled.cubin)
    gates = check_gates(parse_sass(sass).function(kernel_name(plan.name)), expectations(plan))
    return Built(plan, cuda, compiled, sass, tuple(gates))
