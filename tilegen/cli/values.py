"""What the commands are told: `-D` and `--size` take `name=value` pairs, with lists for ragged axes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tilegen.cli.usage import wrong_usage

SizeValue = int | float | list[int]
Parameters = dict[str, str]
Sizes = dict[str, SizeValue]
Positions = dict[str, int]


@dataclass(frozen=True)
class Wanted:
    """What to compile. `use_cache`: take it from the cache of earlier compilations, and keep it there · tuned: with the
    schedule that `tilegen tune` kept."""

    spec: Path
    parameters: Parameters
    target: str
    use_cache: bool
    tuned: bool = False


_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\])")


def parameters(pairs: tuple[str, ...], option: str = "-D") -> Parameters:
    """`("D=64", "causal=true", "T=f16")` as names and the text of their values, which the kernel's own
    parameters give a meaning. Fails with BAD_USAGE, naming the option, on anything that is not name=value.
    """
    values: Parameters = {}
    for pair in pairs:
        name, text = _split(pair, option)
        _once(name, values, option)
        values[name] = text
    return values


def sizes(options: tuple[str, ...]) -> Sizes:
    """`("B=2,Sq=[0,9,130]", "scale=0.1")` as sizes, lengths along a ragged axis, and scalars.

    Fails with BAD_USAGE on anything else, and on a negative length.
    """
    values: Sizes = {}
    for option in options:
        for pair in _COMMA_OUTSIDE_BRACKETS.split(option):
            name, text = _split(pair, "--size")
            _once(name, values, "--size")
            values[name] = _size(name, text)
    return values


def positions(options: tuple[str, ...], option: str) -> Positions:
    """`("b=0,h=3", "j=896")` as positions along axes. Fails with BAD_USAGE, naming the option, on anything else."""
    values: Positions = {}
    for pair in (pair for text in options for pair in text.split(",")):
        name, text = _split(pair, option)
        _once(name, values, option)
        position = _number(text)
        if not isinstance(position, int):
            wrong_usage(f"{option}: {name} is a position along an axis", got=text, wanted="a whole number")
        values[name] = position
    return values


def file(name: str) -> Path:
    """The path of what to compile. Fails with BAD_USAGE on an empty one, which would be the present folder."""
    if not name.strip():
        wrong_usage("the name of the file is empty", got=repr(name), wanted="the path of a .tile file")
    return Path(name)


def seed(number: int) -> int:
    """The seed of the random data. Fails with BAD_USAGE on a negative one, which the generator does not take."""
    if number < 0:
        wrong_usage("--seed takes a whole number from 0 up", got=str(number), wanted="0 or more")
    return number


def _split(pair: str, option: str) -> tuple[str, str]:
    name, equals, text = (part.strip() for part in pair.partition("="))
    if not equals or not text or not _NAME.fullmatch(name):
        wrong_usage(f"{option} takes name=value", got=repr(pair.strip()), wanted="name=value")
    return name, text


def _once(name: str, values: Parameters | Sizes | Positions, option: str) -> None:
    if name in values:
        wrong_usage(f"{option} gives {name} twice")


def _size(name: str, text: str) -> SizeValue:
    if text.startswith("[") and text.endswith("]"):
        lengths = [_number(item.strip()) for item in text[1:-1].split(",")] if text[1:-1].strip() else []
        whole = [length for length in lengths if isinstance(length, int) and length >= 0]
        if not whole or len(whole) != len(lengths):
            wrong_usage(f"--size {name} is no list of lengths", got=text, wanted="such as [0,9,130]")
        return whole
    number = _number(text)
    if number is None:
        wrong_usage(f"--size {name} is no number", got=text, wanted="a number, or a list [0,9,130]")
    return number


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
