"""What an entry of the catalogue is."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics.codes import Code

# What the author can do where tilegen's own checks refuse what tilegen made of a spec.
REPORT = "this is a fault of tilegen, not of the spec, and nothing was built: report it with the spec"


@dataclass(frozen=True)
class Entry:
    """A catalogue entry: the message (a format string over the diagnostic's fields), the rule behind it
    with its origin, and what the author can do."""

    code: Code
    message: str
    fixes: tuple[str, ...]
    rule: str = ""

    @property
    def internal(self) -> bool:
        """Whether tilegen is at fault, not its input: the message then speaks of the plan or kernel that it made, at
        the statement of the spec that this part of it stems from."""
        return REPORT in self.fixes
