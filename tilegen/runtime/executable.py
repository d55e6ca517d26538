"""A variant of a kernel where it runs: in the modules of GPUs, or in the PTX emulator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from tilegen.diagnostics.core import TilegenError
from tilegen.ir.machines import MACHINES
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.runtime import driver
from tilegen.runtime.arrays import ArrayView
from tilegen.runtime.binding import Binding, Device, bind
from tilegen.runtime.device_memory import DeviceArray, SharedWords
from tilegen.runtime.dispatch import Dispatch, dispatch
from tilegen.runtime.launch import DealtLaunch, GpuLaunch, Tables, encode_cached, gpu_launch
from tilegen.runtime.recent import Recent
from tilegen.runtime.sequences import DEAL_THREADS, FAULT_WORDS, check_starts, describe_fault, sequences_of
from tilegen.runtime.variants import Artefacts, Variant
from tilegen.syntax.span import Span

if TYPE_CHECKING:
    from tilegen.emulate.ptx import Module, Report
    from tilegen.runtime.emulated import Emulation


@dataclass(frozen=True)
class Numbers:
    """The sizes and scalars of a launch, every one."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, int | float]


class Memory:
    """What launches are made of, kept for the next ones: of all variants of a kernel within one bound.

    fault_words: what the launches of a variant on a GPU find wrong with the starts of sequences.
    """

    def __init__(self) -> None:
        self.dispatches: Recent[Dispatch] = Recent(lambda made: made.bytes)
        self.tables: Recent[DeviceArray] = Recent(lambda array: array.nbytes)
        self.fault_words: dict[tuple[Executable, int], SharedWords] = {}


class Executable:
    """Launches of one variant. Nothing of it is compiled or loaded before the first."""

    def __init__(self, variant: Variant[Artefacts], spans: Mapping[str, Span], memory: Memory) -> None:
        self.variant = variant
        self._spans = spans
        self._memory = memory
        self._loaded: dict[int, driver.Loaded] = {}
        self._cubins: dict[str, bytes] = {}  # by architecture, for GPUs that need another one than the target's
        self._sequences = sequences_of(variant.plan)
        self._dealers: dict[int, tuple[driver.Loaded, Tables]] = {}  # by device: the kernel in front

    @property
    def plan(self) -> Plan:
        return self.variant.plan

    @cached_property
    def entries(self) -> list[str]:
        """The kernel's name in PTX and cubin; that of the one in front that deals out its items, which is longer."""
        found = sorted(re.findall(r"\.entry\s+(\w+)", self.variant.ptx), key=len)
        assert found, "the PTX has a kernel"
        return found

    @cached_property
    def module(self) -> Module:
        """The parsed PTX."""
        from tilegen.emulate.ptx import parse

        return parse(self.variant.ptx)

    def emulate(
        self,
        views: Mapping[str, ArrayView],
        numbers: Numbers,
        mode: Emulation | None = None,
        program: TileProgram | None = None,
        ptx: str | None = None,
    ) -> Report | None:
        """Run in the emulator, on arrays in CPU memory; `ptx` instead of the variant's own."""
        from tilegen.emulate.ptx import parse
        from tilegen.runtime.emulated import (
            PLAIN,
            emulated,
        )  # not on a GPU's launch path: the emulator takes time to load

        def bound(moved: Mapping[str, ArrayView], device: Device) -> Binding:
            return bind(self.plan, moved, numbers.sizes, partial(self._dispatch, numbers), device, self._spans)

        q = self._sequences
        if q is not None and (wrong := check_starts(q, views, numbers.sizes, self._spans)) is not None:
            raise TilegenError((wrong,))
        module = self.module if ptx is None else parse(ptx)
        mode = mode or PLAIN
        return emulated(module, self.entries, self.plan, views, bound, self.refuse_starts, mode, program, numbers.sizes)

    def bound(self, views: Mapping[str, ArrayView], numbers: Numbers) -> tuple[driver.Loaded, Binding]:
        """The kernel on the GPU that holds these arrays, and its arguments."""
        kernel = self._on(int(next(iter(views.values())).device.removeprefix("cuda:")))
        device = Device(kernel.sms, encode_cached, partial(self._upload, kernel.device.index))
        with driver.current(kernel.device.index):
            binding = bind(self.plan, views, numbers.sizes, partial(self._dispatch, numbers), device, self._spans)
        return kernel, binding

    def made(self, kernel: driver.Loaded, binding: Binding) -> GpuLaunch | DealtLaunch:
        """The launch of these arguments, in place."""
        if binding.dealing is not None:
            return self._dealt(kernel, binding)
        return gpu_launch(kernel, binding, dependent=self.plan.dependent)

    def refuse_starts(self, words: Sequence[int]) -> None:
        """Raises what the kernel has found wrong with the starts of sequences."""
        if words[0]:
            assert self._sequences is not None
            raise TilegenError((describe_fault(self._sequences, list(words[1:6]), self._spans),))

    def _dealt(self, kernel: driver.Loaded, binding: Binding) -> DealtLaunch:
        assert binding.dealing is not None
        index = kernel.device.index
        if index not in self._dealers:
            self._dealers[index] = driver.beside(kernel, self.entries[1], DEAL_THREADS), Tables(index)
            self._memory.fault_words[self, index] = SharedWords(FAULT_WORDS, index)
        words, dependent = self._memory.fault_words[self, index].pointer, self.plan.dependent
        return DealtLaunch(kernel, *self._dealers[index], binding.grid, binding.dealing, words, dependent)

    def _dispatch(self, numbers: Numbers, sm_count: int) -> Dispatch:
        """Launches that differ only in addresses, such as those of new outputs, share one."""
        key = (self, sm_count, *numbers.sizes.items(), *numbers.scalars.items())
        made = partial(dispatch, self.plan, numbers.sizes, numbers.scalars, sm_count)
        return self._memory.dispatches.get(key, made)

    def _upload(self, device: int, launch: Dispatch) -> tuple[int, object]:
        """A table of work items on the GPU; launches of the same dispatch share one."""
        assert launch.table is not None
        made = self._memory.tables.get((device, launch), partial(DeviceArray, launch.table, device))
        return made.pointer, made

    def _on(self, device: int) -> driver.Loaded:
        loaded = self._loaded.get(device)
        if loaded is None:
            plan, machine = self.plan, MACHINES[self.plan.target]
            architecture = machine.architecture_on(driver.check_machine(device, machine).capability)
            cubin = self._cubin(architecture)
            loaded = driver.load(cubin, self.entries[0], device, plan.threads, plan.shared_bytes, plan.cluster)
            self._loaded[device] = loaded
        return loaded

    def _cubin(self, architecture: str) -> bytes:
        """The machine code for an architecture, from the same text."""
        if architecture == MACHINES[self.plan.target].architecture:
            return self.variant.cubin
        from tilegen.runtime.compiler import compiled_for  # a kernel for the GPU at hand does without the compiler

        if architecture not in self._cubins:
            self._cubins[architecture] = compiled_for(architecture, self.plan, self.variant.cuda)
        return self._cubins[architecture]
