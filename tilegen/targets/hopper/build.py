"""From a plan to what gets loaded: CUDA text, PTX, cubin and SASS, and what the SASS gates found."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics.core import Diagnostic
from tilegen.ir.plan import Plan
from tilegen.syntax.span import Source
from tilegen.targets.hopper.emit import emit
from tilegen.targets.hopper.emit.expectations import expectations
from tilegen.targets.hopper.gates import check_gates
from tilegen.targets.hopper.nvrtc import Compiled, Usage, compile_cuda
from tilegen.targets.hopper.sass import disassemble, parse_sass


@dataclass(frozen=True)
class Built:
    """A plan's kernel. `diagnostics`: where its machine code differs from the plan; a kernel that has any must
    not be used unless its schedule is replaced or the user is told."""

    plan: Plan
    cuda: str
    compiled: Compiled
    sass: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ptx(self) -> str:
        return self.compiled.ptx

    @property
    def cubin(self) -> bytes:
        return self.compiled.cubin

    @property
    def log(self) -> str:
        return self.compiled.log

    @property
    def nvrtc_version(self) -> tuple[int, int]:
        return self.compiled.nvrtc_version

    @property
    def seconds(self) -> float:
        """NVRTC's own time."""
        return self.compiled.seconds

    @property
    def usage(self) -> Usage:
        """Registers, spills and barriers of the kernel, as ptxas reports them."""
        return next(u for u in self.compiled.usage if u.entry == self.plan.name)


def build(plan: Plan, source: Source | None = None) -> Built:
    """Emit, compile, disassemble, and hold the machine code against the plan.

    `source` gives the `#line` directives their file name. Raises TilegenError where the text does not compile,
    or where the compiler says that it serialised products, added a wait or ignored a register count.
    """
    cuda = emit(plan, source)
    compiled = compile_cuda(cuda, plan.name)
    sass = disassemble(compiled.cubin)
    gates = check_gates(parse_sass(sass).function(plan.name), expectations(plan))
    return Built(plan, cuda, compiled, sass, tuple(gates))
