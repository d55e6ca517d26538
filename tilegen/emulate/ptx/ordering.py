"""Orderings and hints. Memory is coherent, so that fences are there for those who watch, and nothing else happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.emulate.ptx.decode import Decoded, Mask, Modifiers, Step, active, instruction
from tilegen.emulate.ptx.module import Instruction

if TYPE_CHECKING:
    from tilegen.emulate.ptx.machine import Machine

_SCOPES = ("cta", "cluster", "gpu", "sys", "gl")
_SPACES = ("global", "local", "const", "param", "shared", "shared::cta", "shared::cluster")
#: What each instruction may carry; the order is not checked.
_KNOWN: dict[str, tuple[str, ...]] = {
    "fence": (
        *("sc", "acq_rel", "acquire", "release", "relaxed", *_SCOPES, *_SPACES, "mbarrier_init"),
        *("proxy", "alias", "async", "async::generic", "sync_restrict::shared::cta", "sync_restrict::shared::cluster"),
        *("tensormap::generic",),
    ),
    "membar": (*_SCOPES, "proxy", "alias", "async", *_SPACES),
    "prefetch": (*_SPACES, "L1", "L2", "tensormap", "L2::evict_last", "L2::evict_normal"),
    "prefetchu": ("L1",),
    "griddepcontrol": ("wait", "launch_dependents"),
    "nanosleep": ("u32",),
    "discard": ("global", "L2"),
    "applypriority": ("global", "L2::evict_normal"),
}


@instruction(*_KNOWN)
def ordering(ins: Instruction) -> Decoded:
    """What the instruction carries must be known, even if it changes nothing."""
    mods = Modifiers(ins)
    for name in _KNOWN[ins.opcode]:
        mods.flag(name)
    mods.done()

    def step(s: slice, m: Mask) -> None:
        return None

    def bind(machine: Machine) -> Step:
        watch = machine.watch
        if watch is None or ins.opcode not in ("fence", "membar"):
            return step
        if "mbarrier_init" not in ins.modifiers and not {"async", "async::generic"} & set(ins.modifiers):
            return step
        return lambda s, m: watch.fence(s.start + active(s, m))

    return Decoded(bind)
