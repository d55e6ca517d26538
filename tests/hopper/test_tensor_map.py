"""Tensor maps: the bytes, the way back, and each rule on both sides of its limit."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hopper.maps import BROKEN, GOOD, random_map
from tilegen.targets.hopper.tensor_map import ELEMENT_TYPES, TensorMap
from tilegen.targets.hopper.tensor_map_text import bits_text, main, map_text


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


@given(st.integers(0, 2**32))
def test_decoding_undoes_encoding(seed: int) -> None:
    m = random_map(random.Random(seed))
    assert m.check("tensor") == []
    assert TensorMap.from_bits(m.to_bits()) == m


def test_random_maps_have_every_field_at_every_value() -> None:
    """What the round trips, here and against the driver, go through."""
    found = [random_map(random.Random(seed)) for seed in range(400)]
    assert {m.dtype for m in found} == set(ELEMENT_TYPES)
    assert {m.rank for m in found} == {1, 2, 3, 4, 5}
    assert {(m.swizzle, m.interleave) for m in found} == {
        *((s, i) for s in (0, 32, 64, 128) for i in (0, 16)),
        (32, 32),
    }
    assert {m.fill for m in found} == {"zero", "nan"}
    assert {m.promotion for m in found} == {0, 64, 128, 256}
    assert {step for m in found for step in m.element_strides} == set(range(1, 9))
    assert {1, 256} <= {side for m in found for side in m.box}
    assert {0, 2**40 - 16} <= {stride for m in found for stride in m.strides}
    assert {1, 2**31} <= {extent for m in found for extent in m.dims}


def test_a_load_signals_the_whole_box_counted_in_steps() -> None:
    m = replace(GOOD, box=(64, 192, 3), element_strides=(4, 5, 2))  # along the innermost dimension the step is ignored
    assert m.box_shape == (64, 39, 2)
    assert m.box_bytes == 64 * 39 * 2 * 2
    assert replace(m, interleave=16).box_shape == (16, 39, 2)


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


def test_interleaving_takes_three_dimensions_and_lifts_the_limits_of_the_inner_side() -> None:
    flat = TensorMap("u8", 4096, (64, 64), (64,), (8, 8), interleave=16)
    assert [d.code for d in flat.check("A")] == ["TMA_INTERLEAVE"]
    deep = TensorMap("u8", 4096, (64, 64, 4), (64, 4096), (8, 8, 1), interleave=16, swizzle=32)
    assert deep.check("A") == []
    assert [d.code for d in replace(deep, interleave=0).check("A")] == ["TMA_BOX_BYTES"]
    wide = replace(deep, box=(48, 8, 1))
    assert wide.check("A") == []
    assert [d.code for d in replace(wide, interleave=0).check("A")] == ["TMA_SWIZZLE"]


def test_a_map_in_words() -> None:
    m = TensorMap("bf16", 0x7F0000, (128, 1000), (256,), (64, 80), (1, 3), swizzle=128, fill="nan", promotion=256)
    text = map_text(m)
    assert text.splitlines()[0] == (
        "bf16 from 0x7f0000, swizzle of 128 bytes, NaN outside, brought into L2 by 256 bytes"
    )
    assert [line.split() for line in text.splitlines()[2:4]] == [
        ["0", "128", "2", "bytes", "64"],
        ["1", "1000", "256", "bytes", "80", "3."],
    ]
    assert "64 x 27 elements, 3456 bytes" in text
    assert bits_text(m.to_bits()) == text


def test_bytes_of_a_debugger_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(GOOD.to_bits().hex(" ", 8).split()) == 0
    assert capsys.readouterr().out == map_text(GOOD) + "\n"
    assert main(["00"]) == main(["xy"]) == 1
    assert "128 bytes, not 1" in capsys.readouterr().err


def test_bits_in_words_tell_what_no_field_explains() -> None:
    bits = bytearray(GOOD.to_bits())
    struct.pack_into("<I", bits, 0x40, 26)
    bits[0x0A] |= 1 << 5  # bit 21 of the control word
    text = bits_text(bytes(bits))
    assert "word 0x40 is 26: the box in bytes" in text
    assert "word 0x08 is 0x00206520, its fields give 0x00006520" in text
    struct.pack_into("<Q", bits, 0, 0x7F0000000004)
    assert "breaks a rule: tensor does not start on a 16-byte boundary: it is 4 bytes past one" in bits_text(
        bytes(bits)
    )


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
    for bad in (
        {"swizzle": 96},
        {"fill": "one"},
        {"dtype": "f8"},
        {"strides": (16,)},
        {"promotion": 32},
        {"interleave": 8},
    ):
        with pytest.raises(ValueError, match=r"no such|fill is|different ranks"):
            replace(GOOD, **bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="16"):
        replace(GOOD, address=8).to_bits()
    with pytest.raises(ValueError, match="interleave"):
        TensorMap.from_bits(bytes(8) + struct.pack("<I", 3 << 11) + bytes(116))
