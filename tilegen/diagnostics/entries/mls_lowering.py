"""What no MLS program is made of (tilegen.passes.synchronise_mls, tilegen.targets.mls)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.MLS_COLUMN_OFFSET,
        "no matrix load can bring the tile {tile}: its columns begin where no 16 bytes of a row of {tensor} do",
        ("shift the index by whole 16 bytes",),
        "the base of a matrix load is a multiple of 16 bytes (docs/mls.md)",
    ),
    Entry(Code.MLS_UNSUPPORTED, "this is not built for mls: {what}", ("build for hopper", "write it in another way")),
    Entry(
        Code.MLS_LDS,
        "the tiles do not fit into the LDS of an MLS workgroup, in the smallest blocks that were tried",
        ("state smaller blocks: `schedule mls {{ block … }}`", "hold fewer positions of an axis in a tile"),
        "a workgroup has 64 KiB of LDS (docs/mls.md)",
    ),
    Entry(
        Code.MLS_REGISTERS,
        "a wave has too few {kind} for this, in the smallest blocks that were tried",
        ("state smaller blocks: `schedule mls {{ block … }}`", "compute it in several equations or kernels"),
        "a wave has 102 scalar registers, and 256 vector registers a lane (docs/mls.md)",
    ),
    Entry(
        Code.MLS_WAVES,
        "waves come in groups of four, which share out 64 rows",
        ("state how many: `waves 4`",),
    ),
    Entry(
        Code.MLS_PREFETCH,
        "a streamed tile is brought in time or one block ahead",
        ("`prefetch 2` for two stages, `prefetch 1` for one",),
    ),
    Entry(
        Code.MLS_LINES,
        "matrix loads read the lines of {tensor} in parts of {bytes} bytes, and {what} is not a multiple of that",
        ("under `tilegen run`, choose sizes to fit: multiples of 8 for 16-bit numbers, of 4 for f32, of 16 for bool",),
        "the base of a matrix load is a multiple of 16 bytes (docs/mls.md)",
    ),
)
