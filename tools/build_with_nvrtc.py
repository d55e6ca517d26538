"""Checks specs, machine code included, with a chosen NVRTC.

    python tools/build_with_nvrtc.py [--libraries DIR] SPEC...

DIR holds libnvrtc.so.13 and its libnvrtc-builtins, as `pip install --target DIR nvidia-cuda-nvrtc==…` lays them
out under nvidia/cu13/lib. It is loaded before tilegen looks for a library, which then takes it; without DIR
it finds the installed wheel. Each spec is checked with its default parameters and with
those in VARIANTS. Exits 1 if any check fails.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path

# Parameters beside the defaults that lead to other schedules or other code.
VARIANTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "fa3_fwd": (
        ("D=128", "causal=true"),
        ("D=64",),
        ("D=64", "causal=true"),
        ("D=256",),
        ("D=256", "causal=true"),
        ("T=f16",),
    ),
    "fa3_varlen": (("D=128", "causal=true"), ("D=64", "causal=true"), ("D=256", "causal=true")),
    **dict.fromkeys(
        ("attention_alibi", "attention_sink", "attention_softcap"),
        (("causal=false",), ("D=64",), ("D=64", "causal=false")),
    ),
    "attention_bias": (("causal=true",), ("D=64",), ("D=64", "causal=true"), ("W=f32",), ("D=64", "W=f32")),
}


def preload(libraries: Path) -> None:
    """Load the NVRTC of this folder into the process."""
    found = libraries / "libnvrtc.so.13"
    if not found.exists():
        sys.exit(f"{libraries} holds no {found.name}")
    ctypes.CDLL(str(found), mode=ctypes.RTLD_GLOBAL)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check specs with a chosen NVRTC.")
    parser.add_argument("--libraries", type=Path, help="folder that holds libnvrtc.so.13")
    parser.add_argument("specs", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.libraries:
        preload(options.libraries)

    from tilegen.cli.main import main as tilegen
    from tilegen.targets.hopper.nvrtc_library import nvrtc_version

    print("NVRTC", ".".join(str(part) for part in nvrtc_version()))
    failed = 0
    for spec in options.specs:
        for variant in ((), *VARIANTS.get(spec.stem, ())):
            command = ["check", str(spec), *(word for pair in variant for word in ("-D", pair))]
            status = tilegen.main(command, prog_name="tilegen", standalone_mode=False)
            if status:
                failed += 1
                print("failed: tilegen", *command, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
