from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from importlib import import_module
from pkgutil import iter_modules

import pytest

from tests.plan.plans import at, attention, gemm
from tilegen.diagnostics.core import TilegenError
from tilegen.ir import plan as ir
from tilegen.ir.codec import Codec, CodecError, classes_of
from tilegen.ir.dtypes import DType
from tilegen.ir.plan_json import plan_from_json, plan_to_json


@pytest.mark.parametrize("plan", [gemm(), attention()], ids=lambda p: p.name)
def test_a_plan_comes_back_the_same(plan: ir.Plan) -> None:
    text = plan_to_json(plan)
    again = plan_from_json(text)
    assert again == plan
    assert plan_to_json(again) == text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_the_package_of_the_plan_exports_every_class_of_its_modules() -> None:
    """Or JSON would not know it."""
    modules = [import_module(f"{ir.__name__}.{module.name}") for module in iter_modules(ir.__path__)]
    found = classes_of(*modules)
    assert len(found) > 80
    assert set(classes_of(ir)) == set(found)


def test_non_finite_floats_come_back() -> None:
    plan = gemm()
    role = replace(
        plan.roles[1],
        body=(
            ir.Init("c", -math.inf, at(1)),
            ir.Map("c", ir.Literal(math.nan), at(1)),
            ir.Map("c", ir.Literal(-0.0), at(1)),
        ),
    )
    body = plan_from_json(plan_to_json(replace(plan, roles=(role,)))).roles[0].body
    assert isinstance(body[0], ir.Init)
    assert body[0].value == -math.inf
    assert isinstance(body[1], ir.Map)
    assert isinstance(body[1].value, ir.Literal)
    assert math.isnan(body[1].value.value)
    assert isinstance(body[2], ir.Map)
    assert isinstance(body[2].value, ir.Literal)
    assert math.copysign(1, body[2].value.value) == -1


def reason(text: str) -> str:
    with pytest.raises(TilegenError) as caught:
        plan_from_json(text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "PLAN_JSON"
    return f"{diagnostic.message} {diagnostic.got}"


def test_what_is_no_plan_is_refused_in_words() -> None:
    assert "not JSON" in reason("{")
    assert "does not say that it is a tilegen plan" in reason("[1, 2]")
    assert "does not say that it is a tilegen plan" in reason('{"version": 1}')
    assert "version 99" in reason('{"format": "tilegen plan", "version": 99, "plan": {}}')
    assert "not JSON" in reason("[" * 100_000)


def edited(old: str, new: str) -> str:
    text = plan_to_json(gemm())
    assert old in text
    return text.replace(old, new, 1)


def test_a_fault_inside_is_named_with_its_place() -> None:
    assert "Plan.roles[0].body[0]: 'SetRegister' where one of Let, " in reason(
        edited('"type": "SetRegisters"', '"type": "SetRegister"')
    )
    assert "Plan.roles[0].body[0]: SetRegisters lacks increase" in reason(edited('"increase": false,', ""))
    assert "Plan.threads: '384' where int is wanted" in reason(edited('"threads": 384', '"threads": "384"'))
    assert "Plan.threads: True where int is wanted" in reason(edited('"threads": 384', '"threads": true'))
    assert "Plan: Plan has no field colour" in reason(edited('"threads": 384', '"threads": 384, "colour": 1'))
    assert "Plan.tensors[0].dtype: DType has no 'bf17'" in reason(edited('"value": "bf16"', '"value": "bf17"'))
    assert "Plan.notes: 3 where a list is wanted" in reason(edited('"notes": []', '"notes": 3'))


@dataclass(frozen=True)
class Mixed:
    value: int | float | bool | str | DType | None
    pair: tuple[str, float]


@pytest.mark.parametrize("value", [3, 3.0, True, "bf16", DType.BF16, None, -math.inf])
def test_unions_of_plain_types_keep_the_type(value: int | float | bool | str | DType | None) -> None:
    codec = Codec([Mixed, DType])
    item = Mixed(value, ("a", 1.5))
    again = codec.decode(Mixed, json.loads(json.dumps(codec.encode(item))))
    assert again == item
    assert isinstance(again, Mixed)
    assert type(again.value) is type(value)


def test_a_pair_needs_two_entries() -> None:
    codec = Codec([Mixed, DType])
    with pytest.raises(CodecError, match=r"Mixed\.pair: 1 entries where 2 are wanted"):
        codec.decode(Mixed, {"type": "Mixed", "value": None, "pair": ["a"]})


def test_a_foreign_class_is_not_encoded() -> None:
    with pytest.raises(TypeError, match="does not hold Mixed"):
        Codec([DType]).encode(Mixed(1, ("a", 1.0)))
