"""Single instructions of the MLS machine against their definitions in docs/mls.md, spelt out again here."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.mls.programs import head, program
from tilegen.emulate.mls import launch
from tilegen.targets.mls import isa

U32 = npt.NDArray[np.uint32]
LOW = 0xFFFFFFFF
RANDOM = np.random.default_rng(7)
WHOLE = [0, 1, 2, 15, 16, 31, 32, 255, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678]


def run(text: str, **arrays: npt.NDArray[np.generic]) -> None:
    arguments = "; ".join(
        f"{8 * n} {name}: {'output' if name == 'Y' else 'input'} {_dtype(a)}[{a.ndim}]"
        for n, (name, a) in enumerate(arrays.items())
    )
    launch(program(head("one", 1, 65536, arguments) + text), (1, 1, 1), arrays)


def _dtype(array: npt.NDArray[np.generic]) -> str:
    return {"int32": "i32", "float32": "f32", "bfloat16": "bf16", "float16": "f16"}[array.dtype.name]


def lanes(instruction: str, *sources: U32, results: int = 1) -> U32:
    """v[16 …] after an instruction whose sources are v8, v9, …, a row of 64 patterns each; [results, 64]."""
    x = np.stack(sources).view(np.int32)
    y = np.zeros((results, isa.LANES), np.int32)
    text = "    s_load_dwordx4 s[8:11], s[0:1], 0\n    v_lshlrev_b32 v1, 2, v0\n    s_waitcnt lgkmcnt(0)\n"
    text += "".join(f"    global_load_dword v{8 + n}, v1, s[8:9] offset:{256 * n}\n" for n in range(len(sources)))
    text += f"    s_waitcnt vmcnt(0)\n    {instruction}\n    s_waitcnt lgkmcnt(0)\n"
    text += "".join(f"    global_store_dword v1, v{16 + n}, s[10:11] offset:{256 * n}\n" for n in range(results))
    run(text + "    s_endpgm\n", X=x, Y=y)
    return y.view(np.uint32)


def scalars(instructions: str, *sources: int) -> tuple[int, int]:
    """s20 and scc after instructions whose sources are s12, s13, …"""
    y = np.zeros(2, np.int32)
    text = "    s_load_dwordx2 s[8:9], s[0:1], 0\n"
    text += "".join(f"    s_mov_b32 s{12 + n}, {value}\n" for n, value in enumerate(sources))
    text += f"    s_cmp_eq_u32 s12, s12\n    s_waitcnt lgkmcnt(0)\n    {instructions}\n    s_cselect_b32 s21, 1, 0\n"
    text += "    v_mov_b32 v1, 0\n    v_mov_b32 v2, s20\n    v_mov_b32 v3, s21\n    s_mov_b64 exec, 1\n"
    text += "    global_store_dwordx2 v1, v[2:3], s[8:9]\n    s_endpgm\n"
    run(text, Y=y)
    return int(y.view(np.uint32)[0]), int(y[1])


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def floats(count: int = 64) -> npt.NDArray[np.float32]:
    special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -3e38, 65504.0, 65520.0, 1 + 2**-8, 1 + 3 * 2**-8]
    normal = RANDOM.standard_normal(count - len(special)) * 2.0 ** RANDOM.integers(-20, 20, count - len(special))
    return RANDOM.permutation(np.concatenate([special, normal]).astype(np.float32))


# ---- scalars ----


def _carries(value: int) -> tuple[int, int]:
    return value & LOW, int(value >> 32 != 0)


SCALAR: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "s_add_u32": lambda a, b: _carries(a + b),
    "s_addc_u32": lambda a, b: _carries(a + b + 1),
    "s_sub_u32": lambda a, b: _carries(a - b),
    "s_subb_u32": lambda a, b: _carries(a - b - 1),
    "s_add_i32": lambda a, b: ((a + b) & LOW, int(abs(signed(a) + signed(b) + 0.5) > 1 << 31)),
    "s_sub_i32": lambda a, b: ((a - b) & LOW, int(abs(signed(a) - signed(b) + 0.5) > 1 << 31)),
    "s_mul_i32": lambda a, b: (a * b & LOW, 1),
    "s_mul_hi_u32": lambda a, b: (a * b >> 32, 1),
    "s_mul_hi_i32": lambda a, b: (signed(a) * signed(b) >> 32 & LOW, 1),
    "s_lshl_b32": lambda a, b: ((a << b % 32) & LOW, int((a << b % 32) & LOW != 0)),
    "s_lshr_b32": lambda a, b: (a >> b % 32, int(a >> b % 32 != 0)),
    "s_ashr_i32": lambda a, b: (signed(a) >> b % 32 & LOW, int(signed(a) >> b % 32 != 0)),
    "s_and_b32": lambda a, b: (a & b, int(a & b != 0)),
    "s_or_b32": lambda a, b: (a | b, int(a | b != 0)),
    "s_xor_b32": lambda a, b: (a ^ b, int(a != b)),
    "s_min_i32": lambda a, b: (min(a, b, key=signed), int(signed(a) < signed(b))),
    "s_max_u32": lambda a, b: (max(a, b), int(a > b)),
    "s_cselect_b32": lambda a, b: (a, 1),
}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar(name: str) -> None:
    for a, b in zip(WHOLE, RANDOM.permutation(WHOLE).tolist(), strict=True):
        assert scalars(f"{name} s20, s12, s13", a, b) == SCALAR[name](a, b), (a, b)


@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_scalar_compares(kind: str) -> None:
    for a, b in [(1, 2), (2, 2), (0x80000000, 1), (0xFFFFFFFF, 0)]:
        x, y = (signed(a), signed(b)) if kind == "i32" else (a, b)
        wanted = {"eq": x == y, "lg": x != y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y}
        for relation, true in wanted.items():
            assert scalars(f"s_mov_b32 s20, 0\n    s_cmp_{relation}_{kind} s12, s13", a, b)[1] == int(true)


def test_a_sum_of_64_bits_needs_its_carry() -> None:
    words = "s_add_u32 s22, s12, s14\n    s_addc_u32 s20, s13, s15"
    a, b = 0x1_FFFFFFF0, 0x2_00000020
    assert scalars(words, a & LOW, a >> 32, b & LOW, b >> 32)[0] == a + b >> 32


# ---- vectors of whole numbers ----

VECTOR: dict[str, Callable[[int, int], int]] = {
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_lshlrev_b32": lambda a, b: b << a % 32,
    "v_lshrrev_b32": lambda a, b: b >> a % 32,
    "v_ashrrev_i32": lambda a, b: signed(b) >> a % 32,
    "v_min_i32": lambda a, b: min(a, b, key=signed),
    "v_max_i32": lambda a, b: max(a, b, key=signed),
    "v_min_u32": min,
    "v_max_u32": max,
}


def patterns() -> U32:
    return RANDOM.choice(np.array(WHOLE, np.uint32), isa.LANES)


@pytest.mark.parametrize("name", VECTOR)
def test_vector_of_whole_numbers(name: str) -> None:
    a, b = patterns(), patterns()
    (got,) = lanes(f"{name} v16, v8, v9", a, b)
    assert got.tolist() == [VECTOR[name](x, y) & LOW for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_64_bit_sums_and_products_of_lanes() -> None:
    a, b, c, d = (patterns() for _ in range(4))
    low, high = lanes("v_add_co_u32 v16, vcc, v8, v9\n    v_addc_co_u32 v17, vcc, v10, v11, vcc", a, b, c, d, results=2)
    wanted = [(x | z << 32) + (y | w << 32) for x, y, z, w in zip(*(k.tolist() for k in (a, b, c, d)), strict=True)]
    assert [x | y << 32 for x, y in zip(low.tolist(), high.tolist(), strict=True)] == [w % 2**64 for w in wanted]
    low, high = lanes("v_mad_u64_u32 v[16:17], vcc, v8, v9, v[10:11]", a, b, c, d, results=2)
    wanted = [x * y + (z | w << 32) for x, y, z, w in zip(*(k.tolist() for k in (a, b, c, d)), strict=True)]
    assert [x | y << 32 for x, y in zip(low.tolist(), high.tolist(), strict=True)] == [w % 2**64 for w in wanted]


@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_compares_and_selects(kind: str) -> None:
    a, b = patterns(), patterns()
    for relation in ("eq", "ne", "gt", "ge", "lt", "le"):
        (got,) = lanes(f"v_cmp_{relation}_{kind} vcc, v8, v9\n    v_cndmask_b32 v16, v8, v9, vcc", a, b)
        x, y = (a.view(np.int32), b.view(np.int32)) if kind == "i32" else (a, b)
        true = {"eq": x == y, "ne": x != y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y}[relation]
        np.testing.assert_array_equal(got, np.where(true, b, a))


# ---- vectors of floats ----


def as_floats(x: U32) -> npt.NDArray[np.float32]:
    return x.view(np.float32)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("v_add_f32", np.add), ("v_sub_f32", np.subtract), ("v_mul_f32", np.multiply), ("v_max_f32", np.fmax),
        ("v_min_f32", np.fmin),
    ],
)  # fmt: skip
def test_vector_of_floats(name: str, function: Callable[..., npt.NDArray[np.float32]]) -> None:
    a, b = floats(), floats()
    (got,) = lanes(f"{name} v16, v8, v9", a.view(np.uint32), b.view(np.uint32))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(as_floats(got), function(a, b))


def test_signs_and_magnitudes_of_sources() -> None:
    a, b = floats(), floats()
    (got,) = lanes("v_add_f32 v16, -|v8|, -v9", a.view(np.uint32), b.view(np.uint32))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(as_floats(got), -np.abs(a) - b)


def test_fma_is_rounded_once() -> None:
    a, b, c = (RANDOM.standard_normal(64).astype(np.float32) for _ in range(3))
    (got,) = lanes("v_fma_f32 v16, v8, v9, v10", *(x.view(np.uint32) for x in (a, b, c)))
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert as_floats(got).tolist() == [float(np.float32(float(e))) for e in exact]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("v_exp_f32", lambda x: 2.0**x), ("v_log_f32", math.log2), ("v_rcp_f32", lambda x: 1 / x),
        ("v_sqrt_f32", math.sqrt), ("v_rsq_f32", lambda x: x**-0.5), ("v_tanh_f32", math.tanh),
        ("v_floor_f32", math.floor),
    ],
)  # fmt: skip
def test_functions_are_within_a_unit(name: str, function: Callable[[float], float]) -> None:
    a = np.exp(RANDOM.uniform(-4, 4, 64)).astype(np.float32)
    (got,) = lanes(f"{name} v16, v8", a.view(np.uint32))
    wanted = np.array([function(float(x)) for x in a])
    assert (np.abs(as_floats(got) - wanted) <= np.spacing(np.abs(wanted).astype(np.float32))).all()


@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16)])
def test_casts_round_to_nearest_even_and_back_is_exact(name: str, dtype: type[np.generic]) -> None:
    a, b = floats(), floats()
    (got,) = lanes(f"v_cvt_pk_{name}_f32 v16, v8, v9", a.view(np.uint32), b.view(np.uint32))
    with np.errstate(all="ignore"):
        halves = [x.astype(dtype) for x in (a, b)]
    for half, shift in zip(halves, (0, 16), strict=True):
        bits = (got >> np.uint32(shift)).astype(np.uint16)
        nan = np.isnan(half.astype(np.float32))
        np.testing.assert_array_equal(bits[~nan], half.view(np.uint16)[~nan])
        assert np.isnan(bits.view(dtype).astype(np.float32))[nan].all()
    (back,) = lanes(f"v_cvt_f32_{name} v16, v8", got)
    np.testing.assert_array_equal(as_floats(back), halves[0].astype(np.float32))


def test_whole_numbers_and_floats() -> None:
    a = patterns()
    np.testing.assert_array_equal(as_floats(lanes("v_cvt_f32_i32 v16, v8", a)[0]), a.view(np.int32).astype(np.float32))
    np.testing.assert_array_equal(as_floats(lanes("v_cvt_f32_u32 v16, v8", a)[0]), a.astype(np.float32))
    x = np.resize(np.array([1.9, -1.9, 3e9, -3e9, np.nan, 0.5], np.float32), 64)
    assert lanes("v_cvt_i32_f32 v16, v8", x.view(np.uint32))[0].view(np.int32)[:6].tolist() == [
        1, -1, (1 << 31) - 1, -(1 << 31), 0, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("relation", ["eq", "neq", "gt", "ge", "lt", "le", "o", "u"])
def test_compares_of_floats(relation: str) -> None:
    a, b = floats(), floats()
    (got,) = lanes(
        f"v_cmp_{relation}_f32 vcc, v8, v9\n    v_cndmask_b32 v16, 0, 1, vcc", a.view(np.uint32), b.view(np.uint32)
    )
    nan = np.isnan(a) | np.isnan(b)
    true = {"eq": a == b, "neq": ~(a == b), "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "o": ~nan, "u": nan}
    np.testing.assert_array_equal(got, true[relation])


# ---- between lanes ----


@pytest.mark.parametrize("amount", [1, 4, 8, 15])
def test_row_rotation(amount: int) -> None:
    a = patterns()
    (got,) = lanes(f"v_mov_b32_dpp v16, v8 row_ror:{amount}", a)
    assert got.tolist() == [a[l // 16 * 16 + (l - amount) % 16] for l in range(64)]  # noqa: E741


def test_permutation() -> None:
    a, take = patterns(), RANDOM.integers(0, 64, 64).astype(np.uint32)
    (got,) = lanes("ds_bpermute_b32 v16, v9, v8", a, take * np.uint32(4))
    np.testing.assert_array_equal(got, a[take])


def test_lanes_that_exec_has_off_keep_their_values() -> None:
    a, b = patterns(), patterns()
    text = "v_mov_b32 v16, v8\n    s_mov_b32 s12, 0xffff0001\n    s_mov_b32 s13, 0\n    s_mov_b64 exec, s[12:13]\n"
    text += "    v_mov_b32 v16, v9\n    v_readfirstlane_b32 s14, v9\n    s_mov_b64 exec, -1\n    v_mov_b32 v17, s14"
    got, first = lanes(text, a, b, results=2)
    on = [n == 0 or 16 <= n < 32 for n in range(64)]
    np.testing.assert_array_equal(got, np.where(on, b, a))
    assert (first == b[0]).all()


# ---- matrices ----


def brute_place(shape: isa.TileShape, line: int, position: int) -> int:
    """Byte of an element in LDS, as section 3 of the manual has it."""
    byte = position * shape.element_bytes
    return byte // 64 * shape.lines * 64 + line * 64 + byte % 64


@pytest.mark.parametrize("name", isa.SHAPES)
@pytest.mark.parametrize(
    ("lines_cut", "run_cut", "modifiers"), [(0, 0, ""), (3, 5, ""), (1, 0, "moffset:8"), (0, 2, "moffset:2 r")]
)
def test_matrix_load(name: str, lines_cut: int, run_cut: int, modifiers: str) -> None:
    shape = isa.SHAPES[name]
    dtype = np.dtype(np.float32) if shape.element_bytes == 4 else np.dtype(ml_dtypes.bfloat16)
    x = RANDOM.standard_normal((40, 96)).astype(dtype)
    pairs = shape.bytes // 2
    y = np.zeros((pairs // 64, 64), np.int32)
    words = [w for w in modifiers.split() if ":" not in w]
    offset = next((w for w in modifiers.split() if ":" in w), "moffset:0")
    t = "" if name in isa.PLAIN else "t "
    text = f"""\
    s_load_dwordx4 s[8:11], s[0:1], 0
    s_mov_b32 s14, 96
    s_mov_b32 s15, {lines_cut << 8 | run_cut}
    s_mov_b32 s16, 512
    s_waitcnt lgkmcnt(0)
    s_mov_b64 s[12:13], s[8:9]
    s_nop 0
    {name} s[12:15], s16 {offset} {t}{"".join(w + " " for w in words)}lds
    v_lshlrev_b32 v1, 1, v0
    v_lshlrev_b32 v2, 2, v0
    s_waitcnt vmcnt(0)
"""
    for row in range(len(y)):
        text += f"    ds_read_u16 v3, v1 offset:{512 + 128 * row}\n    s_waitcnt lgkmcnt(0)\n"
        text += f"    v_add_u32 v4, {256 * row}, v2\n    global_store_dword v4, v3, s[10:11]\n"
    run(text + "    s_endpgm\n", X=x, Y=y)
    wanted = bytearray(shape.bytes)
    amount = int(offset.split(":")[1])
    first_line, first = (amount, 0) if "r" in words else (0, amount)
    for line in range(shape.lines - lines_cut):
        for position in range(shape.run - run_cut):
            at = brute_place(shape, line, position)
            value = x[first_line + line, first + position : first + position + 1].tobytes()
            wanted[at : at + shape.element_bytes] = value
    assert y.ravel().tolist() == list(struct.unpack(f"<{pairs}H", wanted))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_a_product_of_fragments_read_from_lds(dtype: str, accumulate: bool) -> None:
    """A [16, 16] times B [16, 16] from LDS, A's lines being rows and B's lines the contracted axis."""
    kind = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[dtype]
    x = RANDOM.standard_normal((32, 32)).astype(kind)
    y = np.zeros((16, 16), np.float32)
    c = "v[20:23]" if accumulate else "0"
    text = f"""\
    s_load_dwordx4 s[8:11], s[0:1], 0
    s_mov_b32 s14, 32
    s_mov_b32 s15, 0
    s_mov_b32 m0, 0
    s_waitcnt lgkmcnt(0)
    s_mov_b64 s[12:13], s[8:9]
    s_nop 0
    matrix_load_32x32_b16 s[12:15], m0 t lds
    v_mov_b32 v20, 1.0
    v_mov_b32 v21, 2.0
    v_mov_b32 v22, 3.0
    v_mov_b32 v23, 4.0
    s_waitcnt vmcnt(0)
    ds_read_matrix_b16 v[4:5], m0 offset:32
    ds_read_matrix_trans_b16 v[6:7], m0 offset:1024
    s_waitcnt lgkmcnt(0)
    v_mmac_f32_16x16x16_{dtype} v[8:11], v[4:5], v[6:7], {c}
    v_lshrrev_b32 v1, 4, v0
    v_lshlrev_b32 v1, 8, v1
    v_and_b32 v2, 15, v0
    v_lshlrev_b32 v2, 2, v2
    v_add_u32 v1, v1, v2
"""
    text += "".join(f"    global_store_dword v1, v{8 + e}, s[10:11] offset:{64 * e}\n" for e in range(4))
    run(text + "    s_endpgm\n", X=x, Y=y)
    wide = x.astype(np.float64)
    wanted = wide[:16, 16:] @ wide[16:, :16] + (1.0 + np.arange(16)[:, None] % 4 if accumulate else 0.0)
    np.testing.assert_allclose(y, wanted, rtol=2**-23, atol=1e-6)
