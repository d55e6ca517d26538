"""A tensor map in words: of its fields, or of the 128 bytes that a driver wrote."""

from __future__ import annotations

import struct

from tilegen.targets.hopper.tensor_map import TensorMap

_FIELDS_END = 0x3C  # bytes; no field of tile mode lies behind


def map_text(m: TensorMap) -> str:
    """The fields, a line a dimension, innermost first."""
    words = [
        f"{m.dtype} from 0x{m.address:x}",
        f"swizzle of {m.swizzle} bytes" if m.swizzle else "no swizzle",
        f"{'NaN' if m.fill == 'nan' else 'zero'} outside",
        f"brought into L2 by {m.promotion} bytes" if m.promotion else "",
        f"interleaved by {m.interleave} bytes" if m.interleave else "",
    ]
    rows = [("dimension", "extent", "stride", "box", "every")]
    strides = (m.element_bytes, *m.strides)
    for n, (extent, stride, side, step) in enumerate(zip(m.dims, strides, m.box, m.steps, strict=True)):
        rows.append((str(n), str(extent), f"{stride} bytes", str(side), "" if step == 1 else f"{step}."))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [", ".join(w for w in words if w)]
    lines += ["  " + "  ".join(f"{cell:>{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    shape = " x ".join(map(str, m.box_shape))
    lines.append(f"  a box brings {shape} elements, {m.box_bytes} bytes, whatever part of it is outside")
    return "\n".join(lines)


def bits_text(bits: bytes) -> str:
    """What the 128 bytes of a tensor map say: the fields, then what no field explains. Raises ValueError."""
    m = TensorMap.from_bits(bits)
    lines = [map_text(m)]
    broken = m.check("tensor")
    lines += [f"  breaks a rule: {d.message} ({d.got}; {d.wanted})" for d in broken]
    for offset, there, known in _words(bits, b"" if broken else m.to_bits()):
        lines.append(f"  word 0x{offset:02x} is 0x{there:08x}" + (f", its fields give 0x{known:08x}" if known else ""))
    return "\n".join(lines)


def _words(bits: bytes, known: bytes) -> list[tuple[int, int, int]]:
    """(offset, word, what the fields explain) of words that are not what the fields make of them."""
    theirs = struct.unpack("<32I", bits[:128])
    ours = struct.unpack("<32I", known) if known else (*theirs[: _FIELDS_END // 4], *(0,) * (32 - _FIELDS_END // 4))
    return [(4 * n, t, o) for n, (t, o) in enumerate(zip(theirs, ours, strict=True)) if t != o]
