"""Attention's other forms beside the plain kernel: windows, ragged batches, ALiBi, soft-caps.

python benchmarks/forms.py                    all; a form whose sample is not there is left out, with a note
python benchmarks/forms.py window ragged --no-flex

"plain" is samples/fa3_fwd.tile in the same run: full for windows, of the same mask and the same mean length for ragged
batches, of the same mask for scores. It counts for the operations it does itself: the ratio is one of TFLOP/s, of which
a window has those of the pairs in it, and a ragged batch those of each sequence's own length.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.builds import SAMPLES
from benchmarks.contest import contestants, finished, parser, requested, say, settings, temporary_folder
from benchmarks.providers import Tilegen
from tilegen.bench.contest import compete
from tilegen.bench.distance import Distance
from tilegen.bench.peers import AbsentError, Flex, Provider
from tilegen.bench.workloads import Attention, normal

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Form:
    """A dense form, [B, S, H, D] with a key head to a query head. `sample`: its spec; `window`: keys to the
    left of the diagonal that a query sees."""

    name: str
    sample: str
    D: int = 128
    S: int = 16384
    causal: bool = True
    T: str = "bf16"
    tokens: int = 16384
    hidden: int = 2048
    window: int | None = None

    @property
    def spec(self) -> str:
        return self.sample

    @property
    def plain(self) -> Attention:
        """What it is held against."""
        return Attention(self.D, self.S, self.causal and self.window is None, self.T, 1, self.tokens, self.hidden)

    @property
    def params(self) -> dict[str, Any]:
        return {"D": self.D, "T": self.T} | ({} if self.window is not None else {"causal": self.causal})

    @property
    def columns(self) -> dict[str, str]:
        return {"form": self.name, "D": str(self.D), "S": str(self.S), "mask": "causal" if self.causal else "full"}

    @property
    def label(self) -> str:
        return f"{self.name} D={self.D} S={self.S} {self.columns['mask']}"

    @property
    def pairs(self) -> float:
        """Pairs of a query and a key that it sees, of one head: causal masks count half, as everywhere."""
        if self.window is None:
            return self.S**2 / (2 if self.causal else 1)
        return float(sum(min(i, self.window) + 1 for i in range(self.S)))

    @property
    def flops(self) -> float:
        return 4 * self.plain.B * self.plain.H * self.pairs * self.D

    def fields(self) -> dict[str, Any]:
        return asdict(self)

    def inputs(self, seed: int) -> dict[str, Any]:
        return {**self.plain.inputs(seed), **self._more()}

    def _more(self) -> dict[str, Any]:
        import torch

        if self.name == "window":
            return {"left": self.window, "right": 0}
        if self.name == "alibi":
            H = self.plain.H
            return {"slope": torch.tensor([2.0 ** (-8 * (h + 1) / H) for h in range(H)], device="cuda")}
        return {"cap": 30.0}

    def exact(self, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        import torch

        from tilegen.bench.exact import attention

        def near(batch: int, i: Tensor, j: Tensor) -> Tensor:
            return j >= i - self.window

        of_scores = {name: inputs[name] for name in ("cap", "slope") if name in inputs}
        seen = near if self.window is not None else None
        q, k, v = (inputs[name] for name in ("Q", "K", "V"))
        return attention(q, k, v, self.causal, **of_scores, seen=seen, dtype=torch.float32)

    def distance(self, outputs: tuple[Tensor, ...], exact: tuple[Tensor, Tensor]) -> Distance:
        from tilegen.bench.exact import attention_distance

        return attention_distance(*outputs, *exact)


def flex_change(form: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """score_mod and mask_mod of a dense form for FlexAttention."""
    import torch

    if isinstance(form, Ragged):
        raise AbsentError("dense forms only")

    def sees(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (i >= j) & (i - j <= form.window) if form.window is not None else i >= j

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        if form.name == "alibi":
            return s + inputs["slope"][h] * (j - i)
        return inputs["cap"] * torch.tanh(s / inputs["cap"])

    return (None if form.name == "window" else score), (sees if form.causal else None)


@dataclass(frozen=True)
class Ragged:
    """samples/fa3_varlen.tile: sequences of lengths uniform in 512 … 8192, one behind the other."""

    causal: bool
    D: int = 128
    H: int = 16
    sequences: int = 16
    T: str = "bf16"
    drawn: int = 4  # seed of the lengths

    spec = "fa3_varlen"
    name = "ragged"

    @property
    def lengths(self) -> list[int]:
        return [int(n) for n in np.random.default_rng(self.drawn).integers(512, 8193, self.sequences)]

    @property
    def plain(self) -> Attention:
        """Dense, as many sequences of the mean length, to the nearest multiple of 16."""
        S = round(sum(self.lengths) / self.sequences / 16) * 16
        return Attention(self.D, S, self.causal, self.T, 1, S * self.sequences, self.H * self.D)

    @property
    def params(self) -> dict[str, Any]:
        return {"D": self.D, "T": self.T, "causal": self.causal}

    @property
    def columns(self) -> dict[str, str]:
        mask = "causal" if self.causal else "full"
        return {"form": "ragged", "D": str(self.D), "S": f"{self.plain.S} in the mean", "mask": mask}

    @property
    def label(self) -> str:
        return f"ragged D={self.D} {self.columns['mask']}, {sum(self.lengths)} tokens"

    @property
    def flops(self) -> float:
        return 4 * self.H * self.D * sum(n**2 for n in self.lengths) / (2 if self.causal else 1)

    def fields(self) -> dict[str, Any]:
        return asdict(self)

    def inputs(self, seed: int) -> dict[str, Any]:
        import torch

        total = sum(self.lengths)
        starts = torch.tensor([0, *np.cumsum(self.lengths).tolist()], dtype=torch.int32, device="cuda")
        shape = (total, self.H, self.D)
        return {**normal({"Q": shape, "K": shape, "V": shape}, self.T, seed), "cu_q": starts, "cu_k": starts}

    def exact(self, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """O [1, tokens, H, D] and LSE [1, H, tokens]."""
        import torch

        from tilegen.bench.exact import attention

        o, lse, start = [], [], 0
        for n in self.lengths:
            q, k, v = (inputs[name][None, start : start + n] for name in ("Q", "K", "V"))
            found = attention(q, k, v, self.causal, dtype=torch.float32)
            o.append(found[0])
            lse.append(found[1])
            start += n
        return torch.cat(o, 1), torch.cat(lse, 2)

    def distance(self, outputs: tuple[Tensor, ...], exact: tuple[Tensor, Tensor]) -> Distance:
        from tilegen.bench.exact import attention_distance

        return attention_distance(*(x[None] for x in outputs), *exact)


FORMS: Mapping[str, list[Form | Ragged]] = {
    "window": [Form("window", "attention_window", window=1024)],
    "ragged": [Ragged(False), Ragged(True)],
    "alibi": [Form("alibi", "attention_alibi", S=8192)],
    "softcap": [
        Form("softcap", "attention_softcap", S=8192),
        Form("softcap", "attention_softcap", S=8192, causal=False),
    ],
}


@dataclass(frozen=True)
class Plain(Provider):
    """The plain kernel, on what a form is held against."""

    kernel: Tilegen
    judged = True

    def stands_on(self, workload: Any) -> Attention:
        found = workload.plain
        assert isinstance(found, Attention)
        return found

    def prepare(self, workload: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        return self.kernel.prepare(workload, inputs)


def present(names: list[str]) -> list[Form | Ragged]:
    """The cells of these forms; says which samples are not there."""
    found = []
    for name in names:
        for form in FORMS[name]:
            if (SAMPLES / f"{form.spec}.tile").exists():
                found.append(form)
            else:
                say(f"{form.label}: left out, as there is no samples/{form.spec}.tile")
    return found


def main() -> int:
    p = parser("Times other forms of attention on the GPU beside the plain kernel.")
    p.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    p.add_argument("forms", nargs="*", metavar="FORM", help=f"of {', '.join(FORMS)}; all if none is given")
    p.add_argument("--no-flex", action="store_true", help="leave FlexAttention out, which torch compiles long")
    options = p.parse_args()
    if unknown := sorted({*options.forms} - {*FORMS}):
        p.error(f"no such form: {', '.join(unknown)}")
    s = settings(options)
    cells = present(options.forms or list(FORMS))
    if not cells:
        return 1
    with temporary_folder() as made:
        both = [*cells, *dict.fromkeys(form.plain for form in cells)]
        (ours,) = contestants({"tilegen": requested}, both, Path(made), options, s.seed)
        others: list[Provider] = [] if options.no_flex else [Flex(change=flex_change)]
        report = compete("Forms of attention", "forms", cells, [ours, Plain("plain", ours), *others], "tilegen", s, say)
    print(report.text())
    return finished(report, ["tilegen", "plain"])


if __name__ == "__main__":
    sys.exit(main())
