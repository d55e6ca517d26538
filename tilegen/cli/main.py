"""The `tilegen` command: what each subcommand takes. What they do is in the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from tilegen.cli import values
from tilegen.cli.build import EMITTED, build_command
from tilegen.cli.check import check_command
from tilegen.cli.errors import Commands
from tilegen.cli.inspect import inspect_command
from tilegen.cli.run import run_command
from tilegen.version import VERSION

_EXAMPLES = """\b
Examples:
  tilegen run samples/fa3_fwd.tile
  tilegen build samples/fa3_fwd.tile -D D=64 -D causal=true -o out
  tilegen run samples/gemm.tile --size M=300,N=520,K=72 --emulate

\b
Exit codes: 0 fine, 1 the spec is wrong or a check failed, 2 wrong usage.
"""

_F = TypeVar("_F", bound=Callable[..., object])
_FILE = click.Path(path_type=Path)


def _spec(function: _F) -> _F:
    return click.argument("spec", type=_FILE)(function)


def _parameters(function: _F) -> _F:
    return click.option(
        "-D",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda _context, _option, pairs: values.parameters(pairs),
        help="Bind a parameter of the kernel: -D D=64 -D causal=true -D T=f16.",
    )(function)


def _target(function: _F) -> _F:
    return click.option(
        "--target",
        default="hopper",
        metavar="NAME",
        show_default=True,
        help="The machine to compile for.",
    )(function)


@click.group(cls=Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION)
def main() -> None:
    """Compile .tile specs to Hopper kernels whose data movement is derived and checked, and run them."""


@main.command(short_help="Compile a spec; write CUDA, PTX, cubin, SASS and plan.")
@_spec
@_parameters
@_target
@click.option(
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("."),
    metavar="DIR",
    help="Where to write; made if need be. Default: here.",
)
@click.option(
    "--emit",
    default=",".join(EMITTED),
    metavar="LIST",
    show_default=True,
    help="Which files to write.",
)
def build(spec: Path, parameters: values.Parameters, target: str, folder: Path, emit: str) -> None:
    """Compile SPEC, check it, and write NAME.cu, .ptx, .cubin, .sass, .plan.json and .plan.txt.

    The files appear all together or, if anything is wrong, not at all.
    """
    build_command(spec, parameters, target, folder, emit)


@main.command(short_help="Check a spec without writing anything.")
@_spec
@_parameters
@_target
def check(spec: Path, parameters: values.Parameters, target: str) -> None:
    """Run every static check on SPEC, those on the machine code among them. Writes no files."""
    check_command(spec, parameters, target)


@main.command(short_help="Run a spec on random data and compare with exact results.")
@_spec
@_parameters
@_target
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="NAME=VALUE,…",
    callback=lambda _context, _option, options: values.sizes(options),
    help="Sizes and scalars: Sq=300,Sk=77,scale=0.1; a ragged axis takes a list: Sq=[0,9,130].",
)
@click.option("--emulate", is_flag=True, help="Run the PTX on the CPU even if there is a GPU.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random data.")
def run(spec: Path, parameters: values.Parameters, target: str, sizes: values.Sizes, emulate: bool, seed: int) -> None:
    """Run SPEC on random data and compare every output with the float64 value of its equations.

    Runs on the GPU if there is one, and otherwise runs the generated PTX on the CPU.
    """
    run_command(spec, parameters, target, sizes, emulate, seed)


@main.command(short_help="Show what a spec became, statement by statement.")
@click.argument("file", type=_FILE, metavar="SPEC|FILE.ptx|FILE.cubin")
@_parameters
@_target
def inspect(file: Path, parameters: values.Parameters, target: str) -> None:
    """Show what was generated from a spec, statement by statement, and which hardware features the code uses.

    For a .ptx or .cubin file: the hardware features only.
    """
    inspect_command(file, parameters, target)
