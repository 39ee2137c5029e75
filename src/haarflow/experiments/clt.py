"""How far a network of n particles is from its limit while it learns: a central limit theorem that moves in time."""

import jax
import numpy as np
from pydantic import model_validator

from haarflow.dynamics import fluctuations, oracles
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Adaptive
from haarflow.learning import sphere
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, below, named, once, panel, power_law, tell
from haarflow.runs.sizes import Count, Positive, Sizes

TARGET, START = np.diag([1.0, 0.5, 0.25, 0.0]), np.eye(4) / 4
TIMES = np.array([0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0])
SHOWN = (0.0, 0.2, 0.5, 2.0)  # the times whose slopes are drawn
JUDGED = 800  # the width at which limit equations are compared
LATE = np.concatenate([[0.0], np.geomspace(0.3, 3e5, 31)])  # times of training frozen features
TRAINING = ("no ridge", "ridge")
SQUARE = r"$n\;\mathrm{E}\,|f_n(t) - f(t)|^2$"


class Clt(Experiment):
    """The deviation of n particles from their limit stays of size n^{−1/2} at all times of training: n E|f_n − f|²
    follows its own equation, never exceeds what n fresh draws from the limit at that time would give, and with frozen
    features vanishes where training interpolates and stays where it is regularised.

    Source: A dynamical central limit theorem for shallow neural networks (arXiv 2008.09623).

    Quadratic units `<w, x>²`, x ~ N(0, I) in R^4, target xᵀS*x with S* = diag(1, .5, .25, 0), starts w ~ N(0, I/4):
    the matrix `S = mean w wᵀ` obeys `S' = −(BS + SB)` at every width, so repetitions start from Wishart matrices and
    follow that equation (particles are seen to do the same), and the limit of n E|f_n − f|² is the linearised equation
    started from the Wishart covariance. Frozen features: ReLU, only the outputs learn on 8 inputs; the law of features
    is uniform on 512 of them, so the limit is exact; n features are drawn from it.

    There, without ridge `n E|f_n − f|²` vanishes as t → ∞ where the features interpolate; with ridge it tends to a
    constant, because n drawn features miss the optimum of the law, up to an error of order 1/n (10% at n = 200). ReLU
    units whose features move, the published experiment, are those of `clt-relu`.
    """

    group = "dynamics"
    seconds = 6.0
    faults = {
        "start level": "deviations are compared with the Monte-Carlo level at time zero",
        "run average": "deviations are taken from the average of four runs, not from the limit",
        "half noise": "the limit equation starts from half the Wishart covariance",
    }

    repetitions: Count = 4000  # draws of the quadratic units, for each n
    sizes: Sizes = (200, 400, JUDGED, 1600)  # numbers n of quadratic units; of frozen features twice as many
    draws: Count = 4000  # draws of the frozen features, for each n
    ridge: Positive = 0.01  # weight of the ridge on frozen features

    @classmethod
    def full(cls):
        return cls(repetitions=40_000, draws=20_000)

    @model_validator(mode="after")
    def _judged_at_one_width(self):
        if not {JUDGED, JUDGED // 2} <= set(self.sizes):
            raise ValueError(f"sizes have {JUDGED // 2} and {JUDGED} among them, where equations are compared")
        return self

    def design(self):
        yield self.quadratic, once()
        yield self.particles, once()
        yield self.frozen, once()

    def quadratic(self, key):
        """`n E|f_n − f|²` over widths and times with its standard error, and the equations of the limit."""
        draw, rows, options = generator(key), [], {"runs": self.repetitions, "times": TIMES}
        limit = oracles.quadratic_flow(START, TARGET, times=TIMES, tolerance=1e-7)
        for place, n in enumerate(self.sizes):
            ends = fluctuations.quadratic_draws(draw, START, TARGET, n=n, **options)
            centre = ends[:4].mean(0) if self.fault == "run average" else limit
            rows.append(n * oracles.quadratic_norm(ends - centre[None]))
            tell((place + 1) / len(self.sizes))
        found = named(np.array(rows), "n", "run", "time", n=self.sizes, time=TIMES)
        stated = fluctuations.quadratic_fluctuation(START, TARGET, times=TIMES)
        return {
            "deviation": found.mean("run"),
            "deviation_error": found.sem("run"),
            "equation": named(stated * (0.5 if self.fault == "half noise" else 1.0), "time", time=TIMES),
            "level": named(fluctuations.quadratic_monte_carlo(limit), "time", time=TIMES),
        }

    def particles(self, key):
        """The largest distance between the second moments of particles and the matrix equation."""
        starts, keys = uniform(generator(key).normal(size=(2, JUDGED, 4)) / 2), jax.random.split(key, 2)
        probes = {"S": lambda cloud: cloud.atoms.T @ (cloud.weights[:, None] * cloud.atoms)}
        field = Descend(oracles.QuadraticRisk(TARGET))
        path = flow(field, Adaptive(), starts, key=keys, dt=0.5, steps=4, probes=probes, every=1)
        exact = {"times": path.times[0], "tolerance": 1e-10}
        gaps = [moments - oracles.quadratic_flow(moments[0], TARGET, **exact) for moments in path.probes["S"]]
        return {"particles": np.abs(gaps).max()}

    def frozen(self, key):
        """`n E|f_n − f|²` for frozen features, with and without ridge, over times and widths."""
        draw, rows = generator(key), []
        xs = np.sqrt(6) * sphere.unit_vectors(draw, (8, 6))
        problem = np.maximum(sphere.unit_vectors(draw, (512, 6)) @ xs.T, 0), np.abs(xs[:, 0]) - 0.5 * xs[:, 1]
        for ridge in (0.0, self.ridge):
            options = {"times": LATE, "ridge": ridge}
            limit, options["runs"] = oracles.random_feature_flow(*problem, **options), self.draws
            ends = ((n, fluctuations.random_feature_draws(draw, *problem, n=n, **options)) for n in self.frozen_sizes)
            rows.append([n * np.mean((end - limit[None]) ** 2, axis=2) for n, end in ends])
        labels = {"training": TRAINING, "n": self.frozen_sizes, "time": LATE}
        found = named(np.array(rows), "training", "n", "run", "time", **labels)
        return {
            "frozen": found.mean("run"),
            "frozen_error": found.std("run") / np.sqrt(self.draws),
            "constant": fluctuations.random_feature_fluctuation(*problem, ridge=self.ridge),
        }

    frozen_sizes = property(lambda self: tuple(2 * n for n in self.sizes), doc="Large: a constant errs by order 1/n.")

    def fits(self, data):
        rows = {f"quadratic units, t = {t:g}": errors for t, errors in _over_n(data.deviation).each("time")}
        rows["frozen features, ridge"] = _over_n(data.frozen.sel(training="ridge").isel(time=-1))
        return {name: power_law(row, along="n", confidence=None) for name, row in rows.items()}

    def claims(self, data):
        gap, square = np.abs(data.deviation.sel(n=JUDGED) / data.equation - 1).max(), "n E|f_n − f|²"
        near = f"quadratic units, n = 800: {square} is within {{bound:.0%}} of the limit equation for t in [0, 2]"
        yield below(near, gap, 0.1)
        *slopes, settled = data.fits.values()
        farthest = max(slopes, key=lambda fit: abs(fit.value + 1))
        yield farthest.called("quadratic units, at every time").between(-1.05, -0.95)
        level, under = self._level(data.level), "the limit equation over the Monte-Carlo level at time t"
        yield below(f"quadratic units: {under}, at most {{bound:.10g}}", (data.equation / level).max(), 1 + 1e-9)
        yield below("quadratic units: 800 particles obey the matrix equation, to {bound:g}", data.particles, 1e-6)
        bare, ridged = (data.frozen.sel(training=training) for training in TRAINING)
        left = (bare.isel(time=-1) / bare.max("time")).max()
        yield below(f"frozen features, no ridge: {square} after training over its peak", left, 1e-6)
        gap = abs(ridged.sel(n=JUDGED).isel(time=-1) / data.constant - 1)
        yield below(f"frozen features, ridge, n = 800: {square} ends within {{bound:.0%}} of the constant", gap, 0.1)
        flat = ridged.sel(time=lambda t: t > 1e4)
        moved = (flat.max("time") / flat.min("time") - 1).max()
        yield below("frozen features, ridge: from t = 1e4 to 3e5 it moves by less than {bound:.0%}", moved, 0.01)
        yield settled.between(-1.05, -0.95)

    def _level(self, level):
        return level.isel(time=0) if self.fault == "start level" else level

    def numbers(self, data):
        ratio, ridged = data.deviation.sel(n=JUDGED) / data.equation, data.frozen.sel(training="ridge").isel(time=-1)
        found = {f"quadratic, t = {t:g}: found / stated": one for t, one in ratio.each("time")}
        settled = (ridged / data.constant).each("n")
        return found | {f"frozen, ridge, n = {n}: found / stated": one for n, one in settled}

    @panel(
        "The deviation from the limit has its own equation",
        "Quadratic units, {repetitions} repetitions. Left: the squared deviation times n lies on the limit equation at "
        "every width, and under the level of fresh draws from the limit at the same time. Right: at every time it "
        "falls like 1/n.",
        columns=2,
        size=(10.2, 4.2),
    )
    def own_equation(self, axes, data):
        left, right = axes
        left.plot(TIMES, data.level, color=style.MUTED, linestyle=style.DASHED, label="Monte-Carlo level")
        left.plot(TIMES, data.equation, color=style.INK, linewidth=1.0, label="limit equation")
        for order, (n, found) in enumerate(data.deviation.each("n")):
            look = {"color": style.colour(order), "marker": "o", "markersize": max(2, 11 - 3 * order)}
            left.plot(TIMES, found, label=f"n = {n}", linestyle="none", markerfacecolor="none", **look)
        left.set(xlabel="time t", ylabel=SQUARE, yscale="log")
        left.legend(loc="center right", bbox_to_anchor=(1.0, 0.68))
        series = {f"t = {t:g}": row for t, row in _over_n(data.deviation).sel(time=SHOWN).each("time")}
        fits = {name: data.fits[f"quadratic units, {name}"] for name in series}
        style.slopes(right, self.sizes, series, fits=fits, power=-1, xlabel="particles n")
        right.set_ylabel(r"$\mathrm{E}\,|f_n(t) - f(t)|^2$")
        right.legend(title="slope", loc="center left", bbox_to_anchor=(0.0, 0.4), alignment="left")

    @panel(
        "Interpolation forgets the draw, regularisation remembers it",
        "Frozen ReLU features on 8 inputs, means over {draws} draws. Without ridge every network ends at the data, and "
        "the deviation vanishes; with a ridge of {ridge} it settles at a constant that depends neither on t nor on n.",
        columns=TRAINING,
        size=(10.2, 3.9),
        sharey=True,
    )
    def remembered(self, axis, data, training):
        shown = data.frozen.sel(training=training, time=lambda t: t > 0)
        for order, (n, row) in enumerate(shown.each("n")):
            look = {"color": style.colour(order), "linewidth": max(1.2, 5 - 1.3 * order), "label": f"n = {n}"}
            axis.plot(LATE[1:], np.maximum(row, 1e-12), **look)
        axis.set(xscale="log", yscale="log", xlabel="time t", ylabel=SQUARE, ylim=(1e-7, None))
        if training == "ridge":
            axis.axhline(data.constant, color=style.INK, linestyle=style.DASHED, label="stated constant")
            axis.legend(loc="lower left")
        axis.label_outer()


def _over_n(deviation):
    """`E|f_n − f|²`, from n times it."""
    return deviation / named(deviation.labels("n"), "n", n=deviation.labels("n"))
