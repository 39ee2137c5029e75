"""How near SGD with M particles and step s is to the mean-field limit: like M^{−1/2} and s^{1/2}, whatever the time."""

from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.oracles import (
    QuadraticRisk,
    quadratic_descent,
    quadratic_flow,
    quadratic_map,
    quadratic_norm,
    quadratic_sampling,
)
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Stream
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.units import Quadratic
from haarflow.runs.experiment import Count, Experiment, Horizon, Panel, Positive, Step, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import Slope, slope

Sizes = Annotated[tuple[Count, ...], Field(min_length=2)]
Steps = Annotated[tuple[Step, ...], Field(min_length=2)]

D = 4
TARGET, START = np.diag([1.0, 0.5, 0.25, 0.0]), np.eye(D) / 4
SHOWN = (20, 200, 2000)  # widths of the picture of the law of large numbers
LOOKS = 40  # the times at which distances are taken are the same for every step: more looks would see larger ones
DRAWN = 80  # particles of the picture of the square
WIDTH = {"risk": "sup |R_M − R|", "network": "sup ‖f_M − f‖"}
STEP = {"one-pass": "one-pass", "multi-pass": "multi-pass", "both": "one-pass, M = ratio / s"}


class Propagation(Experiment):
    """SGD with M particles and step s stays within a constant times M^{−1/2} + s^{1/2} of the mean-field limit, over
    the whole time of training, in one pass over fresh data and in many passes over a sample; and to sample particles
    and then flow is, up to M^{−1/2}, to flow and then sample.

    Source: lecture 7 on mean-field networks (law of large numbers, approximation error of SGD, propagation of chaos).

    Quadratic units `<w, x>²` in R^4, x ~ N(0, I), target xᵀS*x with S* = diag(1, .5, .25, 0), starts w ~ N(0, I/4): SGD
    moves the matrix `S = mean w wᵀ` by a recursion of its own at every width, so M particles are a Wishart matrix,
    infinitely many are S itself, and the limit is an equation that is solved to 1e-7. Particles in training are seen to
    follow the recursion by the tests, and are drawn in the first picture.

    The bounds of the lecture are upper bounds; what is measured is the mean over repetitions of the largest distance in
    time, `sup |R_M − R|` and `sup ‖f_M − f‖` in L2, whose exponents are sharp by the central limit theorem: the
    fluctuation is of first order, and R has a slope along the way (the mean of R_M − R itself is of second order, 1/M).
    In M, descent follows the exact field; in s, infinitely many particles follow batches, and many passes are compared
    with the limit over the same sample; with M = ratio / s both errors are present and balanced.

    Sampling after the flow: the law at time t is N(0, S_t), M draws from it deviate by the Monte-Carlo level; sampling
    before: the same draws moved by their own field. Coupled by their start, particle by particle, the two clouds are
    M^{−1/2} apart in the mean square.

    The field `fault` plants a mistake on purpose: `square loss` moves particles by the loss without its half, at twice
    the speed of the limit; `wide start` draws the particles with 1.2 times the variance of the law.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 12.0

    widths: Sizes = (100, 200, 400, 800, 1600)
    steps: Steps = (0.00025, 0.0005, 0.001, 0.002)
    repetitions: Count = 400
    passes: Count = 800
    batch: Count = 4
    sample: Count = 100
    ratio: Positive = 0.2
    horizon: Horizon = 0.8
    fault: Literal["none", "square loss", "wide start"] = "none"

    @classmethod
    def full(cls):
        return cls(widths=(100, 200, 400, 800, 1600, 3200, 6400), repetitions=4000, passes=8000)

    def parts(self):
        return ["descents", "width", "particles"]

    def run(self, key, part):
        return {"descents": self.descents, "width": self.width, "particles": self.particles}[part](key)

    @property
    def speed(self) -> float:
        """How fast the particles' clock runs."""
        return 2.0 if self.fault == "square loss" else 1.0

    def starts(self, draw: np.random.Generator, m: int, runs: int) -> np.ndarray:
        """Second moments (runs, d, d) of m draws from the start."""
        from scipy.stats import wishart

        spread = 1.2 if self.fault == "wide start" else 1.0
        return np.asarray(wishart(m, spread * START / m, seed=draw).rvs(runs))

    def width(self, key) -> dict[str, np.ndarray]:
        """Distances (repetitions, widths), their mean squares over time, and the square of sampling and flow."""
        draw, times = generator(key), np.linspace(0, self.horizon, LOOKS + 1)
        ways = np.asarray(_map(jnp.asarray(START)[None], jnp.asarray(self.speed * times))[0])
        law = ways @ START @ ways.transpose(0, 2, 1)
        rows = []
        for place, m in enumerate(self.widths):
            starts = self.starts(draw, m, self.repetitions)
            found = _distances(jnp.asarray(starts), jnp.asarray(ways), jnp.asarray(times))
            fresh = self.starts(draw, m, self.repetitions) * 4
            roots = np.linalg.cholesky(law)
            found["fresh"] = np.sqrt(_norms(roots @ (fresh[:, None] - np.eye(D)) @ roots.transpose(0, 2, 1)).max(1))
            rows.append({name: np.asarray(row) for name, row in found.items()})
            tell((place + 1) / len(self.widths))
        data = {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
        level = np.asarray(quadratic_sampling(jnp.asarray(law)))
        return data | {"times": times, "level": level} | self._square(draw, ways[-1])

    def _square(self, draw: np.random.Generator, way: np.ndarray) -> dict[str, np.ndarray]:
        """A few particles at the start, flowed by their own field, and flowed by the limit."""
        atoms = draw.normal(size=(DRAWN, D)) / 2
        own = np.asarray(_map(jnp.asarray(atoms.T @ atoms / DRAWN)[None], jnp.asarray([0.0, self.horizon]))[0])[-1]
        return {"drawn": atoms, "flowed": atoms @ own.T, "sampled": atoms @ way.T, "way": way}

    def descents(self, key) -> dict[str, np.ndarray]:
        """Distances (repetitions, steps) of every way of SGD from its limit, in risk and in L2."""
        draw, times = generator(jax.random.fold_in(key, 1)), jnp.asarray(self.horizon / LOOKS * np.arange(LOOKS + 1))
        sample, begun, goal = draw.normal(size=(self.sample, D)), jnp.asarray(START), jnp.asarray(TARGET)
        law = quadratic_flow(begun, goal, times=times)
        seen = quadratic_flow(begun, goal, times=times, inputs=jnp.asarray(sample))
        found = {"cost": np.asarray(np.sqrt(_norms(np.asarray(seen - law)).max()))}
        for place, name in enumerate(STEP):
            given, limit = (sample, seen) if name == "multi-pass" else (None, law)
            rows = [self._descent(draw, name, step, given, limit) for step in self.steps]
            found |= {f"{name}/{measure}": np.stack([row[measure] for row in rows], axis=1) for measure in rows[0]}
            tell((place + 1) / len(STEP))
        return found

    def _descent(self, draw, name: str, step: float, sample: np.ndarray | None, limit) -> dict[str, np.ndarray]:
        """The largest distances in time of runs with one step, a hundred at a time."""
        between, runs, pieces = max(1, round(self.horizon / LOOKS / step)), 100, []
        for _ in range(-(-self.passes // runs)):
            shape = (runs, LOOKS * between, self.batch)
            inputs = draw.normal(size=(*shape, D)) if sample is None else sample[draw.integers(self.sample, size=shape)]
            starts = np.broadcast_to(START, (runs, D, D))
            if name == "both":
                starts = self.starts(draw, round(self.ratio / step), runs)
            given, move = None if sample is None else jnp.asarray(sample), jnp.asarray(self.speed * step)
            pieces.append(_descended(jnp.asarray(starts), jnp.asarray(inputs), move, limit, given))
        return {
            name: np.concatenate([np.asarray(piece[name]) for piece in pieces])[: self.passes] for name in pieces[0]
        }

    def particles(self, key) -> dict[str, np.ndarray]:
        """The risk of particles in one-pass SGD, five runs of each width in the same noise, and of the limit."""
        draw, runs, step = generator(key), 5, max(self.steps)
        clouds = {f"M = {m}": uniform(draw.normal(size=(runs, m, D)) / 2) for m in SHOWN}
        field = Descend(Risk(Quadratic(D), Stream(labelled, 16)))
        paths = flow(
            dict.fromkeys(clouds, field),
            Euler(),
            clouds,
            key=jax.random.split(key, runs),
            dt=step,
            steps=round(self.horizon / step),
            probes={"risk": QuadraticRisk(TARGET)},
            every=4,
        )
        times = next(iter(paths.values())).times[0]
        limit = quadratic_flow(jnp.asarray(START), jnp.asarray(TARGET), times=jnp.asarray(times))
        found = {name: path.probes["risk"] for name, path in paths.items()}
        return found | {"times": times, "limit": _norms(np.asarray(limit) - TARGET) / 2}

    def slopes(self, data) -> dict[str, Slope]:
        """Every slope with its band."""
        found = {f"{words}, in M": slope(self.widths, data[f"width/{n}"], centre="mean") for n, words in WIDTH.items()}
        for name, words in STEP.items():
            for measure, what in (("risk", "sup |R_s − R|"), ("network", "sup ‖f_s − f‖")):
                found[f"{words}: {what}, in s"] = slope(self.steps, data[f"descents/{name}/{measure}"], centre="mean")
        found["sample, then flow against flow, then sample, in M"] = slope(
            self.widths, data["width/coupled"], centre="mean"
        )
        found["flow, then sample: sup ‖f_M − f‖, in M"] = slope(self.widths, data["width/fresh"], centre="mean")
        return found

    def excess(self, data) -> float:
        """The largest mean square of sampling before the flow, less four standard errors, over that of after."""
        squares = data["width/squares"]
        error = squares.std(0, ddof=1) / np.sqrt(len(squares))
        stated = data["width/level"][None, :] / np.array(self.widths)[:, None]
        return float(((squares.mean(0) - 4 * error) / stated).max())

    def verdict(self, data):
        claims = {}
        for name, found in self.slopes(data).items():
            low = -0.55 if name.endswith("M") else 0.45
            bounds = f"between {low:g} and {low + 0.1:g}".replace("-", "−")
            claims[f"{name}: slope {bounds}"] = between(found.value, low, low + 0.1)
        return claims | {
            "sample, then flow deviates at no time more than flow, then sample, four standard errors": below(
                self.excess(data), 1.0
            )
        }

    def figures(self, data):
        numbers = {}
        for name, found in self.slopes(data).items():
            numbers |= {f"{name}: low": found.low, f"{name}: slope": found.value, f"{name}: high": found.high}
        return numbers | {
            f"distance of the limit over {self.sample} samples from that over all data": data["descents/cost"],
            "sample, then flow over flow, then sample: mean squares at the end": (
                data["width/squares"][..., -1].mean(0) * np.array(self.widths) / data["width/level"][-1]
            ).mean(),
        }

    def panels(self, data):
        return [self._numbers_panel(data), self._step_panel(data), self._square_panel(data)]

    def _numbers_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour, reference, slopes

            left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
            for order, m in enumerate(SHOWN):
                curves = data[f"particles/M = {m}"]
                for run, curve in enumerate(curves):
                    name = f"M = {m}" if run == 0 else None
                    left.plot(data["particles/times"], curve, color=colour("", order), linewidth=1.0, label=name)
            left.plot(data["particles/times"], data["particles/limit"], color=INK, linewidth=2.6, label="limit")
            left.set(yscale="log", xlabel="time t", ylabel="risk")
            left.legend(loc="lower left")
            series = {words: data[f"width/{name}"] for name, words in WIDTH.items()}
            slopes(right, self.widths, series, xlabel="particles M", ylabel="largest distance in time", centre="mean")
            reference(right, self.widths, -0.5, float(data["width/risk"].mean(0)[0] / 2.2))
            right.legend(title="slope [95% band]", loc="upper right")

        caption = (
            "Left: one-pass SGD with M particles, five runs each, closes in on the mean-field limit. Right: the "
            f"largest distance in time, mean and 10–90% band of {self.repetitions} draws of the particles, falls like "
            "one over the root of M."
        )
        return Panel("Many particles forget their draw", caption, draw, size=(10.2, 4.2))

    def _step_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import reference, slopes

            axes = figure.subplots(1, 2, sharey=True)
            for axis, (measure, title) in zip(
                axes, (("risk", "risk: sup |R − limit|"), ("network", "network: sup ‖f − limit‖")), strict=True
            ):
                labels = {**STEP, "both": f"one-pass, M = {self.ratio:g} / s"}
                series = {words: data[f"descents/{name}/{measure}"] for name, words in labels.items()}
                slopes(axis, self.steps, series, xlabel="step s", centre="mean")
                reference(axis, self.steps, 0.5, float(data[f"descents/multi-pass/{measure}"].mean(0)[0] / 3))
                axis.set_title(title)
                axis.legend(title="slope [95% band]", loc="upper left")
            axes[0].set(ylabel="largest distance in time")
            axes[0].set_ylim(None, 6 * float(data["descents/both/network"].mean(0).max()))

        caption = (
            f"SGD on batches of {self.batch}, mean and 10–90% band of {self.passes} runs. In one pass over fresh data "
            f"or in many over {self.sample} samples (against the limit over the same samples), the distance grows like "
            f"the root of the step; with M = {self.ratio:g} / s particles both errors fall together."
        )
        return Panel("Small steps forget their data", caption, draw, size=(10.2, 4.4))

    def _square_panel(self, data):
        def draw(figure):
            left, right = figure.subfigures(1, 2, width_ratios=(1.25, 1))
            self._draw_square(left, data)
            self._draw_distances(right.add_subplot(), data)

        caption = (
            f"Left: {DRAWN} particles (first two of four coordinates) over the law's ellipses. Down and then right "
            "they are moved by their own field (dots), right and then down by the field of the limit (rings): the same "
            "up to the root of 1/M. Right: the distance of the two corners, particle by particle, and the distance of "
            "each from the limit."
        )
        return Panel("Dynamics and sampling commute", caption, draw, size=(10.8, 4.8))

    def _draw_square(self, figure, data):
        from haarflow.runs.style import INK, MUTED, colour

        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        way, corners = data["width/way"], ((0, 0), (0, 1), (1, 0), (1, 1))
        covariances = {0: START, 1: way @ START @ way.T}
        clouds = {(1, 0): ("width/drawn", 0), (1, 1): ("width/flowed", 0)}
        titles = ("law at the start", f"law at t = {self.horizon:g}", f"{DRAWN} draws", "both ways")
        for corner, title in zip(corners, titles, strict=True):
            axis = axes[corner]
            for radius in (1.0, 2.0):
                axis.plot(*_ellipse(covariances[corner[1]][:2, :2], radius), color=MUTED, linewidth=1.0)
            if corner == (1, 1):
                axis.plot(*data["width/sampled"][:, :2].T, "o", color=colour("", 1), markersize=6, fillstyle="none")
            if corner in clouds:
                name, order = clouds[corner]
                axis.plot(*data[name][:, :2].T, "o", color=colour("", order), markersize=2.6)
            axis.set_title(title)
            axis.set(aspect="equal", xticks=[], yticks=[])
            axis.grid(visible=False)
        for axis, start, end, words in (
            (axes[0, 0], (1.0, 0.5), (1.22, 0.5), "flow"),
            (axes[1, 0], (1.0, 0.5), (1.22, 0.5), "flow"),
            (axes[0, 0], (0.88, 0.04), (0.88, -0.24), "sample"),
            (axes[0, 1], (0.88, 0.04), (0.88, -0.24), "sample"),
        ):
            axis.annotate(
                "",
                end,
                start,
                xycoords="axes fraction",
                textcoords="axes fraction",
                annotation_clip=False,
                arrowprops={"arrowstyle": "->", "color": INK},
            )
            place = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            shift = (0, 4) if words == "flow" else (-5, 0)
            axis.annotate(
                words,
                place,
                shift,
                xycoords="axes fraction",
                textcoords="offset points",
                ha="center" if words == "flow" else "right",
                fontsize=8,
            )

    def _draw_distances(self, axis, data):
        from haarflow.runs.style import reference, slopes

        series = {
            "flow, then sample": data["width/fresh"],
            "sample, then flow": data["width/network"],
            "between the two": data["width/coupled"],
        }
        slopes(axis, self.widths, series, xlabel="particles M", ylabel="largest distance in time", centre="mean")
        reference(axis, self.widths, -0.5, float(data["width/coupled"].mean(0)[0] / 2))
        axis.set_ylim(None, 4 * float(data["width/fresh"].mean(0).max()))
        axis.legend(title="slope [95% band]", loc="upper right")


def labelled(key, size: int):
    """Gaussian inputs and the outputs of the target."""
    xs = jax.random.normal(key, (size, D))
    return xs, jnp.sum((xs @ TARGET) * xs, axis=1, keepdims=True)


def _ellipse(covariance: np.ndarray, radius: float) -> np.ndarray:
    angles = np.linspace(0, 2 * np.pi, 100)
    return radius * np.linalg.cholesky(covariance) @ np.stack([np.cos(angles), np.sin(angles)])


def _norms(gaps: np.ndarray) -> np.ndarray:
    """`E (xᵀMx)²` of symmetric matrices in the last two axes."""
    return np.trace(gaps, axis1=-2, axis2=-1) ** 2 + 2 * np.sum(gaps**2, axis=(-2, -1))


@jax.jit
def _map(starts, times):
    goal = jnp.asarray(TARGET)
    return jax.vmap(lambda S: quadratic_map(S, goal, times=times, tolerance=jnp.asarray(1e-7)))(starts)


@jax.jit
def _distances(starts, ways, times):
    """From the limit whose particles move by `ways`, of clouds that start at these moments."""
    law = jnp.einsum("kij,jl,kml->kim", ways, jnp.asarray(START), ways)

    def one(start, own):
        moments = jnp.einsum("kij,jl,kml->kim", own, start, own)
        squares = jax.vmap(quadratic_norm)(moments - law)
        away = own - ways
        coupled = jnp.einsum("kij,jl,kil->k", away, start, away)
        return {
            "risk": jnp.max(jnp.abs(_risks(moments) - _risks(law))),
            "network": jnp.sqrt(jnp.max(squares)),
            "coupled": jnp.sqrt(jnp.max(coupled)),
            "squares": squares,
        }

    return jax.vmap(one)(starts, _map(starts, times))


def _risks(moments):
    return jax.vmap(quadratic_norm)(moments - jnp.asarray(TARGET)[None]) / 2


@jax.jit
def _descended(starts, inputs, step, limit, sample):
    """The largest distances of SGD on these inputs (runs, k, b, d) from the limit at times 0 to the end (t, d, d)."""
    goal = jnp.asarray(TARGET)

    def square(gap):
        return quadratic_norm(gap) if sample is None else jnp.mean(jnp.sum((sample @ gap) * sample, axis=1) ** 2)

    def one(start, batches):
        moments = quadratic_descent(start, goal, inputs=batches, step=step)[:: len(batches) // (len(limit) - 1)]
        risks = (jax.vmap(square)(moments - goal[None]) - jax.vmap(square)(limit - goal[None])) / 2
        return {"risk": jnp.max(jnp.abs(risks)), "network": jnp.sqrt(jnp.max(jax.vmap(square)(moments - limit)))}

    return jax.vmap(one)(starts, inputs)
