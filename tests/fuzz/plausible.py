"""Specs put together at random out of parts that fit: most are kernels that could be meant."""

from __future__ import annotations

import random
from functools import cached_property

_AXES = ("b", "i", "j", "k", "h")
_FUNCTIONS = ("exp({})", "log({})", "max({}, 0)", "tanh({})", "{} * 2", "{} + 1", "abs({})", "sigmoid({})", "{} / 3")


def spec(rng: random.Random) -> str:
    """A kernel of one to three tiles, a few equations over them, perhaps a domain and a schedule."""
    made = _Maker(rng)
    return made.text()


class _Maker:
    """Rows run along i, whose extent is known at launch, j is long as well, k and h are held; all may carry b along."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.type = rng.choice(("bf16", "f16", "f32", "bf16"))
        held = {a: str(rng.choice((8, 40, 64, 80, 128, 256))) for a in "kh"}
        self.extents = {"b": "B", "i": "I", "j": rng.choice(("J", "J", "J", "64"))} | held
        self.tiles: dict[str, tuple[str, ...]] = {}
        self.values: dict[str, tuple[str, ...]] = {}
        self.lines: list[str] = []
        self.outputs: list[str] = []
        self.unread: set[str] = set()

    def text(self) -> str:
        rng = self.rng
        inputs = []
        for n in range(rng.randint(1, 3)):
            axes = ("i", rng.choice("jkkh")) if n == 0 else tuple(rng.choice(("ij", "jk", "jh", "kh", "ik", "j", "i")))
            whole = ("b", *axes) if rng.random() < 0.3 else axes
            inputs.append(f"  input  X{n}: {self.type}[{', '.join(self.extents[a] for a in whole)}]")
            self.tiles[f"t{n}"] = axes
            self.values[f"t{n}"] = whole
            self.unread.add(f"t{n}")
            self.lines.append(f"  tile t{n}[{', '.join(axes)}] = X{n}[{', '.join(whole)}]")
        for n in range(rng.randint(1, 5)):
            self._equation(f"e{n}")
        declared = []
        for n, name in enumerate(sorted(self.unread)):
            axes = tuple(a for a in _AXES if a in self.values[name])
            if not axes:
                continue
            order = tuple(rng.sample(axes, len(axes))) if rng.random() < 0.1 else axes
            dtype = rng.choice(("f32", self.type, self.type))
            otherwise = " else 0" if self.domain and rng.random() < 0.8 else ""
            declared.append(f"  output Y{n}: {dtype}[{', '.join(self.extents[a] for a in order)}]{otherwise}")
            self.lines.append(f"  Y{n}[{', '.join(order)}] = {self._read(name)}")
            self.outputs.append(f"Y{n}")
        used = {a for axes in self.values.values() for a in axes}
        sizes = sorted({e for a, e in self.extents.items() if e.isalpha() and a in used})
        axes_line = "  axis   " + ", ".join(f"{a} in {e}" for a, e in self.extents.items() if a in used)
        head = ["kernel fuzzed {", "  size   " + ", ".join(sizes)]
        body = [*head, *inputs, *declared, axes_line, *self.domain, *self.lines, *self._schedule(), "}"]
        return "\n".join(body) + "\n"

    @cached_property
    def domain(self) -> list[str]:
        """A clause, now and then, along axes that there are."""
        used = [a for a in _AXES if any(a in axes for axes in self.values.values())]
        if self.rng.random() < 0.75 or len(used) < 2:
            return []
        a, b = self.rng.sample(used, 2)
        clause = self.rng.choice(
            (
                f"{a} <= {b}",
                f"{a} >= {b} - 9",
                f"{a} < 7 or {a} > {b}",
                f"{a} + {b} < 50",
                f"{a} == {b}",
                f"{b} - {a} <= 3 if I > 2",
            )
        )
        return [f"  domain {a}, {b}: {clause}"]

    def _read(self, name: str) -> str:
        brackets = self.tiles.get(name, self.values[name])
        return f"{name}[{', '.join(brackets)}]"

    def _equation(self, name: str) -> None:
        rng = self.rng
        sources = list(self.values)
        # mostly what nothing has read yet, since a name that is never used is refused, and what fits beside it
        a = rng.choice(sorted(self.unread) if self.unread and rng.random() < 0.9 else sources)
        b = max(rng.sample(sources, min(len(sources), 3)), key=lambda x: self._fit(a, x))
        axes = tuple(dict.fromkeys((*self.values[a], *self.values[b])))
        shared = [x for x in self.values[a] if x in self.values[b] and x in "jkh"]
        folded = [x for x in self.values[a] if x in "jkh"]
        kind = rng.randrange(5)
        if kind == 0 and shared and a != b:
            over = rng.choice(shared)
            cast = self.type if self.type != "f32" else "bf16"
            factors = (self._read(x) if x in self.tiles else f"{cast}({self._read(x)})" for x in (a, b))
            left = tuple(x for x in axes if x != over)
            value = f"sum[{over}]({' * '.join(factors)})"
        elif kind == 1 and folded:
            over = rng.choice(folded)
            left = tuple(x for x in self.values[a] if x != over)
            value = f"{rng.choice(('sum', 'max', 'min', 'logsumexp'))}[{over}]({self._element(a)})"
        elif kind == 2 and folded:
            left = self.values[a]
            value = f"softmax[{rng.choice(folded)}]({self._element(a)})"
        elif kind == 3 and len({*axes} - {"b"}) < 3:
            left = axes
            value = f"{self._element(a)} {rng.choice('+-*')} {self._element(b)}"
        else:
            left = self.values[a]
            value = self._element(a)
        self.unread -= {a, b} if kind == 0 and shared and a != b else {a}
        self.unread.add(name)
        self.values[name] = left
        self.lines.append(f"  {name}[{', '.join(left)}] = {value}")

    def _fit(self, a: str, b: str) -> int:
        """How well two values go together: one axis shared, and not many in all."""
        one, other = set(self.values[a]), set(self.values[b])
        return (b in self.unread) + 2 * (len(one & other - {"b"}) == 1) - 3 * (len(one | other) > 4)

    def _element(self, name: str) -> str:
        read = self._read(name)
        return self.rng.choice(_FUNCTIONS).format(read) if self.rng.random() < 0.5 else read

    def _schedule(self) -> list[str]:
        rng = self.rng
        if rng.random() < 0.4:
            return []
        words = []
        if rng.random() < 0.5:
            consumers = rng.randint(1, 4)
            words.append(f"block i {64 * consumers}  consumers {consumers} over i")
        for axis in rng.sample("bjkh", rng.randint(0, 1)):
            words.append(f"block {axis} {rng.choice((1, 8, 16, 32, 64, 80, 128, 192, 256, 512))}")
        names = [*self.tiles, *self.values, *self.outputs]
        maybe = (
            f"consumers {rng.randint(1, 4)} over {rng.choice(_AXES)}",
            f"stages {rng.choice(list(self.tiles))} {rng.randint(1, 5)}",
            f"late {rng.choice(names)} by 1",
            f"batch {rng.choice(names)}, {rng.choice(names)}",
            f"stream {rng.choice(_AXES)}",
            f"hold {rng.choice(_AXES)}",
            f"grid {rng.choice(_AXES)}",
            f"via {rng.choice(self.outputs or names)} {rng.choice(('tma', 'rows'))}",
            f"persistent {rng.choice(('static', 'table', 'counter'))}",
            "stale_max",
            "skip_rows",
            f"walk {rng.choice(_AXES)} down",
            f"place {rng.choice(names)} shared",
            f"alias {rng.choice(self.outputs or names)}, {rng.choice(list(self.tiles))}",
        )
        words += rng.sample(maybe, rng.randint(0, 3))
        return [f"  schedule hopper {{ {'  '.join(words)} }}"]
