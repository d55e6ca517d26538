"""The emulator of the MLS-style machine (docs/mls.md): runs MLS programs on the CPU, with numpy."""

from tilegen.emulate.mls.launch import Report, launch

__all__ = ["Report", "launch"]
