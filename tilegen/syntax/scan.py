"""A rough scan of a `.tile` text into words, used only to find where parsing can resume after a syntax error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

STATEMENTS = ("size", "input", "output", "scalar", "axis", "split", "domain", "ragged", "tile", "schedule")
DIRECTIVES = (
    "block", "consumers", "stages", "late", "ahead", "batch", "issue", "under", "take_turns", "stale_max", "walk",
    "persistent", "order", "group", "alias", "grid", "stream", "hold", "split", "via", "hint", "oob", "multicast",
    "place", "registers", "exact_max", "skip_rows", "isolate", "dependent_launch", "outputs",
)  # fmt: skip
MODES = ("static", "counter", "table")  # of `persistent`

_WORD = re.compile(
    r"(?P<skip>[ \t\r\n\f]+|#[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>[0-9][\w.]*)|(?P<mark>==|.)", re.S
)
_EQUATION = re.compile(r"\s*\[[\w\s,]*\]\s*=(?!=)")


@dataclass(frozen=True)
class Word:
    """A word at characters [start, end); `depth` counts the braces open before it."""

    text: str
    start: int
    end: int
    depth: int
    is_name: bool


def words(text: str) -> Iterator[Word]:
    """Every word outside comments and white space."""
    depth = 0
    for match in _WORD.finditer(text):
        if match.lastgroup == "skip":
            continue
        word = match.group()
        if word == "}":
            depth -= 1
        yield Word(word, match.start(), match.end(), depth, match.lastgroup == "name")
        if word == "{":
            depth += 1


def resume_point(text: str, after: int) -> tuple[int, int] | None:
    """Where parsing can go on after an error at character `after`: (from, to), the characters to leave out.

    The stretch starts behind the brace that opens the statements (or, inside a schedule, the directives)
    around the error, whose earlier ones have been parsed, and ends at the next one. None if there is none.
    """
    all_words = list(words(text))
    opened: list[int] = []
    for word in all_words:
        if word.start >= after:
            break
        if word.text == "{":
            opened.append(word.end)
        elif word.text == "}" and opened:
            opened.pop()
    for index, word in enumerate(all_words):
        if word.start <= after:
            continue
        if word.depth == 1 and _starts_statement(text, all_words, index):
            return _body_start(all_words, word.start), word.start
        if word.depth > 1 and len(opened) > 1 and word.text in DIRECTIVES and all_words[index - 1].text != ",":
            return opened[-1], word.start
        if word.text == "}" and word.depth >= 1 and len(opened) > 1:
            return opened[-1], word.start
    return None


def _body_start(all_words: list[Word], before: int) -> int:
    """Behind the kernel's brace; `before` if it has none before there."""
    return next((w.end for w in all_words if w.text == "{" and w.end <= before), before)


def _starts_statement(text: str, all_words: list[Word], index: int) -> bool:
    """Whether a statement starts at this word: a keyword before a name (two names never stand side by side in
    an expression), or `name[names] =`, which is no part of a larger thing either."""
    word = all_words[index]
    if not word.is_name:
        return False
    following = all_words[index + 1] if index + 1 < len(all_words) else None
    if word.text in STATEMENTS and following is not None and following.is_name:
        return True
    previous = all_words[index - 1].text if index else ""
    return previous != "tile" and bool(_EQUATION.match(text, word.end))
