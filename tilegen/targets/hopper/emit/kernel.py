"""Plan → CUDA C++ with inline PTX. Every line comes from one op of the plan, or from one of its declarations."""

from __future__ import annotations

from tilegen.ir.machines import MACHINES
from tilegen.ir.plan import CLUSTER_RANK, WARPS, Buffer, MapParam, Plan, RolePlan
from tilegen.ir.uniform import symbols, text
from tilegen.targets.hopper.emit.body import role_code
from tilegen.targets.hopper.emit.deal import add_deal_kernel
from tilegen.targets.hopper.emit.functions import Functions, environment
from tilegen.targets.hopper.emit.integers import Integers
from tilegen.targets.hopper.emit.lines import Line, inside
from tilegen.targets.hopper.emit.names import Names, kernel_name
from tilegen.targets.hopper.emit.parameters import parameter
from tilegen.targets.hopper.emit.scope import RoleScope
from tilegen.version import VERSION


def emit(plan: Plan) -> str:
    """The CUDA text of a plan, for NVRTC without any header.

    A statement's margin holds the line of the spec that its op comes from; `lines.directed` makes `#line` of it.
    Raises ValueError where a plan holds what this target cannot spell: a fault of the compiler, not of a spec.
    """
    functions = Functions()
    entry = functions.names.give(("kernel",), kernel_name(plan.name))
    kernel = functions.local()
    shared = kernel.give("shared", "shared")
    parameters = [parameter(plan, kernel, p) for p in plan.params]
    addresses = _addresses(plan, kernel)
    barriers = [
        {"name": kernel[group.kind, ring.name], "count": ring.depth * ring.parts, "arrivals": group.arrivals}
        for ring in plan.rings
        for group in ring.barriers
    ]
    flags = [kernel["flag", ring.name] for ring in plan.rings if ring.scan]
    warp, group = kernel.give("warp", "warp"), kernel.give("group", "group")
    kernel.give(("symbol", "warpgroup"), "warpgroup")
    rank = kernel.give(("symbol", CLUSTER_RANK), "cluster_rank") if plan.cluster > 1 else ""
    maps = [kernel["map", p.descriptor] for p in plan.params if isinstance(p, MapParam)]
    helpers = {
        "prefetch": functions.helper("prefetch_map") if maps else "",
        "init": functions.helper("mbarrier_init") if barriers else "",
        "fence_init": functions.helper("fence_barrier_init") if barriers else "",
        "fence_async": functions.helper("fence_async") if barriers else "",
        "meet": functions.helper("cluster_meet") if plan.cluster > 1 else "",
        "uniform": functions.helper("uniform"),
        "launch_dependents": functions.helper("launch_dependents") if plan.dependent else "",
        "wait_for_prior": functions.helper("wait_for_prior") if plan.dependent else "",
    }
    roles = []
    for beside, opening in zip(_by_warpgroup(plan), _openings(plan, group), strict=True):
        lines = []
        for role in beside:
            names = Names(kernel)
            scope = RoleScope(plan, role, names, functions, _integers(plan, names, functions))
            lines += [Line(f"// {_role_summary(role)}"), *role_code(scope, group, warp)]
        roles.append({"opening": opening, "code": "\n".join(map(str, inside(lines, 2)))})
    add_deal_kernel(plan, functions)
    template = environment().get_template("kernel.cu.j2")
    return template.render(
        plan=plan,
        name=entry,
        version=VERSION,
        architecture=MACHINES[plan.target].architecture,
        grid=text(plan.grid),
        parameters=parameters,
        parameter_width=max((len(p["name"]) for p in parameters), default=0),
        memory=_memory(plan),
        functions=functions.texts,
        maps=maps,
        shared=shared,
        addresses=addresses,
        barriers=barriers,
        flags=flags,
        rank=rank,
        summaries=[_role_summary(r) for r in plan.roles],
        warp=warp,
        group=group,
        roles=roles,
        **helpers,
    )


def _integers(plan: Plan, names: Names, functions: Functions) -> Integers:
    sizes = frozenset(s for t in plan.tensors for d in t.dims for s in symbols(d))
    return Integers(lambda name: names["symbol", name], functions.helper, sizes | {"warpgroup", CLUSTER_RANK})


def _by_warpgroup(plan: Plan) -> list[list[RolePlan]]:
    """The roles, those that share a warpgroup together."""
    found: dict[int, list[RolePlan]] = {}
    for r in plan.roles:
        found.setdefault(r.first, []).append(r)
    return list(found.values())


def _openings(plan: Plan, group: str) -> list[str]:
    """What stands before the code of each warpgroup's roles; the last needs no test if they cover the CTA."""
    roles = [beside[0] for beside in _by_warpgroup(plan)]
    whole = sum(r.thread_groups for r in roles) * 128 == plan.threads
    out = []
    for n, r in enumerate(roles):
        end = r.first + r.thread_groups
        test = f"{group} == {r.first}" if r.thread_groups == 1 else f"{group} >= {r.first} && {group} < {end}"
        last = whole and n == len(roles) - 1
        out.append(("} else " if n else "") + ("{" if last else f"if ({test}) {{"))
    return out


def _role_summary(r: RolePlan) -> str:
    if r.warps is not None:
        first = WARPS * r.first + r.warps[0]
        return f"{r.name}: warps {first} to {first + r.warps[1] - 1}"
    groups = f"warpgroup {r.first}" if r.warpgroups == 1 else f"warpgroups {r.first} to {r.first + r.warpgroups - 1}"
    registers = f", {r.registers} registers" if r.registers else ""
    together = f", {r.together} the same threads" if r.together > 1 else ""
    name = r.name if r.name == r.kind else f"{r.name} ({r.kind})"
    return f"{name}: {groups}{together}{registers}{', one thread' if r.elected else ''}"


def _addresses(plan: Plan, kernel: Names) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for b in plan.buffers:
        out.append({"name": kernel.give(("buffer", b.name), f"shared_{b.name}"), "offset": b.offset})
    for r in plan.rings:
        for g in r.barriers:
            out.append({"name": kernel.give((g.kind, r.name), f"{r.name}_{g.kind}"), "offset": g.offset})
        if r.scan is not None:
            out.append({"name": kernel.give(("flag", r.name), f"{r.name}_flag"), "offset": r.scan.flag})
    return out


def _memory(plan: Plan) -> list[str]:
    """The map of shared memory, a line an entry, by offset."""
    rows = [(b.offset, b.stages * b.parts * b.stage_bytes, _tile(b)) for b in plan.buffers]
    for r in plan.rings:
        n = 8 * r.depth * r.parts
        rows += [(group.offset, n, f"{r.name}: {group.kind} barriers") for group in r.barriers]
        if r.scan is not None:
            rows.append((r.scan.flag, 4, f"{r.name}: flag of the scan"))
    width = max((len(str(start + size)) for start, size, _ in rows), default=0)
    return [f"{start:>{width}} to {start + size:<{width}}  {what}" for start, size, what in sorted(rows)]


def _tile(b: Buffer) -> str:
    copies = f"{b.stages} x " if b.stages > 1 else ""
    copies += f"{b.parts} x " if b.parts > 1 else ""
    swizzle = f", {b.swizzle}-byte swizzle" if b.swizzle else ""
    return f"{b.name}: {copies}{b.rows} x {b.cols} {b.dtype}{swizzle}{f', in the bytes of {b.host}' if b.host else ''}"
