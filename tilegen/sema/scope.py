"""The names of one kernel: what each stands for and where it is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir.dtypes import DType
from tilegen.ir.tile import Axis, Definition, Move, ParamValue, Scalar, Size, Tensor
from tilegen.sema.builtins import FOLDS, FUNCTIONS
from tilegen.sema.constants import DTYPE_NAMES
from tilegen.sema.faults import Faults, closest, suggestion
from tilegen.syntax import ast
from tilegen.syntax.span import Span

# the last two are what every kernel binds of its own
RESERVED = {*FOLDS, *FUNCTIONS, *DTYPE_NAMES, "true", "false", "inf", "int", "float", "warpgroup", "sm_count"}


@dataclass
class Scope:
    """Filled step by step while a kernel is analysed. `kinds` holds every declared name from the start."""

    params: Mapping[str, ParamValue]
    faults: Faults
    kinds: dict[str, tuple[str, Span]] = field(default_factory=dict)
    sizes: dict[str, Size] = field(default_factory=dict)
    scalars: dict[str, Scalar] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    moves: dict[str, Move] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    inferred: set[str] = field(default_factory=set)  # axes that no statement declares
    meant: set[str] = field(default_factory=set)  # names that a misspelt one stands for: they are no unused ones
    tainted: set[str] = field(default_factory=set)  # names whose own statement is wrong: errors from them say nothing

    def kind(self, name: str) -> str | None:
        """parameter, size, scalar, input, output, axis, tile or equation."""
        return self.kinds[name][0] if name in self.kinds else None

    def declared(self, name: str) -> tuple[Note, ...]:
        """The second place of an error about `name`."""
        return (Note(self.kinds[name][1], "declared here"),) if name in self.kinds else ()

    def unknown(self, ident: ast.Ident | ast.Var, *kinds: str) -> None:
        """Notes that `ident` is not declared, or not as one of `kinds` (all of them if none is given)."""
        wanted_kind = " or ".join(kinds)
        if ident.name in self.kinds:
            self.faults.add(
                Code.WRONG_KIND, ident.span, got=f"the {self.kind(ident.name)} `{ident.name}`",
                wanted=f"the name of {_article(wanted_kind)}", notes=self.declared(ident.name), name=ident.name,
                kind=self.kind(ident.name),
            )  # fmt: skip
            return
        known = [n for n, (k, _) in self.kinds.items() if not kinds or k in kinds]
        meant = closest(ident.name, known)
        if meant is not None:
            self.meant.add(meant)
        self.faults.add(
            Code.UNKNOWN_NAME, ident.span, got=f"`{ident.name}`", wanted=suggestion(ident.name, known), name=ident.name
        )

    def dtype_named(self, name: str) -> bool:
        """Whether a name is an element type or a parameter bound to one."""
        return isinstance(self.params.get(name, DTYPE_NAMES.get(name)), DType)

    def dtype(self, ident: ast.Ident) -> DType | None:
        """The element type that a name stands for: a type, or a parameter bound to one."""
        value = self.params.get(ident.name, DTYPE_NAMES.get(ident.name))
        if isinstance(value, DType):
            return value
        types = [*DTYPE_NAMES, *(n for n, v in self.params.items() if isinstance(v, DType))]
        self.faults.add(
            Code.UNKNOWN_TYPE, ident.span, got=f"`{ident.name}`", wanted=suggestion(ident.name, types), name=ident.name
        )
        return None


def declare(kernel: ast.Kernel, scope: Scope) -> None:
    """Enters every name that a statement declares; an output and its equation are one name."""
    for param in kernel.params:
        _enter(scope, param.name, "parameter")
    outputs: set[str] = set()
    for statement in kernel.statements:
        match statement:
            case ast.SizeDecl(name):
                _enter(scope, name, "size")
            case ast.ScalarDecl(name):
                _enter(scope, name, "scalar")
            case ast.TensorDecl(name, output=output):
                _enter(scope, name, "output" if output else "input")
                outputs |= {name.name} if output else set()
            case ast.AxisDecl(name):
                _enter(scope, name, "axis")
            case ast.SplitDecl(_, outer, inner):
                _enter(scope, outer, "axis")
                _enter(scope, inner, "axis")
            case ast.TileDecl(name):
                _enter(scope, name, "tile")
            case _:
                continue
    defined: dict[str, Span] = {}
    for statement in kernel.statements:
        if not isinstance(statement, ast.Equation):
            continue
        name = statement.name
        if name.name in outputs:
            if name.name in defined:
                note = Note(defined[name.name], "defined here")
                scope.faults.add(Code.REDEFINED, name.span, notes=(note,), name=name.name, kind="equation")
            defined.setdefault(name.name, name.span)
        elif scope.kind(name.name) == "input":
            scope.faults.add(Code.INPUT_ASSIGNED, name.span, notes=scope.declared(name.name), name=name.name)
        else:
            _enter(scope, name, "equation")


def _enter(scope: Scope, ident: ast.Ident, kind: str) -> None:
    if ident.name in RESERVED:
        scope.faults.add(Code.RESERVED_NAME, ident.span, name=ident.name)
    elif ident.name in scope.kinds:
        old, span = scope.kinds[ident.name]
        note = Note(span, f"the {old} is declared here")
        scope.faults.add(Code.REDEFINED, ident.span, notes=(note,), name=ident.name, kind=old)
    else:
        scope.kinds[ident.name] = (kind, ident.span)


def _article(noun: str) -> str:
    return ("an " if noun[:1] in "aeiou" else "a ") + noun
