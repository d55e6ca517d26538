"""What sm_80 cannot do (tilegen.passes.synchronise_sm80)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.DIRECTIVE_OF_OTHERS,
        "the directive `{directive}` is not for {target}: {why}",
        ("leave it out: it changes speed, never results",),
    ),
    Entry(
        Code.WARP_ROWS,
        "a warp cannot have so many rows",
        ("state `warp_rows 16` or `warp_rows 32`", "leave it out: registers decide"),
    ),
    Entry(
        Code.SM80_UNSUPPORTED, "this is not built for sm_80: {what}", ("build for hopper", "write it in another way")
    ),
)
