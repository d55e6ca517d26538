"""Speed against sequence length: one panel a head size, one line a provider and mask, as SVG."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilegen.bench.report import Report, tflops

_STYLES = {"full": "-", "causal": "--"}
_GIVEN = ("S", "D", "mask")  # columns that the axes, the panels and the lines stand for


def available() -> bool:
    """Whether matplotlib, of the extra `bench`, is installed."""
    return find_spec("matplotlib") is not None


def lines(report: Report) -> dict[str, dict[int, dict[tuple[str, str], list[tuple[int, float]]]]]:
    """(S, TFLOP/s) by rest of the columns (a row of panels), head size (a panel), provider and mask (a line).

    Only of cells with a length and a head size, and where there is more than one length.
    """
    out: dict[str, dict[int, dict[tuple[str, str], list[tuple[int, float]]]]] = {}
    for cell in report.cells:
        columns = cell.workload.columns
        if not (columns.get("S", "").isdigit() and columns.get("D", "").isdigit()):
            continue
        rest = ", ".join(f"{name}={value}" for name, value in columns.items() if name not in _GIVEN)
        for name in report.names:
            speed = tflops(cell, name)
            if speed is not None:
                panel = out.setdefault(rest, {}).setdefault(int(columns["D"]), {})
                panel.setdefault((name, columns.get("mask", "")), []).append((int(columns["S"]), speed))
    for row in out.values():
        for panel in row.values():
            for points in panel.values():
                points.sort()
    return {rest: row for rest, row in out.items() if any(len(p) > 1 for panel in row.values() for p in panel.values())}


def figure(report: Report) -> Any:
    """matplotlib's Figure; None where there is nothing that depends on a length. Needs matplotlib."""
    rows = lines(report)
    if not rows:
        return None
    from matplotlib.figure import Figure

    sizes = sorted({D for row in rows.values() for D in row})
    made = Figure(figsize=(4.2 * len(sizes), 3.6 * len(rows)), layout="constrained")
    panels = made.subplots(len(rows), len(sizes), squeeze=False, sharey="row")
    colours = {name: f"C{n}" for n, name in enumerate(report.names)}
    shown: dict[str, Any] = {}
    for (rest, row), across in zip(rows.items(), panels, strict=True):
        for D, panel in zip(sizes, across, strict=True):
            for (name, mask), points in row.get(D, {}).items():
                (line,) = panel.plot(
                    *zip(*points, strict=True), _STYLES.get(mask, ":"), marker="o", markersize=3,
                    color=colours[name], linewidth=2 if name == report.ours else 1,
                )  # fmt: skip
                shown.setdefault(f"{name} {mask}".strip(), line)
            lengths = sorted({S for points in row.get(D, {}).values() for S, _ in points})
            panel.set(title=f"D = {D}, {rest}".rstrip(", "), xlabel="S", xscale="log")
            panel.set_xticks(lengths, [str(S) for S in lengths])
            panel.minorticks_off()
            panel.grid(alpha=0.3)
        across[0].set(ylabel="TFLOP/s", ylim=(0, None))  # of the whole row, whose panels all have their lines
    made.legend(shown.values(), shown.keys(), loc="outside right upper", frameon=False)
    made.suptitle(f"{report.title}, {report.machine.get('gpu', 'one GPU')}")
    return made


def draw(report: Report, path: Path) -> bool:
    """Write the figure as SVG, the same bytes for the same report; False where there is none. Needs matplotlib."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "tilegen", "font.size": 9}):
        made = figure(report)
        if made is None:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        made.savefig(path, format="svg", metadata={"Date": None})
    return True
