"""Generators whose law a group keeps, and discriminators that a group does not change; plain ones of the same size.

A generator draws z, makes of it a point u of a space on which the group acts (by a layer that need not commute with
anything), moves u by a Haar element of the group, and sends it through layers that commute with the group. The law of
what comes out is then invariant; without the move in the middle, `symmetrised=False`, it need not be. A discriminator
ends in invariant numbers. Both know classes: a generator sees the class beside z, a discriminator has a score for each.
Under the trivial group these are plain networks of the same widths.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow.algebra.acting import Action
from haarflow.algebra.base import Finite
from haarflow.algebra.groups import Dihedral, PlanarRotations
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.tables import static
from haarflow.models.equivariant_layers import EquivariantHidden, EquivariantLinear, copies_of, hidden_rep, leaky

Labels = Int[Array, " n"]


class Generator(eqx.Module):
    """A law of points: `draw(key, n, labels)` gives rows (n, d), moved by the representation `on_x`.

    A member has `latent` numbers z to begin with, `classes` (0 where there are none) and `on_x`; `start` makes u of z,
    rows (n, k) that `on_u` moves, and `finish` makes points of u. `finish` commutes with the group.
    """

    instead: ClassVar[str] = "Leave it out for the usual network, or write a class of hf.gans.Generator."

    on_x: eqx.AbstractVar[Rep]
    on_u: eqx.AbstractVar[Rep]
    latent: eqx.AbstractVar[int]
    classes: eqx.AbstractVar[int]
    symmetrised: eqx.AbstractVar[bool]

    @abstractmethod
    def start(self, z: Float[Array, "n l"], /) -> Float[Array, "n k"]:
        """Rows u of latent numbers, beside which stand the indicators of the class."""

    @abstractmethod
    def finish(self, u: Float[Array, "n k"], /) -> Float[Array, "n d"]:
        """Points of rows u."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Generator"]:
        """Small members with random parameters, on which the laws are tested."""

    def draw(self, key: PRNGKeyArray, n: int, labels: Labels | None = None) -> Float[Array, "n d"]:
        """n independent points, each of its class where there are classes."""
        latent, moves = jax.random.split(key)
        dtype = jax.tree.leaves(eqx.filter(self, eqx.is_inexact_array))[0].dtype
        z = jax.random.normal(latent, (n, self.latent), dtype)
        if self.classes:
            z = jnp.concatenate([z, jax.nn.one_hot(labels, self.classes, dtype=dtype)], axis=1)
        return self.finish(moved_by_haar(moves, self.on_u, self.start(z)) if self.symmetrised else self.start(z))


class Discriminator(eqx.Module):
    """Scores of points: `__call__(x, labels)` gives (n,) for rows (n, d), the same for x and for `on_x(g) x`."""

    instead: ClassVar[str] = "Leave it out for the usual network, or write a class of hf.gans.Discriminator."

    on_x: eqx.AbstractVar[Rep]
    classes: eqx.AbstractVar[int]

    @abstractmethod
    def scores(self, x: Float[Array, "n d"], /) -> Float[Array, "n s"]:
        """A score, and one more to add for each class."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Discriminator"]:
        """Small members with random parameters, on which the laws are tested."""

    def __call__(self, x: Float[Array, "n d"], labels: Labels | None = None) -> Float[Array, " n"]:
        found = self.scores(x)
        if not self.classes:
            return found[:, 0]
        return found[:, 0] + jnp.take_along_axis(found, 1 + labels[:, None], axis=1)[:, 0]  # pyright: ignore


def moved_by_haar(key: PRNGKeyArray, rep: Rep, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Each row moved by a random element of its own."""
    group = rep.group
    if isinstance(group, Finite):
        return x if group.order == 1 else jnp.asarray(rep.action().draw(key, len(x)).apply_each(x))
    return moved_by(rep, group.draw(key, len(x)), x).astype(x.dtype)


def moved_by(rep: Rep, elements: Action, x: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Row i moved by element i."""
    return jnp.asarray(rep.acting(elements).apply_each(x))


class VectorGenerator(Generator):
    """A generator of points of R^d under any representation: a dense network whose layers commute with the group.

    Its hidden layers are copies of `one`, by default of the regular representation of a small finite group.
    """

    head: EquivariantLinear
    hidden: tuple[EquivariantHidden, ...]
    last: EquivariantLinear
    on_x: Rep = static()
    on_u: Rep = static()
    latent: int = static()
    classes: int = static()
    symmetrised: bool = static()

    def __init__(
        self,
        key: PRNGKeyArray,
        on_x: Rep,
        *,
        widths: Sequence[int] = (64, 32, 16),
        latent: int = 10,
        classes: int = 0,
        symmetrised: bool = True,
        one: Rep | None = None,
        dtype: Any = jnp.float32,
    ):
        self.on_x, self.latent, self.classes, self.symmetrised = on_x, latent, classes, symmetrised
        first, *others, last = jax.random.split(key, len(widths) + 1)
        one = hidden_rep(on_x) if one is None else one
        self.on_u = copies_of(one, widths[0])
        still = trivial_rep(on_x.group, latent + classes)
        self.head = EquivariantLinear(first, still, trivial_rep(on_x.group, self.on_u.dim), gain=2.0, dtype=dtype)
        self.hidden = _hidden(others, self.on_u, one, widths[1:], 0.0, dtype)
        self.last = EquivariantLinear(
            last, [self.on_u, *(layer.on_out for layer in self.hidden)][-1], on_x, dtype=dtype
        )

    def start(self, z):
        return leaky(self.head(z), 0.0)

    def finish(self, u):
        for layer in self.hidden:
            u = layer(u)
        return self.last(u)

    @classmethod
    def examples(cls):
        turns = natural_rep(PlanarRotations(4))
        space = natural_rep(SpecialOrthogonal(3))
        first, second = jax.random.split(jax.random.key(7))
        return [
            cls(first, turns + trivial_rep(turns.group), widths=(16, 8), latent=3, classes=2, dtype=float),
            cls(second, 2 * space, widths=(20, 15), latent=4, dtype=float),
        ]


class VectorDiscriminator(Discriminator):
    """Scores of points of R^d that a group does not change: a dense network that ends in invariant numbers."""

    hidden: tuple[EquivariantHidden, ...]
    last: EquivariantLinear
    on_x: Rep = static()
    classes: int = static()

    def __init__(
        self,
        key: PRNGKeyArray,
        on_x: Rep,
        *,
        widths: Sequence[int] = (64, 32, 16),
        classes: int = 0,
        one: Rep | None = None,
        slope: float = 0.0,
        dtype: Any = jnp.float32,
    ):
        self.on_x, self.classes = on_x, classes
        *others, last = jax.random.split(key, len(widths) + 1)
        self.hidden = _hidden(others, on_x, hidden_rep(on_x) if one is None else one, widths, slope, dtype)
        scores = trivial_rep(on_x.group, 1 + classes)
        self.last = EquivariantLinear(last, self.hidden[-1].on_out, scores, dtype=dtype)

    def scores(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.last(x)

    @classmethod
    def examples(cls):
        turns = natural_rep(Dihedral(3))
        space = natural_rep(SpecialOrthogonal(2))
        first, second = jax.random.split(jax.random.key(8))
        return [
            cls(first, turns + trivial_rep(turns.group), widths=(12, 6), classes=2, dtype=float),
            cls(second, 2 * space + trivial_rep(space.group), widths=(20, 16), dtype=float),
        ]


def _hidden(keys, before: Rep, one: Rep, widths: Sequence[int], slope: float, dtype) -> tuple[EquivariantHidden, ...]:
    """Hidden layers of these widths, one after the other."""
    found = []
    for key, width in zip(keys, widths, strict=True):
        found.append(EquivariantHidden(key, before, one, width, slope=slope, dtype=dtype))
        before = found[-1].on_out
    return tuple(found)
