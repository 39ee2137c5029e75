"""Several records of one experiment, seen together: what differs among them, and how their numbers go with it."""

import json
import math
from collections.abc import Sequence
from typing import Any

from haarflow.runs.experiment import Panel
from haarflow.runs.ledger import Record
from haarflow.runs.terminal import number, numbers

SHOWN, NAMED, COLUMNS, FEW = 11, 20, 3, 6  # numbers, lines named, axes in a row, values named


def varied(records: Sequence[Record]) -> list[str]:
    """The settings that tell the records apart, in the order of the config, the seed last; no more than are needed."""
    asked = [settings(record) for record in records]
    found: list[str] = []
    for name in dict.fromkeys(name for one in asked for name in one):
        if _kinds(asked, [*found, name]) > _kinds(asked, found):
            found.append(name)
    return found


def _kinds(asked: list[dict[str, Any]], names: Sequence[str]) -> int:
    """How many different choices of these settings there are."""
    return len({json.dumps([one.get(name) for name in names]) for one in asked})


def settings(record: Record) -> dict[str, Any]:
    """The config, a table inside it as `table.name`, the experiment's version, the seed, and the record's folder."""
    return {**_flat(record.config, ""), "version": record.version, "seed": record.seed, "folder": record.path.name}


def _flat(table: dict[str, Any], above: str) -> dict[str, Any]:
    found = {}
    for name, value in table.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return found


def label(record: Record, names: Sequence[str]) -> str:
    """What tells a record from its siblings: atoms = 5, tau = 0.02, seed = 1."""
    asked = settings(record)
    return ", ".join(f"{name} = {_words(asked.get(name))}" for name in names)


def _words(value: Any) -> str:
    return f"({', '.join(_words(one) for one in value)})" if isinstance(value, list) else number(value)


def order(record: Record, names: Sequence[str]) -> tuple:
    """Where a record stands among its siblings: by its values, numbers by size."""
    asked = settings(record)
    return tuple(_place(asked.get(name)) for name in names)


def _place(value: Any) -> tuple:
    if isinstance(value, list):
        return (2, tuple(_place(one) for one in value))
    plain = isinstance(value, int | float)
    return (0, value) if plain else (1, str(value))


def panel(records: Sequence[Record]) -> Panel:
    """The numbers of the records over the setting that was swept: an axis each, and one for how many claims hold."""
    names = varied(records)
    across = _swept(records, names)
    others = [name for name in names if name not in (across, "seed")]
    shown = [name for name in _named(records) if any(numbers(record).get(name) is not None for record in records)]
    told = {"claims that hold": lambda record: float(sum(record.verdicts.values()))}
    told |= {name: lambda record, name=name: numbers(record).get(name) for name in shown[:SHOWN]}
    rows = -(-len(told) // COLUMNS)
    series = _series(records, others)
    across_the_page = max(1, min(4, 100 // (6 + max(len(name) for name, _ in series))))

    def draw(figure: Any) -> None:
        axes = figure.subplots(rows, min(COLUMNS, len(told)), squeeze=False).ravel()
        for axis, (title, read) in zip(axes, told.items(), strict=False):
            _draw(axis, series, across, read)
            axis.set_title(_broken(title), fontsize=8.5)
        axes[0].set_ylim(-0.05 * _claims(records), 1.05 * _claims(records))
        axes[0].yaxis.get_major_locator().set_params(integer=True)
        for axis in axes[len(told) :]:
            axis.set_visible(False)
        if others and len(series) <= NAMED:
            figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=across_the_page)

    words = _caption(names, across, others, len(shown) - SHOWN)
    height = 0.7 + 2.2 * rows + 0.2 * (min(len(series), NAMED) // across_the_page)
    return Panel(f"The numbers over {across}", words, draw, size=(8.4, height))


def _caption(names: Sequence[str], across: str, others: Sequence[str], left: int) -> str:
    lines = f", a line for each {' and '.join(others)}" if others else ""
    seeds = "seed" in names and across != "seed"
    dots = " Small dots are runs of different seeds, larger marks their means." if seeds else ""
    more = f" {left} more numbers are in the sections below." if left > 0 else ""
    return f"Each number of the records over {across}{lines}.{dots}{more}"


def _swept(records: Sequence[Record], names: Sequence[str]) -> str:
    """The setting to draw along: numbers before words, and of those the one with the most values; the seed last."""

    def worth(name: str) -> tuple[bool, bool, int]:
        values = [settings(record).get(name) for record in records]
        return name != "seed", all(_is_number(value) for value in values), len({json.dumps(value) for value in values})

    return max(names, key=worth)


def _series(records: Sequence[Record], others: Sequence[str]) -> list[tuple[str, list[Record]]]:
    """The records in lines: those that agree in all settings but the swept one and the seed."""
    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: order(record, others)):
        found.setdefault(label(record, others), []).append(record)
    return list(found.items())


def _draw(axis: Any, series: list[tuple[str, list[Record]]], across: str, read: Any) -> None:
    """One number along the swept setting; words and lists stand side by side in their order."""
    from haarflow.runs.style import colour, marker

    asked = {json.dumps(settings(record).get(across)) for _, records in series for record in records}
    values = sorted((json.loads(value) for value in asked), key=_place)
    plain = across != "seed" and all(_is_number(value) for value in values)
    places = {json.dumps(value): value if plain else spot for spot, value in enumerate(values)}
    heights = []
    for turn, (name, records) in enumerate(series):
        points: dict[float, list[float]] = {}
        for record in records:
            if (height := read(record)) is not None:
                points.setdefault(places[json.dumps(settings(record).get(across))], []).append(height)
        look = {"color": colour("", turn), "linestyle": "-" if plain else "none"}
        means = {x: math.fsum(points[x]) / len(points[x]) for x in sorted(points)}
        axis.plot(list(means), list(means.values()), marker=marker("", turn), label=name, **look)
        spread = [(x, height) for x in points for height in points[x] if len(points[x]) > 1]
        if spread:
            axis.plot(*zip(*spread, strict=True), ".", markersize=3, color=look["color"], alpha=0.6)
        heights += [height for column in points.values() for height in column]
    if plain and _wide(values):
        axis.set_xscale("log")
    if _wide(heights):
        axis.set_yscale("log")
    if not plain or len(values) <= FEW:
        labels = [_words(value)[:24] for value in values]
        tilt = {"rotation": 25, "ha": "right"} if sum(map(len, labels)) > 24 else {}
        axis.set_xticks(list(places.values()), labels, **tilt)
        axis.tick_params(axis="x", which="minor", bottom=False)
    axis.set_xlabel(across, fontsize=8.5)


def _wide(values: list[Any]) -> bool:
    """Whether values are better seen by their logarithms."""
    return bool(values) and min(values) > 0 and max(values) > 30 * min(values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in numbers(record)))


def _claims(records: Sequence[Record]) -> int:
    return max(len(record.verdicts) for record in records)


def _broken(title: str) -> str:
    """A title in lines that fit above a small axis."""
    import textwrap

    return "\n".join(textwrap.wrap(title.replace("$", r"\$"), 34)[:3])
