"""Who competes besides tilegen: what comes with torch, and what else is installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tilegen.bench.rounds import Elsewhere, Launch

Outputs = tuple[Any, ...]  # tensors


class AbsentError(RuntimeError):
    """Why a provider does not compete on a workload, in words."""


@dataclass(frozen=True)
class Provider:
    """`prepare` yields a function that launches on torch's current stream and returns the outputs, which it does not
    wait for; it raises anything where this provider cannot. `judged`: a result beyond the allowed is not timed."""

    name: str
    judged = False

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        raise NotImplementedError

    def stands_on(self, workload: Any) -> Any:
        """What it computes in the cell of this workload: another one for what only serves as a measure."""
        return workload


@dataclass(frozen=True)
class Prepared(Provider):
    """A kernel of tilegen's, compiled here by `kernel`."""

    kernel: Callable[[Any], Any]
    judged = True

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        return poisoned_launch(self.kernel(workload), inputs)


def poisoned_launch(kernel: Any, inputs: Mapping[str, Any]) -> Launch:
    """The prepared launch of a kernel of tilegen's, its outputs full of NaN."""
    run = kernel.prepare(**inputs)
    outputs = run.outputs if isinstance(run.outputs, tuple) else (run.outputs,)
    for tensor in outputs:
        tensor.fill_(float("nan"))

    def launch() -> Outputs:
        run()
        return outputs

    return launch


# ---- attention, by torch -------------------------------------------------------------------------


@dataclass(frozen=True)
class Sdpa(Provider):
    """torch's scaled_dot_product_attention by one of its backends, on [B, H, S, D] views of the same tensors."""

    backend: str  # of torch.nn.attention.SDPBackend

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        from torch import no_grad
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        backend = getattr(SDPBackend, self.backend)
        q, k, v = (inputs[name].transpose(1, 2) for name in ("Q", "K", "V"))
        grouped = {"enable_gqa": True} if workload.G > 1 else {}

        def launch() -> Outputs:
            with sdpa_kernel(backend), no_grad():
                return (scaled_dot_product_attention(q, k, v, is_causal=workload.causal, **grouped).transpose(1, 2),)

        return launch


@dataclass(frozen=True)
class Flex(Provider):
    """torch's FlexAttention, compiled. `change`: score_mod and mask_mod, each or None, for a workload and inputs."""

    name: str = "Flex"
    change: Callable[[Any, Mapping[str, Any]], tuple[Any, Any]] | None = None

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        q, k, v = (inputs[name].transpose(1, 2) for name in ("Q", "K", "V"))
        score, mask = self.change(workload, inputs) if self.change else (None, _causal if workload.causal else None)
        block_mask = mask and create_block_mask(mask, None, None, q.shape[2], k.shape[2], device=q.device)
        run = torch.compile(flex_attention, dynamic=False)
        grouped = q.shape[1] != k.shape[1]

        def launch() -> Outputs:
            with torch.no_grad():
                return (run(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=grouped).transpose(1, 2),)

        return launch


def _causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


# ---- attention, where it can be imported ---------------------------------------------------------


@dataclass(frozen=True)
class Flash(Provider):
    """`flash_attn_func` of a package that runs through torch."""

    module: str

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        run = getattr(_imported(self.module), "flash_attn_func")  # noqa: B009
        q, k, v = (inputs[name] for name in ("Q", "K", "V"))

        def launch() -> Outputs:
            made = run(q, k, v, causal=workload.causal)
            return (made[0] if isinstance(made, tuple) else made,)

        return launch


@dataclass(frozen=True)
class FlashJax(Provider):
    """FA3 as `flash_attn3_jax` binds it; its wheel is built for heads of 128."""

    name: str = "FA3 (jax)"

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        run = _imported("flash_attn3_jax").flash_mha
        return _by_jax(lambda q, k, v: run(q, k, v, is_causal=workload.causal), inputs)


@dataclass(frozen=True)
class Mosaic(Provider):
    """JAX's own kernel for Hopper, by Pallas and Mosaic: f16 only, scores scaled beforehand."""

    name: str = "Pallas Mosaic"

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        module = _imported("jax.experimental.pallas.ops.gpu.attention_mgpu")
        if workload.T != "f16":
            raise AbsentError("for f16 only")
        config = module.TuningConfig(
            block_q=64, block_kv=128 if workload.D <= 128 else 64, max_concurrent_steps=2, causal=workload.causal
        )
        scaled = {**inputs, "Q": inputs["Q"] * workload.D**-0.5}
        return _by_jax(lambda q, k, v: module.attention(q, k, v, config), scaled)


def _imported(module: str) -> Any:
    """Raises AbsentError where it is not installed; what else goes wrong at its import comes as it is."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes most of the GPU's memory otherwise
    try:
        if find_spec(module.partition(".")[0]) is None:
            raise AbsentError(f"{module.partition('.')[0]} is not installed")
        return import_module(module)
    except ModuleNotFoundError as e:
        raise AbsentError(f"{e.name} is not installed") from e


def _by_jax(run: Callable[..., Any], inputs: Mapping[str, Any]) -> Launch:
    """A launch on JAX's own stream, on the memory of torch's tensors; the outputs are tensors again."""
    import torch

    jax = _imported("jax")
    torch.cuda.synchronize()
    q, k, v = (jax.dlpack.from_dlpack(inputs[name].contiguous()) for name in ("Q", "K", "V"))
    compiled = jax.jit(run)

    def launch() -> Outputs:
        return (compiled(q, k, v),)

    def wait(outputs: Outputs) -> Outputs:
        return (torch.from_dlpack(outputs[0].block_until_ready()),)

    return Elsewhere(launch, wait)


def attention_peers(*, flex: bool = False, fa2: bool = True) -> list[Provider]:
    """All that know dense attention; those that are not installed say so when they are asked."""
    return [
        Sdpa("cuDNN", "CUDNN_ATTENTION"),
        *([Sdpa("FA2", "FLASH_ATTENTION")] if fa2 else []),
        *([Flex()] if flex else []),
        Flash("FA3", "flash_attn_interface"),
        FlashJax(),
        Flash("FA4", "flash_attn.cute"),
        Mosaic(),
    ]


# ---- products ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matmul(Provider):
    """torch.matmul into an output that is there: cuBLAS."""

    name: str = "cuBLAS"

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Launch:
        import torch

        a, b = inputs["A"], inputs["B"]
        out = torch.empty(workload.M, workload.N, dtype=a.dtype, device=a.device)

        def launch() -> Outputs:
            return (torch.matmul(a, b, out=out),)

        return launch
