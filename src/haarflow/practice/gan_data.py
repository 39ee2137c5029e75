"""What a GAN is fitted to: vectors or images, how a group moves them, and their classes."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from haarflow.algebra.base import Group
from haarflow.algebra.groups import Trivial
from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.algebra.tables import static
from haarflow.errors import Refusal
from haarflow.models.adversaries import Discriminator, Generator
from haarflow.models.group_convolutions import image_group
from haarflow.models.image_adversaries import on_images
from haarflow.values import numbers, said


class Side(eqx.Module):
    """The two sides of a GAN's data: outside as the caller has them, inside as rows that the networks see.

    Vectors are seen as they are; the pixels of images are brought from [low, high] to [−1, 1].
    """

    on_x: Rep = static()
    shape: tuple[int, ...] = static()
    bare: bool = static()  # images without an axis of channels
    low: float = static()
    high: float = static()

    @property
    def images(self) -> bool:
        """Whether these are images (h, w, channels)."""
        return len(self.shape) == 3

    def inside(self, x: np.ndarray) -> Float[np.ndarray, "m d"]:
        """Rows, of images in [−1, 1]."""
        rows = x.reshape(len(x), self.on_x.dim)
        return rows if not self.images else 2 * (rows - self.low) / (self.high - self.low) - 1

    def outside(self, rows: Any) -> Float[np.ndarray, "*b m _"]:
        """Points in the shape of the data."""
        rows = np.asarray(rows)
        if not self.images:
            return rows
        shape = self.shape[:2] if self.bare else self.shape
        return (self.low + (self.high - self.low) * (rows + 1) / 2).reshape(*rows.shape[:-1], *shape)

    def nouns(self, kept: bool) -> tuple:
        """What a network is made for: the representation, or the group and shape; trivial ones if nothing is kept."""
        group = self.on_x.group if kept else Trivial(self.on_x.group.dim)
        if self.images:
            return group, self.shape
        return (self.on_x if kept else trivial_rep(group, self.on_x.dim),)

    def refuse_unless_fitting(self, name: str, network: Generator | Discriminator, classes: int) -> None:
        """A sentence about a network that was made for other data."""
        if network.on_x.dim != self.on_x.dim or network.classes != classes:
            raise Refusal(
                f"A GAN's {name} is made for the data, {self.on_x.dim} numbers and {classes} classes; got one for "
                f"{network.on_x.dim} numbers and {network.classes} classes. Make it with these."
            )


def side_of(on_x: Rep | Group | str | None, x: np.ndarray) -> Side:
    """The side of points (m, d) or images (m, h, w) or (m, h, w, channels), which a group moves."""
    if not len(x) or x.ndim < 2 or x.ndim > 4 or not x[0].size:
        raise Refusal(
            f"A GAN is fitted to points (m, d) or images (m, h, w, channels), one or more; got the shape {x.shape}. "
            "Write a row for each point."
        )
    images, shape = x.ndim > 2, tuple(x.shape[1:]) + (1,) * (x.ndim == 3)
    low, high = (float(x.min()), float(x.max())) if images else (-1.0, 1.0)
    if images and not low < high:
        raise Refusal(f"Images have dark and bright pixels; got {low:g} everywhere. Write other images.")
    return Side(_on_images(on_x, shape) if images else _on_vectors(on_x, shape[0]), shape, x.ndim == 3, low, high)


def _on_images(given: Any, shape: Any) -> Rep:
    """How the group moves images of this shape, flattened."""
    asked = given.group if isinstance(given, Rep) else "none" if given is None else given
    group = image_group("A GAN's on_x for images", asked)
    if shape[0] != shape[1]:
        raise Refusal(f"A GAN takes square images; got {shape[0]} × {shape[1]}. Crop or pad them.")
    rep = on_images(group, shape)
    if isinstance(given, Rep) and given != rep:
        raise Refusal(
            f"A GAN's on_x for images of the shape {shape} is {rep}; got {given}. Write the group alone, such as "
            "'rotations'."
        )
    return rep


def _on_vectors(given: Any, d: int) -> Rep:
    """How the group moves points of R^d."""
    if given is None:
        return trivial_rep(Trivial(1), d)
    if not isinstance(given, Rep):
        raise Refusal(
            f"A GAN's on_x for vectors is a representation; got {said(given)}. Write natural_rep(group), for example, "
            "or give images as (m, h, w, channels)."
        )
    if given.dim != d:
        raise Refusal(
            f"A GAN's on_x moves the data; got a representation on R^{given.dim} and points of R^{d}. "
            f"Write a representation of dimension {d}."
        )
    return given


def classes_of(y: Any, m: int) -> tuple[np.ndarray | None, tuple]:
    """The class of each point as a number, and what the classes are called; none where there are no labels."""
    if y is None:
        return None, ()
    found = np.asarray(y)
    if found.dtype.kind in "OUS":
        found = found.astype(str)
    elif found.dtype.kind not in "biu":
        found = numbers("A GAN's y", y, numpy=True)
    if found.shape != (m,):
        raise Refusal(
            f"A GAN's y is one class for each of the {m} points; got the shape {found.shape}. Write a list of {m}."
        )
    names, labels = np.unique(found, return_inverse=True)
    if len(names) > 1000:
        raise Refusal(
            f"A GAN's y has up to 1000 classes; got {len(names)}. Write y=None, or labels that many points share."
        )
    return labels, tuple(names.tolist())
