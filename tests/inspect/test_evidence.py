"""Each hardware feature is counted where it stands, in PTX and in SASS, and nowhere else."""

from __future__ import annotations

import pytest

from tilegen.inspect.evidence import FEATURES, in_ptx, in_sass
from tilegen.targets.hopper.sass import parse_sass

PTX = {
    "UTMALDG": "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}];",
    "SYNCS.ARRIVE.TRANS64": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;",
    "ELECT": "elect.sync _|%p1, 0xffffffff;",
    "HGMMA": "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;",
    "HMMA": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};",
    "ARRIVES.LDGSTSBAR": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];",
    "UTMASTG": "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];",
    "USETMAXREG": "setmaxnreg.inc.sync.aligned.u32 160;",
    "LDGSTS": "cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;",
    "LDL": "ld.local.f32 %f1, [%rd1];",
    "STL": "st.local.f32 [%rd1], %f1;",
}
MULTICAST = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
    "[%r1], [%rd1, {%r2, %r3}], [%r4], %rs1;"
)
SASS = {
    "UTMALDG": "UTMALDG.4D [UR4], [UR10] ;",
    "SYNCS.ARRIVE.TRANS64": "SYNCS.ARRIVE.TRANS64 RZ, [UR4], R0 ;",
    "ELECT": "ELECT P0, URZ, PT ;",
    "HGMMA": "HGMMA.64x80x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;",
    "HMMA": "HMMA.16816.F32.BF16 R4, R8, R2, R4 ;",
    "ARRIVES.LDGSTSBAR": "ARRIVES.LDGSTSBAR.64.ARVCNT [UR5+0x4000] ;",
    "UTMASTG": "UTMASTG.2D [UR4], [UR10] ;",
    "USETMAXREG": "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xa0 ;",
    "LDGSTS": "LDGSTS.E.BYPASS.128.ZFILL [R4], [R2.64], P0 ;",
    "LDL": "LDL R4, [R1+0x8] ;",
    "STL": "STL [R1+0x8], R4 ;",
}


def entry(name: str, *lines: str) -> str:
    return "\n".join([f".visible .entry {name}(", "\t.param .u64 p", ")", "{", *lines, "ret;", "}", ""])


def nonzero(counts: tuple[int, ...]) -> dict[str, int]:
    return {feature.name: n for feature, n in zip(FEATURES, counts, strict=True) if n}


@pytest.mark.parametrize("name", PTX)
def test_a_feature_in_ptx_is_counted_as_itself_alone(name: str) -> None:
    (found,) = in_ptx(entry("k", PTX[name], "@%p1 " + PTX[name]))
    assert nonzero(found.counts) == {name: 2}


def test_a_multicast_load_is_a_load_too() -> None:
    (found,) = in_ptx(entry("k", MULTICAST, PTX["UTMALDG"]))
    assert nonzero(found.counts) == {"UTMALDG": 2, "MULTICAST": 1}


def test_comments_and_other_entries_do_not_count() -> None:
    first, second = in_ptx(
        entry("a", "// " + PTX["HGMMA"], PTX["ELECT"]) + entry("b", "/* elect.sync */", PTX["HGMMA"])
    )
    assert (first.kernel, nonzero(first.counts)) == ("a", {"ELECT": 1})
    assert (second.kernel, nonzero(second.counts)) == ("b", {"HGMMA": 1})


def test_the_registers_that_roles_ask_for_are_read_from_ptx() -> None:
    up, down = "setmaxnreg.inc.sync.aligned.u32 160;", "setmaxnreg.dec.sync.aligned.u32 32;"
    for lines in ((up, down), (down, up)):
        (found,) = in_ptx(entry("k", *lines))
        assert found.registers == (32, 160)


@pytest.mark.parametrize("name", SASS)
def test_a_feature_in_sass_is_counted_as_itself_alone(name: str) -> None:
    found = in_sass(parse_sass(f".text.k:\n        /*0000*/                   {SASS[name]}\n").function("k"))
    assert nonzero(found.counts) == {name: 1}
    assert found.registers == ((160,) if name == "USETMAXREG" else ())
    assert found.count(name) == 1
