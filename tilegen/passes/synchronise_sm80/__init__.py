"""From the Scheduled program to a plan without TMA and wgmma: the one pass that writes its copies and waits."""

from tilegen.passes.synchronise_sm80.assemble import first_with_room, synchronise

__all__ = ["first_with_room", "synchronise"]
