"""What commands meet (tilegen.cli)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.MLS_DEFECT_UNMET,
        "at these sizes nothing meets the defect {defect}, and the results are right",
        (
            "leave --size out: the sizes chosen then meet it",
            "where the spec itself has default sizes, give others: a last block that is cut, and several blocks",
        ),
    ),
    Entry(Code.BAD_USAGE, "{what}", ("see `{command} --help`",)),
    Entry(
        Code.SIZES_TOO_LARGE,
        "the arrays of {kernel} do not fit into this machine's memory at these sizes, {sizes}",
        ("give smaller sizes: `--size {size}=…`",),
    ),
    Entry(
        Code.NOT_BOXED,
        "{name} is {what}, so no box of TMA moves it",
        (
            "name what boxes move: {known}",
            "{by_tma}",
        ),
    ),
    Entry(
        Code.CANNOT_PRINT,
        "the results cannot be printed: {reason}",
        ("correct what stdout is redirected to",),
    ),
    Entry(
        Code.CANNOT_WRITE,
        "the output files cannot be written to {folder}: {reason}",
        ("choose another place: with `-o`, or as the file that the option names",),
    ),
    Entry(
        Code.CACHE_UNREADABLE,
        "the cache in {folder} cannot be read or cleared: {reason}",
        ("correct what is wrong with the folder", "set TILEGEN_CACHE to another folder, or to `off`"),
    ),
    Entry(
        Code.TUNED_STORE,
        "the schedules kept in {folder} cannot be read or changed: {reason}",
        ("correct what is wrong with the folder", "set TILEGEN_TUNED to another folder"),
    ),
    Entry(
        Code.TUNE_FAILED,
        "no schedule of {kernel} could be timed: {reason}",
        ("`tilegen check` tells what is wrong with the spec's own schedule", "give other sizes by --size"),
    ),
    Entry(
        Code.RESULT_WRONG,
        "the kernel's {output} is not what its equation says, first at [{place}]",
        ("this is a fault of tilegen, not of the spec: report it with the spec, the sizes and the seed",),
    ),
    Entry(
        Code.NOT_A_KERNEL,
        "{file} holds no kernel: {reason}",
        ("give a file that `tilegen build` or a CUDA compiler wrote",),
    ),
)
