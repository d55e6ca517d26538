"""Parameters bound to values: what a build gives, checked against what the kernel allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tilegen.diagnostics.catalogue import Code
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import ParamValue
from tilegen.sema.constants import DTYPE_NAMES, constant, spelling
from tilegen.sema.faults import Faults, suggestion
from tilegen.syntax import ast

Choice: TypeAlias = "ParamValue | range"

_OPEN = {"bool": bool, "int": int, "float": float}
# How other languages and tools write truth values.
_TRUTHS = {"true": "true", "1": "true", "yes": "true", "on": "true"} | {
    "false": "false",
    "0": "false",
    "no": "false",
    "off": "false",
}


def bind_params(
    kernel: ast.Kernel, given: Mapping[str, str | int | float | bool | DType], faults: Faults
) -> dict[str, ParamValue]:
    """Each parameter's value: the one given, else its default. Strings are read as a command line gives them."""
    bound: dict[str, ParamValue] = {}
    names = {p.name.name for p in kernel.params}
    for name in given:
        if name not in names:
            wanted = suggestion(name, names) if names else "no parameter: the kernel has none"
            faults.add(Code.UNKNOWN_PARAMETER, kernel.name.span, got=name, wanted=wanted, name=name)
    for param in kernel.params:
        open_type, before = _open_type(param), faults.count
        choices = () if open_type else _choices(param, faults)
        known = faults.count == before  # with a choice that is none, no value can be judged
        value = _value(param, given, open_type, choices, faults) if known else None
        # an error has been noted where there is no value; a stand-in lets the rest of the file be checked
        bound[param.name.name] = value if value is not None else _stand_in(param, open_type, choices)
    return bound


def defaults(kernel: ast.Kernel) -> dict[str, ParamValue]:
    """The value of each parameter that has a default, of a kernel whose parameters could be bound."""
    found: dict[str, ParamValue] = {}
    for param in kernel.params:
        value = constant(param.default, {}) if param.default is not None else None
        if value is not None:
            found[param.name.name] = float(value) if _open_type(param) == "float" and type(value) is int else value
    return found


def _value(
    param: ast.Param,
    given: Mapping[str, str | int | float | bool | DType],
    open_type: str | None,
    choices: tuple[Choice, ...],
    faults: Faults,
) -> ParamValue | None:
    """What is given, else the default; None, with the error noted, if that is not allowed."""
    name, wanted = param.name.name, _wanted(open_type, choices)
    default = None
    if param.default is not None:
        default = _fitted(constant(param.default, {}), open_type, choices)
        if default is None:
            faults.add(Code.PARAMETER_VALUE, param.default.span, wanted=wanted, name=name, what="the default of")
    if name not in given:
        if param.default is None:
            faults.add(Code.PARAMETER_MISSING, param.span, wanted=wanted, name=name)
        return default
    value = _fitted(_read(given[name]), open_type, choices)
    if value is None:
        got = str(given[name])
        meant = _TRUTHS.get(got.lower()) if open_type == "bool" else None
        wanted += f": did you mean `{meant}`?" if meant else ""
        faults.add(Code.PARAMETER_VALUE, param.span, got=got, wanted=wanted, name=name, what="the value given for")
    return value


def _open_type(param: ast.Param) -> str | None:
    """bool, int or float where the parameter takes any value of a type."""
    only = param.choices[0] if len(param.choices) == 1 else None
    return only.name if isinstance(only, ast.Var) and only.name in _OPEN else None


def _choices(param: ast.Param, faults: Faults) -> tuple[Choice, ...]:
    values: list[Choice] = []
    for choice in param.choices:
        if isinstance(choice, ast.Range):
            if (found := _range(choice)) is None:
                faults.add(Code.PARAMETER_RANGE, choice.span, name=param.name.name)
            else:
                values.append(found)
            continue
        value = constant(choice, {})
        if value is None:
            name = choice.name if isinstance(choice, ast.Var) else "?"
            known = (*_OPEN, *DTYPE_NAMES)
            faults.add(Code.UNKNOWN_NAME, choice.span, got=f"`{name}`", wanted=suggestion(name, known), name=name)
        else:
            values.append(value)
    return tuple(values)


def _range(choice: ast.Range) -> range | None:
    """The values of a range; None for one whose ends are no whole numbers, or that does not end at its last value."""
    first, last = constant(choice.first, {}), constant(choice.last, {})
    if type(first) is not int or type(last) is not int or choice.step < 1 or last < first:
        return None
    return None if (last - first) % choice.step else range(first, last + 1, choice.step)


def _read(value: str | int | float | bool | DType) -> ParamValue | str:
    """A value from Python as it is, a string as the number, truth value or type that it spells."""
    if not isinstance(value, str):
        return value
    if value in ("true", "false"):
        return value == "true"
    if value in DTYPE_NAMES:
        return DTYPE_NAMES[value]
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value


def _fitted(value: ParamValue | str | None, open_type: str | None, choices: tuple[Choice, ...]) -> ParamValue | None:
    """`value` if the parameter may have it, else None."""
    if value is None or isinstance(value, str):
        return None
    if open_type == "float" and type(value) is int:
        return float(value)
    if open_type:
        return value if type(value) is _OPEN[open_type] else None
    return value if any(_allows(c, value) for c in choices) else None


def _allows(choice: Choice, value: ParamValue) -> bool:
    if isinstance(choice, range):
        return type(value) is int and value in choice
    return type(value) is type(choice) and value == choice


def _wanted(open_type: str | None, choices: tuple[Choice, ...]) -> str:
    if open_type == "bool":
        return "true or false"
    if open_type:
        return {"int": "an integer", "float": "a number"}[open_type]
    return " or ".join(_spelling(c) for c in choices)


def _spelling(choice: Choice) -> str:
    if not isinstance(choice, range):
        return spelling(choice)
    return f"{choice[0]} .. {choice[-1]}" + (f" by {choice.step}" if choice.step > 1 else "")


def _stand_in(param: ast.Param, open_type: str | None, choices: tuple[Choice, ...]) -> ParamValue:
    if open_type:
        return {"bool": False, "int": 1, "float": 1.0}[open_type]
    if not choices:
        default = constant(param.default, {}) if param.default is not None else None
        return False if default is None else default
    return choices[0][0] if isinstance(choices[0], range) else choices[0]
