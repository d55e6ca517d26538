"""Which hardware features generated code uses, counted in its SASS or in its PTX."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilegen.targets.hopper.sass import Function


@dataclass(frozen=True)
class Feature:
    """A machine instruction, what it shows, and the PTX instruction that becomes it: in words and as it is found."""

    name: str
    shows: str
    spelling: str
    ptx: re.Pattern[str]


def _feature(name: str, shows: str, spelling: str, ptx: str) -> Feature:
    return Feature(name, shows, spelling, re.compile(r"(?<![\w.])" + ptx))


FEATURES: tuple[Feature, ...] = (
    _feature(
        "UTMALDG",
        "TMA load",
        "cp.async.bulk.tensor….shared::cluster.global",
        r"cp\.async\.bulk\.tensor\.\dd\.shared::\w+\.global\b",
    ),
    _feature(
        "MULTICAST",
        "TMA load to several CTAs",
        "cp.async.bulk.tensor….multicast::cluster",
        r"cp\.async\.bulk\.tensor\.\dd\.[\w.:]*multicast::cluster",
    ),
    _feature(
        "SYNCS.ARRIVE.TRANS64",
        "barrier that counts bytes",
        "mbarrier.arrive.expect_tx",
        r"mbarrier\.arrive\.expect_tx\b",
    ),
    _feature("ELECT", "one elected thread", "elect.sync", r"elect\.sync\b"),
    _feature("HGMMA", "warpgroup product", "wgmma.mma_async", r"wgmma\.mma_async\b"),
    _feature("HMMA", "product of a warp", "mma.sync", r"mma\.sync\b"),
    _feature(
        "UTMASTG",
        "TMA store",
        "cp.async.bulk.tensor….global.shared::cta",
        r"cp\.async\.bulk\.tensor\.\dd\.global\.shared::cta\b",
    ),
    _feature("USETMAXREG", "registers moved between roles", "setmaxnreg", r"setmaxnreg\b"),
    _feature("LDGSTS", "copy without TMA", "cp.async.ca|cg.shared", r"cp\.async\.c[ag]\.shared"),
    _feature(
        "ARRIVES.LDGSTSBAR",
        "copies without TMA signal a barrier",
        "cp.async.mbarrier.arrive",
        r"cp\.async\.mbarrier\.arrive\b",
    ),
    _feature("LDL", "spilled: local load", "ld.local", r"ld\.local\b"),
    _feature("STL", "spilled: local store", "st.local", r"st\.local\b"),
)

_SETMAXNREG = re.compile(r"(?<![\w.])setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)")
_ENTRY = re.compile(r"^\s*(?:\.visible\s+)?\.entry\s+([\w$]+)", re.M)


@dataclass(frozen=True)
class Evidence:
    """Counts of one kernel, in the order of FEATURES, and the registers a thread that its roles ask for, fewest first:
    the order of roles in PTX is not that in machine code.
    """

    kernel: str
    counts: tuple[int, ...]
    registers: tuple[int, ...]

    def count(self, name: str) -> int:
        return next(n for feature, n in zip(FEATURES, self.counts, strict=True) if feature.name == name)


def in_sass(function: Function) -> Evidence:
    """What one kernel's machine code holds."""
    found = function.evidence()
    return Evidence(function.name, tuple(found[f.name] for f in FEATURES), tuple(sorted(function.register_counts())))


def in_ptx(text: str) -> tuple[Evidence, ...]:
    """What each entry of a PTX text holds."""
    text = re.sub(r"//.*|/\*[\s\S]*?\*/", "", text)
    starts = list(_ENTRY.finditer(text))
    ends = [*(m.start() for m in starts), len(text)][1:]
    return tuple(
        Evidence(
            m[1],
            tuple(len(f.ptx.findall(text, m.start(), end)) for f in FEATURES),
            tuple(sorted(int(n) for n in _SETMAXNREG.findall(text, m.start(), end))),
        )
        for m, end in zip(starts, ends, strict=True)
    )
