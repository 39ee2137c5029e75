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
    """The same arrays, computed before anything that uses them."""
    return tree if jax.default_backend() != "cpu" else jax.tree.map(_settled, tree)


def _settled(leaf):
    rows = jnp.pad(leaf.ravel(), (0, -leaf.size % _WIDTH)).reshape(-1, _WIDTH)
    return (rows @ np.eye(_WIDTH, dtype=leaf.dtype)).ravel()[: leaf.size].reshape(leaf.shape)
