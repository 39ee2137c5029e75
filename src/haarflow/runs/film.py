"""Moving pictures of the report: one SVG in the page's own colours, whose marks and lines the page's script moves.

A film is drawn by `Panel.movie`, which prepares a Figure and returns the function that shows one frame. It moves the
data of lines (`set_data`) and the words of texts (`set_text`). The picture that is kept is the last frame; of the other
frames only the places of what moves are kept, to a twentieth of a point. So a film of eight hundred particles takes a
few hundred kilobytes, is sharp at every size, light or dark, and stands still where nobody runs scripts.
"""

import json
import re
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from haarflow.errors import Refusal
from haarflow.runs import style
from haarflow.runs.experiment import Panel

UNIT, NOWHERE = 20, 65535  # places are whole numbers of 1/20 point; this one stands for a point that is not shown


@dataclass(frozen=True)
class Film:
    """The last frame as SVG, and a JSON text: the places of what moves, frame by frame, and the words of each frame."""

    svg: str
    data: str


def film(panel: Panel, salt: str) -> Film:
    """A moving panel for the page; the same text for the same data."""
    found: dict[str, Any] = {}
    svg = style.render(replace(panel, draw=lambda figure: found.update(_filmed(panel, figure))), salt)
    names = {int(order): name for name, order in re.findall(r'id="(\w+-film-(\d+))"', svg)}
    if len(names) != len(found["parts"]):
        raise Refusal(
            "A film moves lines that are shown in its last frame; some of these are not. Draw them there too."
        )
    parts = [{"id": names[order], **part} for order, part in enumerate(found["parts"])]
    data = json.dumps({"words": found["words"], "parts": parts}, ensure_ascii=True)
    return Film(svg, data.replace("<", "\\u003c"))  # so that no word can end the script that holds it


def _filmed(panel: Panel, figure: Any) -> dict[str, Any]:
    """Draw the last frame and name what moves; the places of all frames."""
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    if panel.movie is None:
        raise Refusal(f"A film is a panel with a movie; {panel.title!r} has none. Write `Panel.film(...)`.")
    show, frames = panel.movie(figure), range(panel.frames)
    lines, texts = figure.findobj(Line2D), figure.findobj(Text)
    words = [_after(show, frame, lambda: [text.get_text() for text in texts]) for frame in frames]
    speaking = [order for order in range(len(texts)) if len({said[order] for said in words}) > 1]
    for order in speaking:
        texts[order].set_visible(False)
    show(panel.frames - 1)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # what is in place stays there, whatever moves
    places = [_after(show, frame, lambda: [_places(line) for line in lines]) for frame in frames]
    moving = [order for order in range(len(lines)) if any(not _same(one[order], places[0][order]) for one in places)]
    for name, order in enumerate(moving):
        lines[order].set_gid(f"film-{name}")
    return {
        "words": [", ".join(said[order] for order in speaking) for said in words],
        "parts": [_packed([one[order] for one in places]) for order in moving],
    }


def _after(show: Any, frame: int, look: Any) -> Any:
    """What is seen in one frame."""
    show(frame)
    return look()


def _places(line: Any) -> np.ndarray:
    """The points of a line on the page, in points from its upper left corner: (n, 2)."""
    height, scale = line.figure.bbox.height, 72 / line.figure.dpi
    pixels = line.get_transform().transform(np.asarray(line.get_xydata(), float).reshape(-1, 2))
    return scale * (pixels * (1, -1) + (0, height))


def _same(places: np.ndarray, others: np.ndarray) -> bool:
    return places.shape == others.shape and np.array_equal(places, others, equal_nan=True)


def _packed(places: list[np.ndarray]) -> dict[str, Any]:
    """The points of one line in all frames, as many in each, in base64 of little-endian 16-bit numbers."""
    most = max(len(one) for one in places)
    table = np.full((len(places), most, 2), np.nan)
    for frame, one in enumerate(places):
        table[frame, : len(one)] = one
    shown = np.isfinite(table) & (table >= 0) & (table * UNIT < NOWHERE - 1)
    shown = shown.all(axis=-1, keepdims=True)
    whole = np.where(shown, np.round(np.where(shown, table, 0.0) * UNIT), NOWHERE).astype("<u2")
    return {"points": most, "places": b64encode(whole.tobytes()).decode()}
