"""A compiled kernel as a callable: `kernel(Q=q, K=k, V=v)`.

It runs where its arrays are: on the GPU that holds them, on the current stream of their framework, or, for
arrays in CPU memory, in the PTX emulator. Calls after the first on the same shapes and addresses only launch.
"""

from __future__ import annotations

import difflib
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.diagnostics.catalogue import Code, fail, fault
from tilegen.diagnostics.core import Diagnostic, TilegenError
from tilegen.ir.accesses import Access
from tilegen.ir.outside import undecided
from tilegen.ir.plan import Plan
from tilegen.ir.tile import TileProgram
from tilegen.ir.variants import asked, asked_alignments, dense_alignments, taken
from tilegen.runtime import driver
from tilegen.runtime.arrays import ArrayView, allocator, current_stream, describe
from tilegen.runtime.binding import output_shapes, resolve
from tilegen.runtime.executable import Executable, Memory, Numbers
from tilegen.runtime.forms import NUMBERS, Form, recogniser, signature
from tilegen.runtime.launch import DealtLaunch, GpuLaunch, Mover
from tilegen.runtime.reads import check_reads
from tilegen.runtime.recent import Recent
from tilegen.runtime.variants import Artefacts, Variant, build_all

if TYPE_CHECKING:
    from tilegen.emulate.ptx import Report

_HOST = describe(np.empty(0))  # a kernel called without any array makes numpy ones


@dataclass(frozen=True)
class _Request:
    """The arguments of one call, sorted by what they are."""

    arrays: dict[str, Any]
    views: dict[str, ArrayView]
    numbers: dict[str, int | float]

    @cached_property
    def spelt(self) -> tuple[tuple[str, str], ...]:
        """The numbers so that 1, 1.0 and True, and 0.0 and -0.0, differ."""
        return tuple((name, repr(number)) for name, number in self.numbers.items())


@dataclass(frozen=True)
class _Resolved:
    """What shapes, numbers and the alignment of addresses determine."""

    executable: Executable
    numbers: Numbers
    shapes: Mapping[str, tuple[int, ...]]  # of the outputs


@dataclass(frozen=True)
class Prepared:
    """A launch with everything fixed: calling it does nothing but launch, and returns `outputs`.

    It keeps its arrays alive. On a GPU each call goes to the stream that is current then.
    """

    outputs: Any
    _run: Callable[[], object]
    _arrays: Mapping[str, Any]
    _launch: GpuLaunch | DealtLaunch | None = None  # whose memory the driver reads the arguments from

    def __repr__(self) -> str:
        return f"<prepared launch on {', '.join(self._arrays)}>"

    def __call__(self) -> Any:
        self._run()
        return self.outputs


def _result(outputs: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    """What a call returns, of all its arrays by name."""
    of_arrays: Callable[[Mapping[str, Any]], Any] = itemgetter(*outputs)
    if len(outputs) == 1:
        return of_arrays
    several = partial(tuple.__new__, namedtuple("Outputs", outputs, rename=True))
    return lambda arrays: several(of_arrays(arrays))


class Kernel:
    """One compiled kernel. `kernel(Q=q, K=k, V=v)` launches it and returns its outputs; see `__call__`.

    `prepare` fixes the arguments, for launches that do nothing else. What was generated: `cuda`, `ptx`, `sass`
    (texts), `cubin` (bytes), and the `plan` that they were made from. A kernel whose schedule depends on sizes or
    scalars has these of each of its `variants`, which are compiled when a launch first takes them, or by `build`.
    """

    def __init__(self, program: TileProgram, variants: Sequence[Variant[Artefacts]]) -> None:
        self.program = program
        self.variants = tuple(variants)
        self.last_report: Report | None = None
        self._spans = {
            item.name: item.span for group in (program.tensors, program.sizes, program.scalars) for item in group
        }
        self._plans = tuple(variant.plan for variant in self.variants)
        self._tensors = {t.name: t for t in self._plans[0].tensors}  # those of all
        self._aligned = asked_alignments(self._plans)
        self._outputs = tuple(t.name for t in program.tensors if t.output)
        self._scalars = {s.name: s for s in program.scalars}
        ragged = {r.size for r in program.ragged}  # their lengths come as an array
        self._numbers = {s.name for s in program.sizes if s.name not in ragged} | self._scalars.keys()
        self._result = _result(self._outputs)
        memory = Memory()
        self._executables = tuple(Executable(variant, self._spans, memory) for variant in self.variants)
        self._fault_words = memory.fault_words
        self._resolved: Recent[_Resolved] = Recent()
        self._forms: Recent[Form] = Recent(lambda form: form.kept)
        self._latest: tuple[Form, Callable[[Mapping[str, Any]], list[int] | None]] | None = None  # and its `recognise`
        self._launches: Recent[GpuLaunch | DealtLaunch] = Recent(lambda launch: launch.kept)

    def __repr__(self) -> str:
        return f"<tilegen kernel {self.program.title}: {', '.join(self._tensors)}>"

    @cached_property
    def _undecided(self) -> tuple[Access, ...]:
        return undecided(self.program)

    @property
    def name(self) -> str:
        return self._plans[0].name

    @property
    def plan(self) -> Plan:
        """The plan, which tells every wait, byte and register."""
        return self._only.plan

    @property
    def cuda(self) -> str:
        """The CUDA C++ text."""
        return self._only.cuda

    @property
    def ptx(self) -> str:
        return self._only.ptx

    @property
    def cubin(self) -> bytes:
        return self._only.cubin

    @property
    def sass(self) -> str:
        return self._only.sass

    @property
    def entry(self) -> str:
        """The kernel's name in PTX and cubin, the same in all variants."""
        return self._executables[0].entries[0]

    @property
    def _only(self) -> Variant[Artefacts]:
        if len(self.variants) > 1:
            fail(Code.SEVERAL_VARIANTS, None, kernel=self.name, count=len(self.variants))
        return self.variants[0]

    def variant(self, **numbers: float) -> Variant[Artefacts]:
        """The variant that a launch of these sizes and scalars takes, on arrays without gaps that begin at multiples of
        16 bytes; numbers that no schedule asks for may be left out. Raises TilegenError where one is missing, and where
        none is for them."""
        if faults := [self._unknown(name) for name in numbers if name not in self._numbers]:
            raise TilegenError(tuple(faults))
        given = {name: self._number(name, value) for name, value in numbers.items()}
        for name, value in given.items():
            if isinstance(value, float) and not (dtype := self._scalars[name].dtype).is_float:
                said, span = repr(value), self._spans[name]
                fail(Code.SCALAR_VALUE, span, got=said, wanted="a whole number", value=said, scalar=name, dtype=dtype)
        return self.variants[self._chosen({**given, **self._dense_alignments(given)})]

    def build(self) -> None:
        """Compile every variant now, none at a launch. Raises TilegenError with the faults of all."""
        build_all(self.variants)

    def __call__(self, /, *positional: Any, **arguments: Any) -> Any:
        """Run the kernel on these arguments, all of them by name, and return its outputs.

        Inputs are arrays of torch, CuPy or numpy, or anything with `__dlpack__` or `__cuda_array_interface__`; they
        are where it runs: on their GPU, without waiting for it, or in the emulator. Sizes and scalars are given by
        keyword too: sizes where no shape tells them, scalars instead of the spec's defaults. Outputs may be given,
        as arrays to write into; otherwise they are made by the framework of the first input. None is as good as
        nothing given.

        One output comes back as itself, several as a named tuple in the order of their declaration. Raises
        TilegenError with what does not fit.
        """
        if self._latest is not None and not positional:
            form, recognise = self._latest
            if (addresses := recognise(arguments)) is not None:
                if self._fault_words:
                    self._raise_found()
                return form.call(arguments, addresses, self._launches)
        return self._call(positional, arguments)

    def _call(self, positional: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """A call that is not of the same form as the one before."""
        known = None if positional else signature(arguments)
        if known and (met := self._forms.peek(known[0])) is not None:
            if met.recognise is not None:
                self._latest = met, met.recognise
            self._raise_found()
            return met.call(arguments, known[1], self._launches)
        request, resolved = self._request(positional, arguments)
        first = next(iter(request.views.values()))
        if not first.on_gpu:
            self._emulate(request.views, resolved)
        else:
            launch = self._launch(request, resolved)
            launch.put(current_stream(first)())
            # a number as an array may be another at the next call, though nothing of the array differs
            if known and all(name in self._tensors or type(n) in NUMBERS for name, n in arguments.items()):
                self._forms.get(known[0], lambda: self._form(request, resolved, arguments, launch.kept))
        return self._result(request.arrays)

    def emulate(
        self,
        arguments: Mapping[str, Any],
        *,
        watch: bool = True,
        seed: int | None = 0,
        ptx: str | None = None,
        step_limit: int | None = None,
    ) -> Any:
        """Run the kernel on these arguments (those of a call, in CPU memory) in the PTX emulator; returns its outputs.

        watch: what the hardware leaves undefined is reported, as faults of the catalogue whose names begin with
        EMULATED. seed: of the times at which engines finish and warps run; None completes everything when it is
        issued. ptx: a text to run instead of that of the variant that the arguments take. step_limit: steps until it
        counts as endless.

        Raises TilegenError for the first fault.
        """
        from tilegen.runtime.emulated import Emulation

        request, resolved = self._request((), arguments)
        mode = Emulation(watch, seed, step_limit)
        self.last_report = resolved.executable.emulate(request.views, resolved.numbers, mode, self.program, ptx)
        return self._result(request.arrays)

    def prepare(self, /, *positional: Any, **arguments: Any) -> Prepared:
        """The launch of these arguments (those of a call), checked, encoded and loaded, as a callable without any.

        Each call of it launches anew and returns the same outputs, which are also its `outputs`.
        """
        request, resolved = self._request(positional, arguments)
        first = next(iter(request.views.values()))
        result = self._result(request.arrays)
        if not first.on_gpu:
            return Prepared(result, partial(self._emulate, request.views, resolved), request.arrays)
        launch = self._launch(request, resolved)
        put, stream, faults = launch.put, current_stream(first), self._fault_words

        def run() -> None:
            if faults:
                self._raise_found()
            put(stream())

        return Prepared(result, run, request.arrays, launch)

    def _form(self, request: _Request, resolved: _Resolved, given: Mapping[str, Any], kept: int) -> Form:
        """What calls share that differ from this one in nothing but addresses."""
        first = next(iter(request.views.values()))
        missing = [name for name in self._outputs if given.get(name) is None]
        names = [*(name for name, value in given.items() if type(value) not in NUMBERS), *missing]
        mover: Mover | None = None

        def launch(arguments: Mapping[str, Any], addresses: Sequence[int]) -> GpuLaunch | DealtLaunch:
            nonlocal mover
            if mover is not None and (moved := mover(addresses)) is not None:
                return moved
            views = {name: describe(arguments[name], name) for name in names}
            executable = self._executable(resolved, views)
            loaded, binding = executable.bound(views, resolved.numbers)
            if binding.grid and binding.dealing is None and not any(0 in view.shape for view in views.values()):
                mover = Mover(loaded, executable.plan, binding, names, addresses)
            return executable.made(loaded, binding)

        makers = [(name, self._allocator(first, name, resolved)) for name in missing]
        return Form(makers, current_stream(first), launch, self._result, kept, recogniser(given))

    # ---- arguments -------------------------------------------------------------------------------

    def _request(self, positional: tuple[Any, ...], arguments: Mapping[str, Any]) -> tuple[_Request, _Resolved]:
        """The arguments with the outputs allocated, and what their shapes determine."""
        if positional:
            call = ", ".join(f"{t.name}=…" for t in self._tensors.values() if not t.output)
            got = f"{len(positional)} without a name"
            fail(Code.ARGUMENTS_BY_NAME, None, got=got, kernel=self.name, call=call)
        request = self._sorted(arguments)
        shapes = tuple((name, v.shape, v.dtype, v.device, v.read_only) for name, v in request.views.items())
        key = (shapes, request.spelt, *sorted(self._alignments(request.views).items()))
        resolved = self._resolved.get(key, lambda: self._resolve(request))
        first = next(iter(request.views.values()), _HOST)
        for name in self._outputs:
            if name not in request.views:
                made = request.arrays[name] = self._allocator(first, name, resolved)()
                request.views[name] = describe(made, name)
        return request, resolved

    def _allocator(self, like: ArrayView, output: str, resolved: _Resolved) -> Callable[[], Any]:
        return allocator(like, resolved.shapes[output], self._tensors[output].dtype, self.name, output)

    def _sorted(self, arguments: Mapping[str, Any]) -> _Request:
        arrays: dict[str, Any] = {}
        views: dict[str, ArrayView] = {}
        numbers: dict[str, int | float] = {}
        faults = []
        for name, tensor in self._tensors.items():
            value = arguments.get(name)
            if value is not None:
                arrays[name] = value
                views[name] = describe(value, name)
            elif not tensor.output:
                faults.append(fault(Code.MISSING_ARRAY, self._spans.get(name), kernel=self.name, tensor=name))
        for name, value in arguments.items():
            if name in self._numbers:
                if value is not None:
                    numbers[name] = self._number(name, value)
            elif name not in self._tensors:
                faults.append(self._unknown(name))
        if faults:
            raise TilegenError(tuple(faults))
        return _Request(arrays, views, numbers)

    def _unknown(self, name: str) -> Diagnostic:
        known = (*self._tensors, *sorted(self._numbers))
        close = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {close[0]}?" if close else ""
        return fault(Code.UNKNOWN_ARGUMENT, None, wanted=meant, kernel=self.name, name=name, known=", ".join(known))

    def _number(self, name: str, value: Any) -> int | float:
        """A number of Python's, or one as an array without dimensions; to read one on a GPU would be to wait for it."""
        if hasattr(value, "item") and not hasattr(value, "__cuda_array_interface__") and value.shape == ():
            value = value.item()
        if name in self._scalars and isinstance(value, int | float):
            return value
        if name not in self._scalars and isinstance(value, int) and not isinstance(value, bool):
            return value
        said, span = repr(value), self._spans[name]
        if hasattr(value, "shape"):
            where = "on a GPU" if hasattr(value, "__cuda_array_interface__") else f"of shape {tuple(value.shape)}"
            said = f"an array {where}"
        if name not in self._scalars:
            fail(Code.SIZE_VALUE, span, got=said, wanted="a whole number", size=name)
        dtype = self._scalars[name].dtype
        fail(Code.SCALAR_VALUE, span, got=said, wanted="a number", value=said, scalar=name, dtype=dtype)

    def _resolve(self, request: _Request) -> _Resolved:
        from tilegen.oracle.scalars import scalar_values  # brings the whole oracle, which takes time to load

        # what is out of place among them (a fraction for an integer scalar) is for scalar_values to say
        whole = {name: n for name, n in request.numbers.items() if isinstance(n, int)}
        plan = self._plans[0]
        sizes = resolve(plan, request.views, whole, self._spans)
        for size in self.program.sizes:
            if size.name not in sizes and size.name in self._numbers:
                fail(Code.SIZE_UNKNOWN, size.span, size=size.name)
        given = {name: n for name, n in request.numbers.items() if name in self._scalars}
        scalars = scalar_values(self.program, sizes, given)
        check_reads(self.program, self._undecided, {**sizes, **scalars})
        made = self._dense_alignments({**sizes, **scalars})  # for outputs that are not given
        values = {**sizes, **scalars, **made, **self._alignments(request.views)}
        executable = self._executables[self._chosen(values)]
        return _Resolved(executable, Numbers(sizes, scalars), output_shapes(plan, sizes))

    def _alignments(self, views: Mapping[str, ArrayView]) -> dict[str, int]:
        """Of the arrays there are, of tensors of which a guard asks it."""
        return {name: views[tensor].alignment for name, tensor in self._aligned.items() if tensor in views}

    def _dense_alignments(self, numbers: Mapping[str, int | float]) -> dict[str, int]:
        """Of arrays without gaps, of the tensors of which a guard asks it."""
        return dense_alignments(self._aligned, self._tensors, numbers)

    def _executable(self, resolved: _Resolved, views: Mapping[str, ArrayView]) -> Executable:
        """The one for arrays that differ from those resolved in their addresses."""
        if not self._aligned:
            return resolved.executable
        numbers = resolved.numbers
        return self._executables[self._chosen({**numbers.sizes, **numbers.scalars, **self._alignments(views)})]

    def _chosen(self, numbers: Mapping[str, int | float]) -> int:
        """Which variant a launch takes."""
        names = asked(self._plans)
        if missing := [name for name in names if name not in numbers]:
            fail(
                Code.VARIANT_UNKNOWN,
                self._spans[missing[0]],
                kernel=self.program.name,
                missing=", ".join(missing),
                numbers=", ".join(f"{name}={numbers.get(name, '…')}" for name in names if name not in self._aligned),
            )
        values = {name: int(numbers[name]) for name in names}
        return taken(self._plans, values, self.program, self._plans[0].target)

    # ---- running ---------------------------------------------------------------------------------

    def _emulate(self, views: Mapping[str, ArrayView], resolved: _Resolved) -> None:
        self.last_report = resolved.executable.emulate(views, resolved.numbers)

    def check(self) -> None:
        """Wait for the GPUs that this kernel was launched on, and raise TilegenError for what a launch has found wrong.

        That is starts of sequences that lie in the GPU's memory (RAGGED_STARTS): without a check, the first call
        after it is known raises it. Kernels without ragged sizes find nothing.
        """
        for device in {device for _, device in self._fault_words}:
            driver.synchronise(device)
        self._raise_found()

    def _raise_found(self) -> None:
        for (executable, _), found in self._fault_words.items():
            if found.words[0]:
                words = list(found.words)
                found.words[0] = 0
                executable.refuse_starts(words)

    def _launch(self, request: _Request, resolved: _Resolved) -> GpuLaunch | DealtLaunch:
        views, executable = request.views, resolved.executable
        self._raise_found()
        placed = ((v.pointer, v.shape, v.strides, v.device) for v in map(views.__getitem__, self._tensors))
        return self._launches.get(
            (*placed, request.spelt), lambda: executable.made(*executable.bound(views, resolved.numbers))
        )
