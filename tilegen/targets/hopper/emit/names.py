"""C++ identifiers: names of the plan stay as they are unless C++, CUDA or another name has taken them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

_CXX = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default
delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
threadIdx blockIdx blockDim gridDim warpSize float1 float2 float3 float4 int2 int3 int4 uint2 uint3 uint4 dim3
min max abs fmaf fmaxf fminf fabsf floorf tanhf erff powf TensorMap shared_memory j0 j1 jn y0 y1 yn exp log pow sqrt
sin cos tan clock printf main INFINITY NAN NULL
acos acosh asin asinh atan atan2 atanh assert cbrt ceil copysign cosh cospi erf erfc erfcx erfinv exp10 exp2 expm1 fabs
fdim floor fma fmax fmin fmod free frexp hypot ilogb isfinite isinf isnan ldexp lgamma llrint llround log10 log1p log2
logb lrint lround malloc memcpy memset modf nearbyint nextafter norm norm3d norm4d normcdf normcdfinv remainder remquo
rcbrt rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalbln scalbn signbit sincos sincospi sinh sinpi tanh tgamma trap
trunc umax umin umul24 mul24 mulhi saturate clamp cyl_bessel_i0 cyl_bessel_i1"""
RESERVED = frozenset(_CXX.split())


class Names:
    """One scope inside `outer`. The first to ask for a spelling gets it, later ones get a number after it.

    A name of the outermost scope is never hidden by an inner one, whichever came first.
    """

    def __init__(self, outer: Names | None = None, taken: Iterable[str] = ()) -> None:
        self._outer = outer
        self._root: Names = outer._root if outer else self
        self._taken = set(taken)
        self._inner: set[str] = set()  # of the root: every name of an inner scope
        self._given: dict[Hashable, str] = {}

    def give(self, key: Hashable, wish: str) -> str:
        """The name of `key`, made from `wish` at the first call for it."""
        if key in self:
            return self[key]
        base = re.sub(r"\W", "_", wish, flags=re.ASCII)
        if not base or base[0].isdigit() or base[0] == "_":
            base = f"n{base}"
        if base in RESERVED:
            base += "_"
        name, number = base, 1
        while self._used(name):
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        if self is not self._root:
            self._root._inner.add(name)
        self._given[key] = name
        return name

    def _used(self, name: str) -> bool:
        if self is self._root and name in self._inner:
            return True
        return name in self._taken or (self._outer is not None and name in self._outer._visible())

    def _visible(self) -> set[str]:
        return self._taken | (self._outer._visible() if self._outer else set())

    def __getitem__(self, key: Hashable) -> str:
        """The name given to `key` before. Raises KeyError."""
        scope: Names | None = self
        while scope is not None:
            if key in scope._given:
                return scope._given[key]
            scope = scope._outer
        raise KeyError(key)

    def __contains__(self, key: Hashable) -> bool:
        try:
            self[key]
        except KeyError:
            return False
        return True


def kernel_name(name: str) -> str:
    """What a kernel is called in C++, PTX and the cubin: its own name, unless C++ has taken that."""
    return Names().give("kernel", name)


def deal_name(name: str) -> str:
    """What the kernel is called that deals out the items of kernel `name`."""
    return f"{kernel_name(name)}_deal"
