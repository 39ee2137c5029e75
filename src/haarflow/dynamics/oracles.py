"""Flows whose end is known: closed forms and small differential equations that particles must agree with.

Growth alone multiplies densities; a quadratic potential keeps Gaussians Gaussian; quadratic units see their cloud
through one matrix; frozen features make training linear. Each oracle comes with the functional it solves.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.learning.risks import Functional, Variation


def replicator(
    weights: Float[Array, "n"], potential: Float[Array, "n"], *, alpha: float | Array, time: float | Array
) -> Float[Array, "n"]:
    """Growth alone in a fixed potential: `p_k(t) ∝ p_k exp(−alpha t F_k)`."""
    return jax.nn.softmax(jnp.log(weights) - alpha * time * potential)


class Bowl(Functional):
    """`∫ ½θᵀHθ + bᵀθ dmu + ½ mᵀAm`, m the mean: a quadratic potential and a quadratic interaction, both symmetric."""

    H: Float[Array, "p p"] = eqx.field(converter=jnp.asarray)
    b: Float[Array, "p"] = eqx.field(converter=jnp.asarray)
    A: Float[Array, "p p"] = eqx.field(converter=jnp.asarray)

    def __call__(self, cloud):
        mean = cloud.mean()
        alone = jnp.sum((cloud.atoms @ self.H) * cloud.atoms, axis=1) / 2 + cloud.atoms @ self.b
        return cloud.weights @ alone + mean @ self.A @ mean / 2

    def variation(self, cloud):
        force = self.b + self.A @ cloud.mean()
        pulled = cloud.atoms @ self.H
        return Variation(jnp.sum(pulled * cloud.atoms, axis=1) / 2 + cloud.atoms @ force, -pulled - force[None, :])

    @classmethod
    def examples(cls):
        H = np.diag([2.0, 1.0, 0.5, 0.3]) + 0.1
        return [cls(H, np.array([0.3, -0.2, 0.0, 1.0]), np.diag([0.5, 0.0, -0.2, 0.1]))]


def gaussian_flow(
    bowl: Bowl,
    mean: Float[Array, "p"],
    covariance: Float[Array, "p p"],
    *,
    times: Float[Array, "k"],
    transport: float | Array = 1.0,
    alpha: float | Array = 0.0,
    beta: float | Array = 0.0,
    step: float | Array | None = None,
) -> tuple[Float[Array, "k p"], Float[Array, "k p p"]]:
    """Means and covariances of a Gaussian in a Bowl, under transport, growth of rate alpha and temperature beta.

    `m' = −(transport I + alpha S)(Hm + b + Am)`, `S' = −transport (HS + SH) − alpha SHS + 2 beta I`. With `step`, what
    Euler's method of that step makes of them: its distance from the truth is what a first-order scheme may err.
    """
    numbers = (mean, covariance, times, transport, alpha, beta, step)
    return _gaussian(bowl, *(None if number is None else jnp.asarray(number, float) for number in numbers))


@eqx.filter_jit
def _gaussian(bowl, mean, covariance, times, transport, alpha, beta, step):
    identity = jnp.eye(len(mean))

    def slope(_, state, __):
        m, S = state
        force = bowl.H @ m + bowl.b + bowl.A @ m
        spread = -transport * (bowl.H @ S + S @ bowl.H) - alpha * (S @ bowl.H @ S) + 2 * beta * identity
        return -(transport * identity + alpha * S) @ force, spread

    return solve(slope, (mean, covariance), times, step=step)


class QuadraticRisk(Functional):
    """The exact half square risk of `<w, x>²` particles against `xᵀ target x`, for x ~ N(0, I)."""

    target: Float[Array, "d d"] = eqx.field(converter=jnp.asarray)

    def __call__(self, cloud):
        return quadratic_norm(self._gap(cloud)) / 2

    def _gap(self, cloud):
        return cloud.atoms.T @ (cloud.weights[:, None] * cloud.atoms) - self.target

    def variation(self, cloud):
        pull = _pull(self._gap(cloud)) / 2
        pulled = cloud.atoms @ pull
        return Variation(jnp.sum(pulled * cloud.atoms, axis=1), -2 * pulled)

    @classmethod
    def examples(cls):
        return [cls(np.diag([1.0, 0.5, 0.25, 0.0]) + 0.1)]


def quadratic_norm(form: Float[Array, "d d"]) -> Float[Array, ""]:
    """`E (xᵀMx)² = (tr M)² + 2 tr M²` for a symmetric M and x ~ N(0, I)."""
    return jnp.trace(form) ** 2 + 2 * jnp.sum(form**2)


def _pull(gap):
    """The matrix B of the particles' equation `w' = −Bw`."""
    return 2 * jnp.trace(gap) * jnp.eye(len(gap)) + 4 * gap


def _sampled_pull(gap, inputs):
    """The same over a sample of inputs (b, d): `B = 2 mean_b (xᵀ gap x) x xᵀ`."""
    errors = jnp.sum((inputs @ gap) * inputs, axis=1)
    return 2 * (inputs.T * errors[None, :]) @ inputs / len(inputs)


def _quadratic_slope(target: Array, inputs: Array | None = None) -> Callable:
    def slope(S):
        B = _pull(S - target) if inputs is None else _sampled_pull(S - target, inputs)
        return -(B @ S + S @ B)

    return slope


@eqx.filter_jit
def quadratic_flow(
    start: Float[Array, "d d"],
    target: Float[Array, "d d"],
    *,
    times: Float[Array, "k"],
    inputs: Float[Array, "b d"] | None = None,
    tolerance: float | Array | None = None,
) -> Float[Array, "k d d"]:
    """The second moments `S = ∫ w wᵀ dmu` of quadratic units in training: `S' = −(BS + SB)`, exact at every width.

    The inputs are N(0, I), or a sample of them where one is given.
    """
    slope = _quadratic_slope(jnp.asarray(target, float), inputs)
    return solve(lambda t, S, _: slope(S), jnp.asarray(start, float), times, tolerance=tolerance)


@eqx.filter_jit
def quadratic_map(
    start: Float[Array, "d d"],
    target: Float[Array, "d d"],
    *,
    times: Float[Array, "k"],
    tolerance: float | Array | None = None,
) -> Float[Array, "k d d"]:
    """The matrices A(t) that carry the particles of `quadratic_flow`, `w(t) = A(t) w(0)`: `A' = −BA`, `S = A S₀ Aᵀ`."""
    begun, goal = jnp.asarray(start, float), jnp.asarray(target, float)

    def slope(_, A, __):
        return -_pull(A @ begun @ A.T - goal) @ A

    return solve(slope, jnp.eye(len(begun)), times, tolerance=tolerance)


@eqx.filter_jit
def quadratic_descent(
    start: Float[Array, "d d"], target: Float[Array, "d d"], *, inputs: Float[Array, "k b d"], step: float | Array
) -> Float[Array, "k_plus_1 d d"]:
    """The second moments of quadratic units along SGD, one batch of b inputs a step, from the start on.

    Exact at every width: `S⁺ = (I − step B) S (I − step B)` with `B = 2 mean_b (xᵀ(S − target)x) x xᵀ`.
    """
    goal = jnp.asarray(target, float)

    def once(S, batch):
        move = jnp.eye(len(goal)) - step * _sampled_pull(S - goal, batch)
        moved = move @ S @ move
        return moved, moved

    begun = jnp.asarray(start, float)
    return jnp.concatenate([begun[None], jax.lax.scan(once, begun, inputs)[1]])


@eqx.filter_jit
def quadratic_fluctuation(
    start: Float[Array, "d d"], target: Float[Array, "d d"], *, times: Float[Array, "k"]
) -> Float[Array, "k"]:
    """The limit of `n E|f_n(t) − f(t)|²` for n particles drawn from N(0, start).

    The Wishart fluctuation is `start^½ G start^½`, G with independent coordinates of variance two in an orthonormal
    basis of the symmetric matrices; each basis element is carried by the linearised flow, and their norms add up.
    """
    slope = _quadratic_slope(jnp.asarray(target, float))
    values, vectors = jnp.linalg.eigh(jnp.asarray(start, float))
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0))[None, :]) @ vectors.T
    basis = jnp.asarray(_symmetric_basis(len(root)))
    tangents = jnp.sqrt(2.0) * jnp.einsum("ij,ajk,kl->ail", root, basis, root)

    def linearised(_, state, __):
        S, M = state
        return slope(S), jax.vmap(lambda tangent: jax.jvp(slope, (S,), (tangent,))[1])(M)

    carried = solve(linearised, (jnp.asarray(start, float), tangents), times)[1]
    return jnp.sum(jax.vmap(jax.vmap(quadratic_norm))(carried), axis=1)


def quadratic_sampling(moments: Float[Array, "k d d"]) -> Float[Array, "k"]:
    """The Monte-Carlo level: `n E|f_n − f|²` for n fresh draws from N(0, S), `4 tr S² + 2 (tr S)²`, for each S."""
    return 4 * jnp.sum(moments**2, axis=(1, 2)) + 2 * jnp.trace(moments, axis1=1, axis2=2) ** 2


def _symmetric_basis(d: int) -> Float[np.ndarray, "a d d"]:
    rows, columns = np.triu_indices(d)
    basis = np.zeros((len(rows), d, d))
    scale = np.where(rows == columns, 1.0, np.sqrt(0.5))
    basis[np.arange(len(rows)), rows, columns] = scale
    basis[np.arange(len(rows)), columns, rows] = scale
    return basis


@eqx.filter_jit
def frozen_flow(
    features: Float[Array, "n b"],
    ys: Float[Array, "b"],
    *,
    times: Float[Array, "k"],
    ridge: float | Array = 0.0,
    weights: Float[Array, "n"] | None = None,
) -> Float[Array, "k b"]:
    """`f(t)` on b inputs when only the outputs a_i of n features learn, from zero: `f' = −K(f − y) − ridge f`.

    K is the Gram matrix of the features over the inputs, divided by b; the penalty is `ridge ∫ ½a² dmu`.
    """
    values, vectors = jnp.linalg.eigh(_gram(features, weights))
    values = jnp.maximum(values, 0)
    rates = values + ridge
    kept = values / jnp.where(rates > 0, rates, 1)
    grown = -jnp.expm1(-rates[None, :] * jnp.asarray(times, float)[:, None]) * kept[None, :]
    return (grown * (vectors.T @ ys)[None, :]) @ vectors.T


@eqx.filter_jit
def frozen_fluctuation(
    features: Float[Array, "n b"],
    ys: Float[Array, "b"],
    *,
    ridge: float | Array,
    weights: Float[Array, "n"] | None = None,
) -> Float[Array, ""]:
    """The limit of `n E mean_b |f_n − f|²` after training, n features drawn from the given ones.

    It is `ridge² E mean_b |(K + ridge)⁻¹ (φφᵀ/b − K) (K + ridge)⁻¹ y|²`. Without ridge it is zero: both interpolate.
    """
    n, b = features.shape
    K = _gram(features, weights)
    inverse = jnp.linalg.inv(K + ridge * jnp.eye(b))
    dual = inverse @ ys
    gaps = ridge * (features * (features @ dual)[:, None] / b - (K @ dual)[None, :]) @ inverse
    return (jnp.full(n, 1 / n) if weights is None else weights) @ jnp.mean(gaps**2, axis=1)


def _gram(features, weights):
    n, b = features.shape
    mass = jnp.full(n, 1 / n) if weights is None else weights
    return features.T @ (mass[:, None] * features) / b


def solve(
    slope: Callable,
    start: Any,
    times: Any,
    *,
    step: float | Array | None = None,
    tolerance: float | Array | None = None,
) -> Any:
    """The solution of `y' = slope(t, y, None)` from time zero, at increasing times; by Euler's method with `step`.

    The relative tolerance is 1e-10 unless another is given, and 1e-5 in float32.
    """
    import diffrax

    times = jnp.asarray(times, float)
    if tolerance is None:
        tolerance = 1e-10 if jax.config.read("jax_enable_x64") else 1e-5
    control: Any = diffrax.PIDController(rtol=tolerance, atol=1e-3 * tolerance)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),  # pyright: ignore[reportArgumentType]
        diffrax.Tsit5() if step is None else diffrax.Euler(),
        t0=0.0,
        t1=times[-1],
        dt0=step,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=control if step is None else diffrax.ConstantStepSize(),
        max_steps=100_000,
    )
    return solution.ys
