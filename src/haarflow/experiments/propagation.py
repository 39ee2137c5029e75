"""How near SGD with M particles and step s is to the mean-field limit: like M^{−1/2} and s^{1/2}, whatever the time."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import wishart

from haarflow.dynamics import oracles
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.fluctuations import quadratic_monte_carlo
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Stream
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.units import Quadratic
from haarflow.runs.experiment import Experiment, below, named, once, panel, power_law, tell
from haarflow.runs.sizes import Count, Horizon, Positive, Sizes, Steps
from haarflow.runs.style import INK, MUTED, colour, power_laws

D = 4
TARGET, START = np.diag([1.0, 0.5, 0.25, 0.0]), np.eye(D) / 4
SHOWN = (20, 200, 2000)  # widths of the picture of the law of large numbers
LOOKS = 40  # the times at which distances are taken are the same for every step: more looks would see larger ones
DRAWN = 80  # particles of the picture of the square
BY_WIDTH = ("risk", "network, sample then flow", "particles, between the two", "network, flow then sample")
LARGEST = "largest distance in time"
BY_STEP = ("risk", "network")
WAYS = ("one-pass", "multi-pass", "balanced")  # the last is one-pass with M = ratio / s particles


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
    with the limit over the same sample; with M = ratio / s, `balanced`, both errors are present and of one size.

    Sampling after the flow: the law at time t is N(0, S_t), M draws from it deviate by the Monte-Carlo level; sampling
    before: the same draws moved by their own field. Coupled by their start, particle by particle, the two clouds are
    M^{−1/2} apart in the mean square.
    """

    group = "dynamics"
    seconds = 12.0
    faults = {
        "square loss": "particles move by the loss without its half, at twice the speed of the limit",
        "wide start": "the particles are drawn with 1.2 times the variance of the law",
    }

    widths: Sizes = (100, 200, 400, 800, 1600)  # numbers of particles M
    steps: Steps = (0.00025, 0.0005, 0.001, 0.002)  # step sizes s
    repetitions: Count = 400  # draws of the particles for each M
    passes: Count = 800  # runs for each step size
    batch: Count = 4  # inputs of each step
    sample: Count = 100  # samples of many passes
    ratio: Positive = 0.2  # M times s where both change
    horizon: Horizon = 0.8  # time of training

    @classmethod
    def full(cls):
        return cls(widths=(100, 200, 400, 800, 1600, 3200, 6400), repetitions=4000, passes=8000)

    def design(self):
        yield self.descents, once()
        yield self.width, once()
        yield self.particles, once()

    speed = property(lambda self: 2.0 if self.fault == "square loss" else 1.0, doc="That of the particles' clock.")

    def starts(self, draw, m, runs):
        """Second moments (runs, d, d) of m draws from the start."""
        spread = 1.2 if self.fault == "wide start" else 1.0
        return np.asarray(wishart(m, spread * START / m, seed=draw).rvs(runs))

    def width(self, key):
        """How far M particles are from the limit; and a few of them, for the square of sampling and flow."""
        draw, times = generator(key), np.linspace(0, self.horizon, LOOKS + 1)
        ways = np.asarray(_map(START, self.speed * times))
        law = ways @ START @ ways.transpose(0, 2, 1)
        roots, distances, squares = np.linalg.cholesky(law), [], []
        for place, m in enumerate(self.widths):
            largest, square = _distances(self.starts(draw, m, self.repetitions), ways, times)
            gaps = 4 * self.starts(draw, m, self.repetitions)[:, None] - np.eye(D)
            fresh = oracles.quadratic_norm(roots @ gaps @ roots.transpose(0, 2, 1))
            distances.append(np.column_stack([largest, np.sqrt(fresh.max(axis=1))]))
            squares.append(square)
            tell((place + 1) / len(self.widths))
        atoms = draw.normal(size=(DRAWN, D)) / 2
        own = np.asarray(_map(atoms.T @ atoms / DRAWN, times[[0, -1]])[-1])
        corners = [atoms, atoms @ own.T, atoms @ ways[-1].T]
        return {
            "by_width": named(np.array(distances), "M", "run", "measure", M=self.widths, measure=BY_WIDTH),
            "squares": named(np.array(squares), "M", "run", "time", M=self.widths, time=times),
            "level": named(quadratic_monte_carlo(law), "time", time=times),
            "corners": named(np.array(corners), "cloud", "particle", "theta", cloud=("drawn", "flowed", "sampled")),
            "way": named(ways[-1], "row", "column"),
        }

    def descents(self, key):
        """Distances of every way of SGD from its limit, in risk and in L2."""
        draw, times = generator(jax.random.fold_in(key, 1)), self.horizon / LOOKS * np.arange(LOOKS + 1)
        sample = draw.normal(size=(self.sample, D))
        law = oracles.quadratic_flow(START, TARGET, times=times)
        seen = oracles.quadratic_flow(START, TARGET, times=times, inputs=sample)
        rows = []
        for place, way in enumerate(WAYS):
            given, limit = (sample, seen) if way == "multi-pass" else (None, law)
            rows.append([self._descent(draw, way, step, given, limit) for step in self.steps])
            tell((place + 1) / len(WAYS))
        found = named(np.array(rows), "way", "s", "run", "measure", way=WAYS, s=self.steps, measure=BY_STEP)
        return {"by_step": found, "cost": np.sqrt(oracles.quadratic_norm(seen - law).max())}

    def _descent(self, draw, way, step, sample, limit):
        """The largest distances in time (passes, 2) of runs with one step, a hundred at a time."""
        looks, runs, pieces = max(1, round(self.horizon / LOOKS / step)), 100, []
        for _ in range(-(-self.passes // runs)):
            shape = (runs, LOOKS * looks, self.batch)
            inputs = draw.normal(size=(*shape, D)) if sample is None else sample[draw.integers(self.sample, size=shape)]
            few = way == "balanced"
            starts = self.starts(draw, round(self.ratio / step), runs) if few else np.broadcast_to(START, (runs, D, D))
            pieces.append(_descended(starts, inputs, self.speed * step, limit, sample))
        return np.concatenate(pieces)[: self.passes]

    def particles(self, key):
        """The risk of particles in one-pass SGD, five runs of each width in the same noise, and of the limit."""
        draw, runs, step = generator(key), 5, max(self.steps)
        clouds = {f"{m}": uniform(draw.normal(size=(runs, m, D)) / 2) for m in SHOWN}
        fields = dict.fromkeys(clouds, Descend(Risk(Quadratic(D), Stream(labelled, 16))))
        options = {"dt": step, "steps": round(self.horizon / step), "probes": {"risk": oracles.QuadraticRisk(TARGET)}}
        paths = flow(fields, Euler(), clouds, key=jax.random.split(key, runs), every=4, **options)
        times = paths[f"{SHOWN[0]}"].times[0]
        curves = np.array([path.probes["risk"] for path in paths.values()])
        limit = oracles.quadratic_norm(oracles.quadratic_flow(START, TARGET, times=times) - TARGET[None]) / 2
        curves = named(curves, "M", "run", "time", M=SHOWN, time=times)
        return {"curves": curves, "limit": named(limit, "time", time=times)}

    def fits(self, data):
        widths = {measure: power_law(part, along="M", centre="mean") for measure, part in data.by_width.each("measure")}
        return widths | {
            f"{measure}, {way}": power_law(data.by_step.sel(way=way, measure=measure), along="s", centre="mean")
            for way, measure in product(WAYS, BY_STEP)
        }

    def claims(self, data):
        for name, fit in data.fits.items():
            law = fit.called(f"{LARGEST}, {name}")
            yield law.between(-0.55, -0.45) if fit.along == "M" else law.between(0.45, 0.55)
        squares = self._over_level(data.squares.mean("run") - 4 * data.squares.sem("run"), data)
        words = "sample, then flow over flow, then sample: mean square at any time, less four standard errors"
        yield below(words, squares.max(), 1.0)

    def _over_level(self, squares, data):
        """Mean squares over those of M fresh draws from the limit's law."""
        return squares * named(self.widths, "M", M=self.widths) / data.level

    def numbers(self, data):
        end = self._over_level(data.squares.mean("run"), data).isel(time=-1).mean()
        return {
            f"distance of the limit over {self.sample} samples from that over all data": data.cost,
            "sample, then flow over flow, then sample: mean squares at the end": end,
        }

    @panel(
        "Many particles forget their draw",
        "Left: one-pass SGD with M particles, five runs each, closes in on the mean-field limit. Right: the largest "
        "distance in time, mean and 10–90% band of {repetitions} draws of the particles, falls like one over the root "
        "of M.",
        columns=2,
        size=(9.6, 4.2),
    )
    def numbers_of_particles(self, axes, data):
        """Risks along time, and the largest distance against M."""
        left, right = axes
        for order, (m, curves) in enumerate(data.curves.each("M")):
            lines = left.plot(curves.labels("time"), curves.values.T, color=colour(order), linewidth=1.0)
            lines[0].set_label(f"$M = {m}$")
        left.plot(data.limit.labels("time"), data.limit, color=INK, linewidth=2.6, label="limit")
        left.set(yscale="log", xlabel="time $t$", ylabel="risk")
        left.legend(loc="lower left")
        self._against_width(right, data, BY_WIDTH[:2], (0, 1))

    @panel(
        "Small steps forget their data",
        "SGD on batches of {batch}, mean and 10–90% band of {passes} runs: the largest distance in time from the limit "
        "in risk, |R_s − R|, and of the networks, ‖f_s − f‖. In one pass over fresh data or in many over {sample} "
        "samples (against the limit over the same samples), it grows like the root of the step; balanced: with "
        "M = {ratio} / s particles both errors fall together.",
        columns=BY_STEP,
        size=(9.6, 4.4),
        sharey=True,
    )
    def step_sizes(self, axis, data, measure):
        """The largest distance against s."""
        fits = {way: data.fits[f"{measure}, {way}"] for way in WAYS}
        look = {"power": 0.5, "centre": "mean", "xlabel": "step $s$", "ylabel": LARGEST}
        power_laws(axis, data.by_step.sel(measure=measure), along="s", by="way", fits=fits, **look)
        axis.legend(title="slope [95% band]", loc="upper left", alignment="left")
        axis.set_ylim(None, 6 * data.by_step.mean("run").max())
        axis.label_outer()

    @panel(
        "Dynamics and sampling commute",
        "Left: particles (first two of four coordinates) over the law's ellipses. Down and then right, they are moved "
        "by their own field (dots); right and then down, by the field of the limit (rings): the same up to the root of "
        "1/M. Right: the distance of the two corners, particle by particle, and the distance of each from the limit.",
        mosaic="ABE;CDE",
        size=(9.6, 4.4),
        width_ratios=(1, 1, 1.9),
    )
    def square(self, axes, data):
        """Four corners with arrows between them, and distances."""
        titles = ("law at the start", f"law at $t = {self.horizon:g}$", f"{DRAWN} draws", "both ways")
        way, reach = data.way.values, 1.05 * np.abs(data.corners[..., :2]).max()
        circle = np.stack([np.cos(angles := np.linspace(0, 2 * np.pi, 100)), np.sin(angles)])
        for letter, title in zip("ABCD", titles, strict=True):
            root = np.linalg.cholesky(START if letter in "AC" else way @ START @ way.T)[:2, :2]
            for radius in (1.0, 2.0):
                axes[letter].plot(*(radius * root @ circle), color=MUTED, linewidth=1.0)
            axes[letter].set(title=title, aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
            axes[letter].set_axis_off()
        drawn, flowed, sampled = data.corners.values
        axes["C"].plot(*drawn[:, :2].T, "o", color=colour(0), markersize=2.4)
        axes["D"].plot(*sampled[:, :2].T, "o", color=colour(1), fillstyle="none")
        axes["D"].plot(*flowed[:, :2].T, "o", color=colour(0), markersize=2.4)
        for letters, words, place in (("AC", "flow →", (1, 0.5)), ("AB", "sample ↓", (0.8, 0))):
            for letter in letters:
                axes[letter].annotate(words, place, xycoords="axes fraction", ha="center", annotation_clip=False)
        self._against_width(axes["E"], data, BY_WIDTH[1:], (1, 2, 4))

    def _against_width(self, axis, data, measures, colours):
        part, words = data.by_width.sel(measure=measures), {"xlabel": "particles $M$", "ylabel": LARGEST}
        look = {"power": -0.5, "centre": "mean", "colours": colours, **words}
        power_laws(axis, part, along="M", by="measure", fits=data.fits, **look)
        axis.legend(title="slope [95% band]", loc="upper right", alignment="left")
        axis.set_ylim(None, 5 * part.mean("run").max())


def labelled(key, size: int):
    """Gaussian inputs and the outputs of the target."""
    xs = jax.random.normal(key, (size, D))
    return xs, jnp.sum((xs @ TARGET) * xs, axis=1, keepdims=True)


@jax.jit
def _map(start, times):
    """The matrices (times, d, d) that carry the particles of a cloud with this second moment."""
    return oracles.quadratic_map(start, jnp.asarray(TARGET), times=times, tolerance=jnp.asarray(1e-7))


@jax.jit
@partial(jax.vmap, in_axes=(0, None, None))
def _distances(start, ways, times):
    """The largest distances (3,) of a cloud from the limit that moves by `ways`, and the squares of the networks'."""
    own = _map(start, times)
    law, moments = (jnp.einsum("kij,jl,kml->kim", carry, S, carry) for carry, S in ((ways, START), (own, start)))
    gaps, risks, ideal = (
        oracles.quadratic_norm(S) for S in (moments - law, moments - TARGET[None], law - TARGET[None])
    )
    coupled = jnp.einsum("kij,jl,kil->k", own - ways, start, own - ways)
    return jnp.stack([jnp.abs(risks - ideal).max() / 2, jnp.sqrt(gaps.max()), jnp.sqrt(coupled.max())]), gaps


@jax.jit
@partial(jax.vmap, in_axes=(0, 0, None, None, None))
def _descended(start, inputs, step, limit, sample):
    """The largest distances (2,) of SGD on inputs (k, b, d) from the limit at its times, (t, d, d)."""
    every = len(inputs) // (len(limit) - 1)
    moments = oracles.quadratic_descent(start, TARGET, inputs=inputs, step=step)[::every]
    pairs = (moments - limit, moments - TARGET[None], limit - TARGET[None])
    gaps, risks, ideal = (oracles.quadratic_norm(pair, sample) for pair in pairs)
    return jnp.stack([jnp.abs(risks - ideal).max() / 2, jnp.sqrt(gaps.max())])
