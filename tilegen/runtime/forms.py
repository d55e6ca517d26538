"""Calls with torch tensors, told apart by a few attribute reads an argument; where torch can, by one question to it.

What two calls of one form have in common, all but the addresses, was judged when the form was met first: the rest is
to make the outputs that are not given, to find the launch on these addresses, and to put it on the stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any, TypeAlias

from tilegen.runtime.launch import DealtLaunch, GpuLaunch
from tilegen.runtime.recent import Recent

NUMBERS = frozenset({int, float, bool, NoneType})  # others, such as numpy's, may change

Launch: TypeAlias = GpuLaunch | DealtLaunch


def signature(arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[int]] | None:
    """(form, addresses) of a call's arguments; None where one is neither a torch tensor nor a number of Python's.

    Whatever of a tensor decides whether it may be used is in its form. One that is refused whatever its form has none.
    """
    form: list[Any] = []
    addresses: list[int] = []
    try:
        for name, value in arguments.items():
            kind = type(value)
            if kind in NUMBERS:
                form += (name, kind, repr(value))  # -0.0 and 0.0 are equal
                continue
            if value.is_neg() or (value.requires_grad and sys.modules["torch"].is_grad_enabled()):
                return None
            addresses.append(value.data_ptr())
            form += (name, value.shape, value.stride(), value.dtype, value.device)
    except (AttributeError, RuntimeError, NotImplementedError, KeyError):  # no torch tensor, or one without memory
        return None
    return tuple(form), addresses


def recogniser(arguments: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], list[int] | None] | None:
    """Tells the addresses of other arguments of the same form; of arguments that may be of another, None.

    By what torch's compiled code asks before it runs, which compares type, kind, dtype, device, shape and strides of
    all tensors at once. None where this torch has no such thing.
    """
    tensors = [value for value in arguments.values() if type(value) not in NUMBERS]
    numbers = _numbers(arguments)
    try:
        if any(t.requires_grad for t in tensors):  # which may be used in one mode and not in the other
            return None
        guards = sys.modules["torch"]._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        check = guards.check
        if not check(*tensors):
            return None
    except (AttributeError, KeyError, TypeError, RuntimeError):
        return None
    names = tuple(arguments)

    def addresses(others: Mapping[str, Any]) -> list[int] | None:
        if tuple(others) != names:
            return None
        values: Iterable[Any] = others.values()
        if numbers:
            if _numbers(others) != numbers:
                return None
            values = [value for value in values if type(value) not in NUMBERS]
        return [value.data_ptr() for value in values] if check(*values) else None

    return addresses


def _numbers(arguments: Mapping[str, Any]) -> list[tuple[str, type, str]]:
    """What is told of numbers, which may be equal and differ: -0.0 and 0.0."""
    return [(name, type(value), repr(value)) for name, value in arguments.items() if type(value) in NUMBERS]


@dataclass(frozen=True, eq=False)
class Form:
    """makers: of the outputs that the caller does not give, by name · stream: asks for the framework's current one ·
    launch: makes the launch on these arguments, outputs and all, at these addresses · result: what a call returns ·
    kept: bytes on the GPU that its launches hold in common · recognise: tells the addresses of arguments of this form,
    if there is a quick way to.

    Each is equal to itself alone, and so a part of its launches' keys.
    """

    makers: Sequence[tuple[str, Callable[[], Any]]]
    stream: Callable[[], int]
    launch: Callable[[Mapping[str, Any], Sequence[int]], Launch]
    result: Callable[[Mapping[str, Any]], Any]
    kept: int
    recognise: Callable[[Mapping[str, Any]], list[int] | None] | None

    def call(self, arguments: dict[str, Any], addresses: list[int], launches: Recent[Launch]) -> Any:
        """Launch on these arguments. Returns what the kernel does."""
        for name, make in self.makers:
            made = arguments[name] = make()
            addresses.append(made.data_ptr())
        key = (self, *addresses)
        launch = launches.find(key)
        if launch is None:
            launch = launches.get(key, partial(self.launch, arguments, addresses))
        launch.put(self.stream())
        return self.result(arguments)
