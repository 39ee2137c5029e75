"""Digits as sets of points: pixels in any order and any number, read by networks on sets."""

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
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.networks import CustomNetwork, network
from haarflow.models.set_networks import FrozenSetNeuron, SetNeuron, draw_layer, draw_neurons, pack_sets
from haarflow.runs.experiment import Experiment, above, at_least, below, named, once, over, panel, stream
from haarflow.runs.sizes import Count, NonNegative
from haarflow.runs.style import colour, curves, legend

NETWORKS = ("S1", "S2", "S3")
DEEP, HAND = "Deep Sets", "hand-made"
MODELS = (*NETWORKS, DEEP, HAND)
KEPT = (1.0, 0.75, 0.5, 0.25)  # shares of the points of a test set that a model is shown
RATES = {"S1": 0.1, "S2": 0.1, "S3": 60.0, DEEP: 0.01}  # of Adam: what is trained has different scales
POINTS = 64  # the most pixels that an image has
EXACT = 1e-12


class PointClouds(Experiment):
    """Networks on sets read handwritten digits from their inked pixels as sets of points (row, column, ink), which have
    no order and come in different numbers: far better than chance, and no worse the more layers are trained.

    Source: measure dynamics for neural networks (symmetric functions of sets); the digits of scikit-learn, 8 × 8.

    S1, S2 and S3 are clouds of neurons on sets, trained by Adam on minibatches under cross-entropy and the penalty of
    their norm. Beside them stand Deep Sets (two layers for each point, the mean, two layers behind it) trained in the
    same way, and scikit-learn's logistic regression on hand-made features of a set: its size, and the means and
    products of second order of its points. The rates of Adam were chosen on one other split.
    Models are also shown sets from which points were dropped at random.
    """

    group = "dynamics"
    seconds = 60.0
    faults = {
        "padding counts": "what fills up small sets is averaged as if it were points",
        "shuffled labels": "training sees the labels of other images",
    }

    images: Count = 1000  # that are trained on; all others are tested
    runs: Count = 2  # splits into training and test images
    neurons: Count = 50  # particles of S1 and S2
    inner: Count = 8  # neurons in the first layer of each particle of S1
    frozen: Count = 200  # neurons in the frozen first layer
    outer: Count = 200  # particles of S3
    steps: Count = 1500
    batch: Count = 50  # images in every step
    tau: NonNegative = 1e-4  # strength of the penalty

    @classmethod
    def full(cls):
        return cls(runs=5, neurons=100, inner=20, frozen=1000, outer=1000, steps=5000, batch=100)

    def design(self):
        yield self.padding, once()
        yield self.reading, over(model=MODELS)

    def padding(self, key):
        """How far more padding, and another order of the points, change a random network."""
        kind = _Blind if self.fault == "padding counts" else SetNeuron
        sets, _ = _digits()
        unit, draw = kind(POINTS, 3, self.inner, 10), generator(stream(key, "order"))
        cloud = draw_neurons(stream(key, "padding"), unit, self.neurons)
        mixed = [draw.permutation(one) for one in sets[:20]]
        here = network(unit, cloud, pack_sets(sets[:20], points=POINTS))
        there = network(unit.with_points(POINTS + 9), cloud, pack_sets(mixed, points=POINTS + 9))
        return {"gap": jnp.abs(here - there).max() / jnp.abs(here).max()}

    def reading(self, key, model):
        """The share of test images that a model reads, over splits and over the share of points that it is shown."""
        tell = [self._read(stream(key, "split", run), stream(key, model, run), model) for run in range(self.runs)]
        return {"accuracy": named(tell, "run", "kept", kept=KEPT)}

    def _read(self, split, key, model):
        sets, labels = _digits()
        draw = generator(split)
        order = draw.permutation(len(sets))
        train, test = order[: self.images], order[self.images :]
        seen = draw.permutation(labels[train]) if self.fault == "shuffled labels" else labels[train]
        read = self._fitted(key, model, [sets[i] for i in train], seen)
        shown = [[_thinned(draw, sets[i], share) for i in test] for share in KEPT]
        return [np.mean(read(some) == labels[test]) for some in shown]

    def _fitted(self, key, model, sets, labels):
        """A function from a list of sets to digits, trained on these."""
        if model == HAND:
            return _logistic(sets, labels)
        import optax

        sample = Sample(pack_sets(sets, points=POINTS), np.eye(10)[labels], self.batch)
        model_, field, start = self._model(stream(key, "start"), model, sample)
        path = flow(
            field,
            Optax(optax.adam(optax.cosine_decay_schedule(1.0, self.steps))),
            start,
            key=stream(key, "flow"),
            dt=RATES[model],
            steps=self.steps,
            progress=False,
        )
        answer = jax.jit(lambda rows: network(model_, path.cloud, rows))
        return lambda some: np.argmax(np.asarray(answer(pack_sets(some, points=POINTS))), axis=1)

    def _model(self, key, model, sample):
        """A unit or network on sets, the field that trains it on a sample, and the cloud it starts from."""
        if model == DEEP:
            deep, start = _deep_sets(key)
            return deep, Descend(Risk(deep, sample, "cross-entropy")), start
        if model == "S1":
            unit = SetNeuron(POINTS, 3, self.inner, 10)
        else:
            unit = FrozenSetNeuron(draw_layer(stream(key, "layer"), self.frozen, 3), POINTS, 10)
        start = draw_neurons(stream(key, "cloud"), unit, self.outer if model == "S3" else self.neurons)
        field = Descend(Risk(unit, sample, "cross-entropy") + SetPenalty(unit, self.tau, model))
        return unit, freeze_layers(field, unit, 2) if model == "S3" else field, start

    def claims(self, data):
        yield below("Order and padding change nothing, to {bound}", data.gap, EXACT)
        whole = data.accuracy.sel(kept=1.0).mean("run")
        for model in (*NETWORKS, DEEP):
            yield above(f"{model}: share of digits that are read (chance is 0.1)", whole.sel(model=model), 0.6)
        yield at_least("S1 reads at least as many as S3: difference", whole.sel(model="S1") - whole.sel(model="S3"), 0)
        gain = whole.sel(model="S1") - whole.sel(model=HAND)
        yield at_least("S1 reads at least as many as the hand-made features: difference", gain, 0)

    def numbers(self, data):
        means = data.accuracy.mean("run")
        return {
            f"accuracy, {model}, {share:.0%} of the points": one
            for model, row in means.each("model")
            for share, one in row.each("kept")
        }

    @panel(
        "Digits as points",
        "Four of the sets that are read: a point for each inked pixel, its ink as size. The numbers of points differ.",
        columns=4,
        size=(9.6, 2.8),
    )
    def sets(self, axes, data):
        sets, labels = _digits()
        for axis, i in zip(np.ravel(axes), (0, 1, 3, 8), strict=True):
            row, column, ink = sets[i].T
            axis.scatter(column, -row, s=8 * (ink + 3), color=colour(0))
            axis.set(title=f"{labels[i]}: {len(row)} points", xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), aspect="equal")
            axis.set_axis_off()

    @panel(
        "How many are read",
        "Share of the test images that are read, when a model is shown all the points of a set or only some of them; "
        "mean and range over {runs} splits. Chance is 0.1.",
    )
    def thinned(self, axis, data):
        series = {model: np.asarray(one.values) for model, one in data.accuracy.each("model")}
        curves(axis, KEPT, series, band="range", marker="o")
        axis.set(xlabel="share of the points shown", ylabel="share of digits read", ylim=(0, 1), xlim=(1.03, 0.22))
        legend(axis)


class _Blind(SetNeuron):
    def shares(self, masses):
        return jnp.full_like(masses, 1 / self.points)


def _digits():
    """Sets (m, 3) of points (row, column, ink), each between −3 and 3, and the digits."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pixels = images.reshape(-1, 8, 8)
    places = [np.argwhere(image > 0) for image in pixels]
    ink = [image[image > 0] for image in pixels]
    return [np.column_stack([p / 3.5 - 1, i / 8 - 1]) * 3 for p, i in zip(places, ink, strict=True)], labels


def _thinned(draw, one, share):
    """A share of the points of a set, at random; all of them in their order where nothing is dropped."""
    return one if share == 1 else one[draw.permutation(len(one))[: max(1, round(share * len(one)))]]


def _moments(sets):
    upper = np.triu_indices(3)
    return np.array([[len(s), *s.mean(axis=0), *(s.T @ s / len(s))[upper]] for s in sets])


def _logistic(sets, labels):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(_moments(sets), labels)
    return lambda some: model.predict(_moments(some))


def _deep_sets(key, width=64):
    """Deep Sets as a network of one particle, which holds the weights of all four layers."""
    shapes = [(4, width), (width + 1, width), (width + 1, width), (width + 1, 10)]
    ends = np.cumsum([0, *(a * b for a, b in shapes)])
    keys = jax.random.split(key, 4)
    layers = [jax.random.normal(k, shape) * np.sqrt(2 / shape[0]) for k, shape in zip(keys, shapes, strict=True)]

    def answer(cloud, xs):
        theta = cloud.atoms[0]
        one, two, three, four = (theta[i:j].reshape(s) for i, j, s in zip(ends, ends[1:], shapes, strict=False))
        table = xs.reshape(len(xs), POINTS, 4)
        points = jax.nn.relu(_with_bias(jax.nn.relu(_with_bias(table[..., 1:]) @ one)) @ two)
        pooled = jnp.einsum("bmw,bm->bw", points, table[..., 0] / table[..., 0].sum(axis=1, keepdims=True))
        return _with_bias(jax.nn.relu(_with_bias(pooled) @ three)) @ four

    start = uniform(jnp.concatenate([layer.ravel() for layer in layers])[None])
    return CustomNetwork(answer, int(ends[-1]), 4 * POINTS, 10), start


def _with_bias(rows):
    return jnp.concatenate([rows, jnp.ones_like(rows[..., :1])], axis=-1)
