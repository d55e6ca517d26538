"""Small MLS programs, written by hand."""

from __future__ import annotations

from tilegen.syntax.span import Source
from tilegen.targets.mls.parsing import parse
from tilegen.targets.mls.program import Program


def head(name: str, waves: int, lds: int, arguments: str, rings: str = "") -> str:
    lines = [f".kernel {name}", f".source {name}.tile", f".waves {waves}", f".lds {lds}", ".sgprs 64", ".vgprs 64"]
    lines += [f".arg {a.strip()}" for a in arguments.split(";")]
    lines += [f".ring {r.strip()}" for r in rings.split(";") if r]
    return "\n".join(lines) + "\n\n"


def program(text: str) -> Program:
    return parse(Source("test.mls", text))


# Y = X for a bf16 matrix [M, N]: one wave moves 16 × 32.
COPY = (
    head("copy", 1, 1024, "0 X: input bf16[2]; 8 Y: output bf16[2]; 16 M: i32; 20 N: i32", "x: bf16 at 0, 1 of 1024")
    + """\
    s_load_dwordx4 s[8:11], s[0:1], 0
    s_load_dwordx2 s[12:13], s[0:1], 16
    s_lshl_b32 s14, s3, 4                ; i0
    s_lshl_b32 s15, s2, 5                ; j0
    s_waitcnt lgkmcnt(0)
    s_mul_i32 s16, s14, s13              ; (i0 N + j0) * 2, 64 bits
    s_mul_hi_u32 s17, s14, s13
    s_add_u32 s16, s16, s15
    s_addc_u32 s17, s17, 0
    s_add_u32 s16, s16, s16
    s_addc_u32 s17, s17, s17
    s_add_u32 s20, s8, s16               ; descriptor
    s_addc_u32 s21, s9, s17
    s_mov_b32 s22, s13
    s_add_i32 s18, s14, 16               ; lines outside
    s_sub_i32 s18, s18, s12
    s_max_i32 s18, s18, 0
    s_add_i32 s19, s15, 32               ; positions outside
    s_sub_i32 s19, s19, s13
    s_max_i32 s19, s19, 0
    s_cmp_ge_i32 s18, 16                 ; nothing is there
    s_cbranch_scc1 end
    s_cmp_ge_i32 s19, 32
    s_cbranch_scc1 end
    s_lshl_b32 s23, s18, 8
    s_or_b32 s23, s23, s19
    s_mov_b32 m0, 0
    s_nop 0
    matrix_load_16x32_b16 s[20:23], m0 moffset:0 t lds {x: X[s14 + line, s15 + run]} ; @7
    s_add_u32 s24, s10, s16
    s_addc_u32 s25, s11, s17
    v_lshrrev_b32 v1, 5, v0              ; lane: positions (lane mod 32), lines (lane div 32) of two
    v_and_b32 v2, 31, v0
    v_lshlrev_b32 v3, 6, v1              ; in LDS
    v_lshlrev_b32 v4, 1, v2
    v_add_u32 v3, v3, v4
    v_add_u32 v5, s15, v2                ; column
    v_cmp_lt_i32 vcc, v5, s13
    s_waitcnt vmcnt(0)
    s_mov_b32 s26, 0
row:
    v_add_u32 v6, s26, v1                ; line
    v_add_u32 v7, s14, v6                ; row
    v_cmp_lt_i32 s[28:29], v7, s12
    s_and_b64 s[28:29], s[28:29], vcc
    s_and_saveexec_b64 s[30:31], s[28:29]
    ds_read_u16 v8, v3 offset:0 {x: X[v7, v5]}
    v_mul_lo_u32 v9, v6, s13
    v_add_u32 v9, v9, v2
    v_lshlrev_b32 v9, 1, v9
    s_waitcnt lgkmcnt(0)
    global_store_short v9, v8, s[24:25] {Y: Y[v7, v5]}
    s_mov_b64 exec, s[30:31]
    v_add_u32 v3, 128, v3
    s_add_i32 s26, s26, 2
    s_cmp_lt_i32 s26, 16
    s_cbranch_scc1 row
end:
    s_endpgm
"""
)


def _gemm_load(guard: str) -> str:
    """Both tiles of the k-step at s23, into the slot whose number s24 holds: wave 0 brings a, wave 1 b."""
    return f"""\
    s_cmp_lg_u32 s5, 0
    s_cbranch_scc1 {guard}_b
    s_lshl_b32 s40, s23, 1               ; a: base + k0 * 2
    s_add_u32 s44, s26, s40
    s_addc_u32 s45, s27, 0
    s_mov_b32 s46, s18
    s_add_i32 s41, s23, 32
    s_sub_i32 s41, s41, s18
    s_max_i32 s41, s41, 0                ; positions outside, K
    s_add_i32 s42, s20, 16
    s_sub_i32 s42, s42, s16
    s_max_i32 s42, s42, 0                ; lines outside, M
    s_cmp_ge_i32 s41, 32
    s_cbranch_scc1 {guard}_zero_a
    s_cmp_ge_i32 s42, 16
    s_cbranch_scc1 {guard}_zero_a
    s_lshl_b32 s42, s42, 8
    s_or_b32 s47, s42, s41
    s_lshl_b32 s43, s24, 10
    s_mov_b32 m0, s43
    s_nop 0
    matrix_load_16x32_b16 s[44:47], m0 moffset:0 t lds {{a: A[s20 + line, s23 + run]}} ; @9 | a
    s_branch {guard}_done
{guard}_zero_a:
    s_lshl_b32 s43, s24, 10
    v_lshlrev_b32 v1, 4, v0
    v_add_u32 v1, v1, s43
    ds_write_b128 v1, v[12:15] {{a}}
    s_branch {guard}_done
{guard}_b:
    s_mul_i32 s40, s23, s17              ; b: (k0 N + n0) * 2
    s_mul_hi_u32 s41, s23, s17
    s_add_u32 s40, s40, s21
    s_addc_u32 s41, s41, 0
    s_add_u32 s40, s40, s40
    s_addc_u32 s41, s41, s41
    s_add_u32 s44, s10, s40
    s_addc_u32 s45, s11, s41
    s_mov_b32 s46, s17
    s_add_i32 s41, s21, 32
    s_sub_i32 s41, s41, s17
    s_max_i32 s41, s41, 0                ; positions outside, N
    s_add_i32 s42, s23, 32
    s_sub_i32 s42, s42, s18
    s_max_i32 s42, s42, 0                ; lines outside, K
    s_cmp_ge_i32 s41, 32
    s_cbranch_scc1 {guard}_zero_b
    s_cmp_ge_i32 s42, 32
    s_cbranch_scc1 {guard}_zero_b
    s_lshl_b32 s42, s42, 8
    s_or_b32 s47, s42, s41
    s_lshl_b32 s43, s24, 11
    s_add_u32 s43, s43, 2048
    s_mov_b32 m0, s43
    s_nop 0
    matrix_load_32x32_b16 s[44:47], m0 moffset:0 lds {{b: B[s23 + line, s21 + run]}} ; @10 | b
    s_branch {guard}_done
{guard}_zero_b:
    s_lshl_b32 s43, s24, 11
    v_lshlrev_b32 v1, 5, v0
    v_add_u32 v1, v1, s43
    ds_write_b128 v1, v[12:15] offset:2048 {{b}}
    ds_write_b128 v1, v[12:15] offset:2064 {{b}}
{guard}_done:
"""


# C = A B for bf16 matrices [M, K] and [K, N], f32 C: two waves, 16 × 16 of C each; loads run one step ahead.
GEMM = (
    head(
        "gemm",
        2,
        6144,
        "0 A: input bf16[2]; 8 B: input bf16[2]; 16 C: output f32[2]; 24 M: i32; 28 N: i32; 32 K: i32",
        "a: bf16 at 0, 2 of 1024; b: bf16 at 2048, 2 of 2048",
    )
    + """\
    s_load_dwordx4 s[8:11], s[0:1], 0
    s_load_dwordx2 s[12:13], s[0:1], 16
    s_load_dwordx2 s[16:17], s[0:1], 24
    s_load_dword s18, s[0:1], 32
    s_lshl_b32 s20, s2, 4                ; m0
    s_lshl_b32 s21, s3, 5                ; n0
    s_waitcnt lgkmcnt(0)
    s_mul_i32 s26, s20, s18              ; a's rows: A + m0 K * 2
    s_mul_hi_u32 s27, s20, s18
    s_add_u32 s26, s26, s26
    s_addc_u32 s27, s27, s27
    s_add_u32 s26, s8, s26
    s_addc_u32 s27, s9, s27
    v_mov_b32 v12, 0
    v_mov_b32 v13, 0
    v_mov_b32 v14, 0
    v_mov_b32 v15, 0
    v_mov_b32 v8, 0.0
    v_mov_b32 v9, 0.0
    v_mov_b32 v10, 0.0
    v_mov_b32 v11, 0.0
    s_mov_b32 s22, 0                     ; k0
    s_mov_b32 s25, 0                     ; slot
    s_mov_b32 s23, 0
    s_mov_b32 s24, 0
"""
    + _gemm_load("first")
    + """\
step:
    s_add_i32 s23, s22, 32               ; the next step
    s_xor_b32 s24, s25, 1
    s_waitcnt vmcnt(0)
    s_barrier
    s_cmp_ge_i32 s23, s18
    s_cbranch_scc1 none
"""
    + _gemm_load("next")
    + """\
none:
    s_lshl_b32 s50, s25, 10              ; a
    s_lshl_b32 s51, s25, 11              ; b, this wave's 16 columns
    s_lshl_b32 s52, s5, 5
    s_add_u32 s51, s51, s52
    s_lshl_b32 s53, s5, 4
    s_add_i32 s53, s53, s21              ; its first column
    s_nop 0
    ds_read_matrix_b16 v[16:17], s50 offset:0 {a: A[s20 + line, s22 + run]}
    ds_read_matrix_trans_b16 v[18:19], s51 offset:2048 {b: B[s22 + line, s53 + run]}
    ds_read_matrix_b16 v[20:21], s50 offset:32 {a: A[s20 + line, s22 + run + 16]}
    ds_read_matrix_trans_b16 v[22:23], s51 offset:3072 {b: B[s22 + line + 16, s53 + run]}
    s_waitcnt lgkmcnt(2)
    v_mmac_f32_16x16x16_bf16 v[8:11], v[16:17], v[18:19], v[8:11]
    s_waitcnt lgkmcnt(0)
    v_mmac_f32_16x16x16_bf16 v[8:11], v[20:21], v[22:23], v[8:11]
    s_mov_b32 s22, s23
    s_mov_b32 s25, s24
    s_cmp_lt_i32 s22, s18
    s_cbranch_scc1 step
    v_lshrrev_b32 v1, 4, v0              ; row 4 g + e, column x
    v_lshlrev_b32 v1, 2, v1
    v_and_b32 v2, 15, v0
    v_add_u32 v1, s20, v1
    v_add_u32 v2, s53, v2
    v_cmp_lt_i32 vcc, v2, s17
    v_mul_lo_u32 v3, v1, s17             ; (row N + column) * 4, 64 bits
    v_mul_hi_u32 v4, v1, s17
    v_add_co_u32 v3, s[54:55], v3, v2
    v_addc_co_u32 v4, s[54:55], v4, 0, s[54:55]
    v_add_co_u32 v3, s[54:55], v3, v3
    v_addc_co_u32 v4, s[54:55], v4, v4, s[54:55]
    v_add_co_u32 v3, s[54:55], v3, v3
    v_addc_co_u32 v4, s[54:55], v4, v4, s[54:55]
    v_add_co_u32 v3, s[54:55], v3, s12
    v_addc_co_u32 v4, s[54:55], v4, s13, s[54:55]
    s_lshl_b32 s56, s17, 2
"""
    + "".join(
        f"""\
    v_cmp_lt_i32 s[54:55], v1, s16
    s_and_b64 s[54:55], s[54:55], vcc
    s_and_saveexec_b64 s[58:59], s[54:55]
    global_store_dword v[3:4], v{8 + e}, off {{C: C[v1, v2]}}
    s_mov_b64 exec, s[58:59]
    v_add_u32 v1, 1, v1
    v_add_co_u32 v3, s[54:55], v3, s56
    v_addc_co_u32 v4, s[54:55], v4, 0, s[54:55]
"""
        for e in range(4)
    )
    + """\
    s_endpgm
"""
)

# Y = softmax along the rows of an f32 matrix [M, 16]: a lane has one element of four rows, rows lie in 16 lanes.
SOFTMAX = (
    head("softmax", 1, 1024, "0 X: input f32[2]; 8 Y: output f32[2]; 16 M: i32", "x: f32 at 0, 1 of 1024")
    + """\
    s_load_dwordx4 s[8:11], s[0:1], 0
    s_load_dword s12, s[0:1], 16
    s_lshl_b32 s14, s2, 4                ; i0
    s_mov_b32 s22, 16
    s_mov_b32 m0, 0
    s_lshl_b32 s16, s14, 6
    s_lshr_b32 s17, s14, 26
    s_waitcnt lgkmcnt(0)
    s_add_u32 s20, s8, s16
    s_addc_u32 s21, s9, s17
    s_add_i32 s23, s14, 16
    s_sub_i32 s23, s23, s12
    s_max_i32 s23, s23, 0
    s_min_i32 s23, s23, 15               ; there is a line
    s_lshl_b32 s23, s23, 8
    s_add_u32 s24, s10, s16
    s_addc_u32 s25, s11, s17
    matrix_load_16x16_b32 s[20:23], m0 moffset:0 t lds {x: X[s14 + line, run]}
    v_lshlrev_b32 v1, 2, v0              ; byte of row lane div 16, column lane mod 16
    v_lshrrev_b32 v2, 4, v0
    v_add_u32 v2, s14, v2                ; row
    v_and_b32 v3, 15, v0
    s_waitcnt vmcnt(0)
    s_mov_b32 s26, 4
rows:
    v_cmp_lt_i32 vcc, v2, s12
    s_and_saveexec_b64 s[30:31], vcc
    s_cbranch_execz skip
    ds_read_b32 v4, v1 offset:0 {x: X[v2, v3]}
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v5, v4
"""
    + "".join(f"    v_mov_b32_dpp v6, v5 row_ror:{n}\n    v_max_f32 v5, v5, v6\n" for n in (8, 4, 2, 1))
    + """\
    v_sub_f32 v7, v4, v5
    v_mul_f32 v7, v7, 1.442695
    v_exp_f32 v7, v7
    v_mov_b32 v8, v7
"""
    + "".join(f"    v_mov_b32_dpp v6, v8 row_ror:{n}\n    v_add_f32 v8, v8, v6\n" for n in (8, 4, 2, 1))
    + """\
    v_rcp_f32 v8, v8
    v_mul_f32 v7, v7, v8
    global_store_dword v1, v7, s[24:25] {Y: Y[v2, v3]}
skip:
    s_mov_b64 exec, s[30:31]
    v_add_u32 v1, 256, v1
    v_add_u32 v2, 4, v2
    s_sub_u32 s26, s26, 1
    s_cmp_lg_u32 s26, 0
    s_cbranch_scc1 rows
    s_endpgm
"""
)
