"""Exact results by torch, in float64 or float32 without TF32, in chunks that fit, and how far a result is from them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tilegen.bench.distance import Distance

CHUNK = 1 << 28  # scores at a time
_ROUNDING = math.sqrt(3 / (8 * math.log(2)) / 12)  # root mean square of rounding's relative error, in units of eps

torch.backends.cuda.matmul.allow_tf32 = False


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None = None,
    *,
    cap: float | None = None,
    slope: Tensor | None = None,
    bias: Tensor | None = None,
    temperature: Tensor | None = None,
    sink: Tensor | None = None,
    seen: Callable[[int, Tensor, Tensor], Tensor] | None = None,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """O [B, Sq, H, DV] and LSE [B, H, Sq] of Q [B, Sq, H, D], K [B, Sk, Hk, D] and V [B, Sk, Hk, DV]; causal at the
    bottom right.

    Rows without a key are 0 and -inf. cap, slope [H], bias [B, H, Sq, Sk], temperature and sink [H]: as the samples
    attention_softcap, _alibi, _bias and _sink have them. seen(batch, i, j): which keys j [Sk] the queries at i
    [rows, 1] see, besides; both as positions of keys, the last query's being the last key's.
    """
    B, Sq, H, D = q.shape
    Sk, Hk = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    out = torch.zeros(B, Sq, H, v.shape[-1], dtype=dtype, device=q.device)
    lse = torch.full((B, H, Sq), float("-inf"), dtype=dtype, device=q.device)
    if not Sk:
        return out, lse if sink is None else sink[:, None].to(dtype).expand_as(lse)
    keys = torch.arange(Sk, device=q.device)
    rows = max(1, CHUNK // Sk)
    for b, g in ((b, g) for b in range(B) for g in range(Hk)):
        kt, vs = k[b, :, g].to(dtype).T, v[b, :, g].to(dtype)
        for h in range(g * H // Hk, (g + 1) * H // Hk):
            for start in range(0, Sq, rows):
                part = slice(start, min(start + rows, Sq))
                last = torch.arange(part.start, part.stop, device=q.device)[:, None] + (Sk - Sq)
                s = (q[b, part, h].to(dtype) @ kt).mul_(scale)
                if temperature is not None:
                    s *= temperature[h].to(dtype)
                if cap is not None:
                    s = cap * torch.tanh(s / cap)
                if bias is not None:
                    s += bias[b, h, part].to(dtype)
                if slope is not None:
                    s += slope[h].to(dtype) * (keys - last)
                if causal:
                    s.masked_fill_(keys > last, float("-inf"))
                if seen is not None:
                    s.masked_fill_(~seen(b, last, keys), float("-inf"))
                lse[b, h, part] = s.logsumexp(-1)
                if sink is not None:
                    lse[b, h, part] = torch.logaddexp(lse[b, h, part], sink[h].to(dtype))
                s.sub_(lse[b, h, part, None]).exp_()
                out[b, part, h] = torch.where(lse[b, h, part, None].isneginf(), 0.0, s @ vs)
    return out, lse


def rounding_error(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None = None, *, rounded: torch.dtype
) -> Tensor:
    """The relative error [B, H] to expect of an ideal implementation: P and O rounded to this type, all else exact.

    It is the root mean square over such roundings, each independent and of a number whose significand is as likely in
    one place as in another by its logarithm. It does not depend on what P is relative to: the row's maximum, or, while
    an online softmax runs, another. Arguments as for `attention`, all at once in memory: for few rows.
    """
    B, Sq, H, D = q.shape
    Sk, Hk = k.shape[1:3]
    queries, keys, values = q.double().reshape(B, Sq, Hk, H // Hk, D), k.double(), v.double()
    s = torch.einsum("bqgrd,bkgd->bgrqk", queries, keys) * (D**-0.5 if scale is None else scale)
    if causal:
        s.masked_fill_(torch.ones(Sq, Sk, dtype=torch.bool, device=q.device).triu(Sk - Sq + 1), float("-inf"))
    p = s.softmax(-1).nan_to_num()
    o = torch.einsum("bgrqk,bkge->bgrqe", p, values).square().sum((-2, -1))
    square = torch.einsum("bgrqk,bkg->bgr", p.square(), values.square().sum(-1)) + o
    return (_ROUNDING * torch.finfo(rounded).eps * (square / o).sqrt().nan_to_num()).reshape(B, H)


ALLOWED = {torch.bfloat16: 3e-3, torch.float16: 5e-4, torch.float32: 1e-5}  # relative error by the result's type
ALLOWED_LSE = 1e-3
# Rounding P and O to bf16 is some 2.3e-3 off; in a single row of 64 numbers, by chance, more than 3e-3 now and then.
FEW_ROWS = 16  # fewer than these are also right up to this many times the error that rounding_error expects
TIMES_EXPECTED = 2.0  # of 33 thousand rows, simulated with P relative to an old maximum, the worst had 1.7


def distance(
    name: str,
    got: Tensor,
    want: Tensor,
    apart: tuple[int, ...] = (),
    allowed: float | None = None,
    expected: Callable[[], Tensor] | None = None,
) -> Distance:
    """Compare along every dimension but those `apart`, which are judged one by one (batches and heads).

    `allowed`: the relative error; by default what ALLOWED says of the result's type. `expected`: yields the error
    that rounding alone makes, along the dimensions `apart`; what is beyond the allowed is then right up to
    TIMES_EXPECTED of it.
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
    limit = torch.full_like(relative, allowed)
    over = ~(relative <= allowed)
    if expected is not None and over.any():
        limit = limit.maximum(TIMES_EXPECTED * expected())
        found.by_rounding = int((over & (relative <= limit)).sum())
        over = ~(relative <= limit)
    if over.any():
        worst = torch.unravel_index((relative / limit).argmax(), relative.shape)
        place = f" at {[int(n) for n in worst]} along dimensions {list(apart)}" if apart else ""
        spot = torch.unravel_index((got.to(want.dtype) - want).abs().argmax(), got.shape)
        index = tuple(int(n) for n in spot)
        found.faults.append(
            f"{name} is off by {relative[worst].item():.2e}{place}, allowed {limit[worst].item():.2g}; "
            f"most at {list(index)}: {got[index].item():.6g}, exactly {want[index].item():.6g}"
        )
    return found


def attention_distance(
    o: Tensor,
    lse: Tensor | None,
    want_o: Tensor,
    want_lse: Tensor,
    allowed: float | None = None,
    expected: Callable[[], Tensor] | None = None,
) -> Distance:
    """O judged by batch and head, LSE by its largest error; rows without a key are 0 and -inf to the bit.

    A batch and head of fewer than FEW_ROWS rows is too small for a bound that holds on average: where `expected` is
    given (what `rounding_error` yields), it may also be off by TIMES_EXPECTED of what is expected there; where it is
    not, all batches and heads are judged together.
    """
    few = o.shape[1] < FEW_ROWS
    apart = () if few and expected is None else (0, 2)
    found = distance("O", o, want_o, apart, allowed, expected if few else None)
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
