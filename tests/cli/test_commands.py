"""The commands do what their help says, on real samples, and answer mistakes in words with the right exit code."""

from __future__ import annotations

import io
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tilegen.cli import mls as running_mls
from tilegen.cli import run as running
from tilegen.cli.console import stdout, table
from tilegen.cli.main import DEFECTS, TARGETS, main
from tilegen.cli.run import Judged, _row
from tilegen.ir.dtypes import DType
from tilegen.ir.plan import Plan
from tilegen.ir.plan_json import plan_from_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.tile import TileProgram
from tilegen.oracle import Result as Value
from tilegen.oracle import compare
from tilegen.passes import pipeline
from tilegen.passes.pipeline import lower
from tilegen.runtime.kernel import Kernel
from tilegen.targets.mls.lower import movement

SAMPLES = Path(__file__).parents[2] / "samples"
COPY = str(SAMPLES / "copy.tile")
GEMM = str(SAMPLES / "gemm.tile")
FA3 = str(SAMPLES / "fa3_fwd.tile")
EXTENSIONS = ("plan.txt", "plan.json", "cu", "ptx", "cubin", "sass")


def tilegen(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception  # a traceback is never the answer to a user's mistake
    return result


def fails(code: int, *arguments: str | Path) -> str:
    """What a command that must fail says on stderr, with nothing on stdout."""
    result = tilegen(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


# ---- help ------------------------------------------------------------------------------------------


def test_help_gives_one_line_a_command_and_examples() -> None:
    text = tilegen("--help").stdout
    for command in ("build", "check", "run", "bench", "inspect", "cache"):
        (line,) = re.findall(rf"^  {command} +\w.*$", text, re.M)
        assert line.endswith(".")
    assert "  tilegen run samples/fa3_fwd.tile\n" in text
    assert "Exit codes: 0 fine" in text


@pytest.mark.parametrize("command", ["build", "check", "run", "inspect"])
def test_every_command_explains_itself(command: str) -> None:
    result = tilegen(command, "--help")
    assert result.exit_code == 0
    assert "-D NAME=VALUE" in result.stdout


# ---- build -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("built") / "new"
    result = tilegen("build", FA3, "-D", "D=64", "-D", "causal=true", "-o", folder)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


def test_build_writes_every_file_and_nothing_else(built: tuple[Path, str]) -> None:
    folder, _ = built
    assert {path.name for path in folder.iterdir()} == {f"fa3_fwd.{extension}" for extension in EXTENSIONS}
    assert ".entry fa3_fwd" in (folder / "fa3_fwd.ptx").read_text()
    assert (folder / "fa3_fwd.cubin").read_bytes().startswith(b"\x7fELF")
    assert "HGMMA" in (folder / "fa3_fwd.sass").read_text()
    assert "__global__" in (folder / "fa3_fwd.cu").read_text()


def test_the_plan_written_as_json_is_the_plan_written_as_text(built: tuple[Path, str]) -> None:
    folder, _ = built
    plan = plan_from_json((folder / "fa3_fwd.plan.json").read_text())
    assert print_plan(plan) == (folder / "fa3_fwd.plan.txt").read_text()


def test_build_prints_what_the_kernel_needs(built: tuple[Path, str]) -> None:
    _, text = built
    assert "fa3_fwd T=bf16 D=64 causal=true" in text
    rows = re.findall(r"^(producer|scanner|consumer) +(\d+) +(\d+)", text, re.M)
    assert rows == [("producer", "32", "32"), ("scanner", "96", "32"), ("consumer", "512", "112")]
    for fact in ("spills: none", "shared memory: ", "stages: ", "time: ", "NVRTC 13."):
        assert fact in text


def test_emit_writes_only_what_it_names(tmp_path: Path) -> None:
    assert tilegen("build", COPY, "-o", tmp_path, "--emit", "ptx, plan.txt").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"copy.ptx", "copy.plan.txt"}


def test_emit_of_something_unknown_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    text = fails(2, "build", COPY, "-o", tmp_path, "--emit", "ptx,elf")
    assert "BAD_USAGE" in text
    assert "got:    elf" in text
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_fails_leaves_the_earlier_one(tmp_path: Path) -> None:
    spec = tmp_path / "copy.tile"
    spec.write_text(Path(COPY).read_text())
    out = tmp_path / "out"
    assert tilegen("build", spec, "-o", out, "--emit", "ptx").exit_code == 0
    before = (out / "copy.ptx").read_bytes()
    spec.write_text(Path(COPY).read_text().replace("output", "outputt"))
    fails(1, "build", spec, "-o", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {"copy.ptx": before}


# ---- mistakes --------------------------------------------------------------------------------------


def test_a_wrong_spec_is_shown_with_its_place(tmp_path: Path) -> None:
    spec = tmp_path / "wrong.tile"
    spec.write_text("kernel wrong() {\n  size N\n  input X: f99[N]\n}\n")
    text = fails(1, "check", spec)
    assert f"{spec}:3:" in text
    assert "  input X: f99[N]" in text
    assert "^^^" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", "no-such.tile"), "there is no file no-such.tile"),
        (("check", str(SAMPLES)), "is a folder"),
        (("check", FA3, "-D", "D=3"), "32 .. 256 by 8"),
        (("check", FA3, "-D", "X=3"), "X"),
        (("check", FA3, "-D", "D"), "-D takes name=value"),
        (("bench", COPY, "--target", "mls"), "'mls' is not 'hopper'"),
        (("run", COPY, "--defect", "carry"), "--defect is of the target mls"),
        (("build", COPY, "--defect", "carry"), "--defect is of the target mls"),
        (("check", COPY, "--defect", "carry"), "--defect is of the target mls"),
        (("build", COPY, "--target", "mls", "--emit", "cu"), "--emit: mls writes no cu"),
        (("build", COPY, "--target", "mls", "--size", "M=8"), "--size chooses among tuned schedules of hopper"),
        (("run", COPY, "--target", "mls", "--tuned"), "--tuned is of the target hopper"),
        (("build", COPY, "--target", "mls", "--tuned"), "--tuned is of the target hopper"),
        (("check", COPY, "--nonsense"), "--nonsense"),
        (("frobnicate",), "frobnicate"),
        (("run", COPY, "--size", "M=x"), "--size M is no number"),
        (("run", COPY, "--size", "Z=3"), "copy has no Z"),
        (("run", COPY, "--size", "M=-3"), "a whole number from 0 up"),
        (("run", COPY, "--size", "M=1.5"), "a whole number from 0 up"),
        (("run", COPY, "--size", "M=[1,2]"), "--size"),
        (("run", FA3, "--size", "scale=[1,2]"), "scale is a scalar"),
        (("run", COPY, "--seed", "x"), "--seed"),
        (("build", ""), "the name of the file is empty"),
        (("run", COPY, "--seed", "-1"), "BAD_USAGE]: --seed takes a whole number from 0 up"),
        (("run", COPY, "--seed", "-1"), "see `tilegen run --help`"),
        (("build", COPY, "--emit", "x"), "see `tilegen build --help`"),
        (("run", COPY, "--size", "M=99999999999"), "M does not fit into an int32"),
        (("run", COPY, "--size", "M=2000000000,N=2000000000"), "error[SIZES_TOO_LARGE]: the arrays of copy do not fit"),
        (("run", COPY, "--size", "m=3"), "did you mean `M`?"),
        (("run", FA3, "--size", "scale=-1"), "error[SCALAR_CONSTRAINT]"),
        (("run", FA3, "--size", "scale=nan"), "error[SCALAR_CONSTRAINT]"),
        (("check", FA3, "-D", "causal=True"), "true or false: did you mean `true`?"),
        (("check", FA3, "-D", "causal=0"), "true or false: did you mean `false`?"),
        (("check", FA3, "--target", "cuda"), "'cuda' is not one of 'hopper', 'sm_80', 'mls'"),
    ],
)
def test_wrong_usage_is_answered_in_words_with_exit_code_2(arguments: tuple[str, ...], says: str) -> None:
    assert says in fails(2, *arguments)


def test_a_constraint_that_is_broken_is_quoted_once() -> None:
    assert fails(2, "run", FA3, "--size", "scale=-1").count("scalar scale: f32 > 0") == 1


def test_the_targets_offered_are_those_that_there_are() -> None:
    assert (*pipeline.TARGETS, "mls") == TARGETS
    assert movement.DEFECTS == DEFECTS


def test_memory_that_cannot_be_had_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tilegen.cli.run.evaluate", full)
    result = tilegen("run", COPY, "--emulate", "--size", "M=37,N=48")
    assert result.exit_code == 2
    assert "at these sizes, M=37, N=48" in result.stderr
    assert "`--size N=…`" in result.stderr


def test_a_disk_that_is_full_elsewhere_is_not_taken_for_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tilegen.cli.check.compile_spec", full)
    with pytest.raises(OSError, match="No space left"):
        tilegen("check", COPY)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that takes nothing")
@pytest.mark.parametrize(
    ("arguments", "stdout"),
    [(("check", COPY), ">/dev/full"), (("check", COPY), ">&-"), (("run", "--help"), ">/dev/full")],
)
def test_stdout_that_takes_nothing_is_one_line_on_stderr(arguments: tuple[str, ...], stdout: str) -> None:
    command = [sys.executable, "-c", "from tilegen.cli.main import main; main()", *arguments]
    done = subprocess.run(f"{shlex.join(command)} {stdout}", shell=True, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error[CANNOT_PRINT]: the results cannot be printed: ")


# ---- check -----------------------------------------------------------------------------------------


def test_rows_that_cannot_be_stored_are_told_once() -> None:
    result = tilegen("run", GEMM, "--target", "mls", "--size", "M=16,N=137,K=16")
    assert result.exit_code == 2
    assert result.stderr.count("ARRAY_ALIGNMENT") == 1


def test_check_says_that_all_is_well_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = tilegen("check", COPY)
    assert result.exit_code == 0
    assert "copy T=bf16: all checks passed" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_check_names_a_schedule_that_asks_for_more_than_the_machine_has(tmp_path: Path) -> None:
    spec = tmp_path / "gemm.tile"
    spec.write_text(Path(GEMM).read_text().replace("stages a 3, b 3", "stages a 9, b 4"))
    text = fails(1, "check", spec)
    assert "error[SHARED_MEMORY" in text
    assert f"{spec}:" in text


def test_check_fails_where_a_plan_would_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_arrival_too_many(program: TileProgram, target: str) -> tuple[Plan, ...]:
        plan = lower(program, target)
        rings = tuple(replace(ring, empty_arrivals=ring.empty_arrivals + 1) for ring in plan.rings)
        return (replace(plan, rings=rings),)

    monkeypatch.setattr("tilegen.runtime.compiler.lower_all", one_arrival_too_many)
    assert "error[PIPELINE_DEADLOCK]" in fails(1, "check", GEMM, "--no-cache")


def test_check_fails_where_the_machine_code_differs_from_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilegen.targets.hopper.gates.MAX_MOVES", -1)
    monkeypatch.setattr("tilegen.targets.hopper.sass.MOVES", ("HGMMA",))
    monkeypatch.setattr("tilegen.targets.hopper.gates.TENSOR_CORE", ("NOSUCH",))
    assert "error[GATE_" in fails(1, "check", GEMM, "--no-cache")


# ---- run -------------------------------------------------------------------------------------------


def test_run_compares_every_output_with_its_equation() -> None:
    result = tilegen(
        *("run", FA3, "-D", "D=64", "-D", "causal=true", "--emulate"),
        *("--size", "B=1,Sq=70,Sk=137,Hk=1,G=2", "--size", "scale=0.2", "--seed", "3"),
    )
    assert result.exit_code == 0, result.output
    assert "B=1, Sq=70, Sk=137, Hk=1, G=2, scale=0.2" in result.stdout
    assert "seed 3" in result.stdout
    for output in ("O", "LSE"):
        (row,) = re.findall(rf"^{output} +(\S+) +(\S+) .*right *$", result.stdout, re.M)
        error, allowed = map(float, row)
        assert 0 < error <= allowed
    assert "in the emulator" in result.stdout


def test_errors_are_told_relative_to_the_output_and_not_to_a_value_that_may_be_near_0() -> None:
    value = np.array([1e-9, 1.0, -1.0, np.inf, 7.0])
    defined = np.array([True, True, True, True, False])
    result = Value(value, np.full(5, 2e-3), defined, DType.F32)
    got = value + np.array([1e-3, 0, 0, 0, 0])
    row = _row(Judged("Y", result, got, compare(result, got, ())))
    usual = math.sqrt(2 / 3)  # of what is in the domain and finite
    assert [float(str(x)) for x in row[1:3]] == pytest.approx([1e-3 / usual, 2e-3 / usual], rel=1e-2)
    zeros = replace(result, value=np.zeros(5))
    off = np.array([1e-3, 0, 0, 0, 0])
    assert "absolute" in str(_row(Judged("Y", zeros, off, compare(zeros, off, ())))[1])


WINDOW = """kernel window {
  size   S
  input  X: bf16[S, 64]
  output Y: f32[S]
  scalar w: TYPE = 9
  axis   i in S, j in S
  domain i, j: i - w <= j <= i
  tile x[i, d] = X[i, d]
  tile y[j, d] = X[j, d]
  Y[i] = max[j](sum[d](x[i, d] * y[j, d]))
}
"""


@pytest.mark.parametrize("target", ["hopper", "mls"])
def test_a_run_tells_of_a_domain_that_skips_no_blocks(target: str, tmp_path: Path) -> None:
    spec, more = tmp_path / "window.tile", ("--emulate",) if target == "hopper" else ()
    told = "note: domain clause at line 7: w is f32, so that it only masks; with w declared i32, "
    for dtype, notes in (("f32", 1), ("i32", 0)):
        spec.write_text(WINDOW.replace("TYPE", dtype))
        result = tilegen("run", spec, *more, "--size", "S=70", "--target", target)
        assert result.exit_code == 0, result.output
        assert result.stdout.count(told) == notes
    assert told not in tilegen("run", GEMM, "--emulate", "--size", "M=64,N=64,K=64").stdout


@pytest.mark.parametrize(
    ("tile", "at", "says"),
    [
        ("k", "b=0,i=3", "k is where b, j, g, d are, whatever i is"),
        ("k", "b=0,x=3", "one of `b`, `d`, `g`, `h`, `j`\n"),  # not those that k is not along
        ("q", "b=0,h=0,i=0,j=9", "q is where b, i, h, d are, whatever j is"),
        ("k", "b=0,r=1", "k is where b, j, g, d are, whatever r is"),
    ],
)
def test_an_axis_that_a_tile_does_not_have_says_nothing_of_where_it_is(tile: str, at: str, says: str) -> None:
    assert says in fails(2, "explain", FA3, tile, "--at", at)
    parts = {"k": "h=3", "q": "g=0,r=1"}[tile]  # which an axis of its own is made of, or a part of
    assert tilegen("explain", FA3, tile, "--at", f"b=0,{parts}").exit_code == 0
    assert says in fails(2, "explain", FA3, tile, "--at", "b=0", "--element", at)


def test_another_seed_gives_other_data() -> None:
    def errors(seed: str) -> str:
        return tilegen("run", GEMM, "--emulate", "--size", "M=64,N=64,K=64", "--seed", seed).stdout.split("absolute")[1]

    first, second = (errors(seed).split("time")[0] for seed in "12")
    assert first == errors("1").split("time")[0]
    assert first != second


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda y: np.full_like(y, np.nan), "got:    nan"),
        (lambda y: y * 2, "RESULT_WRONG"),
        (lambda y: np.roll(y, 1, axis=0), "RESULT_WRONG"),
    ],
    ids=["unwritten", "doubled", "a neighbour's row"],
)
def test_a_wrong_result_is_reported_with_its_place_and_equation(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[np.ndarray], np.ndarray], says: str
) -> None:
    from tilegen.cli import run

    real = run.run_kernel

    def spoiled(*arguments: object, **options: object) -> object:
        outcome = real(*arguments, **options)  # type: ignore[arg-type]
        outcome.outputs["Y"] = spoil(outcome.outputs["Y"])
        return outcome

    monkeypatch.setattr(run, "run_kernel", spoiled)
    result = tilegen("run", COPY, "--emulate", "--size", "M=37,N=48")
    assert result.exit_code == 1
    assert "wrong" in result.stdout
    assert says in result.stderr
    assert re.search(r"copy\.tile:\d+:\d+: error\[RESULT_WRONG\]: the kernel's Y is not", result.stderr)


def test_outputs_are_poisoned_first_so_that_a_kernel_which_writes_nothing_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilegen.runtime.kernel.Kernel.emulate", lambda self, arguments, **how: None)
    result = tilegen("run", COPY, "--emulate", "--size", "M=37,N=48")
    assert result.exit_code == 1
    assert "got:    nan" in result.stderr


@pytest.mark.parametrize("target", ["hopper", "mls"])
def test_a_run_that_may_take_long_says_so_below_its_heading(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class ReachedError(Exception):
        pass

    def reached(*_: object, **__: object) -> None:
        raise ReachedError

    monkeypatch.setattr(running, "_judged", reached)
    monkeypatch.setattr(running_mls, "emulated", reached)
    told = "the emulator may take minutes"
    command = ("run", GEMM, "--emulate", "--target", target, "--size")
    small = CliRunner().invoke(main, [*command, "M=512,N=1024,K=512"])
    large = CliRunner().invoke(main, [*command, "M=1024,N=1024,K=1032"])
    for result in (small, large):
        assert isinstance(result.exception, ReachedError)
        assert "N=1024" in result.stdout  # before it ran
        assert "in the emulator, random data with seed 0" in result.stdout
    assert told not in small.stderr
    assert told in large.stderr


def test_an_emulated_run_is_watched_unless_it_is_to_be_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = Kernel.emulate, []

    def emulate(self: Kernel, arguments: Mapping[str, Any], **how: Any) -> Any:
        asked.append(how)
        return real(self, arguments, **how)

    monkeypatch.setattr(Kernel, "emulate", emulate)
    for options in ([], ["--plain"]):
        assert tilegen("run", COPY, "--emulate", "--size", "M=37,N=48", "--seed", "3", *options).exit_code == 0
    assert asked == [{"watch": True, "seed": 3}, {"watch": False, "seed": None}]


def test_a_reference_of_zeros_judges_nothing() -> None:
    result = tilegen("run", GEMM, "--emulate", "--size", "M=8,N=8,K=0")
    assert result.exit_code == 0
    assert re.search(r"^C .* unjudged: the reference is all zeros *$", result.stdout, re.M)
    assert "note: C" not in result.stdout


def test_what_a_seed_is_of_is_said_of_each_command() -> None:
    for command, of in (("run", "the emulator"), ("bench", "the random data."), ("tune", "schedules are tried")):
        (told,) = re.findall(r"Seed of .*?up\.", " ".join(tilegen(command, "--help").stdout.split()))
        assert of in told
        assert "`tune`" not in told


def test_the_statement_that_a_defect_is_in_is_underlined() -> None:
    result = tilegen("run", GEMM, "--target", "mls", "--defect", "tail", "--size", "M=20,N=40,K=40")
    quoted, carets = result.stderr.splitlines()[2:4]
    assert quoted.endswith("|   tile a[m, k] = A[m, k]")
    assert carets.split("|")[1] == "   " + "^" * len("tile a[m, k] = A[m, k]")


def test_an_output_that_nearly_anything_would_be_right_for_is_not_judged(tmp_path: Path) -> None:
    spec = tmp_path / "k.tile"
    spec.write_text("""kernel k { size M, N input X: f32[M, N] output Y: f32[M, N] output Z: f32[M, N]
        tile x[i, j] = X[i, j]
        at[i, j] = j / 2.5
        Y[i, j] = where(at[i, j] * 2.5 == j, x[i, j], 0)
        Z[i, j] = x[i, j] }""")
    result = tilegen("run", spec, "--target", "mls", "--size", "M=4,N=40")
    assert result.exit_code == 0
    assert re.search(r"^Y .* unjudged *$", result.stdout, re.M)
    assert re.search(r"^Z .* right *$", result.stdout, re.M)
    assert "note: Y is not judged" in result.stdout.replace("\n", " ")
    assert "note: Z" not in result.stdout


# ---- inspect ---------------------------------------------------------------------------------------


def test_inspect_shows_each_statement_with_its_operations_and_machine_code() -> None:
    result = tilegen("inspect", GEMM)
    assert result.exit_code == 0
    shown = re.split(r"(?m)^variant ", result.stdout)[1]
    statements = re.findall(r"gemm\.tile:\d+  (.*)$", shown, re.M)
    assert statements == ["tile a[m, k] = A[m, k]", "tile b[k, n] = B[k, n]", "C[m, n] = sum[k](a[m, k] * b[k, n])"]
    tile_a, tile_b, product = re.split(r"gemm\.tile:\d+  ", shown)[1:]
    assert "tma_load a[" in tile_a
    assert "tma_load a[" not in tile_b
    assert "mma " in product
    assert re.search(r"machine code: .*UTMALDG", tile_a)
    assert re.search(r"machine code: .*HGMMA", product)
    assert re.search(r"^a +128 x 64 bf16 +16384 +TMA +1 ", result.stdout, re.M)


def test_inspect_shows_sweeps_and_votes_with_what_they_hold() -> None:
    lines = tilegen("inspect", FA3).stdout.splitlines()
    headers = [n for n, line in enumerate(lines) if re.match(r" {8,}(sweep|if any of a warp in .*):", line)]
    assert {lines[n].split()[0] for n in headers} == {"sweep:", "if"}
    indents = [len(line) - len(line.lstrip()) for line in lines]
    assert all(indents[n + 1] == indents[n] + 4 for n in headers)
    assert sum(line.endswith(":") for line in lines) == len(headers)  # loops are named above what they hold


def test_the_evidence_of_a_spec_its_ptx_and_its_cubin_agree(built: tuple[Path, str]) -> None:
    folder, _ = built

    def evidence(text: str) -> dict[str, int]:
        return {name: int(n) for name, n in re.findall(r"^([A-Z0-9.]+) +[a-zA-Z].* (\d+) *$", text, re.M)}

    spec = evidence(tilegen("inspect", FA3, "-D", "D=64", "-D", "causal=true").stdout)
    cubin = evidence(tilegen("inspect", folder / "fa3_fwd.cubin").stdout)
    shown = tilegen("inspect", folder / "fa3_fwd.ptx").stdout
    ptx = evidence(re.sub(r"^\S+ +", "", shown, flags=re.M))  # behind the PTX instruction, what it becomes
    assert re.search(r"^wgmma\.mma_async +HGMMA +warpgroup product +\d+ *$", shown, re.M)
    assert spec == cubin
    assert len(spec) == 12
    for name in ("UTMALDG", "HGMMA", "ELECT", "USETMAXREG", "SYNCS.ARRIVE.TRANS64"):
        assert ptx[name] > 0
        assert cubin[name] > 0
    assert ptx["HGMMA"] == cubin["HGMMA"]
    assert cubin["LDL"] == cubin["STL"] == 0


@pytest.mark.parametrize(
    ("name", "contents", "code", "says"),
    [
        ("empty.ptx", b"", 1, "holds no kernel"),
        ("noise.cubin", b"not an ELF file", 1, "inspect takes a .tile, .ptx or .cubin"),
        ("noise.cubin", b"\x7fELF and no more", 1, "DISASSEMBLER_FAILED"),
        ("k.cu", b"", 2, "inspect takes a .tile, .ptx or .cubin"),
        ("k.sass", None, 2, "inspect takes a .tile, .ptx or .cubin"),
        ("k.plan.json", b"{}", 2, "inspect takes a .tile, .ptx or .cubin"),
        ("missing.cubin", None, 2, "there is no file"),
        ("missing.ptx", None, 2, "there is no file"),
        ("binary.tile", b"\xff\xfe\x00", 1, "not UTF-8"),
    ],
)
def test_inspect_of_something_else_is_answered_in_words(
    tmp_path: Path, name: str, contents: bytes | None, code: int, says: str
) -> None:
    if contents is not None:
        (tmp_path / name).write_bytes(contents)
    assert says in fails(code, "inspect", tmp_path / name)


# ---- output ----------------------------------------------------------------------------------------


def test_there_is_no_colour_and_no_wrapping_away_from_a_terminal(tmp_path: Path) -> None:
    long = tmp_path / ("long" * 30)
    result = tilegen("build", COPY, "-o", long)
    assert "\x1b" not in result.output
    assert str(long / "copy.sass") in result.stdout


def test_a_table_on_a_narrow_terminal_keeps_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", terminal)
    stdout().print(table(["output", "error", "allowed"], [["a long name of one", "1.234567e-08", "7.654321e-07"]]))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert lines[1].split() == ["a", "long", "name", "of", "one", "1.234567e-08", "7.654321e-07"]


def test_a_misspelt_file_is_told_the_one_that_is_there() -> None:
    text = fails(2, "check", str(Path(FA3).parent / "attention_windw.tile"))
    assert "did you mean attention_window.tile?" in text
    assert "did you mean fa3_fwd.tile?" in fails(2, "check", str(Path(FA3).with_suffix("")))


def test_sizes_that_make_no_arrays_are_wrong_usage() -> None:
    result = tilegen("run", GEMM, "--emulate", "--size", "N=100")
    assert result.exit_code == 2
    assert "N=100" in result.stdout  # the heading stands above the fault
    assert "TMA_STRIDE_ALIGNMENT" in result.stderr
    assert "choose sizes to fit" in result.stderr


def test_the_package_is_the_command_too() -> None:
    done = subprocess.run([sys.executable, "-m", "tilegen", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tilegen")


@pytest.mark.parametrize(("tile", "fill"), [("x", "zeros"), ("y", "NaN")])
def test_what_fills_a_tile_outside_of_its_tensor_is_told(tile: str, fill: str) -> None:
    spec, sizes = SAMPLES / "difference.tile", "M=140,N=64,lag=50"
    told = tilegen("explain", spec, tile, "--at", "i=139,j=0", "--size", sizes, "--map").stdout
    assert f"filled with {fill}" in told and f"outside of X: {fill}" in told
