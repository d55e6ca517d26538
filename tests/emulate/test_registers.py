"""Numbers of registers at the ends of what `registers` takes: they compile, and the launch ends."""

from __future__ import annotations

import numpy as np
import pytest

import tilegen

GEMM = """kernel g {
  size M, N, K
  input A: f16[M, K]
  input B: f16[K, N]
  output C: f32[M, N]
  tile a[m, k] = A[m, k]
  tile b[k, n] = B[k, n]
  C[m, n] = sum[k](a[m, k] * b[k, n])
  schedule hopper { block m 64, n 64, k 64  consumers 1 over m  registers CONSUMER, PRODUCER }
}"""


@pytest.mark.parametrize(("consumer", "producer"), [(256, 24), (256, 248)])
def test_one_consumer(consumer: int, producer: int) -> None:
    kernel = tilegen.compile(GEMM.replace("CONSUMER", str(consumer)).replace("PRODUCER", str(producer)))
    assert f"setmaxnreg.inc.sync.aligned.u32 {consumer};" in " ".join(kernel.ptx.split())
    assert f"setmaxnreg.dec.sync.aligned.u32 {producer};" in " ".join(kernel.ptx.split())
    a, b = np.ones((70, 72), np.float16), np.ones((72, 72), np.float16)
    assert np.array_equal(np.asarray(kernel.emulate({"A": a, "B": b})), np.full((70, 72), 72))
