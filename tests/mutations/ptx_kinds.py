"""Faults put into the PTX of kernels: each kind yields mutants of a text, one a place.

Here those of what moves tiles and of what orders it; in ptx_values.py those of what is computed and where it goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.mutations.ptx_text import Instruction, Lines, Mutant, Text, registers, shifted, through

Edits = tuple[tuple[int, Lines], ...]
Made = Iterator[tuple[Instruction, Edits]]
Change = Callable[[Text, Instruction], Iterator[Lines]]

KINDS: dict[str, Callable[[Text], Made]] = {}

_MMA = "wgmma.mma_async"
_WARP_MMA = "mma.sync"
_WAIT = "mbarrier.try_wait"
_EXPECT = "mbarrier.arrive.expect_tx"
_ARRIVE = "mbarrier.arrive.shared"
_INIT = "mbarrier.init"
_ATOM = 1024  # bytes that a swizzle of 128 bytes repeats after
_FIELD = 16  # bytes a unit of a descriptor's address


def mutants(text: Text, names: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """Every mutant of these kinds, or of all."""
    for name in names or KINDS:
        for i, edits in KINDS[name](text):
            if any(new != (text.lines[at],) for at, new in edits):
                yield Mutant(name, f"{text.where(i)} → {_new(edits)}", edits)


def _new(edits: Edits) -> str:
    lines = [line.strip() for _, new in edits for line in new]
    shown = " ".join(line if len(line) < 120 else line[:50] + " … " + line[-60:] for line in lines)
    return f"`{shown}`" if shown else "nothing"


# ---- makers --------------------------------------------------------------------------------------------


def changed(names: str | tuple[str, ...], change: Change) -> Callable[[Text], Made]:
    """A change of each instruction whose name begins with one of these."""
    prefixes = (names,) if isinstance(names, str) else names

    def make(text: Text) -> Made:
        for i in text.named(*prefixes):
            for new in change(text, i):
                yield i, ((i.at, new),)

    return make


def dropped(*names: str) -> Callable[[Text], Made]:
    return changed(names, lambda text, i: iter([()]))


def doubled(*names: str) -> Callable[[Text], Made]:
    return changed(names, lambda text, i: iter([(str(i), str(i))]))


def moved(names: str | tuple[str, ...], n: int, *by: int) -> Callable[[Text], Made]:
    """Operand n with each of `by` added."""
    return changed(names, lambda text, i: (shifted(i, n, b) for b in by if n < len(i.operands)))


def respelt(names: str | tuple[str, ...], old: str, new: str) -> Callable[[Text], Made]:
    """A regular expression in the instruction's own text replaced, once."""

    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        line = re.sub(old, new, str(i), count=1)
        if line != str(i):
            yield (line,)

    return changed(names, change)


# ---- products: descriptors -----------------------------------------------------------------------------


def _descriptors(change: Callable[[str, int], Iterator[Lines]]) -> Callable[[Text], Made]:
    """Changes of `mov.b64 da, { low, high }`: of the register with the low word and the number of the high one. They
    yield lines for the whole instruction, in which {d} stands for the descriptor."""

    def make(text: Text, i: Instruction) -> Iterator[Lines]:
        match = re.fullmatch(r"\{\s*(%r\d+),\s*(0x[0-9a-fA-F]+|\d+)\s*\}", i.operands[1])
        if i.operands[0] in ("da", "db") and match:
            for new in change(match[1], int(match[2], 0)):
                yield tuple(line.replace("{d}", i.operands[0]) for line in new)

    return changed("mov.b64", make)


def _low(operation: str) -> Callable[[Text], Made]:
    def change(low: str, high: int) -> Iterator[Lines]:
        made = operation.format(new="mutated", old=low)
        yield "{", ".reg .b32 mutated;", f"{made};", f"mov.b64 {{d}}, {{ mutated, {high:#x}}};", "}"

    return _descriptors(change)


def _high(new: Callable[[int], Iterator[int]]) -> Callable[[Text], Made]:
    return _descriptors(lambda low, high: ((f"mov.b64 {{d}}, {{ {low}, {n:#x}}};",) for n in new(high)))


KINDS["a descriptor's start one step on"] = _low(f"add.s32 {{new}}, {{old}}, {32 // _FIELD}")
KINDS["a descriptor's start one step back"] = _low(f"add.s32 {{new}}, {{old}}, {-32 // _FIELD}")
KINDS["a descriptor's start 8 rows on"] = _low(f"add.s32 {{new}}, {{old}}, {_ATOM // _FIELD}")
KINDS["a descriptor's start without its lowest bits"] = _low("and.b32 {new}, {old}, -8")
KINDS["a descriptor's leading byte offset lost"] = _low("and.b32 {new}, {old}, 65535")
KINDS["a descriptor's leading byte offset +16"] = _low("add.s32 {new}, {old}, 65536")
KINDS["a descriptor's stride byte offset doubled"] = _high(lambda h: iter([h & ~0x3FFF | (h & 0x3FFF) * 2]))
KINDS["a descriptor's stride byte offset halved"] = _high(lambda h: iter([h & ~0x3FFF | (h & 0x3FFF) // 2]))
KINDS["a descriptor's swizzle changed"] = _high(lambda h: (h & 0x3FFFFFFF | m << 30 for m in range(4) if m != h >> 30))
KINDS["a descriptor's base offset set"] = _high(lambda h: iter([h | 1 << 17]))


def _factors_exchanged(text: Text) -> Made:
    for i in text.named(_MMA):
        if i.operands[1:3] == ("da", "db"):
            yield i, ((i.at, (str(i.swapped(1, 2)),)),)


KINDS["two descriptors exchanged"] = _factors_exchanged

# ---- products: instructions ----------------------------------------------------------------------------


def _transposed(text: Text, i: Instruction) -> Iterator[Lines]:
    for n in range(6, len(i.operands)):  # behind the accumulator, two factors, scale-d and two signs
        yield (str(i.put(n, "0" if i.operands[n] == "1" else "1")),)


def _narrowed(text: Text, i: Instruction) -> Iterator[Lines]:
    match = re.search(r"m64n(\d+)k", i.name)
    assert match
    n = int(match[1])
    kept = i.operands[0].strip("{} ").split(",")[: (n - 8) // 2]
    if kept:
        narrow = str(i.put(0, "{" + ",".join(kept) + "}"))
        yield (narrow.replace(f"m64n{n}k", f"m64n{n - 8}k"),)


def _scale_d(wanted: str, new: str) -> Change:
    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        if i.operands[3] == wanted:
            yield (str(i.put(3, new)),)

    return change


def _exchanged_in(n: int) -> Change:
    """Two neighbours of a fragment exchanged: the first two, and two in its middle."""

    def change(text: Text, i: Instruction) -> Iterator[Lines]:
        if not i.operands[n].startswith("{"):
            return
        every = [r.strip() for r in i.operands[n].strip("{} ").split(",")]
        for at in {0, len(every) // 2}:
            new = list(every)
            new[at], new[at + 1] = new[at + 1], new[at]
            yield (str(i.put(n, "{" + ", ".join(new) + "}")),)

    return change


KINDS["a factor transposed"] = changed(_MMA, _transposed)
KINDS["a product of another shape"] = changed(_MMA, _narrowed)
KINDS["a product of other types"] = respelt(_MMA, r"\.bf16\.bf16", ".f16.f16")
KINDS["a product added to what is stale"] = changed(_MMA, _scale_d("0", "1"))
KINDS["a product not added"] = changed(_MMA, _scale_d("1", "0"))
KINDS["a product added whatever its predicate"] = changed(_MMA, _scale_d("adding", "1"))
KINDS["a product's sign turned"] = changed(_MMA, lambda text, i: iter([(str(i.put(4, "-1")),)]))
KINDS["registers of an accumulator exchanged"] = changed((_MMA, _WARP_MMA), _exchanged_in(0))
KINDS["registers of a factor exchanged"] = changed((_MMA, _WARP_MMA), _exchanged_in(1))
KINDS["a product dropped"] = dropped(_MMA, _WARP_MMA)
KINDS["a product issued twice"] = doubled(_MMA, _WARP_MMA)

# ---- order ---------------------------------------------------------------------------------------------


def _carried(first: str, over: tuple[str, ...]) -> Callable[[Text], Made]:
    """An instruction moved behind the next one of `over`, where nothing branches between them."""

    def make(text: Text) -> Made:
        for i in text.named(first):
            later = next((j for j in text.instructions[text.by_line[i.at] + 1 :] if j.starts(*over)), None)
            if later is not None and text.straight_between(i.at, later.at):
                yield i, ((i.at, ()), (later.at, (str(later), str(i))))

    return make


def _released_early(text: Text) -> Made:
    """A wait for products moved behind the next release, which one thread of each warp or warpgroup branches to."""
    for i in text.named("wgmma.wait_group"):
        for j in text.instructions[text.by_line[i.at] + 1 :]:
            if j.starts(_ARRIVE):
                label = next(at for at in sorted(text.labels.values()) if at > j.at)
                yield i, ((i.at, ()), (label, (text.lines[label], str(i))))
            if j.starts(_ARRIVE, "wgmma.", "bra.uni"):
                break


KINDS["a fence before products dropped"] = dropped("wgmma.fence")
KINDS["a commit of products dropped"] = dropped("wgmma.commit_group")
KINDS["a wait for products dropped"] = dropped("wgmma.wait_group")
KINDS["a wait for products that leaves one more"] = moved("wgmma.wait_group", 0, 1)
KINDS["a wait for products moved behind the release"] = _released_early
KINDS["a proxy fence dropped"] = dropped("fence.proxy.async")
KINDS["a fence of barriers' beginnings dropped"] = dropped("fence.mbarrier_init")
KINDS["a meeting at a named barrier dropped"] = dropped("bar.sync")
KINDS["an arrival at a named barrier dropped"] = dropped("bar.arrive")
KINDS["a named barrier's number +1"] = moved(("bar.sync", "bar.arrive"), 0, 1)
KINDS["a named barrier's threads +32"] = moved(("bar.sync", "bar.arrive"), 1, 32)
KINDS["a named barrier's threads -32"] = moved(("bar.sync", "bar.arrive"), 1, -32)
KINDS["a meeting of a warp dropped"] = dropped("bar.warp.sync")
KINDS["a commit of stores dropped"] = dropped("cp.async.bulk.commit_group")
KINDS["a wait for stores dropped"] = dropped("cp.async.bulk.wait_group")
KINDS["a wait for stores that leaves one more"] = moved("cp.async.bulk.wait_group", 0, 1)
KINDS["a fence moved behind the meeting"] = _carried("fence.proxy.async", ("bar.", "mbarrier.arrive"))

# ---- mbarriers -----------------------------------------------------------------------------------------


def _wait_dropped(text: Text) -> Made:
    for i in text.named(_WAIT):
        loop = text.instructions[text.by_line[i.at] + 1]
        yield i, ((i.at, ()), (loop.at, ()))


def _parity_turned(text: Text, i: Instruction) -> Iterator[Lines]:
    if registers(i.operands[2]):
        yield through(i, 2, i.operands[2], "xor.b32 {new}, {old}, 1")
    else:
        yield (str(i.put(2, str(int(i.operands[2], 0) ^ 1))),)


KINDS["a wait for a barrier dropped"] = _wait_dropped
KINDS["a wait for the other phase"] = changed(_WAIT, _parity_turned)
KINDS["a wait for the barrier of another stage"] = moved(_WAIT, 1, 8, -8)
KINDS["a release dropped"] = dropped(_ARRIVE)
KINDS["a release made twice"] = doubled(_ARRIVE)
KINDS["a release of another stage"] = moved(_ARRIVE, 1, 8, -8)
KINDS["expected bytes +16"] = moved(_EXPECT, 2, 16)
KINDS["expected bytes -16"] = moved(_EXPECT, 2, -16)
KINDS["expected bytes doubled"] = changed(
    _EXPECT,
    lambda text, i: iter([through(i, 2, i.operands[2], "shl.b32 {new}, {old}, 1")] if registers(i.operands[2]) else []),
)
KINDS["bytes expected of another stage"] = moved(_EXPECT, 1, 8, -8)
KINDS["an expectation dropped"] = dropped(_EXPECT)
KINDS["an arrival without its bytes"] = changed(
    _EXPECT, lambda text, i: iter([(f"mbarrier.arrive.shared::cta.b64 _, {i.operands[1]};",)])
)
KINDS["a barrier's arrivals +1"] = moved(_INIT, 1, 1)
KINDS["a barrier's arrivals -1"] = moved(_INIT, 1, -1)
KINDS["a barrier never begun"] = dropped(_INIT)
KINDS["another barrier begun"] = moved(_INIT, 0, 8)

# ---- transfers -----------------------------------------------------------------------------------------

_LOAD = tuple(f"cp.async.bulk.tensor.{rank}d.shared::cluster" for rank in range(1, 6))
_STORE = tuple(f"cp.async.bulk.tensor.{rank}d.global" for rank in range(1, 6))


def _tensor_operand(i: Instruction) -> int:
    return 0 if ".global.shared" in i.name else 1


def _coordinates(change: Callable[[list[str]], Iterator[tuple[list[str], str]]]) -> Change:
    """Changes of the list of coordinates: new ones, and what computes `mutated`, if they name it."""

    def make(text: Text, i: Instruction) -> Iterator[Lines]:
        n = _tensor_operand(i)
        match = re.fullmatch(r"\[(\S+),\s*\{(.*)\}\]", i.operands[n])
        if match is None:
            return
        every = [c.strip() for c in match[2].split(",")]
        for new, computed in change(every):
            line = str(i.put(n, f"[{match[1]}, {{{', '.join(new)}}}]"))
            yield ("{", ".reg .s32 mutated;", f"{computed};", line, "}") if computed else (line,)

    return make


def _coordinates_swapped(every: list[str]) -> Iterator[tuple[list[str], str]]:
    for n in range(len(every) - 1):
        yield [*every[:n], every[n + 1], every[n], *every[n + 2 :]], ""


def _coordinate_moved(by: int) -> Callable[[list[str]], Iterator[tuple[list[str], str]]]:
    def change(every: list[str]) -> Iterator[tuple[list[str], str]]:
        for n, c in enumerate(every):
            yield [*every[:n], "mutated", *every[n + 1 :]], f"add.s32 mutated, {c}, {by}"

    return change


def _coordinate_lost(every: list[str]) -> Iterator[tuple[list[str], str]]:
    for n in range(len(every)):
        yield [*every[:n], "mutated", *every[n + 1 :]], "mov.b32 mutated, 0"


def _other_map(text: Text, i: Instruction) -> Iterator[Lines]:
    n = _tensor_operand(i)
    address = registers(i.operands[n])[0]
    own = _map_of(text, i, address)
    for name in text.maps:
        if name != own and name.rsplit("_param_", 1)[0] == (own or name).rsplit("_param_", 1)[0]:
            line = str(i.put(n, i.operands[n].replace(address, "mutated", 1)))
            yield "{", ".reg .b64 mutated;", f"mov.b64 mutated, {name};", "cvta.param.u64 mutated, mutated;", line, "}"


def _map_of(text: Text, i: Instruction, register: str) -> str | None:
    """The parameter whose address a register holds that i reads."""
    for writer in text.writers(i, register):
        source = writer.operands[1]
        if source in text.maps:
            return source
        if source != register and (found := _map_of(text, i, source)):
            return found
    return None


KINDS["coordinates swapped"] = changed((*_LOAD, *_STORE), _coordinates(_coordinates_swapped))
KINDS["a coordinate +1"] = changed((*_LOAD, *_STORE), _coordinates(_coordinate_moved(1)))
KINDS["a coordinate -8"] = changed((*_LOAD, *_STORE), _coordinates(_coordinate_moved(-8)))
KINDS["a coordinate always 0"] = changed((*_LOAD, *_STORE), _coordinates(_coordinate_lost))
KINDS["another tensor map"] = changed((*_LOAD, *_STORE), _other_map)
KINDS["a load that signals another stage"] = moved(_LOAD, 2, 8, -8)
KINDS["a load 128 bytes on in shared memory"] = moved(_LOAD, 0, 128)
KINDS["a load one swizzle's repeat on in shared memory"] = moved(_LOAD, 0, _ATOM, -_ATOM)
KINDS["a load dropped"] = dropped(*_LOAD)
KINDS["a load made twice"] = doubled(*_LOAD)
KINDS["a store of a tile 128 bytes on in shared memory"] = moved(_STORE, 1, 128)
KINDS["a store of a tile dropped"] = dropped(*_STORE)

# ---- copies by threads ---------------------------------------------------------------------------------

_COPY = ("cp.async.cg", "cp.async.ca")

KINDS["a copy 16 bytes on in shared memory"] = moved(_COPY, 0, 16)
KINDS["a copy from 16 bytes on"] = moved(_COPY, 1, 16)
KINDS["a copy dropped"] = dropped(*_COPY)
KINDS["a commit of copies dropped"] = dropped("cp.async.commit_group")
KINDS["a wait for copies dropped"] = dropped("cp.async.wait_group")
KINDS["a wait for copies that leaves one more"] = moved("cp.async.wait_group", 0, 1)
KINDS["bytes of a copy that exist +2"] = moved(_COPY, 3, 2)
KINDS["bytes of a copy that exist -2"] = moved(_COPY, 3, -2)
KINDS["an arrival behind copies dropped"] = dropped("cp.async.mbarrier")
KINDS["an arrival behind copies at once"] = changed(
    "cp.async.mbarrier", lambda text, i: iter([(f"mbarrier.arrive.shared::cta.b64 _, {i.operands[0]};",)])
)

# ---- registers of roles --------------------------------------------------------------------------------

KINDS["fewer registers given back"] = moved("setmaxnreg.dec", 0, 8)
KINDS["more registers taken"] = moved("setmaxnreg.inc", 0, 8)
KINDS["registers not given back"] = dropped("setmaxnreg.dec")
