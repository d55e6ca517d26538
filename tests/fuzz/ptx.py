"""Fuzzed PTX: what NVRTC wrote for small kernels with changes, through the emulator's parser and a launch."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import tilegen
from tests.fuzz.runner import Case, Suite
from tests.fuzz.specs import texts
from tilegen.emulate.ptx import launch, parse
from tilegen.oracle import random_inputs

# parameters, sizes; each runs in a fraction of a second
_KERNELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "copy": ({}, {"M": 70, "N": 72}),
    "gemm": ({}, {"M": 70, "N": 72, "K": 72}),
    "row_softmax": ({}, {"M": 9, "N": 72}),
    "fa3_fwd": ({"D": 64, "causal": True}, {"B": 1, "Sq": 70, "Sk": 70, "Hk": 1, "G": 1}),
}
_SHORT = "copy"  # changed as often as the longest two together, which take eight times its time
_STEPS = 30_000  # of an emulated launch; the slowest of these kernels takes a fifth
_WORD = re.compile(r"[%$.]?\w+(?:\.\w+|::\w+)*|\S")
_MODIFIERS = (
    ".s32", ".u32", ".u64", ".b64", ".f32", ".f16x2", ".bf16x2", ".b16", ".pred", ".lo", ".wide", ".sync", ".aligned",
    ".shared::cta", ".shared::cluster", ".global", ".volatile", ".ftz", ".rn", ".approx", ".parity", ".x4", ".trans",
)  # fmt: skip
_NUMBERS = ("0", "1", "-1", "2", "7", "16", "31", "32", "128", "1024", "2147483647", "0xffffffff", "0f7fc00000")
_CHARACTERS = ("", ";", ",", "{", "}", "[", "%", "\u00e9", "\x00", "//", "/*", '"')


@dataclass(frozen=True)
class Launch:
    """A launch that the runtime made: the emulator's arguments behind the module. keep: what owns their memory."""

    ptx: str
    arguments: tuple[Any, ...]
    keep: tuple[object, ...]


@cache
def launches() -> dict[str, Launch]:
    """The kernels, and what the runtime hands to the emulator for them."""
    found = {}
    for name, (params, sizes) in _KERNELS.items():
        kernel = tilegen.compile(texts()[name], **params)
        inputs = random_inputs(kernel.program, sizes, 0)
        with patch("tilegen.runtime.emulated.emulate", wraps=launch) as seen:
            outputs = kernel(**inputs)
        found[name] = Launch(kernel.variant(**sizes).ptx, seen.call_args.args[1:], (kernel, inputs, outputs))
    return found


def make(rng: random.Random) -> Case:
    """A kernel's PTX with one to three changes."""
    name = rng.choice((_SHORT, *sorted(launches())))
    text = launches()[name].ptx
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(_CHANGES)(text, rng)
    return Case(name, text)


def _line(text: str, rng: random.Random) -> str:
    lines = text.splitlines()
    n, m = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[n]
    elif kind == 1:
        lines.insert(m, lines[n])
    else:
        lines[n], lines[m] = lines[m], lines[n]
    return "\n".join(lines)


def _pick(text: str, rng: random.Random) -> re.Match[str]:
    """A word of a line that is no comment and no declaration, more often than not."""
    for _ in range(20):
        start = rng.randrange(len(text))
        found = _WORD.search(text, start)
        if found and not text[text.rfind("\n", 0, start) + 1 :].lstrip().startswith(("//", ".reg", ".loc")):
            return found
    found = _WORD.search(text)
    assert found
    return found


def _exchange(text: str, rng: random.Random) -> str:
    """A word for another of its kind."""
    m = _pick(text, rng)
    word = m.group()
    kind = "%" if word[0] == "%" else "0" if word[0].isdigit() else "a" if word[0].isalpha() else word[0]
    for _ in range(50):
        other = _pick(text, rng).group()
        if (kind == "0" and other[0].isdigit()) or (kind == "a" and other[0].isalpha()) or other[0] == kind:
            return text[: m.start()] + other + text[m.end() :]
    return text


def _number(text: str, rng: random.Random) -> str:
    found = re.compile(r"(?<![\w%.])-?\d+\b").search(text, rng.randrange(len(text)))
    return text[: found.start()] + rng.choice(_NUMBERS) + text[found.end() :] if found else text


def _modifier(text: str, rng: random.Random) -> str:
    """A modifier more, less, or another one."""
    found = re.compile(r"\.[a-z]\w*(?:::\w+)*").search(text, rng.randrange(len(text)))
    if not found:
        return text
    other = rng.choice((*_MODIFIERS, ""))
    kept = found.group() if rng.random() < 0.3 else ""
    return text[: found.start()] + kept + other + text[found.end() :]


def _character(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(_CHARACTERS) + text[at + 1 :]


_CHANGES = (_line, _exchange, _exchange, _exchange, _number, _number, _modifier, _modifier, _character)


def run(case: Case) -> str:
    module = parse(case.text)
    launch(module, *launches()[case.origin].arguments, step_limit=_STEPS)
    return "ran"


PTX = Suite("ptx", make, run, trusted=False)
