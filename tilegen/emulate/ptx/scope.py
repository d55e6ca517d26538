"""Names inside a function body: registers, variables and labels, nested by `{ }`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tilegen.emulate.ptx.module import Register, Variable
from tilegen.emulate.ptx.types import TYPES

_NUMBERED = re.compile(r"^(.*?)(\d+)$")


@dataclass
class RegisterCount:
    """How many registers of each width the module has handed out."""

    used: dict[int, int] = field(default_factory=dict)

    def new(self, name: str, width: int) -> Register:
        """A fresh register of `width` bits (predicates 1; 8-bit ones take 16)."""
        width = 16 if width == 8 else width
        index = self.used.get(width, 0)
        self.used[width] = index + 1
        return Register(name, width, index)


@dataclass
class Scope:
    """One `{ }` level. Registers get their index at first use, so that declared but unused ones cost nothing."""

    count: RegisterCount
    parent: Scope | None = None
    number: int = 0
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def declare(self, name: str, ptx_type: str, number: int | None) -> None:
        """`.reg .type name;` or, with `number`, `.reg .type name<number>;`."""
        width = TYPES[ptx_type].bits
        if number is None:
            self.widths[name] = width
        else:
            self.ranges[name] = (width, number)

    def register(self, name: str) -> Register | None:
        """The register that `name` means here, or None."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.registers.get(name)
            if found is None:
                width = scope._declared(name)
                if width is not None:
                    found = scope.registers[name] = scope.count.new(name, width)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def _declared(self, name: str) -> int | None:
        if name in self.widths:
            return self.widths[name]
        match = _NUMBERED.match(name)
        entry = self.ranges.get(match.group(1)) if match else None
        if match and entry and int(match.group(2)) < entry[1]:
            return entry[0]
        return None

    def variable(self, name: str) -> Variable | None:
        """The variable declared as `name` in this or an outer level of the function, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None

    def label(self, name: str) -> int | None:
        """Index of the instruction after label `name`, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None

    def table(self, name: str) -> tuple[str, ...] | None:
        """The labels of the `.branchtargets` list `name`, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tables:
                return scope.tables[name]
            scope = scope.parent
        return None
