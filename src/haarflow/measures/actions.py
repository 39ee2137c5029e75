"""The matrices with which a group acts on clouds: those of all its elements, or of some, and the projector."""

from typing import Any

import numpy as np
from jaxtyping import Float

from haarflow.algebra.checks import off_orthogonal
from haarflow.algebra.kinds import Group
from haarflow.algebra.reps import Rep
from haarflow.errors import Refusal
from haarflow.values import numbers, said

Elements = Any
"""Elements of a group (m, d, d): lists or arrays of any precision, checked by `action_matrices`."""

PROJECTOR_SLACK = 1e-5
"""How far a projector may be from its own square and transpose: one in float32 is welcome."""


def action_matrices(rep: Rep, p: int, *, elements: Elements = None, choice: bool = True) -> Float[np.ndarray, "g p p"]:
    """The matrices M_g of a representation on R^p: all of them, or those of given elements.

    `choice` says whether the caller has an argument `elements`, so that a refusal advises what can be written.
    """
    _check_acting(rep, p)
    if elements is not None:
        return np.stack([np.asarray(rep(g), float) for g in _elements(rep.group, elements)])
    if not hasattr(rep.group, "order"):
        raise Refusal(
            f"An orbit is a finite sum over the group; got the infinite {rep.group}. {_instead(rep.group, choice)}"
        )
    return np.asarray(rep.matrices(), float)


def projector_matrix(rep, p: int) -> Float[np.ndarray, "p p"]:
    """The projector P on the fixed space of a representation on R^p; a (p, p) matrix is taken as P itself."""
    if isinstance(rep, Rep):
        _check_acting(rep, p)
        return np.asarray(rep.fixed_projector(), float)
    found = numbers("A projector", rep, numpy=True)
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


def _instead(group: Group, choice: bool) -> str:
    plane = hasattr(group, "grid") and group.dim == 2
    if not choice:
        return f"Write a finite group in its place, such as {'`Rotations(32)`' if plane else 'one of its subgroups'}."
    if plane:
        return (
            f"Write `elements={group}.grid(32)`: the averages over n equispaced rotations are exact once n exceeds "
            "the largest weight."
        )
    return "Write `elements=group.haar(key, 64)` to average over 64 draws."


def _elements(group: Group, elements: Elements) -> Float[np.ndarray, "m d d"]:
    """The elements as they were given: how precise a draw is shows in its type."""
    found = numbers("`elements`", elements, numpy=True)
    if found.ndim != 3 or not len(found) or found.shape[1:] != (group.dim, group.dim):
        raise Refusal(
            f"`elements` is a list of elements of {group}, an array (m, {group.dim}, {group.dim}); got shape "
            f"{found.shape}. Write `elements=group.haar(key, 64)`, say."
        )
    if not off_orthogonal(found) <= PROJECTOR_SLACK * group.dim:
        raise Refusal(
            f"{group} acts through its own elements, which are orthogonal matrices; got `elements` that are not. "
            "Write `elements=group.haar(key, 64)`, say."
        )
    given = np.asarray(elements)
    return given if given.dtype in (np.float32, np.float64) else found


def _check_acting(rep, p: int) -> None:
    if not isinstance(rep, Rep):
        raise Refusal(
            f"A group acts on clouds through a representation; got {said(rep)}. "
            "Write `natural(group)`, or the unit's `action(on_x, on_y)`."
        )
    if rep.dim != p:
        raise Refusal(
            "A representation of dimension k acts on clouds in R^k; "
            f"got dimension {rep.dim} and a cloud in R^{p}. "
            f"Write a representation of dimension {p}, such as the unit's `action(on_x, on_y)`."
        )
