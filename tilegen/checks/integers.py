"""Whether a launch's positions and counts fit the 32-bit integers that kernels compute them in.

Interval arithmetic over a plan's uniform expressions, at the sizes and scalars of one launch. Every intermediate
must fit, as the machine wraps around without a word. What is never reached (an untaken branch, an empty loop) is
not judged. What the host computes, in wider integers, needs to fit only where it is handed to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir import plan as ir
from tilegen.ir.plan_walk import parts, uniforms
from tilegen.ir.uniform import Int, Op, Sym, Uniform, op, symbols, text
from tilegen.syntax.span import Span

Interval = tuple[int, int]  # lowest and highest value, both included

_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
_ROWS = 64  # of a fragment
_ROW_COLUMNS = 7  # columns among which each lane's first lies
_TRUTH = {(False, False): (0, 1), (True, False): (1, 1), (False, True): (0, 0)}  # by (surely, surely not)


def check_integers(plan: ir.Plan, values: Mapping[str, int]) -> None:
    """Raises TilegenError (INTEGER_RANGE) for the first integer of the plan that may leave int32.

    `values`: every size and integer scalar, and `sm_count`.
    """
    known = {name: (value, value) for name, value in values.items()}
    fields: dict[str, Interval] = {}
    if plan.table is not None and plan.table.sequences is not None:
        fields = _of_sequences(plan, plan.table, plan.table.sequences, _Scope(plan, values, known, {}, None))
    elif plan.table is not None:
        host = _Scope(plan, values, known, {}, None)
        total = host.interval(plan.table.total)
        if total[1] > 0:
            host.known[plan.table.item] = (0, total[1] - 1)
            for let in plan.table.lets:
                host.known[let.name] = host.interval(let.value)
                host.made[let.name] = let.value
            fields = {name: host.known[name] for name in plan.table.fields}
            spans = {let.name: let.span for let in plan.table.lets}
            for name, found in fields.items():
                if name in spans and not _fits(found):
                    host.refuse(Sym(name), found, spans[name])
    for role in plan.roles:
        launched = {"warpgroup": (0, role.warpgroups - 1), ir.CLUSTER_RANK: (0, plan.cluster - 1)}
        scope = _Scope(plan, values, {**known, **launched}, {}, None)
        _Role(plan, role, fields).body(role.body, scope)


def _of_sequences(plan: ir.Plan, table: ir.ItemTable, q: ir.Sequences, scope: _Scope) -> dict[str, Interval]:
    """The intervals of the fields of a table that the device makes: there nothing may leave int32."""
    for let in q.given:
        scope.known[let.name] = scope.interval(let.value)
        scope.made[let.name] = let.value
    scope.span = next((r.body[0].span for r in plan.roles), None)
    for expression in (
        q.count,
        table.total,
        q.scratch,
        *(x.tokens for x in q.lengths),
        *(Sym(x.name) for x in q.given),
    ):
        scope.interval(expression)
    total, most, count = (scope.interval(e)[1] for e in (table.total, q.most_units, q.count))
    if total <= 0:
        return {}
    scope.known |= {q.all_units: (0, most), table.item: (0, total - 1), q.position: (0, max(count - 1, 0))}
    scope.made[table.item] = scope.made[q.position] = table.total
    for x in q.lengths:
        tokens = scope.interval(x.tokens)[1]
        scope.known |= {x.start: (0, tokens), x.length: (0, tokens)}
        scope.made |= {x.start: x.tokens, x.length: x.tokens}
    scope.known[q.unit] = (0, max(scope.interval(q.units)[1] - 1, 0))
    scope.made[q.unit] = q.units
    scope.interval(q.items)
    for let in (*q.ranking, *table.lets):
        scope.span = let.span
        scope.known[let.name] = scope.interval(let.value)
        scope.made[let.name] = let.value
    scope.interval(table.cost)
    return {name: scope.known[name] for name in table.fields}


def _fits(found: Interval) -> bool:
    return found[0] >= _LOWEST and found[1] <= _HIGHEST


class _Scope:
    """The intervals of names, and the expressions that names stand for. span: the operation's; None on the host,
    where integers are wider."""

    def __init__(
        self,
        plan: ir.Plan,
        values: Mapping[str, int],
        known: dict[str, Interval],
        made: dict[str, Uniform],
        span: Span | None,
    ) -> None:
        self.plan, self.values, self.known, self.made, self.span = plan, values, known, made, span

    def inner(self) -> _Scope:
        return _Scope(self.plan, self.values, dict(self.known), dict(self.made), self.span)

    def interval(self, e: Uniform) -> Interval:
        """The interval of an expression."""
        if isinstance(e, Sym):
            found = self.known[e.name]
        elif isinstance(e, Int):
            found = (e.value, e.value)
        else:
            found = self._operation(e)
        if self.span is not None and not (found[0] >= _LOWEST and found[1] <= _HIGHEST):
            self.refuse(e, found, self.span)
        return found

    def _operation(self, e: Op) -> Interval:
        a = self.interval(e.args[0])
        if e.op == "select":
            if a == (0, 0):
                return self.interval(e.args[2])
            b = self.interval(e.args[1])
            if a[0] > 0 or a[1] < 0:
                return b
            c = self.interval(e.args[2])
            return min(b[0], c[0]), max(b[1], c[1])
        if (e.op == "and" and a == (0, 0)) or (e.op == "or" and a[0] > 0):
            return int(e.op == "or"), int(e.op == "or")  # the right side is not computed
        b = self.interval(e.args[1])
        if e.op == "sub" and self._is_rest(e.args[0], e.args[1]):
            divisor = self.interval(e.args[1].args[1])  # type: ignore[union-attr]
            if a[0] >= 0:
                return 0, min(a[1], max(divisor[1] - 1, 0))
        if e.op == "ceildiv" and a[0] >= 0 and self.span is not None and a[1] + b[1] - 1 > _HIGHEST:
            self.refuse(e, (a[0], a[1] + b[1] - 1), self.span)  # computed as (a + b - 1) / b
        return _INTERVALS[e.op](a, b)

    def _is_rest(self, whole: Uniform, taken: Uniform) -> bool:
        """Whether `taken` is n * d and n stands for whole div d: what is left is in [0, d)."""
        if not (isinstance(taken, Op) and taken.op == "mul" and isinstance(taken.args[0], Sym)):
            return False
        return self.made.get(taken.args[0].name) == Op("floordiv", (whole, taken.args[1]))

    def refuse(self, e: Uniform, found: Interval, span: Span) -> NoReturn:
        pending, names, seen = list(symbols(e)), set(), set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.values and name != "sm_count":
                names.add(name)
            elif name in self.made:
                pending += symbols(self.made[name])
        given = ", ".join(f"{name} = {self.values[name]}" for name in sorted(names))
        value = str(found[0]) if found[0] == found[1] else f"{found[0]} to {found[1]}"
        fail(
            Code.INTEGER_RANGE, span, got=f"{value}, with {given}" if given else value,
            wanted=f"{_LOWEST} to {_HIGHEST}", kernel=self.plan.name, expression=text(e),
            names=", ".join(sorted(names)) or "the sizes",
        )  # fmt: skip


_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_PLACES = {"row": "element.row", "col": "element.col"}


def _whole(e: ir.ElementExpr) -> Uniform | None:
    """A whole number over the places of elements; None if it is none, or reads what only the device knows."""
    match e:
        case ir.Literal(value) if float(value).is_integer():
            return Int(int(value))
        case ir.IntValue(value):
            return value
        case ir.Coordinate(along, origin, digit):
            place = op("floordiv", _PLACES[along], digit.divide if digit else 1)
            return op("add", origin, op("mod", place, digit.modulo) if digit and digit.modulo else place)
        case ir.Compute("fma", (a, b, c)):
            return _whole(ir.Compute("add", (ir.Compute("mul", (a, b)), c)))
        case ir.Compute("add" | "sub" | "mul" as name, (a, b)):
            left, right = _whole(a), _whole(b)
            return None if left is None or right is None else op(name, left, right)
        case ir.Compute("neg", (a,)):
            inner = _whole(a)
            return None if inner is None else op("sub", 0, inner)
    return None


class _Role:
    """The walk over one role's operations."""

    def __init__(self, plan: ir.Plan, role: ir.RolePlan, fields: Mapping[str, Interval]) -> None:
        self._plan = plan
        self._fragments = {f.name: f for f in role.fragments}
        self._fields = fields

    def body(self, operations: tuple[ir.Operation, ...], scope: _Scope) -> None:
        for operation in operations:
            scope.span = operation.span
            match operation:
                case ir.Let(name, value):
                    scope.known[name] = scope.interval(value)
                    scope.made[name] = value
                case ir.Work():
                    self._work(operation, scope)
                case ir.For(var, start, stop):
                    low, high = scope.interval(start), scope.interval(stop)
                    if low[0] < high[1]:
                        inner = scope.inner()
                        inner.known[var] = (low[0], high[1] - 1)
                        inner.made[var] = op("add", start, stop)  # what it depends on
                        self.body(operation.body, inner)
                case ir.If(condition):
                    if scope.interval(condition) != (0, 0):
                        self.body(operation.body, scope.inner())
                case ir.IfVote() | ir.IfSpoiled() | ir.Sweep():
                    self.body(operation.body, scope.inner())
                case _:
                    self._plain(operation, scope)

    def _work(self, work: ir.Work, scope: _Scope) -> None:
        total = scope.interval(work.total)
        if work.mode == "static":  # the item behind the last is computed before it is compared
            scope.interval(op("add", work.total, scope.plan.grid))
        if total[1] <= 0:
            return
        inner = scope.inner()
        inner.known[work.index] = (0, total[1] - 1)
        inner.made[work.index] = work.total
        inner.known.update((name, self._fields[name]) for name in work.fields)
        if scope.plan.table is not None:
            inner.made.update((let.name, let.value) for let in scope.plan.table.lets)
            if scope.plan.table.sequences is not None:
                inner.made.update((x.length, x.tokens) for x in scope.plan.table.sequences.lengths)
                inner.made.update((x.start, x.tokens) for x in scope.plan.table.sequences.lengths)
        self.body(work.body, inner)

    def _mask(self, mask: ir.Mask, scope: _Scope) -> None:
        """Judges the alternatives that matter: a clause whose guard is off leaves one that is never the only one."""
        alternatives: list[tuple[ir.Bound, ...]] = []
        columns = self._fragments[mask.fragment].cols
        for conditions in mask.alternatives:
            group = tuple(c for c in conditions if isinstance(c, ir.Bound))
            for condition in conditions:
                if not isinstance(condition, ir.Bound):
                    self._places(condition, columns, scope)
                    self._comparisons(condition, columns, scope)
            fixed = {b: scope.interval(b.offset) for b in group if b.uniform}
            if all(high >= 0 for _, high in fixed.values()):
                alternatives.append(tuple(b for b in group if b not in fixed or fixed[b][0] < 0))
        for n, group in enumerate(alternatives):
            others = alternatives[:n] + [g for g in alternatives[n + 1 :] if set(g) != set(group)]
            if any(set(g) <= set(group) for g in others):
                continue
            for bound in group:
                rows = 1 if bound.row_chunks is not None else _ROWS
                cols = 1 if bound.col_chunks is not None else columns
                digits = ((factor, _count(d)) for factor, d in bound.digits)
                self._reach(bound.offset, ((bound.row_factor, rows), *digits, (bound.col_factor, cols)), scope)
                self._chunks(bound, columns, scope)

    def _chunks(self, bound: ir.Bound, columns: int, scope: _Scope) -> None:
        """Checks the ends of chunks that a bound is solved for, each chunk number being one that positions have."""
        for chunks, factor, most in (
            (bound.row_chunks, bound.row_factor, _ROWS),
            (bound.col_chunks, bound.col_factor, columns),
        ):
            if chunks is not None:
                count = chunks.digit.positions if chunks.digit else most
                self._reach(chunks.origin, ((1, count),), scope)
                number = op("floordiv", op("add", chunks.origin, count), chunks.length)
                end = op("mul", op("add", number, 1), chunks.length)
                scope.interval(op("add", op("mul", number, factor), bound.offset))
                scope.interval(end)

    def _plain(self, operation: ir.Operation, scope: _Scope) -> None:
        if isinstance(operation, ir.Mask):
            self._mask(operation, scope)
            return
        for expression in uniforms(operation):
            scope.interval(expression)
        match operation:
            case ir.StoreRows(fragment, _, index):
                self._rows(operation.shared, index, operation.row_dim, scope)
                self._reach(index[operation.col_dim], ((1, self._fragments[fragment].cols),), scope)
            case ir.CopyTile(_, index, slot, steps):
                buffer = self._plan.buffer(self._plan.ring(slot.ring).buffer)
                for step in steps:
                    self._reach(index[step.dim], ((1, step.digit.modulo or buffer.rows),), scope)
                columns = -(-buffer.cols // buffer.chunk) * buffer.chunk
                self._reach(index[operation.col_dim], ((1, columns),), scope)
            case ir.StoreVector(_, _, index, dim):
                self._rows(operation.shared, index, dim, scope)
            case ir.LoadVector(fragment, _, index, dim):
                made = self._fragments[fragment]
                count = made.cols if made.layout == "col" else _count(operation.digit)
                self._reach(index[dim], ((1, count),), scope)
            case ir.Mend():
                keys, columns = (self._fragments[f].cols for f in (operation.live, operation.fragment))
                self._reach(operation.index[operation.dim], ((1, keys),), scope)
                self._reach(operation.index[operation.col_dim], ((1, columns),), scope)
            case ir.Map(out, value):
                columns = self._fragments[out].cols
                self._places(value, columns, scope)
                for at in parts(value, ir.Place):
                    first = _ROW_COLUMNS if self._fragments[out].layout == "row" else columns
                    rows = ((at.row_factor, _ROWS), *((factor, _count(d)) for factor, d in at.digits))
                    self._reach(at.offset, (*rows, (at.col_factor, first)), scope)

    def _places(self, value: ir.ElementExpr, columns: int, scope: _Scope) -> None:
        """Checks the positions of elements in an expression over a fragment."""
        for place in parts(value, ir.Coordinate):
            self._reach(place.origin, ((1, _count(place.digit) if place.along == "row" else columns),), scope)

    def _comparisons(self, condition: ir.ElementExpr, columns: int, scope: _Scope) -> None:
        """Checks the sides of comparisons that are made in integers, elements of tensors left out."""
        inner = scope.inner()
        inner.known |= {_PLACES["row"]: (0, _ROWS - 1), _PLACES["col"]: (0, columns - 1)}
        for c in parts(condition, ir.Compute):
            if c.op in _COMPARISONS:
                sides = [_whole(side) for side in c.args]
                for side in sides:
                    if side is not None and None not in sides:
                        inner.interval(side)

    def _rows(self, shared: tuple[ir.RowStep, ...], index: tuple[Uniform, ...], dim: int, scope: _Scope) -> None:
        if not shared:
            self._reach(index[dim], ((1, _ROWS),), scope)
        for step in shared:
            self._reach(index[step.dim], ((1, _count(step.digit)),), scope)

    def _reach(self, origin: Uniform, along: tuple[Interval, ...], scope: _Scope) -> None:
        """Checks factor * position, summed over the directions (factor, count), and that with `origin`."""
        low, high = scope.interval(origin)
        assert scope.span is not None
        for factor, count in along:
            step = factor * (count - 1)
            low, high = low + min(step, 0), high + max(step, 0)
            if not (low >= _LOWEST and high <= _HIGHEST):
                scope.refuse(origin, (low, high), scope.span)
            if not _LOWEST <= step <= _HIGHEST:
                scope.refuse(origin, (step, step), scope.span)


def _count(digit: ir.Digit | None) -> int:
    """Positions that the rows of a warpgroup reach along an axis."""
    return _ROWS if digit is None else digit.positions


def _product(a: Interval, b: Interval) -> Interval:
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners), max(corners)


def _floor(a: Interval, b: Interval) -> Interval:
    least, most = max(b[0], 1), max(b[1], 1)  # divisors are positive
    return (a[0] // (least if a[0] < 0 else most), a[1] // (most if a[1] < 0 else least))


def _ceil(a: Interval, b: Interval) -> Interval:
    low, high = _floor((-a[1], -a[0]), b)
    return -high, -low


def _rest(a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and a[1] < max(b[0], 1):
        return a
    return 0, min(max(b[1], 1) - 1, a[1]) if a[0] >= 0 else max(b[1], 1) - 1


def _less(a: Interval, b: Interval) -> Interval:
    return _TRUTH[a[1] < b[0], a[0] >= b[1]]


def _at_most(a: Interval, b: Interval) -> Interval:
    return _TRUTH[a[1] <= b[0], a[0] > b[1]]


def _equal(a: Interval, b: Interval) -> Interval:
    return _TRUTH[a[0] == a[1] == b[0] == b[1], a[1] < b[0] or b[1] < a[0]]


def _not(a: Interval) -> Interval:
    return 1 - a[1], 1 - a[0]


def _is_true(a: Interval) -> Interval:
    return _TRUTH[a[0] > 0 or a[1] < 0, a == (0, 0)]


_INTERVALS: Mapping[str, Callable[[Interval, Interval], Interval]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "floordiv": _floor,
    "ceildiv": _ceil,
    "mod": _rest,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "lt": _less,
    "le": _at_most,
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _at_most(b, a),
    "eq": _equal,
    "ne": lambda a, b: _not(_equal(a, b)),
    "and": lambda a, b: _product(_is_true(a), _is_true(b)),
    "or": lambda a, b: _not(_product(_not(_is_true(a)), _not(_is_true(b)))),
}
