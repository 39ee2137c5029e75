"""Losses beside their laws (test_members.py): their names, closed forms, and functions that are losses."""

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Sample
from haarflow.learning.losses import Huber, Loss, PseudoHuber, by_name, named
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.models.units import Dense

DRAW = np.random.default_rng(0)


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
