"""Panels as PNG files, for pages that show pictures only: the gallery, the README."""

import io
from typing import Any

from haarflow.runs import style
from haarflow.runs.experiment import Panel

SHADES = {style.INK: "#1b1e23", style.MUTED: "#5f6670", style.GRID: "#dfe2e6", style.PAPER: "#ffffff"}
PARTS = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


def still(panel: Panel, *, pixels_per_inch: int = 100) -> bytes:
    """A panel as a PNG in the light colours, on white."""
    import matplotlib
    from matplotlib.figure import Figure

    usual = {name: SHADES.get(value, value) if isinstance(value, str) else value for name, value in style.STYLE.items()}
    with matplotlib.rc_context({**usual, "savefig.facecolor": "#ffffff"}):
        figure = Figure(figsize=panel.size, dpi=pixels_per_inch, layout="constrained")
        panel.draw(figure)
        _paint(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _paint(figure: Any) -> None:
    """Give what was drawn in stand-in colours its shade; how transparent it is stays."""
    from matplotlib.colors import to_hex, to_rgb, to_rgba_array

    for artist in figure.findobj():
        for part in PARTS:
            if not hasattr(artist, f"get_{part}") or not hasattr(artist, f"set_{part}"):
                continue
            colours = to_rgba_array(getattr(artist, f"get_{part}")())
            known = [colour for colour in colours if to_hex(colour) in SHADES]  # rows of the same table
            for colour in known:
                colour[:3] = to_rgb(SHADES[to_hex(colour)])
            if known:
                getattr(artist, f"set_{part}")(colours if len(colours) > 1 else tuple(colours[0]))
