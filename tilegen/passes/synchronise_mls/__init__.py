"""From the Scheduled program to the MLS plan: the one pass that writes its loads, waits and barriers."""

from tilegen.passes.synchronise_mls.waves import synchronise

__all__ = ["synchronise"]
