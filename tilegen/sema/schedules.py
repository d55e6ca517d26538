"""Schedule blocks: conditions decided, names resolved, one dataclass a directive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilegen.diagnostics.catalogue import Code
from tilegen.diagnostics.core import Note
from tilegen.ir import schedule as ir
from tilegen.ir.tile import Ragged
from tilegen.ir.uniform import Int, Uniform
from tilegen.sema.conditions import condition
from tilegen.sema.faults import closest, suggestion
from tilegen.sema.integers import LARGEST
from tilegen.sema.scope import Scope
from tilegen.sema.unreachable import check_unreachable
from tilegen.syntax import ast
from tilegen.syntax.scan import MODES

TARGETS = ("hopper", "sm_80", "mls")
_LONGEST = "longest_first"  # the order of work items that is named
_WORDS: dict[str, tuple[str, ...]] = {
    "walk": ("up", "down"),
    "persistent": MODES,
    "via": ("tma", "cp_async", "auto", "rows"),
    "hint": ("keep", "stream", "normal"),
    "oob": ("zero", "nan"),
    "place": ("registers", "shared"),
    "isolate": ("fast", "exact"),
}
_OPTIONS = ("waves", "prefetch", "warp_rows")
_UNITS = {"KB": 1 << 10, "MB": 1 << 20}


def schedules(
    statements: Sequence[ast.ScheduleDecl], scope: Scope, ragged: Iterable[Ragged]
) -> tuple[ir.Schedule, ...]:
    """Those that a launch may take, in file order. All of them are checked."""
    possible: list[ir.Schedule] = []
    settled: set[str] = set()  # targets with a schedule for all launches that come so far
    before = scope.faults.count
    for statement in statements:
        if statement.target.name not in TARGETS:
            scope.faults.add(
                Code.UNKNOWN_TARGET, statement.target.span, got=f"`{statement.target.name}`",
                wanted=suggestion(statement.target.name, TARGETS), name=statement.target.name,
            )  # fmt: skip
        guard: Uniform | None = Int(1)
        if statement.condition is not None:
            guard = condition(statement.condition, scope, ragged)
        directives = _Directives(scope).all(statement.directives)
        target = statement.target.name
        if guard is None or guard == Int(0) or target in settled:
            continue
        if guard == Int(1):
            settled.add(target)
            guard = None
        possible.append(ir.Schedule(target, guard, directives, statement.span))
    if scope.faults.count == before:
        check_unreachable(statements, scope)
    return tuple(possible)


class _Directives:
    """The directives of one block."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._seen: dict[tuple[object, ...], ir.Directive] = {}

    def all(self, nodes: tuple[ast.Directive, ...]) -> tuple[ir.Directive, ...]:
        made: list[ir.Directive] = []
        for node in nodes:
            before = self._scope.faults.count
            directive = _MAKERS[node.keyword](self, node)
            if self._scope.faults.count > before:
                continue
            self._once(directive, node)
            made.append(directive)
        return tuple(made)

    def _once(self, directive: ir.Directive, node: ast.Directive) -> None:
        """Notes a second directive about the same thing."""
        key = _subject(directive)
        if key in self._seen:
            subject = " ".join(str(part) for part in key if isinstance(part, str))
            note = Note(self._seen[key].span, "said here already")
            self._scope.faults.add(Code.DIRECTIVE_TWICE, node.span, notes=(note,), directive=subject)
        for before in self._seen.values():
            if words := _opposites(before, directive) or _opposites(directive, before):
                first, second = words
                note = Note(before.span, "the other one")
                self._scope.faults.add(Code.DIRECTIVES_DISAGREE, node.span, notes=(note,), first=first, second=second)
        self._seen.setdefault(key, directive)

    # ---- words and numbers ----

    def name(self, arg: ast.Ident | ast.Num, *kinds: str) -> str:
        assert isinstance(arg, ast.Ident)
        if self._scope.kind(arg.name) not in kinds and arg.name not in self._scope.tainted:
            self._scope.unknown(arg, *kinds)
        return arg.name

    def names(self, args: Iterable[ast.Ident | ast.Num], *kinds: str) -> tuple[str, ...]:
        found: list[str] = []
        for arg in args:
            name = self.name(arg, *kinds)
            if name in found:
                self._scope.faults.add(Code.NAMED_TWICE, arg.span, name=name)
            found.append(name)
        return tuple(found)

    def count(self, arg: ast.Ident | ast.Num, least: int = 1, most: int = LARGEST) -> int:
        """A number, or an integer parameter."""
        value = self._scope.params.get(arg.name) if isinstance(arg, ast.Ident) else arg.value
        if isinstance(arg, ast.Ident) and arg.name not in self._scope.params:
            self._scope.unknown(arg, "parameter")
        elif type(value) is not int or value < least:
            self._scope.faults.add(
                Code.DIRECTIVE_NUMBER, arg.span, got=str(value), wanted=f"an integer of at least {least}"
            )
        elif value > most:
            self._scope.faults.add(
                Code.DIRECTIVE_NUMBER, arg.span, got=str(value), wanted=f"an integer of at most {most}"
            )
        return value if type(value) is int else least

    def word(self, arg: ast.Ident | ast.Num, keyword: str) -> str:
        assert isinstance(arg, ast.Ident)
        if arg.name not in _WORDS[keyword]:
            wanted = " or ".join(_WORDS[keyword])
            self._scope.faults.add(Code.DIRECTIVE_WORD, arg.span, got=arg.name, wanted=wanted, directive=keyword)
        return arg.name

    def order(self, node: ast.Directive) -> ir.Order:
        if len(node.args) == 1 and isinstance(first := node.args[0], ast.Ident):
            if first.name == _LONGEST:
                return ir.Order((_LONGEST,), node.span)
            if first.name not in self._scope.kinds and closest(first.name, (_LONGEST,)):
                self._scope.faults.add(
                    Code.DIRECTIVE_WORD, first.span, got=first.name, wanted=f"{_LONGEST}, or axes", directive="order"
                )
                return ir.Order((_LONGEST,), node.span)
        return ir.Order(self.names(node.args, "axis"), node.span)

    def group(self, node: ast.Directive) -> ir.Group:
        axis, count, *unit = node.args
        if unit and isinstance(unit[0], ast.Ident):
            scale = _UNITS[unit[0].name]
            number = self.count(count, most=LARGEST // scale)
            return ir.Group(self.name(axis, "axis"), number * scale, None, node.span)
        return ir.Group(self.name(axis, "axis"), None, self.count(count), node.span)

    def multicast(self, node: ast.Directive) -> ir.Multicast:
        tile, axis, *by = node.args
        count = self.count(by[0]) if by else 2
        return ir.Multicast(self.name(tile, "tile"), self.name(axis, "axis"), count, node.span)

    def option(self, node: ast.Directive) -> ir.Option:
        name, value = node.args
        assert isinstance(name, ast.Ident)
        if name.name not in _OPTIONS:
            self._scope.faults.add(
                Code.UNKNOWN_OPTION, name.span, got=f"`{name.name}`", wanted=suggestion(name.name, _OPTIONS),
                name=name.name,
            )  # fmt: skip
        return ir.Option(name.name, self.count(value, 0), node.span)

    def outputs(self, node: ast.Directive) -> ir.Outputs:
        return ir.Outputs(self.names(node.args, "output"), _Directives(self._scope).all(node.body), node.span)


def _subject(directive: ir.Directive) -> tuple[object, ...]:
    """What a directive is about: two with the same subject contradict or repeat each other."""
    match directive:
        case ir.Block(axis=name) | ir.Walk(axis=name) | ir.Group(axis=name) | ir.SplitReduction(axis=name):
            return (_keyword(directive), name)
        case ir.Stages(tile=name) | ir.Via(tile=name) | ir.Oob(tile=name) | ir.Multicast(tile=name):
            return (_keyword(directive), name)
        case ir.Place(name=name) | ir.Late(name=name) | ir.Ahead(name=name) | ir.Hint(name=name) | ir.Option(name=name):
            return (_keyword(directive), name)
        case ir.Under(product=name) | ir.Alias(buffer=name):
            return (_keyword(directive), name)
        case ir.Batch(names=names) | ir.Issue(names=names) | ir.Outputs(names=names):
            return (_keyword(directive), *sorted(names))
        case ir.Role(role=role):
            return (role,)
        case _:
            return (_keyword(directive),)


def _opposites(one: ir.Directive, other: ir.Directive) -> tuple[str, str] | None:
    """Both in words, where one undoes the other."""
    match one, other:
        case ir.StaleMax(), ir.Option("exact_max"):
            return "stale_max", "exact_max"
        case ir.Alias(buffer, host), ir.Via(tile, "rows") if buffer == tile:
            return f"alias {buffer}, {host}", f"via {tile} rows"
        case ir.Stages(output, depth), ir.Via(tile, "rows") if output == tile:
            return f"stages {output} {depth}", f"via {tile} rows"
        case ir.Stages(output, depth), ir.Alias(buffer, host) if output == buffer:
            return f"stages {output} {depth}", f"alias {buffer}, {host}"
        case ir.Role(one_role, axes), ir.Role(other_role, others) if both := [a for a in axes if a in others]:
            return f"{one_role} {both[0]}", f"{other_role} {both[0]}"
    return None


def _keyword(directive: ir.Directive) -> str:
    return {"TakeTurns": "take_turns", "StaleMax": "stale_max", "SplitReduction": "split"}.get(
        type(directive).__name__, type(directive).__name__.lower()
    )


_COMPUTED = ("equation", "output")  # what an op of the loop body is named by
_HELD = ("tile", "equation", "output")  # what has a buffer or a place in registers

_Maker = Callable[[_Directives, ast.Directive], ir.Directive]
_MAKERS: dict[str, _Maker] = {
    "block": lambda d, n: ir.Block(d.name(n.args[0], "axis"), d.count(n.args[1]), n.span),
    "consumers": lambda d, n: ir.Consumers(d.count(n.args[0]), d.names(n.args[1:], "axis"), n.span),
    "stages": lambda d, n: ir.Stages(d.name(n.args[0], "tile", "output"), d.count(n.args[1]), n.span),
    "late": lambda d, n: ir.Late(d.name(n.args[0], *_COMPUTED), d.count(n.args[1], 0), n.span),
    "ahead": lambda d, n: ir.Ahead(d.name(n.args[0], *_COMPUTED), d.count(n.args[1], 0), n.span),
    "batch": lambda d, n: ir.Batch(d.names(n.args, *_COMPUTED), n.span),
    "issue": lambda d, n: ir.Issue(d.names(n.args, *_COMPUTED), n.span),
    "under": lambda d, n: ir.Under(d.name(n.args[0], *_COMPUTED), d.names(n.args[1:], *_COMPUTED), n.span),
    "take_turns": lambda d, n: ir.TakeTurns(d.names(n.args, *_COMPUTED), n.span),
    "stale_max": lambda d, n: ir.StaleMax(n.span),
    "walk": lambda d, n: ir.Walk(d.name(n.args[0], "axis"), d.word(n.args[1], "walk"), n.span),
    "persistent": lambda d, n: ir.Persistent(d.word(n.args[0], "persistent"), n.span),
    "order": _Directives.order,
    "group": _Directives.group,
    "alias": lambda d, n: ir.Alias(d.name(n.args[0], *_HELD), d.name(n.args[1], *_HELD), n.span),
    "grid": lambda d, n: ir.Role("grid", d.names(n.args, "axis"), n.span),
    "stream": lambda d, n: ir.Role("stream", d.names(n.args, "axis"), n.span),
    "hold": lambda d, n: ir.Role("hold", d.names(n.args, "axis"), n.span),
    "split": lambda d, n: ir.SplitReduction(d.name(n.args[0], "axis"), d.count(n.args[1]), n.span),
    "via": lambda d, n: ir.Via(d.name(n.args[0], "tile", "output"), d.word(n.args[1], "via"), n.span),
    "hint": lambda d, n: ir.Hint(d.name(n.args[0], "tile", "output"), d.word(n.args[1], "hint"), n.span),
    "oob": lambda d, n: ir.Oob(d.name(n.args[0], "tile"), d.word(n.args[1], "oob"), n.span),
    "multicast": _Directives.multicast,
    "place": lambda d, n: ir.Place(d.name(n.args[0], *_HELD), d.word(n.args[1], "place"), n.span),
    "registers": lambda d, n: ir.Registers(d.count(n.args[0]), d.count(n.args[1]), n.span),
    "exact_max": lambda d, n: ir.Option("exact_max", None, n.span),
    "skip_rows": lambda d, n: ir.Option("skip_rows", None, n.span),
    "isolate": lambda d, n: ir.Option("isolate", d.word(n.args[0], "isolate"), n.span),
    "dependent_launch": lambda d, n: ir.Option("dependent_launch", None, n.span),
    "option": _Directives.option,
    "outputs": _Directives.outputs,
}
