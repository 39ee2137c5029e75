"""ReLU students on the sphere, before training: starts, teachers, and what their networks say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Custom


class Said(eqx.Module):
    """The probe of a cloud of (a, w): `f(x)` on b inputs, and the mean over them of `∫|phi|² dmu` as a last number."""

    xs: Float[Array, "b d"]

    def __call__(self, cloud: Cloud) -> Float[Array, "b_plus_1"]:
        """Outputs, then the mean square of the units."""
        phi = cloud.atoms[:, :1] * jax.nn.relu(cloud.atoms[:, 1:] @ self.xs.T)
        square = jnp.mean(cloud.weights @ phi**2)
        return jnp.concatenate([cloud.weights @ phi, square[None]])


def unit_vectors(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform on the sphere of radius one, in the last axis."""
    ways = draw.normal(size=shape)
    return ways / np.linalg.norm(ways, axis=-1, keepdims=True)


def students(draw: np.random.Generator, runs: int, n: int, d: int) -> np.ndarray:
    """Starts (runs, n, 1 + d): outputs N(0, 1), directions uniform on the sphere."""
    return np.concatenate([draw.normal(size=(runs, n, 1)), unit_vectors(draw, (runs, n, d))], axis=-1)


def teacher(draw: np.random.Generator, outputs: np.ndarray, d: int) -> Cloud:
    """A teacher of units with these outputs and directions uniform on the sphere."""
    return uniform(np.column_stack([outputs, unit_vectors(draw, (len(outputs), d))]))


def mirrored(starts: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Each student four times: with both signs of its output, and reflected across the span of `kept` (m, d).

    The law of the starts has these symmetries and training keeps them, so a mirrored cloud is nearer to the limit.
    """
    frame = np.linalg.qr(kept.T)[0]
    outputs, ways = starts[..., :1], starts[..., 1:]
    across = 2 * (ways @ frame) @ frame.T - ways
    copies = [np.concatenate([sign * outputs, way], axis=-1) for sign in (1, -1) for way in (ways, across)]
    return np.concatenate(copies, axis=-2)


def reinjected(d: int):
    """The prior of re-injection: output zero, direction uniform on the sphere."""

    def prior(key: PRNGKeyArray, n: int) -> Float[Array, "n p"]:
        ways = jax.random.normal(key, (n, d))
        return jnp.concatenate([jnp.zeros((n, 1)), ways / jnp.linalg.norm(ways, axis=1, keepdims=True)], axis=1)

    return prior


def neuron(d: int) -> Custom:
    """The unit `a relu(<w, x>)` without a bias: theta is (a, w)."""
    return Custom(_neuron, d + 1, d, 1, _beside)


def _neuron(theta, x):
    return theta[:1] * jax.nn.relu(theta[1:] @ x)


def _beside(on_x, on_y):
    return on_y + on_x


def one_neuron(d: int) -> Cloud:
    """The teacher `relu(x₁)`, as a cloud of one particle (a, w)."""
    return uniform(np.eye(1, d + 1) + np.eye(1, d + 1, 1))
