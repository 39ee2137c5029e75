"""Flows whose end is known: closed forms and small differential equations that particles must agree with.

Growth alone multiplies densities; a quadratic potential keeps Gaussians Gaussian; quadratic units see their cloud
through one matrix; frozen features make training linear. Each oracle comes with the functional it solves.
"""

from collections.abc import Callable
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.doors import Above, Least, door
from haarflow.dynamics.equations import (
    arrays,
    refuse_unless_covariance,
    refuse_unless_features,
    refuse_unless_in,
    refuse_unless_moments,
    refuse_unless_symmetric,
    refuse_unless_times,
    solve,
    solved,
)
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Variation
from haarflow.values import leaf

Rate = Annotated[float | Float[Array, ""], Least(0)]
Step = Annotated[float | Float[Array, ""], Above(0)]
Row = Float[Array, "n"] | Float[np.ndarray, "n"]
Times = Float[Array, "k"] | Float[np.ndarray, "k"]
Square = Float[Array, "d d"] | Float[np.ndarray, "d d"]


@door
def replicator(weights: Annotated[Row, Least(0)], potential: Row, *, alpha: Rate, time: Rate) -> Float[Array, "n"]:
    """Growth alone in a fixed potential: `p_k(t) ∝ p_k exp(−alpha t F_k)`."""
    if not isinstance(weights, Tracer) and not np.any(weights):
        raise Refusal("A replicator starts with weights, not all zero; got zeros. Write np.full(n, 1 / n).")
    return solved(jax.nn.softmax(jnp.log(weights) - alpha * time * potential))


@door
class QuadraticEnergy(Functional):
    """`∫ ½θᵀHθ + bᵀθ dmu + ½ mᵀAm`, m the mean: a quadratic potential and a quadratic interaction, both symmetric."""

    H: Float[Array, "p p"] = eqx.field(converter=leaf)
    b: Float[Array, "p"] = eqx.field(converter=leaf)
    A: Float[Array, "p p"] = eqx.field(converter=leaf)

    def __check_init__(self):
        for name, matrix in (("H", self.H), ("A", self.A)):
            refuse_unless_symmetric(f"A QuadraticEnergy's {name}", matrix)

    @property
    def dim(self):
        return len(self.b)

    def __call__(self, cloud):
        refuse_unless_in("A QuadraticEnergy", len(self.b), cloud)
        mean = cloud.mean()
        alone = jnp.sum((cloud.atoms @ self.H) * cloud.atoms, axis=1) / 2 + cloud.atoms @ self.b
        return cloud.weights @ alone + mean @ self.A @ mean / 2

    def variation(self, cloud):
        refuse_unless_in("A QuadraticEnergy", len(self.b), cloud)
        force = self.b + self.A @ cloud.mean()
        pulled = cloud.atoms @ self.H
        return Variation(jnp.sum(pulled * cloud.atoms, axis=1) / 2 + cloud.atoms @ force, -pulled - force[None, :])

    @classmethod
    def examples(cls):
        H = np.diag([2.0, 1.0, 0.5, 0.3]) + 0.1
        return [cls(H, np.array([0.3, -0.2, 0.0, 1.0]), np.diag([0.5, 0.0, -0.2, 0.1]))]


@door
def gaussian_flow(
    bowl: QuadraticEnergy,
    mean: Float[Array, "p"] | Float[np.ndarray, "p"],
    covariance: Float[Array, "p p"] | Float[np.ndarray, "p p"],
    *,
    times: Times,
    transport: Rate = 1.0,
    alpha: Rate = 0.0,
    beta: Rate = 0.0,
    step: Step | None = None,
) -> tuple[Float[Array, "k p"], Float[Array, "k p p"]]:
    """Means and covariances of a Gaussian in a QuadraticEnergy, under transport, growth at rate alpha and noise.

    `m' = −(transport I + alpha S)(Hm + b + Am)`, `S' = −transport (HS + SH) − alpha SHS + 2 beta I`. With `step`, what
    Euler's method of that step makes of them: its distance from the truth is what a first-order scheme may err.
    """
    if len(mean) != len(bowl.b):
        raise Refusal(
            f"A Gaussian in a QuadraticEnergy of R^{len(bowl.b)} has a mean there; got one in R^{len(mean)}. "
            f"Write {len(bowl.b)} numbers."
        )
    refuse_unless_covariance("A Gaussian's covariance", covariance)
    refuse_unless_times(times)
    numbers = (mean, covariance, times, transport, alpha, beta, step)
    return solved(_gaussian(bowl, *(None if number is None else jnp.asarray(number, float) for number in numbers)))


@eqx.filter_jit
def _gaussian(bowl, mean, covariance, times, transport, alpha, beta, step):
    identity = jnp.eye(len(mean))

    def slope(_, state, __):
        m, S = state
        force = bowl.H @ m + bowl.b + bowl.A @ m
        spread = -transport * (bowl.H @ S + S @ bowl.H) - alpha * (S @ bowl.H @ S) + 2 * beta * identity
        return -(transport * identity + alpha * S) @ force, spread

    return solve(slope, (mean, covariance), times, step=step)


@door
class QuadraticRisk(Functional):
    """The exact half square risk of `<w, x>²` particles against `xᵀ target x`, for x ~ N(0, I)."""

    target: Float[Array, "d d"] = eqx.field(converter=leaf)

    def __check_init__(self):
        refuse_unless_symmetric("A QuadraticRisk's target", self.target)

    @property
    def dim(self):
        return len(self.target)

    def __call__(self, cloud):
        return quadratic_norm(self._gap(cloud)) / 2

    def _gap(self, cloud):
        refuse_unless_in("A QuadraticRisk", len(self.target), cloud)
        return cloud.atoms.T @ (cloud.weights[:, None] * cloud.atoms) - self.target

    def variation(self, cloud):
        pull = _pull(self._gap(cloud)) / 2
        pulled = cloud.atoms @ pull
        return Variation(jnp.sum(pulled * cloud.atoms, axis=1), -2 * pulled)

    @classmethod
    def examples(cls):
        return [cls(np.diag([1.0, 0.5, 0.25, 0.0]) + 0.1)]


def quadratic_norm(
    form: Float[Array, "*k d d"] | Float[np.ndarray, "*k d d"],
    inputs: Float[Array, "b d"] | Float[np.ndarray, "b d"] | None = None,
) -> Float[Array, "*k"]:
    """`E (xᵀMx)²` of each of the symmetric matrices M: over a sample of inputs, or x ~ N(0, I): `(tr M)² + 2 tr M²`."""
    if inputs is not None:
        return jnp.mean(jnp.einsum("bi,...ij,bj->...b", inputs, form, inputs) ** 2, axis=-1)
    return jnp.trace(form, axis1=-2, axis2=-1) ** 2 + 2 * jnp.sum(form**2, axis=(-2, -1))


def _pull(gap):
    """The matrix B of the particles' equation `w' = −Bw`."""
    return 2 * jnp.trace(gap) * jnp.eye(len(gap)) + 4 * gap


def _sampled_pull(gap, inputs):
    """The same over a sample of inputs (b, d): `B = 2 mean_b (xᵀ gap x) x xᵀ`."""
    errors = jnp.sum((inputs @ gap) * inputs, axis=1)
    return 2 * (inputs.T * errors[None, :]) @ inputs / len(inputs)


def quadratic_slope(target: Array, inputs: Array | None = None) -> Callable:
    """The right side of `S' = −(BS + SB)`, as a function of S."""

    def slope(S):
        B = _pull(S - target) if inputs is None else _sampled_pull(S - target, inputs)
        return -(B @ S + S @ B)

    return slope


@door
def quadratic_flow(
    start: Square,
    target: Square,
    *,
    times: Times,
    inputs: Float[Array, "b d"] | Float[np.ndarray, "b d"] | None = None,
    tolerance: Step | None = None,
) -> Float[Array, "k d d"]:
    """The second moments `S = ∫ w wᵀ dmu` of quadratic units in training: `S' = −(BS + SB)`, exact at every width.

    The inputs are N(0, I), or a sample of them where one is given.
    """
    refuse_unless_moments(start, target)
    refuse_unless_times(times)
    return solved(_quadratic_flow(*arrays(start, target, times, inputs, tolerance)))


@eqx.filter_jit
def _quadratic_flow(start, target, times, inputs, tolerance):
    slope = quadratic_slope(target, inputs)
    return solve(lambda t, S, _: slope(S), start, times, tolerance=tolerance)


@door
def quadratic_map(
    start: Square, target: Square, *, times: Times, tolerance: Step | None = None
) -> Float[Array, "k d d"]:
    """The matrices A(t) that carry the particles of `quadratic_flow`, `w(t) = A(t) w(0)`: `A' = −BA`, `S = A S₀ Aᵀ`."""
    refuse_unless_moments(start, target)
    refuse_unless_times(times)
    return solved(_quadratic_map(*arrays(start, target, times, tolerance)))


@eqx.filter_jit
def _quadratic_map(start, target, times, tolerance):
    def slope(_, A, __):
        return -_pull(A @ start @ A.T - target) @ A

    return solve(slope, jnp.eye(len(start)), times, tolerance=tolerance)


@door
def quadratic_descent(
    start: Square, target: Square, *, inputs: Float[Array, "k b d"] | Float[np.ndarray, "k b d"], step: Step
) -> Float[Array, "k_plus_1 d d"]:
    """The second moments of quadratic units along SGD, one batch of b inputs a step, from the start on.

    Exact at every width: `S⁺ = (I − step B) S (I − step B)` with `B = 2 mean_b (xᵀ(S − target)x) x xᵀ`.
    """
    refuse_unless_moments(start, target)
    return solved(_quadratic_descent(*arrays(start, target, inputs, step)))


@eqx.filter_jit
def _quadratic_descent(start, target, inputs, step):
    def once(S, batch):
        move = jnp.eye(len(target)) - step * _sampled_pull(S - target, batch)
        moved = move @ S @ move
        return moved, moved

    return jnp.concatenate([start[None], jax.lax.scan(once, start, inputs)[1]])


@door
def random_feature_flow(
    features: Float[Array, "n b"] | Float[np.ndarray, "n b"],
    ys: Float[Array, "b"] | Float[np.ndarray, "b"],
    *,
    times: Annotated[Times, Least(0)],
    ridge: Rate = 0.0,
    weights: Annotated[Row, Least(0)] | None = None,
) -> Float[Array, "k b"]:
    """`f(t)` on b inputs when only the outputs a_i of n features learn, from zero: `f' = −K(f − y) − ridge f`.

    K is the Gram matrix of the features over the inputs, divided by b; the penalty is `ridge ∫ ½a² dmu`.
    """
    refuse_unless_features(features, weights)
    return solved(_random_feature_flow(*arrays(features, ys, times, ridge, weights)))


@eqx.filter_jit
def _random_feature_flow(features, ys, times, ridge, weights):
    values, vectors = jnp.linalg.eigh(gram(features, weights))
    values = jnp.maximum(values, 0)
    rates = values + ridge
    kept = values / jnp.where(rates > 0, rates, 1)
    grown = -jnp.expm1(-rates[None, :] * times[:, None]) * kept[None, :]
    return (grown * (vectors.T @ ys)[None, :]) @ vectors.T


def gram(features: Float[Array, "n b"], weights: Float[Array, "n"] | None) -> Float[Array, "b b"]:
    """The Gram matrix of weighted features over b inputs, divided by b."""
    n, b = features.shape
    mass = jnp.full(n, 1 / n) if weights is None else weights
    return features.T @ (mass[:, None] * features) / b
