"""What is wrong with an MLS program (tilegen.targets.mls, tilegen.emulate.mls)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(Code.MLS_SYNTAX, "this is no MLS assembly: {what}", ("see docs/mls.md, section 8, for the form of a line",)),
    Entry(Code.MLS_PROGRAM, "no MLS machine can run this: {what}", ("docs/mls.md says what each instruction takes",)),
    Entry(
        Code.MLS_ARGUMENTS,
        "{kernel} is launched without {missing}",
        ("give each by its name: {known}",),
        "an array for each tensor, its strides in elements (`A.stride0` is that of A's first dimension), and numbers",
    ),
    Entry(
        Code.MLS_CARRY,
        "{what}",
        ("add the high words with s_addc_u32, right behind the s_add_u32 of the low words",),
        "a 64-bit address lives in two 32-bit registers, and the carry between them is the program's affair",
    ),
    Entry(
        Code.MLS_TAIL,
        "{what}",
        ("branch around the load where its filter reaches the tile's size, and write zeros over the lines",),
        "a filter hides lines from the data, not from the address unit",
    ),
    Entry(
        Code.MLS_DIRTY_LDS,
        "{what}",
        ("load every byte that is read, or write zeros over it, in each generation of its slot",),
        "LDS holds whatever was there before, and 0 * NaN is NaN",
    ),
    Entry(
        Code.MLS_PAGE_FAULT,
        "{what}",
        ("compare base, stride and filter with the tensor's extents: nothing else bounds an access",),
        "nothing in a matrix load's descriptor bounds its accesses",
    ),
    Entry(
        Code.MLS_OUTSIDE,
        "{what}",
        ("compare base, stride and filter with the tensor's extents: nothing else bounds an access",),
        "the page is mapped, so that hardware would not notice",
    ),
    Entry(
        Code.MLS_WRONG_ELEMENT,
        "{what}",
        ("compare the address, the stride, the filter and the place in LDS with what the braces say",),
        "what stands in braces says which elements are moved",
    ),
    Entry(
        Code.MLS_RACE,
        "{what}",
        ("wait with s_waitcnt for what a wave has outstanding, and then meet at s_barrier",),
        "a wait orders one wave; others are ordered by the barrier that follows it",
    ),
    Entry(
        Code.MLS_NOT_WAITED,
        "{what}",
        ("put an s_waitcnt in front of it",),
        "the registers of a load are undefined until it has been waited for",
    ),
    Entry(Code.MLS_HAZARD, "{what}", ("put an s_nop in between",), "docs/mls.md, section 7"),
    Entry(Code.MLS_UNINITIALISED, "{what}", ("write the register on every path that leads here",)),
    Entry(Code.MLS_BAD_ACCESS, "{what}", ("docs/mls.md gives the alignment and range of each address",)),
    Entry(
        Code.MLS_STORE,
        "{what}",
        ("compare the store's addresses and the lanes that EXEC leaves on with the output's extents",),
        "every element of an output is written exactly once",
    ),
    Entry(Code.MLS_HANG, "{what}", ("let all waves of a workgroup pass the same barriers",)),
    Entry(Code.MLS_STEP_LIMIT, "{what}", ("a loop may not end",)),
)
