"""Generators and discriminators of images under quarter turns and flips, from group convolutions."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from haarflow.algebra.base import Finite
from haarflow.algebra.groups import Dihedral, PlanarRotations
from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.algebra.tables import static
from haarflow.algebra.user_reps import image_rep
from haarflow.errors import Refusal
from haarflow.models.adversaries import Discriminator, Generator
from haarflow.models.equivariant_layers import EquivariantLinear, leaky
from haarflow.models.group_convolutions import GroupConvolution, field_rep, halved

Shape = tuple[int, int, int]  # height, width, channels
SLOPE = 0.2  # of the leaky rectifier in discriminators


class ImageGenerator(Generator):
    """A generator of images with values in [−1, 1], by group convolutions on fields that double in size.

    `widths` are the channels at each size, the finest first, those of all elements together: (16, 32) makes images of
    16 × 16 pixels from fields of 4 × 4 with 32 channels, through 8 × 8.
    """

    head: EquivariantLinear
    blocks: tuple[GroupConvolution, ...]
    last: GroupConvolution
    on_x: Rep = static()
    on_u: Rep = static()
    shape: Shape = static()
    latent: int = static()
    classes: int = static()
    symmetrised: bool = static()

    def __init__(
        self,
        key: PRNGKeyArray,
        group: Finite,
        shape: Shape,
        *,
        widths: Sequence[int] = (16, 32),
        latent: int = 32,
        classes: int = 0,
        symmetrised: bool = True,
        dtype: Any = jnp.float32,
    ):
        self.shape, self.latent, self.classes, self.symmetrised = shape, latent, classes, symmetrised
        self.on_x = on_images(group, shape)
        size, fields = coarsest(shape, len(widths)), channels(group, widths)
        first, *others, last = jax.random.split(key, len(widths) + 2)
        self.on_u = field_rep(group, size, size, fields[-1])
        still = trivial_rep(group, latent + classes)
        self.head = EquivariantLinear(first, still, trivial_rep(group, self.on_u.dim), gain=2.0, dtype=dtype)
        pairs = zip(others, fields[::-1], [*fields[-2::-1], fields[0]], strict=True)
        self.blocks = tuple(GroupConvolution(use, group, i, o, dtype=dtype) for use, i, o in pairs)
        self.last = GroupConvolution(last, group, fields[0], shape[2], lifted_out=False, gain=1.0, dtype=dtype)

    def start(self, z):
        return leaky(self.head(z), 0.0)

    def finish(self, u):
        size = self.shape[0] // 2 ** len(self.blocks)
        field = normed(u.reshape(len(u), size, size, self.last.group.order, -1))
        for block in self.blocks:
            field = normed(leaky(block(field, doubled=True), 0.0))
        return jnp.tanh(self.last(field)).reshape(len(u), -1)

    @classmethod
    def examples(cls):
        first, second = jax.random.split(jax.random.key(9))
        return [
            cls(first, PlanarRotations(4), (8, 8, 1), widths=(4, 8), latent=3, classes=2, dtype=float),
            cls(second, Dihedral(4), (6, 6, 2), widths=(8,), latent=3, dtype=float),
        ]


class ImageDiscriminator(Discriminator):
    """Scores of images that a group of quarter turns and flips does not change, by group convolutions and means.

    At the coarsest size one filter sees the whole field; the mean over the elements of what it finds is invariant.
    """

    blocks: tuple[GroupConvolution, ...]
    whole: GroupConvolution
    last: EquivariantLinear
    on_x: Rep = static()
    shape: Shape = static()
    classes: int = static()

    def __init__(
        self,
        key: PRNGKeyArray,
        group: Finite,
        shape: Shape,
        *,
        widths: Sequence[int] = (16, 32),
        classes: int = 0,
        dtype: Any = jnp.float32,
    ):
        self.shape, self.classes, self.on_x = shape, classes, on_images(group, shape)
        size, fields = coarsest(shape, len(widths)), channels(group, widths)
        *others, whole, last = jax.random.split(key, len(widths) + 2)
        inputs = [shape[2], *fields[:-1]]
        pairs = zip(others, inputs, fields, [False] + [True] * len(fields), strict=False)
        self.blocks = tuple(GroupConvolution(use, group, i, o, lifted_in=up, dtype=dtype) for use, i, o, up in pairs)
        wide = 2 * fields[-1]
        self.whole = GroupConvolution(whole, group, fields[-1], wide, size=size, reach="whole", dtype=dtype)
        self.last = EquivariantLinear(last, trivial_rep(group, wide), trivial_rep(group, 1 + classes), dtype=dtype)

    def scores(self, x):
        field = x.reshape(len(x), *self.shape)
        for block in self.blocks:
            field = halved(leaky(block(field), SLOPE))
        found = leaky(self.whole(field), SLOPE)
        return self.last(found.mean(axis=3).reshape(len(x), -1))

    @classmethod
    def examples(cls):
        first, second = jax.random.split(jax.random.key(10))
        return [
            cls(first, PlanarRotations(4), (8, 8, 1), widths=(4, 8), classes=2, dtype=float),
            cls(second, Dihedral(4), (6, 6, 2), widths=(8,), dtype=float),
        ]


def normed(field: Array) -> Array:
    """A field divided by its root mean square over pixels, elements and channels, which the group does not change."""
    return field / jnp.sqrt(1e-8 + jnp.mean(field**2, axis=tuple(range(1, field.ndim)), keepdims=True))


def on_images(group: Finite, shape: Shape) -> Rep:
    """How the group moves images, flattened."""
    h, w, c = shape
    return trivial_rep(group, h * w * c) if group.order == 1 else image_rep(group, h, w, c)


def coarsest(shape: Shape, levels: int) -> int:
    """The size of an image that was halved so many times."""
    h, w, _ = shape
    if h != w or h % 2**levels or not levels:
        raise Refusal(
            f"Images are square, and their size can be halved {levels} times, once for each width, so that no step "
            f"breaks the symmetry; got {h} × {w}. Crop or pad the images to a multiple of {2**levels}, or write fewer "
            "widths."
        )
    return h // 2**levels


def channels(group: Finite, widths: Sequence[int]) -> list[int]:
    """The channels of each element, where all elements together have these."""
    if any(width % group.order or not width for width in widths):
        raise Refusal(
            f"A width counts the channels of all {group.order} elements of {group} together; got {tuple(widths)}. "
            f"Write multiples of {group.order}."
        )
    return [width // group.order for width in widths]
