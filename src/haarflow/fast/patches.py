"""Convolutions of images as one product of patches with filters.

Inside a compiled loop XLA's own convolutions are slow on CPUs wherever a gradient is taken: measured on 64 fields of
16 × 16 × 16, filters 3 × 3, the gradient in the filters takes 30 times as long as by patches, that of a squared slope
20 times. Patches take nine times the memory of a field. Elsewhere, and with the plain forms, it is XLA's convolution.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.fast.switch import fast


def correlate(x: Float[Array, "n h w i"], bank: Float[Array, "s s i o"], *, padded: bool) -> Float[Array, "n a b o"]:
    """The filters at every pixel, with zeros beyond the border; not `padded`, only where they fit into the image."""
    s, _, i, o = bank.shape
    if not (fast() and jax.default_backend() == "cpu"):
        axes = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, bank, (1, 1), "SAME" if padded else "VALID", dimension_numbers=axes)
    edge = s // 2 if padded else 0
    wide = jnp.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0))) if edge else x
    h, w = wide.shape[1] - s + 1, wide.shape[2] - s + 1
    patches = jnp.concatenate([wide[:, a : a + h, b : b + w] for a in range(s) for b in range(s)], axis=-1)
    return (patches.reshape(-1, s * s * i) @ bank.reshape(-1, o)).reshape(len(x), h, w, o)
