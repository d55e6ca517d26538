"""Frozen dataclasses to JSON values and back, steered by their field types.

A dataclass becomes an object whose key "type" is the class name; an enum member an object of its class name and
value; a tuple a list. Infinities and NaN, which JSON lacks, become strings.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import types
import typing
from collections.abc import Iterable, Mapping

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_TAG = "type"
_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class CodecError(ValueError):
    """JSON that does not describe the data. The text says where and what."""


def classes_of(*modules: types.ModuleType) -> list[type]:
    """The dataclasses and enums that these modules define."""
    return [
        c
        for module in modules
        for _, c in inspect.getmembers(module, inspect.isclass)
        if c.__module__ == module.__name__ and (dataclasses.is_dataclass(c) or issubclass(c, enum.Enum))
    ]


class Codec:
    """Encodes and decodes the dataclasses and enums given. Names must be unique among them."""

    def __init__(self, classes: Iterable[type], aliases: Mapping[str, object] | None = None) -> None:
        self._classes = {c.__name__: c for c in classes}
        self._names: dict[str, object] = {**(aliases or {}), **self._classes}
        self._hints: dict[type, dict[str, object]] = {}

    def encode(self, value: object) -> Json:
        """A value that `json` can write. Raises TypeError for a class this codec does not hold."""
        match value:
            case None | bool() | str():
                return value
            case enum.Enum():
                self._known(type(value))
                return {_TAG: type(value).__name__, "value": self.encode(value.value)}
            case int():
                return value
            case float():
                return value if math.isfinite(value) else str(value)
            case tuple():
                return [self.encode(v) for v in value]
        self._known(type(value))
        fields = dataclasses.fields(typing.cast("typing.Any", value))
        return {_TAG: type(value).__name__, **{f.name: self.encode(getattr(value, f.name)) for f in fields}}

    def decode(self, cls: type, value: Json) -> object:
        """An instance of `cls`. Raises CodecError."""
        return self._decode(cls, value, cls.__name__)

    def _known(self, cls: type) -> None:
        if self._classes.get(cls.__name__) is not cls:
            raise TypeError(f"this codec does not hold {cls.__name__}")

    def _decode(self, hint: object, value: Json, path: str) -> object:
        origin = typing.get_origin(hint)
        if origin is tuple:
            return self._tuple(typing.get_args(hint), value, path)
        if origin in (types.UnionType, typing.Union):
            return self._union(typing.get_args(hint), value, path)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self._enum(hint, value, path)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self._object(hint, value, path)
        return _plain(hint, value, path)

    def _tuple(self, args: tuple[object, ...], value: Json, path: str) -> object:
        if not isinstance(value, list):
            raise CodecError(f"{path}: {_shown(value)} where a list is wanted")
        if len(args) == 2 and args[1] is ...:
            args = (args[0],) * len(value)
        if len(args) != len(value):
            raise CodecError(f"{path}: {len(value)} entries where {len(args)} are wanted")
        return tuple(self._decode(a, v, f"{path}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))

    def _union(self, args: tuple[object, ...], value: Json, path: str) -> object:
        if isinstance(value, dict):
            tag = value.get(_TAG)
            for arg in args:
                if isinstance(arg, type) and arg.__name__ == tag:
                    return self._decode(arg, value, path)
            names = ", ".join(a.__name__ for a in args if isinstance(a, type) and a is not type(None))
            raise CodecError(f"{path}: {_shown(tag)} where one of {names} is wanted")
        # bool before int before float before str: each accepts what the ones before it do not
        order = {type(None): 0, bool: 1, int: 2, float: 3, str: 4}
        plain = sorted((a for a in args if a in order), key=lambda a: order[a])
        others = [a for a in args if a not in order]
        for arg in (*others, *plain):
            try:
                return self._decode(arg, value, path)
            except CodecError as error:
                failure = error
        raise failure

    def _enum(self, hint: type[enum.Enum], value: Json, path: str) -> object:
        if not isinstance(value, dict) or value.get(_TAG) != hint.__name__:
            raise CodecError(f"{path}: {_shown(value)} where a {hint.__name__} is wanted")
        try:
            return hint(value.get("value"))
        except ValueError:
            raise CodecError(f"{path}: {hint.__name__} has no {_shown(value.get('value'))}") from None

    def _object(self, cls: type, value: Json, path: str) -> object:
        if not isinstance(value, dict) or value.get(_TAG) != cls.__name__:
            got = value.get(_TAG) if isinstance(value, dict) else value
            raise CodecError(f"{path}: {_shown(got)} where a {cls.__name__} is wanted")
        hints = self._field_types(cls)
        given = {name: v for name, v in value.items() if name != _TAG}
        for name in given:
            if name not in hints:
                raise CodecError(f"{path}: {cls.__name__} has no field {name}")
        missing = [name for name in hints if name not in given]
        if missing:
            raise CodecError(f"{path}: {cls.__name__} lacks {', '.join(missing)}")
        return cls(**{name: self._decode(hints[name], v, f"{path}.{name}") for name, v in given.items()})

    def _field_types(self, cls: type) -> dict[str, object]:
        if cls not in self._hints:
            self._hints[cls] = typing.get_type_hints(cls, localns=self._names)
        return self._hints[cls]


def _plain(hint: object, value: Json, path: str) -> object:
    if hint in (None, type(None)) and value is None:
        return None
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value in _NUMBERS:
            return _NUMBERS[value]
    if hint is str and isinstance(value, str):
        return value
    raise CodecError(f"{path}: {_shown(value)} where {getattr(hint, '__name__', hint)} is wanted")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"an object ({value.get(_TAG, 'untagged')})"
    return "a list" if isinstance(value, list) else repr(value)
