"""Fails when a module of tilegen imports from a layer above its own, or a library that its layer must not know.

    python tools/check_layers.py [PACKAGE_DIR]

Prints one line per offence, `file:line: what`, and exits 1 if there is any. Imports inside functions and
under TYPE_CHECKING count: a type is knowledge too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Lowest first. A module belongs to the longest name here that it starts with, and imports from its own
# layer and those before it.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "tilegen.diagnostics",
        "tilegen.syntax.span",
        "tilegen.disk",
        "tilegen.records",
        "tilegen.resources",
        "tilegen.version",
    ),
    ("tilegen.syntax",),
    ("tilegen.ir",),
    ("tilegen.sema",),
    ("tilegen.passes",),
    ("tilegen.checks",),
    ("tilegen.targets",),
    ("tilegen.emulate",),
    ("tilegen.oracle",),
    ("tilegen.runtime",),
    ("tilegen.bench",),
    ("tilegen.tune",),
    ("tilegen.inspect",),
    ("tilegen.cli",),
    ("tilegen", "tilegen.__main__"),  # the package's own __init__: what users import; and the command run as one
)

# The oracle and the emulator are what the compiler is tested against, so they share next to nothing with it.
ONLY: dict[str, tuple[str, ...]] = {
    "tilegen.oracle": ("tilegen.diagnostics", "tilegen.syntax.span", "tilegen.ir", "tilegen.oracle"),
    "tilegen.emulate": (
        "tilegen.diagnostics",
        "tilegen.syntax.span",
        "tilegen.ir",
        "tilegen.targets.hopper.tensor_map",
        "tilegen.targets.mls.isa",
        "tilegen.targets.mls.parsing",
        "tilegen.targets.mls.program",
        "tilegen.targets.mls.text",
        "tilegen.targets.mls.verify",
        "tilegen.emulate",
    ),
}

# Libraries that are known in these places alone.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "lark": ("tilegen.syntax", "tilegen.targets.mls.parsing"),
    "jinja2": ("tilegen.targets", "tilegen.inspect.page"),
    "cuda": ("tilegen.targets", "tilegen.runtime"),
    "torch": ("tilegen.runtime", "tilegen.bench"),
    "matplotlib": ("tilegen.bench.plot",),
    "cupy": ("tilegen.runtime",),
    "click": ("tilegen.cli",),
    "rich": ("tilegen.diagnostics.render", "tilegen.cli"),
}


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name, and the line that imports it."""

    module: str
    line: int


def _under(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(prefix + ".")


def layer(module: str) -> int | None:
    """Index into LAYERS of the module's layer; None if it has none."""
    best: tuple[int, int] | None = None
    for index, names in enumerate(LAYERS):
        for name in names:
            exact_only = name == "tilegen"
            hit = module == name if exact_only else _under(module, name)
            if hit and (best is None or len(name) > best[0]):
                best = (len(name), index)
    return best[1] if best else None


def imports(tree: ast.Module, module: str, is_package: bool, known: frozenset[str]) -> Iterator[Import]:
    """Every module that `tree` imports. `from a import b` is a.b where a.b is a module (one of `known`), else a."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in known else base, node.lineno)


def offence(importer: str, imported: str) -> str | None:
    """Why `importer` must not import `imported`, or None if it may."""
    top = imported.partition(".")[0]
    if top in LIBRARIES and not any(_under(importer, place) for place in LIBRARIES[top]):
        return f"{importer} imports {imported}, which only {' and '.join(LIBRARIES[top])} may know"
    if top != "tilegen":
        return None
    own, other = layer(importer), layer(imported)
    if own is None or other is None:
        missing = importer if own is None else imported
        return f"{missing} has no layer: give it one in tools/check_layers.py"
    if other > own:
        return f"{importer} imports {imported}, which is in a layer above its own"
    for place, allowed in ONLY.items():
        if _under(importer, place) and not any(_under(imported, name) for name in allowed):
            return f"{importer} imports {imported}, but {place} may import only {', '.join(allowed)}"
    return None


def check(package: Path) -> list[str]:
    """All offences of the package in this folder, one line each, in file order."""
    paths = sorted(package.rglob("*.py"))
    root = package.parent

    def name(path: Path) -> str:
        parts = path.relative_to(root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    known = frozenset(name(path) for path in paths)
    found = []
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        module = name(path)
        found += [
            f"{path}:{imported.line}: {reason}"
            for imported in imports(tree, module, path.name == "__init__.py", known)
            if (reason := offence(module, imported.module))
        ]
    return found


def main(arguments: list[str]) -> int:
    package = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent / "tilegen"
    found = check(package)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
