"""Every loss: its slope is its derivative, it is convex where it says so, and it takes the labels that it names."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.labels import Labels
from haarflow.learning.losses import Huber, Loss, PseudoHuber, by_name, named
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.members import members
from haarflow.models.units import Dense

LOSSES = members(Loss)
DRAW = np.random.default_rng(0)


def shown(member):
    return type(member).__name__ if isinstance(member, Loss) else ""


def outputs(ys, count=6):
    """Random outputs against every label, in rows (count · m, c), and the labels again and again."""
    return 2 * np.random.default_rng(1).normal(size=(count * len(ys), ys.shape[1])), np.tile(ys, (count, 1))


@eqx.filter_jit
def values(loss, fs, ys):
    return jax.vmap(loss)(fs, ys)


@eqx.filter_jit
def slopes(loss, fs, ys):
    return jax.vmap(jax.grad(loss))(fs, ys)


def finite_difference(loss, fs, ys, h=1e-6):
    """The slope in every coordinate of every row, (m, c)."""
    moved = [[np.asarray(values(loss, fs + sign * row, ys)) for sign in (1, -1)] for row in h * np.eye(fs.shape[1])]
    return np.stack([(above - below) / (2 * h) for above, below in moved], axis=1)


@pytest.mark.parametrize(("loss", "ys"), LOSSES, ids=shown)
def test_the_slope_is_the_derivative(loss, ys):
    fs, labels = outputs(ys, count=2)
    np.testing.assert_allclose(slopes(loss, fs, labels), finite_difference(loss, fs, labels), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("loss", "ys"), LOSSES, ids=shown)
def test_a_loss_that_claims_to_be_convex_lies_below_its_chords(loss, ys):
    (one, labels), other = outputs(ys), 2 * DRAW.normal(size=(6 * len(ys), ys.shape[1]))
    ends, middle = (np.asarray(values(loss, fs, labels)) for fs in (one, (one + 3 * other) / 4))
    chord = (ends + 3 * np.asarray(values(loss, other, labels))) / 4
    assert (middle <= chord + 1e-12).all() or not loss.convex


@pytest.mark.parametrize(("loss", "ys"), LOSSES, ids=shown)
def test_a_square_is_a_square(loss, ys):
    fs, labels = outputs(ys)
    squares = np.sum((fs - labels) ** 2, axis=1)
    found = np.asarray(values(loss, fs, labels))
    assert (loss.square is not None) == bool(np.allclose(found / squares, (found / squares)[0]))
    if loss.square is not None:
        np.testing.assert_allclose(found, loss.square * squares, rtol=1e-13)


@pytest.mark.parametrize(("loss", "ys"), LOSSES, ids=shown)
def test_labels_of_an_example_are_those_of_the_loss(loss, ys):
    ys = jnp.asarray(ys)
    assert loss.fitting(Labels(ys), ys.shape[1]) is ys
    assert (np.asarray(values(loss, ys, ys)) < np.asarray(values(loss, -3 * ys, ys))).all()
    if loss.labels != "reals":
        with pytest.raises(Refusal, match=f"The loss {loss.called} takes"):
            loss.fitting(Labels(ys + 0.7), ys.shape[1])


def test_every_name_makes_its_loss_and_the_classes_of_users_are_found():
    assert {"half-square", "square", "absolute", "huber", "pseudo-huber", "logistic", "cross-entropy"} <= set(
        by_name(Loss)
    )
    assert all(type(named(Loss, "A loss", name)) is cls for name, cls in by_name(Loss).items())

    class Quartic(Loss):
        """The fourth power."""

        name, convex = "quartic", True

        def __call__(self, f, y):
            return jnp.sum((f - y) ** 4)

        @classmethod
        def examples(cls):
            return []

    risk = Risk(Dense(2, 1), Sample(np.eye(2), np.ones(2)), "quartic")
    assert isinstance(risk.loss, Quartic)


def test_huber_is_between_a_square_and_an_absolute_value():
    error, zero = jnp.asarray([0.1, 5.0]), jnp.zeros(2)
    np.testing.assert_allclose(Huber(1.0)(error, zero), 0.1**2 / 2 + 4.5, rtol=1e-14)
    np.testing.assert_allclose(Huber(1e9)(error, zero), named(Loss, "", "half-square")(error, zero), rtol=1e-14)
    np.testing.assert_allclose(Huber(1e-9)(error, zero) / 1e-9, named(Loss, "", "absolute")(error, zero), rtol=1e-8)
    np.testing.assert_allclose(PseudoHuber()(error, zero), sum(np.sqrt(1 + np.array([0.1, 5.0]) ** 2) - 1), rtol=1e-14)
    np.testing.assert_allclose(PseudoHuber(1e4)(error, zero), named(Loss, "", "half-square")(error, zero), rtol=1e-6)


def test_losses_of_several_widths_run_in_one_program():
    sample, start = Sample(np.eye(2), np.array([1.0, -3.0])), uniform(DRAW.normal(size=(3, 2)))
    fields = [Descend(Risk(Dense(2, 1), sample, Huber(delta))) for delta in (0.1, 1.0)]
    paths = flow(fields, Euler(), start, key=jax.random.split(jax.random.key(0), 2), dt=0.1, steps=3)
    alone = flow(fields[1], Euler(), start, key=jax.random.key(0), dt=0.1, steps=3)
    np.testing.assert_allclose(paths.cloud.atoms[1], alone.cloud.atoms, rtol=1e-12)
    assert np.abs(paths.cloud.atoms[1] - paths.cloud.atoms[0]).max() > 1e-3


def test_a_plain_function_is_a_loss():
    sample, mu = Sample(DRAW.normal(size=(4, 2)), DRAW.normal(size=(4, 1))), uniform(DRAW.normal(size=(3, 2)))
    given = Risk(Dense(2, 1), sample, lambda f, y: jnp.sum((f - y) ** 2))
    known = Risk(Dense(2, 1), sample, "square")
    np.testing.assert_allclose(given(mu), known(mu), rtol=1e-14)
    for found, wanted in zip(given.variation(mu), known.variation(mu), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
