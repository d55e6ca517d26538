"""What an author may have meant by a word that cannot stand where it does, where other languages' habits show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.syntax.scan import MODES, STATEMENTS, Word

_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_COMMENTS = frozenset({"//", "/*"})


@dataclass(frozen=True)
class Hint:
    """fix: what to do. wanted: what has to stand there, if it is this and nothing else; else empty."""

    fix: str = ""
    wanted: str = ""


def hint(text: str, start: int, token: str, before: Sequence[Word], comparable: bool) -> Hint:
    """For the word `token` at character `start`, behind the words `before`. comparable: whether `==` may be there."""
    if {text[start : start + 2], text[max(start - 1, 0) : start + 1]} & _COMMENTS:
        return Hint("comments start with `#`")
    if token == ";":
        return Hint("leave the `;` out: nothing stands between statements")
    if token == "=" and comparable:
        return Hint("a comparison is written `==`")
    statement = _statement(before)
    if token in _COMPARISONS and statement and statement[0].text == "domain" and all(w.text != ":" for w in statement):
        axes = ", ".join(w.text for w in statement[1:] if w.is_name)
        return Hint(f"name the condition's axes, and put a `:` before it: `domain {axes}, …: …`", "`:`")
    if before and before[-1].text == "persistent":
        return Hint(f"say how: {', '.join(f'`persistent {mode}`' for mode in MODES)}", " or ".join(MODES))
    return Hint()


def _statement(before: Sequence[Word]) -> Sequence[Word]:
    """The words from the last keyword of a statement on."""
    first = next((n for n in reversed(range(len(before))) if before[n].text in STATEMENTS), len(before))
    return before[first:]
