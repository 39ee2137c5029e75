"""The problem of a single neuron: learn `relu(x₁)` in R^d with networks of ReLU units.

Samples of it, starts of networks that see it fairly, and the exact error of a trained one. The teacher itself is
`one_neuron(d)`, and its risk over all inputs is `ReluRisk(one_neuron(d))`.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from haarflow.learning.data import Sample
from haarflow.learning.sphere import one_neuron, relu_distance, unit_vectors
from haarflow.measures.clouds import uniform

_IMAGES = {2: ((1.0, -1.0), (1.0, 1.0)), 4: ((1.0, -1.0, -1.0, 1.0), (1.0, -1.0, 1.0, -1.0))}  # signs of a and of w


def neuron_sample(draw: np.random.Generator, n: int, d: int) -> Sample:
    """n inputs, uniform on the sphere of radius √d, and what the neuron says of them.

    `neuron_sample(np.random.default_rng(0), 100, 20).xs.shape` is (100, 20).
    """
    xs = np.sqrt(d) * unit_vectors(draw, (n, d))
    return Sample(xs, np.maximum(xs[:, :1], 0))


def mirrored_students(
    draw: np.random.Generator, shape: tuple[int, ...], d: int, *, images: int = 4
) -> Float[np.ndarray, "*s p"]:
    """Starts (*shape, 1 + d) of particles (a, w), a = ±1 and w ~ N(0, I/d), with the symmetries of that law.

    Every w is drawn once and stands `images` times in a row: with both signs of a (2), so that the network is zero; or
    also with both signs of w (4), so that the law has the right mean of w as well.
    """
    *lead, n = shape
    outputs, signs = (np.array(row)[:, None] for row in _IMAGES[images])
    ways = signs * draw.normal(size=(*lead, -(-n // images), 1, d)) / np.sqrt(d)
    atoms = np.concatenate([np.broadcast_to(outputs, (*ways.shape[:-1], 1)), ways], axis=-1)
    return atoms.reshape(*lead, -1, d + 1)[..., :n, :]


@jax.jit
def neuron_error(atoms: Float[Array, "n p"], scale: float | Float[Array, ""] = 1.0) -> Float[Array, ""]:
    """The exact `E |scale f(x) − relu(x₁)|²` of the network f of equal particles (a, w), over the whole sphere."""
    return relu_distance(uniform(atoms.at[:, 0].multiply(scale)), one_neuron(atoms.shape[1] - 1))


def gram_matrices(kernel: Callable[..., Array], sample: Sample, new: Sample) -> tuple[np.ndarray, ...]:
    """In NumPy, a kernel among the inputs of a sample, of new inputs with them, and the outputs of the sample."""
    compiled = eqx.filter_jit(kernel)
    found = compiled(sample.xs, sample.xs), compiled(new.xs, sample.xs), sample.ys[:, 0]
    return tuple(map(np.asarray, found))
