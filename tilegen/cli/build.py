"""`tilegen build`: compile a spec and write what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tilegen.cli.compile import compile_spec
from tilegen.cli.console import stdout
from tilegen.cli.publish import publish
from tilegen.cli.summary import print_summary
from tilegen.cli.values import Parameters
from tilegen.diagnostics.catalogue import Code, fail
from tilegen.ir.plan_json import plan_to_json
from tilegen.ir.plan_text import print_plan
from tilegen.runtime.compilation import Compilation

# Extension → contents, in the order in which things are made.
EMITTED: dict[str, Callable[[Compilation], str | bytes]] = {
    "plan.txt": lambda done: print_plan(done.plan),
    "plan.json": lambda done: plan_to_json(done.plan),
    "cu": lambda done: done.built.cuda,
    "ptx": lambda done: done.built.ptx,
    "cubin": lambda done: done.built.cubin,
    "sass": lambda done: done.built.sass,
}


def build_command(spec: Path, parameters: Parameters, target: str, folder: Path, emit: str) -> None:
    """Write the files named in `emit` to `folder`, all or none, and print what the kernel needs."""
    wanted = _wanted(emit)
    done, seconds = compile_spec(spec, parameters, target)
    contents = {f"{done.program.name}.{extension}": EMITTED[extension](done) for extension in wanted}
    publish({name: text.encode() if isinstance(text, str) else text for name, text in contents.items()}, folder)
    out = stdout()
    print_summary(out, done, seconds)
    out.print(f"wrote {', '.join(str(folder / name) for name in contents)}", markup=False)


def _wanted(emit: str) -> list[str]:
    names = [name.strip() for name in emit.split(",")]
    for name in names:
        if name not in EMITTED:
            fail(Code.BAD_USAGE, None, what="--emit names no file of ours", got=name, wanted=", ".join(EMITTED))
    return list(dict.fromkeys(names))
