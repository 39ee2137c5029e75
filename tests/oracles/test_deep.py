"""Residual networks: their layers, their symmetry, and the gradient flow of one particle written out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.learning.averaging import average_network
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.networks import network
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, Perceptron

DRAW = np.random.default_rng(4)
S3 = natural_rep(Symmetric(3))
MODEL = Residual((Dense(3, 3, "tanh"), Perceptron(3, 3, "tanh"), Dense(3, 2, "softplus")))


def cloud(n=4, p=MODEL.dim):
    weights = DRAW.exponential(size=n)
    return Cloud(DRAW.normal(size=(n, p)), weights / weights.sum())


def test_layers_are_averages_of_their_own_parameters():
    mu, xs = cloud(), jnp.asarray(DRAW.normal(size=(5, 3)))
    h, start = xs, 0
    for place, layer in enumerate(MODEL.layers):
        outputs = network(layer, Cloud(mu.atoms[:, start : start + layer.dim], mu.weights), h)
        h, start = (outputs if place == 2 else h + outputs), start + layer.dim
    np.testing.assert_allclose(MODEL(mu, xs), h, rtol=1e-13)


def test_a_residual_network_of_one_layer_is_a_network_and_its_risk_the_risk():
    unit = Dense(2, 2, "tanh")
    xs = DRAW.normal(size=(5, 2))
    sample, mu = Sample(xs, np.sin(xs)), cloud(p=4)
    deep, plain = Risk(Residual((unit,)), sample), Risk(unit, sample)
    np.testing.assert_allclose(deep(mu), plain(mu), rtol=1e-13)
    for found, known in zip(deep.variation(mu), plain.variation(mu), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-11)


def test_the_velocity_of_one_particle_is_the_gradient_of_its_loss():
    model = Residual((Dense(1, 1, "tanh"), Dense(1, 1, "tanh")))
    a, b, x, y = 0.7, -0.4, 1.3, 0.5
    deep = Risk(model, Sample(np.array([[x]]), np.array([[y]])))
    h = x + np.tanh(a * x)
    f = np.tanh(b * h)
    outer = (f - y) * (1 - f**2)
    expected = [-outer * b * (1 - np.tanh(a * x) ** 2) * x, -outer * h]
    np.testing.assert_allclose(deep.variation(uniform(np.array([[a, b]]))).velocity[0], expected, rtol=1e-12)


@pytest.mark.slow
def test_moved_clouds_answer_moved_inputs_and_orbits_are_equivariant():
    on_y = trivial_rep(S3.group, 2)
    model = Residual((Dense(3, 3, "tanh"), Perceptron(3, 2, "tanh")))
    action = model.action(S3, on_y)
    mu, xs = cloud(p=model.dim), jnp.asarray(DRAW.normal(size=(4, 3)))
    orbit, value = mu.orbit(action), jax.jit(model.__call__)
    for g, move in zip(S3.matrices()[1:4], action.matrices()[1:4], strict=True):
        np.testing.assert_allclose(value(mu.push(move), xs @ g.T), value(mu, xs), atol=1e-13)
        np.testing.assert_allclose(value(orbit, xs @ g.T), value(orbit, xs), atol=1e-13)
    averaged = average_network(model, S3, on_y)
    np.testing.assert_allclose(averaged(mu, xs @ S3.matrices()[3].T), averaged(mu, xs), atol=1e-13)
    assert np.abs(averaged(mu, xs) - model(orbit, xs)).max() > 1e-3


def test_an_averaged_network_is_equivariant_and_averages_by_hand():
    """Outputs that move by three-cycles, whose inverse is not itself."""
    model = Residual((Dense(3, 3, "tanh"), Dense(3, 3, "sigmoid")))
    mu, xs = cloud(p=model.dim), jnp.asarray(DRAW.normal(size=(4, 3)))
    averaged = average_network(model, S3, S3)
    by_hand = np.mean([model(mu, xs @ g.T) @ g for g in S3.matrices()], axis=0)
    np.testing.assert_allclose(averaged(mu, xs), by_hand, atol=1e-14)
    for g in S3.matrices():
        np.testing.assert_allclose(averaged(mu, xs @ g.T), averaged(mu, xs) @ g.T, atol=1e-13)


def test_a_draw_keeps_the_loss_and_finds_the_batch():
    xs = DRAW.normal(size=(5, 3))
    sample, mu, key = Sample(xs, np.sin(xs[:, :2]), 2), cloud(), jax.random.key(1)
    drawn = Sample(*sample.batch(key))
    for loss in ("square", "pseudo-huber"):
        found, known = Risk(MODEL, sample, loss).sample(key)(mu), Risk(MODEL, drawn, loss)(mu)
        np.testing.assert_allclose(found, known, rtol=1e-14)


def test_layers_and_particles_that_do_not_fit_are_refused():
    with pytest.raises(Refusal, match=r"keeps its width d until the last layer.*got layers R\^3 to R\^2, R\^2 to R\^1"):
        Residual((Dense(3, 2), Dense(2, 1)))
    with pytest.raises(Refusal, match=r"Residual's layers\[0\] is .* Unit; got 'tanh'. Write Dense"):
        Residual(("tanh",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(Refusal, match="got layers none"):
        Residual(())
    with pytest.raises(Refusal, match=r"has 22 numbers, those of all layers; got atoms in R\^4"):
        MODEL(cloud(p=4), jnp.ones((1, 3)))
    batches = Sample(np.ones((5, 3)), np.ones((5, 2)), 2)
    with pytest.raises(Refusal, match="A Risk has an exact value over a whole Sample only"):
        Risk(MODEL, batches)(cloud())


def test_what_is_no_network_and_what_does_not_fit_it_is_refused():
    unit, sample = Dense(3, 2), Sample(np.ones((5, 3)), np.ones((5, 1)))
    with pytest.raises(Refusal, match=r"got a Residual, which is the mean of none. Write Risk\(unit, data\)"):
        _ = Risk(MODEL, Sample(np.ones((5, 3)), np.ones((5, 2)))).unit
    with pytest.raises(Refusal, match=r"got outputs in R\^2 and labels in R\^1"):
        Risk(MODEL, sample)
    with pytest.raises(Refusal, match=r"got outputs \(5, 2\) and labels \(5, 1\)"):
        Risk(lambda cloud, xs: MODEL(cloud, xs), sample)(cloud())
    with pytest.raises(Refusal, match=r"got a Residual of inputs in R\^3 and data with inputs in R\^2"):
        Risk(MODEL, Sample(np.ones((5, 2)), np.ones((5, 2))))
    with pytest.raises(Refusal, match=r"A Dense from R\^3 to R\^2 needs representations of those sizes"):
        average_network(unit, S3, S3)
    with pytest.raises(Refusal, match="average_network takes representations of one group"):
        average_network(MODEL, S3, trivial_rep(Symmetric(2), 2))
    with pytest.raises(Refusal, match="got on_y of size 3 and outputs of size 2"):
        average_network(MODEL, S3, S3)
    with pytest.raises(Refusal, match="got on_y of size 3 and outputs of size 2"):
        average_network(lambda cloud, xs: MODEL(cloud, xs), S3, S3)(cloud(), [[1, 1, 1]])
    with pytest.raises(Refusal, match="got on_x of size 3 and inputs of size 2"):
        average_network(MODEL, S3, trivial_rep(S3.group, 2))(cloud(), jnp.ones((1, 2)))
