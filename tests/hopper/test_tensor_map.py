"""Tensor maps: the bytes, the way back, and each rule on both sides of its limit."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.targets.hopper.tensor_map import ELEMENT_TYPES, TensorMap

GOOD = TensorMap("bf16", 0x7F00_1234_5670, (128, 1000, 8), (2048, 2048 * 1000), (64, 192, 1), swizzle=128)


def test_the_fields_land_where_the_hardware_reads_them() -> None:
    m = TensorMap(
        "bf16", 0x7F0012345670, (128, 1000, 8, 3), (256, 0xAB_1234_5670, 1 << 36), (64, 192, 2, 1),
        (1, 2, 3, 8), swizzle=128, fill="nan", promotion=256,
    )  # fmt: skip
    bits = m.to_bits()
    (control,) = struct.unpack_from("<I", bits, 8)
    assert len(bits) == 128
    assert struct.unpack_from("<Q", bits, 0) == (0x7F0012345670,)
    assert control == 3 << 4 | 10 << 7 | 3 << 13 | 1 << 15 | 3 << 17
    assert struct.unpack_from("<4I", bits, 0x0C) == (16, 0xB1234567, 0, 0)
    assert struct.unpack_from("<I", bits, 0x1C) == (0xA << 4 | 1 << 8,)
    assert struct.unpack_from("<5I", bits, 0x20) == (127, 999, 7, 2, 0)
    assert struct.unpack_from("<I", bits, 0x34) == (0 | 1 << 3 | 2 << 6 | 7 << 9 | 63 << 24,)
    assert struct.unpack_from("<I", bits, 0x38) == (191 | 1 << 8,)
    assert bits[0x3C:] == bytes(68)


@st.composite
def maps(draw: st.DrawFn) -> TensorMap:
    dtype = draw(st.sampled_from(sorted(ELEMENT_TYPES)))
    rank = draw(st.integers(1, 5))
    size = ELEMENT_TYPES[dtype][1]
    swizzle = draw(st.sampled_from((0, 32, 64, 128)))
    inner = 16 // size * draw(st.integers(1, min(256 * size, swizzle or 256) // 16))
    return TensorMap(
        dtype,
        16 * draw(st.integers(1, 2**60 - 1)),
        tuple(draw(st.lists(st.integers(1, 2**31), min_size=rank, max_size=rank))),
        tuple(16 * s for s in draw(st.lists(st.integers(0, 2**36 - 1), min_size=rank - 1, max_size=rank - 1))),
        (inner, *draw(st.lists(st.integers(1, 256), min_size=rank - 1, max_size=rank - 1))),
        tuple(draw(st.lists(st.integers(1, 8), min_size=rank, max_size=rank))),
        swizzle,
        draw(st.sampled_from(("zero", "nan"))) if dtype in ("f16", "bf16", "f32", "f64") else "zero",
        draw(st.sampled_from((0, 64, 128, 256))),
    )


@given(maps())
def test_decoding_undoes_encoding(m: TensorMap) -> None:
    assert TensorMap.from_bits(m.to_bits()) == m


def test_a_load_signals_the_whole_box_counted_in_steps() -> None:
    m = replace(GOOD, box=(64, 192, 3), element_strides=(1, 5, 2))
    assert m.box_shape == (64, 39, 2)
    assert m.box_bytes == 64 * 39 * 2 * 2


BROKEN = [
    ("TMA_ADDRESS", {"address": 0x7F0012345674}, {"address": 0x7F0012345680}),
    ("TMA_ADDRESS", {"address": 0}, {"address": 16}),
    ("TMA_EXTENT", {"dims": (128, 0, 8)}, {"dims": (128, 1, 8)}),
    ("TMA_EXTENT", {"dims": (128, 2**31 + 1, 8)}, {"dims": (128, 2**31, 8)}),
    ("TMA_STRIDE_ALIGNMENT", {"strides": (1000, 16000)}, {"strides": (1008, 16000)}),
    ("TMA_STRIDE_RANGE", {"strides": (256, 2**40)}, {"strides": (256, 2**40 - 16)}),
    ("TMA_STRIDE_RANGE", {"strides": (-256, 2560)}, {"strides": (0, 2560)}),
    ("TMA_BOX", {"box": (64, 257, 1)}, {"box": (64, 256, 1)}),
    ("TMA_BOX", {"box": (64, 0, 1)}, {"box": (64, 1, 1)}),
    ("TMA_BOX_BYTES", {"box": (60, 192, 1)}, {"box": (56, 192, 1)}),
    ("TMA_ELEMENT_STRIDE", {"element_strides": (1, 9, 1)}, {"element_strides": (1, 8, 1)}),
    ("TMA_SWIZZLE", {"box": (72, 192, 1)}, {"box": (64, 192, 1)}),
    ("TMA_SWIZZLE", {"swizzle": 64}, {"swizzle": 64, "box": (32, 192, 1)}),
    ("TMA_FILL", {"dtype": "u16", "fill": "nan"}, {"fill": "nan"}),
]


@pytest.mark.parametrize(("code", "bad", "good"), BROKEN)
def test_each_rule_fires_past_its_limit_and_not_at_it(
    code: str, bad: dict[str, object], good: dict[str, object]
) -> None:
    axes = ("d", "i", "h")
    assert [d.code for d in replace(GOOD, **bad).check("K", axes)] == [code]  # type: ignore[arg-type]
    assert replace(GOOD, **good).check("K", axes) == []  # type: ignore[arg-type]


def test_rank_has_limits() -> None:
    six = TensorMap("f32", 16, (4,) * 6, (16,) * 5, (4,) * 6)
    assert [d.code for d in six.check("K")] == ["TMA_RANK"]
    assert TensorMap("f32", 16, (4,) * 5, (16,) * 4, (4,) * 5).check("K") == []
    assert [d.code for d in TensorMap("f32", 16, (), (), ()).check("K")] == ["TMA_RANK"]


def test_a_row_of_250_floats_is_refused_by_name() -> None:
    """Cases 30 and 31: the message names tensor, axis, stride and rule."""
    (d,) = TensorMap("f32", 4096, (250, 64), (1000,), (32, 64), swizzle=128).check("A", ("k", "m"))
    assert (d.code, d.got) == ("TMA_STRIDE_ALIGNMENT", "1000 bytes")
    assert "A" in d.message
    assert "along m" in d.message
    assert "16" in d.rule
    assert TensorMap("f32", 4096, (252, 64), (1008,), (32, 64), swizzle=128).check("A", ("k", "m")) == []


def test_a_base_four_bytes_off_is_refused_by_name() -> None:
    """Case 32."""
    (d,) = TensorMap("f32", 4100, (252, 64), (1008,), (32, 64)).check("A")
    assert d.code == "TMA_ADDRESS"
    assert d.got == "0x1004"
    assert "4 bytes past" in d.message


def test_all_faults_are_reported_at_once() -> None:
    bad = replace(GOOD, address=8, strides=(8, 2**40), box=(64, 300, 1))
    assert {d.code for d in bad.check("K")} == {"TMA_ADDRESS", "TMA_STRIDE_ALIGNMENT", "TMA_STRIDE_RANGE", "TMA_BOX"}


def test_what_the_hardware_has_not_cannot_be_made() -> None:
    for bad in ({"swizzle": 96}, {"fill": "one"}, {"dtype": "f8"}, {"strides": (16,)}, {"promotion": 32}):
        with pytest.raises(ValueError, match=r"no such|fill is|different ranks"):
            replace(GOOD, **bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="16"):
        replace(GOOD, address=8).to_bits()
    with pytest.raises(ValueError, match="interleave"):
        TensorMap.from_bits(bytes(8) + struct.pack("<I", 1 << 11) + bytes(116))
