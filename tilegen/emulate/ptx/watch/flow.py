"""Follows what TMA brings through products and registers to the outputs, and holds it against the declaration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilegen.emulate.ptx.module import Instruction, Label
from tilegen.emulate.ptx.types import Array
from tilegen.emulate.ptx.watch.context import Context, Tensor
from tilegen.emulate.ptx.watch.declared import Declared, Tile
from tilegen.emulate.ptx.watch.origins import Axes, Load, Origins, WrongTileError, box_elements
from tilegen.emulate.ptx.watch.shadow import CHUNK, Shadow
from tilegen.emulate.ptx.watch.tags import (
    ELEMENT,
    MIXED,
    NO_REGISTER,
    PACKED,
    ROW,
    UNKNOWN,
    Key,
    Step,
    Tags,
    Tainted,
    fields,
    predicates_of,
    tag,
)
from tilegen.emulate.ptx.watch.values import Value, Values

_WARPGROUP = 128
#: The origin of a chunk in which threads wrote elements of accumulators; it is -1 where nobody knows what they wrote.
_ELEMENTS = -2
#: What the 2 bytes of such a chunk hold: 0 nobody knows, _NUMBER a constant, above it `_element`.
_NUMBER = 1
_HALVES = CHUNK // 2

#: Where threads go other ways, or the emulator does more than to write registers.
_TURNS = frozenset(("brx", "call", "ret", "exit", "bar", "barrier", "wgmma", "mbarrier", "cp"))
#: An instruction, what it does to tags, and whether its predicate still stands when the run is over.
_Followed = tuple[int, Step, bool]
#: An operand in shared memory: its descriptor's bits, extent, depth, bytes of an element, rows next to each other.
Descriptor = tuple[int, int, int, int, bool]


class Flow:
    """Of one launch. `begin` starts a cluster anew."""

    def __init__(self, declaration: Declared, context: Context, code: Sequence[Instruction], predicates: Array) -> None:
        self.declaration, self._context = declaration, context
        self._predicates = predicates  # [registers, threads], as they are now
        self._predicates_of = [predicates_of(i) for i in code]
        tainted = Tainted(code)
        self._steps, self._plain = tainted.steps, tainted.plain
        self._of_run: dict[tuple[int, int], list[_Followed]] = {}
        self._code = code
        self._passed: dict[tuple[int, int], list[Step]] = {}  # of branches forward, by place and target
        self._outputs = [t for t in context.tensors if t.output and t.forward]

    def begin(self, shadow: Shadow, units: int) -> None:
        """Nothing has come, and no register holds anything."""
        self.shadow = shadow
        self._elements: Array = np.zeros((len(shadow.origin), _HALVES), np.int64)
        self.values = Values(self.declaration)
        self._origins = Origins(self.declaration)
        self._tags = [Tags(self.values) for _ in range(units)]
        self._todo: list[list[_Followed]] = [[] for _ in range(units)]
        self._threads: list[Array] = [np.zeros(0, np.intp) for _ in range(units)]

    # ---- registers ----

    def run(self, unit: int, start: int, end: int, threads: Array) -> None:
        """Instructions from `start` to `end` are about to be executed by these threads, a warpgroup's first among
        them."""
        self.follow(unit)
        found = self._of_run.get((start, end))
        if found is None:
            found = []
            written: set[int] = set()
            for n in reversed(range(start, end)):
                if n in self._steps:
                    choice = self._steps[n].choice
                    found.append((n, self._steps[n], choice is None or choice.predicate not in written))
                written |= self._predicates_of[n]
            found.reverse()
            self._of_run[start, end] = found
        self._todo[unit] = found
        self._threads[unit] = threads

    def passed_by(self, unit: int, at: int, target: int) -> None:
        """Threads of a warpgroup take a branch, and so pass the instructions by up to its target: those between which a
        mask leaves an element, and around which it has a number in its place."""
        self.follow(unit)
        if (at, target) not in self._passed:
            passed = range(at + 1, target) if self._only_writes_registers(at, target) else range(0)
            self._passed[at, target] = [s.taken(None) for n in passed if (s := self._steps.get(n)) is not None]
        self._tags[unit].pass_by(self._passed[at, target])

    def _only_writes_registers(self, at: int, target: int) -> bool:
        """Whether that is all that is done between a branch and its target, on whatever way there."""
        moved = target - _target(self._code[at])  # from the places that labels name
        for instruction in self._code[at + 1 : target]:
            if instruction.opcode == "bra":  # it may lead forward, and no farther than this one
                if not at < _target(instruction) + moved <= target:
                    return False
            elif instruction.opcode in _TURNS:
                return False
        return True

    def follow(self, unit: int, before: int | None = None) -> None:
        """The instructions of the run have been executed: all, or those before one."""
        todo = self._todo[unit]
        if not todo:
            return
        if before is None:
            now, self._todo[unit] = todo, []
        else:
            now = [s for s in todo if s[0] < before]
            self._todo[unit] = todo[len(now) :]
        threads = self._threads[unit]
        steps = []
        for _, step, still in now:
            if step.choice is not None:
                step = step.taken(self._predicates[step.choice.predicate, threads] if still else None)
            steps.append(step)
        self._tags[unit].follow(steps)

    # ---- products ----

    def product(
        self,
        unit: int,
        pc: int,
        right: tuple[Descriptor, Tile | None],
        left: tuple[Descriptor, Tile | None] | None,
        fragment: Array | None,
        accumulator: Array,
        accumulate: bool,
        own: int,
        loads: Sequence[Load],
    ) -> None:
        """A product is issued: what its accumulator holds from now on. Raises WrongTileError."""
        self.follow(unit, pc)
        tags = self._tags[unit]
        before, known = self._accumulated(tags, accumulator) if accumulate else (None, True)
        b = self._operand(right, own, loads)
        steps = slice(0, 0)
        a: Axes | Value | None
        if fragment is not None:
            a, steps = self._fragment(tags, fragment)
        else:
            assert left is not None
            a = self._operand(left, own, loads)
            if a is None:
                a, steps = self._written(left[0], own)
        value = None
        if a is not None and b is not None:
            value = self.values.product(a, b, steps, before, pc, known)
        if value is not before or value is None:
            for n, register in enumerate(accumulator.tolist()):
                tags.put((32, register), UNKNOWN if value is None else tag(value.number, ELEMENT, n))

    def _operand(self, operand: tuple[Descriptor, Tile | None], own: int, loads: Sequence[Load]) -> Axes | None:
        descriptor, tile = operand
        try:
            return self._origins.operand(descriptor, own, self.shadow.origin, self.shadow.place, loads, tile)
        except WrongTileError as wrong:
            raise WrongTileError(f"an operand {wrong.what}") from None

    def _fragment(self, tags: Tags, fragment: Array) -> tuple[Value | None, slice]:
        """The value that a factor in registers is of, and which of its columns. Raises WrongTileError."""
        found = [fields(tags.get((32, register))) for register in fragment.tolist()]
        value, _, index = found[0]
        if any(k == MIXED for v, k, _ in found if v >= 0):
            raise WrongTileError("the factor in registers mixes rows or columns")
        if value < 0 or any(v < 0 or k != PACKED for v, k, _ in found):
            return None, slice(0, 0)
        wanted = [index + n for n in range(len(found))]
        if (
            index % 4
            or [i for _, _, i in found] != wanted
            or any(not self.values.agree(value, v, True) for v, _, _ in found)
        ):
            raise WrongTileError("the registers of the factor are not in their order")
        return self.values.all[value], slice(4 * index, 4 * index + 16)

    def _written(self, descriptor: Descriptor, own: int) -> tuple[Value | None, slice]:
        """The same of a factor that threads have written to shared memory."""
        grid = self._origins.chunks(descriptor) + own
        if (self.shadow.origin[grid] != _ELEMENTS).any() or descriptor[3] != 2 or descriptor[4]:
            return None, slice(0, 0)
        held = self._elements[grid].reshape(len(grid), -1)
        values = _value(held)
        number = int(values[0, 0])
        if number < 0 or (values != number).any():
            return None, slice(0, 0)
        first = int(_column(held[0, 0]))
        columns = first + np.arange(held.shape[1])
        if (held != _element(number, np.arange(len(held))[:, None], columns)).any():
            raise WrongTileError("rows or columns of the factor that threads wrote are not in their order")
        return self.values.all[number], slice(first, first + len(columns))

    def _accumulated(self, tags: Tags, accumulator: Array) -> tuple[Value | None, bool]:
        """The value that is added to, and whether that is sure; no value for zeros, scaled by rows or not, and for
        what is not known. Raises WrongTileError."""
        found = [tags.get((32, register)) for register in accumulator.tolist()]
        if not any(found):
            return None, True
        if UNKNOWN in found or not all(found) or all(fields(t)[1] == ROW for t in found):
            return None, False  # a number a row is what has become of zeros
        value, _, _ = fields(found[0])
        first = tag(value, ELEMENT, 0)
        if found != list(range(first, first + len(found))):
            raise WrongTileError("the accumulator's registers are not those of one product in their order")
        return self.values.all[value], True

    # ---- stores ----

    def wrote_matrices(self, unit: int, pc: int, registers: Sequence[Key], addresses: Array) -> None:
        """stmatrix: `addresses` [warps, matrices, 8 rows]. Raises WrongTileError."""
        self.follow(unit, pc)
        for n, key in enumerate(registers):
            number, value, kind, index = self._held(unit, key)
            if len(addresses) != 4:
                continue
            chunks = (addresses[:, n] // CHUNK).astype(np.intp)
            if number:
                self._elements[chunks] = _NUMBER
            elif value >= 0 and kind == PACKED:
                rows = 16 * np.arange(4)[:, None] + 8 * (index & 1) + np.arange(8)
                self._elements[chunks] = _element(value, rows[..., None], 4 * (index & ~1) + np.arange(8))
            else:
                continue
            self.shadow.origin[chunks] = _ELEMENTS

    def wrote(self, unit: int, pc: int, registers: Sequence[Key], threads: Array, addresses: Array, width: int,
              before: Array) -> None:  # fmt: skip
        """Threads of a warpgroup have stored registers to shared memory, `width` bytes each, one behind the other.
        before: the origin of each one's chunk until then. Raises WrongTileError."""
        self.follow(unit, pc)
        held = [self._held(unit, key) for key in registers]
        if width not in (2, 4) or not any(number or value >= 0 for number, value, _, _ in held):
            return
        chunks = (addresses // CHUNK).astype(np.intp)
        self._elements[chunks[before != _ELEMENTS]] = 0
        for n, (number, value, kind, index) in enumerate(held):
            first = (addresses % CHUNK // 2).astype(np.intp) + n * width // 2
            for half in range(width // 2):
                what: Array | int = 0
                if number:
                    what = _NUMBER
                elif value >= 0 and kind in (ELEMENT, PACKED) and (kind == ELEMENT or width == 4):
                    rows, columns = _of_threads(kind, index, threads)
                    assert columns is not None
                    what = _element(value, rows, columns + (half if kind == PACKED else 0))
                self._elements[chunks, first + half] = what
        self.shadow.origin[chunks] = _ELEMENTS

    def _held(self, unit: int, key: Key) -> tuple[bool, int, int, int]:
        """What a register holds that is written to shared memory: whether that is a constant, and (value, kind, index)
        as `fields` has them. Raises WrongTileError."""
        t = self._tags[unit].get(key)
        value, kind, index = fields(t)
        if value >= 0 and kind == MIXED:
            raise WrongTileError("writes what mixes rows or columns to shared memory")
        return self._is_number(key, t), value, kind, index

    def _is_number(self, key: Key, t: int) -> bool:
        return not t and (key == NO_REGISTER or key in self._plain)

    def tma_store(self, chunks: Array, load: Load) -> None:
        """A box of these chunks is stored. Raises WrongTileError."""
        written = self.shadow.origin[chunks] == _ELEMENTS
        size = load.tm.element_bytes
        if load.map is None or size not in (2, 4) or not written.any():
            return
        output = self.declaration.outputs.get(load.map.tile)
        if output is None:
            return
        coordinates, inside = box_elements(load)
        parts = self._elements[chunks].reshape(len(chunks), -1, size // 2)
        held = np.where((parts == parts[..., :1]).all(axis=2) & written[:, None] & inside, parts[..., 0], 0)
        if (held == _NUMBER).any():
            self._lost(output)
        values = _value(held)
        for number in np.unique(values[values >= 0]).tolist():
            here = values == number
            rows, columns = _row(held[here]), _column(held[here])
            self.values.stored(self.values.all[number], output, rows, columns, coordinates[here])

    def _lost(self, output: Tile) -> None:
        """A constant is stored to an output. Raises WrongTileError where each of its elements is made of sums."""
        axes = self.declaration.summed.get(output.name)
        if axes is not None:
            raise WrongTileError(
                f"stores a constant to {output.name}, to which a sum over {', '.join(axes)} belongs that is not empty"
            )

    def store(self, unit: int, pc: int, registers: Sequence[Key], threads: Array, addresses: Array,
              width: int) -> None:  # fmt: skip
        """Threads of a warpgroup store registers, `width` bytes each, one behind the other. Raises WrongTileError."""
        self.follow(unit, pc)
        for n, key in enumerate(registers):
            t = self._tags[unit].get(key)
            value, kind, index = fields(t)
            number = self._is_number(key, t)
            if value < 0 and not number:
                continue
            at = addresses.astype(np.int64) + n * width
            tensor = next((t for t in self._outputs if t.address <= int(at[0]) < t.address + t.span), None)
            output = None if tensor is None else self.declaration.outputs.get(tensor.name)
            if tensor is None or output is None:
                continue
            if number:
                self._lost(output)
                continue
            if kind == MIXED:
                raise WrongTileError(f"what is stored to {tensor.name} mixes rows or columns")
            if kind != ROW and width * 8 < (32 if kind == PACKED else 8 * tensor.size):
                continue
            rows, columns = _of_threads(kind, index, threads)
            coordinates = _coordinates(tensor, at)
            if coordinates.shape[1] == len(output.dims):
                self.values.stored(self.values.all[value], output, rows, columns, coordinates)


def _target(branch: Instruction) -> int:
    (label,) = branch.operands
    assert isinstance(label, Label)
    return label.target


def _of_threads(kind: int, index: int, threads: Array) -> tuple[Array, Array | None]:
    """Row and column, of an accumulator, of what each thread holds of it: of a pair's first element; of a number a row
    no column."""
    t = threads % _WARPGROUP
    half = index >> 1 & 1 if kind == ELEMENT else index & 1
    rows = 16 * (t // 32) + t % 32 // 4 + 8 * half
    if kind == ROW:
        return rows, None
    pair, odd = (index // 4, index % 2) if kind == ELEMENT else (index // 2, 0)
    return rows, 8 * pair + 2 * (t % 4) + odd


def _element(value: int, row: Array, column: Array) -> Array:
    """An element of an accumulator, 64 rows by at most 256 columns, as one number."""
    made: Array = np.asarray((value + 1) << 14 | row << 8 | column, np.int64)
    return made


def _value(element: Array) -> Array:
    """Negative for what is none."""
    return (element >> 14) - 1


def _row(element: Array) -> Array:
    return element >> 8 & 63


def _column(element: Array) -> Array:
    return element & 255


def _coordinates(tensor: Tensor, addresses: Array) -> Array:
    """Of the elements at addresses inside a tensor: [n, dimensions]."""
    left = addresses - tensor.address
    out = np.zeros((len(addresses), len(tensor.shape)), np.int64)
    for n in sorted(range(len(tensor.shape)), key=lambda n: (-tensor.strides[n], n)):
        if tensor.shape[n] > 1:
            out[:, n], left = np.divmod(left, tensor.strides[n])
    return out
