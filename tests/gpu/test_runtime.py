"""The runtime on a real GPU: frameworks, streams, and graph capture."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.runtime import kernels
from tilegen.diagnostics.core import TilegenError
from tilegen.runtime import driver
from tilegen.runtime.kernel import Kernel
from tilegen.targets.hopper.nvrtc import compile_cuda

pytestmark = pytest.mark.gpu


@cache
def scale() -> Kernel:
    return kernels.scale()


@cache
def padded_sum() -> Kernel:
    return kernels.padded_sum()


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_the_device_is_described() -> None:
    info = driver.device_info(0)
    assert info.capability == (9, 0)
    assert info.sm_count > 50
    assert info.driver >= (13, 0)


def test_compiling_again_keeps_the_log() -> None:
    """The driver's cache has machine code without the log: it must not be asked."""
    source = 'extern "C" __global__ void k(float* p) { p[0] = p[1] / p[2]; }'
    first, second = (compile_cuda(source, "k") for _ in range(2))
    assert [usage.entry for usage in second.usage] == ["k"]
    assert first.usage == second.usage
    assert bytes([32])[0] == 32  # the one b" " of this process; a NUL in it makes later imports fail


def test_torch_tensors(torch: Any) -> None:
    x = torch.randn(70, 40, device="cuda")[:, :37]
    y = padded_sum()(X=x)
    assert y.device == x.device
    torch.testing.assert_close(y, x.sum(1), rtol=1e-4, atol=1e-4)
    out = scale()(X=x.T, a=3.0)
    torch.testing.assert_close(out.Y, 3 * x.T, rtol=0, atol=0)
    assert bool((out.R == 3).all())


def test_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.random.standard_normal((70, 64), dtype=cupy.float32)
    cupy.cuda.Device().synchronize()  # the other stream does not wait for the one that x is made on
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = padded_sum()(X=x)
    stream.synchronize()
    assert isinstance(y, cupy.ndarray)
    np.testing.assert_allclose(y.get(), x.get().sum(1), rtol=1e-4, atol=1e-4)


def test_jax_arrays_are_read_through_dlpack(torch: Any) -> None:
    jax = pytest.importorskip("jax")
    x = jax.random.normal(jax.random.key(3), (70, 64))
    y = torch.empty(70, device="cuda")
    torch.cuda.synchronize()
    padded_sum()(X=x, Y=y)
    torch.cuda.synchronize()
    np.testing.assert_allclose(y.cpu().numpy(), np.asarray(x).sum(1), rtol=1e-4, atol=1e-4)
    with pytest.raises(TilegenError, match="OUTPUT_NOT_ALLOCATED"):
        padded_sum()(X=x)


def slow(torch: Any, then: Callable[[], None]) -> None:
    """Work that keeps the current stream busy for some milliseconds, then `then`."""
    torch.cuda._sleep(20_000_000)
    then()


def test_launches_go_to_the_current_stream(torch: Any) -> None:
    """Case 49: what runs before on the stream is seen, although nothing waits."""
    x, y = torch.zeros(70, 64, device="cuda"), torch.full((70,), -1.0, device="cuda")
    padded_sum()(X=x, Y=y)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        slow(torch, lambda: x.fill_(1))
        padded_sum()(X=x, Y=y)
        assert not stream.query()  # the call did not wait
    stream.synchronize()
    assert bool((y == 64).all())


def test_launches_can_be_captured(torch: Any) -> None:
    """Case 49: a graph replays the launch on what its memory holds then."""
    x, y = torch.zeros(70, 64, device="cuda"), torch.empty(70, device="cuda")
    launch = padded_sum().prepare(X=x, Y=y)
    launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
        padded_sum()(X=x, Y=y)
    for value in (1.0, 2.0):
        x.fill_(value)
        y.fill_(-1)
        graph.replay()
        torch.cuda.synchronize()
        assert bool((y == 64 * value).all())


def test_empty_arrays(torch: Any) -> None:
    """Case 8: no zero extent reaches the driver."""
    assert torch.equal(padded_sum()(X=torch.empty(70, 0, device="cuda")), torch.zeros(70, device="cuda"))
    assert padded_sum()(X=torch.empty(0, 64, device="cuda")).shape == (0,)


def test_bad_strides_are_named_before_the_driver_sees_them(torch: Any) -> None:
    with pytest.raises(TilegenError, match="TMA_STRIDE_ALIGNMENT"):
        padded_sum()(X=torch.empty(64, 250, device="cuda"))
    with pytest.raises(TilegenError, match="TMA_ADDRESS"):
        padded_sum()(X=torch.empty(64 * 256 + 1, device="cuda")[1:].view(64, 256))


def test_strides_past_4_gib(torch: Any) -> None:
    """Cases 25 and 26."""
    far = 2**31 + 64
    x = torch.zeros(2 * far, device="cuda")
    x[far : far + 64] = 1
    rows = torch.as_strided(x, (2, 64), (far, 1))
    assert padded_sum()(X=rows).tolist() == [0, 64]


def test_calls_find_their_launches_again(torch: Any) -> None:
    """Launches that are found again, moved to other addresses and made anew: each on its own tensors."""
    k = padded_sum()
    x = torch.randn(6, 70, 64, device="cuda")
    outputs = torch.full((6, 80), float("nan"), device="cuda")
    wanted = x.double().sum(2)
    for n in (0, 0, 0, 1, 2, 1, 3, 4, 5, 0):
        outputs.fill_(float("nan"))
        k(X=x[n], Y=outputs[n, :70])
        made = k(X=x[n])
        rows = k(X=x[n, :33])
        torch.testing.assert_close(outputs[n, :70].double(), wanted[n], rtol=1e-5, atol=1e-4)
        assert bool(outputs[[m for m in range(6) if m != n]].isnan().all())
        assert bool(outputs[n, 70:].isnan().all())
        assert torch.equal(made, outputs[n, :70])
        assert torch.equal(rows, made[:33])


def test_attention_finds_its_launches_again(torch: Any) -> None:
    """The sample, with maps of inputs and outputs, on tensors at other addresses and of another length between."""
    import tilegen

    k = tilegen.compile(kernels.SAMPLES / "fa3_fwd.tile", D=64)
    lengths = (300, 300, 300, 300, 300, 257, 300, 257, 300)
    given = [torch.randn(3, 2, S, 4, 64, device="cuda", dtype=torch.bfloat16).unbind(0) for S in lengths]
    kept = []
    for q, keys, v in given:
        out = k(Q=q, K=keys, V=v)
        kept.append(out)
        turned = (t.float().transpose(1, 2) for t in (q, keys, v))
        exact = torch.nn.functional.scaled_dot_product_attention(*turned).transpose(1, 2)
        torch.testing.assert_close(out.O.float(), exact, rtol=2e-2, atol=2e-2)
        assert bool(out.LSE.isfinite().all())


@pytest.mark.parametrize("prepared", [True, False])
def test_launches_from_a_thread_without_a_context(torch: Any, prepared: bool) -> None:
    import threading

    x, y = torch.ones(70, 64, device="cuda"), torch.zeros(70, device="cuda")
    k = padded_sum()
    run = k.prepare(X=x, Y=y) if prepared else lambda: k(X=x, Y=y)
    for _ in range(3):
        run()
    y.zero_()
    torch.cuda.synchronize()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run()
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert raised == []
    assert bool((y == 64).all())


def test_dependent_launches_see_what_came_before(torch: Any) -> None:
    """Each launch reads what the last one wrote. Begun under its end or after it: the same bits."""
    import tilegen

    text = (kernels.SAMPLES / "fa3_fwd.tile").read_text(encoding="utf-8")
    k = tilegen.compile(text.replace("skip_rows", "skip_rows  dependent_launch"), D=64)
    x = torch.randn(2, 700, 8, 64, device="cuda", dtype=torch.bfloat16)
    a, b = torch.empty_like(x), torch.empty_like(x)
    forth, back = k.prepare(Q=x, K=x, V=a, O=b), k.prepare(Q=x, K=x, V=b, O=a)
    results = []
    for waits in (True, False):
        a.copy_(x)
        b.fill_(float("nan"))
        for _ in range(20):
            for launch in (forth, back):
                launch()
                if waits:
                    torch.cuda.synchronize()
        torch.cuda.synchronize()
        results.append(a.clone())
    assert bool(results[0].isfinite().all())
    assert torch.equal(*results)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forth()
        back()
    a.copy_(x)
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(a, results[0])
