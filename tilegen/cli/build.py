"""`tilegen build`: compile a spec and write what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tilegen.cli.compile import compile_spec
from tilegen.cli.console import stdout
from tilegen.cli.publish import publish
from tilegen.cli.summary import print_summary
from tilegen.cli.usage import no_defect, wrong_usage
from tilegen.cli.values import Sizes, Wanted
from tilegen.ir.plan_json import plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.ir.variants import file_stem
from tilegen.targets.hopper.built import Built

# Extension → contents, in the order in which things are made.
EMITTED: dict[str, Callable[[Built], str | bytes]] = {
    "plan.txt": lambda built: print_plan(built.plan),
    "plan.json": lambda built: plan_to_json(built.plan),
    "cu": lambda built: built.cuda,
    "ptx": lambda built: built.ptx,
    "cubin": lambda built: built.cubin,
    "sass": lambda built: built.sass,
}


def build_command(wanted: Wanted, folder: Path, emit: str | None, sizes: Sizes, defect: str | None = None) -> None:
    """Write the files named in `emit` (None: every one) to `folder`, all or none; print what the kernel needs."""
    if wanted.target == "mls":
        from tilegen.cli.mls import build_mls

        build_mls(wanted, folder, emit, sizes, defect)
        return
    no_defect(defect)
    extensions = list(EMITTED) if emit is None else _extensions(emit)
    if sizes and not wanted.tuned:
        wrong_usage(
            "--size chooses among tuned schedules, and a kernel is built for all sizes", wanted="--tuned with it"
        )
    done, seconds = compile_spec(wanted, sizes)
    contents = {
        f"{file_stem(done.plans, n)}.{extension}": EMITTED[extension](variant.built)
        for n, variant in enumerate(done.variants)
        for extension in extensions
    }
    publish({name: text.encode() if isinstance(text, str) else text for name, text in contents.items()}, folder)
    out = stdout()
    print_summary(out, done, seconds)
    out.print(f"wrote {', '.join(str(folder / name) for name in contents)}", markup=False)


def _extensions(emit: str) -> list[str]:
    names = [name.strip() for name in emit.split(",")]
    for name in names:
        if name not in EMITTED:
            wrong_usage("--emit names no file of ours", got=name, wanted=", ".join(EMITTED))
    return list(dict.fromkeys(names))
