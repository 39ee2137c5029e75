"""The picture of a benchmark: time per step against N for every contestant, one panel a task."""

from collections import defaultdict
from pathlib import Path

LIMITS = {"floor": ("the machine's floor", "_"), "native": ("a fused kernel in C", "x")}  # section: name and mark
OURS = {"haarflow": "-", "haarflow, one core": "--", "haarflow, two devices": ":"}


def draw(results: dict, path: Path) -> None:
    """Ours thick, in three ways; the others thin; what the machine could do as grey marks."""
    from haarflow.runs.experiment import Panel
    from haarflow.runs.raster import still

    panel = Panel("Time of a step", "", lambda figure: _drawn(figure, results), size=(12.6, 4.2))
    path.write_bytes(still(panel, pixels_per_inch=120))


def _curves(results: dict) -> dict:
    """task -> name -> [(N, µs)]."""
    curves = defaultdict(lambda: defaultdict(list))
    named = {case: dict(seconds) for case, seconds in results["race"].items()}
    for section, (name, _) in LIMITS.items():
        for case, value in results[section].items():
            named[case][name] = value
    for case, seconds in named.items():
        task, n = case.rsplit(" ", 1)
        for name, value in seconds.items():
            curves[task][name].append((int(n), value * 1e6))
    return curves


def _drawn(figure, results: dict) -> None:
    from haarflow.runs.style import INK, MUTED, colour, legend, marker

    curves = _curves(results)
    axes = figure.subplots(1, max(len(curves), 1), squeeze=False)[0]
    others = [name for name in results["contestants"] if name not in OURS]
    styles = {name: {"color": INK, "linestyle": line, "linewidth": 2.4} for name, line in OURS.items()}
    for order, name in enumerate(others):
        styles[name] = {"color": colour("", order), "marker": marker("", order), "linewidth": 1.2}
    for name, mark in LIMITS.values():
        styles[name] = {"color": MUTED, "linestyle": "none", "marker": mark}
    labels = {}
    for axis, (task, lines) in zip(axes, curves.items(), strict=False):
        for name, points in lines.items():
            (labels[name],) = axis.loglog(*zip(*sorted(points), strict=True), label=name, **styles[name])
        axis.set(title=f"{task} task", xlabel="particles N")
    axes[0].set_ylabel("µs per step")
    legend(axes[-1], handles=[labels[name] for name in styles if name in labels])
