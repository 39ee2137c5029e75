"""Every metric: what scikit-learn says, at the labels people have; a Score is a probe of a flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as known

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.metrics import Metric, Score
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.members import members
from haarflow.models.networks import network
from haarflow.models.units import Dense, Perceptron

DRAW = np.random.default_rng(0)
XS = DRAW.normal(size=(40, 2))


def classes(table):
    return np.argmax(table, axis=1) if table.shape[1] > 1 else table[:, 0] > 0


ORACLES = {
    "accuracy": lambda ys, outputs: known.accuracy_score(classes(ys), classes(outputs)),
    "r2": known.r2_score,
    "mean-absolute-error": known.mean_absolute_error,
    "root-mean-square-error": lambda ys, outputs: np.sqrt(known.mean_squared_error(ys, outputs)),
    "": lambda ys, outputs: known.max_error(ys.ravel(), outputs.ravel()),
}


@pytest.mark.parametrize(("metric", "ys"), members(Metric), ids=lambda one: getattr(one, "name", None))
def test_a_metric_is_that_of_scikit_learn(metric, ys):
    for seed in range(3):
        outputs = ys + np.random.default_rng(seed).normal(size=ys.shape)
        found = metric(jnp.asarray(outputs), jnp.asarray(ys))
        np.testing.assert_allclose(found, ORACLES[metric.name](ys, outputs), rtol=1e-12)


def test_labels_that_are_all_equal_have_an_r2_too():
    ones, off = np.ones((4, 1)), np.ones((4, 1)) + 0.5
    score = members(Metric)[[type(m).__name__ for m, _ in members(Metric)].index("R2")][0]
    for outputs in (ones, off):
        assert score(jnp.asarray(outputs), jnp.asarray(ones)) == known.r2_score(ones, outputs)


INDEX = DRAW.integers(0, 3, 40)
FORMS = {
    "indices": INDEX,
    "names": np.array(["a", "b", "c"])[INDEX],
    "rows": np.eye(3)[INDEX],
}


@pytest.mark.parametrize("form", FORMS)
def test_the_accuracy_takes_classes_in_every_form(form):
    unit = Perceptron(2, 3, "tanh")
    cloud = uniform(DRAW.normal(size=(5, unit.dim)))
    guess = np.argmax(np.asarray(network(unit, cloud, XS)), axis=1)
    score = Score(unit, Sample(XS, FORMS[form], size=7), "accuracy")
    np.testing.assert_allclose(score(cloud), np.mean(guess == INDEX), rtol=1e-14)


def test_a_score_is_a_probe():
    unit, ys = Dense(2, 1, "tanh"), np.where(XS[:, :1] > XS[:, 1:], 1, 0)
    test, start = Sample(XS, ys), uniform(0.1 * DRAW.normal(size=(8, 2)))
    probes = {
        "accuracy": Score(unit, test, "accuracy"),
        "worst": Score(unit, test, lambda f, y: jnp.max(jnp.abs(f - y))),
    }
    field = Descend(Risk(unit, test, "logistic"))
    path = flow(field, Euler(), start, key=jax.random.key(0), dt=1.0, steps=40, every=40, probes=probes)
    guess = np.asarray(network(unit, path.cloud, XS))[:, 0] > 0
    np.testing.assert_allclose(path.probes["accuracy"][-1], np.mean(guess == (ys[:, 0] == 1)), rtol=1e-14)
    assert path.probes["accuracy"][-1] > 0.95
    np.testing.assert_allclose(path.probes["worst"][-1], np.abs(network(unit, path.cloud, XS) - ys).max())


def test_refusals():
    unit, sample = Dense(2, 1), Sample(XS, XS[:, :1])
    cloud = uniform(np.ones((2, 2)))
    with pytest.raises(Refusal, match="A Score's metric is one of accuracy, mean-absolute-error, r2.*; got 'auc'"):
        Score(unit, sample, "auc")
    with pytest.raises(Refusal, match=r"A Score takes labels -1 and 1, or 0 and 1; got"):
        Score(unit, sample, "accuracy")
    with pytest.raises(Refusal, match=r"both \(40, 1\), to one real number; got \(40, 1\). Write jnp.mean"):
        Score(unit, sample, jnp.subtract)(cloud)
    with pytest.raises(Refusal, match=r"a Dense of inputs in R\^3 and data with inputs in R\^2"):
        Score(Dense(3, 1), sample, "r2")
