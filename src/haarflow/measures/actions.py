"""How a group acts on clouds: through a representation of their dimension, by all its elements, some, or projected."""

from typing import Any

import numpy as np
from jaxtyping import Float

from haarflow.algebra.acting import Action
from haarflow.algebra.projection import ByMatrix, Projection
from haarflow.algebra.reps import Rep
from haarflow.errors import Refusal
from haarflow.values import numbers

Elements = Any
"""Elements of a group: matrices (m, d, d) in lists or arrays of any precision, or what `group.draw(key, m)` drew."""

PROJECTOR_SLACK = 1e-5
"""How far a projector may be from its own square and transpose: one in float32 is welcome."""


def action_on(rep: Rep, p: int, *, elements: Elements = None) -> Action:
    """What the elements of a group, all or those given, do to R^p; refused where the representation is on another."""
    _check_acting(rep, p)
    return rep.action(elements)


def action_matrices(rep: Rep, p: int, *, elements: Elements = None) -> Float[np.ndarray, "g p p"]:
    """The matrices M_g of a representation on R^p: all of them, or those of given elements."""
    return np.asarray(action_on(rep, p, elements=elements).matrices(), float)


def projection_on(rep: Rep | Any, p: int) -> Projection:
    """The projector P on the fixed space of a representation on R^p; a (p, p) matrix is taken as P itself."""
    if isinstance(rep, Rep):
        _check_acting(rep, p)
        return rep.projection()
    return ByMatrix(projector_matrix(rep, p))


def projector_matrix(given: Any, p: int) -> Float[np.ndarray, "p p"]:
    """A matrix (p, p) that a caller gives as a projector, refused where it is none."""
    found = numbers("A projector", given, numpy=True)
    if found.shape != (p, p):
        raise Refusal(
            f"A projector on R^{p} is a ({p}, {p}) matrix; got shape {found.shape}. "
            "Write `rep.fixed_projector()` of a representation of that dimension."
        )
    off = max(np.abs(found - found.T).max(), np.abs(found @ found - found).max())
    if not off <= PROJECTOR_SLACK:
        raise Refusal(
            f"A projector P is orthogonal, P = Pᵀ = P²; got a matrix that is off by {off:.2g}. "
            "Write `rep.fixed_projector()` of a representation."
        )
    return found


def _check_acting(rep: Rep, p: int) -> None:
    if rep.dim != p:
        raise Refusal(
            "A representation of dimension k acts on clouds in R^k; "
            f"got dimension {rep.dim} and a cloud in R^{p}. "
            f"Write a representation of dimension {p}, such as the unit's `action(on_x, on_y)`."
        )
