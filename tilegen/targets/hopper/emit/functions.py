"""The device functions of a kernel: rendered from templates/hopper, each once, in the order of need."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tilegen.resources import resource
from tilegen.targets.hopper.emit.bytecode import Bytecode
from tilegen.targets.hopper.emit.names import Names

_NAME = "\0name\0"
# What a macro calls, by the parameter through which it is told the name.
_CALLS: dict[str, dict[str, str]] = {
    "ratio": {"rcp": "rcp"},
    "tanh_f32": {"minimum": "minimum", "maximum": "maximum", "rcp": "rcp"},
    "erf_f32": {"ex2": "ex2"},
    "floor_mod": {"floor_div": "floor_div"},
    "release_by_warpgroup": {"arrive": "mbarrier_arrive"},
    "release_by_warp": {"arrive": "mbarrier_arrive"},
    "release_to_sharers": {"arrive": "arrive_at"},
    "scan": {"load": "load_words"},
}
_FILES = (
    "barriers.j2",
    "tma.j2",
    "products.j2",
    "warp_products.j2",
    "arithmetic.j2",
    "fragments.j2",
    "tensors.j2",
    "scan.j2",
    "copies.j2",
    "deal.j2",
)


@cache
def environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(resource("templates", "hopper")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=Bytecode(),
    )


@cache
def _sources() -> dict[str, tuple[str, str]]:
    """macro → (its file, its body). Reading them is quick; a file is compiled when a kernel needs one of its macros."""
    found = {}
    for file in _FILES:
        source = (resource("templates", "hopper") / file).read_text(encoding="utf-8")
        for name, body in re.findall(r"{% macro (\w+)\(.*?%}(.*?){% endmacro %}", source, re.S):
            found[name] = file, body
    return found


@cache
def _macro(name: str) -> Callable[..., object]:
    found: Callable[..., object] = getattr(environment().get_template(_sources()[name][0]).module, name)
    return found


@cache
def _words(macro: str) -> frozenset[str]:
    """The identifiers that a macro writes itself."""
    plain = re.sub(r"{%.*?%}|{{.*?}}|{#.*?#}|//[^\n]*|\"[^\"\n]*\"", " ", _sources()[macro][1], flags=re.S)
    return frozenset(re.findall(r"[A-Za-z_]\w*", plain))


class Functions:
    """Grows while the roles are printed; `texts` are the definitions."""

    def __init__(self) -> None:
        self.names = Names()  # of the functions: the scope around the kernel and around each function
        self.texts: list[str] = []
        self._named: dict[tuple[str, str], str] = {}

    def local(self, macro: str = "") -> Names:
        """A scope for the kernel, or for the body of one function, with the words that its macro uses taken."""
        return Names(self.names, _words(macro) if macro else frozenset())

    def helper(self, macro: str) -> str:
        """The name of a function that is the same in every kernel, named as its macro."""
        return self.specific(macro, macro)

    def specific(self, wish: str, macro: str, **fields: object) -> str:
        """The name of a function made for one kind of op; the same text under the same wish is one function."""
        calls = {parameter: self.helper(called) for parameter, called in _CALLS.get(macro, {}).items()}
        text = str(_macro(macro)(name=_NAME, **calls, **fields)).strip("\n")
        key = (wish, text)
        if key not in self._named:
            name = self._named[key] = self.names.give(("function", key), wish)
            self.texts.append(text.replace(_NAME, name) + "\n")
        return self._named[key]
