"""Who competes besides what is installed: tilegen's kernels from builds, and the hand-written yardstick."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.builds import Build, Request, read
from tilegen.bench.gpu_worker import finish
from tilegen.bench.peers import AbsentError, Provider, poisoned_launch
from tilegen.bench.rounds import Launch

OTHER_KERNELS = "for other kernels"
Requested = Callable[[Any], Request | None]  # by workload; None: it does not compete there


@dataclass(frozen=True)
class Tilegen(Provider):
    """Kernels from builds. `broken`: why a kernel is not to be run in this process."""

    request: Requested
    paths: Mapping[Request, Path]
    broken: Mapping[tuple[Request, Any], str]
    judged = True

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        request = self.request(workload)
        if request is None:
            raise AbsentError(OTHER_KERNELS)
        if (request, workload) in self.broken:
            raise AbsentError(self.broken[request, workload])
        return tilegen_launch(str(self.paths[request]), inputs)

    def build(self, workload: Any) -> Build | None:
        """The build that competes there."""
        request = self.request(workload)
        return read(self.paths[request]) if request else None


def tilegen_launch(build: str, inputs: Mapping[str, Any]) -> Launch:
    """The prepared launch of a build's kernel, its outputs full of NaN."""
    return poisoned_launch(read(build).kernel(), inputs)


def probe(build: str, workload: Any, seed: int) -> None:
    """In a worker process: whether one launch ends."""
    tilegen_launch(build, workload.inputs(seed))()
    finish(f"one launch on {workload.label}")


@dataclass(frozen=True)
class Yardstick(Provider):
    """The hand-written kernels beside a reference.py: `cubins` a folder made by `yardstick_cubins`."""

    folder: Path
    cubins: Path

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        module = _yardstick(str(self.folder))
        return module.prepare(inputs["Q"], inputs["K"], inputs["V"], workload.causal, cubins=str(self.cubins))  # type: ignore[no-any-return]


def _yardstick(folder: str) -> Any:
    known = sys.modules.get("reference")
    if known is not None:
        return known
    path = Path(folder) / "reference.py"
    found = importlib.util.spec_from_file_location("reference", path)
    if not path.exists() or found is None or found.loader is None:
        raise AbsentError(f"there is no {path}")
    module = sys.modules["reference"] = importlib.util.module_from_spec(found)  # where its dataclasses look
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules["reference"]
        raise
    return module


def yardstick_cubin(folder: str, D: int, causal: bool, T: str) -> tuple[str, bytes]:
    """In a process of its own: name and bytes of one of its cubins. torch, which takes seconds to load, stays out."""
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    module = _yardstick(folder)
    dtype = {"bf16": "bf16", "f16": "fp16"}[T]
    kernel = module.KERNELS[D, causal]
    return module.cubin_name(kernel, dtype), module.compile_cubin(kernel, dtype)
