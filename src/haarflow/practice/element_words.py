"""What elements of a group are called: turns, mirrors, and permutations by their cycles of the data's own columns."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from haarflow.algebra.acting import ByGather
from haarflow.algebra.base import Finite
from haarflow.algebra.groups import Dihedral, PlanarRotations
from haarflow.algebra.reps import Rep


def element_in_words(g: Float[np.ndarray, "d d"], names: Sequence[str] | None = None) -> str:
    """A permutation by its cycles of coordinates, or of their names; a turn or a mirror of the plane; or its trace."""
    if len(g) == 2 and names is None:
        angle = np.degrees(np.arctan2(g[1, 0], g[0, 0]))
        if np.linalg.det(g) > 0:
            return f"turn by {angle % 360:g}°"
        return f"mirror at {(angle / 2) % 180:g}°"
    images = np.abs(g).argmax(axis=0)
    if not np.allclose(np.abs(g)[images, np.arange(len(g))], 1):
        return f"a turn with trace {np.trace(g):.2g}"
    called = [str(i) for i in range(len(g))] if names is None else names
    signs = np.where(g[images, np.arange(len(g))] < 0, "−", "")
    cycles, todo = [], set(range(len(g)))
    while todo:
        first = here = min(todo)
        cycle = []
        while here in todo:
            todo.remove(here)
            cycle.append(f"{signs[here]}{called[here]}")
            here = int(images[here])
        if len(cycle) > 1 or signs[first]:
            cycles.append(f"({' '.join(cycle)})")
    return "".join(cycles) or "the identity"


def coordinate_names(group: Finite, on_x: Rep, columns: Sequence[str]) -> list[str] | None:
    """The column that each coordinate is, or its number where it is none; None for turns and mirrors of the plane."""
    if isinstance(group, PlanarRotations | Dihedral):
        return None
    natural, into, numbered = group.moves(), on_x.action(), [str(i) for i in range(group.dim)]
    if not (natural.permutes and into.permutes):
        return numbered
    (there, signs), (images, turned) = _images(natural.gathers()), _images(into.gathers())
    still = (images == np.arange(on_x.dim)).all(axis=0) & (turned > 0).all(axis=0)
    free = [int(column) for column in np.flatnonzero(~still)]
    if len(free) != group.dim:
        return numbered
    found: dict[int, int] = {}
    for j in range(group.dim):
        for column in [] if j in found else free:
            orbit = dict(zip(there[:, j].tolist(), images[:, column].tolist(), strict=True))
            alike = (np.array([orbit[i] for i in there[:, j]]) == images[:, column]).all()
            if alike and len(set(orbit.values())) == len(orbit) and (signs[:, j] == turned[:, column]).all():
                found |= orbit
                free = [one for one in free if one not in orbit.values()]
                break
    return [columns[found[j]] for j in range(group.dim)] if len(found) == group.dim else numbered


def _images(moves: ByGather) -> tuple[Int[np.ndarray, "g d"], Int[np.ndarray, "g d"]]:
    """Where every element takes each coordinate, and with which sign."""
    index = np.asarray(moves.index)
    places = np.argsort(index, axis=1)
    signs = np.ones_like(index) if moves.signs is None else np.asarray(moves.signs)
    return places, np.take_along_axis(signs, places, axis=1)
