"""Cuts PTX text into tokens, each with its line."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*|/\*.*?\*/)
      | (?P<newline>\n)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
                  |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
      | (?P<word>[%$_.A-Za-z](?:[\w$.]|::)*)
      | (?P<punct>.)""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """`kind` is "string", "number", "word", "punct" or "end"."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """All tokens of `text`, closed by one of kind "end". Comments and white space are gone."""
    out: list[Token] = []
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "skip":
            line += match.group().count("\n")
        else:
            out.append(Token(kind, match.group(), line))
    out.append(Token("end", "", line))
    return out
