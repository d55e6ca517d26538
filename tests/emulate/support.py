"""Compiles small CUDA kernels with NVRTC and runs their PTX in the emulator."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from cuda.bindings import nvrtc

from tilegen.emulate.memory import GlobalMemory
from tilegen.emulate.ptx import Module, Report, launch, parse

PRELUDE = """
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef short s16; typedef int s32; typedef long long s64;
__device__ __forceinline__ u32 shared(const void* p) { return (u32)__cvta_generic_to_shared(p); }
"""


@cache
def compile_ptx(source: str, *options: str) -> str:
    """PTX for sm_90a of PRELUDE + source. Raises RuntimeError with the compiler's log."""
    flags = [b"--gpu-architecture=sm_90a", b"-default-device", *(o.encode() for o in options)]
    _, program = nvrtc.nvrtcCreateProgram((PRELUDE + source).encode(), b"test.cu", 0, [], [])
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(error):
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytearray(size)
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode().rstrip("\0 ")


@cache
def module_of(source: str, *options: str) -> Module:
    """The parsed module of a CUDA source."""
    return parse(compile_ptx(source, *options))


def run(
    source: str,
    *arguments: np.ndarray | int | float | bytes,
    grid: tuple[int, int, int] | int = 1,
    block: tuple[int, int, int] | int = 32,
    shared: int = 0,
    entry: str = "k",
    memory: GlobalMemory | None = None,
    **options: Any,
) -> Report:
    """Launch kernel `entry`. Arrays are mapped and passed as pointers, ints as s32, floats as f32, bytes as such."""
    memory = memory or GlobalMemory()
    raw: list[bytes] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            raw.append(struct.pack("<Q", memory.alloc(argument)))
        elif isinstance(argument, bytes):
            raw.append(argument)
        else:
            raw.append(struct.pack("<i" if isinstance(argument, int) else "<f", argument))
    grid = (grid, 1, 1) if isinstance(grid, int) else grid
    block = (block, 1, 1) if isinstance(block, int) else block
    return launch(module_of(source), entry, grid, block, raw, memory, shared, **options)


@dataclass(frozen=True)
class Asm:
    """One inline-assembly line: `text` with %0 the result, %1… the operands; constraint letters of both."""

    text: str
    result: str
    operands: str


_C_TYPES = {"h": "u16", "r": "u32", "l": "u64", "f": "float", "d": "double"}
DTYPES = {"h": np.uint16, "r": np.uint32, "l": np.uint64, "f": np.float32, "d": np.float64}


def elementwise_source(lines: Sequence[Asm]) -> str:
    """A kernel that applies each line to elements of the arrays a0, a1, … (operand position) of the operand's type."""
    parameters = [
        f"const {_C_TYPES[letter]}* i{n}_{p}" for n, line in enumerate(lines) for p, letter in enumerate(line.operands)
    ] + [f"{_C_TYPES[line.result]}* o{n}" for n, line in enumerate(lines)]
    body = []
    for n, line in enumerate(lines):
        inputs = ", ".join(f'"{c}"(i{n}_{p}[t])' for p, c in enumerate(line.operands))
        text = line.text.replace("\n", "\\n")
        body.append(
            f'{{ {_C_TYPES[line.result]} d; asm volatile("{text}" : "={line.result}"(d) : {inputs}); o{n}[t] = d; }}'
        )
    return (
        f'extern "C" __global__ void k({", ".join(parameters)}) {{\n'
        "  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;\n  " + "\n  ".join(body) + "\n}\n"
    )


def elementwise(lines: Sequence[Asm], inputs: Sequence[Sequence[np.ndarray]], block: int = 128) -> list[np.ndarray]:
    """Results of each line on its input arrays (all of one length, a multiple of `block`)."""
    n = len(inputs[0][0])
    assert n % block == 0
    arrays = [
        np.ascontiguousarray(a).view(DTYPES[letter])
        for line, group in zip(lines, inputs, strict=True)
        for letter, a in zip(line.operands, group, strict=True)
    ]
    outputs = [np.zeros(n, DTYPES[line.result]) for line in lines]
    run(elementwise_source(lines), *arrays, *outputs, grid=n // block, block=block)
    return outputs
