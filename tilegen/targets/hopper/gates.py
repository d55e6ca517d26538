"""SASS gates: does the machine code still do what the plan says, loop by loop?

The assembler may move instructions across waits, serialise products or run out of registers without a word.
What a plan promises is therefore counted in the disassembly. Expectations are plain data, made from the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilegen.diagnostics.catalogue import Code, fault
from tilegen.diagnostics.core import Diagnostic
from tilegen.syntax.span import Span
from tilegen.targets.hopper.control_flow import Loop
from tilegen.targets.hopper.sass import TENSOR_CORE, Function, Instruction, count

MAX_R2UR = 4  # a step; good hand-written code has 0
MAX_MOVES = 8  # a step; good hand-written code has 2 to 4

Event = tuple[str, int]  # ("mma", instructions in the group) or ("wait", groups left pending)


@dataclass(frozen=True)
class Under:
    """`statement` is computed while `product` runs: at least `least` instructions of `opcode` stand between the
    last product issued before the step's wait number `wait` (from 0) and that wait."""

    statement: str
    product: str
    wait: int
    opcode: str
    least: int
    span: Span


@dataclass(frozen=True)
class LoopGate:
    """What one step of a consumer's streamed loop holds, every arm of its branches counted.

    products: tensor-core instructions · commits: groups closed · waits, arrivals: wgmma wait_group and fence ·
    order: groups and waits in the order of the plan, () where a product stands under a branch ·
    turn_waits, turn_passes: named-barrier syncs and arrivals.
    """

    name: str
    span: Span
    products: int
    commits: int
    waits: int
    arrivals: int
    order: tuple[Event, ...] = ()
    under: tuple[Under, ...] = ()
    turn_waits: int = 0
    turn_passes: int = 0
    max_r2ur: int = MAX_R2UR
    max_moves: int = MAX_MOVES


@dataclass(frozen=True)
class KernelGate:
    """What the whole kernel holds. evidence: (name in sass.EVIDENCE or "MULTICAST", least count);
    registers: what setmaxnreg asks for, in any order · products_outside: tensor-core instructions out of `loops`."""

    loops: tuple[LoopGate, ...]
    span: Span
    evidence: tuple[tuple[str, int], ...] = ()
    registers: tuple[int, ...] = ()
    products_outside: int = 0


def check_gates(function: Function, expected: KernelGate) -> list[Diagnostic]:
    """Where the machine code differs from what was expected; empty where the gates hold.

    A loop of the code belongs to the expectation it differs from least. The compiler may unroll a loop (all
    counts times a whole number) or emit it more than once; it may not add one, and drops one only where it proved
    that the loop runs never, or once.
    """
    found: list[Diagnostic] = []
    met: set[LoopGate] = set()
    for loop in function.product_loops:
        candidates = [(list(_loop_faults(function, loop, gate)), gate) for gate in expected.loops]
        if not candidates:
            address = function.blocks[loop.header].instructions[0].address
            found.append(fault(Code.GATE_LOOP_UNKNOWN, expected.span, address=f"0x{address:x}"))
            continue
        faults, gate = min(candidates, key=lambda c: (len(c[0]), c[1] in met))
        found += faults
        met.add(gate)
    missing = [g for g in expected.loops if g not in met]
    if not _may_be_missing(function, expected, missing):
        found += [fault(Code.GATE_LOOP_MISSING, g.span, loop=g.name) for g in missing]
    evidence = function.evidence()
    for name, least in expected.evidence:
        if evidence[name] < least:
            got, wanted = str(evidence[name]), f"at least {least}"
            found.append(fault(Code.GATE_EVIDENCE, expected.span, got=got, wanted=wanted, opcode=name))
    asked = sorted(function.register_counts())
    if asked != sorted(expected.registers):
        got, wanted = _listed(asked), _listed(sorted(expected.registers))
        found.append(fault(Code.GATE_REGISTERS, expected.span, got=got, wanted=wanted))
    return found


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _may_be_missing(function: Function, expected: KernelGate, missing: Sequence[LoopGate]) -> bool:
    """Whether the products that stand out of loops are the plan's own, and one step of some of the missing loops.

    A compiler that removes a loop whose range it finds empty leaves none of its products.
    """
    looped = {b for loop in function.product_loops for b in loop.blocks}
    products = count(function.instructions, *TENSOR_CORE) - count(function.code(sorted(looped)), *TENSOR_CORE)
    steps = {0}
    for gate in missing:
        steps |= {n + gate.products for n in steps}
    return products <= expected.products_outside or products - expected.products_outside in steps


def _loop_faults(function: Function, loop: Loop, gate: LoopGate) -> Iterator[Diagnostic]:
    nested = {b for child in function.loops if child.header in loop.children for b in child.blocks}
    own = function.code(sorted(loop.blocks - nested))
    every = function.code(loop.always)
    products = count(own, *TENSOR_CORE)
    unrolled = products // gate.products if gate.products and products % gate.products == 0 else 1
    for what, got, wanted in (
        ("tensor-core instructions", products, gate.products),
        ("product groups", sum(_closes(i) for i in own), gate.commits),
        ("waits for products", count(own, "WARPGROUP.DEPBAR"), gate.waits),
        ("fences before products", count(own, "WARPGROUP.ARRIVE"), gate.arrivals),
        ("waits for a turn", count(own, "BAR.SYNC"), gate.turn_waits),
        ("passes of a turn", count(own, "BAR.ARV"), gate.turn_passes),
    ):
        if got != wanted * unrolled:
            yield _differs(Code.GATE_COUNT, gate, got, str(wanted * unrolled), what)
    if local := count(own, "LDL", "STL"):
        yield _differs(Code.GATE_LOCAL_MEMORY, gate, local, "none")
    for what, got, most in (
        ("moves to uniform registers", count(every, "R2UR"), gate.max_r2ur),
        ("register moves", sum(i.is_copy for i in every), gate.max_moves),
    ):
        if got > most * unrolled:
            yield _differs(Code.GATE_OVERHEAD, gate, got, f"at most {most * unrolled}", what)
    yield from _order_faults(every, gate, unrolled)


def _differs(code: Code, gate: LoopGate, got: int, wanted: str, what: str = "") -> Diagnostic:
    return fault(code, gate.span, got=str(got), wanted=wanted, loop=gate.name, what=what)


def _closes(i: Instruction) -> bool:
    """Whether this tensor-core instruction ends a committed group."""
    return i.is_a(*TENSOR_CORE) and "gsb0" in i.operands


def _order_faults(code: Sequence[Instruction], gate: LoopGate, unrolled: int) -> Iterator[Diagnostic]:
    if not gate.order:
        return
    events, ends = _events(code)
    wanted = gate.order * unrolled
    # the compiler may start the step elsewhere in the cycle
    turns = [n for n in range(len(events)) if events[n:] + events[:n] == list(wanted)]
    if not turns:
        yield fault(Code.GATE_ORDER, gate.span, got=_told(events), wanted=_told(wanted), loop=gate.name)
        return
    for under in gate.under:
        waits = [n for n, (kind, _) in enumerate(gate.order) if kind == "wait"]
        wait = waits[under.wait]
        issue = max((n for n in range(wait) if gate.order[n][0] == "mma"), default=wait - len(gate.order))
        best = 0
        for turn in turns:
            start, stop = (ends[(turn + n) % len(ends)] for n in (issue, wait))
            between = code[start:stop] if start < stop else [*code[start:], *code[:stop]]
            best = max(best, count(between, under.opcode))
        if best < under.least:
            yield fault(
                Code.GATE_UNDER, under.span, got=str(best), wanted=f"at least {under.least}",
                loop=gate.name, statement=under.statement, product=under.product, opcode=under.opcode,
            )  # fmt: skip


def _events(code: Sequence[Instruction]) -> tuple[list[Event], list[int]]:
    """Groups of products and waits in order, and where in `code` each ends."""
    events: list[Event] = []
    ends: list[int] = []
    open_group = False
    for n, i in enumerate(code):
        if i.is_a(*TENSOR_CORE):
            if open_group:
                events[-1], ends[-1] = ("mma", events[-1][1] + 1), n
            else:
                events.append(("mma", 1))
                ends.append(n)
            open_group = not _closes(i)
        elif i.is_a("WARPGROUP.DEPBAR"):
            events.append(("wait", int(i.operands[-1], 0)))
            ends.append(n)
            open_group = False
        elif i.is_a("WARPGROUP.ARRIVE"):
            open_group = False
    return events, ends


def _told(events: Sequence[Event]) -> str:
    words = {"mma": "issue {}", "wait": "wait until {} pending"}
    return ", ".join(words[kind].format(n) for kind, n in events) or "nothing"
