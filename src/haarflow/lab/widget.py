"""A flow to watch in a notebook: the panes and curves of the lab, as an anywidget made of the same modules."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from haarflow.algebra.reps import Rep
from haarflow.doors import Count, Natural, Positive, door
from haarflow.dynamics.fields import Field
from haarflow.dynamics.flow import constant
from haarflow.dynamics.pieces import Pieces
from haarflow.dynamics.schemes import Scheme
from haarflow.errors import Refusal
from haarflow.lab import frames
from haarflow.lab.lab_run import by_player
from haarflow.measures.clouds import Cloud
from haarflow.runs.style import PALETTE

# In the order in which they use each other.
MODULES = ("look", "wire", "camera", "scene", "births", "points", "clouds", "curves", "watch")
KEPT = 400  # clouds that one may go back to
ENTRIES = 8  # of a probe that is an array: a curve for each


@door
def watch(
    field: Field | Mapping[str, Field],
    scheme: Scheme | Mapping[str, Scheme],
    cloud: Cloud | Mapping[str, Cloud | Mapping[str, Cloud]],
    *,
    key: Key[Array, ""],
    dt: Positive,
    steps: Natural = 1000,
    every: Count = 1,
    probes: Mapping[str, Callable | Mapping[str, Callable]] | None = None,
    schedule: Callable = constant,
    rep: Rep | None = None,
    dimensions: Count = 2,
) -> Any:
    """A widget for notebooks that plays a flow: clouds side by side, probes over time, play, pause, and back again.

    It takes what a `flow` of one key takes, probes for some fields only among it, and its numbers are those of that
    flow to the bit; of a probe that is an array, the first eight entries are drawn. With `rep`, how the group moves the
    particles, the fixed space E^G is seen from its side. `widget.watched.clouds` are the clouds of the last step shown.
    Needs the extra `haarflow[lab]`.

        hf.watch(four.fields, four.steppers(1e-6), four.starts(cloud), key=key, dt=0.1, rep=unit.action(on_x, on_y))
    """
    if dimensions > 3:
        raise Refusal(f"A picture has one, two or three dimensions; got {dimensions}. Write dimensions=2.")
    pieces = Pieces(field, scheme, cloud, key=key, dt=dt, probes=probes, schedule=schedule)
    pieces.advance(0)  # compiled now, so that what does not fit is said here and not at the first click
    return _widget()(Watched(pieces, steps=steps, every=every, rep=rep, dimensions=dimensions))


class Watched:
    """The flow behind a widget: its clouds now and before, and what was measured."""

    def __init__(self, pieces: Pieces, *, steps: int, every: int, rep: Rep | None, dimensions: int):
        self.pieces, self.steps, self.every = pieces, steps, every
        self.rows: list[list[Any]] = []
        self.kept: dict[int, dict[str, Any]] = {}
        self.told = 0
        parts = [one for lane in self.clouds.values() for one in by_player(lane).values()]
        sizes = {one.p for one in parts}
        if len(sizes) > 1 or (rep is not None and rep.dim not in sizes):
            raise Refusal(
                f"What is watched side by side lives in one R^p, on which rep acts; got sizes {sorted(sizes)}"
                f"{'' if rep is None else f' and a rep of size {rep.dim}'}. Watch them one by one."
            )
        self.axes = _axes([np.asarray(one.atoms, float) for one in parts], rep, dimensions)
        self._record()

    @property
    def at(self) -> int:
        """The number of steps done."""
        return self.pieces.at

    @property
    def clouds(self) -> dict[str, Any]:
        """The cloud, or the players, of each field."""
        return self.pieces.clouds

    def more(self) -> bool:
        """Another record, unless the end is reached or a field has stopped."""
        if self.at >= self.steps or self.pieces.stopped:
            return False
        self.pieces.advance(min(self.every, self.steps - self.at))
        self._record()
        return True

    def _record(self) -> None:
        found = {lane: dict(_entries(columns)) for lane, columns in self.pieces.measure().items()}
        self.rows.append([self.at, float(self.pieces.time), found])
        if len(self.kept) < KEPT:
            self.kept[self.at] = self.clouds

    def frame(self, step: int | None = None) -> bytes:
        """What a widget draws: the clouds at a step (the last one kept before it), and the rows it has not seen."""
        shown = self.at if step is None else max((kept for kept in self.kept if kept <= step), default=0)
        new, first = self.rows[self.told :], self.told
        self.told = len(self.rows)
        return frames.frame(self, self.axes, shown, new, first=first, stopped=self.pieces.stopped, compiled=0)

    def scene(self) -> dict[str, Any]:
        """What stands still."""
        jumps = frames.jumping(self.pieces)
        return {"axes": self.axes.names, "fixed": self.axes.fixed.tolist(), "teacher": [], "jumps": jumps}


def _entries(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[str, float]]:
    """The real numbers of a row by name; those of an array as a Trajectory's table names them, the first few."""
    for name, value in columns.items():
        if value.dtype.kind != "c":
            for place in islice(np.ndindex(value.shape), ENTRIES):
                yield name + "".join(f"[{i}]" for i in place), float(value[place])


def _axes(parts: list[np.ndarray], rep: Rep | None, dimensions: int) -> frames.Axes:
    atoms = np.concatenate([part[:2000] for part in parts])
    p = atoms.shape[1]
    count = min(dimensions, p)
    if rep is not None:
        fixed = np.asarray(rep.fixed_basis(), float)
        return frames.Axes(*frames.around(atoms, fixed, count), fixed)
    everything = np.eye(p)  # E^G of no group is all of R^p, of which nothing is drawn
    if p <= dimensions:
        return frames.Axes(everything, [f"coordinate {i + 1}" for i in range(p)], everything)
    matrix = frames.principal(atoms, everything)[:, :count]
    return frames.Axes(matrix, [f"principal direction {i + 1}" for i in range(count)], everything)


def joined(names: Sequence[str] = MODULES) -> str:
    """Modules of the page as one, for a widget, which has one only: imports go, and what was exported is at hand."""
    page = files("haarflow.lab") / "page"
    text = "\n".join((page / f"{name}.js").read_text("utf-8") for name in names)
    text = re.sub(r"^import .*;$|^export \{.*\};$", "", text, flags=re.MULTILINE)
    return re.sub(r"^export (?!default)", "", text, flags=re.MULTILINE)


@cache
def _widget() -> type:
    """The class of widgets, made where anywidget is installed."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise Refusal("A flow is watched by anywidget; write: pip install 'haarflow[lab]'.") from None

    class Widget(anywidget.AnyWidget):
        """A flow in a notebook."""

        _esm = joined()
        _css = (files("haarflow.lab") / "page" / "watch.css").read_text("utf-8")
        palette = traitlets.Dict(PALETTE).tag(sync=True)
        scene = traitlets.Dict({}).tag(sync=True)

        def __init__(self, watched: Watched):
            super().__init__(scene=watched.scene())
            self.watched = watched
            self.on_msg(self._heard)

        def _heard(self, _: Any, said: Any, __: Any) -> None:
            do = said.get("do") if isinstance(said, dict) else None
            if do == "more":
                if not self.watched.more():
                    return self.send({"type": "ended"})
                self.send({"type": "frame"}, [self.watched.frame()])
            elif do == "seek" and isinstance(said.get("step"), int):
                self.send({"type": "frame"}, [self.watched.frame(said["step"])])

    return Widget
