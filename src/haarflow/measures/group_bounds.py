"""Groups that cannot be listed: bounds on transport under them that hold for every element, and estimates by draws."""

from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Array, PRNGKeyArray

from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.reps import Rep
from haarflow.doors import Count, Least, Positive, door
from haarflow.errors import Refusal
from haarflow.measures.bounds import Bounds, bracket
from haarflow.measures.isometries import acted
from haarflow.measures.quotients import kernel_square, kernel_width, transport
from haarflow.measures.samples import Law, OtherLaw, Pair
from haarflow.measures.symmetries import Listed, OfRep, Symmetry, symmetry_of
from haarflow.measures.transport import Gaps, exact


class Estimate(NamedTuple):
    """A mean over random elements of a group, and its standard error."""

    value: float
    error: float


@door
def quotient_bounds(
    key: PRNGKeyArray | Array,
    mu: Law,
    nu: OtherLaw,
    *,
    under: Rep,
    order: Annotated[int, Least(1)] = 1,
    elements: Count = 64,
) -> Bounds:
    """Lower and upper bounds on W1 (order 1) or W2 (order 2) under all of a group, also an infinite one.

    From above: the least over `elements` draws of the group, or over as many equispaced rotations of the plane. From
    below: |P z| and |z − P z| are invariant, so transport of (P z, |z − P z|) is; and rotations between two equispaced
    ones can save little. Where the quotient distance is known exactly, both bounds are the distance.
    """
    if order not in (1, 2):
        raise Refusal(f"quotient_bounds are of order 1 or 2; got {order}. Write order=1 for W1.")
    given, _ = acted(mu, nu, None)
    p = given.x.shape[1]
    symmetry = _known(under, p)
    if symmetry is not None:
        value = _root(transport(given, symmetry, order=order, force=False, progress=None), order)
        return _bounds({"exact": value}, {"exact": value}, given, order)
    on = _standing(key, under, elements)
    above = _root(transport(given, Listed(on), order=order, force=False, progress=None), order)
    lowers = {"norms": _root(exact(_norms(given, under), order=order), order)}
    if (turns := _turns(under)) is not None:
        lowers["grid"] = _root(exact(given, order=order, gaps=_between(Listed(on), np.pi / elements * turns)), order)
    return _bounds(lowers, {"elements": above}, given, order)


@door
def mmd_squared_draws(
    key: PRNGKeyArray | Array,
    mu: Law,
    nu: OtherLaw,
    *,
    under: Rep,
    width: Positive | None = None,
    elements: Annotated[int, Least(2)] = 64,
    block: Count = 512,
) -> Estimate:
    """`mmd_squared` under a group that cannot be listed: the mean over `elements` Haar draws, and its standard error.

    The kernel averaged over the group is a mean over its elements, so each draw gives an estimate without bias.
    """
    given, _ = acted(mu, nu, None)
    if under.dim != given.x.shape[1]:
        symmetry_of(under, given.x.shape[1])  # refuses
    narrow = kernel_width(given, OfRep(under, under.dim)) if width is None else width / given.unit
    drawn = under.action(under.group.draw(key, elements))
    values = [_one(given, Listed(drawn.pick(i)), narrow, block) for i in range(elements)]
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(elements)))


def _one(given: Pair, symmetry: Listed, width: float, block: int) -> float:
    return kernel_square(given, symmetry, width, block, force=False, clipped=False)


def _known(under: Rep, p: int) -> Symmetry | None:
    """The way that knows all of the group, where there is one."""
    try:
        return symmetry_of(under, p)
    except Refusal:
        if under.dim != p:
            raise
        return None


def _standing(key, under: Rep, elements: int):
    """Elements that stand for the group: equispaced in the plane, else drawn."""
    group = under.group
    if isinstance(group, Orthogonal | SpecialOrthogonal) and group.dim == 2:
        return under.action(group.grid(elements))
    return under.action(group.draw(key, elements))


def _turns(under: Rep) -> float | None:
    """How often the fastest plane of a representation of SO(2) or O(2) turns in one revolution."""
    group = under.group
    if not (isinstance(group, Orthogonal | SpecialOrthogonal) and group.dim == 2):
        return None
    return float(np.abs(np.linalg.eigvals(under.derivative(group.lie_algebra()[0]))).max())


def _norms(given: Pair, under: Rep) -> Pair:
    x, y = (_flat(z, np.asarray(under.projection().apply(z), float)) for z in (given.x, given.y))
    return given._replace(x=x, y=y)


def _flat(z, fixed):
    return np.concatenate([fixed, np.linalg.norm(z - fixed, axis=1, keepdims=True)], axis=1)


def _between(grid: Listed, angle: float) -> Gaps:
    """Squared gaps that no rotation beats: a turn by up to this angle from the best one adds angle² |x| |y| at most.

    The square |x − g y|² has no slope in the angle where it is least, and its curvature is at most 2 |x| |y|.
    """

    def gaps(x, y):
        sizes = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
        return np.maximum(grid.gaps(x, y) - angle**2 * sizes, 0.0)

    return gaps


def _root(value: float, order: int) -> float:
    return value ** (1 / order)


def _bounds(lowers: dict[str, float], uppers: dict[str, float], given: Pair, order: int) -> Bounds:
    from dataclasses import replace

    return replace(bracket(lowers, uppers, given, 0.0), of=f"W{order} under the group")
