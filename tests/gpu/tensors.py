"""Tensors for checks on the GPU: placed in memory that is otherwise NaN, in several layouts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from benchmarks.builds import read
from tilegen.bench.gpu_worker import finish
from tilegen.runtime.kernel import Kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on the CPU the emulator runs the same checks
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
_MARGIN = 4096  # elements before and after


@cache
def kernel(build: str) -> Kernel:
    """The kernel of a build's file. Raises what its compilation raised."""
    return read(build).kernel()


def generator(seed: int) -> torch.Generator:
    return torch.Generator(device=DEVICE).manual_seed(seed)


@dataclass(frozen=True)
class Placed:
    """A tensor of NaN in memory that is NaN all around it."""

    tensor: Tensor
    memory: Tensor  # flat, all of it

    def fill(self, values: Tensor) -> Tensor:
        """The tensor with these values; what lies around stays NaN."""
        return self.tensor.copy_(values)

    def untouched(self) -> bool:
        """Whether all around the tensor is still NaN."""
        around = torch.ones_like(self.memory, dtype=torch.bool)
        around.as_strided(self.tensor.shape, self.tensor.stride(), self.tensor.storage_offset()).fill_(False)
        return bool(self.memory[around].isnan().all())


def place(shape: tuple[int, ...], dtype: torch.dtype, layout: str = "dense") -> Placed:
    """Layouts: "dense"; "framed", with 1 or 2 rows (8 of what is contiguous) of NaN on each side of each dimension;
    "swapped", where dimensions 1 and 2 trade places in memory; "apart", in rows of whole 16 bytes with 8 to 15 of NaN
    behind what is contiguous."""
    stored = list(shape)
    if layout == "swapped":
        stored[1], stored[2] = stored[2], stored[1]
    elif layout == "framed":
        stored = [*(n + 3 for n in shape[:-1]), shape[-1] + 16]
    elif layout == "apart":
        stored[-1] = -(-shape[-1] // 8) * 8 + 8
    count = 1
    for n in stored:
        count *= n
    memory = torch.full((count + 2 * _MARGIN,), float("nan"), dtype=dtype, device=DEVICE)
    tensor = memory[_MARGIN : _MARGIN + count].view(stored)
    if layout == "swapped":
        tensor = tensor.transpose(1, 2)
    elif layout == "framed":
        tensor = tensor[(*(slice(1, n + 1) for n in shape[:-1]), slice(8, 8 + shape[-1]))]
    elif layout == "apart":
        tensor = tensor[..., : shape[-1]]
    return Placed(tensor, memory)


def run(kernel: Kernel, outputs: dict[str, Placed], **arguments: Any) -> None:
    """Launch on outputs of NaN and wait. Raises HangError if it does not end."""
    for placed in outputs.values():
        placed.memory.fill_(float("nan"))
    kernel(**arguments, **{name: placed.tensor for name, placed in outputs.items()})
    finish(f"a launch of {kernel.name}")


def run_twice(kernel: Kernel, outputs: dict[str, Placed], **arguments: Any) -> list[str]:
    """Two launches on the same inputs: what differs in any bit, and what was written outside the outputs."""
    run(kernel, outputs, **arguments)
    first = {name: placed.tensor.clone() for name, placed in outputs.items()}
    run(kernel, outputs, **arguments)
    faults = [f"{name}: two runs differ" for name, t in first.items() if not same_bits(t, outputs[name].tensor)]
    return faults + [f"{name}: written outside the output" for name, p in outputs.items() if not p.untouched()]


def same_bits(a: Tensor, b: Tensor) -> bool:
    whole = torch.int32 if a.element_size() == 4 else torch.int16
    return torch.equal(a.contiguous().view(whole), b.contiguous().view(whole))


def judge(faults: list[str]) -> None:
    assert not faults, "\n".join(faults)
