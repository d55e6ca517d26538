"""Reads PTX text into a Module. Instructions are decoded here, so that an unknown one is found before anything runs."""

from __future__ import annotations

import re

from tilegen.emulate.ptx.body import Body
from tilegen.emulate.ptx.cursor import Cursor
from tilegen.emulate.ptx.declarations import variable, variables
from tilegen.emulate.ptx.faults import syntax_error
from tilegen.emulate.ptx.module import Function, Module, Place, Variable
from tilegen.emulate.ptx.scope import RegisterCount

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LINKAGE = {".visible", ".extern", ".weak", ".common"}
_SPACES = {".global", ".const", ".shared", ".local", ".param"}


def parse(ptx: str) -> Module:
    """The module in `ptx`. Raises TilegenError for a syntax fault or an unknown instruction, with its PTX line and,
    where the text has `.loc`, the source line."""
    return _ModuleParser(ptx).module()


class _ModuleParser:
    def __init__(self, ptx: str) -> None:
        self.cursor = Cursor(ptx)
        self.count = RegisterCount()
        # The file table may stand at the end of the text, after the .loc that use it.
        self.files = {int(number): name for number, name in _FILE.findall(ptx)}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.bodies: list[Body] = []
        self.version = self.target = ""

    def module(self) -> Module:
        c = self.cursor
        while c.next.kind != "end":
            word = c.next.text
            if word == ".version":
                c.take()
                self.version = c.take().text
            elif word == ".target":
                c.take()
                self.target = ",".join(t.text for t in c.rest_of_line())
            elif word == ".address_size":
                c.take()
                c.take()
            elif word == ".file":
                c.take()
                c.rest_of_line()
            elif word == ".section":
                c.take()
                c.take()
                c.skip_braces()
            elif word == ".pragma":
                c.take()
                while not c.accept(";"):
                    c.take()
            elif word in _LINKAGE or word in _SPACES or word in (".entry", ".func", ".alias"):
                self._declaration()
            else:
                syntax_error(f"cannot read {word!r} here", Place(c.next.line))
        for body in self.bodies:
            function = body.finish(set(self.functions) | {b.name for b in self.bodies})
            self.functions[function.name] = function
        return Module(self.version, self.target, self.functions, self.variables, dict(self.count.used))

    def _declaration(self) -> None:
        c = self.cursor
        extern = False
        while c.next.text in _LINKAGE:
            extern |= c.take().text == ".extern"
        if c.next.text in (".entry", ".func"):
            self._function(entry=c.take().text == ".entry")
            return
        for declared in variables(c, extern):
            self.variables[declared.name] = declared

    def _function(self, entry: bool) -> None:
        c = self.cursor
        results = self._params() if c.next.text == "(" else ()
        name = c.take().text
        params = self._params() if c.next.text == "(" else ()
        body = Body(c, name, entry, params, results, self.count, self.files, self.variables)
        body.attributes()
        if c.accept(";"):
            return
        body.read()
        self.bodies.append(body)

    def _params(self) -> tuple[Variable, ...]:
        c = self.cursor
        c.expect("(")
        out: list[Variable] = []
        while not c.accept(")"):
            out.append(variable(c, c.take().text[1:], False))
            c.accept(",")
        return tuple(out)
