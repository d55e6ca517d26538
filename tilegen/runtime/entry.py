"""What the cache keeps of a compilation, as bytes and back."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.nvrtc import Compiled, Usage

if TYPE_CHECKING:
    from tilegen.ir.tile import TileProgram

_LEVEL = 1  # of compression: a fifth of the size, and reading takes no longer


@dataclass(frozen=True)
class Entry:
    """A kernel and its title. The program is read only when it is asked for: files are written without it."""

    title: str
    built: Built
    program_text: str

    def program(self) -> TileProgram:
        from tilegen.ir.tile_json import program_from_json

        return program_from_json(json.loads(self.program_text))


def encode(title: str, program: TileProgram, built: Built) -> bytes:
    """A compilation without faults."""
    from tilegen.ir.tile_json import program_to_json

    assert not built.diagnostics, "what has faults is not kept"
    compiled = built.compiled
    value = {
        "title": title,
        "program": json.dumps(program_to_json(program)),
        "plan": plan_to_json(built.plan),
        "cuda": built.cuda,
        "ptx": compiled.ptx,
        "cubin": base64.b64encode(compiled.cubin).decode(),
        "log": compiled.log,
        "nvrtc_version": compiled.nvrtc_version,
        "seconds": compiled.seconds,
        "usage": [asdict(usage) for usage in compiled.usage],
        "sass": built.sass,
    }
    return zlib.compress(json.dumps(value).encode(), _LEVEL)


def decode(body: bytes) -> Entry | None:
    """What `encode` was given, or None for anything that it did not write."""
    try:
        value = cast(dict[str, Any], json.loads(zlib.decompress(body)))
        major, minor = value["nvrtc_version"]
        compiled = Compiled(
            ptx=value["ptx"],
            cubin=base64.b64decode(value["cubin"]),
            log=value["log"],
            nvrtc_version=(major, minor),
            seconds=value["seconds"],
            usage=tuple(Usage(**usage) for usage in value["usage"]),
        )
        built = Built(plan_from_json(value["plan"]), value["cuda"], compiled, value["sass"], ())
        return Entry(value["title"], built, value["program"])
    except (zlib.error, binascii.Error, ValueError, KeyError, TypeError, TilegenError):
        return None
