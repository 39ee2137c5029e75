"""Kernels against clouds on the circle, against the flow they describe, and against each other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.kernels import (
    Linearised,
    Scaled,
    arc_cosine,
    feature_kernel,
    kernel_flow,
    kernel_ridge,
    relu_beyond_linear,
    relu_tangent,
    tangent_kernel,
)
from haarflow.models.networks import network
from haarflow.models.units import Custom, Dense, Perceptron

ARCS = jax.jit(arc_cosine, static_argnames="degree")
TANGENT = eqx.filter_jit(tangent_kernel)
SAID = eqx.filter_jit(network)
XS = jnp.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1], [-1.0, -0.7]])
ANGLES = 2 * np.pi * (np.arange(4000) + 0.3) / 4000
CIRCLE = np.sqrt(2) * np.column_stack([np.cos(ANGLES), np.sin(ANGLES)])  # |w|² as of a Gaussian in the plane
SMOOTH = Perceptron(2, 1, "tanh")
CLOUD = Cloud(
    np.array([[1.0, 0.4, -0.3, 0.1], [-0.6, 1.0, 0.8, 0.0], [0.3, -0.2, 0.5, 0.7]]), np.array([0.5, 0.3, 0.2])
)


def test_arc_cosine_kernels_are_those_of_infinitely_many_features():
    wanted = eqx.filter_jit(feature_kernel)(Dense(2, 1, "relu"), uniform(CIRCLE), XS, XS[:2])
    np.testing.assert_allclose(ARCS(XS, XS[:2]), wanted, atol=1e-5)
    steps = (np.asarray(XS) @ CIRCLE.T > 0).astype(float)
    np.testing.assert_allclose(ARCS(XS, XS, degree=0), steps @ steps.T / 4000, atol=1e-3)


def test_the_tangent_kernel_of_relu_units_has_a_closed_form():
    def unit(theta, x):
        return theta[:1] * jax.nn.relu(theta[1:] @ x)

    neuron = Custom(unit, 3, 2, 1, lambda on_x, on_y: on_y + on_x)
    atoms = np.concatenate([np.column_stack([np.full(4000, a), 0.7 * CIRCLE]) for a in (1.5, -1.5)])
    found = TANGENT(neuron, uniform(atoms), XS, XS[1:])
    np.testing.assert_allclose(found, jax.jit(relu_tangent)(XS, XS[1:], output=1.5, scale=0.7), atol=5e-3)


def test_the_tangent_kernel_says_how_outputs_move():
    ys = jnp.array([[1.0], [-1.0], [0.5], [2.0]])
    velocity = eqx.filter_jit(Risk(SMOOTH, Sample(XS, ys)).variation)(CLOUD).velocity
    new = jnp.array([[0.1, 0.9], [-2.0, 0.4]])

    def said(t):
        return network(SMOOTH, Cloud(CLOUD.atoms + t * velocity, CLOUD.weights), new)[:, 0]

    moved = jax.jit(lambda t: jax.jvp(said, (t,), (1.0,))[1])(0.0)
    gap = (SAID(SMOOTH, CLOUD, XS) - ys)[:, 0]
    np.testing.assert_allclose(moved, -TANGENT(SMOOTH, CLOUD, new, XS) @ gap / 4, rtol=1e-12)


def test_kernel_regression_is_the_end_of_its_flow():
    gram, cross = np.asarray(ARCS(XS, XS)), np.asarray(ARCS(XS[:2] + 0.3, XS))
    ys = np.array([1.0, -1.0, 0.5, 2.0])
    early, late = kernel_flow(gram, cross, ys, times=np.array([1e-7, 1e9]))
    np.testing.assert_allclose(early, 1e-7 * cross @ ys / 4, rtol=1e-6)
    np.testing.assert_allclose(late, cross @ kernel_ridge(gram, ys), rtol=1e-6)
    np.testing.assert_allclose((gram + 0.3 * np.eye(4)) @ kernel_ridge(gram, ys, ridge=0.3), ys, rtol=1e-10)


@pytest.mark.parametrize("size", [1e-20, 1e-12, 1e12])
def test_the_flow_of_a_kernel_scales_with_it(size):
    """K and time trade places: f at time t under K is f at time t/s under sK."""
    gram, cross = np.asarray(ARCS(XS, XS)), np.asarray(ARCS(XS[:2] + 0.3, XS))
    ys, times = np.array([1.0, -1.0, 0.5, 2.0]), np.array([0.0, 1.0, 100.0])
    found = kernel_flow(size * gram, size * cross, ys, times=times / size)
    np.testing.assert_allclose(found, kernel_flow(gram, cross, ys, times=times), rtol=1e-9, atol=1e-12)


def test_a_linearised_unit_is_right_to_first_order_and_keeps_its_anchors():
    tangent = Linearised(SMOOTH)
    here = tangent.anchored(CLOUD)
    np.testing.assert_allclose(SAID(tangent, here, XS), SAID(SMOOTH, CLOUD, XS), rtol=1e-14)
    shift = jnp.sin(jnp.arange(12.0)).reshape(3, 4)

    def gap(size):
        moved = Cloud(jnp.concatenate([size * shift, CLOUD.atoms], axis=1), CLOUD.weights)
        truth = SAID(SMOOTH, Cloud(CLOUD.atoms + size * shift, CLOUD.weights), XS)
        return float(jnp.abs(SAID(tangent, moved, XS) - truth).max())

    assert 3.8 < gap(1e-2) / gap(5e-3) < 4.2
    field = restrict(
        Descend(Risk(Scaled(tangent, 2.0), Sample(XS, jnp.ones((4, 1))))), tangent.projector, through="start"
    )
    velocity = eqx.filter_jit(field)(jax.random.key(0), here).velocity
    np.testing.assert_array_equal(velocity[:, 4:], 0)
    plain = Descend(Risk(Scaled(SMOOTH, 2.0), Sample(XS, jnp.ones((4, 1)))))
    true = eqx.filter_jit(plain)(jax.random.key(0), CLOUD).velocity
    np.testing.assert_allclose(velocity[:, :4], true, rtol=1e-12)


def test_the_plateau_in_three_dimensions_and_in_many():
    np.testing.assert_allclose(relu_beyond_linear(3), 1 / 4 - 3 / 16, rtol=1e-12)  # x₁ is uniform there
    for d, slack in ((10**6, 1e-5), (10**15, 1e-12), (2**63 - 1, 1e-12)):
        np.testing.assert_allclose(relu_beyond_linear(d), 1 / 4 - 1 / (2 * np.pi), rtol=slack)
    with pytest.raises(Refusal, match=r"relu_beyond_linear's d is a whole number below 2\*\*63; got 1000"):
        relu_beyond_linear(10**400)


def test_refusals():
    with pytest.raises(Refusal, match=r"degree 0 \(steps\) or 1 \(ReLU\); got 3"):
        arc_cosine(XS, degree=3)
    with pytest.raises(Refusal, match="that of one output; got a unit with 2"):
        tangent_kernel(Dense(2, 2), uniform(np.ones((3, 4))), XS)
    with pytest.raises(Refusal, match="needs a positive definite K"):
        kernel_ridge(np.zeros((2, 2)), np.ones(2))
