"""The `tilegen` command: what each subcommand takes. What they do is in the modules beside this one.

Each command loads its own module when it is called: the help of all is there at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

import click

from tilegen.cli import values
from tilegen.cli.errors import Commands
from tilegen.version import VERSION

_EXAMPLES = """\b
Examples:
  tilegen run samples/fa3_fwd.tile
  tilegen build samples/fa3_fwd.tile -D D=64 -D causal=true -o out
  tilegen run samples/gemm.tile --size M=300,N=520,K=72 --emulate

\b
Exit codes: 0 fine, 1 the spec is wrong or a check failed, 2 wrong usage.
"""

TARGETS = ("hopper", "sm_80", "mls")
DEFECTS = ("carry", "tail", "dirty-lds")  # those of tilegen.targets.mls, which takes time to load


def _wanted(
    argument: str, *, tunable: bool = True, targets: tuple[str, ...] = TARGETS[:1]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The argument and the options of what to compile, which the command is given as one. `tunable`: --tuned too.
    targets: the machines that the command is for."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(
            spec: Path,
            parameters: values.Parameters,
            target: str,
            no_cache: bool,
            tuned: bool = False,
            **options: object,
        ) -> None:
            command(values.Wanted(spec, parameters, target, not no_cache, tuned), **options)

        options = (_OPTIONS[0], _target(targets), *(_OPTIONS[1:] if tunable else _OPTIONS[1:-1]))
        for option in reversed(options):
            called = option(called)
        return click.argument("spec", metavar=argument, callback=lambda _context, _argument, name: values.file(name))(
            called
        )

    return decorated


_OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.option(
        "-D",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda _context, _option, pairs: values.parameters(pairs),
        help="Bind a parameter of the kernel: -D D=64 -D causal=true -D T=f16.",
    ),
    click.option("--no-cache", is_flag=True, help="Compile even if this was compiled before, and do not keep it."),
    click.option("--tuned", is_flag=True, help="With the schedule that `tilegen tune` kept for this GPU, if any."),
)


def _target(targets: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--target",
        type=click.Choice(targets),
        default=targets[0],
        show_default=True,
        help="The machine to compile for.",
    )


_DEFECT = click.option(
    "--defect",
    type=click.Choice(DEFECTS),
    help="With --target mls: leave out what prevents this fault, to see it found.",
)


def _sizes(words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--size",
        "sizes",
        multiple=True,
        metavar="NAME=VALUE,…",
        callback=lambda _context, _option, options: values.sizes(options),
        help=words,
    )


def _seed(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        callback=lambda _context, _option, number: values.seed(number),
        help=f"Seed of {what}. A whole number from 0 up.",
    )


@click.group(cls=Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION)
def main() -> None:
    """Compile .tile specs to Hopper kernels whose data movement is derived and checked, and run them."""


@main.command(short_help="Compile a spec; write CUDA, PTX, cubin, SASS, plan, or MLS.")
@_wanted("SPEC", targets=TARGETS)
@click.option(
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("."),
    metavar="DIR",
    help="Where to write; made if need be. Default: here.",
)
@click.option("--emit", metavar="LIST", help="Which files to write: plan.txt,cu … Default: all.")
@_sizes("With --tuned, take only schedules found for sizes of the same class; without it, all that are kept.")
@_DEFECT
def build(wanted: values.Wanted, folder: Path, emit: str | None, sizes: values.Sizes, defect: str | None) -> None:
    """Compile SPEC, check it, and write NAME.cu, .ptx, .cubin, .sass, .plan.json and .plan.txt; for mls NAME.mls.

    Where the schedule depends on sizes, each variant has files of its own: NAME.1.cu, NAME.2.cu and so on.
    The files appear all together or, if anything is wrong, not at all.
    """
    from tilegen.cli.build import build_command

    build_command(wanted, folder, emit, sizes, defect)


@main.command(short_help="Check a spec without writing anything.")
@_wanted("SPEC", targets=TARGETS)
@_DEFECT
def check(wanted: values.Wanted, defect: str | None) -> None:
    """Run every static check on SPEC, those on the machine code among them. Writes no files."""
    from tilegen.cli.check import check_command

    check_command(wanted, defect)


@main.command(short_help="Run a spec on random data and compare with exact results.")
@_wanted("SPEC", targets=TARGETS)
@_sizes("Sizes and scalars: Sq=300,Sk=77,scale=0.1; a ragged axis takes a list: Sq=[0,9,130].")
@click.option("--emulate", is_flag=True, help="Run the PTX on the CPU even if there is a GPU.")
@click.option("--plain", is_flag=True, help="Emulate the PTX's arithmetic alone: faster, and only wrong numbers show.")
@_seed("the random data, and of how long engines take in the emulator")
@_DEFECT
def run(wanted: values.Wanted, sizes: values.Sizes, emulate: bool, plain: bool, seed: int, defect: str | None) -> None:
    """Run SPEC on random data and compare every output with the float64 value of its equations.

    Runs on the GPU if there is one, and otherwise runs the generated PTX on the CPU, where it is watched: races,
    missing fences, registers that a product still has, bytes that nothing wrote and wrong tiles are faults, even if
    the numbers are right, and engines take their time as the seed says. For mls the assembly runs in its emulator, on
    tensors that lie across 4 GiB and end where a page does.
    """
    from tilegen.cli.run import run_command

    run_command(wanted, sizes, emulate, seed, defect, plain)


@main.command(short_help="Time a spec on the GPU beside its peers.")
@_wanted("SPEC|attention|gemm")
@_sizes("Sizes and scalars of SPEC, as for `tilegen run`.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda _context, _option, pairs: values.parameters(pairs, "--only"),
    help="Of a named benchmark, the cells in which this column is so: --only D=128 --only mask=causal.",
)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True, help="In each, everybody runs once.")
@click.option("--budget", type=float, default=540, show_default=True, help="Seconds in all; later rounds are left out.")
@click.option("--flex", is_flag=True, help="FlexAttention as well, which torch compiles for many seconds.")
@click.option(
    "-o",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the report there, as JSON, Markdown and, with matplotlib, a plot.",
)
@_seed("the random data")
def bench(
    wanted: values.Wanted,
    sizes: values.Sizes,
    only: values.Parameters,
    rounds: int,
    budget: float,
    flex: bool,
    folder: Path | None,
    seed: int,
) -> None:
    """Time SPEC on the GPU, in turns with the peers that are installed and compute the same; alone, if none do.

    `attention` and `gemm` time the cells of tilegen's own benchmarks. Results are held against float32 first.
    """
    from tilegen.cli.bench import Asked, bench_command

    bench_command(wanted, sizes, only, Asked(rounds, budget, flex, folder, seed))


_WORDS = "tilegen.words"


class _Told(click.Command):
    """A command whose eager options know what else is said."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = tuple(args)
        return super().parse_args(ctx, args)


def _shown(what: str) -> Callable[[click.Context, click.Parameter, object], None]:
    """The callback of an option that does something else than its command, and ends it."""

    def show(context: click.Context, _option: click.Parameter, value: object) -> None:
        if value and not context.resilient_parsing:
            from tilegen.cli import tune as tuning
            from tilegen.cli.usage import wrong_usage

            others = [word for word in context.meta[_WORDS] if word.startswith("-") and word != f"--{what}"]
            if others:
                wrong_usage(f"--{what} goes alone", got=others[0], wanted=f"--{what} without it")
            if what == "list":
                tuning.list_command()
            else:
                tuning.forget_command(str(value))
            context.exit()

    return show


@main.command(cls=_Told, short_help="Search the fastest schedule of a spec on the GPU, and keep it.")
@_wanted("SPEC", tunable=False)
@_sizes("Sizes and scalars to time it at, as for `tilegen run`.")
@click.option("--budget", type=click.IntRange(1), default=48, show_default=True, help="Schedules to compile.")
@click.option("--time", "seconds", type=click.IntRange(1), default=540, show_default=True, help="Seconds in all.")
@click.option("--no-device", is_flag=True, help="Only list what would be timed.")
@click.option("--write", is_flag=True, help="Print the fastest schedule as a statement to paste into SPEC.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all that was found there.",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_shown("list"),
    help="Show what is kept; no SPEC.",
)
@click.option(
    "--forget",
    metavar="KERNEL|all",
    is_eager=True,
    expose_value=False,
    callback=_shown("forget"),
    help="Remove what is kept for kernels of this name; no SPEC.",
)
@_seed("the random data, and of which schedules are tried")
def tune(
    wanted: values.Wanted,
    sizes: values.Sizes,
    budget: int,
    seconds: int,
    no_device: bool,
    write: bool,
    file: Path | None,
    seed: int,
) -> None:
    """Try schedules of SPEC against its own at these sizes, and keep the fastest for `--tuned` and `compile(tuned=…)`.

    The candidates vary what the schedule language has; each compiles as planned and gives the result of the first.
    """
    from tilegen.cli.tune import Asked, tune_command

    tune_command(wanted, sizes, Asked(budget, seconds, seed, not no_device, write, file))


@main.command(short_help="Show what a spec became, statement by statement.")
@_wanted("SPEC|FILE.ptx|FILE.cubin", targets=TARGETS[:2])
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page to read the code of SPEC instead: its texts side by side, the pipeline, memory, registers.",
)
def inspect(wanted: values.Wanted, html: Path | None) -> None:
    """Show what was generated from a spec, statement by statement, and which hardware features the code uses.

    For a .ptx or .cubin file: the hardware features only.
    """
    from tilegen.cli.inspect import inspect_command

    inspect_command(wanted, html)


@main.command(short_help="Show where a tile lies: in its tensor, and in shared memory.")
@_wanted("SPEC")
@click.argument("tile")
@click.option(
    "--at",
    multiple=True,
    metavar="AXIS=N,…",
    callback=lambda _context, _option, given: values.positions(given, "--at") if given else None,
    help="A position along the tile's axes: b=0,h=3,j=896; others are at 0. Without it: which axes there are.",
)
@_sizes("Sizes and integer scalars, as for `tilegen run`.")
@click.option(
    "--element",
    multiple=True,
    metavar="AXIS=N,…",
    callback=lambda _context, _option, given: values.positions(given, "--element"),
    help="The element to look for, where it is another one than that at --at: d=17.",
)
@click.option("--map", "map_", is_flag=True, help="Draw the tile's shared memory: swizzle, clipping, the element.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="Draw it into FILE, as SVG.")
@click.option("--json", "json_", is_flag=True, help="Print all of it as JSON instead.")
def explain(
    wanted: values.Wanted,
    tile: str,
    at: values.Positions | None,
    sizes: values.Sizes,
    element: values.Positions,
    map_: bool,
    svg: Path | None,
    json_: bool,
) -> None:
    """Show where a TILE of SPEC lies at a position of its axes, by the plan that a launch of these sizes takes.

    Which boxes TMA moves, the addresses of their corners, what is outside of the tensor, the bytes that a barrier
    expects, and where an element stands in shared memory, its bank included. TILE may be an output stored by TMA.
    """
    from tilegen.cli.explain import Asked, explain_command

    explain_command(wanted, sizes, Asked(tile, at, element, map_, svg, json_))


@main.command(short_help="Show what moving each tile costs on each machine.")
@_wanted("SPEC", tunable=False)
@click.option("--json", "json_", is_flag=True, help="Print all of it as JSON instead.")
def cost(wanted: values.Wanted, json_: bool) -> None:
    """Show for each tile of SPEC what moving one block takes: by TMA, by copies of threads, by MLS matrix loads.

    Instructions, registers for addresses, predicates and bytes, each counted in what was emitted or computed, and which
    invariants hardware keeps and which the program.
    """
    from tilegen.cli.cost import cost_command

    cost_command(wanted, json_)


@main.command(short_help="Show where compiled kernels are kept, or clear them.")
@click.argument("action", type=click.Choice(["info", "clear"]), default="info")
def cache(action: str) -> None:
    """Show the folder where compiled kernels are kept and how much is there, or remove them all.

    The variable TILEGEN_CACHE moves the folder, or switches the cache `off`.
    """
    from tilegen.cli.cache import cache_command

    cache_command(clear=action == "clear")
