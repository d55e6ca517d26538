"""Writes docs/errors.md from the catalogue.

    python -m tilegen.diagnostics.document [--check]

`--check` writes nothing and exits 1 if the file is not what the catalogue gives.
"""

from __future__ import annotations

import string
import sys
from pathlib import Path

from tilegen.diagnostics.entries import SECTIONS
from tilegen.diagnostics.entry import Entry

PATH = Path(__file__).resolve().parents[2] / "docs" / "errors.md"

_HEAD = """\
# Errors

Every error that tilegen reports has a code that stays the same between versions. Words in ‹…› stand for names and
values of the spec at hand. Those that ask for a report are shown as `internal error`: the spec is right. This page is
made from the catalogue: `python -m tilegen.diagnostics.document`.
"""


def errors_page() -> str:
    """The text of docs/errors.md."""
    lines = [_HEAD]
    for title, entries in SECTIONS.items():
        lines.append(f"## {title[0].upper()}{title[1:]}\n")
        lines += map(_entry, entries)
    return "\n".join(lines)


def _entry(entry: Entry) -> str:
    parts = [f"### {entry.code.name}\n", _sentence(entry.message) + "\n"]
    if entry.rule:
        parts.append(f"Rule: {_words(entry.rule)}.\n")
    parts.append("\n".join(f"- {_words(fix)}" for fix in entry.fixes) + "\n" if entry.fixes else "")
    return "\n".join(part for part in parts if part)


def _sentence(text: str) -> str:
    words = _words(text)
    return words[0].upper() + words[1:] + "."


def _words(template: str) -> str:
    """A message with its fields shown as ‹field›."""
    return "".join(
        literal + (f"‹{field}›" if field is not None else "")
        for literal, field, _, _ in string.Formatter().parse(template)
    )


def main(arguments: list[str]) -> int:
    page = errors_page()
    if "--check" in arguments:
        return 0 if PATH.exists() and PATH.read_text(encoding="utf-8") == page else 1
    PATH.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
