"""The PTX emulator: parse what NVRTC wrote for sm_90a, run it with numpy."""

# The families register their instructions when they are imported.
from tilegen.emulate.ptx import families as families
from tilegen.emulate.ptx.launch import launch
from tilegen.emulate.ptx.module import Module
from tilegen.emulate.ptx.parser import parse
from tilegen.emulate.ptx.report import Report

__all__ = ["Module", "Report", "launch", "parse"]
