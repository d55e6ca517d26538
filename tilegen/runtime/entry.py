"""What the cache keeps of a compilation, as bytes and back."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.plan import Plan
from tilegen.ir.plan_json import plan_from_json, plan_to_json
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.nvrtc import Compiled, Usage

if TYPE_CHECKING:
    from tilegen.ir.tile import TileProgram

_LEVEL = 1  # of compression: a fifth of the size, and reading takes no longer
_NOT_OURS = (zlib.error, binascii.Error, ValueError, LookupError, TypeError, TilegenError)


@dataclass(frozen=True)
class Entry:
    """A kernel and its title; `built`: of the only plan, None where there are several, which have entries of their own.
    The program is read only when it is asked for: files are written without it."""

    title: str
    plans: tuple[Plan, ...]
    built: Built | None
    program_text: str

    def program(self) -> TileProgram:
        from tilegen.ir.tile_json import program_from_json

        return program_from_json(json.loads(self.program_text))


def encode(title: str, program: TileProgram, plans: Sequence[Plan], built: Built | None) -> bytes:
    """A compilation without faults. built: of the only plan."""
    from tilegen.ir.tile_json import program_to_json

    return _packed({
        "title": title,
        "program": json.dumps(program_to_json(program)),
        "plans": [plan_to_json(plan, None) for plan in plans],
        "built": _unmade(built) if built is not None else None,
    })  # fmt: skip


def decode(body: bytes) -> Entry | None:
    """What `encode` was given, or None for anything that it did not write."""
    with suppress(*_NOT_OURS):
        value = _unpacked(body)
        plans = tuple(map(plan_from_json, value["plans"]))
        built = None if value["built"] is None else _made(plans[0], value["built"])
        return Entry(value["title"], plans, built, value["program"])
    return None


def encode_built(built: Built) -> bytes:
    """One of several variants, without faults; its plan is in the kernel's own entry."""
    return _packed(_unmade(built))


def decode_built(body: bytes, plan: Plan) -> Built | None:
    """What `encode_built` was given, of this plan, or None for anything that it did not write."""
    with suppress(*_NOT_OURS):
        return _made(plan, _unpacked(body))
    return None


def _packed(value: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(value).encode(), _LEVEL)


def _unpacked(body: bytes) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(zlib.decompress(body)))


def _unmade(built: Built) -> dict[str, Any]:
    assert not built.diagnostics, "what has faults is not kept"
    compiled = built.compiled
    return {
        "notes": built.plan.notes,  # what its machine code added among them
        "cuda": built.cuda,
        "ptx": compiled.ptx,
        "cubin": base64.b64encode(compiled.cubin).decode(),
        "log": compiled.log,
        "nvrtc_version": compiled.nvrtc_version,
        "seconds": compiled.seconds,
        "usage": [asdict(usage) for usage in compiled.usage],
        "sass": built.sass,
    }


def _made(plan: Plan, value: dict[str, Any]) -> Built:
    major, minor = value["nvrtc_version"]
    compiled = Compiled(
        ptx=value["ptx"],
        cubin=base64.b64decode(value["cubin"]),
        log=value["log"],
        nvrtc_version=(major, minor),
        seconds=value["seconds"],
        usage=tuple(Usage(**usage) for usage in value["usage"]),
    )
    return Built(replace(plan, notes=tuple(value["notes"])), value["cuda"], compiled, value["sass"], ())
