"""Results in float32 without TF32, in parts that fit, and how far a kernel's result is from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    Score = Callable[[Tensor, Tensor, Tensor, int], Tensor]

_CHUNK = 1 << 28  # scores at a time
ALLOWED_LSE = 1e-3


@dataclass
class Distance:
    """How far a result is from the exact one. `error`: relative, by the Frobenius norm, of the worst batch and head;
    `lse`: the largest absolute one; `faults`: in words, what is beyond the allowed."""

    error: float = 0.0
    lse: float | None = None
    faults: list[str] = field(default_factory=list)


def attention(q: Tensor, k: Tensor, v: Tensor, score: Score | None = None) -> tuple[Tensor, Tensor]:
    """O [B, Sq, H, D] and LSE [B, H, Sq] of Q [B, Sq, H, D], K and V [B, Sk, Hk, D], scaled by 1 / sqrt(D).

    `score(s, i, j, h)`: what becomes of the scaled scores s [rows, keys] at the positions i [rows, 1] and j [keys] of
    head h; -inf where a row does not see a key. Rows that see none are 0 and -inf.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    B, Sq, H, D = q.shape
    Sk, Hk = k.shape[1:3]
    out = torch.zeros(B, Sq, H, v.shape[3], device=q.device)
    lse = torch.full((B, H, Sq), float("-inf"), device=q.device)
    keys, rows = torch.arange(Sk, device=q.device), max(1, _CHUNK // max(Sk, 1))
    for b, h in ((b, h) for b in range(B if Sk else 0) for h in range(H)):
        kt, vs = k[b, :, h * Hk // H].float().T, v[b, :, h * Hk // H].float()
        for start in range(0, Sq, rows):
            part = slice(start, min(start + rows, Sq))
            s = (q[b, part, h].float() @ kt).mul_(D**-0.5)
            if score is not None:
                s = score(s, torch.arange(part.start, part.stop, device=q.device)[:, None], keys, h)
            lse[b, h, part] = s.logsumexp(-1)
            s.sub_(lse[b, h, part, None]).exp_()
            out[b, part, h] = torch.where(lse[b, h, part, None].isneginf(), 0.0, s @ vs)
    return out, lse


def causal(s: Tensor, i: Tensor, j: Tensor, h: int) -> Tensor:
    """Each row sees the keys up to its own position."""
    return s.masked_fill_(j > i, float("-inf"))


def distance(name: str, got: Tensor, want: Tensor, apart: tuple[int, ...] = ()) -> Distance:
    """Compare along every dimension but those `apart` (batches and heads), each of which is judged by itself."""
    import torch

    allowed = {torch.bfloat16: 3e-3, torch.float16: 5e-4, torch.float32: 1e-5}[got.dtype]
    found = Distance()
    if got.shape != want.shape:
        found.faults.append(f"{name} has shape {tuple(got.shape)}, not {tuple(want.shape)}")
    elif not bool(got.isfinite().all()):
        found.error = float("nan")
        found.faults.append(f"{name} is not finite in {int((~got.isfinite()).sum())} of {got.numel()} places")
    elif got.numel():
        others = [n for n in range(got.dim()) if n not in apart]
        away, norm = (got.float() - want).square().sum(others).sqrt(), want.square().sum(others).sqrt()
        found.error = float(torch.where(norm > 0, away / norm, away).max())
        if not found.error <= allowed:
            found.faults.append(f"{name} is off by {found.error:.2e}, allowed {allowed:.0e}")
    return found


def attention_distance(outputs: tuple[Tensor, ...], exact: tuple[Tensor, Tensor]) -> Distance:
    """`outputs`: O, judged by batch and head, and LSE where there is one, judged by its largest error."""
    import torch

    found = distance("O", outputs[0], exact[0], (0, 2))
    if len(outputs) > 1:
        empty = exact[1].isneginf()
        off = torch.where(empty & outputs[1].isneginf(), 0.0, (outputs[1].float() - exact[1]).abs())
        found.lse = float(off.max()) if off.numel() else 0.0
        if not found.lse <= ALLOWED_LSE:
            found.faults.append(f"LSE is off by {found.lse:.2e}, allowed {ALLOWED_LSE:.0e}")
    return found
