"""Fails when a document links to a file that is not there or names a sample that does not exist.

    python tools/check_docs.py

Prints one line per offence, `file:line: what`, and exits 1 if there is any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([\w.-]+(?:/[\w.-]+)*(?:#[\w-]*)?)\)")  # a path, not index notation in prose
SAMPLE = re.compile(r"\bsamples/[\w./-]+\.tile\b")


def offences(path: Path, root: Path) -> Iterator[str]:
    """What is wrong with one document, one line each."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for target in LINK.findall(line):
            file = target.partition("#")[0]
            if file and "://" not in file and not (path.parent / file).exists():
                yield f"{path.relative_to(root)}:{number}: link to {file}, which is not there"
        for sample in SAMPLE.findall(line):
            if not (root / sample).exists():
                yield f"{path.relative_to(root)}:{number}: names {sample}, which is not there"


def main() -> int:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    found = [line for path in sorted(documents) for line in offences(path, ROOT)]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
