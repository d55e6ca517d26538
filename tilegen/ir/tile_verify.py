"""What must hold of every Tile program, run before and after each pass. A breach is a fault of the compiler."""

from __future__ import annotations

from itertools import chain

from tilegen.ir.dtypes import DType
from tilegen.ir.poly import Poly
from tilegen.ir.reach import AxisTree, Named, body_axes, free_axes, index_axes
from tilegen.ir.schedule import Schedule
from tilegen.ir.tile import (
    Affine,
    Apply,
    Cast,
    Clause,
    Definition,
    Expr,
    Fold,
    Index,
    Lookup,
    Move,
    Number,
    Position,
    Read,
    Symbol,
    TileProgram,
)
from tilegen.ir.uniform import symbols
from tilegen.ir.walk import parts, subexpressions

FOLD_KINDS = {"sum": 1, "max": 1, "min": 1, "expsum": 2, "softmax": 1, "logsumexp": 1}
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_ARITY = {
    **dict.fromkeys(("add", "sub", "mul", "div", "div_rn", "min", "max", "pow", "and", "or", *COMPARISONS), 2),
    **dict.fromkeys(
        (
            "neg",
            "not",
            "exp",
            "exp2",
            "log",
            "log2",
            "sqrt",
            "rsqrt",
            "tanh",
            "tanh_approx",
            "abs",
            "floor",
            "erf",
            "sigmoid",
        ),
        1,
    ),
    "select": 3,
}


class InvalidProgram(AssertionError):  # noqa: N818 - it names what is wrong, as an assertion does
    """A Tile program that no front end or pass may make."""


def verify(program: TileProgram) -> None:
    """Raises InvalidProgram, saying where and what, unless all this holds:

    names are declared once and resolved; a definition reads earlier ones only; indices have one entry a dimension and
    name known axes; a fold runs over axes that its body has; `axes` are the brackets and what is carried along;
    types follow from the arguments (arithmetic is f32, whole numbers stay whole under + - * min max abs neg, and
    narrower operands of f32 arithmetic stand there unconverted).
    """
    _Verifier(program).run()


class _Verifier:
    def __init__(self, program: TileProgram) -> None:
        self._program = program
        self._tree = AxisTree(program.axes)
        self._axes = {a.name for a in program.axes}
        self._tensors = {t.name: t for t in program.tensors}
        self._symbols = {s.name: DType.I32 for s in program.sizes} | {s.name: s.dtype for s in program.scalars}
        self._named: dict[str, Named] = {}
        self._dtypes: dict[str, DType] = {t.name: t.dtype for t in program.tensors if not t.output}

    def run(self) -> None:
        program = self._program
        self._unique()
        for axis in program.axes:
            self._poly(axis.extent, f"axis {axis.name}")
            if axis.split:
                inner, outer = program.axis(axis.split.inner), program.axis(axis.split.outer)
                self._hold(inner.extent * outer.extent == axis.extent, f"axis {axis.name}", "its parts' extents differ")
        for tensor in program.tensors:
            for dim in tensor.dims:
                self._poly(dim, tensor.name)
        for clause in program.domain:
            self._clause(clause)
        for move in program.moves:
            self._move(move)
        for definition in program.definitions:
            self._definition(definition)
        for schedule in program.schedules:
            self._schedule(schedule)

    def _hold(self, condition: bool, where: str, what: str) -> None:
        if not condition:
            raise InvalidProgram(f"{self._program.name}: {where}: {what}")

    def _unique(self) -> None:
        program = self._program
        named = (program.sizes, program.scalars, program.tensors, program.axes, program.moves)
        names: list[str] = [x.name for group in named for x in group]
        names += [d.name for d in program.definitions if not d.output]
        twice = {n for n in names if names.count(n) > 1}
        self._hold(not twice, "names", f"declared twice: {sorted(twice)}")
        outputs = [d.name for d in program.definitions if d.output]
        declared = [t.name for t in program.tensors if t.output]
        self._hold(sorted(outputs) == sorted(declared), "outputs", f"declared {declared}, defined {outputs}")

    # ---- indices ----

    def _poly(self, poly: Poly, where: str) -> None:
        unknown = poly.symbols - {n for n, dtype in self._symbols.items() if dtype is DType.I32}
        self._hold(not unknown, where, f"unknown sizes {sorted(unknown)}")

    def _index(self, index: Index, where: str) -> None:
        for axis in index_axes(index):
            self._hold(axis in self._axes, where, f"unknown axis {axis}")
        match index:
            case Affine(terms, offset):
                self._hold(all(c for _, c in terms), where, "a zero coefficient")
                self._hold(len({a for a, _ in terms}) == len(terms), where, "an axis twice in one form")
                self._poly(offset, where)
            case Lookup(table, inner):
                self._hold(table in self._tensors and not self._tensors[table].output, where, f"no table {table}")
                self._hold(self._tensors[table].dtype is DType.I32, where, f"the table {table} holds no integers")
                self._hold(len(inner) == len(self._tensors[table].dims), where, f"rank of {table}")
                for part in inner:
                    self._index(part, where)

    def _brackets(self, node: Move | Definition) -> None:
        self._hold(set(node.index) <= self._axes, node.name, "unknown axes in its brackets")
        self._hold(len(set(node.index)) == len(node.index), node.name, "an axis twice in its brackets")

    # ---- statements ----

    def _clause(self, clause: Clause) -> None:
        where = f"domain {', '.join(clause.axes)}"
        self._hold(set(clause.axes) <= self._axes, where, "unknown axes")
        self._hold(bool(clause.alternatives) and all(clause.alternatives), where, "an empty alternative")
        for member in chain.from_iterable(clause.alternatives):
            if isinstance(member, Affine):
                self._index(member, where)
                reached = index_axes(member)
            else:
                self._expr(member, where)
                self._hold(member.dtype is DType.BOOL, where, "a predicate that is no truth value")
                reached = free_axes(member, self._named, self._tree)
            self._hold(all(self._tree.covers(clause.axes, a) for a in reached), where, f"it depends on {reached}")
        if clause.guard:
            self._poly(clause.guard.left, where)
            self._poly(clause.guard.right, where)

    def _schedule(self, schedule: Schedule) -> None:
        where = f"schedule {schedule.target}"
        read = symbols(schedule.guard) if schedule.guard is not None else frozenset()
        whole = {name for name, dtype in self._symbols.items() if dtype is DType.I32}
        self._hold(read <= whole, where, f"a guard on {sorted(read - whole)}")
        ragged = {name for r in self._program.ragged for name in (r.size, r.over)}
        self._hold(not read & ragged, where, f"a guard on {sorted(read & ragged)}, of sequences")

    def _move(self, move: Move) -> None:
        self._brackets(move)
        tensor = self._tensors.get(move.tensor)
        self._hold(tensor is not None and not tensor.output, move.name, f"no input {move.tensor}")
        assert tensor is not None
        self._hold(len(move.at) == len(tensor.dims), move.name, f"rank of {tensor.name}")
        self._hold(move.dtype is tensor.dtype, move.name, f"{move.dtype} of a tensor of {tensor.dtype}")
        for part in move.at:
            self._index(part, move.name)
        reached = self._tree.normal(a for part in move.at for a in index_axes(part))
        self._hold(move.axes == reached, move.name, f"axes {move.axes}, reached {reached}")
        self._hold(all(self._tree.covers(reached, a) for a in move.index), move.name, "brackets that it cannot reach")
        self._add(move)

    def _definition(self, definition: Definition) -> None:
        name = definition.name
        self._brackets(definition)
        self._expr(definition.value, name)
        self._hold(definition.dtype is definition.value.dtype, name, f"{definition.dtype} of {definition.value.dtype}")
        carried = self._tree.minus(free_axes(definition.value, self._named, self._tree), definition.index)
        expected = definition.index + carried
        self._hold(
            definition.axes[: len(definition.index)] == definition.index and set(definition.axes) == set(expected),
            name,
            f"axes {definition.axes}, reached {expected}",
        )
        if definition.output:
            self._hold(not carried, name, f"an output that leaves out {carried}")
            self._hold(len(definition.index) == len(self._tensors[name].dims), name, "rank of the output")
        self._add(definition)

    def _add(self, node: Move | Definition) -> None:
        self._named[node.name] = Named.of(node, self._tree)
        self._dtypes[node.name] = node.dtype

    # ---- expressions ----

    def _expr(self, expr: Expr, where: str) -> None:
        for node in subexpressions(expr):
            self._node(node, where)

    def _node(self, node: Expr, where: str) -> None:
        match node:
            case Number(value, dtype):
                self._hold(dtype is not DType.I32 or value == int(value), where, f"the whole number {value}")
            case Symbol(name, dtype):
                self._hold(self._symbols.get(name) is dtype, where, f"no symbol {name} of type {dtype}")
            case Position(axis, dtype):
                self._hold(axis in self._axes and dtype is DType.I32, where, f"no position along {axis}")
            case Read(name, index, dtype):
                self._hold(name in self._dtypes, where, f"{name} is not defined before it is read")
                self._hold(self._dtypes[name] is dtype, where, f"{name} read as {dtype}")
                rank = len(self._named[name].index) if name in self._named else len(self._tensors[name].dims)
                self._hold(len(index) == rank, where, f"rank of {name}")
                for part in index:
                    self._index(part, where)
            case Apply(op, args, dtype):
                self._hold(len(args) == _ARITY.get(op), where, f"{op} of {len(args)} arguments")
                self._hold(dtype is _result(op, args), where, f"{op} of type {dtype}, not {_result(op, args)}")
            case Cast(value, dtype):
                self._hold(DType.BOOL not in (dtype, value.dtype), where, "a cast of a truth value")
            case Fold(kind, axes, args, _):
                self._hold(FOLD_KINDS.get(kind) == len(args), where, f"{kind} of {len(args)} arguments")
                self._hold(all(p.dtype is not DType.BOOL for p in parts(node)), where, f"{kind} of truth values")
                body = body_axes(node, self._named, self._tree)
                missing = [a for a in axes if a not in self._axes or not self._tree.covers(body, a)]
                self._hold(not missing, where, f"{kind} over {missing}, which the body does not have")


def _result(op: str, args: tuple[Expr, ...]) -> DType | None:
    """The type that `op` must have, or None if its arguments have types that it does not take."""
    dtypes = [a.dtype for a in args]
    if op in ("and", "or", "not"):
        return DType.BOOL if set(dtypes) == {DType.BOOL} else None
    if op == "select":
        if dtypes[0] is not DType.BOOL or DType.BOOL in dtypes[1:]:
            return None
        return dtypes[1] if dtypes[1] is dtypes[2] else DType.F32
    if DType.BOOL in dtypes:
        return None
    if op in COMPARISONS:
        return DType.BOOL
    whole = set(dtypes) == {DType.I32} and op in ("add", "sub", "mul", "neg", "abs", "min", "max")
    return DType.I32 if whole else DType.F32
