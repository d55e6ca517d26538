"""What the emulator finds in PTX, and in a launch of it (tilegen.emulate)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import Entry

ENTRIES = (
    Entry(
        Code.PTX_SYNTAX,
        "PTX line {line}: {what}",
        ("give the emulator PTX that NVRTC wrote for sm_90a",),
    ),
    Entry(
        Code.PTX_UNKNOWN_INSTRUCTION,
        "PTX line {line}: the emulator does not know {instruction}: {why}",
        ("run the kernel on a GPU, or use an instruction that docs/emulator.md lists",),
    ),
    Entry(
        Code.EMULATED_LAUNCH,
        "the emulated launch is not possible: {what}",
        ("compare the launch with the kernel's parameters and launch bounds",),
    ),
    Entry(
        Code.EMULATED_ADDRESS,
        "emulated global memory: {what}",
        ("map the array with GlobalMemory.alloc first",),
    ),
    Entry(
        Code.EMULATED_FAULT,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("on a GPU this is an error, or undefined: look at the values that reach this line",),
    ),
    Entry(
        Code.EMULATED_RACE,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("look for the wait, the arrival or the barrier that is to stand between the two",),
        "accesses to the same bytes of shared memory happen in any order unless an mbarrier, a named barrier or a wait "
        "for an engine's group orders them",
    ),
    Entry(
        Code.EMULATED_PROXY,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("put fence.proxy.async between the write and what orders it before the access",),
        "TMA and the tensor cores see what threads wrote to shared memory once a fence.proxy.async lies between",
    ),
    Entry(
        Code.EMULATED_PHASE,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the bytes that the mbarrier expects with those of all boxes that signal it",),
        "a phase ends when all arrivals have come and no expected byte is outstanding; what lands later counts for the "
        "next",
    ),
    Entry(
        Code.EMULATED_ARRIVAL,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the number of arrivals that the mbarrier begins with with those of all threads",),
        "an arrival counts in the phase that runs when it comes: who arrives in the next one has to wait for this one",
    ),
    Entry(
        Code.EMULATED_BARRIER,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the number of the barrier with those of all threads: who meets at one meets at no other",),
        "whoever comes to a named barrier is counted: a second meeting has to follow the first",
    ),
    Entry(
        Code.EMULATED_TILE,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        (
            "compare the coordinates of the loads with the tile's declaration",
            "compare the product's descriptors with the tile's layout",
            "compare what decides how many steps a sum has with its extent",
        ),
        "a box anywhere inside a tensor is right to TMA: which one is meant, the spec declares",
    ),
    Entry(
        Code.EMULATED_OUTPUT,
        "nothing has written {output}[{index}] when the launch ends ({count} elements of {output} are left out)",
        ("compare the coordinates and the bounds of the stores with the output's extents",),
    ),
    Entry(
        Code.EMULATED_UNWRITTEN,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("compare the bytes of the box or the copies with what is read",),
    ),
    Entry(
        Code.EMULATED_IN_FLIGHT,
        "an instruction {what} (executing {instruction}, PTX line {line}, {where})",
        ("wait for the product's group with wgmma.wait_group first",),
        "a product's accumulator, and its first factor in registers, are the tensor cores' until its group is awaited",
    ),
    Entry(
        Code.EMULATED_REGISTER_FENCE,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("put wgmma.fence behind the last instruction that touches them",),
        "wgmma.fence stands before the first product, and between other uses of a product's registers and the product",
    ),
    Entry(
        Code.EMULATED_UNAWAITED,
        "{what} (executing {instruction}, PTX line {line}, {where})",
        ("wait for the stores with cp.async.bulk.wait_group before the thread ends",),
        "shared memory is given away when a CTA ends, and a store reads it in its own time",
    ),
    Entry(
        Code.EMULATED_HANG,
        "CTA {cta} hangs: no thread can run.\n  {waits}",
        ("look for the arrival, the bytes or the registers that the lines above miss",),
    ),
    Entry(
        Code.EMULATED_STEP_LIMIT,
        "CTA {cta} is not done after {limit} steps; it is now at {instruction}, PTX line {line}",
        ("a loop may not end, or polls for what never comes", "raise step_limit for a kernel that is only long"),
    ),
)
