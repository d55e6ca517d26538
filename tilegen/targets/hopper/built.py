"""What building a plan yields. Apart from how it is built: a kernel from the cache needs none of that."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics.core import Diagnostic
from tilegen.ir.plan import Plan
from tilegen.targets.hopper.nvrtc import Compiled, Usage


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
        # its name may differ from the plan's; that of a kernel that deals out its items is longer
        return min(self.compiled.usage, key=lambda u: len(u.entry))
