"""The picture of a benchmark: time per step against N for every contestant, one panel a task."""

from pathlib import Path


def draw(results: dict, path: Path) -> None:
    """Log–log, a line for each contestant, the floor dashed."""
    from matplotlib.figure import Figure

    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for case, seconds in results["race"].items():
        task, n = case.rsplit(" ", 1)
        for name, value in seconds.items():
            curves.setdefault(task, {}).setdefault(name, []).append((int(n), value * 1e6))
    for case, value in results["floor"].items():
        task, n = case.rsplit(" ", 1)
        curves.setdefault(task, {}).setdefault("the machine's floor", []).append((int(n), value * 1e6))
    figure = Figure(figsize=(4.2 * max(len(curves), 1), 4.2), layout="constrained")
    axes = figure.subplots(1, max(len(curves), 1), squeeze=False)[0]
    colours = {name: f"C{i}" for i, name in enumerate([*results["contestants"], "the machine's floor"])}
    for axis, (task, lines) in zip(axes, curves.items(), strict=False):
        for name, points in lines.items():
            ns, times = zip(*sorted(points), strict=True)
            style = "--" if name == "the machine's floor" else "o-"
            axis.loglog(ns, times, style, color=colours[name], label=name, ms=4)
        axis.set(title=f"{task} task", xlabel="particles N", ylabel="µs per step")
        axis.grid(alpha=0.3)
    if len(axes):
        axes[-1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
