"""Networks on sets: what is trained decides what generalises, to other sets and to sets of other sizes."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.freezing import freeze_layers
from haarflow.dynamics.schemes import Optax
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.set_penalties import SetPenalty
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator
from haarflow.models.networks import network
from haarflow.models.set_networks import FrozenSetNeuron, SetNeuron, draw_layer, draw_neurons, pack_sets, set_norm
from haarflow.runs.experiment import Experiment, below, holds, named, once, over, panel, stream
from haarflow.runs.sizes import Count, Positive, Sizes
from haarflow.runs.style import curves, legend

NORMS = ("S1", "S2", "S3")
SEEN = 4  # points in a set that is trained on
TAUS = (1e-5, 1e-4, 1e-3, 1e-2)  # strengths of the penalty, of which validation chooses one
RATES = {"S1": 0.03, "S2": 0.03, "S3": 1.5}  # of Adam: the layers that are trained have different scales
EXACT = 1e-12


def _lengths(sets):
    return np.linalg.norm(sets, axis=-1)


def _neuron(sets, way):
    return np.maximum(sets @ way, 0).mean(axis=1)


def _smooth(sets, way):
    return np.logaddexp(0, np.logaddexp(0, sets @ way).mean(axis=1))


def _potential(sets, way):
    pairs = combinations(range(sets.shape[1]), 2)
    return np.mean([1 / np.linalg.norm(sets[:, i] - sets[:, j], axis=1) for i, j in pairs], axis=0)


TARGETS = {
    "mean": lambda sets, way: _lengths(sets).mean(axis=1),
    "median": lambda sets, way: np.median(_lengths(sets), axis=1),
    "max": lambda sets, way: _lengths(sets).max(axis=1),
    "softmax": lambda sets, way: 0.1 * np.log(np.mean(np.exp(_lengths(sets) / 0.1), axis=1)),
    "second": lambda sets, way: np.sort(_lengths(sets), axis=1)[:, -2],
    "potential": _potential,
    "neuron": _neuron,
    "smooth neuron": _smooth,
}
"""Functions of sets (b, m, d) of m points; the last two are one neuron in each layer, along a random direction."""


class Sets(Experiment):
    """A network on sets that trains all layers (S1) learns one neuron better than one with a frozen first layer (S2),
    and this one better than with two frozen layers (S3): on new sets of the size it was trained on, and of every other
    size. All of them know neither the order of the points nor how often the whole set is repeated.

    Source: measure dynamics for neural networks (symmetric functions of sets), after A functional perspective on
    learning symmetric functions with neural networks (arXiv 2008.06952), with its targets and protocol: points uniform
    on [−3, 3]^10, training on 100 sets of 4 points, Adam on all of them at once, the penalty on the norm chosen
    on validation, tests on sets of 2 to 19 points.

    Published: width 100 (1000 where layers are frozen), 5000 steps at 5e-4, 10 runs. Here particles of S1 have first
    layers of their own, all equal at the start; fewer neurons and steps, at larger rates that fall to zero, one for
    each network; the full size is nearer to the published one. The target is scaled to mean square one, and errors are
    mean squares relative to the target's own, at each size of the sets.
    """

    group = "dynamics"
    seconds = 55.0
    faults = {
        "sum pooling": "the points of a set are summed, not averaged",
        "cut gradient": "the penalty has no gradient, as in the public code",
    }

    dimension: Count = 10  # of the points
    sets: Count = 100  # that are trained on
    sizes: Sizes = (2, 3, 4, 6, 9, 13, 19)  # of the sets that are tested
    tests: Count = 300  # sets for each size, and as many for validation
    neurons: Count = 40  # particles of S1 and S2; S3 has more
    inner: Count = 8  # neurons in the first layer of each particle of S1
    frozen: Count = 200  # neurons in the frozen first layer
    outer: Count = 200  # particles of S3
    steps: Count = 500
    runs: Count = 2  # for the two neurons; one for the other targets
    width: Positive = 3.0  # points are uniform between −width and width

    @classmethod
    def full(cls):
        return cls(sizes=tuple(range(2, 20)), neurons=100, inner=20, frozen=1000, outer=1000, steps=5000, runs=10)

    def design(self):
        yield self.laws, once()
        yield self.errors, over(target=TARGETS)

    def laws(self, key):
        """How far order and repetition change a random network, and its three norms."""
        unit = _Summed(7, 3, 5) if self.fault == "sum pooling" else SetNeuron(7, 3, 5)
        draw = generator(stream(key, "laws"))
        cloud = Cloud(draw.normal(size=(30, unit.dim)), draw.dirichlet(np.ones(30)))
        sets = [draw.normal(size=(m, 3)) for m in (7, 2, 5)]
        ways = {"order": [one[::-1] for one in sets], "repetition": [np.tile(one, (3, 1)) for one in sets]}
        here = network(unit, cloud, pack_sets(sets))
        moved = [network(unit.with_points(21), cloud, pack_sets(w, points=21)) for w in ways.values()]
        gaps = [float(jnp.abs(found - here).max() / jnp.abs(here).max()) for found in moved]
        norms = [set_norm(unit, cloud, norm) for norm in NORMS]
        return {"gap": named(gaps, "law", law=list(ways)), "random": named(norms, "norm", norm=NORMS)}

    def errors(self, key, target):
        """The test errors of the three networks, their norms under each penalty, and the penalty that was chosen."""
        runs = self.runs if "neuron" in target else 1
        problems = [self._problem(stream(key, f"data {target}", run), target) for run in range(runs)]
        found = [self._trained(stream(key, f"training {target}"), norm, problems) for norm in NORMS]
        errors, norms, chosen = (np.array(part) for part in zip(*found, strict=True))
        return {
            "error": named(errors, "norm", "size", norm=NORMS, size=self.sizes),
            "length": named(norms, "norm", "tau", norm=NORMS, tau=TAUS),
            "chosen": named(chosen, "norm", norm=NORMS),
        }

    def _problem(self, key, target):
        """Training, validation and test sets of every size, with labels: {size or name: (sets, labels)}."""
        draw = generator(key)
        way = draw.normal(size=self.dimension)
        way /= np.linalg.norm(way)
        counts = {"train": (self.sets, SEEN), "held": (self.tests, SEEN)}
        counts |= {size: (self.tests, size) for size in self.sizes}
        shapes = {name: (b, m, self.dimension) for name, (b, m) in counts.items()}
        drawn = {name: draw.uniform(-self.width, self.width, shape) for name, shape in shapes.items()}
        labels = {name: TARGETS[target](sets, way)[:, None] for name, sets in drawn.items()}
        scale = np.sqrt(np.mean(labels["train"] ** 2))
        return {name: (pack_sets(list(drawn[name])), labels[name] / scale) for name in drawn}

    def _unit(self, key, norm):
        if norm == "S1":
            return SetNeuron(SEEN, self.dimension, self.inner)
        return FrozenSetNeuron(draw_layer(key, self.frozen, self.dimension), SEEN)

    def _trained(self, key, norm, problems):
        """One flow of all runs and penalties; errors (size,), norms (tau,) and the penalty, means over runs."""
        import optax

        unit = self._unit(stream(key, "layer"), norm)
        samples = [Sample(*problem["train"]) for problem in problems]
        fields = [self._field(unit, sample, tau, norm) for sample in samples for tau in TAUS]
        n = self.outer if norm == "S3" else self.neurons
        starts = [draw_neurons(stream(key, "start", run), unit, n).atoms for run in range(len(problems))]
        stack = jnp.repeat(jnp.stack(starts), len(TAUS), axis=0)
        path = flow(
            fields,
            Optax(optax.adam(optax.cosine_decay_schedule(1.0, self.steps))),
            Cloud(stack, jnp.full(stack.shape[:2], 1 / n)),
            key=jax.random.split(stream(key, "flow"), len(fields)),
            dt=RATES[norm],
            steps=self.steps,
            progress=False,
        )
        clouds = [uniform(atoms) for atoms in path.cloud.atoms]
        rows = [clouds[i : i + len(TAUS)] for i in range(0, len(clouds), len(TAUS))]
        lengths = [[set_norm(unit, cloud, norm) for cloud in row] for row in rows]
        best = [
            int(np.argmin([_error(unit, cloud, *p["held"]) for cloud in r]))
            for r, p in zip(rows, problems, strict=True)
        ]
        tested = [
            [_error(unit.with_points(size), row[i], *problem[size]) for size in self.sizes]
            for row, i, problem in zip(rows, best, problems, strict=True)
        ]
        return np.mean(tested, axis=0), np.mean(lengths, axis=0), np.exp(np.mean(np.log(np.take(TAUS, best))))

    def _field(self, unit, sample, tau, norm):
        field = Descend(Risk(unit, sample) + SetPenalty(unit, 0 * tau if self.fault == "cut gradient" else tau, norm))
        return freeze_layers(field, unit, 2) if norm == "S3" else field

    def claims(self, data):
        for law, gap in data.gap.each("law"):
            yield below(f"The {law} of a set changes nothing, to {{bound}}", gap, EXACT)
        norms = data.random.values
        yield holds("Random network: S1 ≤ S2 ≤ S3", norms[0] <= norms[1] <= norms[2])
        for norm, length in data.length.each("norm"):
            shrunk = length.sel(tau=TAUS[-1]) / length.sel(tau=TAUS[0])
            yield below(f"{norm}: norm under the strongest penalty over the weakest, largest", shrunk.max(), 0.9)
        error = data.error.sel(target="neuron")
        for better, worse in (("S1", "S2"), ("S2", "S3")):
            ratio = (error.sel(norm=better) / error.sel(norm=worse)).max()
            yield below(f"Neuron: error of {better} over that of {worse}, largest over sizes", ratio, 1)

    def numbers(self, data):
        seen = data.error.sel(size=SEEN)
        return {f"{target}, {norm}": one for target, row in seen.each("target") for norm, one in row.each("norm")}

    @panel(
        "Errors on sets of other sizes",
        "Mean square error relative to the target's mean square, against the size of the test sets; training saw sets "
        "of four points. One neuron and its smooth form are what S1 holds with a small norm.",
        rows=2,
        columns=4,
        size=(11.0, 5.4),
    )
    def generalisation(self, axes, data):
        for axis, (target, error) in zip(np.ravel(axes), data.error.each("target"), strict=True):
            curves(axis, self.sizes, dict(error.each("norm")), marker="o", markersize=3)
            axis.axvline(SEEN, color="0.6", linewidth=0.8, linestyle=":")
            axis.set(title=target, yscale="log", xlabel="points in a set")
        for axis in np.ravel(axes)[::4]:
            axis.set(ylabel="relative error")
        legend(np.ravel(axes)[3])

    @panel(
        "The penalties act",
        "The norm of each trained network against the strength of the penalty on it, for the neuron.",
    )
    def penalties(self, axis, data):
        curves(axis, TAUS, dict(data.length.sel(target="neuron").each("norm")), marker="o")
        axis.set(xscale="log", yscale="log", xlabel="strength of the penalty", ylabel="norm")
        legend(axis)


class _Summed(SetNeuron):
    def shares(self, masses):
        return masses


def _error(unit, cloud, xs, ys):
    return float(jnp.mean((network(unit, cloud, xs) - ys) ** 2) / np.mean(ys**2))
