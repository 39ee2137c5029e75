"""A law in a thousand dimensions that moves in two or three: one neuron to learn, and two Gaussians to tell apart."""

from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from pydantic import Field

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import Grid, fokker_planck
from haarflow.dynamics.pairwise import Pairwise
from haarflow.dynamics.reduced import best_norm, radial_risk, reduced_risk, reduced_start
from haarflow.dynamics.schemes import Adaptive, Euler, Heun
from haarflow.experiments import _reduced as panels
from haarflow.learning.data import Sample, Teacher, TwoGaussians
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.sphere import ReluRisk, one_neuron, relu_coordinates, unit_vectors
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.models.neurons import Neuron
from haarflow.models.units import Dense
from haarflow.runs.experiment import Count, Experiment, Horizon, Positive, Step, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

Sizes = Annotated[tuple[Count, ...], Field(min_length=2)]

SINGLE = uniform(np.ones((1, 2)))  # the teacher: one ReLU neuron along its own direction
LEARNT = 0.1  # a run has learnt when its risk is this share of its start
PUBLISHED = {0.1: 0.6288, 0.2: 0.3411, 0.3: 0.1392, 0.4: 0.0256}
SCANNED = np.round(np.linspace(0.05, 0.8, 16), 3)
BOX = Grid((-1.5, 0.0), (2.0, 2.0), (28, 16))  # of (s, r), the coarsest; cells of side 1/8


class Reduced(Experiment):
    """The training of a network on one neuron in R^d is a flow in three numbers (a, s, r), whose law solves a plain
    continuity equation; wide networks follow it, its risk goes to zero, and so a number of neurons that does not
    depend on d learns from O(d) samples. Two Gaussians of different variance are told apart by a flow in one number.

    Source: lecture 7 on mean-field networks (the single neuron, two Gaussians), after A mean field view of the
    landscape of two-layer neural networks (arXiv 1804.06561).

    One neuron: x ~ N(0, I), y = relu(x₁), students a relu(<w, x>) with a = ±1 and w ~ N(0, I/d) at the start, s = w₁
    and r the norm of the rest, which starts as d^{−1/2} times the norm of a Gaussian in d − 1 dimensions. The lecture
    prints a term (1/r) ∂_r(r …); a law that is pushed forward has none. The equation is solved along characteristics
    from a Gauss quadrature of the start, with a Gauss–Jacobi average over the angle of two rests. Networks draw a
    quarter of their neurons and add the images under a → −a and w → −w, symmetries of the start: so their laws start
    with the right means. One-pass SGD takes one fresh sample a step, of size `rate`/d. On a grid of (s, r), with a = 1
    kept and in the field of the characteristics, the equation conserves mass to rounding.

    Two Gaussians: N(0, (1 ± Δ)² I), units ramp(<w, x>), the risk E(y − f)², which is the square loss without a half.
    The optimum over all laws of |w| is a convex program on a grid. The reduced flow in R^d is exact: the average over
    directions and the norms |x| are those of R^d. The published values are those of the limit of high dimension.

    The field `fault` plants a mistake on purpose: `printed` adds the term (1/r) ∂_r(r …) to the equation on the grid.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 25.0

    d: Count = 40
    width: Annotated[int, Field(ge=4, multiple_of=4)] = 1600
    horizon: Horizon = 10.0
    late: Horizon = 200.0
    dims: Sizes = (10, 20, 40, 80, 160)
    neurons: Sizes = (2, 8, 64)
    runs: Count = 12
    rate: Step = 0.25
    refinements: Annotated[int, Field(ge=2)] = 3
    deltas: tuple[Positive, ...] = (0.2, 0.4, 0.6)
    gaussian_width: Count = 1600
    gaussian_d: Count = 40
    batch: Count = 50
    dt: Step = 0.001
    fault: Literal["none", "printed"] = "none"

    @classmethod
    def full(cls):
        return cls(runs=40, neurons=(2, 4, 8, 16, 32, 64, 128), rate=0.1, refinements=4, gaussian_width=6400, batch=400)

    def parts(self):
        return [
            "full",
            *(f"sgd d={d}" for d in sorted(self.dims, reverse=True)),
            "limit",
            "grid",
            "gaussians",
            "optima",
        ]

    def run(self, key, part):
        name, _, d = part.partition(" d=")
        if name == "sgd":
            return self.sgd(jax.random.fold_in(key, int(d)), int(d))
        return {
            "limit": self.limit,
            "full": self.network,
            "grid": self.grid,
            "gaussians": self.gaussians,
            "optima": self.optima,
        }[name](key)

    def limit(self, key) -> dict[str, np.ndarray]:
        """The risk of the reduced flow at every d: often up to the horizon, then rarely up to a late time."""
        dims = sorted({self.d, *self.dims})
        energies = [reduced_risk(SINGLE, d, nodes=8) for d in dims]
        clouds = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(reduced_start(d, along=10, across=2) for d in dims))
        keys, fields = jax.random.split(key, len(dims)), [Descend(energy) for energy in energies]
        times, risks = [np.zeros(1)], []
        for steps, dt in ((20, self.horizon / 20), (8, (self.late - self.horizon) / 8)):
            path = flow(
                fields,
                Adaptive(rtol=1e-5, atol=1e-7),
                clouds,
                key=keys,
                dt=dt,
                steps=steps,
                probes={"atoms": _atoms},
                every=1,
                progress=False,
            )
            first = 1 if risks else 0
            rows = zip(energies, path.cloud.weights, path.probes["atoms"], strict=True)
            found = np.stack(
                [np.asarray(_risks(energy, weights, jnp.asarray(atoms))) for energy, weights, atoms in rows]
            )
            risks.append(found[:, first:])
            times.append(times[-1][-1] + path.times[0][1:])
            clouds = path.cloud
        return {"times": np.concatenate(times), "risks": np.concatenate(risks, axis=1), "dims": np.array(dims)}

    def network(self, key) -> dict[str, np.ndarray]:
        """One wide network in R^d under the exact gradient, and its particles as (a, s, r)."""
        risk, steps = ReluRisk(one_neuron(self.d)), 40
        path = flow(
            Descend(risk),
            Heun(),
            uniform(_starts(generator(key), (self.width,), self.d)),
            key=key,
            dt=self.horizon / steps,
            steps=steps,
            probes={"risk": risk, "law": FirstLaw(self.d)},
            every=steps // 10,
            progress=tell,
        )
        return {"times": path.times, "risk": path.probes["risk"], "law": path.probes["law"][[0, 2, -1]]}

    def sgd(self, key, d: int) -> dict[str, np.ndarray]:
        """Risks (neurons, runs, times) of one-pass SGD, a sample a step; fewer neurons are those with mass."""
        draw, most = generator(key), max(self.neurons)
        shape = (len(self.neurons), self.runs, most)
        atoms = _starts(draw, shape, d).reshape(-1, most, d + 1)
        masses = np.stack([np.where(np.arange(most) < m, 1 / m, 0.0) for m in self.neurons])
        weights = np.repeat(masses, self.runs, axis=0)
        lesson = one_neuron(d)
        risk = Risk(Neuron(d), Teacher(Neuron(d), lesson, 1))
        dt = self.rate / d
        path = flow(
            Descend(risk),
            Euler(),
            Cloud(atoms, weights),
            key=jax.random.split(key, len(atoms)),
            dt=dt,
            steps=round(self.horizon / dt),
            probes={"risk": ReluRisk(lesson)},
            every=round(self.horizon / dt / 20),
            progress=tell,
        )
        return {"times": path.times[0], "risk": path.probes["risk"].reshape(*shape[:2], -1)}

    def grid(self, key) -> dict[str, np.ndarray]:
        """The continuity equation of (s, r) on grids of smaller and smaller cells, against characteristics."""
        levels = []
        for level in range(self.refinements):
            levels.append(self._level(key, level))
            tell((level + 1) / self.refinements)
        each = {name: np.stack([found[name] for found in levels]) for name in ("error", "mass")}
        return {"errors": each["error"], "mass": each["mass"], "curve": levels[0]["curve"]} | {
            name: levels[-1][name] for name in ("densities", "characteristics", "weights")
        }

    def _level(self, key, level: int) -> dict[str, np.ndarray]:
        """One grid; on the coarsest, for comparison, the mass with the printed term as well."""
        d, dt, steps = 10, 0.1 / 2**level, 20 * 2**level
        energy, start = reduced_risk(SINGLE, d, nodes=6), reduced_start(d, outputs=(1.0,), along=10, across=2)
        path = flow(
            restrict(Descend(energy), np.diag([0.0, 1.0, 1.0]), through="start"),
            Heun(),
            start,
            key=key,
            dt=dt,
            steps=steps,
            probes={"atoms": _atoms},
            every=1,
            progress=False,
        )
        box = Grid(BOX.low, BOX.high, [cells * 2**level for cells in BOX.cells])
        laws = [Cloud(atoms, start.weights) for atoms in path.probes["atoms"]]
        rows = _on_grid(energy, box, laws, d, dt, self.fault == "printed")
        mass = rows.sum(1)
        return {
            "error": _moments(box.centres, rows[-1]) - _moments(laws[-1].atoms[:, 1:], laws[-1].weights),
            "mass": np.abs(mass - 1).max(),
            "curve": mass if level else np.stack([mass, _on_grid(energy, box, laws, d, dt, True).sum(1)]),
            "densities": rows[[0, steps // 4, steps]].reshape(3, *box.cells) / box.volume,
            "characteristics": path.probes["atoms"][:, :, 1:],
            "weights": np.asarray(start.weights),
        }

    def optima(self, key) -> dict[str, np.ndarray]:
        """The best single norm and the best law at each delta, and the delta at which they part."""
        norms = np.geomspace(0.05, 60, 801)[:, None]
        singles = np.array([best_norm(radial_risk(float(delta)))[1:] for delta in SCANNED])
        laws = np.array([optimum(radial_risk(float(delta)), norms)[1:] for delta in SCANNED])
        low, high = 0.3, 0.7
        while high - low > 1e-5:
            middle = (low + high) / 2
            low, high = (middle, high) if best_norm(radial_risk(middle))[2] < 1e-7 else (low, middle)
        published = np.array([best_norm(radial_risk(delta))[1] for delta in PUBLISHED])
        return {"single": singles, "law": laws, "threshold": np.asarray(low), "published": published}

    def gaussians(self, key) -> dict[str, np.ndarray]:
        """SGD of wide networks, and the reduced flow in R^d, for each delta: risks (deltas, times)."""
        from scipy.stats import chi

        d, draw = self.gaussian_d, generator(key)
        unit, steps = Dense(d, 1, "ramp"), round(0.8 / self.dt)
        every = steps // 20
        starts = uniform(0.8 / np.sqrt(d) * draw.normal(size=(self.gaussian_width, d)))
        norms = uniform(0.8 / np.sqrt(d) * chi(d).ppf((np.arange(40)[:, None] + 0.5) / 40))
        found = {"sgd": [], "reduced": [], "best": []}
        # held-out inputs of random directions, whose norms are the quantiles of their law
        lengths, labels = np.tile(chi(d).ppf((np.arange(500) + 0.5) / 500), 2), np.repeat([1.0, -1.0], 500)
        rays = lengths[:, None] * unit_vectors(draw, (1000, d))
        for place, delta in enumerate(self.deltas):
            xs, ys = jnp.asarray((1 + delta * labels[:, None]) * rays), jnp.asarray(labels[:, None])
            path = flow(
                Descend(Risk(unit, TwoGaussians(d, delta, self.batch), "square")),
                Euler(),
                starts,
                key=key,
                dt=self.dt,
                steps=steps,
                probes={"risk": Risk(unit, Sample(xs, ys), "square")},
                every=every,
                progress=False,
            )
            risk = radial_risk(delta, d=d)
            ideal = flow(
                Descend(risk),
                Heun(),
                norms,
                key=key,
                dt=4 * self.dt,
                steps=steps // 4,
                probes={"risk": risk},
                every=every // 4,
                progress=False,
            )
            found["sgd"].append(path.probes["risk"])
            found["reduced"].append(ideal.probes["risk"])
            found["best"].append(optimum(risk, np.geomspace(0.05, 60, 301)[:, None]).value)
            tell((place + 1) / len(self.deltas))
        return {name: np.array(values) for name, values in found.items()} | {
            "times": self.dt * every * np.arange(len(found["sgd"][0]))
        }

    def samples(self, data) -> np.ndarray:
        """Samples until a run with the most neurons has learnt, (runs, dims)."""
        columns = []
        for d in self.dims:
            times, risks = data[f"sgd d={d}/times"], data[f"sgd d={d}/risk"][-1]
            columns.append([_first(times, risk / risk[0]) * d / self.rate for risk in risks])
        return np.array(columns).T

    def enough(self, data) -> np.ndarray:
        """The fewest neurons of which every run learns, at each d."""
        shares = [data[f"sgd d={d}/risk"] for d in self.dims]
        learnt = [(share[..., -1] < LEARNT * share[..., 0]).all(1) for share in shares]
        return np.array(
            [next((m for m, good in zip(self.neurons, row, strict=True) if good), np.inf) for row in learnt]
        )

    def behind(self, data) -> np.ndarray:
        """The risk at the horizon of SGD with the most neurons, over that of the reduced flow: (runs, dims)."""
        at = np.argmin(np.abs(data["limit/times"] - self.horizon))
        limits = dict(zip(data["limit/dims"].tolist(), data["limit/risks"][:, at], strict=True))
        return np.stack([data[f"sgd d={d}/risk"][-1][:, -1] / limits[d] for d in self.dims], axis=1)

    def gap(self, data) -> np.ndarray:
        """Full network over reduced flow, minus one, at every recorded time."""
        row = data["limit/risks"][list(data["limit/dims"]).index(self.d)]
        return data["full/risk"] / np.interp(data["full/times"], data["limit/times"], row) - 1

    def verdict(self, data):
        risks = data["limit/risks"]
        samples, enough = self.samples(data), self.enough(data)
        cells = 2.0 ** np.arange(self.refinements)
        order = -slope(cells, np.linalg.norm(data["grid/errors"], axis=1)).value
        single, law = data["optima/single"], data["optima/law"]
        under, over = data["optima/threshold"] > SCANNED, data["optima/threshold"] < SCANNED
        reduced = data["gaussians/reduced"]
        off = np.abs(data["gaussians/sgd"] - reduced) / reduced[:, :1]
        return {
            f"one neuron, d = {self.d}: width {self.width} is within 5% of the reduced risk at all times": below(
                np.abs(self.gap(data)).max(), 0.05
            ),
            f"one neuron: at t = {self.late:g} the reduced risk is below 0.1% of its start, at every d": below(
                (risks[:, -1] / risks[:, 0]).max(), 1e-3
            ),
            "one neuron: samples until the risk is 10% of its start, slope in d between 0.9 and 1.1": between(
                slope(self.dims, samples, centre="mean").value if np.isfinite(samples).all() else np.nan, 0.9, 1.1
            ),
            "one neuron: neurons with which every run learns, slope in d below 0.25": below(
                slope(self.dims, enough).value if np.isfinite(enough).all() else np.nan, 0.25
            ),
            f"one neuron: risk of {self.neurons[-1]} neurons over the reduced risk, slope in d below 0.1": below(
                slope(self.dims, self.behind(data)).value, 0.1
            ),
            "grid: the continuity equation conserves mass to 1e-12": below(data["grid/mass"].max(), 1e-12),
            "grid: moments approach those of the characteristics with order between 0.8 and 1.2": between(
                order, 0.8, 1.2
            ),
            "two Gaussians: the best single norm has the published risks at Δ = .1, .2, .3, .4, to 1e-4": below(
                np.abs(data["optima/published"] - list(PUBLISHED.values())).max(), 1e-4
            ),
            "two Gaussians: below the threshold no law is better than one norm, to 1e-4": below(
                (single[under, 0] - law[under, 0]).max(), 1e-4
            ),
            "two Gaussians: above the threshold the best law has risk zero, to 1e-6": below(law[over, 0].max(), 1e-6),
            "two Gaussians: one norm is optimal up to Δ between 0.4735 and 0.4745": between(
                data["optima/threshold"], 0.4735, 0.4745
            ),
            "two Gaussians: SGD is within 2% of the start risk of the reduced flow at all times": below(
                off.max(), 0.02
            ),
        }

    def figures(self, data):
        risks, dims = data["limit/risks"], data["limit/dims"]
        numbers = {"full network over reduced flow, at the end": 1 + self.gap(data)[-1]}
        numbers |= {
            f"reduced risk over its start, d = {d}": row[-1] / row[0] for d, row in zip(dims, risks, strict=True)
        }
        samples, enough, behind = self.samples(data), self.enough(data), self.behind(data)
        for i, d in enumerate(self.dims):
            numbers |= {f"samples / d, d = {d}": np.median(samples[:, i]) / d, f"neurons, d = {d}": enough[i]}
            numbers[f"SGD over reduced risk, d = {d}"] = np.median(behind[:, i])
        numbers |= {
            "threshold": data["optima/threshold"],
            "mass error of the printed term": np.abs(data["grid/curve"][1] - 1).max(),
        }
        for delta, sgd, reduced, best in zip(
            self.deltas, data["gaussians/sgd"], data["gaussians/reduced"], data["gaussians/best"], strict=True
        ):
            numbers |= {
                f"Δ = {delta:g}: SGD at the end": sgd[-1],
                f"Δ = {delta:g}: reduced flow at the end": reduced[-1],
            }
            numbers[f"Δ = {delta:g}: least risk in R^d"] = best
        return numbers

    def panels(self, data):
        return [
            panels.over_dimensions(self, data),
            panels.particles(self, data),
            panels.mass(self, data),
            panels.gaussians(self, data),
        ]


class InField(eqx.Module):
    """Psi of a place (s, r) with output one, in the field of a law of (a, s, r)."""

    energy: Pairwise
    cloud: Cloud

    def __call__(self, place: Float[Array, "2"]) -> Float[Array, ""]:
        """Its value."""
        return self.energy.at(jnp.concatenate([jnp.ones(1), place]), self.cloud)


class FirstLaw(eqx.Module):
    """The probe of particles (a, w) as (a, s, r), s along the first coordinate."""

    d: int

    def __call__(self, cloud: Cloud) -> Float[Array, "n 3"]:
        """The particles in three numbers."""
        return relu_coordinates(cloud.atoms, jnp.eye(self.d)[:, :1])


def _starts(draw: np.random.Generator, shape: tuple[int, ...], d: int) -> np.ndarray:
    """Particles (a, w), every w drawn four times in a row: with both signs of w and both outputs ±1."""
    *lead, m = shape
    ways = draw.normal(size=(*lead, -(-m // 4), 1, d)) / np.sqrt(d) * np.array([1.0, -1.0, 1.0, -1.0])[:, None]
    outputs = np.broadcast_to(np.array([1.0, -1.0, -1.0, 1.0])[:, None], (*ways.shape[:-1], 1))
    return np.concatenate([outputs, ways], axis=-1).reshape(*lead, -1, d + 1)[..., :m, :]


def _atoms(cloud: Cloud):
    return cloud.atoms


@eqx.filter_jit
def _risks(energy: Pairwise, weights, atoms):
    return jax.vmap(lambda moved: energy(Cloud(moved, weights)))(atoms)


@eqx.filter_jit
def _slopes(field: InField, places):
    return jax.vmap(jax.grad(field))(places)[:, 1]


def _on_grid(energy: Pairwise, box: Grid, laws: list[Cloud], d: int, dt: float, printed: bool) -> np.ndarray:
    """The weights of all cells at every step, from the exact masses of the start; with the printed term or without."""
    from scipy.special import ndtr
    from scipy.stats import chi

    along, across = ndtr(box.edges(0) * np.sqrt(d)), chi(d - 1).cdf(box.edges(1) * np.sqrt(d))
    weights = np.outer(np.diff(along), np.diff(across)).ravel()
    rows, places = [weights / weights.sum()], jnp.asarray(box.centres)
    for law in laws[:-1]:
        field = InField(energy, law)
        cloud = Cloud(box.centres, rows[-1] / rows[-1].sum())
        moved = fokker_planck(Penalty(1.0, field), box, cloud, temperature=0.0, dt=dt, steps=1).weights[-1]
        if printed:
            moved = moved * (1 + dt * np.asarray(_slopes(field, places)) / box.centres[:, 1])
        rows.append(rows[-1].sum() * moved)
    return np.stack(rows)


def _moments(places, weights) -> np.ndarray:
    places, weights = np.asarray(places), np.asarray(weights)
    return np.concatenate([weights @ places, weights @ places**2]) / weights.sum()


def _first(times, shares) -> float:
    """When a curve first falls below LEARNT, between records on a logarithmic scale; infinite if it does not."""
    below_it = np.flatnonzero(shares < LEARNT)
    if not len(below_it):
        return np.inf
    i = below_it[0]
    here, there = np.log(shares[i - 1]), np.log(shares[i])
    return times[i - 1] + (times[i] - times[i - 1]) * (here - np.log(LEARNT)) / (here - there)
