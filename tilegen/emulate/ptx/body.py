"""Reads one function body: declarations, labels, instructions with operands."""

from __future__ import annotations

from tilegen.emulate.ptx.cfg import leaders_of, schedule_order
from tilegen.emulate.ptx.cursor import Cursor
from tilegen.emulate.ptx.declarations import variables
from tilegen.emulate.ptx.decode import Decoded, decode
from tilegen.emulate.ptx.faults import syntax_error
from tilegen.emulate.ptx.literals import number
from tilegen.emulate.ptx.module import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Not,
    Operand,
    Pair,
    Place,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from tilegen.emulate.ptx.scope import RegisterCount, Scope
from tilegen.emulate.ptx.specials import is_special
from tilegen.emulate.ptx.types import TYPES
from tilegen.syntax.span import Span

_BRANCHES = {"bra", "brx", "call"}


class Body:
    """A function whose header is read: `read` consumes its body, `finish` resolves labels and decodes."""

    def __init__(
        self,
        cursor: Cursor,
        name: str,
        entry: bool,
        params: tuple[Variable, ...],
        results: tuple[Variable, ...],
        count: RegisterCount,
        files: dict[int, str],
        variables: dict[str, Variable],
    ) -> None:
        self.c, self.name, self.entry = cursor, name, entry
        self.params, self.results = params, results
        self.files, self.module_variables = files, variables
        self.count = count
        self.scope = Scope(count)
        for variable in (*params, *results):
            self.scope.variables[variable.name] = variable
        self.locals: list[Variable] = []
        self.raw: list[tuple[Instruction, Scope]] = []
        self.place_source: Span | None = None
        self.calls: dict[tuple[int, int, int], Span] = {}
        self.scopes = 0
        self.max_threads = self.max_registers = self.min_blocks = 0
        self.cluster = (1, 1, 1)

    def attributes(self) -> None:
        """Performance and cluster directives between header and body."""
        c = self.c
        while c.next.text.startswith("."):
            word = c.take().text
            values: list[int] = []
            while c.next.kind == "number":
                values.append(c.integer())
                c.accept(",")
            threads = 1
            for value in values:
                threads *= value
            if word in (".maxntid", ".reqntid"):
                self.max_threads = threads
            elif word == ".maxnreg":
                self.max_registers = values[0]
            elif word == ".minnctapersm":
                self.min_blocks = values[0]
            elif word == ".reqnctapercluster":
                x, y, z = (*values, 1, 1)[:3]
                self.cluster = (x, y, z)
            elif word == ".pragma":
                c.take()
                c.expect(";")
            elif word not in (".noreturn", ".explicitcluster", ".maxclusterrank", ".blocksareclusters"):
                syntax_error(f"unknown directive {word!r}", Place(c.next.line))

    def read(self) -> None:
        """The body, from `{` to its `}`."""
        c = self.c
        c.expect("{")
        depth = 1
        while depth:
            token = c.next
            if token.kind == "end":
                syntax_error(f"the body of {self.name} does not end", Place(token.line))
            if c.accept("{"):
                depth += 1
                self.scopes += 1
                self.scope = Scope(self.count, self.scope, self.scopes)
            elif c.accept("}"):
                depth -= 1
                self.scope = self.scope.parent or self.scope
            elif c.accept(";"):
                continue
            elif token.text.startswith("."):
                self._directive()
            elif c.peek().text == ":" and token.kind == "word":
                c.take()
                c.take()
                self._label(token.text)
            else:
                self._instruction()

    def _label(self, name: str) -> None:
        c = self.c
        if c.next.text in (".branchtargets", ".calltargets"):
            c.take()
            names = [c.take().text]
            while c.accept(","):
                names.append(c.take().text)
            c.expect(";")
            self.scope.tables[name] = tuple(names)
        elif c.next.text == ".callprototype":
            while not c.accept(";"):
                c.take()
        else:
            self.scope.labels[name] = len(self.raw)

    def _directive(self) -> None:
        c = self.c
        word = c.next.text
        if word == ".reg":
            c.take()
            kind = c.take().text[1:]
            if kind not in TYPES:
                syntax_error(f"there is no type {kind!r} of registers", Place(c.next.line))
            while True:
                name = c.take().text
                extent = None
                if c.accept("<"):
                    extent = c.integer()
                    c.expect(">")
                self.scope.declare(name, kind, extent)
                if not c.accept(","):
                    break
            c.expect(";")
        elif word == ".loc":
            c.take()
            self._loc()
        elif word == ".pragma":
            while not c.accept(";"):
                c.take()
        elif word in (".local", ".shared", ".param", ".const", ".global"):
            for variable in variables(c, False):
                self._local(variable)
        else:
            syntax_error(f"unknown directive {word!r}", Place(c.next.line))

    def _local(self, variable: Variable) -> None:
        unique = Variable(
            f"{self.name}::{variable.name}${self.scope.number}",
            variable.space,
            variable.align,
            variable.size,
            variable.init,
            variable.extern,
        )
        self.scope.variables[variable.name] = unique
        self.locals.append(unique)

    def _loc(self) -> None:
        spot = (self.c.integer(), self.c.integer(), self.c.integer())
        words = [token.text for token in self.c.rest_of_line()]
        self.place_source = self._span(spot)
        # Of code that was inlined the outermost place counts; calls are named by a place that stood before.
        if "inlined_at" in words:
            at = words.index("inlined_at") + 1
            outer = tuple(int(n) for n in words[at : at + 3] if n.isdigit())
            if len(outer) == 3:
                self.place_source = self.calls.get(outer) or self._span(outer)
        self.calls[spot] = self.place_source

    def _span(self, spot: tuple[int, int, int]) -> Span:
        file, line, column = spot[0], spot[1], max(spot[2], 1)
        return Span(self.files.get(file, f"file {file}"), line, column, line, column + 1)

    def _instruction(self) -> None:
        c = self.c
        place = Place(c.next.line, self.place_source)
        guard, negated = None, False
        if c.accept("@"):
            negated = c.accept("!")
            name = c.take().text
            guard = self.scope.register(name)
            if guard is None or guard.width != 1:
                syntax_error(f"{name} is not a declared predicate register", place)
        opcode, *modifiers = c.take().text.split(".")
        operands: list[Operand] = []
        branch = opcode in _BRANCHES
        while not c.accept(";"):
            if c.next.kind == "end":
                syntax_error("the text ends inside an instruction", place)
            operands.append(self._operand(place, branch))
            if not c.accept(",") and c.next.text != ";":
                syntax_error(f"expected ',' or ';' after an operand, found {c.next.text!r}", place)
        instruction = Instruction(opcode, tuple(modifiers), tuple(operands), place, guard, negated)
        self.raw.append((instruction, self.scope))

    def _operand(self, place: Place, branch: bool) -> Operand:
        c = self.c
        text = c.next.text
        if text in ("{", "("):
            close = "}" if c.take().text == "{" else ")"
            items: list[Operand] = []
            while not c.accept(close):
                items.append(self._operand(place, False))
                c.accept(",")
            return Vector(tuple(items))
        if text == "[":
            return self._address(place)
        if c.accept("!"):
            operand = self._operand(place, False)
            if not isinstance(operand, Register) or operand.width != 1:
                syntax_error("'!' wants a predicate register", place)
            return Not(operand)
        if c.next.kind == "number" or text in ("-", "~"):
            return number(c)
        first = self._word(c.take().text, place, branch)
        if c.accept("|"):
            second = self._word(c.take().text, place, branch)
            if not isinstance(first, Register | Sink) or not isinstance(second, Register | Sink):
                syntax_error("'|' joins two destination registers", place)
            return Pair(first, second)
        if isinstance(first, Symbol) and c.accept("+"):
            return Symbol(first.name, int(number(c).value))
        return first

    def _word(self, text: str, place: Place, branch: bool) -> Operand:
        if text == "_":
            return Sink()
        register = self.scope.register(text)
        if register is not None:
            return register
        if text == "WARP_SZ":
            return Immediate(32)
        if text.startswith("%"):
            if is_special(text):
                return Special(text)
            syntax_error(f"{text} is neither a declared register nor a special register that the emulator knows", place)
        if branch:
            return Label(text)
        variable = self.scope.variable(text) or self.module_variables.get(text)
        if variable is None:
            syntax_error(f"{text} is not declared", place)
        return Symbol(variable.name)

    def _address(self, place: Place) -> Address:
        c = self.c
        c.expect("[")
        base: Operand
        base = number(c) if c.next.kind == "number" else self._word(c.take().text, place, False)
        offset = 0
        if c.next.text in ("+", "-"):
            offset = int(number(c).value)
        coordinates: tuple[Operand, ...] = ()
        if c.accept(","):
            inner = self._operand(place, False)
            coordinates = inner.items if isinstance(inner, Vector) else (inner,)
        c.expect("]")
        if not isinstance(base, Register | Symbol | Immediate):
            syntax_error("an address wants a register, a variable or a number", place)
        return Address(base, offset, coordinates)

    def finish(self, functions: set[str]) -> Function:
        """Labels resolved, instructions decoded, scheduling order computed."""
        instructions = [self._resolve(i, scope, functions) for i, scope in self.raw]
        decoded: list[Decoded] = [decode(i) for i in instructions]
        code = tuple(instructions)
        leaders = leaders_of(code)
        return Function(
            self.name,
            self.entry,
            self.params,
            self.results,
            tuple(self.locals),
            code,
            tuple(decoded),
            leaders,
            schedule_order(code, leaders),
            self.max_threads,
            self.max_registers,
            self.min_blocks,
            self.cluster,
        )

    def _resolve(self, instruction: Instruction, scope: Scope, functions: set[str]) -> Instruction:
        if instruction.opcode not in _BRANCHES:
            return instruction
        operands: list[Operand] = []
        for operand in instruction.operands:
            if not isinstance(operand, Label) or instruction.opcode == "call":
                operands.append(operand)
            elif (names := scope.table(operand.name)) is not None:
                operands.append(Vector(tuple(self._target(n, scope, instruction.place) for n in names)))
            else:
                operands.append(self._target(operand.name, scope, instruction.place))
        return Instruction(
            instruction.opcode,
            instruction.modifiers,
            tuple(operands),
            instruction.place,
            instruction.guard,
            instruction.guard_negated,
        )

    def _target(self, name: str, scope: Scope, place: Place) -> Label:
        target = scope.label(name)
        if target is None:
            syntax_error(f"label {name} is not declared", place)
        return Label(name, target)
