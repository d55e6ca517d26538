"""What is computed: sizes, inputs, exact results and the operations they count for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from tilegen.bench.distance import Distance


class Workload(Protocol):
    """One cell of a table. `columns`: how the table tells it from the others; `flops`: operations of one launch."""

    @property
    def columns(self) -> dict[str, str]: ...
    @property
    def label(self) -> str: ...
    @property
    def flops(self) -> float: ...
    def fields(self) -> dict[str, Any]:
        """What identifies it, for a file."""

    def inputs(self, seed: int) -> dict[str, Tensor]:
        """Random inputs on the GPU, by the names that tilegen's kernel gives them."""

    def exact(self, inputs: dict[str, Tensor]) -> Any: ...
    def distance(self, outputs: tuple[Tensor, ...], exact: Any) -> Distance:
        """`outputs`: all that a provider has, the first of a kernel's at least."""


@dataclass(frozen=True)
class Attention:
    """samples/fa3_fwd.tile, dense [B, S, H, D]: B = tokens / S (at least 1), H = hidden / D, and H / G key heads."""

    D: int
    S: int
    causal: bool
    T: str = "bf16"
    G: int = 1
    tokens: int = 16384
    hidden: int = 2048

    spec: ClassVar[str] = "fa3_fwd"

    @property
    def B(self) -> int:  # noqa: N802
        return max(1, self.tokens // self.S)

    @property
    def H(self) -> int:  # noqa: N802
        return self.hidden // self.D

    @property
    def params(self) -> dict[str, Any]:
        return {"D": self.D, "T": self.T, "causal": self.causal}

    @property
    def columns(self) -> dict[str, str]:
        """How a table tells this cell from the others."""
        mask = "causal" if self.causal else "full"
        return {"T": self.T, "D": str(self.D), "S": str(self.S), "G": str(self.G), "mask": mask}

    @property
    def label(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.columns.items())

    @property
    def flops(self) -> float:
        return 4 * self.B * self.H * self.S**2 * self.D / (2 if self.causal else 1)

    def fields(self) -> dict[str, Any]:
        return asdict(self)

    def inputs(self, seed: int) -> dict[str, Tensor]:
        query, key = (self.B, self.S, self.H, self.D), (self.B, self.S, self.H // self.G, self.D)
        return normal({"Q": query, "K": key, "V": key}, self.T, seed)

    def exact(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        import torch

        from tilegen.bench.exact import attention

        return attention(inputs["Q"], inputs["K"], inputs["V"], self.causal, dtype=torch.float32)

    def distance(self, outputs: tuple[Tensor, ...], exact: tuple[Tensor, Tensor]) -> Distance:
        """`outputs`: O, and LSE where there is one."""
        from tilegen.bench.exact import attention_distance

        return attention_distance(outputs[0], outputs[1] if len(outputs) > 1 else None, *exact)


@dataclass(frozen=True)
class Gemm:
    """samples/gemm.tile: C = A B, both row-major."""

    M: int
    N: int
    K: int
    T: str = "bf16"

    spec: ClassVar[str] = "gemm"

    @property
    def params(self) -> dict[str, Any]:
        return {"T": self.T}

    @property
    def columns(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}

    @property
    def label(self) -> str:
        return f"{self.T} M={self.M} N={self.N} K={self.K}"

    @property
    def flops(self) -> float:
        return 2.0 * self.M * self.N * self.K

    def fields(self) -> dict[str, Any]:
        return asdict(self)

    def inputs(self, seed: int) -> dict[str, Tensor]:
        return normal({"A": (self.M, self.K), "B": (self.K, self.N)}, self.T, seed)

    def exact(self, inputs: dict[str, Tensor]) -> Tensor:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        return inputs["A"].float() @ inputs["B"].float()

    def distance(self, outputs: tuple[Tensor, ...], exact: Tensor) -> Distance:
        from tilegen.bench.exact import distance

        return distance("C", outputs[0], exact)


def normal(shapes: dict[str, tuple[int, ...]], dtype: str, seed: int) -> dict[str, Tensor]:
    """Normally distributed numbers in these shapes, on the GPU."""
    import torch

    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    g = torch.Generator(device="cuda").manual_seed(seed)
    return {name: torch.randn(shape, device="cuda", generator=g).to(kind) for name, shape in shapes.items()}
