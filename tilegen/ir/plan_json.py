"""The plan as JSON and back, exactly."""

from __future__ import annotations

import json
from typing import cast

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import dtypes, plan, uniform
from tilegen.ir.codec import Codec, CodecError, Json, classes_of
from tilegen.ir.plan import Plan
from tilegen.syntax import span

VERSION = 1


def plan_to_json(value: Plan, indent: int | None = 1) -> str:
    """The plan as JSON text, with the version of the format. indent: None for one line, which takes less time."""
    whole = {"format": "tilegen plan", "version": VERSION, "plan": _CODEC.encode(value)}
    return json.dumps(whole, indent=indent) + "\n"


def plan_from_json(text: str) -> Plan:
    """The plan that `plan_to_json` wrote. Raises TilegenError for any other text.

    Only the form is checked; `plan_verify.verify` says whether the plan is well formed.
    """
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        fail(Code.PLAN_JSON, None, reason=f"it is not JSON ({error})")
    if not isinstance(value, dict) or value.get("format") != "tilegen plan":
        fail(Code.PLAN_JSON, None, reason="it does not say that it is a tilegen plan")
    if value.get("version") != VERSION:
        fail(
            Code.PLAN_JSON,
            None,
            reason="it is of another version",
            got=f"version {value.get('version')}",
            wanted=f"version {VERSION}",
        )
    try:
        return cast(Plan, _CODEC.decode(Plan, cast(Json, value.get("plan"))))
    except (CodecError, RecursionError) as error:
        fail(Code.PLAN_JSON, None, reason=str(error))


_CODEC = Codec(classes_of(plan, uniform, dtypes, span))
