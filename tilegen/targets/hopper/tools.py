"""Where the CUDA tools are: found without loading or running them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_NVRTC = "libnvrtc.so.13"  # the major version is that of the CUDA bindings, which load no other


def nvrtc_library() -> Path | None:
    """The NVRTC in use: what this process has loaded already, which the CUDA bindings then take, else that of the
    installed wheel. None where it must be loaded to be known."""
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            loaded = Path(line[line.find("/") :]) if _NVRTC in line else None
            if loaded and loaded.name.startswith(_NVRTC):
                return loaded
    return next((path.resolve() for path in _in_wheels(f"lib/{_NVRTC}")), None)


@cache
def nvdisasm() -> Path | None:
    """The disassembler: of the installed wheel, else on PATH, else None."""
    if found := next(_in_wheels("bin/nvdisasm"), None):
        return found
    from shutil import which  # seldom

    on_path = which("nvdisasm")
    return Path(on_path) if on_path else None


def _in_wheels(file: str) -> Iterator[Path]:
    """A file of NVIDIA's wheels, of the newest CUDA first."""
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(folder).glob(f"cu*/{file}"), reverse=True)
