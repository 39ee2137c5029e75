"""How to tell the compiler that a small array is worth computing once.

XLA on a CPU fuses whatever is elementwise into whatever uses it. Where thousands of particles use one small array —
a minibatch, a residual, a key — its whole history is then computed again for every particle. A matrix product is
never fused, so a product with the identity, exact for finite numbers, ends the history there.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")
_WIDTH = 8


def settled(tree: T) -> T:
    """The same arrays, of one dtype, computed before anything that uses them."""
    if jax.default_backend() != "cpu":
        return tree
    leaves, structure = jax.tree.flatten(tree)
    flat = jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])
    rows = jnp.pad(flat, (0, -len(flat) % _WIDTH)).reshape(-1, _WIDTH)
    flat = (rows @ np.eye(_WIDTH, dtype=flat.dtype)).ravel()
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = [flat[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
    return jax.tree.unflatten(structure, parts)
