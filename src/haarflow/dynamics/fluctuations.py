"""How far n particles are from their limit: the equations of fluctuations, and the Monte-Carlo levels above them.

`n E|f_n(t) − f(t)|²` has a limit as n grows: for quadratic units a linearised equation, for frozen features a constant
at the end. It is measured on networks of n drawn particles, which train without error, and for ReLU units in exact
integrals. The Monte-Carlo level is what n fresh draws from the law at time t would give, `∫|phi|² dmu_t − |f|²`.
"""

from functools import partial
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import Least, door
from haarflow.dynamics.equations import (
    arrays,
    refuse_unless_features,
    refuse_unless_moments,
    refuse_unless_times,
    solve,
    solved,
)
from haarflow.dynamics.oracles import (
    Rate,
    Row,
    Square,
    Times,
    gram,
    quadratic_flow,
    quadratic_norm,
    quadratic_slope,
    random_feature_flow,
)
from haarflow.learning.sphere import ReluLimit, relu_coordinates, relu_kernel


@door
def quadratic_fluctuation(start: Square, target: Square, *, times: Times) -> Float[Array, "k"]:
    """The limit of `n E|f_n(t) − f(t)|²` for n particles drawn from N(0, start).

    The Wishart fluctuation is `start^½ G start^½`, G with independent coordinates of variance two in an orthonormal
    basis of the symmetric matrices; each basis element is carried by the linearised flow, and their norms add up.
    """
    refuse_unless_moments(start, target)
    refuse_unless_times(times)
    return solved(_quadratic_fluctuation(*arrays(start, target, times)))


@eqx.filter_jit
def _quadratic_fluctuation(start, target, times):
    slope = quadratic_slope(target)
    values, vectors = jnp.linalg.eigh(start)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0))[None, :]) @ vectors.T
    basis = jnp.asarray(_symmetric_basis(len(root)))
    tangents = jnp.sqrt(2.0) * jnp.einsum("ij,ajk,kl->ail", root, basis, root)

    def linearised(_, state, __):
        S, M = state
        return slope(S), jax.vmap(lambda tangent: jax.jvp(slope, (S,), (tangent,))[1])(M)

    carried = solve(linearised, (start, tangents), times)[1]
    return jnp.sum(quadratic_norm(carried), axis=1)


def quadratic_draws(
    draw: np.random.Generator, start: np.ndarray, target: np.ndarray, *, n: int, runs: int, times: np.ndarray
) -> Float[Array, "r k d d"]:
    """The second moments of n quadratic units drawn from N(0, start), in training: Wishart matrices that flow."""
    from scipy.stats import wishart

    return _quadratic_draws(wishart(n, start / n, seed=draw).rvs(runs), target, times)


@jax.jit
@partial(jax.vmap, in_axes=(0, None, None))
def _quadratic_draws(start, target, times):
    return quadratic_flow(start, target, times=times, tolerance=jnp.asarray(1e-7))


@door
def quadratic_monte_carlo(moments: Float[Array, "k d d"] | Float[np.ndarray, "k d d"]) -> Float[Array, "k"]:
    """The Monte-Carlo level: `n E|f_n − f|²` for n fresh draws from N(0, S), `4 tr S² + 2 (tr S)²`, for each S."""
    moments = jnp.asarray(moments)
    return solved(4 * jnp.sum(moments**2, axis=(1, 2)) + 2 * jnp.trace(moments, axis1=1, axis2=2) ** 2)


def _symmetric_basis(d: int) -> Float[np.ndarray, "a d d"]:
    rows, columns = np.triu_indices(d)
    basis = np.zeros((len(rows), d, d))
    scale = np.where(rows == columns, 1.0, np.sqrt(0.5))
    basis[np.arange(len(rows)), rows, columns] = scale
    basis[np.arange(len(rows)), columns, rows] = scale
    return basis


@door
def random_feature_fluctuation(
    features: Float[Array, "n b"] | Float[np.ndarray, "n b"],
    ys: Float[Array, "b"] | Float[np.ndarray, "b"],
    *,
    ridge: Rate,
    weights: Annotated[Row, Least(0)] | None = None,
) -> Float[Array, ""]:
    """The limit of `n E mean_b |f_n − f|²` after training, n features drawn from the given ones.

    It is `ridge² E mean_b |(K + ridge)⁻¹ (φφᵀ/b − K) (K + ridge)⁻¹ y|²`. Without ridge it is zero: both interpolate.
    """
    refuse_unless_features(features, weights)
    return solved(_random_feature_fluctuation(*arrays(features, ys, ridge, weights)))


@eqx.filter_jit
def _random_feature_fluctuation(features, ys, ridge, weights):
    n, b = features.shape
    K = gram(features, weights)
    # without ridge there may be no inverse; whatever stands in its place is multiplied by zero
    inverse = jnp.linalg.inv(K + jnp.where(ridge > 0, ridge, 1.0) * jnp.eye(b))
    dual = inverse @ ys
    gaps = ridge * (features * (features @ dual)[:, None] / b - (K @ dual)[None, :]) @ inverse
    return (jnp.full(n, 1 / n) if weights is None else weights) @ jnp.mean(gaps**2, axis=1)


def random_feature_draws(
    draw: np.random.Generator,
    features: np.ndarray,
    ys: np.ndarray,
    *,
    n: int,
    runs: int,
    times: np.ndarray,
    ridge: float,
) -> Float[Array, "r k b"]:
    """The outputs in training of n features drawn from the given ones, with replacement."""
    shares = draw.multinomial(n, np.full(len(features), 1 / len(features)), size=runs) / n
    return _random_feature_draws(shares, features, ys, times, ridge)


@jax.jit
@partial(jax.vmap, in_axes=(0, None, None, None, None))
def _random_feature_draws(weights, features, ys, times, ridge):
    return random_feature_flow(features, ys, times=times, ridge=ridge, weights=weights)


@eqx.filter_jit
def relu_deviations(
    limit: ReluLimit, law: Array | np.ndarray, atoms: Array | np.ndarray, frame: Array | np.ndarray
) -> Float[Array, "r k"]:
    """`E|f_n − f|²` in each run and at each time: f_n of particles (a, w), f of the limit's law of (a, s, r).

    The law is (k, m, q) at k times, the particles (r, k, n, p) in r runs; `frame` holds the directions that the limit
    knows, as in `relu_coordinates`.
    """
    own = jax.lax.map(lambda there: jnp.mean(limit.kernel(there, there)), law)

    def at(here, there):
        across = limit.kernel(relu_coordinates(here, frame), there)
        return jnp.mean(relu_kernel(here, here)) - 2 * jnp.mean(across)

    return jax.lax.map(lambda run: jax.lax.map(lambda pair: at(*pair), (run, law)), atoms) + own[None]


@eqx.filter_jit
def relu_levels(
    limit: ReluLimit, law: Array | np.ndarray, other: Array | np.ndarray
) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
    """At each time the Monte-Carlo level of two approximate laws of (a, s, r) pooled, and how well the limit is known.

    That is the squared error which the pooled network may have: a quarter of `E|f − g|²` between the two.
    """

    def at(one, two):
        inner = [jnp.mean(limit.kernel(left, right)) for left, right in ((one, one), (one, two), (two, two))]
        both = jnp.concatenate([one, two])
        square = jnp.mean(both[:, 0] ** 2 * jnp.sum(both[:, 1:] ** 2, axis=1)) / 2
        return square - (inner[0] + 2 * inner[1] + inner[2]) / 4, (inner[0] - 2 * inner[1] + inner[2]) / 4

    return jax.vmap(at)(law, other)
