"""Who competes: tilegen's kernels, what comes with torch, and the hand-written yardstick."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.builds import Build, Request, read
from benchmarks.gpu_worker import finish

Outputs = tuple[Any, ...]  # tensors
Launch = Callable[[], Outputs]


class AbsentError(RuntimeError):
    """Why a provider does not compete on a workload, in words."""


OTHER_KERNELS = "for other kernels"
Requested = Callable[[Any], Request | None]  # by workload; None: it does not compete there


class Provider(Protocol):
    """`prepare` yields a function that launches on torch's current stream and returns the outputs, which it does not
    wait for; it raises anything where this provider cannot."""

    @property
    def name(self) -> str: ...

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch: ...


@dataclass(frozen=True)
class Tilegen:
    """Kernels from builds. `broken`: why a kernel is not to be run in this process."""

    name: str
    request: Requested
    paths: Mapping[Request, Path]
    broken: Mapping[tuple[Request, Any], str]

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
    run = read(build).kernel().prepare(**inputs)
    outputs = run.outputs if isinstance(run.outputs, tuple) else (run.outputs,)
    for tensor in outputs:
        tensor.fill_(float("nan"))

    def launch() -> Outputs:
        run()
        return outputs

    return launch


def probe(build: str, workload: Any, seed: int) -> None:
    """In a worker process: whether one launch ends."""
    tilegen_launch(build, workload.inputs(seed))()
    finish(f"one launch on {workload.label}")


# ---- attention -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sdpa:
    """torch's scaled_dot_product_attention by one of its backends, on [B, H, S, D] views of the same tensors."""

    name: str
    backend: str  # of torch.nn.attention.SDPBackend

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        backend = getattr(SDPBackend, self.backend)
        q, k, v = (inputs[name].transpose(1, 2) for name in ("Q", "K", "V"))
        grouped = {"enable_gqa": True} if workload.G > 1 else {}

        def launch() -> Outputs:
            with sdpa_kernel(backend), torch.no_grad():
                return (scaled_dot_product_attention(q, k, v, is_causal=workload.causal, **grouped).transpose(1, 2),)

        return launch


@dataclass(frozen=True)
class Flex:
    """torch's FlexAttention, compiled."""

    name: str = "Flex"

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        q, k, v = (inputs[name].transpose(1, 2) for name in ("Q", "K", "V"))
        S = workload.S
        mask = None
        if workload.causal:
            mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, S, S, device="cuda")
        run = torch.compile(flex_attention, dynamic=False)

        def launch() -> Outputs:
            with torch.no_grad():
                return (run(q, k, v, block_mask=mask, enable_gqa=workload.G > 1).transpose(1, 2),)

        return launch


@dataclass(frozen=True)
class Yardstick:
    """The hand-written kernels beside a reference.py: `cubins` a folder made by `yardstick_cubins`."""

    folder: Path
    cubins: Path
    name: str = "by hand"

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


# ---- products ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matmul:
    """torch.matmul into an output that is there: cuBLAS."""

    name: str = "cuBLAS"

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        import torch

        a, b = inputs["A"], inputs["B"]
        out = torch.empty(workload.M, workload.N, dtype=a.dtype, device=a.device)

        def launch() -> Outputs:
            return (torch.matmul(a, b, out=out),)

        return launch
