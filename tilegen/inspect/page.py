"""One self-contained HTML page of a kernel: its texts side by side, its pipeline, its memory and registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tilegen.inspect.budget import REGISTER_FILE, areas, budgets
from tilegen.inspect.evidence import FEATURES, Evidence, in_sass
from tilegen.inspect.listings import key_of, listings
from tilegen.inspect.moving import MOVING_HEADER, moving_row, movings
from tilegen.inspect.places import with_true_places
from tilegen.inspect.timeline import LOAD, PRODUCT, timeline
from tilegen.ir.machines import MACHINES
from tilegen.ir.tile import TileProgram
from tilegen.resources import resource
from tilegen.targets.hopper.built import Built
from tilegen.targets.hopper.sass import parse_sass
from tilegen.version import VERSION


@dataclass(frozen=True)
class Shown:
    """A variant of the kernel. heading: when a launch takes it; "" of one alone."""

    heading: str
    built: Built


def page(title: str, program: TileProgram, variants: Sequence[Shown]) -> str:
    """The page's text. It asks for nothing outside itself. title: the kernel with its parameters."""
    version = ".".join(map(str, variants[0].built.nvrtc_version))
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            spec=program.source.name,
            made_with=f"tilegen {VERSION}, NVRTC {version}",
            variants=[_variant(program, shown) for shown in variants],
            shared_limit=MACHINES[variants[0].built.plan.target].shared_bytes,
            register_file=REGISTER_FILE,
            moving_header=MOVING_HEADER,
            load_units=LOAD,
            product_units=PRODUCT,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(resource("templates", "inspect")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["key"] = key_of
    return environment


def _variant(program: TileProgram, shown: Shown) -> dict[str, object]:
    built = shown.built
    texts = listings(program, built)
    functions = parse_sass(built.sass).functions
    spills = built.usage.spill_store_bytes + built.usage.spill_load_bytes
    return {
        "heading": shown.heading,
        "plan": built.plan,
        "texts": texts.texts,
        "sites": texts.sites,
        "timeline": timeline(built.plan),
        "areas": areas(built.plan),
        "budgets": budgets(built.plan),
        "spills": spills,
        "evidence": _evidence([in_sass(function) for function in functions]),
        "movings": [moving_row(m) for m in movings(program, built.plan, with_true_places(functions[0], built.ptx))],
    }


def _evidence(kernels: Sequence[Evidence]) -> dict[str, object]:
    rows = [
        (feature.name, feature.shows, [kernel.counts[n] for kernel in kernels]) for n, feature in enumerate(FEATURES)
    ]
    return {"kernels": [kernel.kernel for kernel in kernels], "rows": rows}
