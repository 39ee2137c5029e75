"""Transport with growth: by weights, by birth and death, and with re-injection; against closed forms, and at work."""

import jax
import numpy as np

from haarflow.dynamics import oracles
from haarflow.dynamics.birth_death import BirthDeath
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.schemes import Euler, Langevin
from haarflow.experiments import _problems as problems
from haarflow.learning.risks import Penalty
from haarflow.learning.sphere import ReluRisk, relu_students, relu_teacher
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, above, below, named, once, over, panel, power_law, tell
from haarflow.runs.sizes import Count, Horizon, Positive, Step

FITNESS, SHARES = np.array([0.0, 0.5, 2.0]), np.array([0.2, 0.3, 0.5])
ALONE = 2.0  # the rate of growth where nothing else happens
EARLY = 4.0  # the time at which students with growth are compared with those without
PLAIN, JUMPS = {"plain descent": Euler(), "weights": Euler()}, BirthDeath(Euler())
MIXTURE = PLAIN | {"cloning": JUMPS, "re-injection": BirthDeath(Euler(), prior=problems.silent_bumps, births=False)}
LESSON = PLAIN | {"birth–death": JUMPS, "birth–death, each twice": JUMPS}
DASHES = ("-", (0, (5, 5)), (0, (2, 3)), "-")  # for curves that lie on each other


class BirthDeathDynamics(Experiment):
    """Growth added to transport has three discretisations that agree with the same closed forms: weights, the unbiased
    birth–death process, and re-injection of fresh particles without output. Growth alone descends like 1/t, and
    re-injection leaves bad starts where descent and cloning stay. With birth–death, students of few units learn faster
    at first, and end worse than by plain descent.

    Source: Global convergence of neuron birth–death dynamics (arXiv 1902.01843).

    `mu' = div(mu ∇Psi) − alpha (Psi − mean Psi) mu`; above the average is killed (the paper's section 5 prints it the
    other way round). Gaussian oracle: five numbers a set and scheme, each within four standard errors of the runs
    plus twice what Euler's method errs on the equations themselves; replicator oracle the same; a false alarm has
    probability 1e-3 a number, and the seed is fixed.

    The mixture: target `Σ c exp(−(x − m)²/2v)` with coefficients 1, −2, 1, centres −2, 0, 2, variances .5, 1, .5;
    units `a exp(−(x − m)²/2·.5)`, n = 200, dt = .01, alpha = 5, half square risk integrated over the line, start
    m ~ N(−2, .01) and a ~ N(0, 1); re-injected centres uniform on [−4, 4], in place of the killed and without births:
    with births as well, copies over others disturb two hundred particles so much that the risk stays near 1e-2. That
    re-injection ends below 1e-3 is seen in some runs and not in all: outputs grow to |a| = 10, and to kill one such
    particle costs `a²√(π/2)/2n²`, more than 1e-3. What is claimed is the escape, tenfold below all others in every run.

    The lesson: ReLU students of 50 units in d = 50, on the sphere with the exact kernel, teacher of 10 units with
    outputs ±√10. Growth adds alpha Var(Psi) to the dissipation, so at first it descends faster, by weights and by
    birth–death. At the end birth–death is worse: the jumps are unbiased as dt → 0, but their noise costs a risk of
    order alpha/n, and 50 particles at alpha = 1 ended 1.5 to 2.7 times above plain descent in every seed tried. So
    the verdict at t = 4 says nothing of the end, and the end has a verdict of its own: above plain descent. With each
    particle twice, descent and weights are the same up to rounding, while the jumps cost half as much: the excess over
    weights must fall.
    """

    group = "dynamics"
    seconds = 36.0
    faults = {
        "half growth": "the particles grow at half the stated rate",
        "fast growth": "the particles grow at 1.1 times the stated rate",
        "no prior": "particles are cloned where they should be re-injected",
    }

    particles: Count = 1200  # particles of each Gaussian
    runs: Count = 16  # runs of each Gaussian
    dt: Step = 0.02  # step of the Gaussians
    n: Count = 200  # bumps of the mixture
    alpha: Positive = 5.0  # rate of growth in the mixture
    horizon: Horizon = 100.0  # time of the mixture
    repetitions: Count = 3  # runs of the mixture
    d: Count = 50  # inputs of the students
    units: Count = 10  # units of their teacher
    width: Count = 50  # units of a student
    rate: Positive = 1.0  # rate of growth of the students
    lessons: Count = 4  # runs of the students
    lesson: Horizon = 100.0  # time of the students

    @classmethod
    def full(cls):
        return cls(particles=20_000, runs=32, dt=0.005, repetitions=20, lessons=20, lesson=400.0)

    def design(self):
        yield self.mixture, once()
        yield self.students, once()
        yield self.gaussian, over(bowl=problems.BOWLS)
        yield self.replicator, once()
        yield self.alone, once()

    def _growth(self, alpha):
        return alpha * {"half growth": 0.5, "fast growth": 1.1}.get(self.fault, 1.0)

    def gaussian(self, key, bowl):
        """Five moments at t = 0.8, for weights and for birth and death, with what they are compared to."""
        bowl, steps, keys = problems.bowl(bowl), round(0.8 / self.dt), jax.random.split(key, self.runs)
        normal = generator(key).normal(size=(self.runs, self.particles, 2))
        clouds = uniform(bowl.mean + normal @ np.linalg.cholesky(bowl.covariance).T)
        schemes = {"weights": Langevin(Euler(), bowl.beta), "birth–death": BirthDeath(Langevin(Euler(), bowl.beta))}
        field = Descend(bowl.energy, transport=bowl.transport, growth=self._growth(bowl.alpha))
        paths = flow(dict.fromkeys(schemes, field), schemes, clouds, key=keys, dt=self.dt, steps=steps)
        found = [problems.planar_moments(paths[scheme].cloud) for scheme in schemes]
        closed = (bowl.moments(self.dt * steps, step) for step in (None, self.dt))
        return _compared("moments", named(found, "scheme", "run", "number", scheme=schemes), *closed)

    def replicator(self, key):
        """Three atoms of different fitness: shares by weights and by birth and death, and in closed form."""
        alpha, steps, dt, euler = 1.5, 200, 0.005, SHARES
        places, field = np.sqrt(FITNESS)[:, None], Descend(Penalty(2.0), transport=0.0, growth=self._growth(alpha))
        exact = np.asarray(oracles.replicator(SHARES, FITNESS, alpha=alpha, time=dt * steps))
        weights = flow(field, Euler(), Cloud(places, SHARES), key=key, dt=dt, steps=steps).cloud.weights
        many = uniform(np.repeat(places, (500 * SHARES).astype(int), axis=0))
        ends = flow(field, JUMPS, many, key=jax.random.split(key, 64), dt=dt, steps=steps).cloud.atoms
        found = np.stack([np.isclose(np.asarray(ends)[..., 0] ** 2, fitness).mean(1) for fitness in FITNESS], axis=1)
        for _ in range(steps):
            euler = euler * (1 - dt * alpha * (FITNESS - euler @ FITNESS))
        shares = _compared("shares", named(found, "run", "number"), exact, euler)
        return shares | {"weights": np.abs(weights - exact).max()}

    def alone(self, key):
        """The mean of F = ½|θ|² under growth alone from a flat start, in one and two dimensions."""
        field = Descend(Penalty(1.0), transport=0.0, growth=self._growth(ALONE))
        starts = [uniform(Grid([-1.0] * p, [1.0] * p, [cells] * p).centres) for p, cells in ((1, 4000), (2, 160))]
        options = {"dt": 1.0, "steps": 1000, "probes": {"F": Penalty(1.0)}, "every": 10}
        paths = [flow(field, Euler(), start, key=key, **options) for start in starts]
        return {"growth_alone": named([path.probes["F"] for path in paths], "p", "time", p=(1, 2), time=paths[0].times)}

    def mixture(self, key):
        """The risk from the bad start, over time, for every scheme; and where the particles of the first run ended."""
        draw, shape = generator(key), (self.repetitions, self.n)
        starts = uniform(np.stack([draw.normal(size=shape), -2 + 0.1 * draw.normal(size=shape)], axis=-1))
        schemes = MIXTURE | ({"re-injection": JUMPS} if self.fault == "no prior" else {})
        rates = {"transport": problems.LINE, "growth": problems.LINE * self._growth(self.alpha)}
        risks, ends = _descents(key, problems.mixture_risk(), schemes, starts, rates, dt=0.01, horizon=self.horizon)
        return {
            "mixture": problems.LINE * risks,
            "mixture_atoms": named([end.atoms[0] for end in ends], "scheme", "atom", "theta", scheme=MIXTURE),
            "mixture_weights": named([end.weights[0] for end in ends], "scheme", "atom", scheme=MIXTURE),
        }

    def students(self, key):
        """The exact risk of ReLU students over time, for every scheme, from the same starts."""
        draw, signs = generator(jax.random.fold_in(key, 1)), np.where(np.arange(self.units) % 2, -1.0, 1.0)
        risk = ReluRisk(relu_teacher(draw, np.sqrt(self.units) * signs, self.d))
        starts = relu_students(draw, self.lessons, self.width, self.d)
        clouds = {scheme: uniform(np.repeat(starts, 2 if "twice" in scheme else 1, axis=1)) for scheme in LESSON}
        rates = {"growth": self._growth(self.rate)}
        return {"students": _descents(key, risk, LESSON, clouds, rates, dt=0.1, horizon=self.lesson)[0]}

    def fits(self, data):
        options = {"along": "time", "since": 20, "confidence": None}
        return {f"growth alone, p = {p}, mean of F": power_law(F, **options) for p, F in data.growth_alone.each("p")}

    def claims(self, data):
        closed = "distance from the closed form beyond O(dt), in standard errors,"
        for bowl, scores in _excess(data, "moments").each("bowl"):
            yield below(f"Gaussian, {bowl}: weights and birth–death, {closed}", scores.max(), 4.0)
        yield below("replicator: weights are p exp(−alpha t F) exactly, to {bound:g}", data.weights, 1e-12)
        yield below(f"replicator: birth–death, {closed}", _excess(data, "shares").max(), 4.0)
        for (p, F), fit in zip(data.growth_alone.each("p"), data.fits.values(), strict=True):
            gap = abs(F.labels("time")[-1] * F[-1] * 2 * ALONE / p - 1)
            yield fit.between(-1.03, -0.97)
            yield below(f"growth alone, p = {p}: t · mean F ends within {{bound:.0%}} of p / 2 alpha", gap, 0.01)
        ends, bad = data.mixture.isel(time=-1), "mixture from the bad start"
        for scheme in ("plain descent", "cloning"):
            yield above(f"{bad}: {scheme} ends", ends.sel(scheme=scheme).min(), 1e-2)
        share = ends.sel(scheme="re-injection").max() / ends.sel(scheme=list(MIXTURE)[:3]).min()
        yield below(f"{bad}: the worst end of re-injection over the best of all others", share, 0.1)
        early, last = self._gains(data, EARLY), self._gains(data, self.lesson).sel(scheme="birth–death")
        lesson, words = f"ReLU students at t = {EARLY:g}", "birth–death over plain descent, ratio of geometric means"
        yield below(f"{lesson}: weights over plain descent, in every run", early.sel(scheme="weights").max(), 1.0)
        yield below(f"{lesson}: {words}", _geometric(early.sel(scheme="birth–death")), 1.0)
        yield above(f"ReLU students at the end: {words}", _geometric(last), 1.0)
        single, double = self._jumped(data).values()
        yield below("ReLU students: mean excess over weights, each particle twice over once", double / single, 1.0)

    def _gains(self, data, at):
        """The risk of every scheme over that of plain descent, run by run, at the recorded time nearest to `at`."""
        here = data.students.isel(time=int(np.abs(data.students.labels("time") - at).argmin()))
        return here / here.sel(scheme="plain descent")

    def _jumped(self, data):
        """The mean excess over weights in the second half of the time, where particles jump."""
        late = data.students.sel(time=lambda t: t >= data.students.labels("time")[-1] / 2)
        excess = (late - late.sel(scheme="weights")).mean("run", "time")
        return {scheme: excess.sel(scheme=scheme) for scheme in list(LESSON)[2:]}

    def numbers(self, data):
        ends, outputs = data.mixture.isel(time=-1), data.mixture_atoms.sel(scheme="re-injection")[:, 0]
        found = {f"mixture, {scheme}: worst end": end.max() for scheme, end in ends.each("scheme")}
        found |= {f"mixture, {scheme}: best end": end.min() for scheme, end in ends.each("scheme")}
        found["mixture, re-injection: runs that end below 1e-3"] = np.sum(ends.sel(scheme="re-injection").values < 1e-3)
        found["mixture, re-injection: what one death may cost"] = max(outputs**2) * np.sqrt(np.pi / 2) / (2 * self.n**2)
        means, gains = data.students.isel(time=-1).mean("run"), self._gains(data, self.lesson)
        found |= {f"students, {scheme}: mean end": mean for scheme, mean in means.each("scheme")}
        for scheme in list(LESSON)[1:]:
            found[f"students, {scheme} over plain descent at the end"] = _geometric(gains.sel(scheme=scheme))
        found |= {f"students, {scheme}: excess over weights": cost for scheme, cost in self._jumped(data).items()}
        scores = _excess(data, "moments").max("number").each("bowl", "scheme")
        return found | {f"Gaussian, {bowl}, {scheme}: worst score": score for (bowl, scheme), score in scores}

    @panel(
        "Re-injection leaves a bad start",
        "A mixture of three Gaussians learned by {n} bumps that all start in the left one. Descent, weights and "
        "cloning keep to what they have; re-injected particles find the rest.",
        columns=2,
        size=(10.2, 4.2),
        width_ratios=(1, 1.15),
    )
    def escape(self, axes, data):
        (left, right), xs = axes, np.linspace(-5, 5, 300)
        right.plot(xs, problems.mixture(xs), color=style.INK, linewidth=4, alpha=0.25, label="target")
        for order, (scheme, risks) in enumerate(data.mixture.each("scheme")):
            look = {"color": style.colour(order), "linestyle": DASHES[order], "label": scheme}
            (a, m), weights = data.mixture_atoms.sel(scheme=scheme).values.T, data.mixture_weights.sel(scheme=scheme)
            left.plot(risks.labels("time"), risks.mean("run"), **look)
            right.plot(xs, weights * a @ np.exp(-((xs[None] - m[:, None]) ** 2)), **look)
        left.set(yscale="log", xlabel="time t", ylabel="risk")
        right.set(xlabel="x", ylabel="network at the end")
        style.legend_above(right)

    @panel(
        "The closed forms",
        "Left: growth alone from a flat start lowers the mean of F = ½|θ|² exactly like p / 2αt. Right: means and "
        "covariances of particles under transport, growth and noise, five numbers for each setting: standard errors, "
        "beyond what the step dt may err, they are from the closed form; dashed the bounds.",
        columns=2,
        size=(10.2, 3.9),
    )
    def closed_forms(self, axes, data):
        left, right = axes
        for order, (p, F) in enumerate(data.growth_alone.sel(time=lambda t: t > 0).each("p")):
            times, shown = F.labels("time"), np.unique(np.geomspace(1, len(F), 14).astype(int)) - 1
            look = {"color": style.MUTED, "linewidth": 1.0, "label": None if order else "p / 2αt"}
            left.plot(times, p / (2 * ALONE * times), **look)
            left.plot(times[shown], F[shown], style.marker(order), color=style.colour(order), label=f"p = {p}")
        left.set(xscale="log", yscale="log", xlabel="time t", ylabel="mean of F", title="growth alone")
        left.legend()
        beyond = np.sign(data.moments - data.moments_exact) * np.maximum(_excess(data, "moments"), 0)
        for order, (scheme, scores) in enumerate(beyond.each("scheme")):
            places, look = np.arange(scores.size) + 0.3 * order, {"color": style.colour(order), "label": scheme}
            right.plot(places, scores.values.ravel(), style.marker(order), **look)
        for edge in (-4, 4):
            right.axhline(edge, color=style.MUTED, linestyle=style.DASHED, linewidth=1.0)
        right.set_xticks([2.15, 7.15, 12.15], [bowl.replace(" and", "\nand") for bowl in problems.BOWLS])
        right.set(ylabel="standard errors beyond O(dt)", title="Gaussians", ylim=(-6, 6))
        right.legend(loc="upper left", ncols=2)

    @panel(
        "Students with growth",
        "ReLU students of {width} units and a teacher of {units} in d = {d}: the exact risk, mean and range of "
        f"{{lessons}} runs. Growth descends faster at first (dotted: t = {EARLY:g}); late, the noise of the jumps "
        "costs more than growth gains, and less where each particle is there twice.",
    )
    def learning(self, axis, data):
        style.curves(axis, data.students.labels("time"), dict(data.students.each("scheme")), band="range")
        axis.axvline(EARLY, color=style.MUTED, linewidth=1.0, linestyle=":")
        axis.set(yscale="log", xlabel="time t", ylabel="risk")
        axis.legend(loc="upper right")


def _descents(key, risk, schemes, starts, rates, *, dt, horizon):
    """The risks (scheme, run, time) of flows from the same starts, and where they end; plain descent does not grow."""
    fields = {scheme: Descend(risk, **rates) for scheme in schemes}
    fields["plain descent"] = Descend(risk, **rates | {"growth": None})
    steps, keys = round(horizon / dt), jax.random.split(key, len(jax.tree.leaves(starts)[0]))
    options = {"dt": dt, "steps": steps, "probes": {"risk": risk}, "every": max(1, steps // 50), "progress": tell}
    found = flow(fields, schemes, starts, key=keys, **options)
    paths = [found[scheme] for scheme in schemes]
    labels = {"scheme": schemes, "time": paths[0].times[0]}
    return named([path.probes["risk"] for path in paths], "scheme", "run", "time", **labels), [p.cloud for p in paths]


def _compared(name, found, exact, euler):
    """Means over runs and their standard errors, the closed form, and twice what Euler's method errs on it."""
    stated = {f"{name}_exact": named(exact, "number"), f"{name}_slack": named(2 * np.abs(euler - exact), "number")}
    return {name: found.mean("run"), f"{name}_error": found.sem("run"), **stated}


def _excess(data, name):
    """Distances to the closed form beyond O(dt), in standard errors."""
    return (np.abs(data[name] - data[f"{name}_exact"]) - data[f"{name}_slack"]) / data[f"{name}_error"]


def _geometric(ratios):
    return np.exp(np.log(ratios).mean("run"))
