"""tilegen compiles tile specs to TMA kernels for Hopper, checks their movement, and runs them on a GPU or the CPU.

`compile` loads the compiler when it is first called, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from tilegen.diagnostics.core import TilegenError
from tilegen.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilegen.runtime.kernel import Kernel
    from tilegen.syntax.span import Source

__version__ = VERSION
__all__ = ["TilegenError", "__version__", "compile"]


def compile(
    spec: str | PathLike[str],
    /,
    *,
    target: str = "hopper",
    tuned: bool | Mapping[str, int | list[int]] = False,
    **params: Any,
) -> Kernel:
    """A kernel from a `.tile` file, or from the text of one (a string with a brace in it).

    Call it with arrays by name: `kernel(Q=q, K=k, V=v)`. One output comes back as itself, several as a named tuple.
    What was compiled before comes from the cache on disk, unless the variable TILEGEN_CACHE is `off`.
    `params` are the kernel's parameters, such as `D=128, causal=True, T="f16"`; numbers and element types may be those
    of torch and numpy too (`T=torch.float16`). Raises TilegenError with every
    fault of the spec, and where the machine code does not hold what was planned. A kernel whose schedule depends on
    sizes has several variants, each compiled when a launch first takes it, or by `kernel.build()`; then that raises.
    `target`: "hopper", or "sm_80": without TMA and wgmma, for GPUs from compute capability 8.0 on.
    `tuned`: True to take, at launches of sizes for which `tilegen tune` kept a schedule on this GPU, that one in place
    of the spec's own; a mapping, such as `{"Sq": 8192, "Sk": 8192}`, for what is kept for the class of these alone.
    """
    from tilegen.runtime.compilation import compile_source
    from tilegen.runtime.parameters import plain

    source = _source(spec)
    given = {name: plain(value) for name, value in params.items()}
    if tuned is not False:
        if target != "hopper":
            from tilegen.diagnostics.catalogue import Code, fail

            fail(Code.TUNED_TARGET, None, target=target)
        from tilegen.tune.store import applied

        source, _ = applied(source, given, {} if tuned is True else tuned)
    return compile_source(source, given, target).kernel()


def _source(spec: object) -> Source:
    """A file's text, or the text that is given. Raises TilegenError."""
    from pathlib import Path

    from tilegen.diagnostics.catalogue import Code, fail
    from tilegen.syntax.reading import read_source
    from tilegen.syntax.span import Source

    if isinstance(spec, str) and "{" in spec:
        return Source("<text>", spec)
    if isinstance(spec, str | PathLike):
        return read_source(Path(spec))
    fail(Code.SPEC_TYPE, None, got=f"an object of type {type(spec).__name__}", wanted="a str or a path")
