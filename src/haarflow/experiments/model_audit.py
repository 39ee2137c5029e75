"""How equivariant are models before and after training: a forest, a perceptron, a torch CNN, and our four schemes."""

import warnings
from importlib.util import find_spec

import numpy as np

from haarflow.algebra.reps import trivial_rep
from haarflow.dynamics.flow import flow
from haarflow.experiments._separable import digits
from haarflow.learning.data import Sample
from haarflow.learning.symmetry import average
from haarflow.measures.clouds import uniform
from haarflow.measures.samples import generator
from haarflow.models.networks import Fitted
from haarflow.models.units import Perceptron
from haarflow.practice.audit import equivariance_error
from haarflow.practice.compare import SCHEMES, four_schemes
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Step,
    above,
    below,
    between,
    named,
    once,
    over,
    panel,
    stream,
    tell,
)
from haarflow.runs.style import INK, colour

OTHERS = ("forest", "averaged forest", "perceptron", *(("torch CNN",) if find_spec("torch") else ()))
SOURCES = ("numerical", "transform", "architectural", "learned")
NAMES = {"vanilla": "plain", "DA": "augmented", "FA": "averaged", "EA": "restricted"}
TILT = 0.3  # of the function whose error is known
EXACT, KNOWN = 1e-10, 1e-3


class ModelAudit(Experiment):
    """Models that average over the group or restrict their parameters are invariant to rounding before and after
    training; all others are not, training does not make them so, and what they lack can be split by its source.

    Source: the definition `A² = E|f − Qf|²` (Symmetries in overparametrized neural networks, arXiv 2405.19995), over
    the law of the inputs symmetrised; Gruver, Finzi, Goldblum and Wilson, The Lie derivative for measuring learned
    equivariance (arXiv 2210.02984).

    The digits 0 and 1 under quarter turns. Before training is the same architecture with fresh weights, for the forest
    one that has learned shuffled labels; three of them give the architectural part. Errors are told as the share of
    their size by which outputs move, the root of A²/E|f|². The torch CNN is left out where PyTorch is not installed.
    """

    seconds = 13.0
    faults = {
        "half average": "the averaged forest goes through two of the four turns",
        "wrong size": "the known error is compared without its square",
    }

    rows: Count = 120  # inputs that are learned from
    tests: Count = 120  # inputs that are asked
    particles: Count = 100  # of the four schemes
    steps: Count = 400  # of their training
    dt: Step = 0.5  # the size of a step

    def design(self):
        yield self.others, over(model=OTHERS)
        yield self.ours, once()
        yield self.known, once()

    def _data(self, key):
        data = digits(0, 1)
        order = generator(stream(key, "rows")).permutation(len(data.x))
        learned, asked = order[: self.rows], order[self.rows : self.rows + self.tests]
        return data.x[learned], data.y[learned], data.x[asked], data.y[asked], data.rep

    def others(self, key, model):
        """A model that is not ours: its error after training, that of fresh ones, and the sources."""
        x, y, asked, _, rep = self._data(key)
        makers = {"forest": _forest, "averaged forest": self._averaged, "perceptron": _perceptron, "torch CNN": _cnn}
        make, shape = makers[model], (1, 8, 8) if model == "torch CNN" else None
        drawn = generator(stream(key, model)).integers(2**31, size=4)
        trained, fresh = make(x, y, rep, int(drawn[0]), True), make(x, y, rep, int(drawn[1]), False)
        found = equivariance_error(
            trained,
            asked,
            rep,
            factory=lambda k: make(x, y, rep, int(drawn[1 + k]), False),
            before=fresh,
            key=stream(key, "audit"),
            shape=shape,
        )
        return {
            "before": np.sqrt(found.before or 0.0),
            "after": found.share,
            "source": named([found.sources[name] for name in SOURCES], "source", source=SOURCES),
            "level": found.rounding,
        }

    def _averaged(self, x, y, rep, seed, learned):
        forest, action = _forest(x, y, rep, seed, learned), rep.action()
        kept = action.chosen(np.arange(2 if self.fault == "half average" else len(action)))
        return lambda rows: np.mean([forest.predict_proba(one) for one in np.asarray(kept.apply(rows))], axis=0)

    def ours(self, key):
        """The four schemes on one start, noise and data, before and after."""
        x, y, asked, truth, rep = self._data(key)
        unit, on_y = Perceptron(64, 1, "tanh"), trivial_rep(rep.group)
        four = four_schemes(unit, Sample(x, y), rep, on_y, penalty=1e-4)
        start = uniform(0.3 * generator(stream(key, "start")).normal(size=(self.particles, unit.dim)))
        begun = four.starts(start)
        options = {"key": stream(key, "flow"), "dt": self.dt, "steps": self.steps, "progress": tell}
        paths = flow(four.fields, four.steppers(), begun, **options)
        found = {}
        for when, clouds in (("before", begun), ("after", {name: paths[name].cloud for name in SCHEMES})):
            models = {name: _fitted(name, unit, rep, on_y, clouds[name]) for name in SCHEMES}
            shares = [equivariance_error(models[name], asked, rep, key=stream(key, "audit")).share for name in SCHEMES]
            found[f"ours_{when}"] = named(shares, "scheme", scheme=SCHEMES)
        right = [np.mean(np.sign(models[name](asked)[:, 0]) == truth) for name in SCHEMES]
        return found | {"ours_right": named(right, "scheme", scheme=SCHEMES)}

    def known(self, key):
        """A linear function whose error is known: <b, x> + TILT <c, x>, b fixed by the group and c across."""
        _, _, asked, _, rep = self._data(key)
        draw = generator(stream(key, "known"))
        b, c = draw.normal(size=(2, 64))
        b, c = np.asarray(rep.project(b)), c - np.asarray(rep.project(c))
        found = equivariance_error(lambda rows: rows @ (b + TILT * c), asked, rep)
        moved = np.asarray(rep.action().apply(asked))
        across, along = np.mean((moved @ (TILT * c)) ** 2), np.mean((moved @ b) ** 2)
        right = across / (across + along)
        return {"known_error": found.relative / (np.sqrt(right) if self.fault == "wrong size" else right) - 1}

    def claims(self, data):
        for scheme in ("FA", "EA"):
            worst = max(float(data.ours_before.sel(scheme=scheme)), float(data.ours_after.sel(scheme=scheme)))
            yield below(f"{NAMES[scheme]} training: share by which outputs move, before and after", worst, EXACT)
        averaged = data.after.sel(model="averaged forest")
        yield below("averaged forest: share by which outputs move", averaged, EXACT)
        for model in ("forest", "perceptron"):
            yield above(f"{model}: share by which outputs move", data.after.sel(model=model), 0.01)
        ratio = data.ours_after.sel(scheme="DA") / data.ours_after.sel(scheme="vanilla")
        yield below("augmented over plain training: shares after", ratio, 1.0)
        yield between("a function with a known error: measured over known, minus one", data.known_error, -KNOWN, KNOWN)
        total = abs(data.source.sum("source") - data.after**2).max()
        yield below("the sources add up to the error, to {bound}", total, 1e-6)

    def numbers(self, data):
        found = {"share after training, {model}": data.after, "share before training, {model}": data.before}
        return found | {"share after training, {scheme}": data.ours_after, "right answers, {scheme}": data.ours_right}

    @panel(
        "How far models are from invariant, before and after training",
        "The share of their size by which outputs move under quarter turns of the digits 0 and 1; no share at all is "
        "drawn at 1e-17. Right: the part of A²/E|f|² that fresh weights have too, and what was learned; an averaged "
        "model has none of either, and no bar.",
        columns=2,
        size=(10.8, 4.0),
    )
    def shares(self, axes, data):
        left, right = axes
        rows = [(NAMES[name], data.ours_before.sel(scheme=name), data.ours_after.sel(scheme=name)) for name in SCHEMES]
        rows += [(name, data.before.sel(model=name), data.after.sel(model=name)) for name in OTHERS]
        places = np.arange(len(rows))[::-1]
        for order, when in enumerate(("before", "after")):
            values = [max(float(row[1 + order]), 1e-17) for row in rows]
            left.plot(values, places, "o" if order else "s", color=colour(order), label=f"{when} training")
        left.axvline(2.0**-52, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), label="rounding")
        left.set(xscale="log", xlim=(3e-18, 3), xlabel="share by which outputs move", yticks=places)
        left.set_yticklabels([row[0] for row in rows])
        left.legend(loc="center")
        base, shown = np.zeros(len(OTHERS)), np.arange(len(OTHERS))[::-1]
        for order, source in enumerate(SOURCES[2:]):
            values = np.array([float(data.source.sel(model=name, source=source)) for name in OTHERS])
            right.barh(shown, values, left=base, height=0.5, color=colour(order + 2), label=source)
            base = base + values
        right.set(xlabel="A² / E|f|²", yticks=shown)
        right.set_yticklabels(OTHERS)
        right.legend(loc="center right", bbox_to_anchor=(1.0, 0.66))


def _fitted(name, unit, rep, on_y, cloud):
    """The network of a scheme: averaged over the group in FA, the unit's own in the others."""
    return Fitted(average(unit, rep, on_y) if name == "FA" else unit, cloud)


def _labels(y, seed, learned):
    return y if learned else np.random.default_rng(seed).permutation(y)


def _forest(x, y, rep, seed, learned):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30, random_state=seed).fit(x, _labels(y, seed, learned))


def _perceptron(x, y, rep, seed, learned):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    steps, rate = (200, 1e-3) if learned else (1, 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor(hidden_layer_sizes=(32,), max_iter=steps, learning_rate_init=rate, random_state=seed)
        return model.fit(x, y)


def _cnn(x, y, rep, seed, learned):
    import torch  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    layers = [torch.nn.Conv2d(1, 4, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 8, 3, padding=1)]
    model = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(128, 1))
    inputs, labels = (torch.tensor(part, dtype=torch.float32) for part in (x.reshape(-1, 1, 8, 8), y[:, None]))
    descent = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60 if learned else 0):
        descent.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), labels).backward()
        descent.step()
    return model.eval()
