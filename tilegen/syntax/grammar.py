"""Parsers of grammars. Making the tables of one takes longer than compiling some specs: they are kept on disk."""

from __future__ import annotations

from io import BytesIO

import lark

from tilegen import disk

_OPTIONS = {"parser": "lalr", "lexer": "contextual", "propagate_positions": True, "maybe_placeholders": True}


def parser(grammar: str, start: str) -> lark.Lark:
    """The parser of this grammar's text, from the rule `start` on."""
    made_from = ("parser", lark.__version__, grammar, start, _OPTIONS)
    tables = disk.read_table(made_from)
    if tables is not None:
        return lark.Lark.load(BytesIO(tables))
    made, written = lark.Lark(grammar, start=start, **_OPTIONS), BytesIO()
    made.save(written)
    disk.write_table(made_from, written.getvalue())
    return made
