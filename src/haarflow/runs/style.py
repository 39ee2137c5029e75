"""One look for every figure: the palette by scheme, and the few drawings that experiments share.

A figure is drawn once, in stand-in colours; the report replaces them by CSS variables, so that the same
picture serves light and dark. Use `INK`, `MUTED`, `GRID`, `PAPER` and `colour(name)`, not your own colours.
"""

import hashlib
import io
import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from haarflow.runs.statistics import CENTRES, slope

INK, MUTED, GRID, PAPER = "#010203", "#040506", "#070809", "#0a0b0c"
DASHED = (0, (4, 3))  # the line of what is stated, not measured

# name: (light, dark), after Okabe and Ito's colours, told apart by every common kind of colour vision
PALETTE = {
    "vanilla": ("#0072b2", "#5ab0ea"),
    "DA": ("#d98b00", "#f0b340"),
    "FA": ("#008f68", "#3cc79a"),
    "EA": ("#c44e00", "#f0834a"),
    "fifth": ("#b0588c", "#dd8fbe"),
    "sixth": ("#2f9cd6", "#8fd0f5"),
    "seventh": ("#6b6f76", "#a3a9b3"),
    "eighth": ("#6a51a3", "#b3a2e8"),
    "ninth": ("#7d8a00", "#c3d04a"),
    "tenth": ("#8c5a2b", "#cfa074"),
}
MARKERS = dict(zip(PALETTE, "os^DvPX<>h", strict=True))

STYLE: dict[Any, Any] = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    **{
        f"axes3d.{side}axis.panecolor": (0, 0, 0, 0) for side in "xyz"
    },  # walls of any shade hide a plane on a dark page
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "xtick.minor.size": 2,
    "ytick.minor.size": 2,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.title_fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "path",
}


def colour(series: str, order: int = 0) -> str:
    """The colour of a series: that of the scheme its name contains, else the next in the palette."""
    return PALETTE[_scheme(series, order)][0]


def marker(series: str, order: int = 0) -> str:
    """The marker of a series, so that colour is never the only difference."""
    return MARKERS[_scheme(series, order)]


def _scheme(series: str, order: int) -> str:
    words = series.replace(",", " ").split()
    return next((word for word in words if word in PALETTE), list(PALETTE)[order % len(PALETTE)])


def boxes(axis: Any, sizes: Any, series: Mapping[str, Any], *, xlabel: str = "", ylabel: str = "") -> None:
    """Box plots over sizes on log axes, side by side by series; each value is (repetitions, sizes)."""
    sizes = np.asarray(sizes, float)
    gap = np.log(np.sort(sizes)[1:] / np.sort(sizes)[:-1]).min() if len(sizes) > 1 else 1.0
    slot = 0.75 * gap / max(len(series), 1)
    for order, (name, values) in enumerate(series.items()):
        shift = (order - (len(series) - 1) / 2) * slot
        places = sizes * np.exp(shift)
        paint = colour(name, order)
        axis.boxplot(
            np.asarray(values),
            positions=places,
            widths=places * (np.exp(0.4 * slot) - np.exp(-0.4 * slot)),
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": paint, "alpha": 0.35, "edgecolor": paint, "linewidth": 1.0},
            medianprops={"color": paint, "linewidth": 1.8},
            whiskerprops={"color": paint, "linewidth": 1.0},
            capprops={"color": paint, "linewidth": 1.0},
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": paint, "markerfacecolor": paint},
        )
        axis.plot([], [], "s", color=paint, label=name)
    _log_axes(axis, sizes, xlabel, ylabel)


def slopes(
    axis: Any,
    sizes: Any,
    series: Mapping[str, Any],
    *,
    xlabel: str = "",
    ylabel: str = "",
    fit: bool = True,
    centre: Literal["median", "mean"] = "median",
) -> None:
    """Medians (or means) over repetitions with a 10-90% band; the legend gives each log-log slope and its 95% band."""
    sizes = np.asarray(sizes, float)
    for order, (name, values) in enumerate(series.items()):
        values, paint = np.atleast_2d(np.asarray(values, float)), colour(name, order)
        label = f"{name}  {_slope_words(sizes, values, centre)}" if fit else name
        if len(values) > 1:
            low, high = np.quantile(values, [0.1, 0.9], axis=0)
            axis.fill_between(sizes, low, high, color=paint, alpha=0.18, linewidth=0)
        axis.plot(sizes, CENTRES[centre](values, axis=0), color=paint, marker=marker(name, order), label=label)
    _log_axes(axis, sizes, xlabel, ylabel)


def reference(axis: Any, sizes: Any, power: float, anchor: float, *, label: str | None = None) -> None:
    """A dashed line of the given slope through (first size, anchor), with its slope written at its end."""
    sizes = np.sort(np.asarray(sizes, float))
    line = anchor * (sizes / sizes[0]) ** power
    axis.plot(sizes, line, linestyle=DASHED, color=MUTED, linewidth=1.0)
    words = label if label is not None else f"slope {power:g}".replace("-", "−")
    axis.annotate(
        words,
        (sizes[-1], line[-1]),
        xytext=(-6, -3 if power < 0 else 3),
        textcoords="offset points",
        ha="right",
        va="top" if power < 0 else "bottom",
        fontsize=8,
        color=MUTED,
    )


def failures(axis: Any, names: Any, series: Mapping[str, Any], bound: float) -> None:
    """How far statements are from true: a row for each name, a mark for each series, the bound and rounding as lines.

    Each value of `series` has a number for every name.
    """
    rows, eps = np.arange(len(names))[::-1], float(np.finfo(float).eps)
    for order, (name, values) in enumerate(series.items()):
        shift = 0.6 * (order / max(len(series) - 1, 1) - 0.5)
        style = {"color": colour("", order), "marker": marker("", order)}
        axis.plot(np.maximum(values, 1e-18), rows - shift, linestyle="none", label=name, **style)
    axis.axvline(bound, color=INK, linewidth=1.2)
    axis.axvline(eps, color=MUTED, linewidth=0.9, linestyle=DASHED)
    for words, place, shade in (("bound", bound, INK), ("rounding", eps, MUTED)):
        axis.text(place, 1.01, words, transform=axis.get_xaxis_transform(), color=shade, fontsize=8, ha="center")
    axis.set(xscale="log", xlim=(5e-19, None), ylim=(-0.7, rows[0] + 0.6), yticks=rows)
    axis.set_yticklabels(names)
    axis.set_xlabel("size of the failure (0 is drawn at 1e-18)")
    legend(axis)


def legend(axis: Any, **options: Any) -> None:
    """A legend outside the data, on the right."""
    axis.legend(
        **{
            "loc": "upper left",
            "bbox_to_anchor": (1.01, 1.0),
            "borderaxespad": 0.0,
            "alignment": "left",
            **options,
        }
    )


def render(panel: Any, salt: str) -> str:
    """A panel as SVG in CSS variables, the same text for the same data; `salt` keeps its ids apart."""
    import matplotlib
    from cycler import cycler
    from matplotlib.figure import Figure

    cycle = cycler(color=[light for light, _ in PALETTE.values()])
    with matplotlib.rc_context({**STYLE, "axes.prop_cycle": cycle, "svg.hashsalt": salt}):
        figure = Figure(figsize=panel.size, layout="constrained")
        panel.draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _themed(buffer.getvalue(), hashlib.sha256(salt.encode()).hexdigest()[:8])


def variables(dark: bool) -> str:
    """The CSS variables of the palette."""
    return " ".join(f"--{name}: {shades[dark]};" for name, shades in PALETTE.items())


def _themed(svg: str, prefix: str) -> str:
    """Colours become CSS variables, ids become the figure's own, and everything that is not picture goes."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    names = {INK: "ink", MUTED: "muted", GRID: "rule", PAPER: "paper"}
    names |= {light: name for name, (light, _) in PALETTE.items()}
    return re.sub(r"#[0-9a-fA-F]{6}\b", lambda match: _variable(match.group(), names), svg)


def _variable(shade: str, names: dict[str, str]) -> str:
    name = names.get(shade.lower())
    return f"var(--{name})" if name else shade


def _slope_words(sizes: Any, values: Any, centre: Literal["median", "mean"]) -> str:
    fitted = slope(sizes, values, centre=centre)
    if len(values) == 1:
        return f"{fitted.value:.2f}".replace("-", "−")
    return f"{fitted.value:.2f} [{fitted.low:.2f}, {fitted.high:.2f}]".replace("-", "−")


def _log_axes(axis: Any, sizes: Any, xlabel: str, ylabel: str) -> None:
    from matplotlib.ticker import NullLocator

    axis.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(visible=False, axis="x")
