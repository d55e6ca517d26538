"""Specs changed at random: statements deleted, repeated or swapped, numbers and names exchanged."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?|\S")
_DIRECTIVES = (
    "late {e} by 1",
    "late {e} by 1 batch {e}, {f}",
    "ahead {e} by 1",
    "batch {e}, {f}",
    "issue {e}, {f}",
    "late {e} by 1 issue {f}, {e} under {e}: {g}",
    "take_turns over {e}, {f}",
    "stages {t} {n}",
    "walk {a} down",
    "persistent static order longest_first",
    "group {a} by {n}",
    "order {a}, {b}",
    "alias {e}, {t}",
    "via {e} tma",
    "grid {a}",
    "stream {a}",
    "hold {a}",
    "block {a} {m}",
    "consumers {n} over {a}",
    "registers {m}, {m}",
    "stale_max",
    "skip_rows",
)
_FACTORS = ("* 2", "/ 3", "* (0 - 1)", "+ {a}", "- {b}", "* {a}")


def mutate(text: str, rng: random.Random) -> str:
    """A spec with one to three changes. It may be anything but a spec."""
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(_CHANGES)(text, rng)
    return text


def _lines(text: str, rng: random.Random) -> str:
    lines = text.splitlines()
    n, m = rng.randrange(1, len(lines) - 1), rng.randrange(1, len(lines) - 1)
    kind = rng.randrange(3)
    if kind == 0:
        del lines[n]
    elif kind == 1:
        lines.insert(m, lines[n])
    else:
        lines[n], lines[m] = lines[m], lines[n]
    return "\n".join(lines)


def _number(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"\b\d+\b", text))
    if not found:
        return text
    m = rng.choice(found)
    value = rng.choice(["0", "1", "2", "3", "8", "16", "40", "48", "64", "128", "192", "256", "512"])
    return text[: m.start()] + value + text[m.end() :]


def _exchange(text: str, rng: random.Random) -> str:
    """One token for another of the same kind, somewhere."""
    found = list(_TOKEN.finditer(text))
    m = rng.choice(found)
    same = [f.group() for f in found if f.group()[0].isalpha() == m.group()[0].isalpha()]
    return text[: m.start()] + rng.choice(same) + text[m.end() :]


def _names(text: str, rng: random.Random) -> dict[str, str]:
    equations = re.findall(r"^\s*(\w+)\[[^=\n]*\]\s*=", text, re.M) or ["x"]
    tiles = re.findall(r"tile\s+(\w+)", text) or ["x"]
    axes = re.findall(r"(\w+) in ", text) or ["i"]
    pick = {"e": equations, "f": equations, "g": equations, "t": tiles, "a": axes, "b": axes}
    numbers = {"n": str(rng.randint(1, 5)), "m": rng.choice(["16", "32", "40", "64", "128", "192", "232"])}
    return {key: rng.choice(values) for key, values in pick.items()} | numbers


def _directive(text: str, rng: random.Random) -> str:
    """One more directive, or a schedule of a few of them."""
    names = _names(text, rng)
    added = rng.choice(_DIRECTIVES).format(**names)
    places = [m.end() for m in re.finditer(r"schedule hopper[^{]*\{", text)]
    if places and rng.random() < 0.7:
        at = rng.choice(places)
        return f"{text[:at]} {added} {text[at:]}"
    start = text.find("schedule ")
    bare = (text if start < 0 else text[:start] + "}").rstrip().removesuffix("}")
    more = " ".join(d.format(**_names(text, rng)) for d in rng.sample(_DIRECTIVES, rng.randint(0, 2)))
    return f"{bare}  schedule hopper {{ {added} {more} }}\n}}"


def _factor(text: str, rng: random.Random) -> str:
    """A read that is scaled or shifted."""
    found = list(re.finditer(r"\b\w+\[[\w, ]+\](?!\s*=)", text))
    if not found:
        return text
    m = rng.choice(found)
    names = _names(text, rng)
    return f"{text[: m.start()]}({m.group()} {rng.choice(_FACTORS).format(**names)}){text[m.end() :]}"


def _domain(text: str, rng: random.Random) -> str:
    names = _names(text, rng)
    a, b = names["a"], names["b"]
    clause = rng.choice(
        [f"{b} <= {a}", f"{b} >= {a} - 9", f"{b} < 7", f"{b} <= {a} + 40 and {b} >= {a} - 40", f"{b} < 4 or {b} > {a}"]
    )
    axes = ", ".join(dict.fromkeys(x for x in (a, b) if re.search(rf"\b{x}\b", clause)))
    at = text.find("  tile")
    return f"{text[:at]}  domain {axes}: {clause}\n{text[at:]}" if at >= 0 else text


_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _lines,
    _number,
    _exchange,
    _directive,
    _directive,
    _directive,
    _factor,
    _domain,
)
