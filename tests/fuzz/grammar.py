"""Texts that the grammar allows, drawn at random from its own rules."""

from __future__ import annotations

import random
from functools import cache

from lark import Lark
from lark.grammar import NonTerminal, Rule, Symbol, Terminal

from tilegen.syntax.resources import grammar_text

_NAMES = (
    "a",
    "b",
    "i",
    "j",
    "k",
    "m",
    "n",
    "x",
    "y",
    "A",
    "B",
    "C",
    "M",
    "N",
    "K",
    "T",
    "s",
    "p",
    "O",
    "hopper",
    "mls",
)
_WORDS = ("f32", "bf16", "f16", "i32", "bool", "exp", "sum", "max", "softmax", "logsumexp", "select", "true", "inf")
_NUMBERS = ("0", "1", "2", "3", "8", "16", "40", "64", "128", "256", "512", "4294967296", "99999999999999999999")
_REALS = ("0.5", "1e-5", "1.", "3e38", "1e999", "0.0")
_DEEP = 40  # expansions inside each other, from which on the shortest way out is taken
_LONG = (20, 400)  # words, after which likewise: so many, at random


@cache
def _rules() -> tuple[dict[str, list[Rule]], dict[str, str], dict[str, int]]:
    """The rules by what they expand, the texts of terminals, and the depth of the shallowest tree of each name."""
    parser = Lark(grammar_text(), start="kernel", parser="lalr", lexer="contextual", maybe_placeholders=False)
    rules: dict[str, list[Rule]] = {}
    for rule in parser.rules:
        rules.setdefault(rule.origin.name, []).append(rule)
    words = {t.name: t.pattern.value for t in parser.terminals if t.pattern.type == "str"}
    depth: dict[str, int] = {}
    for _ in range(len(rules)):
        for name, options in rules.items():
            reached = [
                1 + max((depth[s.name] for s in r.expansion if isinstance(s, NonTerminal)), default=0)
                for r in options
                if all(s.name in depth for s in r.expansion if isinstance(s, NonTerminal))
            ]
            if reached:
                depth[name] = min([*reached, depth.get(name, 10**6)])
    return rules, words, depth


def sentence(rng: random.Random, start: str = "kernel") -> str:
    """A text of the grammar: of the right form, and hardly ever a spec."""
    out: list[str] = []
    _expand(NonTerminal(start), rng, 0, out, rng.randint(*_LONG))
    return " ".join(out)


def _expand(symbol: Symbol, rng: random.Random, level: int, out: list[str], words: int) -> None:
    if isinstance(symbol, Terminal):
        out.append(_terminal(symbol.name, rng))
        return
    rules, _, depth = _rules()
    options = rules[symbol.name]
    if level > _DEEP or len(out) > words:
        shallow = min(_depth(r, depth) for r in options)
        options = [r for r in options if _depth(r, depth) == shallow]
    for part in rng.choice(options).expansion:
        _expand(part, rng, level + 1, out, words)


def _depth(rule: Rule, depth: dict[str, int]) -> int:
    return max((depth[s.name] for s in rule.expansion if isinstance(s, NonTerminal)), default=0)


def _terminal(name: str, rng: random.Random) -> str:
    if name == "NAME":
        return rng.choice(_NAMES if rng.random() < 0.75 else _WORDS)
    if name == "INT":
        return rng.choice(_NUMBERS)
    if name == "FLOAT":
        return rng.choice(_REALS)
    return _rules()[1][name]
