"""`tilegen tune` on a real GPU, with a tiny budget: candidates agree, the own one is among those timed, and a kernel
with what was kept gives what the equations say."""

from __future__ import annotations

import json
import pickle
import secrets
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilegen.bench.builds import Request, compile_one
from tilegen.cli.main import main
from tilegen.runtime import cache
from tilegen.sema.loading import load
from tilegen.syntax.reading import read_source
from tilegen.targets.hopper.build import build
from tilegen.tune import search, store
from tilegen.tune.halving import FIRST, LostError

pytestmark = pytest.mark.gpu
SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.mark.parametrize(
    ("name", "params", "size"),
    [
        ("gemm", (), "M=1024,N=1536,K=520"),
        ("fa3_fwd", ("-D", "D=64", "-D", "causal=true"), "B=2,Sq=700,Sk=1100,Hk=2,G=2"),
        ("row_softmax", (), "M=1000,N=1032"),
        ("fa3_varlen", ("-D", "D=64"), "Sq=[700,0,300],Sk=[700,5,900],Hk=2,G=2"),
    ],
)
def test_schedules_are_found_kept_and_right(
    name: str, params: tuple[str, ...], size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEGEN_TUNED", str(tmp_path / "kept"))
    monkeypatch.setattr(cache, "code_digest", lambda: "the code")
    file, seed = tmp_path / "found.json", str(secrets.randbits(31))
    spec = [str(SAMPLES / f"{name}.tile"), *params, "--size", size, "--seed", seed]
    result = CliRunner().invoke(main, ["tune", *spec, "--budget", "5", "--time", "90", "--write", "--json", str(file)])
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text(encoding="utf-8"))
    timed = [s for s in found["schedules"] if s["outcome"] == "timed"]
    assert len(timed) >= 3, result.output
    assert not {"another result", "hangs or breaks the GPU"} & {s["outcome"] for s in found["schedules"]}, result.output
    assert any(s["own"] for s in timed)
    assert all(sample["milliseconds"] > 0 for s in timed for sample in s["samples"])
    assert len(store.everything()) == 1
    assert "  schedule hopper" in result.stdout

    ran = CliRunner().invoke(main, ["run", *spec, "--tuned"])
    assert ran.exit_code == 0, ran.output
    assert "tuned schedule of" in ran.stderr


def test_a_kernel_that_hangs_is_out_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LAUNCH", 3.0)
    source = read_source(SAMPLES / "copy.tile")
    own = compile_one(Request(source.name))
    plan = own.artefacts[0].plan
    rings = tuple(replace(ring, full_arrivals=2) for ring in plan.rings)  # of which one comes
    stuck = replace(own, artefacts=(build(replace(plan, rings=rings)),))
    paths = {name: str(tmp_path / name) for name in ("own", "stuck")}
    for name, made in (("own", own), ("stuck", stuck)):
        Path(paths[name]).write_bytes(pickle.dumps(made))
    case = search.Case(source, {}, load(source, {}), {"M": 1000, "N": 256}, {})
    bench = search.Bench(case, secrets.randbits(31))
    assert bench.check(paths["own"]) == 0.0
    with pytest.raises(LostError, match=search.BROKEN):
        bench.check(paths["stuck"])
    assert bench.measure(paths["own"], FIRST).milliseconds > 0
    assert bench.check(paths["own"]) == 0.0
    bench.close()
