"""Specs put together at random out of parts that fit: most are kernels that could be meant."""

from __future__ import annotations

import random

_AXES = ("b", "i", "j", "k", "h")
_FUNCTIONS = ("exp({})", "log({})", "max({}, 0)", "tanh({})", "{} * 2", "{} + 1", "abs({})", "sigmoid({})", "{} / 3")


def spec(rng: random.Random) -> str:
    """A kernel of one to three tiles, a few equations over them, perhaps a domain and a schedule."""
    made = _Maker(rng)
    return made.text()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.type = rng.choice(("bf16", "f16", "f32", "bf16"))
        self.extents = {
            a: rng.choice((a.upper(), a.upper(), str(rng.choice((8, 40, 64, 80, 128, 256, 320))))) for a in _AXES
        }
        self.tiles: dict[str, tuple[str, ...]] = {}
        self.values: dict[str, tuple[str, ...]] = {}
        self.lines: list[str] = []
        self.outputs: list[str] = []
        self.unread: set[str] = set()

    def text(self) -> str:
        rng = self.rng
        inputs = []
        for n in range(rng.randint(1, 3)):
            axes = tuple(rng.sample(_AXES, rng.randint(1, 3)))
            inputs.append(f"  input  X{n}: {self.type}[{', '.join(self.extents[a] for a in axes)}]")
            held = axes if rng.random() < 0.6 else axes[-rng.randint(1, len(axes)) :]
            self.tiles[f"t{n}"] = held
            self.values[f"t{n}"] = axes
            self.unread.add(f"t{n}")
            self.lines.append(f"  tile t{n}[{', '.join(held)}] = X{n}[{', '.join(axes)}]")
        for n in range(rng.randint(1, 5)):
            self._equation(f"e{n}")
        declared = []
        for n, name in enumerate(sorted(self.unread)):
            axes = self.values[name]
            if not axes:
                continue
            order = tuple(rng.sample(axes, len(axes))) if rng.random() < 0.2 else axes
            dtype = rng.choice(("f32", self.type, self.type))
            declared.append(
                f"  output Y{n}: {dtype}[{', '.join(self.extents[a] for a in order)}]" + rng.choice(("", "", " else 0"))
            )
            self.lines.append(f"  Y{n}[{', '.join(order)}] = {self._read(name)}")
            self.outputs.append(f"Y{n}")
        used = {a for axes in self.values.values() for a in axes}
        sizes = sorted({e for a, e in self.extents.items() if e.isalpha() and a in used})
        axes_line = "  axis   " + ", ".join(f"{a} in {e}" for a, e in self.extents.items() if a in used)
        head = ["kernel fuzzed {", "  size   " + ", ".join(sizes)] if sizes else ["kernel fuzzed {"]
        body = [*head, *inputs, *declared, axes_line, *self._domain(), *self.lines, *self._schedule(), "}"]
        return "\n".join(body) + "\n"

    def _read(self, name: str) -> str:
        brackets = self.tiles.get(name, self.values[name])
        return f"{name}[{', '.join(brackets)}]"

    def _equation(self, name: str) -> None:
        rng = self.rng
        sources = list(self.values)
        # mostly what nothing has read yet: a name that is never used is refused
        a = rng.choice(sorted(self.unread) if self.unread and rng.random() < 0.9 else sources)
        b = rng.choice(sources)
        axes = tuple(dict.fromkeys((*self.values[a], *self.values[b])))
        kind = rng.randrange(5)
        if kind == 0 and axes:
            over = rng.choice(axes)
            shared = (
                f"{self.type}({self._read(a)}) * {self._read(b)}"
                if a not in self.tiles
                else f"{self._read(a)} * {self._read(b)}"
            )
            left = tuple(x for x in axes if x != over)
            value = f"sum[{over}]({shared})"
        elif kind == 1 and self.values[a]:
            over = rng.choice(self.values[a])
            left = tuple(x for x in self.values[a] if x != over)
            value = f"{rng.choice(('sum', 'max', 'min', 'logsumexp'))}[{over}]({self._element(a)})"
        elif kind == 2 and self.values[a]:
            left = self.values[a]
            value = f"softmax[{rng.choice(left)}]({self._element(a)})"
        elif kind == 3:
            left = axes
            value = f"{self._element(a)} {rng.choice('+-*')} {self._element(b)}"
        else:
            left = self.values[a]
            value = self._element(a)
        self.unread -= {a, b} if kind in (0, 3) else {a}
        self.unread.add(name)
        self.values[name] = left
        self.lines.append(f"  {name}[{', '.join(left)}] = {value}")

    def _element(self, name: str) -> str:
        read = self._read(name)
        return self.rng.choice(_FUNCTIONS).format(read) if self.rng.random() < 0.5 else read

    def _domain(self) -> list[str]:
        if self.rng.random() < 0.7:
            return []
        a, b = self.rng.sample(_AXES, 2)
        clause = self.rng.choice(
            (
                f"{a} <= {b}",
                f"{a} >= {b} - 9",
                f"{a} < 7 or {a} > {b}",
                f"{a} + {b} < 50",
                f"{a} == {b}",
                f"{b} - {a} <= 3 if {a.upper()} > 2",
            )
        )
        return [f"  domain {a}, {b}: {clause}"]

    def _schedule(self) -> list[str]:
        rng = self.rng
        if rng.random() < 0.4:
            return []
        words = []
        for axis in rng.sample(_AXES, rng.randint(0, 3)):
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
