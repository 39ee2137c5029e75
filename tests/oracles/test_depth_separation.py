"""The energy that one direction holds of exp(iω Σ relu(x_j)), against quadrature, samples and its own symmetries."""

import jax
import numpy as np
import pytest

from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.measures.clouds import uniform
from haarflow.models.depth_separation import (
    coordinate_energy,
    least_norm,
    oscillating_unit,
    oscillation,
    ridge_energy,
)
from haarflow.models.networks import network

OMEGA = 3.0


def by_quadrature(u, omega):
    """`∫ |E[g; <u, x> = t]|² / p(t) dt` for two coordinates, the inner integral along the line <u, x> = t."""
    xs, ts, total = np.linspace(-25, 25, 10_001), np.linspace(-16, 16, 601), 0.0
    for t in ts:
        other = (t - u[0] * xs) / u[1]
        law = np.exp(-np.abs(xs) - np.abs(other)) / 4 / u[1]
        turned = law * np.exp(1j * omega * (np.maximum(xs, 0) + np.maximum(other, 0)))
        total += abs(np.trapezoid(turned, xs)) ** 2 / np.trapezoid(law, xs)
    return total * (ts[1] - ts[0])


@pytest.mark.parametrize("u", [(1.0, 1.0), (1.0, 0.6)])
def test_the_energy_of_a_direction_is_its_integral(u):
    assert ridge_energy(u, omega=OMEGA) == pytest.approx(by_quadrature(u, OMEGA), rel=1e-5)


def test_the_energy_of_a_coordinate_is_the_average_over_the_others():
    """Seen on samples: `E[g | x_1]` has modulus |E exp(iω relu)|^{d − 1}; false alarms below 1e-6."""
    draws = np.random.default_rng(0).laplace(size=400_000)
    factor = abs(np.exp(1j * OMEGA * np.maximum(draws, 0)).mean()) ** 2
    assert coordinate_energy(3, omega=OMEGA) == pytest.approx(factor**2, rel=2e-2)
    assert ridge_energy([0, 2.0, 0], omega=OMEGA) == coordinate_energy(3, omega=OMEGA)
    assert coordinate_energy(1, omega=OMEGA) == 1


def test_the_energy_knows_neither_length_nor_order_and_falls_with_every_coordinate_left_out():
    u = np.array([1.0, 0.7, 0.4])
    known = ridge_energy(u, omega=OMEGA)
    assert ridge_energy(5 * u[::-1], omega=OMEGA) == pytest.approx(known, rel=1e-9)
    assert ridge_energy([*u, 0.0], omega=OMEGA) == pytest.approx(known * coordinate_energy(2, omega=OMEGA), rel=1e-12)
    assert 0 < known < 1


def test_no_function_of_a_direction_holds_more_than_the_energy():
    """Least squares on forty functions of <u, x>, over 20 000 samples: their gain of chance is 40/20 000."""
    xs = np.random.default_rng(1).laplace(size=(20_000, 2))
    t = xs @ np.array([1.0, 1.0])
    features = np.stack([wave(k * t / 4) for k in range(20) for wave in (np.cos, np.sin)], axis=1)
    target = np.asarray(oscillation(xs, omega=OMEGA)) @ np.array([1, 1j])
    held = np.mean(np.abs(features @ np.linalg.lstsq(features, target, rcond=None)[0]) ** 2)
    assert 0.9 * ridge_energy([1.0, 1.0], omega=OMEGA) < held < ridge_energy([1.0, 1.0], omega=OMEGA) + 0.02


def test_one_layer_more_is_the_target_and_moves_with_permutations():
    d, unit = 3, oscillating_unit(3)
    xs = jax.random.laplace(jax.random.key(0), (7, d))
    exact = uniform(np.concatenate([np.full(d, OMEGA), np.eye(d).ravel()])[None])
    np.testing.assert_allclose(network(unit, exact, xs), oscillation(xs, omega=OMEGA), atol=1e-13)
    group = Symmetric(d)
    assert unit.action(natural_rep(group), trivial_rep(group, 2)).dim == unit.dim


def test_the_norm_that_is_needed_grows_as_the_energy_falls():
    assert least_norm(0.01, error=0.5) == pytest.approx(2.5)
    assert least_norm(0.0001, error=0.5) == pytest.approx(25)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ridge_energy([0.0, 0.0], omega=1.0), "with an entry that is not zero; got zeros"),
        (lambda: ridge_energy([1.0, 1e-9], omega=1.0), "zero or of similar size; got one of 1.0e-09"),
        (lambda: least_norm(0.1, error=1.0), "an error below 1"),
        (lambda: ridge_energy([1.0], omega=-1.0), "omega"),
    ],
)
def test_nonsense_is_refused(call, words):
    with pytest.raises(Refusal, match=words):
        call()
