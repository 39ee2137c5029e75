"""Elements of a group, and of its Lie algebra, as a caller gives them: taken as they are, or refused in a sentence."""

from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from haarflow.algebra.acting import Action, as_action
from haarflow.algebra.base import NEAR, Group, element
from haarflow.algebra.checks import largest, off_orthogonal
from haarflow.errors import Refusal
from haarflow.values import numbers, said

ORTHOGONAL = 1e-5
"""How far given elements may be from orthogonal, in each entry and for each dimension: float32 is welcome."""

_DRAW = "Write `elements=group.haar(key, 64)`, say."


def given_elements(group: Group, elements: Any) -> Action:
    """Elements of a group that a caller gives, as an Action on R^d: matrices (m, d, d), or what `group.draw` drew."""
    if isinstance(elements, Action):
        traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(elements))
        found = elements if traced else jax.tree.map(np.asarray, elements)
        if elements.dim != group.dim or not (traced or group.contains(found)):
            raise Refusal(
                f"{group} acts through its own elements, on R^{group.dim}; got `elements` on R^{elements.dim} that are "
                f"others. {_DRAW}"
            )
        return found
    found = numbers("`elements`", elements, numpy=True)
    if found.ndim != 3 or not len(found) or found.shape[1:] != (group.dim, group.dim):
        raise Refusal(
            f"`elements` is a list of elements of {group}, an array (m, {group.dim}, {group.dim}); got shape "
            f"{found.shape}. {_DRAW}"
        )
    if not off_orthogonal(found) <= ORTHOGONAL * group.dim:
        raise Refusal(
            f"{group} acts through its own elements, which are orthogonal matrices; got `elements` that are not. "
            f"{_DRAW}"
        )
    given = np.asarray(elements)  # as it was given: how precise a draw is shows in its type
    given = given if given.dtype in (np.float32, np.float64) else found
    return as_action(np.stack([np.asarray(element(group, g), np.float64) for g in given]))


def given_tangent(group: Group, a) -> Float[np.ndarray, "d d"]:
    """The matrix a, where it belongs to the group's Lie algebra."""
    a, lie = numbers("derivative's a", a, numpy=True), group.lie_algebra()
    flat = lie.reshape(len(lie), group.dim**2)
    if a.shape == (group.dim, group.dim):
        near = flat.T @ np.linalg.solve(flat @ flat.T, flat @ a.ravel())
        if largest(near - a.ravel()) <= NEAR * max(1.0, largest(a)):
            return a
    raise Refusal(
        f"The derivative of a representation of {group} is taken along its Lie algebra; got "
        f"{said(a)}. Write a combination of `group.lie_algebra()`, which holds {len(lie)} matrices."
    )
