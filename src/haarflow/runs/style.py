"""One look for every figure: the palette by scheme, and the few drawings that experiments share.

A figure is drawn once, in stand-in colours; the report replaces them by CSS variables, so that the same
picture serves light and dark. Use `INK`, `MUTED`, `GRID`, `PAPER` and `colour(name)`, not your own colours.
"""

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from haarflow.runs.named import Named
from haarflow.runs.statistics import CENTRES, Centre, Fit, slope
from haarflow.runs.typeset import mathtext

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


def colour(series: str | int, order: int = 0) -> str:
    """The colour of a series: that of its place or name in the palette, else that of the scheme its name contains."""
    return PALETTE[_shade(series, order)][0]


def marker(series: str | int, order: int = 0) -> str:
    """The marker of a series, so that colour is never the only difference."""
    return MARKERS[_shade(series, order)]


def _shade(series: str | int, order: int) -> str:
    if isinstance(series, int):
        return list(PALETTE)[series % len(PALETTE)]
    words = series.replace(",", " ").split()
    return next((word for word in words if word in PALETTE), list(PALETTE)[order % len(PALETTE)])


def ramp(series: str | int = "vanilla") -> Any:
    """A colour map from nothing to one colour of the palette, through which the page shines, light or dark."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    shade = to_rgb(colour(series))
    return LinearSegmentedColormap.from_list("ramp", [(*shade, 0.0), (*shade, 1.0)])


def _painted(name: Any, order: int, colours: Sequence[str | int] | None) -> dict[str, str]:
    """Colour and marker of a series: as told by `colours`, a palette name or place for each series, or by its name."""
    series = str(name) if colours is None else colours[order]
    return {"color": colour(series, order), "marker": marker(series, order)}


def series_of(array: Named, *, along: str, by: str | None = None, over: str = "run") -> tuple[Any, dict[str, Any]]:
    """The labels along one axis, and for each label of another the values (repetitions, labels along)."""
    parts = array.each(by) if by else [("", array)]
    ordered = {label: part.transpose(*(dim for dim in (over, along) if dim in part.dims)) for label, part in parts}
    return array.labels(along), {str(label): np.atleast_2d(part.values) for label, part in ordered.items()}


def power_laws(
    axis: Any,
    array: Named,
    *,
    along: str,
    by: str | None = None,
    over: str = "run",
    fits: Mapping[str, Fit] | None = None,
    power: float | int | None = None,
    centre: Centre = "median",
    colours: Sequence[str | int] | None = None,
    xlabel: str = "",
    ylabel: str = "",
) -> None:
    """Centres over repetitions along one axis with a 10-90% band, a line for each label of `by`, on log axes.

    The legend gives the slope and band of each label's fit, those of `fits` or else made here; with `fits={}` none.
    `power` is a slope to compare with, drawn dashed below the lines.
    """
    sizes, series = series_of(array, along=along, by=by, over=over)
    slopes(axis, sizes, series, fits=fits, power=power, centre=centre, colours=colours, xlabel=xlabel, ylabel=ylabel)


def slopes(
    axis: Any,
    sizes: Any,
    series: Mapping[str, Any],
    *,
    fits: Mapping[str, Fit] | None = None,
    power: float | int | None = None,
    centre: Centre = "median",
    colours: Sequence[str | int] | None = None,
    xlabel: str = "",
    ylabel: str = "",
) -> None:
    """`power_laws` of plain arrays, each (repetitions, sizes) or (sizes,); nan stands where nothing was measured."""
    sizes = np.asarray(sizes, float)
    for order, (name, values) in enumerate(series.items()):
        values, look = np.atleast_2d(np.asarray(values, float)), _painted(name, order, colours)
        here = ~np.isnan(values).all(axis=0)
        places, values = sizes[here], values[:, here]
        fit = slope(places, values, centre=centre) if fits is None else fits.get(name)
        if len(values) > 1:
            low, high = np.quantile(values, [0.1, 0.9], axis=0)
            axis.fill_between(places, low, high, color=look["color"], alpha=0.18, linewidth=0)
        label = f"{name}  {fit.words}".strip() if fit else name
        axis.plot(places, CENTRES[centre](values, axis=0), label=label, **look)
    log_axes(axis, sizes, xlabel, ylabel)
    if power is not None:
        edges = [np.quantile(np.atleast_2d(np.asarray(values, float)), 0.1, axis=0) for values in series.values()]
        reference(axis, sizes, power, edges)


def gains(axis: Any, groups: Any, values: Named, order: int, label: str) -> None:
    """The mean of the first group over that of each, with two standard errors."""
    means, errors = values.mean("run").values, values.sem("run").values
    bars = 2 * means[0] / means * np.hypot(errors[0] / means[0], errors / means)
    look = {"color": colour(order), "marker": marker(order), "linestyle": "none", "label": label}
    axis.errorbar(groups, means[0] / means, bars, **look)


def curves(
    axis: Any,
    places: Any,
    series: Mapping[Any, Any],
    *,
    band: Literal["se", "range", "quantile"] | None = None,
    colours: Sequence[str | int] | None = None,
    **options: Any,
) -> None:
    """A line for each series, (places,) or (repetitions, places): then the mean with a band of what repetitions do.

    The band is two standard errors, the whole range, or from 10 to 90%.
    """
    places = np.asarray(places)
    for order, (name, values) in enumerate(series.items()):
        rows = np.atleast_2d(np.asarray(values))
        paint = _painted(name, order, colours)["color"]
        if band and len(rows) > 1:
            axis.fill_between(places, *_edges(rows, band), color=paint, alpha=0.18, linewidth=0)
        axis.plot(places, rows.mean(axis=0), label=str(name), **{"color": paint, **options})


def _edges(rows: Any, band: str) -> tuple[Any, Any]:
    if band == "se":
        middle, error = rows.mean(axis=0), 2 * rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        return middle - error, middle + error
    share = 0.0 if band == "range" else 0.1
    low, high = np.quantile(rows, [share, 1 - share], axis=0)
    return low, high


def boxes(
    axis: Any,
    sizes: Any,
    series: Mapping[str, Any],
    *,
    xlabel: str = "",
    ylabel: str = "",
    colours: Sequence[str | int] | None = None,
) -> None:
    """Box plots over sizes on log axes, side by side by series; each value is (repetitions, sizes).

    Of a named array: `boxes(axis, *series_of(array, along="n", by="scheme"))`.
    """
    sizes = np.asarray(sizes, float)
    gap = np.log(np.sort(sizes)[1:] / np.sort(sizes)[:-1]).min() if len(sizes) > 1 else 1.0
    slot = 0.75 * gap / max(len(series), 1)
    for order, (name, values) in enumerate(series.items()):
        places = sizes * np.exp((order - (len(series) - 1) / 2) * slot)
        paint = _painted(name, order, colours)["color"]
        _boxes(axis, values, places, places * (np.exp(0.4 * slot) - np.exp(-0.4 * slot)), paint)
        axis.plot([], [], "s", color=paint, label=name)
    log_axes(axis, sizes, xlabel, ylabel)


def named_boxes(axis: Any, series: Mapping[str, Any], *, ylabel: str = "") -> None:
    """A box plot for each series, (repetitions,), side by side and named below, on a logarithmic scale."""
    for order, (name, values) in enumerate(series.items()):
        _boxes(axis, np.asarray(values)[:, None], [order], [0.5], _painted(name, order, None)["color"])
    axis.set(yscale="log", ylabel=ylabel)
    axis.set_xticks(range(len(series)), list(series))
    axis.grid(visible=False, axis="x")


def _boxes(axis: Any, values: Any, places: Any, widths: Any, paint: str) -> None:
    line = {"color": paint, "linewidth": 1.0}
    axis.boxplot(
        np.asarray(values),
        positions=places,
        widths=widths,
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": paint, "alpha": 0.35, "edgecolor": paint, "linewidth": 1.0},
        medianprops={"color": paint, "linewidth": 1.8},
        whiskerprops=line,
        capprops=line,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": paint, "markerfacecolor": paint},
    )


def reference(
    axis: Any,
    sizes: Any,
    power: float | int,
    lines: Any,
    *,
    side: Literal["below", "above"] = "below",
    gap: float = 0.6,
    label: str | None = None,
) -> None:
    """A dashed line of the given slope that lies beside `lines`, (k, sizes) or (sizes,), its slope written at its end.

    It comes as near as the share `gap` to one of them and touches none; a number in their place is where it begins.
    """
    sizes, begin = np.asarray(sizes, float), np.asarray(lines, float)
    shape = (sizes / sizes.min()) ** power
    if begin.ndim:
        begin = np.nanmin(begin / shape) * gap if side == "below" else np.nanmax(begin / shape) / gap
    order = np.argsort(sizes)
    ends, line = sizes[order], begin * shape[order]
    axis.plot(ends, line, linestyle=DASHED, color=MUTED, linewidth=1.0)
    words = label if label is not None else f"slope {power:g}".replace("-", "−")
    place = {"xytext": (4, 0), "textcoords": "offset points", "ha": "left", "va": "center", "annotation_clip": False}
    axis.annotate(words, (ends[-1], line[-1]), fontsize=8, color=MUTED, **place)


def uniform_quantiles(axis: Any, series: Mapping[str, Any]) -> None:
    """Sorted p-values against the quantiles of the uniform law, on log axes, with the 99% band of each point.

    Each value of `series` has as many p-values as the first.
    """
    from scipy.stats import beta

    m = len(next(iter(series.values())))
    places = np.arange(1, m + 1)
    expected = (places - 0.5) / m
    for order, (name, p_values) in enumerate(series.items()):
        look = {"color": colour(order), "marker": marker(order), "markersize": 3, "linestyle": "none"}
        axis.plot(expected, np.sort(np.asarray(p_values)), label=f"{name}, {m} runs", **look)
    low, high = (beta.ppf(level, places, m + 1 - places) for level in (0.005, 0.995))
    axis.fill_between(expected, low, high, color=MUTED, alpha=0.18, linewidth=0, label="99% band, each point")
    axis.plot(expected[[0, -1]], expected[[0, -1]], color=INK, linewidth=1.0)
    axis.set(xscale="log", yscale="log", xlabel="uniform quantile", ylabel="p-value, sorted")


def failures(axis: Any, names: Any, series: Mapping[str, Any], bound: float) -> None:
    """How far statements are from true: a row for each name, a mark for each series, the bound and rounding as lines.

    Each value of `series` has a number for every name.
    """
    rows, eps = np.arange(len(names))[::-1], float(np.finfo(float).eps)
    for order, (name, values) in enumerate(series.items()):
        shift = 0.6 * (order / max(len(series) - 1, 1) - 0.5)
        style = {"color": colour(order), "marker": marker(order)}
        axis.plot(np.maximum(np.asarray(values), 1e-18), rows - shift, linestyle="none", label=mathtext(name), **style)
    axis.axvline(bound, color=INK, linewidth=1.2)
    axis.axvline(eps, color=MUTED, linewidth=0.9, linestyle=DASHED)
    for words, place, shade in (("bound", bound, INK), ("rounding", eps, MUTED)):
        axis.text(place, 1.01, words, transform=axis.get_xaxis_transform(), color=shade, fontsize=8, ha="center")
    axis.set(xscale="log", xlim=(5e-19, None), ylim=(-0.7, rows[0] + 0.6), yticks=rows)
    axis.set_yticklabels([mathtext(str(name)) for name in names])
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


def legend_above(axis: Any, **options: Any) -> None:
    """One legend for all axes of the figure, in a row above them, of what this one shows."""
    handles, labels = axis.get_legend_handles_labels()
    axis.figure.legend(handles, labels, **{"loc": "outside upper left", "ncols": len(labels), **options})


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


def log_axes(axis: Any, sizes: Any, xlabel: str = "", ylabel: str = "") -> None:
    """Logarithmic axes, with a tick at each of the sizes and nowhere else on the horizontal one."""
    from matplotlib.ticker import NullLocator

    axis.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(visible=False, axis="x")
