"""Launches that come again, which the driver gets as graphs: the same results before, at and after the change."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.builds import SAMPLES
from tests.runtime import kernels
from tilegen.runtime import graphs
from tilegen.runtime.direct import AFTER
from tilegen.runtime.kernel import Kernel

pytestmark = pytest.mark.gpu

TIMES = AFTER + 4


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def kernel() -> Kernel:
    """It has no launches yet: those of another test may have had the same addresses."""
    return kernels.padded_sum()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The graphs that were made."""
    found: list[int] = []
    make = graphs.made

    def seen(*arguments: Any) -> Any:
        executable = make(*arguments)
        found.append(executable.value)
        return executable

    monkeypatch.setattr(graphs, "made", seen)
    return found


class Sum:
    """A prepared launch, and what it reads and writes. Each has arrays of its own."""

    def __init__(self, torch: Any, kernel: Kernel) -> None:
        self.torch = torch
        self.x, self.y = torch.zeros(70, 64, device="cuda"), torch.full((70,), float("nan"), device="cuda")
        self.put = kernel.prepare(X=self.x, Y=self.y)
        torch.cuda.synchronize()

    def renew(self) -> None:
        """On the current stream: other inputs, nothing in the output."""
        self.x.copy_(self.torch.randn(70, 64, device="cuda"))
        self.y.fill_(float("nan"))

    def judge(self) -> None:
        self.torch.testing.assert_close(self.y.double(), self.x.double().sum(1), rtol=1e-5, atol=1e-4)

    def rounds(self, times: int = TIMES) -> None:
        for _ in range(times):
            self.renew()
            self.put()
            self.judge()


def test_each_launch_sees_what_came_before(torch: Any, kernel: Kernel, made: list[int]) -> None:
    """By `prepare` and by calls; on addresses that are new each has a graph of its own."""
    one, other = Sum(torch, kernel), Sum(torch, kernel)
    one.rounds()
    assert len(made) == 1
    other.rounds()
    assert len(made) == 2
    one.rounds(2)
    other.put = lambda: kernel(X=other.x, Y=other.y)
    other.rounds()
    kernel(X=one.x, Y=other.y)
    torch.testing.assert_close(other.y.double(), one.x.double().sum(1), rtol=1e-5, atol=1e-4)


def _clusters(torch: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    text = (SAMPLES / "gemm.tile").read_text(encoding="utf-8")
    schedule = "schedule hopper { block m 128, n 256, k 64  consumers 2 over m  stages a 4, b 4  multicast b over m }"
    operands = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in ((1000, 520), (520, 776)))
    at = text.index("schedule hopper")
    return text[:at] + schedule + "\n}\n", {}, dict(zip("AB", operands, strict=True))


def _persistent(torch: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    text = (SAMPLES / "fa3_fwd.tile").read_text(encoding="utf-8")
    operands = torch.randn(3, 2, 700, 4, 64, device="cuda", dtype=torch.bfloat16)
    return text, {"D": 64, "causal": True}, dict(zip("QKV", operands, strict=True))


def _dealt(torch: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    text = (SAMPLES / "fa3_varlen.tile").read_text(encoding="utf-8")
    operands = dict(zip("QKV", torch.randn(3, 700, 4, 64, device="cuda", dtype=torch.bfloat16), strict=True))
    starts = torch.tensor([0, 9, 450, 700], device="cuda", dtype=torch.int32)
    return text, {"D": 64, "causal": True}, {**operands, "cu_q": starts, "cu_k": starts}


@pytest.mark.parametrize("case", [_clusters, _persistent, _dealt])
def test_the_bits_stay_the_same(torch: Any, made: list[int], case: Callable[..., Any]) -> None:
    """Of kernels with clusters, with CTAs that stay, and behind the one that deals out its items."""
    import tilegen

    text, params, arguments = case(torch)
    launch = tilegen.compile(text, **params).prepare(**arguments)
    outputs = launch.outputs if isinstance(launch.outputs, tuple) else (launch.outputs,)
    wanted = None
    for _ in range(TIMES):
        for output in outputs:
            output.fill_(float("nan"))
        launch()
        got = [output.clone() for output in outputs]
        wanted = wanted or got
        assert all(bool(g.isfinite().all()) and torch.equal(g, w) for g, w in zip(got, wanted, strict=True))
    assert len(made) == (2 if case is _dealt else 1)


def test_a_launch_is_captured_after_it_became_a_graph(torch: Any, kernel: Kernel, made: list[int]) -> None:
    """And before, on the stream of the capture; a graph is made and launched while another stream is captured."""
    one, aside = Sum(torch, kernel), Sum(torch, kernel)
    one.rounds()
    side, beside = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        one.rounds()
    side.synchronize()
    assert len(made) == 2
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(TIMES):
            one.put()
        with torch.cuda.stream(beside):
            for _ in range(TIMES):
                aside.put()
        aside.put()
    assert len(made) == 3
    torch.cuda.synchronize()
    assert bool((aside.y == 0).all())
    for _ in range(2):
        one.renew()
        aside.renew()
        graph.replay()
        one.judge()
        aside.judge()
    one.rounds(2)


def test_on_two_streams(torch: Any, kernel: Kernel, made: list[int]) -> None:
    one, streams = Sum(torch, kernel), [torch.cuda.Stream() for _ in range(2)]
    for _ in range(TIMES):
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(200_000)
                one.renew()
                one.put()
            stream.synchronize()
            one.judge()
    assert len(made) == 2


@pytest.mark.parametrize("own_streams", [True, False])
def test_from_two_threads_at_once(torch: Any, kernel: Kernel, made: list[int], own_streams: bool) -> None:
    """They put one launch, each on a stream of its own or both on the same; what it writes stays the same."""
    one = Sum(torch, kernel)
    one.renew()
    torch.cuda.synchronize()
    both, raised = threading.Barrier(2), []
    streams = [torch.cuda.Stream() if own_streams else torch.cuda.current_stream() for _ in range(2)]

    def work(stream: Any) -> None:
        try:
            torch.cuda.set_device(0)
            with torch.cuda.stream(stream):
                both.wait()
                for _ in range(200):
                    one.put()
            stream.synchronize()
        except BaseException as e:
            raised.append(e)

    threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    torch.cuda.synchronize()
    one.judge()
    assert len(made) == 2


@pytest.mark.parametrize("own_stream", [True, False])
def test_a_thread_without_a_context_launches_as_before(
    torch: Any, kernel: Kernel, made: list[int], own_stream: bool
) -> None:
    one, raised = Sum(torch, kernel), []
    one.renew()
    stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
    put = one.put._launch.put  # torch makes its context current where it is asked for a stream
    torch.cuda.synchronize()

    def work() -> None:
        try:
            for _ in range(TIMES):
                put(stream.cuda_stream)
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert raised == []
    torch.cuda.synchronize()
    one.judge()
    assert made == []
    with torch.cuda.stream(stream):
        one.rounds()
    assert len(made) == 1


@pytest.mark.parametrize("default", [True, False])
def test_where_another_gpu_is_current(torch: Any, kernel: Kernel, made: list[int], default: bool) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    one, streams = Sum(torch, kernel), [torch.cuda.Stream(n) for n in range(2)]
    stream = torch.cuda.default_stream(0) if default else streams[0]
    with torch.cuda.stream(stream):
        one.rounds()
        assert len(made) == 1
        for _ in range(TIMES):
            torch.cuda._sleep(2_000_000)
            one.renew()
            with torch.cuda.device(1):
                one.put()
                assert torch.cuda.current_device() == 1
            one.judge()
        one.rounds(2)
    assert len(made) == 1


def test_a_graph_may_be_destroyed_before_it_has_run(torch: Any, made: list[int]) -> None:
    gc.collect()
    graphs._destroy_left()  # those of the tests before
    kernel = kernels.padded_sum()
    x, y = torch.zeros(70, 64, device="cuda"), torch.empty(70, device="cuda")
    launch = kernel.prepare(X=x, Y=y)
    for _ in range(TIMES):
        launch()
    torch.cuda.synchronize()
    torch.cuda._sleep(500_000_000)  # longer than a collection takes
    x.fill_(2)
    launch()
    del launch, kernel
    gc.collect()
    assert [executable for _, executable, _ in graphs._left] == made and len(made) == 1
    graphs._destroy_left()
    assert not graphs._left
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert bool((y == 128).all())
