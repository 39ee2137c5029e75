"""The energy of a network as particles see it: pairs, dissipation, the continuity equation, sampling, optimality."""

from itertools import product
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.dynamics.fields import Descend, Field, Tangent
from haarflow.dynamics.flow import flow
from haarflow.dynamics.limits import (
    dissipation,
    first_variation,
    optimality_gap,
    pairwise,
    sampling_excess,
    settle,
    weak_rate,
)
from haarflow.dynamics.schemes import Adaptive, advance
from haarflow.learning.data import Sample
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.models.units import Bump, Dense, Perceptron, Quadratic, TwoLayer, Unit
from haarflow.runs.experiment import Count, Experiment, Panel, Positive, below, between
from haarflow.runs.statistics import slope

MODES = {"transport": (1.0, 0.0), "growth": (0.0, 1.3), "both": (0.7, 1.3)}
DRAWS = (1, 2, 3, 4)  # sizes M at which the static lemma is summed over every draw
SAMPLED = (4, 16, 64, 256)  # and those at which it is measured by sampling


def units() -> dict[str, Unit]:
    """The units under test, by the name the report shows."""
    return {
        "perceptron": Perceptron(3, 2, "tanh"),
        "dense": Dense(2, 2, "sigmoid"),
        "two-layer": TwoLayer(2, 3, 1, "tanh"),
        "quadratic": Quadratic(3),
        "bump": Bump(2),
    }


class Energy(Experiment):
    """The half square risk is an energy of particles and pairs; along transport, growth and both it falls at the rate
    the dissipation identity states, every smooth test function obeys the continuity equation, M draws from a law cost
    (∫U(θ,θ) − ∬U)/2M, and at a minimiser the support lies where the first variation is least.

    Source: lectures 7 and 8 on mean-field networks (energy, continuity equation, static lemma, optimality condition).

    One convention: `R = ½E|f − Y|² = ½E|Y|² + ∫V dmu + ½∬U dmu dmu`, so that `Psi = V + ∫U dmu` and particles move by
    `−∇Psi`. The lemma is printed with 1/M in the lectures, which belongs to the risk without its half. Expectations
    over M draws are summed over all draws, without sampling error; the slope in M is measured by sampling. The
    minimiser is a convex program on a grid, then settled off the grid in atoms and weights.

    The field `fault` plants a mistake on purpose, to see the matching verdict fail: `printed lemma` uses 1/M in place
    of 1/2M, `double speed` moves the particles by −2∇Psi, `no growth` forgets the growth in the weak form.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 2.0

    atoms: Count = 9
    samples: Count = 7
    clouds: Count = 8
    tests: Count = 6
    repetitions: Count = 4000
    tau: Positive = 0.02
    cells: Count = 41
    fault: Literal["none", "printed lemma", "double speed", "no growth"] = "none"

    @classmethod
    def full(cls):
        return cls(atoms=40, samples=20, clouds=40, tests=20, repetitions=20000, cells=61)

    def parts(self):
        return [*units(), "along a flow", "minimiser"]

    def run(self, key, part):
        if part in units():
            return self.identities(key, units()[part])
        return {"along a flow": self.along, "minimiser": self.minimiser}[part](key)

    def identities(self, key, unit: Unit) -> dict[str, np.ndarray]:
        """The failures of every identity for one unit, and what M draws cost."""
        draw = generator(key)
        xs = draw.normal(size=(self.samples, unit.inputs))
        risk = Risk(unit, Sample(xs, draw.normal(size=(self.samples, unit.outputs))))
        atoms = 0.7 * draw.normal(size=(self.clouds, self.atoms, unit.dim))
        clouds = Cloud(atoms, draw.dirichlet(np.full(self.atoms, 2.0), size=self.clouds))
        features = draw.normal(size=(self.tests, unit.dim + 1))
        first = jax.tree.map(lambda leaf: leaf[0], clouds)
        return {
            "sums": np.asarray(_sums(risk, clouds)),
            "dissipation": np.stack([np.asarray(self._dissipation(risk, clouds, mode)) for mode in MODES.values()]),
            "continuity": np.stack(
                [np.asarray(self._continuity(risk, clouds, features, mode)) for mode in MODES.values()]
            ),
            **self._lemma(draw, risk, first),
        }

    def _dissipation(self, risk: Risk, clouds: Cloud, mode: tuple[float, float]):
        speed = 2.0 if self.fault == "double speed" else 1.0
        return _dissipation_errors(risk + Penalty(self.tau), clouds, jnp.asarray(mode), jnp.asarray(speed))

    def _continuity(self, risk: Risk, clouds: Cloud, features: np.ndarray, mode: tuple[float, float]):
        forgetful = jnp.asarray(0.0 if self.fault == "no growth" else 1.0)
        waves = jnp.asarray(features)
        return _continuity_errors(risk + Penalty(self.tau), clouds, waves, jnp.asarray(mode), forgetful)

    def along(self, key) -> dict[str, np.ndarray]:
        """`∫test dmu_T − ∫test dmu_0 = ∫_0^T (d/dt ∫test dmu) dt` along an accurate flow, relative to what moved."""
        from scipy.integrate import simpson

        draw, unit = generator(key), units()["dense"]
        data = Sample(draw.normal(size=(self.samples, 2)), draw.normal(size=(self.samples, 2)))
        cloud = Cloud(0.7 * draw.normal(size=(self.atoms, 4)), draw.dirichlet(np.full(self.atoms, 2.0)))
        field = Descend(Risk(unit, data) + Penalty(self.tau), transport=0.7, growth=1.3)
        probe = Watch(field, jnp.asarray(draw.normal(size=(self.tests, 5))))
        path = flow(
            field, Adaptive(), cloud, key=jax.random.key(0), dt=0.01, steps=100, probes={"watch": probe}, every=1
        )
        values, rates = path.probes["watch"][:, 0], path.probes["watch"][:, 1]
        moved, stated = values[-1] - values[0], simpson(rates, x=path.times, axis=0)
        return {"error": np.asarray(np.abs(moved - stated).max() / np.abs(moved).max())}

    def _lemma(self, draw, risk: Risk, cloud: Cloud) -> dict[str, np.ndarray]:
        """The static lemma: exactly on four atoms at small M, and by sampling at large M."""
        few = Cloud(cloud.atoms[:4], cloud.weights[:4] / cloud.weights[:4].sum())
        factor = 2.0 if self.fault == "printed lemma" else 1.0
        wanted = factor * float(sampling_excess(risk, few, 1))
        exact = [_every_draw(risk, few, m) * m / wanted - 1 for m in DRAWS]
        together = np.asarray(eqx.filter_jit(pairwise(risk).sums)(cloud)[1])
        weights = np.asarray(cloud.weights)
        # The excess without its first-order term ∫Psi d(mu_M − mu), whose mean is zero.
        noise = [draw.multinomial(m, weights, size=self.repetitions) / m - weights for m in SAMPLED]
        excess = np.array([np.mean(np.einsum("ri,ij,rj->r", c, together, c)) / 2 for c in noise])
        stated = np.array([factor * float(sampling_excess(risk, cloud, m)) for m in SAMPLED])
        return {"lemma": np.abs(exact), "excess": excess, "stated": stated}

    def minimiser(self, key) -> dict[str, np.ndarray]:
        """The best law for a network of tanh neurons in the plane: on a grid, then off it, with its certificates."""
        draw = generator(key)
        xs = 1.5 * draw.normal(size=(12, 2))
        ys = 0.45 * np.sin(1.7 * xs[:, :1] + 0.4) + 0.25 * np.cos(1.3 * xs[:, 1:])
        energy = Risk(Dense(2, 1, "tanh"), Sample(xs, ys)) + Penalty(self.tau)
        value = eqx.filter_jit(energy)
        axis, fine = np.linspace(-4, 4, self.cells), np.linspace(-4, 4, 4 * self.cells - 3)
        grid, places = _square(axis), _square(fine)
        best = optimum(energy, grid)
        settled = settle(energy, best.cloud, merge=1.5 * (axis[1] - axis[0]))
        potential = np.asarray(first_variation(energy, settled, jnp.asarray(places)))
        support = np.asarray(first_variation(energy, settled, settled.atoms))
        on_grid = np.asarray(first_variation(energy, best.cloud, best.cloud.atoms))
        heavy = np.asarray(best.cloud.weights) > 1e-3
        return {
            "grid spread": np.asarray(on_grid[heavy].max() - on_grid.min()),
            "grid value": np.asarray(best.value),
            "grid gap": np.asarray(best.gap),
            "value": np.asarray(value(settled)),
            "spread": np.asarray(support.max() - support.min()),
            "gap": np.asarray(optimality_gap(energy, settled, jnp.asarray(places))),
            "below": np.asarray(support.min() - potential.min()),
            "potential": potential.reshape(len(fine), len(fine)),
            "atoms": np.asarray(settled.atoms),
            "weights": np.asarray(settled.weights),
            "axis": fine,
        }

    def gather(self, pieces):
        along = {"along": pieces.pop("along a flow")["error"]}
        best = {f"minimiser/{name}": array for name, array in pieces.pop("minimiser").items()}
        names = list(next(iter(pieces.values())))
        stacked = {name: np.stack([piece[name] for piece in pieces.values()]) for name in names}
        return stacked | best | along | {"units": np.array(list(pieces))}

    def verdict(self, data):
        claims = {
            "particle sums equal the functional, its Psi and its velocity, to 1e-12": below(data["sums"].max(), 1e-12)
        }
        for i, mode in enumerate(MODES):
            worst = data["dissipation"][:, i].max()
            claims[f"dissipation identity, {mode}: relative error below 1e-6"] = below(worst, 1e-6)
        for i, mode in enumerate(MODES):
            worst = data["continuity"][:, i].max()
            claims[f"weak continuity equation, {mode}: relative error below 1e-6"] = below(worst, 1e-6)
        claims["weak continuity equation along a flow, both: relative error below 1e-6"] = below(data["along"], 1e-6)
        ratio = (data["excess"] / data["stated"]).mean()
        slopes = [slope(SAMPLED, row).value if (row > 0).all() else np.nan for row in data["excess"]]
        return claims | {
            "static lemma: M draws cost (∫U(θ,θ) − ∬U)/2M, every draw summed, to 1e-10": below(
                data["lemma"].max(), 1e-10
            ),
            "static lemma by sampling: measured over stated, on average within 5% of 1": between(ratio, 0.95, 1.05),
            "static lemma by sampling: mean slope in M between −1.05 and −0.95": between(np.mean(slopes), -1.05, -0.95),
            "minimiser on the grid: Psi on the support is within 1e-6 of its minimum": below(
                data["minimiser/grid spread"], 1e-6
            ),
            "minimiser off the grid: Psi is the same at every atom, to 1e-6": below(data["minimiser/spread"], 1e-6),
            "minimiser off the grid: nowhere is Psi lower by more than 1e-6": below(data["minimiser/below"], 1e-6),
            "minimiser: leaving the grid lowers the energy": below(
                data["minimiser/value"] - data["minimiser/grid value"], 1e-12
            ),
        }

    def figures(self, data):
        numbers = {f"dissipation error, {m}": data["dissipation"][:, i].max() for i, m in enumerate(MODES)}
        numbers |= {f"continuity error, {m}": data["continuity"][:, i].max() for i, m in enumerate(MODES)}
        names = ("grid value", "grid gap", "value", "gap", "spread", "below")
        numbers |= {f"minimiser, {name}": data[f"minimiser/{name}"] for name in names}
        numbers["continuity error, along a flow"] = data["along"]
        return numbers | {"atoms of the minimiser": len(data["minimiser/weights"]), "sums error": data["sums"].max()}

    def panels(self, data):
        return [self._potential_panel(data), self._lemma_panel(data)]

    def _potential_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour

            axis, values = data["minimiser/axis"], data["minimiser/potential"]
            left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
            height = values - values.min()
            levels = np.geomspace(1e-4, height.max(), 14)
            filled = left.contourf(axis, axis, np.maximum(height, 1e-4).T, levels, cmap="Blues_r", norm="log")
            figure.colorbar(filled, ax=left, format="%.0e", label=r"$\Psi - \min\Psi$")
            atoms, weights = data["minimiser/atoms"], data["minimiser/weights"]
            left.scatter(*atoms.T, s=20 + 400 * weights, facecolor=colour("EA"), edgecolor=INK, zorder=3)
            left.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", aspect="equal")
            distance = np.abs(_square(axis)[:, None, :] - atoms[None, :, :]).max(-1).min(-1)
            right.scatter(distance[::7], np.maximum(height.ravel()[::7], 1e-5), s=2, color=colour("vanilla"))
            right.set(
                yscale="log", ylim=(1e-5, None), xlabel="distance to the nearest atom", ylabel=r"$\Psi - \min\Psi$"
            )

        caption = (
            "The first variation at the computed minimiser of a penalised network of tanh neurons. Discs are its "
            "atoms, by weight: they sit exactly where Psi is least (left), and Psi rises away from them (right)."
        )
        return Panel("At the optimum, mass lives where Psi is least", caption, draw, size=(9.6, 4.2))

    def _lemma_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import MUTED, colour, legend, marker

            axis = figure.add_subplot()
            for order, name in enumerate(data["units"].tolist()):
                style = {"color": colour(name, order), "marker": marker(name, order), "linestyle": "none"}
                axis.plot(SAMPLED, np.maximum(data["excess"][order], 1e-12), label=name, **style)
                axis.plot(SAMPLED, data["stated"][order], color=MUTED, linewidth=1.0)
            axis.set(xscale="log", yscale="log", xlabel="draws M", ylabel=r"$\mathrm{E}\,R(\mu_M) - R(\mu)$")
            legend(axis)

        caption = (
            f"The mean excess risk of M independent draws, over {self.repetitions} repetitions (marks), on the line "
            "(∫U(θ,θ) − ∬U)/2M that the static lemma states."
        )
        return Panel("What sampling a law costs", caption, draw, size=(8.4, 3.8))


class Watch(eqx.Module):
    """Plane waves averaged over a cloud, and the rates that the weak form states for them: (2, tests)."""

    field: Field
    waves: Float[Array, "t q"]

    def __call__(self, cloud: Cloud) -> Float[Array, "2 t"]:
        """Values and rates."""
        tangent = self.field(jax.random.key(0), cloud)
        return jnp.stack([_averages(cloud, self.waves), _rates(cloud, tangent, self.waves)])


def _wave(theta, wave):
    return jnp.cos(wave[:-1] @ theta + wave[-1])


def _averages(cloud: Cloud, waves):
    return jax.vmap(lambda wave: cloud.weights @ jax.vmap(lambda theta: _wave(theta, wave))(cloud.atoms))(waves)


def _rates(cloud: Cloud, tangent: Tangent, waves):
    return jax.vmap(lambda wave: weak_rate(cloud, tangent, lambda theta: _wave(theta, wave)))(waves)


@eqx.filter_jit
def _continuity_errors(energy, clouds: Cloud, waves, mode, remembered):
    """Finite differences of averaged waves along one step, against the weak form, relative."""
    transport, growth = mode

    def one(cloud):
        tangent = Descend(energy, transport=transport, growth=growth)(jax.random.key(0), cloud)
        h = jnp.asarray(1e-5)
        ends = [_averages(advance(cloud, tangent, step), waves) for step in (h, -h)]
        measured = (ends[0] - ends[1]) / (2 * h)
        stated = _rates(cloud, Tangent(tangent.velocity, remembered * tangent.growth), waves)
        return jnp.abs(measured - stated).max() / jnp.abs(measured).max()

    return jax.vmap(one)(clouds)


@eqx.filter_jit
def _sums(risk: Risk, clouds: Cloud):
    """Risk, Psi and velocity: from the functional, and summed over pairs; the largest difference, cloud by cloud."""

    def one(cloud):
        energy, here = pairwise(risk), risk.variation(cloud)
        there = energy.variation(cloud)
        gaps = [jnp.abs(a - b).max() / (1 + jnp.abs(a).max()) for a, b in zip(here, there, strict=True)]
        return jnp.stack([jnp.abs(risk(cloud) - energy(cloud)), *gaps]).max()

    return jax.vmap(one)(clouds)


@eqx.filter_jit
def _dissipation_errors(energy, clouds: Cloud, mode, speed):
    """Finite differences of the energy along one step, against the stated rate, relative."""
    transport, growth = mode

    def one(cloud):
        tangent = Descend(energy, transport=speed * transport, growth=speed * growth)(jax.random.key(0), cloud)
        h = jnp.asarray(1e-5)
        measured = (energy(advance(cloud, tangent, h)) - energy(advance(cloud, tangent, -h))) / (2 * h)
        return jnp.abs(measured / dissipation(energy, cloud, transport=transport, growth=growth) - 1)

    return jax.vmap(one)(clouds)


def _every_draw(risk: Risk, cloud: Cloud, m: int) -> float:
    """`E R(mu_m) − R(mu)`, summed over all n^m draws."""
    rows = np.array(list(product(range(cloud.n), repeat=m)))
    chances = np.prod(np.asarray(cloud.weights)[rows], axis=1)
    counts = np.stack([np.mean(rows == i, axis=1) for i in range(cloud.n)], axis=1)
    values = np.asarray(_reweighted(risk, cloud.atoms, jnp.asarray(counts)))
    return float(chances @ values - _reweighted(risk, cloud.atoms, cloud.weights[None])[0])


@eqx.filter_jit
def _reweighted(risk: Risk, atoms, weights):
    return jax.vmap(lambda w: risk(Cloud(atoms, w)))(weights)


def _square(axis: np.ndarray) -> np.ndarray:
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
