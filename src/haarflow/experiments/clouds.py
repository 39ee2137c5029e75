"""Where the particles go: pictures and a film of the four schemes around the fixed space."""

from typing import ClassVar

import equinox as eqx
import jax
import numpy as np

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.practice.compare import SCHEMES
from haarflow.runs.experiment import Experiment, above, below, film, named, once, over, panel, tell
from haarflow.runs.sizes import Count, NonNegative, Positive
from haarflow.runs.style import INK, MUTED, colour

TEACHERS = ("arbitrary", "weak", "strong")
STARTS = ("WI", "SI")
FRAMES = 30
# Coordinates of Z = R^{2×2}: two along E^G, two across it. The swap of coordinates changes the sign of the last two.
AXES = np.array([(1, 0, 0, 1), (0, 1, 1, 0), (1, 0, 0, -1), (0, 1, -1, 0)]) / np.sqrt(2)
ACROSS = ("across 1", "across 2")
COORDINATES = ("along 1", "along 2", *ACROSS)
WORDS = (r"$(z_{11} + z_{22})/\sqrt{2}$", r"$(z_{12} + z_{21})/\sqrt{2}$")
SIDES = (r"across: $(z_{11} - z_{22})/\sqrt{2}$", r"across: $(z_{12} - z_{21})/\sqrt{2}$")


class Clouds(Experiment):
    """Seen around E^G, the particles of EA lie on it, those of DA and FA spread to both sides alike, and those of
    plain training go to one side when the teacher does; from a start on E^G, DA and FA never leave it.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), the particle figures
    of the teacher–student experiment.

    Published parameters: sigmoid(z x) with the swap of coordinates, X ~ N(0, 16 I), loss |y − ŷ|², step 50/n for 20 n
    steps, penalty 1e-4 |z|² (here `Penalty(2e-4)`), temperature 1e-6, batch 20, starts N(0, 1/16), or its projection
    with projected noise. The schemes share start, data and noise. A cloud is called balanced when the squared
    distance of its mean from E^G is below ten times W2²/n, which independent particles spread symmetrically about a
    plane exceed with probability at most about 0.002 (the tail of chi² with one degree of freedom).
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 4.0

    particles: Count = 100  # particles n of each cloud
    alpha: Positive = 50.0  # step size times n
    tau: NonNegative = 1e-4
    temperature: NonNegative = 1e-6
    batch: Count = 20
    horizon: Count = 20

    @classmethod
    def full(cls):
        return cls(particles=1000)

    def design(self):
        yield self.ends, over(teacher=TEACHERS, start=STARTS)
        yield self.filmed, once()

    def ends(self, key, teacher, start):
        """Where the particles of each scheme start and end."""
        clouds, _ = self._train(key, teacher, start)
        axes = ("scheme", "particle", "coordinate")
        labels = {"scheme": SCHEMES, "coordinate": COORDINATES}
        return {"begin": named(clouds[0], *axes, **labels), "end": named(clouds[-1], *axes, **labels)}

    def filmed(self, key):
        """The arbitrary teacher from a weakly invariant start, at times evenly spaced in their logarithm."""
        clouds, times = self._train(key, "arbitrary", "WI", every=max(1, self.horizon * self.particles // 400))
        kept = np.unique(np.round(np.geomspace(1, len(clouds), FRAMES)).astype(int)) - 1
        shown = named(clouds[kept], "time", "scheme", "particle", "coordinate", scheme=SCHEMES, coordinate=COORDINATES)
        return {"film": shown, "times": named(times[kept], "time")}

    def _train(self, key, teacher, start, every=None):
        """The atoms (times, schemes, n, 4) in coordinates along and across E^G, and the times."""
        n, strong = self.particles, start == "SI"
        begun = eqx.filter_jit(published.starts)(jax.random.fold_in(key, n), n, strong=strong)
        four = published.four(published.task(teacher, self.batch, atoms=10), self.tau)
        schemes = four.steppers(self.temperature, projected=strong)
        seen = {"probes": {"atoms": published.atoms}, "every": every, "progress": tell}
        paths = flow(four.fields, schemes, begun, key=key, dt=self.alpha / n, steps=self.horizon * n, **seen)
        return np.stack([paths[name].probes["atoms"] for name in SCHEMES], 1) @ AXES.T, paths["vanilla"].times

    def _off(self, data):
        """W2² to E^G and n |(I − P) mean|² / W2², by teacher, start and scheme."""
        across = data.end.sel(coordinate=ACROSS)
        off = (across**2).sum("coordinate").mean("particle")
        mean = (across.mean("particle") ** 2).sum("coordinate")
        return off, self.particles * mean / np.maximum(off, 1e-300)

    def claims(self, data):
        off, lean = self._off(data)
        held = off.sel(start="SI", scheme=("DA", "FA", "EA")).max()
        yield below("from E^G, DA, FA and EA end on E^G, every teacher: W2²", held, 1e-24)
        yield below("EA ends on E^G, every teacher: W2²", off.sel(start="WI", scheme="EA").max(), 1e-24)
        most = lean.sel(start="WI", scheme=("DA", "FA")).max()
        yield below("DA and FA from a WI start are balanced about E^G: n |(I − P) mean|² / W2²", most, 10.0)
        plain = lean.sel(teacher="arbitrary", start="WI", scheme="vanilla")
        yield above("plain training leans to the arbitrary teacher's side: n |(I − P) mean|² / W2²", plain, 10.0)

    def numbers(self, data):
        off, lean = self._off(data)
        found = {f"{at[0]}, {at[1]} start, W2², {at[2]}": value for at, value in off.each("teacher", "start", "scheme")}
        leans = lean.sel(start="WI").each("teacher", "scheme")
        return found | {f"{teacher}, WI start, lean, {scheme}": value for (teacher, scheme), value in leans}

    @film(
        "The flow around E^G",
        "{particles} particles from a weakly invariant start, arbitrary teacher (crosses); E^G is seen from its side, "
        "as the line. Above, the first coordinate along E^G and the first across; below, the second ones. Frames are "
        "spaced evenly in the logarithm of time.",
        frames=lambda data: len(data.film),
        size=(9.6, 5.0),
    )
    def around(self, figure, data):
        reach, moves = 1.1 * np.abs(data.film.values).max(axis=(0, 1, 2)), []
        for place, (scheme, clouds) in enumerate(data.film.each("scheme")):
            for row in (0, 1):
                axis = figure.add_subplot(2, 4, 4 * row + place + 1)
                _from_the_side(axis, "arbitrary", reach, row)
                dots = axis.plot([], [], ".", color=colour(scheme), markersize=4, alpha=0.7)[0]
                moves.append((dots, clouds.values[..., [row, 2 + row]]))
                axis.set(xlabel=WORDS[row], title="" if row else scheme)
                axis.tick_params(labelleft=place == 0)
                if place == 0:
                    axis.set_ylabel(SIDES[row])
        clock = figure.suptitle("", fontsize=9, x=0.99, ha="right")

        def show(frame: int) -> None:
            for dots, places in moves:
                dots.set_data(*places[frame].T)
            clock.set_text(f"flow time {data.times[frame]:,.1f}")

        return show

    @panel(
        "Particles and the plane E^G",
        "Three of the four coordinates: E^G is the grey plane, the vertical axis is the first coordinate across it. "
        "Arbitrary teacher (crosses), weakly invariant start; EA starts from the projection.",
        rows=("start", "end"),
        columns=SCHEMES,
        size=(9.6, 4.4),
        subplot_kw={"projection": "3d"},
    )
    def space(self, axis, data, when, scheme):
        shown = (data.begin if when == "start" else data.end).sel(teacher="arbitrary", start="WI")
        x, y, z = 1.05 * np.abs(data.end.sel(teacher="arbitrary", start="WI").values).max(axis=(0, 1))[:3]
        flat = np.meshgrid([-x, x], [-y, y])
        axis.plot_surface(*flat, np.zeros((2, 2)), color=MUTED, alpha=0.35, linewidth=0, shade=False)
        axis.plot(*shown.sel(scheme=scheme).values[:, :3].T, ".", color=colour(scheme), markersize=3.5)
        axis.plot(*_target("arbitrary")[:, :3].T, "x", color=INK, markersize=5)
        axis.set(xlim=(-x, x), ylim=(-y, y), zlim=(-z, z), xticklabels=[], yticklabels=[], zticklabels=[])
        axis.set_title(scheme if when == "start" else "", loc="center")
        if scheme == SCHEMES[0]:
            axis.text2D(-0.08, 0.5, when, transform=axis.transAxes, rotation=90, va="center")
        axis.view_init(elev=16, azim=-62)
        axis.set_box_aspect((1, 1, 0.9), zoom=1.35)

    @panel(
        "Seen from the side of E^G, weakly invariant start",
        "Start (grey) and end (coloured) of every scheme for every teacher (crosses), from a weakly invariant start. "
        "E^G is the line: an invariant cloud is its own mirror image in it. Scales differ by row.",
        rows=TEACHERS,
        columns=SCHEMES,
        size=(9.6, 6.4),
    )
    def sides_from_weak(self, axis, data, teacher, scheme):
        self._side(axis, data, "WI", teacher, scheme)

    @panel(
        "Seen from the side of E^G, strongly invariant start",
        "Start (grey) and end (coloured) of every scheme for every teacher (crosses), from a strongly invariant start: "
        "on E^G, the line. Scales differ by row.",
        rows=TEACHERS,
        columns=SCHEMES,
        size=(9.6, 6.4),
    )
    def sides_from_strong(self, axis, data, teacher, scheme):
        self._side(axis, data, "SI", teacher, scheme)

    def _side(self, axis, data, start, teacher, scheme):
        begin, end = (array.sel(start=start, teacher=teacher) for array in (data.begin, data.end))
        reach = 1.1 * np.maximum(np.abs(end.values).max(axis=(0, 1)), np.abs(_target(teacher)).max(axis=0))
        for clouds, look in (
            (begin, {"color": MUTED, "markersize": 2.5, "alpha": 0.7}),
            (end, {"color": colour(scheme), "markersize": 4}),
        ):
            axis.plot(*clouds.sel(scheme=scheme, coordinate=("along 1", "across 1")).values.T, ".", **look)
        _from_the_side(axis, teacher, reach, 0)
        axis.set_title(scheme if teacher == TEACHERS[0] else "")
        axis.tick_params(labelleft=scheme == SCHEMES[0])
        if scheme == SCHEMES[0]:
            axis.set_ylabel(f"{teacher} teacher\n{SIDES[0]}")
        if teacher == TEACHERS[-1]:
            axis.set_xlabel(WORDS[0])


def _target(teacher: str) -> np.ndarray:
    """The teacher's atoms in coordinates along and across E^G."""
    return np.asarray(published.teacher_cloud(teacher).atoms) @ AXES.T


def _from_the_side(axis, teacher: str, reach: np.ndarray, row: int) -> None:
    """E^G as a line and the teacher's atoms as crosses, in the coordinates row (along) and 2 + row (across)."""
    axis.axhline(0, color=INK, linewidth=0.9)
    axis.plot(*_target(teacher)[:, [row, 2 + row]].T, "x", color=INK, markersize=5, markeredgewidth=1.2)
    axis.set(xlim=(-reach[row], reach[row]), ylim=(-reach[2 + row], reach[2 + row]))
