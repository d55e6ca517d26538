"""Launches that come again, as graphs, with a stand-in for the driver: when, when not, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.runtime.test_driver import CONTEXT, ELSEWHERE, FakeDriver
from tests.runtime.test_driver import fake as fake  # a fixture
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import direct, driver
from tilegen.runtime.binding import Binding
from tilegen.runtime.direct import AFTER
from tilegen.runtime.launch import GpuLaunch, gpu_launch

MADE = ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate", "cuGraphDestroy", "cuGraphLaunch"]
RELAXED = "cuThreadExchangeStreamCaptureMode"


ASKED = ["current context", "is capturing"]


def made(fake: FakeDriver, *, dependent: bool = False) -> GpuLaunch:
    """A launch; the kernel's context is current."""
    loaded = driver.load(b"cubin", "fa3", 0, 384, 200_000)
    fake.context = CONTEXT
    return gpu_launch(loaded, Binding(17, (bytes(128),)), dependent=dependent)


def put(fake: FakeDriver, launch: GpuLaunch, times: int, stream: int = 9) -> list[str]:
    """What one more launch calls, after so many."""
    for _ in range(times):
        launch.put(stream)
    fake.calls.clear()
    launch.put(stream)
    return fake.names()


def launches(names: list[str]) -> list[str]:
    return [name for name in names if name in ("cuLaunchKernelEx", "cuGraphLaunch")]


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_launch_that_comes_again_becomes_a_graph_of_the_same_kernel(fake: FakeDriver) -> None:
    launch = made(fake)
    assert put(fake, launch, AFTER - 1) == ["cuLaunchKernelEx"]
    assert put(fake, launch, 0) == [*ASKED, RELAXED, *MADE, RELAXED]
    (node,) = fake.nodes
    assert (int(node.func), node.sharedMemBytes, node.kernelParams) == (600, 200_000, launch.pointers)
    assert (node.gridDimX, node.gridDimY, node.gridDimZ) == (17, 1, 1)
    assert (node.blockDimX, node.blockDimY, node.blockDimZ) == (384, 1, 1)
    for _ in range(2):
        assert put(fake, launch, 0) == [*ASKED, "cuGraphLaunch"]
        assert fake.graph_launched == (fake.graphs[0], 9)


def test_a_graph_is_made_and_launched_first_where_a_capture_elsewhere_allows_it(fake: FakeDriver) -> None:
    launch = made(fake)
    seen: list[tuple[str, bool]] = []
    fake.watch = lambda name: seen.append((name, fake.relaxed()))
    put(fake, launch, AFTER + 1)
    assert {name for name, relaxed in seen if relaxed} == set(MADE)
    assert seen[-1] == ("cuGraphLaunch", False)
    assert not fake.relaxed()


@pytest.mark.parametrize("before", [AFTER, AFTER + 3])
def test_a_stream_that_is_captured_gets_the_kernel_itself(fake: FakeDriver, before: int) -> None:
    launch = made(fake)
    put(fake, launch, before - 1)
    fake.captured = True
    for _ in range(3):
        assert put(fake, launch, 0) == [*ASKED, "cuLaunchKernelEx"]
    fake.captured = False
    assert put(fake, launch, 1) == [*ASKED, "cuGraphLaunch"]


@pytest.mark.parametrize("before", [AFTER, AFTER + 3])
@pytest.mark.parametrize("stream", [0, 1, 2, 9])
def test_a_graph_is_for_the_kernels_context_alone(fake: FakeDriver, before: int, stream: int) -> None:
    """In another one the default stream is another stream; without one the driver crashes when it makes a graph."""
    asked = ASKED[: 1 if stream < 2 else 2]
    launch = made(fake)
    put(fake, launch, before - 1, stream)
    for fake.context in (0, CONTEXT + 1):
        assert put(fake, launch, 0, stream) == ["current context", "refused launch", *ELSEWHERE[1:]]
        assert fake.launched.stream == stream
    fake.context = CONTEXT
    assert put(fake, launch, 1, stream) == [*asked, "cuGraphLaunch"]
    assert fake.graph_launched == (fake.graphs[0], stream)


def test_a_dependent_launch_never_becomes_a_graph(fake: FakeDriver) -> None:
    launch = made(fake, dependent=True)
    assert put(fake, launch, 2 * AFTER) == ["cuLaunchKernelEx"]


def test_each_stream_has_a_graph_of_its_own(fake: FakeDriver) -> None:
    launch = made(fake)
    put(fake, launch, AFTER)
    assert put(fake, launch, AFTER - 1, stream=10) == ["cuLaunchKernelEx"]
    put(fake, launch, 0, stream=10)
    assert fake.graph_launched == (fake.graphs[1], 10)
    put(fake, launch, 0, stream=9)
    assert fake.graph_launched == (fake.graphs[0], 9)


def test_each_thread_has_a_graph_of_its_own(fake: FakeDriver) -> None:
    launch, seen = made(fake), []
    put(fake, launch, AFTER)

    def work() -> None:
        seen.append(put(fake, launch, AFTER - 1)[-1])
        seen.append(put(fake, launch, 1))
        seen.append(fake.graph_launched)

    in_a_thread(work)
    assert seen == ["cuLaunchKernelEx", [*ASKED, "cuGraphLaunch"], (802, 9)]
    assert put(fake, launch, 0) == [*ASKED, "cuGraphLaunch"]
    assert fake.graph_launched == (801, 9)


@pytest.mark.parametrize("fails", [RELAXED, *MADE[:3], "cuGraphLaunch"])
def test_where_no_graph_can_be_made_launches_go_on_as_before(fake: FakeDriver, fails: str) -> None:
    launch = made(fake)
    fake.fails = {fails}
    tried = put(fake, launch, AFTER)
    assert fails in tried and tried[-1] == "cuLaunchKernelEx"
    assert tried.count("cuGraphCreate") == tried.count("cuGraphDestroy") + (fails == "cuGraphCreate")
    assert not fake.relaxed()
    assert fake.graphs == ([801] if fails == "cuGraphLaunch" else [])  # until another is made
    fake.fails = set()
    assert put(fake, launch, 2 * AFTER) == ["cuLaunchKernelEx"]


def test_a_driver_without_the_function_is_as_good_as_one_that_fails(fake: FakeDriver) -> None:
    def absent(name: str) -> None:
        if name == "cuGraphInstantiate":
            raise RuntimeError('Function "cuGraphInstantiate" not found')

    launch = made(fake)
    fake.watch = absent
    assert put(fake, launch, AFTER)[-1] == "cuLaunchKernelEx"
    assert put(fake, launch, AFTER) == ["cuLaunchKernelEx"]


def test_what_is_refused_of_a_graph_is_launched_plainly_once(fake: FakeDriver) -> None:
    launch = made(fake)
    put(fake, launch, AFTER)
    fake.fails = {"cuGraphLaunch"}
    assert launches(put(fake, launch, 0)) == ["cuGraphLaunch", "cuLaunchKernelEx"]
    fake.fails = {"cuGraphLaunch", "cuLaunchKernelEx"}
    with pytest.raises(TilegenError, match="launch the kernel"):
        launch.put(9)


def test_graphs_of_launches_that_are_gone_are_destroyed_when_another_is_made(fake: FakeDriver) -> None:
    launch, other, last = made(fake), made(fake), made(fake)
    put(fake, launch, AFTER)
    put(fake, launch, AFTER, stream=10)
    relaxed = []
    fake.watch = lambda name: relaxed.append(fake.relaxed()) if name == "cuGraphExecDestroy" else None
    fake.calls.clear()
    del launch
    assert not fake.calls
    fake.context = CONTEXT
    put(fake, other, AFTER)
    assert fake.graphs == [803]
    assert relaxed == [True, True]
    assert not fake.relaxed() and fake.context == CONTEXT
    del other
    fake.fails = {"cuCtxGetCurrent"}  # says nothing where it cannot
    put(fake, last, AFTER)
    assert 803 in fake.graphs


def test_the_driver_is_not_called_when_a_thread_ends(fake: FakeDriver) -> None:
    """What is the thread's own ends with it, where a C function that is called crashes."""
    own = threading.local()

    def work() -> None:
        own.launch = made(fake)
        put(fake, own.launch, AFTER)
        fake.calls.clear()

    in_a_thread(work)
    assert not fake.calls
    assert fake.graphs == [801]


def test_a_launch_keeps_graphs_for_some_streams_alone(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_MOST", 3)
    launch = made(fake)
    for stream in (3, 4, 5):
        put(fake, launch, AFTER, stream)
    assert fake.graphs == [801, 802, 803]
    put(fake, launch, AFTER, stream=6)
    assert fake.graphs == [804]
    assert put(fake, launch, 0, stream=3) == ["cuLaunchKernelEx"]
