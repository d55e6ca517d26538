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
from collections.abc import Callable, Iterable, Mapping
from functools import partial

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

Decoder = Callable[[Json], object]

_TAG = "type"
_PLAIN = (type(None), bool, int, float, str)
_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class CodecError(ValueError):
    """JSON that does not describe the data. The text says where and what."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{where}: {what}")
        self.what = what
        self.where = where

    def within(self, outer: str) -> CodecError:
        """The same of a value that holds the one at fault."""
        return CodecError(self.what, outer + self.where)


def classes_of(*modules: types.ModuleType) -> list[type]:
    """The dataclasses and enums that these modules define; of packages, those that they export of their own modules."""
    return [
        c
        for module in modules
        for _, c in inspect.getmembers(module, inspect.isclass)
        if _within(c.__module__, module.__name__) and (dataclasses.is_dataclass(c) or issubclass(c, enum.Enum))
    ]


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


class Codec:
    """Encodes and decodes the dataclasses and enums given. Names must be unique among them."""

    def __init__(self, classes: Iterable[type], aliases: Mapping[str, object] | None = None) -> None:
        self._classes = {c.__name__: c for c in classes}
        self._names: dict[str, object] = {**(aliases or {}), **self._classes}
        self._decoders: dict[object, Decoder] = {}

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
        try:
            return self._decoder(cls)(value)
        except CodecError as error:
            raise error.within(cls.__name__) from None

    def _known(self, cls: type) -> None:
        if self._classes.get(cls.__name__) is not cls:
            raise TypeError(f"this codec does not hold {cls.__name__}")

    def _decoder(self, hint: object) -> Decoder:
        """What decodes values of a type: made once, as plans hold thousands of values of a few types."""
        if hint not in self._decoders:
            self._decoders[hint] = self._made(hint)
        return self._decoders[hint]

    def _made(self, hint: object) -> Decoder:
        origin = typing.get_origin(hint)
        if origin is tuple:
            return self._tuple(typing.get_args(hint))
        if origin in (types.UnionType, typing.Union):
            return self._union(typing.get_args(hint))
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _enum(hint)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self._object(hint)
        return partial(_plain, hint)

    def _tuple(self, args: tuple[object, ...]) -> Decoder:
        same = self._decoder(args[0]) if len(args) == 2 and args[1] is ... else None
        each = [] if same else [self._decoder(a) for a in args]

        def decode(value: Json) -> object:
            if not isinstance(value, list):
                raise CodecError(f"{_shown(value)} where a list is wanted")
            decoders = [same] * len(value) if same else each
            if len(decoders) != len(value):
                raise CodecError(f"{len(value)} entries where {len(decoders)} are wanted")
            out: list[object] = []
            try:
                for decoder, v in zip(decoders, value, strict=True):
                    out.append(decoder(v))
            except CodecError as error:
                raise error.within(f"[{len(out)}]") from None
            return tuple(out)

        return decode

    def _union(self, args: tuple[object, ...]) -> Decoder:
        objects = {a.__name__: self._late(a) for a in args if isinstance(a, type) and a not in _PLAIN}
        names = ", ".join(objects)
        # tuples before the others; of those each accepts what the ones before it do not
        plain = [self._decoder(a) for a in args if not isinstance(a, type)]
        plain += [self._decoder(a) for a in _PLAIN if a in args]

        def decode(value: Json) -> object:
            if isinstance(value, dict):
                tag = value.get(_TAG)
                if isinstance(tag, str) and tag in objects:
                    return objects[tag](value)
                raise CodecError(f"{_shown(tag)} where one of {names} is wanted")
            for decoder in plain:
                try:
                    return decoder(value)
                except CodecError as error:
                    failure = error
            raise failure if plain else CodecError(f"{_shown(value)} where one of {names} is wanted")

        return decode

    def _late(self, cls: type) -> Decoder:
        """The decoder of a class, which may hold the type that is being looked at, once it is needed."""
        return lambda value: self._decoder(cls)(value)

    def _object(self, cls: type) -> Decoder:
        name = cls.__name__
        fields: dict[str, Decoder] = {}

        def decode(value: Json) -> object:
            if not isinstance(value, dict) or value.get(_TAG) != name:
                got = value.get(_TAG) if isinstance(value, dict) else value
                raise CodecError(f"{_shown(got)} where a {name} is wanted")
            if not fields:
                hints = typing.get_type_hints(cls, localns=self._names)
                fields.update({field: self._decoder(hint) for field, hint in hints.items()})
            given: dict[str, object] = {}
            for field, v in value.items():
                if field in fields:
                    try:
                        given[field] = fields[field](v)
                    except CodecError as error:
                        raise error.within(f".{field}") from None
                elif field != _TAG:
                    raise CodecError(f"{name} has no field {field}")
            if len(given) < len(fields):
                raise CodecError(f"{name} lacks {', '.join(f for f in fields if f not in given)}")
            return cls(**given)

        return decode


def _enum(cls: type[enum.Enum]) -> Decoder:
    def decode(value: Json) -> object:
        if not isinstance(value, dict) or value.get(_TAG) != cls.__name__:
            raise CodecError(f"{_shown(value)} where a {cls.__name__} is wanted")
        try:
            return cls(value.get("value"))
        except ValueError:
            raise CodecError(f"{cls.__name__} has no {_shown(value.get('value'))}") from None

    return decode


def _plain(hint: object, value: Json) -> object:
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
    raise CodecError(f"{_shown(value)} where {getattr(hint, '__name__', hint)} is wanted")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"an object ({value.get(_TAG, 'untagged')})"
    return "a list" if isinstance(value, list) else repr(value)
