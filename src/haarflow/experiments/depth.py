"""Depth separation: what a shallow network cannot hold, one layer more is; slow functions a shallow one follows."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Optax
from haarflow.learning.data import Stream
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import unit_vectors
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.depth_separation import coordinate_energy, least_norm, oscillating_unit, oscillation, ridge_energy
from haarflow.models.networks import network
from haarflow.models.units import Perceptron
from haarflow.runs.experiment import Experiment, above, below, between, named, once, over, panel, power_law, stream
from haarflow.runs.sizes import Count, Positive, Sizes
from haarflow.runs.style import INK, curves, legend, power_laws

BEST = "best direction found"
DIRECTIONS = ("one coordinate", "sum of all", BEST)
TESTS = 4000  # inputs on which trained networks are compared with the target


class Depth(Experiment):
    """No shallow network of moderate norm holds exp(iω Σ relu(x_j)) in many dimensions, while one layer more is that
    function: the energy that any one direction holds falls exponentially in d. Deep ReLU networks on the sphere, which
    do not oscillate, are followed by shallow ones at a power of the width, at every depth.

    Source: measure dynamics for neural networks (depth separation, and the upper bound for homogeneous networks); after
    Depth separation beyond radial functions (arXiv 2102.01621).

    Inputs have independent Laplace coordinates. The energy that functions of one coordinate hold is known in closed
    form, and that of any other direction by one Fourier transform; the best direction is searched for from random
    starts, and is the sum of all coordinates. `1 − error ≤ 2 norm √energy` then bounds every shallow network, also the
    trained ones (cosine neurons, under Adam), whose norm is measured. On the sphere the targets are random ReLU
    networks without biases, and the shallow networks are least squares on random ReLU features with biases: without
    these they could not see the odd part beyond degree one.
    """

    group = "dynamics"
    seconds = 25.0
    faults = {"no phase": "the energies are those of a target that does not oscillate"}

    dims: Sizes = (2, 4, 6, 8, 10)  # numbers of coordinates d
    omega: Positive = 4.0  # how fast the target turns
    searches: Count = 3  # random starts of the search for the best direction
    particles: Count = 400  # of the shallow networks that are trained
    steps: Count = 1500  # of their training by Adam
    batch: Count = 200  # fresh inputs in every step
    sphere: Count = 5  # dimension of the inputs on the sphere
    depths: Sizes = (2, 3, 4, 5)  # layers of the deep ReLU networks
    widths: Sizes = (16, 32, 64, 128, 256)  # of the shallow ones that follow them
    targets: Count = 8  # random deep networks for each depth

    @classmethod
    def full(cls):
        return cls(searches=20, particles=2000, steps=20_000, widths=(16, 32, 64, 128, 256, 512, 1024), targets=30)

    def design(self):
        yield self.energies, over(d=self.dims)
        yield self.quadrature, once()
        yield self.training, over(d=self.dims).largest_first("d")
        yield self.following, over(depth=self.depths)

    def energies(self, key, d):
        """What functions of one direction hold: of a coordinate in closed form, of the sum, of the best one found."""
        omega = 1e-3 if self.fault == "no phase" else self.omega
        draw = generator(stream(key, "directions", d))
        found = max(self._searched(draw.uniform(0.3, 1, d), omega) for _ in range(self.searches))
        shares = [coordinate_energy(d, omega=omega), ridge_energy(np.ones(d), omega=omega), found]
        return {"energy": named(shares, "direction", direction=DIRECTIONS)}

    def quadrature(self, key):
        """The energy that functions of x_1 + x_2 hold, by the transform and by the definition."""
        return {"transform": ridge_energy(np.ones(2), omega=self.omega), "integral": _pair_energy(self.omega)}

    @staticmethod
    def _searched(start, omega):
        from scipy.optimize import minimize

        def loss(direction):
            return -np.log(ridge_energy(np.clip(np.abs(direction), 0.05, 1), omega=omega))

        return np.exp(-minimize(loss, start, method="Nelder-Mead", options={"maxiter": 40 * len(start)}).fun)

    def training(self, key, d):
        """A trained shallow network: its error and its norm; and the error of the network with one layer more."""
        import optax

        law = _laplace(d, self.omega)
        xs, ys = law(stream(key, "tests", d), TESTS)
        unit, deep = Perceptron(d, 2, "cos"), oscillating_unit(d)
        start = 3 * jax.random.normal(stream(key, "start", d), (self.particles, unit.dim))
        path = flow(
            Descend(Risk(unit, Stream(law, self.batch))),
            Optax(optax.adam(optax.cosine_decay_schedule(1.0, self.steps))),
            uniform(start),
            key=stream(key, "training", d),
            dt=0.1,
            steps=self.steps,
            progress=False,
        )
        exact = uniform(np.concatenate([np.full(d, self.omega), np.eye(d).ravel()])[None])
        gaps = [jnp.mean(jnp.sum((network(*one, xs) - ys) ** 2, 1)) for one in ((unit, path.cloud), (deep, exact))]
        return {"shallow": gaps[0], "deep": gaps[1], "norm": _norm(path.cloud.atoms, xs)}

    def following(self, key, depth):
        """Least squares on random shallow features against random deep networks on the sphere."""
        draw = generator(stream(key, "deep", depth))
        targets = [_deep(draw, self.sphere, depth) for _ in range(self.targets)]
        rows = [[self._followed(draw, target, n) for n in self.widths] for target in targets]
        return {"error": named(rows, "run", "n", n=self.widths)}

    def _followed(self, draw, target, n):
        seen, tests = (unit_vectors(draw, (rows, self.sphere)) for rows in (20 * n + 1000, TESTS))
        directions, biases = unit_vectors(draw, (n, self.sphere)), draw.uniform(-0.5, 0.5, n)
        features = [np.maximum(xs @ directions.T + biases, 0) for xs in (seen, tests)]
        weights, *_ = np.linalg.lstsq(features[0], target(seen), rcond=None)
        truth = target(tests)
        return np.mean((features[1] @ weights - truth) ** 2) / np.mean(truth**2)

    def fits(self, data):
        return {
            f"error, depth {depth}": power_law(one, along="n", centre="mean") for depth, one in data.error.each("depth")
        }

    def claims(self, data):
        gap = abs(data.transform / data.integral - 1)
        yield below("Energy of x₁ + x₂: transform against quadrature, relative error", gap, 1e-5)
        for direction, energy in data.energy.each("direction"):
            factor = np.exp(np.polyfit(self.dims, np.log(energy.values), 1)[0])
            yield between(f"Energy of the {direction}: factor for each further dimension", factor, 0.2, 0.5)
        gain = (data.energy.sel(direction=BEST) / data.energy.sel(direction="sum of all")).max()
        yield below("No direction found holds more than the sum: largest ratio", gain, 1 + 1e-4)
        yield below("Shallow: error after training in the fewest dimensions", data.shallow.isel(d=0), 0.1)
        yield above("Shallow: error after training in the most dimensions", data.shallow.isel(d=-1), 0.9)
        held = (1 - data.shallow) / (2 * data.norm * np.sqrt(data.energy.sel(direction=BEST)))
        yield below("Shallow: share held over the bound 2 norm √energy, largest", held.max(), 1)
        yield below("One layer more is the target: error", data.deep.max(), 1e-20)
        for fit in data.fits.values():
            yield fit.below(-0.5)

    def numbers(self, data):
        best = data.energy.sel(direction=BEST)
        needed = {
            f"norm needed for an error of ½, d = {d}": least_norm(float(one), error=0.5) for d, one in best.each("d")
        }
        return needed | {f"error after training, d = {d}": one for d, one in data.shallow.each("d")}

    @panel(
        "What one direction holds",
        "The share of the target's energy that the best function of one direction holds, ω = {omega}. Whatever the "
        "direction, it falls by more than half with each further dimension; rings mark the best direction that a "
        "search found, which is the sum.",
    )
    def directions(self, axis, data):
        curves(axis, self.dims, dict(data.energy.sel(direction=DIRECTIONS[:2]).each("direction")), marker="o")
        ring = {"marker": "o", "fillstyle": "none", "linestyle": "none", "markersize": 10, "color": INK}
        axis.plot(self.dims, data.energy.sel(direction=BEST).values, label=BEST, **ring)
        axis.set_yscale("log")
        axis.set(xlabel="dimensions d", ylabel="share of the energy", xticks=self.dims)
        legend(axis)

    @panel(
        "Shallow networks after training",
        "The mean square error of {particles} trained cosine neurons (zero has error 1), and the least error that "
        "their norm allows, 1 − 2 norm √energy. A network with one layer more has error 0.",
    )
    def trained(self, axis, data):
        allowed = 1 - 2 * data.norm * np.sqrt(data.energy.sel(direction=BEST))
        curves(axis, self.dims, {"shallow, trained": data.shallow, "one layer more": data.deep}, marker="o")
        axis.plot(
            self.dims, np.maximum(np.asarray(allowed), 0), color=INK, linestyle="--", label="least error for its norm"
        )
        axis.set(xlabel="dimensions d", ylabel="mean square error", xticks=self.dims, ylim=(-0.05, 1.1))
        legend(axis)

    @panel(
        "Deep ReLU networks on the sphere",
        "Relative error of least squares on n random shallow features, for random deep ReLU networks on the sphere of "
        "R^{sphere}; mean over {targets} targets with a 10–90% band.",
    )
    def homogeneous(self, axis, data):
        fits = {str(depth): data.fits[f"error, depth {depth}"] for depth in self.depths}
        labels = {"xlabel": "shallow width n", "ylabel": "relative error"}
        power_laws(axis, data.error, along="n", by="depth", fits=fits, centre="mean", power=-1, **labels)
        legend(axis, title="depth")


def _laplace(d: int, omega: float):
    def law(key, size):
        xs = jax.random.laplace(key, (size, d))
        return xs, oscillation(xs, omega=omega)

    return law


def _pair_energy(omega: float) -> float:
    """`∫ |∫ p(x) p(t − x) g dx|² / ∫ p(x) p(t − x) dx dt`, p the Laplace density, by the rule of trapezoids."""
    xs, total = np.linspace(-24, 24, 24_001), 0.0
    for t in (ts := np.linspace(-20, 20, 2001)):
        law = np.exp(-np.abs(xs) - np.abs(t - xs)) / 4
        turned = law * np.exp(1j * omega * (np.maximum(xs, 0) + np.maximum(t - xs, 0)))
        total += abs(np.trapezoid(turned, xs)) ** 2 / np.trapezoid(law, xs)
    return float(total * (ts[1] - ts[0]))


def _norm(atoms, xs):
    """The mean of |a| |cos(<w, x> + b)| over the neurons, the second in mean square over the inputs."""
    heard = jnp.cos(xs @ atoms[:, 2:-1].T + atoms[None, :, -1])
    return jnp.mean(jnp.linalg.norm(atoms[:, :2], axis=1) * jnp.sqrt(jnp.mean(heard**2, axis=0)))


def _deep(draw: np.random.Generator, d: int, depth: int, width: int = 32):
    """A random network without biases: `depth` layers of weights, all but the last followed by ReLU."""
    sizes = [d, *[width] * (depth - 1)]
    layers = [draw.normal(size=pair) * np.sqrt(2 / pair[0]) for pair in pairwise(sizes)]
    last = draw.normal(size=width) / np.sqrt(width)

    def target(xs):
        for layer in layers:
            xs = np.maximum(xs @ layer, 0)
        return xs @ last

    return target
