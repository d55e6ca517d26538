"""What is computed: sizes, inputs, exact results and the operations they count for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from torch import Tensor

    from benchmarks.references import Distance


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

    kind: ClassVar[str] = "attention"
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

    def inputs(self, seed: int) -> dict[str, Tensor]:
        query, key = (self.B, self.S, self.H, self.D), (self.B, self.S, self.H // self.G, self.D)
        return _normal({"Q": query, "K": key, "V": key}, self.T, seed)

    def exact(self, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """In float32."""
        import torch

        from benchmarks.references import attention

        return attention(inputs["Q"], inputs["K"], inputs["V"], self.causal, dtype=torch.float32)

    def distance(self, outputs: tuple[Tensor, ...], exact: tuple[Tensor, ...]) -> Distance:
        """`outputs`: O, and LSE where there is one."""
        from benchmarks.references import attention_distance

        return attention_distance(outputs[0], outputs[1] if len(outputs) > 1 else None, *exact)


@dataclass(frozen=True)
class Gemm:
    """samples/gemm.tile: C = A B, both row-major."""

    M: int
    N: int
    K: int
    T: str = "bf16"

    kind: ClassVar[str] = "gemm"
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

    def inputs(self, seed: int) -> dict[str, Tensor]:
        return _normal({"A": (self.M, self.K), "B": (self.K, self.N)}, self.T, seed)

    def exact(self, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """In float32."""
        return (inputs["A"].float() @ inputs["B"].float(),)

    def distance(self, outputs: tuple[Tensor, ...], exact: tuple[Tensor, ...]) -> Distance:
        from benchmarks.references import distance

        return distance("C", outputs[0], exact[0])


def _normal(shapes: dict[str, tuple[int, ...]], dtype: str, seed: int) -> dict[str, Tensor]:
    import torch

    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    g = torch.Generator(device="cuda").manual_seed(seed)
    return {name: torch.randn(shape, device="cuda", generator=g).to(kind) for name, shape in shapes.items()}
