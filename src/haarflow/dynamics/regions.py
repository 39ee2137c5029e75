"""Regions: bounded domains, in closed form. Spheres, balls, boxes and tori, the homes of strategies in games.

Each says besides how boxes cover it, so that a search over it can end with a proof.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.doors import PositiveLeaf, door
from haarflow.dynamics.domains import Domain
from haarflow.errors import Refusal
from haarflow.values import leaf


@door
class Sphere(Domain):
    """The points at distance `radius` from the origin; a step ends at the nearest point of the sphere."""

    radius: PositiveLeaf = eqx.field(default=1.0, converter=leaf)

    def project(self, atoms):
        lengths = jnp.linalg.norm(atoms, axis=-1, keepdims=True)
        if not isinstance(lengths, Tracer) and not (lengths > 0).all():
            raise Refusal(
                "A Sphere has no point nearest to its centre; got an atom there. Write atoms other than zero."
            )
        return self.radius.astype(atoms.dtype) * atoms / lengths

    def along(self, atoms, velocity):
        normal = atoms / self.radius.astype(atoms.dtype)
        return velocity - jnp.sum(velocity * normal, axis=-1, keepdims=True) * normal

    def cover(self, p):
        """The 2p faces of the cube around it."""
        signs = np.concatenate([np.eye(p), -np.eye(p)])
        flat = np.abs(signs)
        radius = float(self.radius)
        return radius * (signs - (1 - flat)), radius * (signs + (1 - flat))

    @classmethod
    def examples(cls):
        return [cls(), cls(2.5)]


@door
class Ball(Domain):
    """The points at distance at most `radius` from the origin; a step that leaves ends at the nearest point of it."""

    radius: PositiveLeaf = eqx.field(default=1.0, converter=leaf)

    def project(self, atoms):
        radius = self.radius.astype(atoms.dtype)
        lengths = jnp.linalg.norm(atoms, axis=-1, keepdims=True)
        outside = lengths > radius
        return jnp.where(outside, radius * atoms / jnp.where(outside, lengths, 1), atoms)

    def along(self, atoms, velocity):
        lengths = jnp.linalg.norm(atoms, axis=-1, keepdims=True)
        border = lengths >= self.radius.astype(atoms.dtype) * (1 - 8 * jnp.finfo(atoms.dtype).eps)
        normal = atoms / jnp.where(border, lengths, 1)
        outward = jnp.maximum(jnp.sum(velocity * normal, axis=-1, keepdims=True), 0)
        return velocity - jnp.where(border, outward, 0) * normal

    def cover(self, p):
        """The cube around it."""
        radius = np.full((1, p), float(self.radius))
        return -radius, radius

    @classmethod
    def examples(cls):
        return [cls(), cls(2.5)]


@door
class Box(Domain):
    """The points between `low` and `high` in every coordinate: one number for all coordinates, or one for each."""

    low: Float[Array, "*p"] = eqx.field(converter=leaf)
    high: Float[Array, "*p"] = eqx.field(converter=leaf)

    def __check_init__(self):
        if self.low.shape != self.high.shape or self.low.ndim > 1:
            raise Refusal(
                f"A Box has two bounds, numbers or rows of one length; got the shapes {self.low.shape} and "
                f"{self.high.shape}. Write Box(-1.0, 1.0), for example."
            )
        if not isinstance(self.low, Tracer) and not isinstance(self.high, Tracer) and not (self.low < self.high).all():
            raise Refusal(
                f"A Box's low is below its high; got {np.asarray(self.low)} and {np.asarray(self.high)}. Exchange them."
            )

    def project(self, atoms):
        low, high = self._bounds(atoms)
        return jnp.clip(atoms, low, high)

    def along(self, atoms, velocity):
        low, high = self._bounds(atoms)
        leaving = ((atoms <= low) & (velocity < 0)) | ((atoms >= high) & (velocity > 0))
        return jnp.where(leaving, 0, velocity)

    def cover(self, p):
        """Itself."""
        low, high = self._bounds(np.zeros((1, p)))
        return np.array(low, float), np.array(high, float)

    def _bounds(self, atoms: Any) -> tuple[Array, Array]:
        low, high = (_row("A Box", bound, atoms) for bound in (self.low, self.high))
        return low, high

    @classmethod
    def examples(cls):
        return [cls(-1.0, 1.5), cls(np.array([-1.0, -0.5, 0.0, -2.0]), np.array([0.5, 1.0, 0.25, 2.0]))]


@door
class Torus(Domain):
    """The points of R^p where those a `period` apart are one, in every coordinate: `Torus(2 * np.pi)` of angles.

    A point is kept as the one from 0 to below the period; what is done with it should have that period too.
    """

    period: Float[Array, "*p"] = eqx.field(default=1.0, converter=leaf)

    def __check_init__(self):
        if self.period.ndim > 1 or (not isinstance(self.period, Tracer) and not (self.period > 0).all()):
            raise Refusal(
                f"A Torus has a period > 0, one for all coordinates or a row of them; got {np.asarray(self.period)}. "
                "Write Torus(1.0), for example."
            )

    def project(self, atoms):
        period = _row("A Torus", self.period, atoms)
        wrapped = jnp.mod(atoms, period)
        return jnp.where(wrapped < period, wrapped, 0)  # rounding takes -1e-20 to the period itself

    def along(self, atoms, velocity):
        return velocity

    def apart(self, before, after):
        """The shortest of the ways from one point to another."""
        period = _row("A Torus", self.period, before)
        gap = after - before
        return gap - period * jnp.round(gap / period)

    def cover(self, p):
        """The cell from zero to the period."""
        high = np.array(_row("A Torus", self.period, np.zeros((1, p))), float)
        return np.zeros_like(high), high

    @classmethod
    def examples(cls):
        return [cls(), cls(np.array([1.0, 0.5, 2.0, 6.25]))]


def _row(owner: str, given: Array, atoms: Any) -> Array:
    """A number for every coordinate of every atom, of one for all or of one for each."""
    if given.ndim and len(given) != atoms.shape[-1]:
        raise Refusal(
            f"{owner} of {len(given)} coordinates holds points of R^{len(given)}; got a cloud in "
            f"R^{atoms.shape[-1]}. Write a number for each coordinate, or one for all."
        )
    return jnp.broadcast_to(given.astype(atoms.dtype), atoms.shape)
