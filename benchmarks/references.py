"""Exact results by torch, in float64 or float32 without TF32, in chunks that fit, and how far a result is from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

CHUNK = 1 << 28  # scores at a time

torch.backends.cuda.matmul.allow_tf32 = False


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None = None,
    *,
    softcap: float | None = None,
    slope: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """O [B, Sq, H, D] and LSE [B, H, Sq] of Q [B, Sq, H, D], K and V [B, Sk, Hk, D]; causal at the bottom right.

    Rows without a key are 0 and -inf. softcap, slope [H]: as samples/attention_softcap_alibi.tile has them.
    """
    B, Sq, H, D = q.shape
    Sk, Hk = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    out = torch.zeros(B, Sq, H, D, dtype=dtype, device=q.device)
    lse = torch.full((B, H, Sq), float("-inf"), dtype=dtype, device=q.device)
    if not Sk:
        return out, lse
    keys = torch.arange(Sk, device=q.device)
    rows = max(1, CHUNK // Sk)
    for b, g in ((b, g) for b in range(B) for g in range(Hk)):
        kt, vs = k[b, :, g].to(dtype).T, v[b, :, g].to(dtype)
        for h in range(g * H // Hk, (g + 1) * H // Hk):
            for start in range(0, Sq, rows):
                part = slice(start, min(start + rows, Sq))
                last = torch.arange(part.start, part.stop, device=q.device)[:, None] + (Sk - Sq)
                s = (q[b, part, h].to(dtype) @ kt).mul_(scale)
                if softcap is not None:
                    s = softcap * torch.tanh(s / softcap)
                if slope is not None:
                    s += slope[h].to(dtype) * (keys - last)
                if causal:
                    s.masked_fill_(keys > last, float("-inf"))
                lse[b, h, part] = s.logsumexp(-1)
                s.sub_(lse[b, h, part, None]).exp_()
                out[b, part, h] = torch.where(lse[b, h, part, None].isneginf(), 0.0, s @ vs)
    return out, lse


@dataclass
class Distance:
    """How far a result is from the exact one. `error`: relative, by the Frobenius norm, of the worst batch and head;
    `lse`: the largest absolute one; `faults`: in words, what is beyond the allowed."""

    error: float = 0.0
    lse: float | None = None
    faults: list[str] = field(default_factory=list)


ALLOWED = {torch.bfloat16: 3e-3, torch.float16: 5e-4, torch.float32: 1e-5}  # relative error by the result's type
ALLOWED_LSE = 1e-3


def distance(
    name: str, got: Tensor, want: Tensor, apart: tuple[int, ...] = (), allowed: float | None = None
) -> Distance:
    """Compare along every dimension but those `apart`, which are judged one by one (batches and heads).

    `allowed`: the relative error; by default what ALLOWED says of the result's type.
    """
    allowed = ALLOWED[got.dtype] if allowed is None else allowed
    found = Distance()
    if got.shape != want.shape:
        found.faults.append(f"{name} has shape {tuple(got.shape)}, not {tuple(want.shape)}")
        return found
    if not got.numel():
        return found
    bad = ~got.isfinite()
    if bad.any():
        found.error = float("nan")
        found.faults.append(f"{name} is not finite in {_some(bad)}, of {got.numel()}")
        return found
    others = [n for n in range(got.dim()) if n not in apart]
    away = (got.to(want.dtype) - want).square().sum(others).sqrt()
    norm = want.square().sum(others).sqrt()
    relative = torch.where(norm > 0, away / norm, away)
    found.error = float(relative.max())
    if not found.error <= allowed:
        worst = torch.unravel_index(relative.argmax(), relative.shape)
        place = f" at {[int(n) for n in worst]} along dimensions {list(apart)}" if apart else ""
        spot = torch.unravel_index((got.to(want.dtype) - want).abs().argmax(), got.shape)
        index = tuple(int(n) for n in spot)
        found.faults.append(
            f"{name} is off by {found.error:.2e}{place}, allowed {allowed:.0e}; "
            f"most at {list(index)}: {got[index].item():.6g}, exactly {want[index].item():.6g}"
        )
    return found


def attention_distance(
    o: Tensor, lse: Tensor | None, want_o: Tensor, want_lse: Tensor, allowed: float | None = None
) -> Distance:
    """O judged by batch and head, LSE by its largest error; rows without a key are 0 and -inf to the bit."""
    found = distance("O", o, want_o, (0, 2), allowed)
    wrong = (o != 0) & want_lse.isneginf().transpose(1, 2).unsqueeze(-1)
    if wrong.any():
        found.faults.append(f"O is not 0 in {_some(wrong)}, where a row has no key")
    if lse is not None:
        logarithms = lse_distance(lse, want_lse)
        found.lse = logarithms.lse
        found.faults += logarithms.faults
    return found


def lse_distance(lse: Tensor, want: Tensor) -> Distance:
    """Logarithms of sums, judged by their absolute error; -inf where the sum is empty."""
    found = Distance()
    empty = want.isneginf()
    wrong = ~lse.isneginf() & empty
    if wrong.any():
        found.faults.append(f"LSE is not -inf in {_some(wrong)}, where there is nothing to sum")
    away = torch.where(empty, 0.0, (lse.to(want.dtype) - want).abs())
    bad = ~(away <= ALLOWED_LSE)  # NaN is bad
    found.lse = float(away.max()) if away.numel() else 0.0
    if bad.any():
        index = tuple(int(n) for n in bad.nonzero()[0])
        found.faults.append(
            f"LSE is off by up to {found.lse:.2e}, allowed {ALLOWED_LSE:.0e}; in {_some(bad)}: "
            f"{lse[index].item():.6g}, exactly {want[index].item():.6g}"
        )
    return found


def _some(mask: Tensor) -> str:
    """How many places, and the first of them."""
    return f"{int(mask.sum())} places, the first {mask.nonzero()[0].tolist()}"
