"""The pictures of the discovery experiment: the table of all runs, the patterns found, the calibration."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from haarflow.practice.sharing import sharing
from haarflow.runs.experiment import Panel

WIDTH = 20  # runs in a line of the table


def table(data: Mapping[str, Any], rows: Mapping[str, str]) -> Panel:
    """Every run of every setting: the dimension found and its largest angle to E^G."""
    lines = [
        (f"{name}  (E^G: {int(data[f'{source}/true'][0])})" if first == 0 else f"runs from {first}", source, first)
        for name, source in rows.items()
        for first in range(0, len(data[f"{source}/dimension"]), WIDTH)
    ]

    def draw(figure):
        axis = figure.add_subplot()
        for row, (_, source, first) in enumerate(lines):
            cells = zip(*(data[f"{source}/{what}"][first : first + WIDTH] for what in _SHOWN), strict=True)
            for column, (found, true, angle) in enumerate(cells):
                _show(axis, column, row, int(found), bool(found == true), float(angle))
        axis.set(xlim=(-0.6, WIDTH - 0.4), ylim=(len(lines) - 0.4, -0.6), xlabel="run")
        axis.set_yticks(range(len(lines)), [label for label, _, _ in lines])
        axis.set_xticks(range(WIDTH))
        axis.grid(visible=False)
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_visible(False)

    caption = (
        "Each cell is one run: the dimension found and, where it is that of E^G, the largest angle to E^G in degrees "
        "(0° means equal to rounding: the coordinates are tied exactly). Crossed cells have the wrong dimension. "
        "Below the five settings stand four where discovery is expected to fail, and the published example by the "
        "published procedure, with either rule: one free training a round, stopped by a threshold."
    )
    return Panel("All runs", caption, draw, size=(10.4, 0.8 + 0.42 * len(lines)))


_SHOWN = ("dimension", "true", "angle")


def _show(axis: Any, column: int, row: int, found: int, right: bool, angle: float) -> None:
    """One cell of the table."""
    from haarflow.runs.style import INK, MUTED, PALETTE

    axis.add_patch(_cell(column, row, PALETTE["FA" if right else "EA"][0]))
    axis.text(column, row - 0.12, f"{found}", ha="center", va="center", fontsize=8, color=INK)
    words = _angle(angle) if right else "✗"
    axis.text(column, row + 0.26, words, ha="center", va="center", fontsize=5.5, color=MUTED)


def patterns(data: Mapping[str, Any], shapes: Mapping[str, tuple[int, int]]) -> Panel:
    """The parameter sharing that the first run of each setting found."""

    def draw(figure):
        from haarflow.runs.style import PALETTE

        axes = figure.subplots(1, len(shapes))
        for axis, (name, shape) in zip(axes, shapes.items(), strict=True):
            pattern = sharing(data[f"find {name}/basis"])
            side = int(np.sqrt(shape[1]))
            pattern.draw(
                axis, shape=shape if shape[0] > 1 else (side, side), colours=[light for light, _ in PALETTE.values()]
            )
            axis.set_title(f"{name}\n{pattern.free} free of {len(pattern.labels)}", fontsize=8)

    caption = (
        "The weights of one unit, row by row (outputs down, inputs across; for the digits, the 8×8 pixels), in the "
        "first run of each setting. The same letter is the same weight, a minus its opposite. Nobody told the search "
        "that these are a swap, a rotation, a deep-set layer, a convolution and the symmetric images."
    )
    return Panel("The parameter sharing found", caption, draw, size=(11.4, 2.9))


def calibration(nulls: Mapping[str, np.ndarray]) -> Panel:
    """The p-values of null runs against the uniform law."""

    def draw(figure):
        from scipy.stats import beta

        from haarflow.runs.style import INK, MUTED, colour, legend, marker

        axis = figure.add_subplot()
        m = len(next(iter(nulls.values())))
        expected = (np.arange(m) + 0.5) / m
        for order, (name, p_values) in enumerate(nulls.items()):
            style = {"color": colour(name, order), "marker": marker(name, order), "markersize": 3}
            axis.plot(expected, np.sort(p_values), linestyle="none", label=f"{name}, {m} runs", **style)
        places = np.arange(1, m + 1)
        low, high = (beta.ppf(level, places, m + 1 - places) for level in (0.005, 0.995))
        axis.fill_between(expected, low, high, color=MUTED, alpha=0.18, linewidth=0, label="99% band, each point")
        axis.plot([0.5 / m, 1], [0.5 / m, 1], color=INK, linewidth=1.0)
        axis.set(xscale="log", yscale="log", xlabel="uniform quantile", ylabel="p-value, sorted")
        legend(axis)

    caption = (
        "Runs held on E^G itself, where every added direction is false. On the diagonal the probability of a false "
        "expansion is the stated one; above it the test is cautious, below it reckless."
    )
    return Panel("Is the stopping rule calibrated?", caption, draw, size=(9.6, 3.8))


def _angle(angle: float) -> str:
    return "0°" if angle < 1e-5 else f"{angle:.1f}°" if angle < 10 else f"{angle:.0f}°"


def _cell(column: int, row: int, paint: str, *, fill: float = 0.25):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (column - 0.42, row - 0.4), 0.84, 0.8, boxstyle="round,pad=0.02", facecolor=paint, edgecolor="none", alpha=fill
    )
