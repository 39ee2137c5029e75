"""A symmetry as people give it to an estimator, and the representations on inputs and outputs that it means.

It is a representation on the columns, a group that moves them, a kind of group for as many columns as there are
(`Signs`), words ("flips of 8x8 images"), or a pair of two of these, for inputs and for outputs that move as well.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from haarflow.algebra.acting import Action
from haarflow.algebra.base import Finite, Group
from haarflow.algebra.groups import Trivial
from haarflow.algebra.reps import Rep, natural_rep, one_group, trivial_rep
from haarflow.errors import Refusal
from haarflow.practice.words import rep_from_words
from haarflow.values import refuse_unless_affordable, said, whole

MOST = 64  # elements of a group that are taken one and all, where nothing is said
LISTED = 10_000  # elements of a group that is listed to draw from it
DRAWS = 16  # of a larger group
INSTEAD = (
    'Write a representation such as image_rep("flips", 8, 8), a group such as Cyclic(3), or words such as '
    '"flips of 8x8 images".'
)


class Acting(eqx.Module):
    """A group on inputs in R^d and outputs in R^c."""

    on_x: Rep
    on_y: Rep

    @property
    def group(self) -> Group:
        """The group of both."""
        return self.on_x.group

    @property
    def still(self) -> bool:
        """Whether outputs stay where they are, so that the symmetry is an invariance."""
        return self.on_y.fixed_basis().shape[1] == self.on_y.dim

    @property
    def order(self) -> int | None:
        """The number of elements; None for an infinite group."""
        return self.group.order if isinstance(self.group, Finite) else None

    def elements(self, seed: int, draws: Any = None, *, owner: str = "`draws`") -> Action:
        """All elements of a group of at most 64, or of at most as many as are asked for, else so many random ones.

        They are fixed before any data are seen. As many as the order are the whole group, never draws of it.
        """
        asked = None if draws is None else counted(owner, draws)
        if self.order is not None and self.order <= (MOST if asked is None else asked):
            return self.group.moves()  # pyright: ignore[reportAttributeAccessIssue]
        return self.drawn(seed, DRAWS if asked is None else asked)

    def drawn(self, seed: int, n: int) -> Action:
        """n independent Haar elements, in NumPy; of a group that is listed, by NumPy's own draws."""
        if self.order is not None and self.order <= LISTED:
            places = np.random.default_rng(seed).integers(self.order, size=n)
            return self.group.moves().chosen(places)  # pyright: ignore[reportAttributeAccessIssue]
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, self.group.draw(jax.random.key(seed), n))

    def on_inputs(self, elements: Action) -> Action:
        """What elements do to inputs."""
        return self.on_x.acting(elements).merged()

    def on_outputs(self, elements: Action) -> Action:
        """What elements do to outputs."""
        return self.on_y.acting(elements).merged()


def counted(owner: str, value: Any, least: int = 1) -> int:
    """A whole number that is at least so large and below 2³¹, or a sentence."""
    found = whole(owner, value, least=least)
    if found >= 2**31:
        raise Refusal(f"{owner} is a whole number below 2**31; got {found}. Write {max(least, 8)}, for example.")
    return found


def acting_on(owner: str, group: Any, d: int, c: int, *, columns: Sequence[str] | None = None) -> Acting:
    """The group as it acts on d columns and c outputs, which stay unless a pair (on_x, on_y) says how they move."""
    given_x, given_y = group if isinstance(group, tuple) and len(group) == 2 else (group, None)
    on_x = rep_of(owner, given_x, d, columns)
    if on_x.dim != d:
        raise Refusal(
            f"{owner} moves the columns of its data by a group that acts on so many; got {d} columns and a group that "
            f"acts on {on_x.dim}. Write a group for {d} columns, or leave other columns out."
        )
    on_y = trivial_rep(on_x.group, c) if given_y is None else rep_of(owner, given_y, c, None)
    if on_y.dim != c:
        raise Refusal(
            f"{owner} moves outputs by a representation on as many numbers as there are outputs (or classes); got {c} "
            f"and a representation on R^{on_y.dim}. Write (on_x, on_y) with on_y of size {c}, or on_x alone."
        )
    one_group(owner, on_x, on_y)
    return Acting(on_x, on_y)


def rep_of(owner: str, given: Any, size: int, columns: Sequence[str] | None) -> Rep:
    """One of the ways to say a group, as a representation."""
    if given is None:
        return trivial_rep(Trivial(1), size)
    if isinstance(given, str):
        return rep_from_words(given, columns=size if columns is None else list(columns))
    if isinstance(given, Rep):
        return given
    if isinstance(given, Group):
        return natural_rep(given)
    if callable(given):
        try:
            found = given(size)
        except TypeError:
            found = None
        if isinstance(found, Rep | Group):
            return found if isinstance(found, Rep) else natural_rep(found)
    raise Refusal(f"{owner} takes a group that moves its columns; got {said(given)}. {INSTEAD}")


def moved_rows(action: Action, rows: Float[np.ndarray, "b k"]) -> Float[np.ndarray, "gb k"]:
    """Every row moved by every element, in NumPy, element by element of the group."""
    refuse_unless_affordable(
        f"{len(rows)} rows under {len(action)} elements",
        8.0 * len(action) * rows.size,
        instead="Write fewer `draws` or `copies`.",
    )
    return np.asarray(action.everywhere(np.asarray(rows, float))).reshape(-1, rows.shape[1])


def folded_rows(action: Action, values: Float[np.ndarray, "gb c"]) -> Float[np.ndarray, "b c"]:
    """The mean over the elements of `g⁻¹ f(g x)`, given f at every image."""
    return np.asarray(action.mean_back(values.reshape(len(action), -1, action.dim)))
