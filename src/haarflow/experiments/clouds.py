"""Where the particles go: pictures and a film of the four schemes around the fixed space."""

from typing import ClassVar

import equinox as eqx
import jax
import numpy as np

from haarflow.dynamics.flow import flow
from haarflow.experiments import _published as published
from haarflow.measures.clouds import Cloud
from haarflow.runs.experiment import Count, Experiment, NonNegative, Panel, Positive, above, below
from haarflow.runs.progress import tell

TEACHERS = ("arbitrary", "weak", "strong")
STARTS = {"WI": "weakly invariant start", "SI": "strongly invariant start"}
FILMED = ("arbitrary", "WI")
FRAMES = 30
# Coordinates of Z = R^{2×2}: two along E^G, two across it. The swap of coordinates changes the sign of the last two.
AXES = np.array([(1, 0, 0, 1), (0, 1, 1, 0), (1, 0, 0, -1), (0, 1, -1, 0)]) / np.sqrt(2)
ALONG = ("along E^G, (z11 + z22)/√2", "along E^G, (z12 + z21)/√2")
ACROSS = ("across, (z11 − z22)/√2", "across, (z12 − z21)/√2")


class Clouds(Experiment):
    """Seen around E^G, the particles of EA lie on it, those of DA and FA spread to both sides alike, and those of
    plain training go to one side when the teacher does; from a start on E^G, DA and FA never leave it.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), the particle figures
    of the teacher–student experiment.

    Published parameters: sigmoid(z x) with the swap of coordinates, X ~ N(0, 16 I), loss |y − ŷ|², step 50/N for 20 N
    steps, penalty 1e-4 |z|² (here `Penalty(2e-4)`), temperature 1e-6, batch 20, starts N(0, 1/16), or its projection
    with projected noise. The schemes share start, data and noise. A cloud is called balanced when the squared
    distance of its mean from E^G is below ten times W2²/N, which independent particles spread symmetrically about a
    plane exceed with probability at most about 0.002 (the tail of chi² with one degree of freedom).
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 3.0

    particles: Count = 100
    alpha: Positive = 50.0
    tau: NonNegative = 1e-4
    temperature: NonNegative = 1e-6
    batch: Count = 20
    horizon: Count = 20

    @classmethod
    def full(cls):
        return cls(particles=1000)

    def parts(self):
        return [f"{start} {teacher}" for teacher in TEACHERS for start in STARTS]

    def run(self, key, part):
        start, teacher = part.split()
        n, steps = self.particles, self.horizon * self.particles
        begun = _begin(jax.random.fold_in(key, n), n, start == "SI")
        paths = flow(
            published.fields(published.task(teacher, self.batch, atoms=10), self.tau),
            published.steppers(self.temperature, projected=start == "SI"),
            begun,
            key=key,
            dt=self.alpha / n,
            steps=steps,
            probes={"atoms": lambda cloud: cloud.atoms},
            every=max(1, steps // 400) if (teacher, start) == FILMED else None,
            progress=tell,
        )
        films = np.stack([paths[name].probes["atoms"] for name in published.SCHEMES], 1) @ AXES.T
        found = {"begin": films[0], "end": films[-1]}
        if (teacher, start) == FILMED:
            kept = _spaced(len(films), FRAMES)
            found |= {"film": films[kept], "times": paths["vanilla"].times[kept]}
        return found

    def _numbers(self, data) -> dict[str, np.ndarray]:
        """For each teacher and start, by scheme: W2² to E^G, and N |(I − P) mean|² / W2²."""
        found = {}
        for teacher in TEACHERS:
            for start in STARTS:
                across = data[f"{start} {teacher}/end"][..., 2:]
                off = np.mean(np.sum(across**2, axis=-1), axis=-1)
                mean = np.sum(np.mean(across, axis=1) ** 2, axis=-1)
                found[f"{teacher}, {start} start, W2²"] = off
                found[f"{teacher}, {start} start, lean"] = self.particles * mean / np.maximum(off, 1e-300)
        return found

    def verdict(self, data):
        numbers = self._numbers(data)
        held = max(numbers[f"{teacher}, SI start, W2²"][1:].max() for teacher in TEACHERS)
        restricted = max(numbers[f"{teacher}, WI start, W2²"][3] for teacher in TEACHERS)
        lean = max(numbers[f"{teacher}, WI start, lean"][1:3].max() for teacher in TEACHERS)
        return {
            "from E^G, DA, FA and EA end on E^G, every teacher: W2² below 1e-24": below(held, 1e-24),
            "EA ends on E^G, every teacher: W2² below 1e-24": below(restricted, 1e-24),
            "DA and FA from a WI start are balanced about E^G, every teacher: N |(I − P) mean|² / W2² below 10": below(
                lean, 10.0
            ),
            "plain training leans to the arbitrary teacher's side: N |(I − P) mean|² / W2² above 10": above(
                numbers["arbitrary, WI start, lean"][0], 10.0
            ),
        }

    def figures(self, data):
        return {
            f"{words}, {scheme}": value
            for words, values in self._numbers(data).items()
            for scheme, value in zip(published.SCHEMES, values, strict=True)
            if not (words.endswith("lean") and "SI" in words)
        }

    def panels(self, data):
        return [self._film(data), self._space(data), *(self._sides(data, start) for start in STARTS)]

    def _film(self, data):
        film, times = data["{1} {0}/film".format(*FILMED)], data["{1} {0}/times".format(*FILMED)]
        target = _target(FILMED[0])

        def movie(figure):
            from haarflow.runs.style import colour

            marks, reach = [], 1.1 * np.abs(film).max(axis=(0, 1, 2))
            for place, scheme in enumerate(published.SCHEMES):
                for row in (0, 1):
                    axis = figure.add_subplot(2, 4, 4 * row + place + 1)
                    _plane_from_the_side(axis, reach[row], reach[2 + row])
                    marks.append(axis.plot([], [], ".", color=colour(scheme), markersize=4, alpha=0.7)[0])
                    _teacher(axis, target[:, row], target[:, 2 + row])
                    if row == 0:
                        axis.set_title(scheme)
                    if place == 0:
                        axis.set(xlabel=ALONG[row], ylabel=ACROSS[row])
                    else:
                        axis.tick_params(labelleft=False)
            clock = figure.suptitle("", fontsize=9, x=0.99, ha="right")

            def show(frame: int) -> None:
                for order, mark in enumerate(marks):
                    place, row = divmod(order, 2)
                    mark.set_data(film[frame, place, :, row], film[frame, place, :, 2 + row])
                clock.set_text(f"flow time {times[frame]:,.1f}")

            return show

        caption = (
            f"{self.particles} particles from a weakly invariant start, arbitrary teacher (crosses); E^G is seen "
            "from its side, as the line. Above, the first coordinate along and the first across; below, the second "
            "ones. Frames are spaced evenly in the logarithm of time."
        )
        return Panel.film("The flow around E^G", caption, movie, len(film), size=(9.6, 5.0))

    def _space(self, data):
        teacher, start = FILMED
        begin, end, target = data[f"{start} {teacher}/begin"], data[f"{start} {teacher}/end"], _target(teacher)

        def draw(figure):
            from haarflow.runs.style import INK, MUTED, colour

            reach = 1.05 * np.abs(end[..., :3]).max(axis=(0, 1))
            for row, (when, clouds) in enumerate({"start": begin, "end": end}.items()):
                for place, scheme in enumerate(published.SCHEMES):
                    axis = figure.add_subplot(2, 4, 4 * row + place + 1, projection="3d")
                    flat = np.meshgrid([-reach[0], reach[0]], [-reach[1], reach[1]])
                    axis.plot_surface(*flat, np.zeros((2, 2)), color=MUTED, alpha=0.18, linewidth=0, shade=False)
                    axis.plot(*clouds[place, :, :3].T, ".", color=colour(scheme), markersize=3.5)
                    axis.plot(*target[:, :3].T, "x", color=INK, markersize=5)
                    axis.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]), zlim=(-reach[2], reach[2]))
                    axis.set(xticklabels=[], yticklabels=[], zticklabels=[], title=f"{scheme}, {when}")
                    axis.view_init(elev=16, azim=-62)
                    axis.set_box_aspect((1, 1, 0.9), zoom=1.2)

        caption = (
            "Three of the four coordinates: E^G is the grey plane, the vertical axis is the first coordinate across "
            "it. Arbitrary teacher (crosses), weakly invariant start; EA starts from the projection."
        )
        return Panel("Particles and the plane E^G", caption, draw, size=(9.6, 5.2))

    def _sides(self, data, start: str):
        def draw(figure):
            from haarflow.runs.style import MUTED, colour

            for row, teacher in enumerate(TEACHERS):
                begin, end, target = (
                    data[f"{start} {teacher}/begin"],
                    data[f"{start} {teacher}/end"],
                    _target(teacher),
                )
                reach = 1.1 * np.maximum(np.abs(end).max(axis=(0, 1)), np.abs(target).max(axis=0))
                for place, scheme in enumerate(published.SCHEMES):
                    axis = figure.add_subplot(3, 4, 4 * row + place + 1)
                    _plane_from_the_side(axis, reach[0], reach[2])
                    axis.plot(begin[place, :, 0], begin[place, :, 2], ".", color=MUTED, markersize=2.5, alpha=0.45)
                    axis.plot(end[place, :, 0], end[place, :, 2], ".", color=colour(scheme), markersize=4)
                    _teacher(axis, target[:, 0], target[:, 2])
                    if row == 0:
                        axis.set_title(scheme)
                    if place == 0:
                        axis.set_ylabel(f"{teacher} teacher\n{ACROSS[0]}")
                    else:
                        axis.tick_params(labelleft=False)
                    if row == 2:
                        axis.set_xlabel(ALONG[0])

        caption = (
            f"Start (grey) and end (coloured) of every scheme for every teacher (crosses), from a {STARTS[start]}. "
            "E^G is the line: an invariant cloud is its own mirror image in it."
        )
        return Panel(f"Seen from the side of E^G, {STARTS[start]}", caption, draw, size=(9.6, 6.4))


@eqx.filter_jit
def _begin(key, n: int, strong: bool) -> dict[str, Cloud]:
    return published.starts(key, n, strong=strong)


def _target(teacher: str) -> np.ndarray:
    """The teacher's atoms in coordinates along and across E^G."""
    return np.asarray(published.teacher_cloud(teacher).atoms) @ AXES.T


def _spaced(count: int, frames: int) -> np.ndarray:
    """Indices of about evenly spaced frames in the logarithm of time, first and last included."""
    return np.unique(np.round(np.geomspace(1, count, frames)).astype(int)) - 1


def _plane_from_the_side(axis, along: float, across: float) -> None:
    from haarflow.runs.style import INK

    axis.axhline(0, color=INK, linewidth=0.9)
    axis.set(xlim=(-along, along), ylim=(-across, across))


def _teacher(axis, along, across) -> None:
    from haarflow.runs.style import INK

    axis.plot(along, across, "x", color=INK, markersize=5, markeredgewidth=1.2)
