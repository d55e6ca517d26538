"""`.tile` text to syntax tree. One run reports every syntax error of the file."""

from __future__ import annotations

import difflib
import re
from functools import cache

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.syntax import ast
from tilegen.syntax.build import Builder, token_span
from tilegen.syntax.grammar import parser
from tilegen.syntax.hints import hint
from tilegen.syntax.resources import grammar_text
from tilegen.syntax.scan import DIRECTIVES, STATEMENTS, Word, resume_point, words
from tilegen.syntax.span import Source, Span

_END = "the end of the file: it holds one kernel"
_MANY = 8  # longer lists of what could stand here tell the author nothing


_DEEPEST = 100  # levels of an expression; a level takes a few of Python's thousand stack frames
_DIGITS = 39  # of the largest number of f32
_CHAINS = frozenset({"expr", "conjunction", "comparison", "sum", "product"})


@cache
def _parser() -> Lark:
    return parser(grammar_text(), "kernel")


def parse(source: Source) -> ast.Kernel:
    """The tree of a file with one kernel. Raises TilegenError with all its syntax errors."""
    errors: list[Diagnostic] = []
    text, reached = source.text, -1
    while True:
        try:
            tree = _parser().parse(text)
        except UnexpectedInput as error:
            position = _position(error, text)
            if position <= reached:  # what is broken is the kernel's frame: the rest cannot be judged
                break
            reached = position
            errors.append(_diagnose(source, error))
            gap = resume_point(text, position)
            if gap is None:
                break
            text = _blanked(text, *gap)
        else:
            if not errors:
                errors += _too_deep(source, tree) or _too_long(source, tree)
            if not errors:
                kernel: ast.Kernel = Builder(source.name).transform(tree)
                return kernel
            break
    raise TilegenError(tuple(errors))


def _too_deep(source: Source, tree: Tree[Token]) -> list[Diagnostic]:
    """An error at the first place that is nested deeper than what walks over the tree allows for."""
    waiting: list[tuple[Tree[Token], int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            meta = node.meta
            span = Span(source.name, meta.line, meta.column, meta.end_line, meta.end_column)
            return [fault(Code.TOO_DEEP, span, wanted=f"at most {_DEEPEST} levels")]
        # a chain `a + b + c` is flat here and becomes a tree as deep as it is long
        levels = len(node.children) // 2 if node.data in _CHAINS else int(node.data != "exprs")
        inside = depth + levels
        waiting.extend((child, inside) for child in node.children if isinstance(child, Tree))
    return []


def _too_long(source: Source, tree: Tree[Token]) -> list[Diagnostic]:
    """An error at each whole number with more digits than any number of f32 has."""
    numbers = (t for t in tree.scan_values(lambda t: isinstance(t, Token) and t.type == "INT"))
    return [
        fault(
            Code.INTEGER_LITERAL, token_span(source.name, t), got=f"{len(t)} digits", wanted=f"at most {_DIGITS}",
            value=f"{t[:8]}…",
        )
        for t in numbers
        if len(t.lstrip("0")) > _DIGITS
    ]  # fmt: skip


def _blanked(text: str, start: int, end: int) -> str:
    """`text` with these characters replaced by spaces, line ends kept, so that places stay true."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _position(error: UnexpectedInput, text: str) -> int:
    """The character at which the error was seen."""
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return len(text)
    return error.pos_in_stream if error.pos_in_stream is not None else len(text)


def _diagnose(source: Source, error: UnexpectedInput) -> Diagnostic:
    if isinstance(error, UnexpectedToken) and isinstance(error.token, Token):
        token = error.token
        if token.type == "$END":
            if next(words(source.text), None) is None:
                return fault(Code.EMPTY_FILE, _end(source))
            return fault(Code.UNEXPECTED_END, _end(source), wanted=_wanted(error.expected))
        return _unexpected(source, token, set(error.expected))
    column, line = error.column, error.line
    span = Span(source.name, line, column, line, column + 1)
    character = source.line(line)[column - 1 : column] or " "
    if character.isalpha() and not character.isascii():
        return fault(Code.NOT_ASCII, span, character=character)
    allowed = error.allowed if isinstance(error, UnexpectedCharacters) else ()
    return fault(Code.BAD_CHARACTER, span, character=character, wanted=_wanted(set(allowed or ())))


def _unexpected(source: Source, token: Token, expected: set[str]) -> Diagnostic:
    """An unexpected word; a misspelt keyword shows as a name with something other than `[` behind it."""
    span = token_span(source.name, token)
    start = token.start_pos or 0
    before = [w for w in words(source.text) if w.end <= start]
    previous = before[-1] if before else None
    if previous is not None and previous.is_name:
        if expected == {"LSQB"} and len(before) > 1 and before[-2].text in STATEMENTS:
            # the keyword was read as the operand that an unfinished expression in front of it lacks
            word = before[-2]
            return fault(
                Code.SYNTAX, _place(source, word), got=f"`{word.text}`", wanted="a value", token=word.text, hint=""
            )
        if expected == {"LSQB"}:
            return _misspelt(source, before[-2:], "statement", STATEMENTS)
        if expected == {"INT"} and previous.text not in DIRECTIVES:
            # `name 2` passes for an option, and an `over` behind it for a name
            option = before[-3:-2] if previous.text == "over" and before[-2].text.isdigit() else []
            return _misspelt(source, [*option, previous], "directive", DIRECTIVES)
    meant = hint(source.text, start, str(token), before, "`==`" in map(_spelling, expected))
    wanted = meant.wanted or _wanted(expected)
    return fault(Code.SYNTAX, span, got=f"`{token}`", wanted=wanted, token=str(token), hint=meant.fix)


def _misspelt(source: Source, candidates: list[Word], kind: str, known: tuple[str, ...]) -> Diagnostic:
    """The first of the words that is near a keyword (it may have passed for a name before), else the last."""
    near = (w for w in candidates if w.text not in known and difflib.get_close_matches(w.text, known, 1))
    word = next(near, candidates[-1])
    close = difflib.get_close_matches(word.text, known, 1)
    return fault(
        Code.UNKNOWN_STATEMENT,
        _place(source, word),
        got=f"`{word.text}`",
        wanted=f"`{close[0]}`?" if close else ", ".join(known),
        kind=kind,
        name=word.text,
        equation="an equation is written `name[axes] = expression`" if kind == "statement" else "",
    )


def _place(source: Source, word: Word) -> Span:
    line = source.text.count("\n", 0, word.start) + 1
    column = word.start - (source.text.rfind("\n", 0, word.start) + 1) + 1
    return Span(source.name, line, column, line, column + len(word.text))


def _end(source: Source) -> Span:
    """The last character that is no white space."""
    text = source.text.rstrip()
    line = text.count("\n") + 1
    column = max(len(text) - (text.rfind("\n") + 1), 1)
    return Span(source.name, line, column, line, column + 1)


def _wanted(expected: set[str]) -> str:
    """What could stand here, in the file's own words."""
    shown = sorted({_spelling(name) for name in expected})
    if len(shown) > _MANY:
        kinds: list[str] = [k for k in ("a name", "a number", "`(`", "`}`") if k in shown]
        keywords = {f"`{s}`" for s in STATEMENTS}, {f"`{d}`" for d in DIRECTIVES}
        for words_of, kind in zip(keywords, ("a statement", "a directive"), strict=True):
            if len(words_of & set(shown)) > 3:
                kinds.append(kind)
                break
        operators = [s for s in shown if not s[1:2].isalpha() and s not in kinds]
        shown = kinds + (["an operator"] if len(operators) > 3 else operators)
    return " or ".join(shown)


@cache
def _spellings() -> dict[str, str]:
    plain = {t.name: f"`{t.pattern.value}`" for t in _parser().terminals if t.pattern.type == "str"}
    return plain | {"NAME": "a name", "INT": "a number", "FLOAT": "a number", "$END": _END, "<END-OF-FILE>": _END}


def _spelling(terminal: str) -> str:
    return _spellings().get(terminal, terminal)
