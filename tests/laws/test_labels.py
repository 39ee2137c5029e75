"""Every loss with the labels people have: one form of the same labels is as good as another, nonsense is refused."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.learning.data import Sample, Stream, TwoGaussians
from haarflow.learning.losses import Loss, by_name
from haarflow.learning.risks import Risk
from haarflow.learning.splits import folds
from haarflow.learning.symmetry import augment, orbit_closure
from haarflow.measures.clouds import uniform
from haarflow.models.residual import Residual
from haarflow.models.units import Perceptron

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
XS = DRAW.normal(size=(6, 2))
INDEX = np.array([0, 1, 1, 0, 1, 0])
THREE = np.array([2, 0, 1, 1, 0, 2])
SWAP = natural_rep(Cyclic(2))


def value(loss, ys, outputs=1):
    unit = Perceptron(2, outputs, "tanh")
    cloud = uniform(np.random.default_rng(1).normal(size=(4, unit.dim)))
    return float(Risk(unit, Sample(XS, ys), loss)(cloud))


class Table:
    """As a pandas Series or DataFrame is to NumPy: something that becomes an array."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


TWO = {
    "signs": 2.0 * INDEX[:, None] - 1,
    "signs in a row": 2 * INDEX - 1,
    "zeros and ones": INDEX,
    "as floats": INDEX.astype(np.float32)[:, None],
    "truth values": INDEX == 1,
    "a list": INDEX.tolist(),
    "names": np.array(["cat", "dog"])[INDEX],
    "a column of names": np.array(["cat", "dog"])[INDEX][:, None],
    "a list of names": [["cat", "dog"][i] for i in INDEX],
    "names as objects": np.array(["cat", "dog"], object)[INDEX],
    "a table": Table(INDEX),
    "a table of names": Table(np.array(["cat", "dog"], object)[INDEX]),
}


@pytest.mark.parametrize("form", TWO)
@pytest.mark.parametrize("loss", ["logistic", "exponential", "hinge"])
def test_two_classes_in_every_form_are_signs(loss, form):
    np.testing.assert_allclose(value(loss, TWO[form]), value(loss, TWO["signs"]), rtol=1e-6)


@pytest.mark.parametrize("form", TWO)
def test_two_classes_in_every_form_are_indicators_for_the_cross_entropy(form):
    known = value("cross-entropy", np.eye(2)[INDEX], outputs=2)
    np.testing.assert_allclose(value("cross-entropy", TWO[form], outputs=2), known, rtol=1e-6)


@pytest.mark.parametrize("ys", [THREE, THREE[:, None], np.array(["a", "b", "c"])[THREE], THREE.astype(float)])
def test_indices_and_names_are_indicators_for_the_cross_entropy(ys):
    known = value("cross-entropy", np.eye(3)[THREE], outputs=3)
    np.testing.assert_allclose(value("cross-entropy", ys, outputs=3), known, rtol=1e-12)


def test_the_cross_entropy_of_two_outputs_is_the_logistic_loss_of_their_difference():
    unit = Perceptron(2, 2, "tanh")
    cloud = uniform(DRAW.normal(size=(4, unit.dim)))
    half = jnp.concatenate([cloud.atoms[:, 1:2] - cloud.atoms[:, :1], cloud.atoms[:, 2:]], axis=1)
    both = Risk(unit, Sample(XS, INDEX), "cross-entropy")(cloud)
    np.testing.assert_allclose(both, Risk(Perceptron(2, 1, "tanh"), Sample(XS, INDEX), "logistic")(uniform(half)))


def test_names_are_remembered_and_are_numbers_for_every_loss():
    sample = Sample(XS, np.array(["b", "a", "c"])[THREE], size=2)
    assert sample.classes == ("a", "b", "c")
    np.testing.assert_array_equal(sample.ys, np.eye(3)[[2, 1, 0, 0, 1, 2]])
    assert [fold.classes for fold in folds(KEY, sample, 2)] == [("a", "b", "c")] * 2
    for loss, outputs in (("half-square", 3), ("logistic", 3), ("cross-entropy", 3)):
        Risk(Perceptron(2, outputs), sample, loss)


def test_labels_of_augmented_data_are_those_of_the_loss():
    sample, still = Sample(XS, INDEX), trivial_rep(Cyclic(2))
    for exact in (False, True):
        data: Any = Risk(Perceptron(2), augment(sample, SWAP, still, exact=exact), "logistic").data
        assert set(np.unique(data.batch(KEY)[1])) == {-1, 1}
        data = Risk(Perceptron(2, 2), augment(sample, SWAP, still, exact=exact), "cross-entropy").data
        assert data.batch(KEY)[1].shape[1] == 2
    names = Sample(XS, np.array(["cat", "dog"])[INDEX])
    Risk(Perceptron(2, 2), augment(names, SWAP, SWAP), "cross-entropy")
    assert orbit_closure(names, SWAP, SWAP).classes == ("cat", "dog")
    flip = natural_rep(Cyclic(2)) * trivial_rep(Cyclic(2))
    with pytest.raises(Refusal, match=r"before they are moved; got an action on R\^2 that moves them"):
        Risk(Perceptron(2), augment(names, SWAP, flip), "logistic")


def test_deep_risks_have_the_same_labels():
    sample, mu = Sample(XS, INDEX), uniform(DRAW.normal(size=(3, 4)))
    unit = Perceptron(2, 1, "tanh")
    deep = Risk(Residual((unit,)), sample, "logistic")
    np.testing.assert_allclose(deep(mu), Risk(unit, sample, "logistic")(mu), rtol=1e-13)


def law(ys):
    return Stream(lambda key, size: (jax.random.normal(key, (size, 2)), ys(jax.random.uniform(key, (size, 1)))), 4)


def test_labels_that_are_drawn_are_looked_at():
    Risk(Perceptron(3), TwoGaussians(3, 0.4, 5), "logistic")
    Risk(Perceptron(2), law(lambda u: jnp.where(u > 0.5, 1, -1)), "logistic")
    with pytest.raises(Refusal, match="as the loss 'logistic' takes them; got 0, 1. Write labels -1 and 1 in the law"):
        Risk(Perceptron(2), law(lambda u: u > 0.5), "logistic")
    with pytest.raises(Refusal, match=r"in a Sample only, and for a unit; got one label in a row here. Write jax"):
        Risk(Perceptron(2, 2), law(lambda u: u > 0.5), "cross-entropy")


REFUSED = {
    "one output": ("cross-entropy", INDEX, 1, "got one output, for which it is always 0. Write a unit with as many"),
    "real for signs": ("logistic", XS[:, :1], 1, "takes labels -1 and 1, or 0 and 1; got -.*, .... Write jnp.where"),
    "three for signs": ("exponential", THREE - 1, 1, "takes labels -1 and 1, or 0 and 1; got -1, 0, 1. Write"),
    "one and two": ("logistic", INDEX + 1, 1, "got 1, 2. Write"),
    "index": ("cross-entropy", THREE, 2, "takes class indices 0 to 1 for 2 outputs; got 2. Write"),
    "index from one": ("cross-entropy", THREE + 1, 3, "takes class indices 0 to 2 for 3 outputs; got 3. Write"),
    "no probability": ("cross-entropy", XS, 2, "a probability for each class, >= 0 and of sum one; got .* in row 0"),
    "too many names": ("logistic", np.array(["a", "b", "c"])[THREE], 1, r"outputs in R\^1 and labels in R\^3"),
    "names for one number": ("half-square", np.array(["a", "b"])[INDEX], 1, r"outputs in R\^1 and labels in R\^2"),
    "width": ("square", INDEX, 2, r"outputs in R\^2 and labels in R\^1. Write a unit with outputs=1, or labels of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_labels_of_another_kind_are_refused(case):
    loss, ys, outputs, sentence = REFUSED[case]
    with pytest.raises(Refusal, match=sentence):
        value(loss, ys, outputs)


@pytest.mark.parametrize("loss", by_name(Loss))
def test_what_a_rule_gives_it_leaves_alone(loss):
    outputs = 2 if loss == "cross-entropy" else 1
    once = Risk(Perceptron(2, outputs), Sample(XS, INDEX), loss).data
    assert Risk(Perceptron(2, outputs), once, loss).data is once


def test_traced_labels_are_not_read():
    unit, cloud = Perceptron(2), uniform(np.ones((2, 4)))
    found = jax.jit(lambda ys: Risk(unit, Sample(XS, ys), "logistic")(cloud))(jnp.asarray(2.0 * INDEX[:, None] - 1))
    np.testing.assert_allclose(found, Risk(unit, Sample(XS, INDEX), "logistic")(cloud), rtol=1e-12)
