"""One workgroup: its waves, which take turns, its LDS, and the matrix loads on their way to it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from tilegen.diagnostics.catalogue import Code
from tilegen.emulate.mls.faults import FaultError, report
from tilegen.emulate.mls.lds import Index, Lds
from tilegen.emulate.mls.operation import Operation
from tilegen.emulate.mls.wave import EXEC, M0, SCC, VCC, Wave
from tilegen.targets.mls import isa
from tilegen.targets.mls.program import Program

_TURN = 64  # instructions of a wave's turn, at most
_POISON = 0xFFFF
_BY_OTHERS = (Code.MLS_DIRTY_LDS, Code.MLS_WRONG_ELEMENT)  # what a race may look like to the wave that reads
_IN_FLIGHT = -4  # origin of what a load is to overwrite


@dataclass(frozen=True)
class _Flight:
    """A matrix load on its way: the pairs of LDS that it will write, and what."""

    event: int
    wave: int
    at: Index
    values: npt.NDArray[np.uint16]
    origins: npt.NDArray[np.int64]


class Group:
    """A workgroup. at: its index in the grid; steps: what is left of the launch's limit, in a list that all share."""

    def __init__(
        self, program: Program, operations: Sequence[Operation], at: tuple[int, int, int], arguments: int,
        chance: random.Random, steps: list[int], counts: Counter[str],
    ) -> None:  # fmt: skip
        self.lds = Lds(program.lds, program.waves)
        self.waves = [Wave(self, index, program.vgprs) for index in range(program.waves)]
        self._program = program
        self._operations = operations
        self._at = at
        self._chance = chance
        self._steps = steps
        self._counts = counts
        self._flights: list[_Flight] = []
        for wave in self.waves:
            wave.define(isa.ARGUMENTS, arguments)
            wave.define(isa.ARGUMENTS + 1, arguments >> 32)
            for register, index in zip(isa.GROUP, at, strict=True):
                wave.define(register, index)
            wave.define(isa.WAVE, wave.index)
            wave.v[isa.LANE] = np.arange(isa.LANES, dtype=np.uint32)
            wave.defined_v |= 1 << isa.LANE

    # ---- matrix loads ----

    def send(
        self, wave: Wave, event: int, at: Index, values: npt.NDArray[np.uint16], origins: npt.NDArray[np.int64]
    ) -> None:
        """A matrix load has been issued. Until it lands, its bytes are poison."""
        self.lds.data[at] = _POISON
        self.lds.origin[at] = _IN_FLIGHT
        self._flights.append(_Flight(event, wave.index, at, values, origins))

    def complete(self, event: int, barriers: int) -> None:
        """An event's wave has waited for it."""
        self.lds.end(event, barriers)
        flight = next((f for f in self._flights if f.event == event), None)
        if flight is not None:
            self._flights.remove(flight)
            self._land(flight)

    def _land(self, flight: _Flight) -> None:
        self.lds.data[flight.at] = flight.values
        self.lds.origin[flight.at] = flight.origins

    def _drift(self) -> None:
        """Some loads land before anybody waits for them: of each wave the oldest first."""
        late: set[int] = set()
        staying = []
        for flight in self._flights:
            if flight.wave in late or self._chance.random() < 0.5:
                late.add(flight.wave)
                staying.append(flight)
            else:
                self._land(flight)
        self._flights = staying

    # ---- turns ----

    def run(self) -> None:
        """Run all waves to their end. Raises TilegenError."""
        while True:
            able = [w for w in self.waves if not w.done and not w.waiting]
            if not able:
                if all(w.done for w in self.waves):
                    return
                self._meet()
                continue
            wave = self._chance.choice(able)
            try:
                self._turn(wave, self._chance.randint(1, _TURN))
            except FaultError as error:
                if error.code in _BY_OTHERS:
                    self._look_for_races(wave)
                self._report(error, wave)
            if self._flights:
                self._drift()

    def _meet(self) -> None:
        """All living waves have come to a barrier."""
        ended = [w.index for w in self.waves if w.done]
        if ended:
            waiting = next(w for w in self.waves if w.waiting)
            waiting.pc -= 1
            self._report(FaultError(Code.MLS_HANG, f"it waits for ever: wave {ended[0]} has ended"), waiting)
        for wave in self.waves:
            wave.waiting = False
            wave.barriers += 1

    def _turn(self, wave: Wave, length: int) -> None:
        operations = self._operations
        counts = self._counts
        for _ in range(length):
            operation = operations[wave.pc]
            self._check(operation, wave)
            counts[operation.instruction.name] += 1
            if operation.run is None:
                self._control(operation, wave)
            else:
                operation.run(wave)
                wave.pc += 1
            wave.defined_s |= operation.written_s
            wave.defined_v |= operation.written_v
            if wave.waiting or wave.done:
                break
        self._steps[0] -= length
        if self._steps[0] < 0:
            raise FaultError(Code.MLS_STEP_LIMIT, "the launch is not done within its limit of instructions")

    def _check(self, operation: Operation, wave: Wave) -> None:
        """Raise FaultError where an instruction takes registers that are undefined, or not waited for."""
        undefined_s, undefined_v = operation.read_s & ~wave.defined_s, operation.read_v & ~wave.defined_v
        if undefined_s or undefined_v:
            name = _name(undefined_s, undefined_v)
            raise FaultError(Code.MLS_UNINITIALISED, f"it reads {name}, which nothing has written")
        busy_s = (operation.read_s | operation.written_s) & wave.busy_s
        busy_v = (operation.read_v | operation.written_v) & wave.busy_v
        if busy_s or busy_v:
            line = next(o.line for o in (*wave.vm, *wave.lgkm) if o.scalars & busy_s or o.vectors & busy_v)
            raise FaultError(
                Code.MLS_NOT_WAITED,
                f"it touches {_name(busy_s, busy_v)}, which line {line} loads and no s_waitcnt has waited for",
            )

    def _control(self, operation: Operation, wave: Wave) -> None:
        instruction = operation.instruction
        wave.pc += 1
        match instruction.name:
            case "s_waitcnt":
                vm, lgkm = instruction.modifier("vmcnt"), instruction.modifier("lgkmcnt")
                if vm is not None:
                    wave.wait_vm(vm)
                if lgkm is not None:
                    wave.wait_lgkm(lgkm)
            case "s_barrier":
                wave.waiting = True
            case "s_endpgm":
                wave.done = True
                loads = [o for o in wave.vm if o.event]
                if loads:
                    wave.pc -= 1
                    raise FaultError(
                        Code.MLS_RACE,
                        f"race: the load of line {loads[0].line} is not waited for, and writes LDS that may belong to "
                        "another workgroup by then",
                    )
            case "s_nop":
                pass
            case name:
                if _TAKEN[name](wave):
                    wave.pc = operation.target

    def _look_for_races(self, reader: Wave) -> None:
        """A wave has found in LDS what it was not to find. Where another is about to write those very bytes, that they
        race is what is wrong: let the others go on to where they stop, and report it. Raises TilegenError."""
        for wave in self.waves:
            try:
                while wave is not reader and not wave.done and not wave.waiting:
                    self._turn(wave, _TURN)
            except FaultError as error:
                if error.code is Code.MLS_RACE:
                    self._report(error, wave)

    def _report(self, error: FaultError, wave: Wave) -> NoReturn:
        operation = self._operations[wave.pc]
        x, y, z = self._at
        where = f"wave {wave.index} of workgroup ({x}, {y}, {z})"
        report(error, self._program, operation.instruction, operation.span, where)


_TAKEN: dict[str, Callable[[Wave], bool]] = {
    "s_branch": lambda w: True,
    "s_cbranch_scc0": lambda w: not w.scc,
    "s_cbranch_scc1": lambda w: bool(w.scc),
    "s_cbranch_execz": lambda w: not w.exec,
    "s_cbranch_execnz": lambda w: bool(w.exec),
    "s_cbranch_vccz": lambda w: not w.pair(VCC),
    "s_cbranch_vccnz": lambda w: bool(w.pair(VCC)),
}


def _name(scalars: int, vectors: int) -> str:
    """The lowest register of two masks."""
    if scalars:
        index = (scalars & -scalars).bit_length() - 1
        return {VCC: "vcc", VCC + 1: "vcc", M0: "m0", EXEC: "exec", SCC: "scc"}.get(index, f"s{index}")
    return f"v{(vectors & -vectors).bit_length() - 1}"
