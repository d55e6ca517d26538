"""What a measurement ran on: versions, the GPU, and its clock and power while it works."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilegen.diagnostics.core import TilegenError
from tilegen.runtime.driver import device_info, pci_bus

ROOT = Path(__file__).resolve().parents[2]
_PEERS = ("flash-attn", "flash-attn-4", "flash-attn3-jax", "jax")

Reading = tuple[int | None, float | None]  # MHz of the multiprocessors, watts


def facts() -> dict[str, str]:
    """Date, GPU, and the versions of everything that has a say in the numbers. Needs torch and a GPU."""
    import torch

    info = device_info()
    cudnn = torch.backends.cudnn.version() or 0
    return {
        "date": _date(),
        "gpu": f"{info.name}, {info.sm_count} multiprocessors",
        "driver": _smi("driver_version") or "unknown",
        "power limit": _smi("power.limit", "W") or "unknown",
        "CUDA of the driver": ".".join(map(str, info.driver)),
        "torch": torch.__version__,
        "cuDNN": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
        "NVRTC": _nvrtc(),
        **{name: found for name in _PEERS if (found := _installed(name))},
        **_tilegen(),
    }


def host_facts() -> dict[str, str]:
    """The same of what needs no GPU."""
    return {
        "date": _date(),
        **processor_facts(),
        "NumPy": _installed("numpy") or "unknown",
        "NVRTC": _nvrtc(),
        **_tilegen(),
    }


def processor_facts() -> dict[str, str]:
    """The processor, and the Python that runs on it."""
    found = None
    with suppress(OSError):
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    name = found[1] if found else platform.processor() or platform.machine()
    return {"processor": f"{name}, {os.cpu_count()} cores", "Python": platform.python_version()}


def _date() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _nvrtc() -> str:
    from tilegen.targets.hopper.nvrtc_library import nvrtc_version

    return ".".join(map(str, nvrtc_version()))


def _tilegen() -> dict[str, str]:
    return {"tilegen": _installed("tilegen") or "from its source tree", "revision": _revision() or "unknown"}


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The commit, with a + where files differ from it; a copy without its history is told it by TILEGEN_REVISION."""
    if told := os.environ.get("TILEGEN_REVISION"):
        return told
    with suppress(OSError, subprocess.SubprocessError):
        git = ["git", "-C", str(ROOT)]
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
        return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")
    return None


def _smi(what: str, unit: str = "") -> str | None:
    """A field of this process's first GPU by nvidia-smi; None where that is not to be had."""
    with suppress(OSError, subprocess.SubprocessError, TilegenError):
        command = ["nvidia-smi", "-i", pci_bus(), f"--query-gpu={what}", "--format=csv,noheader,nounits"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        return f"{done.stdout.strip()} {unit}".strip()
    return None


def reader() -> Callable[[], Reading]:
    """A function that reads clock and power now: by NVML where its bindings are installed, else by nvidia-smi."""
    with suppress(Exception):
        import pynvml

        pynvml.nvmlInit()
        return _by_nvml(pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus().encode()))
    return _by_smi


def _by_nvml(nvml: Any, gpu: Any) -> Callable[[], Reading]:
    def read() -> Reading:
        clock = watts = None
        with suppress(nvml.NVMLError):
            clock = int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))
        with suppress(nvml.NVMLError):
            watts = nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3
        return clock, watts

    return read


def _by_smi() -> Reading:
    try:
        clock, watts = (_smi("clocks.sm,power.draw") or "").split(",")
        return int(clock), float(watts)
    except ValueError:
        return None, None
