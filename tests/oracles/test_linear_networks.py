"""Linear networks: layers are isometric, convolutions move with the group, and the flow turns to the largest margin."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import haarflow as hf
from haarflow.margins import DeepLinear, LogExponential, Normalised, Steerable


def test_layers_move_with_the_group():
    """Lifting, convolution and output: each commutes with the group's action on functions of its elements."""
    rep = hf.image_rep("dihedral", 3, 3)
    unit = Steerable(rep, channels=2, depth=3)
    theta = jnp.asarray(np.random.default_rng(0).normal(size=unit.dim))
    lift, inner, last = (np.asarray(one) for one in unit.matrices(theta))
    shift = np.stack([np.kron(one, np.eye(2)) for one in hf.regular_rep(rep.group).matrices()])
    for g, s in zip(rep.matrices(), shift, strict=True):
        assert np.allclose(lift @ g, s @ lift)
        assert np.allclose(inner @ s, s @ inner)
        assert np.allclose(last @ s, last)


def test_the_first_and_last_layers_are_isometric_and_orbit_sums_are_not():
    rep = hf.image_rep("rotations", 3, 3)
    draw = np.random.default_rng(1)
    for coordinates, even in (("isometric", True), ("orbit sums", False)):
        unit = Steerable(rep, channels=2, coordinates=coordinates)
        ratios = []
        for _ in range(4):
            theta = jnp.asarray(draw.normal(size=unit.dim))
            maps, parts = unit.matrices(theta), unit.parts(theta)
            ratios.append([float(np.linalg.norm(m) / np.linalg.norm(p)) for m, p in zip(maps, parts, strict=True)])
        assert np.allclose(np.asarray(ratios), 1) == even


@pytest.mark.optimised
def test_a_steerable_network_turns_to_the_largest_margin_of_the_averaged_data():
    rep = hf.image_rep("rotations", 3, 3)
    draw = np.random.default_rng(2)
    x, y = draw.normal(size=(8, 9)), np.where(np.arange(8) % 2, 1.0, -1.0)
    x = np.where(y[:, None] > 0, 1, -1) * (np.abs(x @ np.ones((9, 9))) / 9 + 0.3) + x - x.mean(axis=1, keepdims=True)
    unit = Steerable(rep, channels=2)
    field = hf.Descend(LogExponential(unit, hf.Sample(x, y)))
    scheme = Normalised(hf.Optax(optax.sgd(0.1, momentum=0.9)))
    path = hf.flow(
        field, scheme, unit.start(jax.random.key(0)), key=0, dt=0.05, steps=4000, schedule=lambda t: 1 / (1 + t / 5)
    )
    found = np.asarray(unit.vector(path.cloud.atoms[0]))
    assert 1 - found @ hf.max_margin(x, y, under=rep).direction / np.linalg.norm(found) < 1e-5


def test_the_log_of_the_exponential_risk_has_its_direction():
    unit = DeepLinear(3, width=2)
    sample = hf.Sample(np.array([[1.0, 0.5, 0.0], [-0.5, 1.0, 2.0]]), [1.0, -1.0])
    cloud, risk = unit.start(jax.random.key(1)), hf.Risk(unit, sample, "exponential")
    log = LogExponential(unit, sample)
    found = eqx.filter_jit(lambda c: (risk.variation(c).velocity, log.variation(c).velocity, risk(c)))(cloud)
    assert np.allclose(found[1] * found[2], found[0])
