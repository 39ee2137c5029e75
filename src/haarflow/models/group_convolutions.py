"""Convolutions of images that commute with quarter turns and flips, and the pooling that keeps them so.

A field on an image is an array (n, h, w, channels), or (n, h, w, order, channels) with a channel for every element of
the group, which the group turns and permutes (left regular fields). A filter is turned by every element, as a bank that
one convolution takes. Sizes are halved by means over squares of two pixels and doubled by repeating pixels: both
commute exactly with the group on even sizes, and no stride is used, which would not on odd ones.
Under the trivial group everything here is a plain convolutional network.
"""

from functools import lru_cache
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow.algebra.base import Finite
from haarflow.algebra.groups import Dihedral, PlanarRotations, Trivial
from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.algebra.tables import match, static
from haarflow.algebra.user_reps import image_rep, regular_rep
from haarflow.errors import Refusal
from haarflow.fast.patches import correlate
from haarflow.values import said

NAMES = {"rotations": PlanarRotations(4), "dihedral": Dihedral(4), "none": Trivial(2)}
Reach = Literal["same", "whole"]


def image_group(owner: str, given: Any) -> Finite:
    """A group of quarter turns and flips of the plane, by its name or itself."""
    found = NAMES.get(given, given) if isinstance(given, str) else given
    if not isinstance(found, Finite) or found.dim != 2 or np.any(np.abs(found.generators() % 1) > 0):
        raise Refusal(
            f"{owner} is 'rotations' (C4), 'dihedral' (D4) or a group of quarter turns and flips of the plane; got "
            f"{said(given)}. Write 'rotations', or Dihedral(4)."
        )
    return found


class GroupConvolution(eqx.Module):
    """A convolution from fields to fields that commutes with the group, for any values of its parameters.

    `lifted_in` and `lifted_out` say whether inputs and outputs have a channel for every element. With reach "same" the
    outputs have the size of the inputs, with zeros beyond the border, for an odd filter; with "whole" the filter has
    the size of the image, and there is one output pixel. `gain` is the mean square of outputs over that of inputs.
    """

    filters: Float[Array, "s s e i o"]
    offset: Float[Array, " o"]
    group: Finite = static()
    lifted_in: bool = static()
    lifted_out: bool = static()
    reach: Reach = static()

    def __init__(
        self,
        key: PRNGKeyArray,
        group: Finite,
        inputs: int,
        outputs: int,
        *,
        size: int = 3,
        lifted_in: bool = True,
        lifted_out: bool = True,
        reach: Reach = "same",
        gain: float = 2.0,
        dtype: Any = jnp.float32,
    ):
        if reach == "same" and size % 2 == 0:
            raise Refusal(
                f"A group convolution has a filter with a pixel in its middle, about which it is turned; got the size "
                f"{size}. Write an odd size, such as 3."
            )
        if not lifted_in and not lifted_out:
            raise Refusal(
                "A group convolution has a channel for every element in its inputs or its outputs; got neither. "
                "Write lifted_out=True."
            )
        self.group, self.lifted_in, self.lifted_out, self.reach = group, lifted_in, lifted_out, reach
        copies = group.order if lifted_in and lifted_out else 1
        fan = size * size * inputs * (group.order if lifted_in else 1)
        shape = (size, size, copies, inputs, outputs)
        self.filters = jnp.asarray(np.sqrt(gain / fan) * jax.random.normal(key, shape, dtype), dtype)
        self.offset = jnp.zeros(outputs, dtype)

    def bank(self) -> Float[Array, "s s a b"]:
        """The filters turned by every element, as one bank (s, s, inputs, outputs) of the lifted channels."""
        s, _, copies, i, o = self.filters.shape
        flat = self.filters.reshape(s * s * copies, i, o)
        table = turned_filters(self.group, s, self.lifted_in, self.lifted_out)  # (g out, s·s, g in)
        found = flat[table].reshape(len(table), s, s, -1, i, o)
        return found.transpose(1, 2, 3, 4, 0, 5).reshape(s, s, -1, len(table) * o)

    def __call__(self, x: Array, *, doubled: bool = False) -> Array:
        """The output field of an input field; with `doubled` and reach "same", of that field in twice the size."""
        rows = x.reshape(*x.shape[:3], -1) if self.lifted_in else x
        found = correlate(rows, self.bank(), padded=self.reach == "same", doubled=doubled)
        if self.lifted_out:
            found = found.reshape(*found.shape[:3], self.group.order, -1)
        return found + self.offset.reshape((1,) * (found.ndim - 1) + (-1,))


@lru_cache(256)
def turned_filters(group: Finite, size: int, lifted_in: bool, lifted_out: bool) -> Int[np.ndarray, "a k b"]:
    """Which entry of the filters, (size² · copies), stands at output element a, pixel k and input element b.

    The filter of output element a is that of the identity moved by a: its entry at pixel k and element b is the one at
    a⁻¹k and a⁻¹b. In 32 bits, so that a program means the same with and without float64.
    """
    elements = group.elements()
    index = image_rep(group, size, size).action().gathers().index if group.order > 1 else np.arange(size**2)[None]
    pixels = np.asarray(index, np.int32)
    if not (lifted_in and lifted_out):
        found = pixels[:, :, None]  # each element of the inputs, or of the outputs, turns the filter
        return found if lifted_out else found.transpose(2, 1, 0)
    places = np.stack([match(elements, g.T @ elements) for g in elements]).astype(np.int32)
    return pixels[:, :, None] * np.int32(group.order) + places[:, None, :]


def field_rep(group: Finite, h: int, w: int, channels: int) -> Rep:
    """How the group moves lifted fields (h, w, order, channels), flattened."""
    if group.order == 1:
        return trivial_rep(group, h * w * channels)
    return image_rep(group, h, w) * regular_rep(group) * trivial_rep(group, channels)


def halved(x: Array) -> Array:
    """Means over squares of two pixels: a field of half the size."""
    h, w = x.shape[1:3]
    if h % 2 or w % 2:
        raise Refusal(
            f"A field is halved where its size is even, so that the squares of pixels lie alike from every side; got "
            f"{h} × {w}. Crop or pad the images to an even size."
        )
    pairs = x.reshape(len(x), h // 2, 2, w // 2, 2, *x.shape[3:])
    return pairs.mean(axis=(2, 4))
