"""Runs mutants of PTX on a GPU: in a process that a mutant may take down, the driver assembles their text."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.mutations.ptx_judging import ROOM, Case, bench, subject
from tests.mutations.ptx_text import Mutant
from tilegen.bench.gpu_worker import finish
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime.device_memory import DeviceArray
from tilegen.runtime.emulated import EMULATED_SMS
from tilegen.runtime.kernel import Kernel

PTX_VERSION = "8.6"  # has all that kernels use, and drivers read it that are older than NVRTC
HANG = 3.0  # seconds
LAUNCHES = 2  # a case


def judge(name: str, mutant: Mutant | None) -> tuple[str, str]:
    """What a mutant of a subject (None: the kernel as it is) does: "wrong", "refused" by the assembler, or "", and what
    is to be said of it. Raises HangError, and TilegenError where the GPU finds a fault."""
    b = bench(subject(name))
    ptx = mutant.applied(b.text) if mutant else b.built.ptx
    ptx = re.sub(r"^\.version .*$", f".version {PTX_VERSION}", ptx, count=1, flags=re.MULTILINE)
    kernel = b.kernel(ptx, ptx.encode() + b"\0")
    try:
        _spread_as_emulated(kernel)
    except TilegenError as error:
        return "refused", error.diagnostics[0].message
    for seed in range(b.seeds):
        case = b.case(seed)
        for _ in range(LAUNCHES):
            if found := _launched(kernel, case, name):
                return "wrong", f"{found}, seed {seed}"
    return "", ""


def _spread_as_emulated(kernel: Kernel) -> None:
    """Load the kernel, for as few SMs as the emulator has, so that a CTA works through as many items."""
    (executable,) = kernel._executables
    executable._loaded[0] = replace(executable._on(0), sms=EMULATED_SMS)


_LAUNCHED: list[dict[str, DeviceArray]] = []  # to free memory is to wait for a kernel that hangs


def _launched(kernel: Kernel, case: Case, name: str) -> str:
    """What is wrong with the outputs of one launch."""
    device = {name: DeviceArray(array) for name, array in {**case.inputs, **case.empty}.items()}
    _LAUNCHED.append(device)
    kernel.prepare(**device, **case.numbers)()
    finish("the mutant", HANG)
    outputs = {name: device[name].numpy() for name in case.empty}
    _LAUNCHED.clear()
    return bench(subject(name)).wrong(case, outputs, ROOM)
