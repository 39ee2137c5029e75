"""The orbits of a finite group among given points: which belong together, and which element leads to which."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra.acting import Action
from haarflow.errors import Refusal


@dataclass(frozen=True)
class Orbits:
    """Points in orbits: `first` names one point of each; point j is `elements[j]` times the first of `orbit[j]`.

    `mass` is what an orbit weighs, and `share` the part of it that point j carries.
    """

    first: Int[np.ndarray, " o"]
    mass: Float[np.ndarray, " o"]
    orbit: Int[np.ndarray, " n"]
    elements: Int[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]


def orbits(
    points: Float[np.ndarray, "n k"],
    weights: Float[np.ndarray, " n"],
    action: Action,
    *,
    owner: str,
    tolerance: float = 1e-9,
) -> Orbits:
    """The orbits of weighted points that are closed under all elements of a group; a refusal where they are not.

    Points nearer than the tolerance, relative to the largest coordinate, are one point.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    slack, tree = tolerance * max(np.abs(points).max(), 1e-300), KDTree(points)
    images = np.asarray(action.apply(points))
    gaps, nearest = tree.query(images.reshape(-1, points.shape[1]))
    if (gaps > slack).any():
        _refuse_open(owner, float(gaps.max()), int(np.argmax(gaps)) % len(points))
    # A place is a set of points that coincide: the group moves places, and an orbit is a set of places.
    pairs = tree.query_pairs(slack, output_type="ndarray").reshape(-1, 2)
    joined = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(points), len(points)))
    places, place = connected_components(joined, directed=False)
    at = place[nearest].reshape(len(action), -1)
    steps = coo_array((np.ones(at.size), (np.tile(place, len(at)), at.ravel())), shape=(places, places))
    count, orbit_of_place = connected_components(steps, directed=False)
    orbit = orbit_of_place[place]
    _, first = np.unique(orbit, return_index=True)
    _check_masses(owner, np.bincount(place, weights), orbit_of_place)
    element_at = np.zeros(places, int)
    for g in reversed(range(len(action))):
        element_at[at[g, first]] = g
    mass = np.bincount(orbit, weights, count)
    return Orbits(first, mass, orbit, element_at[place], weights / np.where(mass > 0, mass, 1)[orbit])


def _check_masses(owner: str, masses: np.ndarray, orbit: np.ndarray) -> None:
    """All places of an orbit weigh the same."""
    mean = (np.bincount(orbit, masses) / np.bincount(orbit))[orbit]
    gaps = np.abs(masses - mean)
    if (gaps > 1e-6 * mean).any():
        worst = int(np.argmax(gaps))
        raise Refusal(
            f"{owner} that is closed under a group weighs the same everywhere on an orbit; got {masses[worst]:g} where "
            f"the orbit's mean is {mean[worst]:g}. Close it with `cloud.orbit(rep)` or "
            "`orbit_closure(sample, on_x, on_y)`."
        )


def _refuse_open(owner: str, gap: float, point: int) -> None:
    raise Refusal(
        f"{owner} that is closed under a group contains every image of its points; got an image of point {point} that "
        f"is {gap:.2g} from the nearest. Close it with `cloud.orbit(rep)` or "
        "`orbit_closure(sample, on_x, on_y)`."
    )
