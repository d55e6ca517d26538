"""A tensor map in words: of its fields, or of the 128 bytes that a driver wrote.

python -m tilegen.targets.hopper.tensor_map_text HEX…       bytes as a debugger shows them, in the order of memory
"""

from __future__ import annotations

import re
import struct
import sys

from tilegen.targets.hopper.tensor_map import TensorMap

_FIELDS_END = 0x3C  # bytes; no field of tile mode lies behind
# what the driver adds there, which holds nothing new
_ADDED = {0x40: "the box in bytes, by the driver", 0x48: "bytes until the swizzle repeats, by the driver"}


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
        if offset in _ADDED:
            lines.append(f"  word 0x{offset:02x} is {there}: {_ADDED[offset]}")
        else:
            fields = f", its fields give 0x{known:08x}" if known else ""
            lines.append(f"  word 0x{offset:02x} is 0x{there:08x}{fields}")
    return "\n".join(lines)


def _words(bits: bytes, known: bytes) -> list[tuple[int, int, int]]:
    """(offset, word, what the fields explain) of words that are not what the fields make of them."""
    theirs = struct.unpack("<32I", bits[:128])
    ours = struct.unpack("<32I", known) if known else (*theirs[: _FIELDS_END // 4], *(0,) * (32 - _FIELDS_END // 4))
    return [(4 * n, t, o) for n, (t, o) in enumerate(zip(theirs, ours, strict=True)) if t != o]


def main(words: list[str]) -> int:
    """Print what the bytes say; 1 where they are no tensor map."""
    digits = "".join(re.sub(r"0x", "", word) for word in words)
    try:
        print(bits_text(bytes.fromhex(digits)))
    except ValueError as error:
        print(f"no tensor map: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
