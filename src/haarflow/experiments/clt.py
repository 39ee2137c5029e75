"""How far a network of n particles is from its limit while it learns: a central limit theorem that moves in time."""

from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from pydantic import Field

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.oracles import (
    QuadraticRisk,
    quadratic_flow,
    quadratic_fluctuation,
    quadratic_monte_carlo,
    random_feature_flow,
    random_feature_fluctuation,
)
from haarflow.dynamics.schemes import Adaptive, Euler
from haarflow.learning.risks import Functional, Penalty
from haarflow.learning.sphere import (
    ReluLimit,
    ReluRisk,
    relu_coordinates,
    relu_kernel,
    relu_students,
    relu_teacher,
    smooth_students,
    unit_vectors,
)
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.runs.experiment import Count, Experiment, Horizon, Panel, Positive, Step, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

Sizes = Annotated[tuple[Count, ...], Field(min_length=2)]

TARGET = np.diag([1.0, 0.5, 0.25, 0.0])
TIMES = np.array([0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0])
JUDGED = 800  # the width at which the limit equation is compared
LATE = np.concatenate([[0.0], np.geomspace(0.3, 3e5, 31)])  # times of training frozen features
PENALISED = ("interpolating", "regularised")


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
    constant, because n drawn features miss the optimum of the law, up to an error of order 1/n (10% at n = 200).

    The published experiment: ReLU units (a, w) in d = 16, data uniform on the sphere with the exact kernel, students
    a ~ N(0, 1) and w uniform on the sphere, 20 runs of each width; with and without a penalty, here .01 ∫½|θ|² dmu.
    Teacher of two units. The limit is not the average of the runs: its law sees w along the two directions of the
    teacher and the length of the rest only, so that few Sobol points with the rest integrated stand for infinitely many
    particles; a quarter of the squared distance of two scrambles says how well it is known. The Monte-Carlo level is
    `∫|phi|² dmu_t − |f|²`, at time t; the fluctuation is allowed four standard errors above it.

    Features that move need not remember their draw, even with a penalty: the optimal function is unique and made of few
    units, which n particles reach, so that the regularised deviation vanishes as well. That interpolating students
    deviate less than regularised ones is therefore not claimed, and is not seen: they deviate twice as much at t = 40,
    and a hundred times as much at t = 480 (n = 32), where the penalty has contracted what is left.

    The field `fault` plants a mistake on purpose: `start level` compares with the Monte-Carlo level at time zero,
    `run average` centres on the average of four runs, `half noise` starts from half the Wishart covariance.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 17.0

    repetitions: Count = 4000
    sizes: Sizes = (200, 400, JUDGED, 1600)
    draws: Count = 4000
    ridge: Positive = 0.01
    d: Count = 16
    widths: Sizes = (32, 96)
    pairs: Count = 128
    runs: Count = 20
    penalty: Positive = 0.01
    dt: Step = 0.2
    horizon: Horizon = 40.0
    fault: Literal["none", "start level", "run average", "half noise"] = "none"

    @classmethod
    def full(cls):
        return cls(repetitions=40_000, draws=20_000, widths=(64, 128, 256, 512), pairs=256, dt=0.1, horizon=100.0)

    def parts(self):
        return ["students", "quadratic", "particles", "frozen"]

    def run(self, key, part):
        parts = {
            "quadratic": self.quadratic,
            "particles": self.particles,
            "frozen": self.frozen,
            "students": self.students,
        }
        return parts[part](key)

    def quadratic(self, key) -> dict[str, np.ndarray]:
        """`n E|f_n − f|²` over widths and times, with standard errors, and the equations of the limit."""
        from scipy.stats import wishart

        draw, start, rows, errors = generator(key), np.eye(4) / 4, [], []
        limit = np.asarray(_moments(jnp.asarray(start)[None])[0])
        for place, n in enumerate(self.sizes):
            law = wishart(n, start / n, seed=draw)
            ends = np.asarray(_moments(jnp.asarray(law.rvs(self.repetitions))))
            centre = ends[:4].mean(0) if self.fault == "run average" else limit
            found = n * _norms(ends - centre[None])
            rows.append(found.mean(0))
            errors.append(found.std(0, ddof=1) / np.sqrt(self.repetitions))
            tell((place + 1) / len(self.sizes))
        factor = 0.5 if self.fault == "half noise" else 1.0
        stated = quadratic_fluctuation(jnp.asarray(start), jnp.asarray(TARGET), times=jnp.asarray(TIMES))
        return {
            "found": np.stack(rows),
            "error": np.stack(errors),
            "stated": factor * np.asarray(stated),
            "level": np.asarray(quadratic_monte_carlo(jnp.asarray(limit))),
        }

    def particles(self, key) -> dict[str, np.ndarray]:
        """The largest distance between particles and the matrix equation."""
        starts, keys = uniform(generator(key).normal(size=(2, JUDGED, 4)) / 2), jax.random.split(key, 2)
        field = Descend(QuadraticRisk(TARGET))
        path = flow(field, Adaptive(), starts, key=keys, dt=0.5, steps=4, probes={"S": _second}, every=1)
        exact = _follow(jnp.asarray(path.probes["S"][:, 0]), jnp.asarray(path.times[0]), jnp.asarray(1e-10))
        return {"gap": np.asarray(np.abs(path.probes["S"] - np.asarray(exact)).max())}

    def frozen(self, key) -> dict[str, np.ndarray]:
        """`n E|f_n − f|²` for frozen features, with and without ridge, over times and widths."""
        draw = generator(key)
        xs = np.sqrt(6) * unit_vectors(draw, (8, 6))
        features = jnp.asarray(np.maximum(unit_vectors(draw, (512, 6)) @ xs.T, 0))
        ys = jnp.asarray(np.abs(xs[:, 0]) - 0.5 * xs[:, 1])
        found = {}
        for name, ridge in (("no ridge", 0.0), ("ridge", self.ridge)):
            limit = np.asarray(_trained(features, ys, jnp.asarray(ridge), jnp.full((1, 512), 1 / 512))[0])
            rows = []
            for n in self.frozen_sizes:
                shares = draw.multinomial(n, np.full(512, 1 / 512), size=self.draws) / n
                ends = np.asarray(_trained(features, ys, jnp.asarray(ridge), jnp.asarray(shares)))
                rows.append(n * np.mean((ends - limit[None]) ** 2, axis=2))
            found[name] = np.mean(rows, axis=1)
            found[f"{name} error"] = np.std(rows, axis=1) / np.sqrt(self.draws)
        found["stated"] = np.asarray(random_feature_fluctuation(features, ys, ridge=self.ridge))
        return found

    @property
    def frozen_sizes(self) -> tuple[int, ...]:
        """Twice the sizes of the quadratic units: the constant of the ridge has an error of order 1/n."""
        return tuple(2 * n for n in self.sizes)

    def _lesson(self, key) -> tuple[Cloud, np.ndarray]:
        """The teacher, and an orthonormal frame (d, 2) of its directions."""
        lesson = relu_teacher(generator(jax.random.fold_in(key, 1)), np.array([2.0, 2.0]), self.d)
        return lesson, np.linalg.qr(np.asarray(lesson.atoms[:, 1:]).T)[0]

    def students(self, key) -> dict[str, np.ndarray]:
        """`n E|f_n − f|²` (widths, runs, times), its level, and what is not known of the limit, in both lanes."""
        lesson, frame = self._lesson(key)
        risk = ReluLimit(uniform(np.column_stack([lesson.atoms[:, 0], lesson.atoms[:, 1:] @ frame])), self.d, nodes=5)
        draw = generator(jax.random.fold_in(key, 2))
        limits = self._train(key, risk, np.stack([smooth_students(draw, self.pairs, self.d) for _ in range(2)]))
        runs = []
        for place, n in enumerate(self.widths):
            starts = relu_students(generator(jax.random.fold_in(key, 1000 + n)), self.runs, n, self.d)
            runs.append(self._train(key, ReluRisk(lesson), starts))
            tell((place + 1) / len(self.widths))
        found = {"times": np.linspace(0, self.horizon, limits["regularised"].shape[1])}
        for lane, both in limits.items():
            gaps = [_deviations(risk, jnp.asarray(frame), jnp.asarray(run[lane]), jnp.asarray(both)) for run in runs]
            found[f"{lane}/found"] = np.stack([n * np.asarray(gap) for n, gap in zip(self.widths, gaps, strict=True)])
            found |= {f"{lane}/{name}": np.asarray(row) for name, row in _levels(risk, jnp.asarray(both)).items()}
        return found

    def _train(self, key, risk: Functional, starts: np.ndarray) -> dict[str, np.ndarray]:
        """The particles (runs, times, n, p) from these starts, in both lanes."""
        fields = {"interpolating": Descend(risk), "regularised": Descend(risk + Penalty(self.penalty))}
        steps = round(self.horizon / self.dt)
        options = {"dt": self.dt, "steps": steps, "probes": {"atoms": _atoms}, "every": max(1, steps // 10)}
        paths = flow(fields, Euler(), uniform(starts), key=jax.random.split(key, len(starts)), **options)
        return {lane: path.probes["atoms"] for lane, path in paths.items()}

    def slopes(self, data) -> np.ndarray:
        """The slope of E|f_n − f|² in n, at every time."""
        errors = data["quadratic/found"] / np.array(self.sizes)[:, None]
        return np.array([slope(self.sizes, row).value for row in errors.T])

    def excess(self, data, lane: str) -> np.ndarray:
        """Fluctuation minus four standard errors, over the Monte-Carlo level at the same time: (widths, times)."""
        found, level = data[f"students/{lane}/found"], data[f"students/{lane}/level"]
        level = np.full_like(level, level[0]) if self.fault == "start level" else level
        error = found.std(1, ddof=1) / np.sqrt(found.shape[1])
        return (found.mean(1) - 4 * error) / level[None, :]

    def verdict(self, data):
        at = self.sizes.index(JUDGED)
        stated, level = data["quadratic/stated"], data["quadratic/level"]
        level = np.full_like(level, level[0]) if self.fault == "start level" else level
        ratio, slopes = data["quadratic/found"][at] / stated, self.slopes(data)
        bare, ridged = data["frozen/no ridge"], data["frozen/ridge"]
        flat = ridged[:, LATE > 1e4]
        claims = {
            "quadratic units, n = 800: n E|f_n − f|² is within 10% of the limit equation for t in [0, 2]": below(
                np.abs(ratio - 1).max(), 0.1
            ),
            "quadratic units: slope in n between −1.05 and −0.95 at every time": between(
                slopes[np.argmax(np.abs(slopes + 1))], -1.05, -0.95
            ),
            "quadratic units: the limit equation is at or below the Monte-Carlo level at time t": below(
                (stated / level).max(), 1 + 1e-9
            ),
            "quadratic units: 800 particles obey the matrix equation, to 1e-6": below(data["particles/gap"], 1e-6),
            "frozen features, no ridge: after training n E|f_n − f|² is below 1e-6 of its peak": below(
                (bare[:, -1] / bare.max(1)).max(), 1e-6
            ),
            "frozen features, ridge, n = 800: after training n E|f_n − f|² is within 10% of the stated constant": below(
                abs(ridged[self.frozen_sizes.index(JUDGED), -1] / data["frozen/stated"] - 1), 0.1
            ),
            "frozen features, ridge: from t = 1e4 to 3e5 it moves by less than 1%": below(
                (flat.max(1) / flat.min(1) - 1).max(), 0.01
            ),
            "frozen features, ridge: slope in n between −1.05 and −0.95": between(
                slope(self.frozen_sizes, ridged[:, -1] / np.array(self.frozen_sizes)).value, -1.05, -0.95
            ),
        }
        for lane in PENALISED:
            claims[f"ReLU students, {lane}: at or below the Monte-Carlo level at every time, four standard errors"] = (
                below(self.excess(data, lane).max(), 1.0)
            )
            claims[f"ReLU students, {lane}: the limit is known to 10% of the fluctuation at the largest n"] = below(
                self.unknown(data, lane), 0.1
            )
        return claims

    def unknown(self, data, lane: str) -> float:
        """The largest share of the fluctuation, over times after the start, that the limit's own error may explain."""
        return float(
            (self.widths[-1] * data[f"students/{lane}/unknown"] / data[f"students/{lane}/found"][-1].mean(0))[1:].max()
        )

    def figures(self, data):
        at = self.sizes.index(JUDGED)
        numbers = {
            f"quadratic, t = {t:g}: found / stated": data["quadratic/found"][at, i] / data["quadratic/stated"][i]
            for i, t in enumerate(TIMES)
        }
        numbers |= {f"quadratic, t = {t:g}: slope": value for t, value in zip(TIMES, self.slopes(data), strict=True)}
        numbers |= {
            f"frozen, ridge, n = {n}: found / stated": row[-1] / data["frozen/stated"]
            for n, row in zip(self.frozen_sizes, data["frozen/ridge"], strict=True)
        }
        for lane in PENALISED:
            for n, found in zip(self.widths, data[f"students/{lane}/found"], strict=True):
                numbers[f"students, {lane}, n = {n}: fluctuation at the end"] = found[:, -1].mean()
            numbers[f"students, {lane}: Monte-Carlo level at the end"] = data[f"students/{lane}/level"][-1]
            numbers[f"students, {lane}: share that the limit's error may explain"] = self.unknown(data, lane)
        ends = [data[f"students/{lane}/found"][-1, :, -1].mean() for lane in PENALISED]
        return numbers | {"students: interpolating over regularised at the end, largest n": ends[0] / ends[1]}

    def panels(self, data):
        return [self._quadratic_panel(data), self._frozen_panel(data), self._student_panel(data)]

    def _quadratic_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, INK, MUTED, colour, marker, reference, slopes

            left, right = figure.subplots(1, 2)
            left.plot(TIMES, data["quadratic/stated"], color=INK, label="limit equation")
            left.plot(TIMES, data["quadratic/level"], color=MUTED, linestyle=DASHED, label="Monte-Carlo level")
            for order, (n, found) in enumerate(zip(self.sizes, data["quadratic/found"], strict=True)):
                style = {"color": colour("", order), "marker": marker("", order), "linestyle": "none"}
                left.plot(TIMES, found, label=f"n = {n}", **style)
            left.set(xlabel="time t", ylabel=r"$n\;\mathrm{E}\,|f_n(t) - f(t)|^2$", yscale="log")
            left.legend(loc="center right", bbox_to_anchor=(1.0, 0.7))
            errors = data["quadratic/found"] / np.array(self.sizes)[:, None]
            series = {f"t = {TIMES[i]:g}": errors[:, i] for i in (0, 3, 5, 9)}
            slopes(right, self.sizes, series, xlabel="particles n", ylabel=r"$\mathrm{E}\,|f_n(t) - f(t)|^2$")
            reference(right, self.sizes, -1.0, float(errors[0].min() / 2))
            right.legend(title="slope", loc="center left", bbox_to_anchor=(0.0, 0.4))

        caption = (
            f"Quadratic units, {self.repetitions} repetitions. Left: the squared deviation times n lies on the limit "
            "equation at every width, and under the level of fresh draws from the limit at the same time. Right: at "
            "every time it falls like 1/n."
        )
        return Panel("The deviation from the limit has its own equation", caption, draw, size=(10.2, 4.2))

    def _frozen_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, MUTED, colour

            axes = figure.subplots(1, 2, sharey=True)
            for axis, name in zip(axes, ("no ridge", "ridge"), strict=True):
                for order, (n, row) in enumerate(zip(self.frozen_sizes, data[f"frozen/{name}"], strict=True)):
                    axis.plot(LATE[1:], np.maximum(row[1:], 1e-12), color=colour("", order), label=f"n = {n}")
                axis.set(xscale="log", yscale="log", xlabel="time t", ylim=(1e-7, None))
            axes[1].axhline(data["frozen/stated"], color=MUTED, linestyle=DASHED, label="stated constant")
            axes[0].set(title="no ridge", ylabel=r"$n\;\mathrm{E}\,|f_n(t) - f(t)|^2$")
            axes[1].set(title=f"ridge {self.ridge:g}")
            axes[1].legend(loc="lower left")

        caption = (
            "Frozen ReLU features on 8 inputs, means over "
            f"{self.draws} draws. Without ridge every network ends at the data, and the deviation vanishes; with ridge "
            "it settles at a constant that depends neither on t nor on n."
        )
        return Panel("Interpolation forgets the draw, regularisation remembers it", caption, draw, size=(10.2, 3.9))

    def _student_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, MUTED, colour

            axes = figure.subplots(1, 2, sharey=True)
            for axis, lane in zip(axes, PENALISED, strict=True):
                axis.plot(
                    data["students/times"],
                    data[f"students/{lane}/level"],
                    color=MUTED,
                    linestyle=DASHED,
                    label="Monte-Carlo level",
                )
                for order, (n, found) in enumerate(zip(self.widths, data[f"students/{lane}/found"], strict=True)):
                    middle, error = found.mean(0), 2 * found.std(0, ddof=1) / np.sqrt(self.runs)
                    paint = colour("", order)
                    axis.plot(data["students/times"], middle, color=paint, label=f"n = {n}")
                    axis.fill_between(
                        data["students/times"], middle - error, middle + error, color=paint, alpha=0.18, linewidth=0
                    )
                axis.set(xlabel="time t", title=lane, yscale="log")
            axes[0].set(ylabel=r"$n\;\mathrm{E}\,|f_n(t) - f(t)|^2$")
            axes[1].legend(loc="center right")

        caption = (
            f"ReLU students of a teacher with two units, d = {self.d}, {self.runs} runs of each width, with two "
            "standard errors. The deviation starts at the Monte-Carlo level of its law and falls under it as the law "
            "learns; with features that move, also where it is regularised."
        )
        return Panel("Students deviate less than fresh draws would", caption, draw, size=(10.2, 3.9))


def _second(cloud: Cloud):
    return cloud.atoms.T @ (cloud.weights[:, None] * cloud.atoms)


def _norms(gaps: np.ndarray) -> np.ndarray:
    """`E (xᵀMx)²` of symmetric matrices in the last two axes."""
    return np.trace(gaps, axis1=-2, axis2=-1) ** 2 + 2 * np.sum(gaps**2, axis=(-2, -1))


@jax.jit
def _follow(starts, times, tolerance):
    return jax.vmap(lambda S: quadratic_flow(S, jnp.asarray(TARGET), times=times, tolerance=tolerance))(starts)


def _moments(starts):
    return _follow(starts, jnp.asarray(TIMES), jnp.asarray(1e-7))


@jax.jit
def _trained(features, ys, ridge, shares):
    def train(weights):
        return random_feature_flow(features, ys, times=jnp.asarray(LATE), ridge=ridge, weights=weights)

    return jax.vmap(train)(shares)


def _atoms(cloud: Cloud):
    return cloud.atoms


@eqx.filter_jit
def _deviations(risk: ReluLimit, frame, atoms, limits):
    """`E|f_n − f|²` (runs, times), f the network of both scrambles together."""
    pooled = jnp.concatenate([limits[0], limits[1]], axis=1)
    own = jax.lax.map(lambda there: jnp.mean(risk.kernel(there, there)), pooled)

    def at(here, there):
        across = risk.kernel(relu_coordinates(here, frame), there)
        return jnp.mean(relu_kernel(here, here)) - 2 * jnp.mean(across)

    return jax.lax.map(lambda run: jax.lax.map(lambda pair: at(*pair), (run, pooled)), atoms) + own[None]


@eqx.filter_jit
def _levels(risk: ReluLimit, limits) -> dict[str, Array]:
    """At each time the Monte-Carlo level, and the squared error that the pooled limit may have."""

    def at(one, two):
        inner = [jnp.mean(risk.kernel(left, right)) for left, right in ((one, one), (one, two), (two, two))]
        both = jnp.concatenate([one, two])
        square = jnp.mean(both[:, 0] ** 2 * jnp.sum(both[:, 1:] ** 2, axis=1)) / 2
        level = square - (inner[0] + 2 * inner[1] + inner[2]) / 4
        return {"level": level, "unknown": (inner[0] - 2 * inner[1] + inner[2]) / 4}

    return jax.vmap(at)(limits[0], limits[1])
