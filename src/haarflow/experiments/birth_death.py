"""Transport with growth, by weights and by birth and death, against closed forms."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.dynamics import oracles
from haarflow.dynamics.birth_death import BirthDeath
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.oracles import QuadraticEnergy, gaussian_flow
from haarflow.dynamics.schemes import Euler, Langevin
from haarflow.learning.risks import Penalty
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, below, named, once, over, panel, power_law
from haarflow.runs.sizes import Count, Step

FITNESS, SHARES = np.array([0.0, 0.5, 2.0]), np.array([0.2, 0.3, 0.5])
ALONE = 2.0  # the rate of growth where nothing else happens

BOWLS = {  # H, b and A, the mean and the covariance of the start; rates. Symmetric matrices are given by three numbers.
    "transport and growth": ((2, 0.4, 0.5), (0.5, -0.5), (0, 0, 0), (1, -1), (0.5, 0.1, 1), 1.0, 1.2, 0.0),
    "noise and interaction": (
        (1, 0.3, 0.8),
        (-0.4, 0.2),
        (0.4, 0.1, -0.2),
        (0.7, 0.9),
        (0.8, -0.2, 0.4),
        1.0,
        0.6,
        0.3,
    ),
    "growth leads": ((1.5, -0.5, 1.2), (0.3, 0.6), (0.2, 0, 0.3), (-0.8, 0.5), (1, 0.3, 0.7), 0.2, 2.0, 0.1),
}


class BirthDeathDynamics(Experiment):
    """Growth added to transport has two discretisations, weights and the unbiased birth–death process, that agree with
    the same closed forms: for Gaussians under transport, growth and noise, for atoms of different fitness, and for
    growth alone, which descends like 1/t.

    Source: Global convergence of neuron birth–death dynamics (arXiv 1902.01843).

    `mu' = div(mu ∇Psi) − alpha (Psi − mean Psi) mu`; above the average is killed (the paper's section 5 prints it the
    other way round). Gaussian oracle: five numbers a set and scheme, each within four standard errors of the runs
    plus twice what Euler's method errs on the equations themselves; replicator oracle the same; a false alarm has
    probability 1e-3 a number, and the seed is fixed. What growth is good for is told by the experiment `growth`.
    """

    group = "dynamics"
    seconds = 12.0
    faults = {
        "half growth": "the particles grow at half the stated rate",
        "fast growth": "the particles grow at 1.1 times the stated rate",
    }

    particles: Count = 1200  # particles of each Gaussian
    runs: Count = 16  # runs of each Gaussian
    dt: Step = 0.02  # step of the Gaussians

    @classmethod
    def full(cls):
        return cls(particles=20_000, runs=32, dt=0.005)

    def design(self):
        yield self.gaussian, over(bowl=BOWLS)
        yield self.replicator, once()
        yield self.alone, once()

    def _growth(self, alpha):
        return alpha * {"half growth": 0.5, "fast growth": 1.1}.get(self.fault, 1.0)

    def gaussian(self, key, bowl):
        """Five moments at t = 0.8, for weights and for birth and death, with what they are compared to."""
        bowl, steps, keys = _bowl(bowl), round(0.8 / self.dt), jax.random.split(key, self.runs)
        normal = generator(key).normal(size=(self.runs, self.particles, 2))
        clouds = uniform(bowl.mean + normal @ np.linalg.cholesky(bowl.covariance).T)
        schemes = {"weights": Langevin(Euler(), bowl.beta), "birth–death": BirthDeath(Langevin(Euler(), bowl.beta))}
        field = Descend(bowl.energy, transport=bowl.transport, growth=self._growth(bowl.alpha))
        paths = flow(dict.fromkeys(schemes, field), schemes, clouds, key=keys, dt=self.dt, steps=steps)
        found = [planar_moments(paths[scheme].cloud) for scheme in schemes]
        closed = (bowl.moments(self.dt * steps, step) for step in (None, self.dt))
        return _compared("moments", named(found, "scheme", "run", "number", scheme=schemes), *closed)

    def replicator(self, key):
        """Three atoms of different fitness: shares by weights and by birth and death, and in closed form."""
        alpha, steps, dt, euler = 1.5, 200, 0.005, SHARES
        places, field = np.sqrt(FITNESS)[:, None], Descend(Penalty(2.0), transport=0.0, growth=self._growth(alpha))
        exact = np.asarray(oracles.replicator(SHARES, FITNESS, alpha=alpha, time=dt * steps))
        weights = flow(field, Euler(), Cloud(places, SHARES), key=key, dt=dt, steps=steps).cloud.weights
        many = uniform(np.repeat(places, (500 * SHARES).astype(int), axis=0))
        ends = flow(field, BirthDeath(Euler()), many, key=jax.random.split(key, 64), dt=dt, steps=steps).cloud.atoms
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

    def numbers(self, data):
        scores = _excess(data, "moments").max("number").each("bowl", "scheme")
        return {f"Gaussian, {bowl}, {scheme}: worst score": score for (bowl, scheme), score in scores}

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
        right.set_xticks([2.15, 7.15, 12.15], [bowl.replace(" and", "\nand") for bowl in BOWLS])
        right.set(ylabel="standard errors beyond O(dt)", title="Gaussians", ylim=(-6, 6))
        right.legend(loc="upper left", ncols=2)


def _compared(name, found, exact, euler):
    """Means over runs and their standard errors, the closed form, and twice what Euler's method errs on it."""
    stated = {f"{name}_exact": named(exact, "number"), f"{name}_slack": named(2 * np.abs(euler - exact), "number")}
    return {name: found.mean("run"), f"{name}_error": found.sem("run"), **stated}


def _excess(data, name):
    """Distances to the closed form beyond O(dt), in standard errors."""
    return (np.abs(data[name] - data[f"{name}_exact"]) - data[f"{name}_slack"]) / data[f"{name}_error"]


class Bowl(NamedTuple):
    """A quadratic energy, a Gaussian start in the plane, and the rates of transport, growth and noise."""

    energy: QuadraticEnergy
    mean: np.ndarray
    covariance: np.ndarray
    transport: float
    alpha: float
    beta: float

    def moments(self, time: float, step: float | None = None) -> np.ndarray:
        """The five moments in closed form; with `step`, what Euler's method makes of their equations."""
        rates = {"transport": self.transport, "alpha": self.alpha, "beta": self.beta}
        start = self.mean, self.covariance
        means, covariances = gaussian_flow(self.energy, *start, times=np.array([time]), step=step, **rates)
        return _five(means[-1], covariances[-1])


def _bowl(name: str) -> Bowl:
    """One of the bowls."""
    H, b, A, mean, covariance, *rates = BOWLS[name]
    H, A, covariance = (np.array([row[:2], row[1:]], float) for row in (H, A, covariance))
    return Bowl(QuadraticEnergy(H, np.array(b, float), A), np.array(mean, float), covariance, *rates)


def planar_moments(clouds: Cloud) -> Float[np.ndarray, "r k"]:
    """The five moments of each cloud of a stack."""
    away = clouds.atoms - clouds.mean()[:, None]
    return _five(clouds.mean(), jnp.einsum("rn,rni,rnj->rij", clouds.weights, away, away))


def _five(mean, covariance) -> np.ndarray:
    return np.concatenate([mean, covariance[..., *np.triu_indices(2)]], axis=-1)
