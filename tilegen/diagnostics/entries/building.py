"""What a build meets: tensor maps, compilers, the gates in machine code (tilegen.targets)."""

from __future__ import annotations

from tilegen.diagnostics.codes import Code
from tilegen.diagnostics.entry import REPORT, Entry

ENTRIES = (
    Entry(
        Code.TMA_RANK,
        "{tensor}: a TMA tensor map has one to five dimensions",
        ("index {tensor} by fewer axes in one tile, or choose `via {tensor} rows`",),
        "cuTensorMapEncodeTiled: tensorRank",
    ),
    Entry(
        Code.TMA_ADDRESS,
        "{tensor} does not start on a {unit}-byte boundary: it is {past} bytes past one, and TMA cannot reach there",
        ("pass an array that is not a slice starting inside a row", "use an array of its own in place of {tensor}"),
        "cuTensorMapEncodeTiled: globalAddress is a multiple of 16, and of 32 where 32 bytes are interleaved",
    ),
    Entry(
        Code.TMA_EXTENT,
        "{tensor}: the extent of {axis} is out of TMA's range",
        ("pass an array whose {axis} has between 1 and 2**31 positions",),
        "cuTensorMapEncodeTiled: globalDim",
    ),
    Entry(
        Code.TMA_STRIDE_ALIGNMENT,
        "{tensor}: neighbours along {axis} do not lie a multiple of {unit} bytes apart, and TMA cannot step so",
        (
            "let threads copy the tile where TMA cannot: `via TILE auto` in the schedule",
            "pad the rows of {tensor} so that each is a multiple of {unit} bytes long",
            "under `tilegen run`, choose sizes to fit: multiples of 8 for 16-bit numbers, of 4 for f32, of 16 for bool",
        ),
        "cuTensorMapEncodeTiled: globalStrides are multiples of 16, and of 32 where 32 bytes are interleaved",
    ),
    Entry(
        Code.TMA_STORE_ROWS,
        "{tensor}: rows along {axis} do not end with whole 16 bytes, and a TMA store would write past them",
        (
            "write `via {tensor} rows`, without `stages {tensor}`: rows are stored from registers, and end anywhere",
            "choose an extent of {axis} that is a multiple of {unit}",
        ),
        "no manual says so, but on an H200 a TMA store writes the last 16 bytes of a row whole, past the tensor's end",
    ),
    Entry(
        Code.TMA_STRIDE_RANGE,
        "{tensor}: the stride of {axis} is out of TMA's range",
        (
            "copy {tensor} into a contiguous array",
            "if {tensor} is an output, write `via {tensor} rows` in the schedule: rows may lie anywhere",
        ),
        "cuTensorMapEncodeTiled: globalStrides are below 2**40",
    ),
    Entry(
        Code.TMA_BOX,
        "{tensor}: one TMA box takes at most 256 positions of {axis}",
        ("block {axis} by at most 256, or a multiple of a number that is",),
        "cuTensorMapEncodeTiled: boxDim",
    ),
    Entry(
        Code.TMA_BOX_BYTES,
        "{tensor}: the inner side of a TMA box, along {axis}, is not a multiple of 16 bytes",
        ("give {axis} an extent that fills whole 16-byte chunks",),
        "cuTensorMapEncodeTiled: boxDim[0] times the element size is a multiple of 16",
    ),
    Entry(
        Code.TMA_BOX_ROOM,
        "{tensor}: one TMA box is larger than the shared memory that it goes to",
        ("use smaller blocks for the axes of {tensor}",),
        "a CTA on sm_90 has at most 232448 bytes of shared memory",
    ),
    Entry(
        Code.TMA_INTERLEAVE,
        "{tensor}: interleaving by {bytes} bytes does not go with the rest of the tensor map",
        ("leave the interleaving out: tilegen's own tensor maps have none",),
        "cuTensorMapEncodeTiled: interleaved tensors have three to five dimensions, and 32 bytes ask for a swizzle of "
        "32",
    ),
    Entry(
        Code.TMA_ELEMENT_STRIDE,
        "{tensor}: TMA takes every first to eighth element of {axis}, no fewer",
        ("index {tensor} with a coefficient of at most 8 along {axis}",),
        "cuTensorMapEncodeTiled: elementStrides",
    ),
    Entry(
        Code.TMA_SWIZZLE,
        "{tensor}: the inner side of the box, along {axis}, is wider than the swizzle",
        ("split {axis} into parts as wide as the swizzle",),
        "cuTensorMapEncodeTiled: the inner box side is at most the swizzle span",
    ),
    Entry(
        Code.TMA_FILL,
        "{tensor}: only floating types can be filled with NaN outside the tensor",
        ("fill {tensor} with zero",),
        "cuTensorMapEncodeTiled: oobFill",
    ),
    Entry(
        Code.NVRTC_MISSING,
        "the CUDA compiler library NVRTC cannot be loaded: {reason}",
        ("pip install nvidia-cuda-nvrtc",),
    ),
    Entry(
        Code.NVRTC_FAILED,
        "the CUDA compiler library NVRTC gave up: {reason}",
        ("install a newer nvidia-cuda-nvrtc (13.0 or later)",),
    ),
    Entry(
        Code.CUDA_COMPILE,
        "the CUDA text made from this does not compile: {reason}",
        (REPORT, "try another schedule"),
    ),
    Entry(
        Code.MMA_SERIALISED,
        "the compiler runs the products one after another here instead of overlapping them, due to {reason}",
        ("use smaller blocks or more consumers", "give the consumers more registers", "drop the directive named here"),
        "no product may be serialised: it would not run as planned",
    ),
    Entry(
        Code.WAIT_INJECTED,
        "the compiler put a {what} of its own here: {reason}",
        ("use smaller blocks or more consumers", "drop the directive named here"),
        "every wait is one of the plan's",
    ),
    Entry(
        Code.SET_REGISTERS_IGNORED,
        "the compiler ignores the register split between producer and consumers: {reason}",
        ("drop `registers` from the schedule",),
        "setmaxnreg needs a known register count at entry",
    ),
    Entry(
        Code.DISASSEMBLER_MISSING,
        "the disassembler nvdisasm is not installed",
        ("pip install nvidia-cuda-nvdisasm",),
    ),
    Entry(
        Code.DISASSEMBLER_FAILED,
        "nvdisasm cannot read the machine code: {reason}",
        ("install an nvidia-cuda-nvdisasm at least as new as nvidia-cuda-nvrtc",),
    ),
    Entry(
        Code.GATE_COUNT,
        "{loop}: the machine code does not hold the {what} that the plan has",
        ("drop the directive named here, or choose smaller blocks",),
        "SASS gate: products, waits and fences of each step are those of the plan",
    ),
    Entry(
        Code.GATE_LOCAL_MEMORY,
        "{loop}: the registers do not suffice, values go through memory in every step",
        (
            "use smaller blocks or more consumers",
            "give the consumers more `registers` (hopper), or warps 16 rows: `warp_rows 16` (sm_80)",
        ),
        "SASS gate: no local memory in a consumer's streamed loop",
    ),
    Entry(
        Code.GATE_OVERHEAD,
        "{loop}: the machine code spends more {what} on every step than the plan accounts for",
        ("choose smaller blocks, or more consumers", "state conditions on positions in whole numbers, as a `domain`"),
        "SASS gate: at most 4 moves to uniform registers and 8 register moves a step; a note, since the code is right",
    ),
    Entry(
        Code.GATE_ORDER,
        "{loop}: the compiler changed the order of products and waits",
        ("drop the directive that orders them",),
        "SASS gate: groups of products and waits follow each other as planned",
    ),
    Entry(
        Code.GATE_UNDER,
        "{loop}: {statement} does not run under {product}: too few {opcode} stand before the wait for it",
        ("put {product} into a `batch` with the step's other product, in place of `issue` and `under`",),
        "SASS gate: what the plan puts under a product stands between its issue and its wait",
    ),
    Entry(
        Code.GATE_LOOP_UNKNOWN,
        "the machine code has a loop with products at {address}, and the plan has none",
        (REPORT,),
        "SASS gate: loops with products are those of the plan",
    ),
    Entry(
        Code.GATE_LOOP_MISSING,
        "{loop}: the machine code has no such loop",
        (REPORT,),
        "SASS gate: loops with products are those of the plan",
    ),
    Entry(
        Code.GATE_EVIDENCE,
        "the machine code has too few {opcode} instructions",
        (REPORT,),
        "SASS gate: the plan's use of the hardware is in the machine code",
    ),
    Entry(
        Code.GATE_REGISTERS,
        "the machine code splits the registers otherwise than the plan",
        (REPORT,),
        "SASS gate: setmaxnreg as planned",
    ),
)
