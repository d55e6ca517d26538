"""A position in the tokens of a PTX text."""

from __future__ import annotations

from tilegen.emulate.ptx.faults import syntax_error
from tilegen.emulate.ptx.lexer import Token, tokens
from tilegen.emulate.ptx.module import Place


class Cursor:
    """A position in the tokens, with the small helpers that every part of the parser uses."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The token ahead."""
        return self._tokens[self._at]

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` after the next one."""
        return self._tokens[min(self._at + distance, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Consume and return the next token, or fail where there is none."""
        token = self._tokens[self._at]
        if token.kind == "end":
            syntax_error("the text ends in the middle of a statement", Place(token.line))
        self._at += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token if it is `text`."""
        if self._tokens[self._at].text == text and self._tokens[self._at].kind != "string":
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Consume `text`, or fail naming what stands there instead."""
        if not self.accept(text):
            token = self.next
            syntax_error(f"expected {text!r}, found {token.text or 'the end of the text'!r}", Place(token.line))

    def integer(self) -> int:
        """Consume a whole number, or fail naming what stands there instead."""
        token = self.take()
        try:
            return int(token.text.rstrip("U"), 0)
        except ValueError:
            syntax_error(f"expected a whole number, found {token.text!r}", Place(token.line))

    def rest_of_line(self) -> list[Token]:
        """Consume and return what is left on the line of the last token taken."""
        line = self._tokens[self._at - 1].line
        out = []
        while self.next.line == line and self.next.kind != "end":
            out.append(self.take())
        return out

    def skip_braces(self) -> None:
        """Consume a balanced `{ … }`."""
        self.expect("{")
        depth = 1
        while depth and self.next.kind != "end":
            text = self.take().text
            depth += (text == "{") - (text == "}")
