"""Kernels that load boxes of a tensor by TMA and hand out what shared memory then holds, word by word."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random

import numpy as np

from tests.runtime.kernels import at, kernel
from tilegen.ir.plan import Descriptor, MapDim, MapParam, PointerParam, SizeParam, StrideParam
from tilegen.ir.uniform import Sym
from tilegen.runtime.kernel import Kernel
from tilegen.targets.hopper.box import Box
from tilegen.targets.hopper.tensor_map import TensorMap

SWIZZLES = (0, 32, 64, 128)
UNTOUCHED = -1.0  # what shared memory holds before the load

_CUDA = """
typedef unsigned u32;
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern __shared__ __align__(1024) float tile[];
// CTA n loads the box at the n-th coordinates and writes shared memory to its row of the result.
extern "C" __global__ void __launch_bounds__(128, 1) dump(
    const __grid_constant__ TensorMap x, const float* at, long long at0, float* y, long long y0, int words) {
  u32 to = (u32)__cvta_generic_to_shared(tile), bar = to + 4 * words;
  for (int i = threadIdx.x; i < words; i += 128) tile[i] = -1;
  if (to % 1024) asm volatile("trap;");
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    const float* c = at + blockIdx.x * at0;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(BYTES) : "memory");
    asm volatile("cp.async.bulk.tensor.RANKd.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {OPERANDS}], [%2];" :: "r"(to), "l"(&x), "r"(bar), COORDINATES : "memory");
  }
  asm volatile("{ .reg .pred q; TRY: mbarrier.try_wait.parity.shared::cta.b64 q, [%0], 0; @!q bra TRY; }"
               :: "r"(bar) : "memory");
  for (int i = threadIdx.x; i < words; i += 128) y[blockIdx.x * y0 + i] = tile[i];
}
"""


def words_of(m: TensorMap) -> int:
    """Words that a dump has: those of the box, in whole swizzle patterns."""
    return -(-m.room // 1024) * 256


@cache
def dump(box: tuple[int, ...], swizzle: int) -> Kernel:
    """Y[COUNT, WORDS] = shared memory after loading the box of X at AT[COUNT, RANK], innermost first."""
    rank = len(box)
    operands = ", ".join(f"%{3 + n}" for n in range(rank))
    cuda = (
        _CUDA.replace("COORDINATES", ", ".join(f'"r"((int)c[{n}])' for n in range(rank)))
        .replace("OPERANDS", operands)
        .replace("RANK", str(rank))
        .replace("BYTES", str(int(np.prod(box)) * 4))
    )
    m = TensorMap("f32", 16, (1,) * rank, (16,) * (rank - 1), box, swizzle=swizzle)
    descriptor = Descriptor(
        "X", "X", tuple(MapDim(rank - 1 - n, side) for n, side in enumerate(box)), swizzle, "zero", False, at(5)
    )
    params = (
        MapParam("X"), PointerParam("AT"), StrideParam("AT", 0), PointerParam("Y"), StrideParam("Y", 0),
        SizeParam("WORDS"),
    )  # fmt: skip
    tensors = {
        "X": (tuple(f"N{n}" for n in range(rank)), False),
        "AT": (("COUNT", "RANK"), False),
        "Y": (("COUNT", "WORDS"), True),
    }
    shared = 4 * words_of(m) + 8
    return kernel("dump", cuda, tensors, params, Sym("COUNT"), (descriptor,), shared_bytes=shared)


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers from 1 on, as 0 is what is filled: a tensor of this shape in rows of whole 16 bytes, `[..., : shape[-1]]`
    of what this returns, and what no box may bring behind its rows."""
    whole = (*shape[:-1], _pitch(shape))
    return np.arange(1, np.prod(whole) + 1, dtype=np.float32).reshape(whole)


def _pitch(shape: tuple[int, ...]) -> int:
    return -(-shape[-1] // 4) * 4


def random_case(rng: Random, rank: int, swizzle: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of a tensor, outermost first; a box, innermost first): the inner side as wide as the swizzle, or less."""
    widest = swizzle // 4 or 32
    inner = rng.choice((widest, widest, 4 * rng.randint(1, widest // 4)))
    box = (inner, *(rng.randint(1, 9 if rank < 4 else 3) for _ in range(rank - 1)))
    inner_extent = rng.randint(1, 64)
    return (*(rng.randint(1, 12) for _ in range(rank - 1)), inner_extent), box


def every_side(rng: Random, shape: tuple[int, ...], box: tuple[int, ...]) -> np.ndarray:
    """Coordinates, innermost first, of boxes that begin in front of the tensor, inside of it, and end behind it, along
    each dimension by itself; at random which of the many. Along the innermost they begin at multiples of 16 bytes:
    TMA refuses others."""
    choices = []
    for dim, (extent, side) in enumerate(zip(reversed(shape), box, strict=True)):
        unit = 1 if dim else 4  # elements
        inside = max(extent - side, 0) // unit
        ranges = (-(side // unit), -1), (0, inside), (inside + 1, extent // unit + 1)
        choices.append([unit * rng.randint(*ends) for ends in ranges])
    return np.array(list(product(*choices)), np.float32)


def foretold(m: TensorMap, coordinates: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """What the geometry says a dump holds, a row a box."""
    out = np.full((len(coordinates), words_of(m)), UNTOUCHED, np.float32)
    values = tensor.reshape(-1)
    for row, at_ in zip(out, coordinates, strict=True):
        box = Box(m, tuple(int(c) for c in at_))
        for index in np.ndindex(*box.shape):
            here = box.holds(index)
            row[box.shared_byte(index, 0) // 4] = values[box.global_byte(index) // 4] if here else 0.0
    return out


def map_over(tensor_shape: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> TensorMap:
    """The tensor map of such a box over a tensor as `numbered` lays it."""
    whole = (*tensor_shape[:-1], _pitch(tensor_shape))
    strides = [4 * int(np.prod(whole[n:])) for n in range(len(whole) - 1, 0, -1)]
    return TensorMap("f32", 16, tuple(reversed(tensor_shape)), tuple(strides), box, swizzle=swizzle)
