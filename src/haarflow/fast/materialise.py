"""How to tell the compiler that a small array is worth computing once.

XLA on a CPU fuses whatever is elementwise into whatever uses it. Where thousands of particles use one small array —
a minibatch, a residual, a key — its whole history is then computed again for every particle. A matrix product is
never fused, so a product with the identity, exact for finite numbers, ends the history there.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.fast import tuning
from haarflow.fast.switch import fast

T = TypeVar("T")


def materialised(tree: T) -> T:
    """The same values behind a fusion barrier: XLA computes a small array once instead of once per particle.

    It does nothing except on a CPU, nor where the plain forms run.
    """
    return jax.tree.map(_materialised, tree) if fast() and jax.default_backend() == "cpu" else tree


def _materialised(leaf):
    rows = jnp.pad(leaf.ravel(), (0, -leaf.size % tuning.WIDTH)).reshape(-1, tuning.WIDTH)
    return (rows @ np.eye(tuning.WIDTH, dtype=leaf.dtype)).ravel()[: leaf.size].reshape(leaf.shape)
