"""From the Scheduled program to the Hopper plan: the one pass that writes synchronisation."""

from tilegen.passes.synchronise.hopper import synchronise

__all__ = ["synchronise"]
