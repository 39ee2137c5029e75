"""Convolutions of images as products of matrices.

Inside a compiled loop XLA's own convolutions are slow on CPUs wherever a gradient is taken: measured on 64 fields of
16 × 16 × 16, filters 3 × 3, the gradient in the filters takes 30 times as long as by patches, that of a squared slope
20 times. Patches take nine times the memory of a field. Where there are fewer outputs than inputs, the products are
taken first and moved to their places after: nine times the memory of the outputs. So are those of a field whose pixels
are doubled, before they are doubled: with its gradient this takes from half of the time of patches (64 to 64 channels)
to a sixth (64 fields of 8 × 8 × 32 to 16 × 16 × 16). Elsewhere, and with the plain forms, it is XLA's convolution.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.fast.switch import fast


def correlate(
    x: Float[Array, "n h w i"], bank: Float[Array, "s s i o"], *, padded: bool, doubled: bool = False
) -> Float[Array, "n a b o"]:
    """The filters at every pixel, with zeros beyond the border; not `padded`, only where they fit into the image.

    With `doubled`, for padded fields alone, they see the field in which every pixel stands four times.
    """
    if not (fast() and jax.default_backend() == "cpu"):
        axes = ("NHWC", "HWIO", "NHWC")
        seen, edges = (twice(x) if doubled else x), ("SAME" if padded else "VALID")
        return jax.lax.conv_general_dilated(seen, bank, (1, 1), edges, dimension_numbers=axes)
    i, o = bank.shape[2:]
    return _products_first(x, bank, doubled) if padded and (doubled or o < i) else _patches_first(x, bank, padded)


def twice(x: Float[Array, "n h w *c"]) -> Float[Array, "n a b *c"]:
    """Every pixel four times: a field of twice the size."""
    n, h, w, *c = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None], (n, h, 2, w, 2, *c)).reshape(n, 2 * h, 2 * w, *c)


def _patches_first(x: Array, bank: Array, padded: bool) -> Array:
    """Each output pixel's patch of the inputs, then one product with the filters."""
    s, _, i, o = bank.shape
    wide = _bordered(x, s // 2) if padded else x
    h, w = wide.shape[1] - s + 1, wide.shape[2] - s + 1
    patches = jnp.concatenate([wide[:, a : a + h, b : b + w] for a in range(s) for b in range(s)], axis=-1)
    return (patches.reshape(-1, s * s * i) @ bank.reshape(-1, o)).reshape(len(x), h, w, o)


def _products_first(x: Array, bank: Array, doubled: bool) -> Array:
    """One product of every pixel with all entries of the filters; each entry's part is then moved to its place."""
    s, _, i, _ = bank.shape
    found = (x.reshape(-1, i) @ bank.transpose(2, 0, 1, 3).reshape(i, -1)).reshape(*x.shape[:3], -1)
    parts = [_bordered(twice(one) if doubled else one, s // 2) for one in jnp.split(found, s * s, axis=-1)]
    h, w = (size - s + 1 for size in parts[0].shape[1:3])
    moved = [one[:, k // s : k // s + h, k % s : k % s + w] for k, one in enumerate(parts)]
    return sum(moved[1:], moved[0])


def _bordered(x: Array, edge: int) -> Array:
    return jnp.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
