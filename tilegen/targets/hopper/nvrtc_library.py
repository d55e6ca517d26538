"""NVRTC's own functions, by ctypes: the CUDA bindings take longer to load than a kernel from the cache.

Compiling leaves Python to other threads. The other calls are short, and do not: to get Python back takes longer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.targets.hopper.tools import nvrtc_library

_SUCCESS, _ERROR_COMPILATION = 0, 6


@dataclass(frozen=True)
class Outcome:
    """Of a compilation. outputs: what was wanted, empty where the text has errors, which are in the log."""

    ok: bool
    log: bytes
    outputs: dict[str, bytes]


@cache
def _library() -> ctypes.PyDLL:
    """The library in use. Raises OSError or RuntimeError where there is none that can be loaded."""
    found = nvrtc_library()
    if found is None:  # in no wheel: wherever the CUDA bindings would find it
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.PyDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
    for builtins in found.parent.glob("libnvrtc-builtins.so.*"):  # 13.0 looks for them where the loader does, not here
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.PyDLL(str(found))


def library() -> ctypes.PyDLL:
    """The library in use. Raises TilegenError where there is none."""
    try:
        return _library()
    except (ImportError, OSError, RuntimeError) as e:
        fail(Code.NVRTC_MISSING, None, reason=str(e))


@cache
def _unlocked() -> ctypes.CDLL:
    return ctypes.CDLL(library()._name)


def nvrtc_version() -> tuple[int, int]:
    """(major, minor). Raises TilegenError where there is no NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    check(library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def check(result: int) -> None:
    """Raises TilegenError, in NVRTC's words, for any result of a call but success."""
    if result != _SUCCESS:
        words = library().nvrtcGetErrorString
        words.restype = ctypes.c_char_p
        fail(Code.NVRTC_FAILED, None, reason=(words(result) or b"").decode())


def compile_program(
    source: bytes, file: bytes, options: list[bytes], wanted: tuple[str, ...], begun: Callable[[], None]
) -> Outcome:
    """Compile one text. `wanted`: of "PTX" and "CUBIN". begun: called when from here on Python is left to others.

    Raises TilegenError for anything but errors of the text.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, file, 0, None, None))
    try:
        begun()
        result = _unlocked().nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if result not in (_SUCCESS, _ERROR_COMPILATION):
            check(result)
        outputs = {w: _fetch(program, w) if result == _SUCCESS else b"" for w in wanted}
        return Outcome(result == _SUCCESS, _fetch(program, "ProgramLog"), outputs)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(program: ctypes.c_void_p, what: str) -> bytes:
    nvrtc, size = library(), ctypes.c_size_t()
    check(getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    check(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw[: size.value]
