"""One representative of each orbit: the image of a row that comes last in the order of dictionaries.

Where all permutations of blocks of columns act, that is the row with its blocks sorted; where all signs do, the row
of absolute values; for other finite groups the images are compared.
"""

import numpy as np
from jaxtyping import Float

from haarflow.algebra.acting import Action
from haarflow.algebra.base import Finite
from haarflow.algebra.groups import Hyperoctahedral, Signs, Symmetric
from haarflow.algebra.reps import Natural, Rep, Sum, Tensor, TrivialRep
from haarflow.errors import Refusal
from haarflow.practice.acting_on import Acting

LISTED = 10_000  # elements that are compared at most
BLOCK = 2**24  # numbers that are compared at once


def canonical(acting: Acting, rows: Float[np.ndarray, "b d"]) -> tuple[Float[np.ndarray, "b d"], Action | None]:
    """The representative of each row's orbit; and where outputs move, the element that took each row there."""
    if acting.still:
        quick = _sorted(acting.on_x, rows)
        if quick is not None:
            return quick, None
    if not isinstance(acting.group, Finite) or acting.group.order > LISTED:
        raise Refusal(
            f"Orbits have a representative here where their group has at most {LISTED} elements, or permutes blocks "
            f'of columns, or flips signs; got {acting.group}. Write how="average", for example.'
        )
    action = acting.on_inputs(acting.group.moves())
    height = max(1, BLOCK // max(1, len(action) * rows.shape[1]))
    found, places = np.empty_like(rows), np.empty(len(rows), int)
    for start in range(0, len(rows), height):
        here = slice(start, start + height)
        images = np.asarray(action.everywhere(rows[here]))
        places[here] = _last(images)
        found[here] = images[places[here], np.arange(len(rows[here]))]
    return found, None if acting.still else acting.group.moves().chosen(places)


def _last(images: Float[np.ndarray, "g b d"]) -> np.ndarray:
    """Which image of each row is the last one in the order of dictionaries, up to the rounding of rotations."""
    grain = 1e-9 * max(float(np.abs(images).max(initial=0.0)), 1e-300)
    steps = np.round(images / grain)
    left = np.ones(images.shape[:2], bool)
    for column in range(images.shape[2]):
        values = np.where(left, steps[:, :, column], -np.inf)
        left &= values == values.max(axis=0)
        if (left.sum(axis=0) == 1).all():
            break
    return left.argmax(axis=0)


def _sorted(rep: Rep, rows: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b d"] | None:
    """The representative by sorting, where the group permutes blocks in all ways, or flips all signs; else None."""
    if isinstance(rep, TrivialRep):
        return rows
    if isinstance(rep, Sum) and TrivialRep in (type(rep.a), type(rep.b)):
        left, right = _sorted(rep.a, rows[:, : rep.a.dim]), _sorted(rep.b, rows[:, rep.a.dim :])
        return None if left is None or right is None else np.concatenate([left, right], axis=1)
    if isinstance(rep, Natural) and isinstance(rep.group, Signs):
        return np.abs(rows)
    if isinstance(rep, Natural) and isinstance(rep.group, Hyperoctahedral):
        return -np.sort(-np.abs(rows), axis=1)
    blocks = _block_size(rep)
    if blocks is None:
        return None
    table = rows.reshape(len(rows), -1, blocks)
    order = np.lexsort(-table[:, :, ::-1].transpose(2, 0, 1), axis=-1)
    return np.take_along_axis(table, order[:, :, None], axis=1).reshape(rows.shape)


def _block_size(rep: Rep) -> int | None:
    """The size of the blocks of columns that a representation permutes in all ways."""
    if isinstance(rep, Natural) and isinstance(rep.group, Symmetric):
        return 1
    match rep:
        case Tensor(a=Natural(group=Symmetric()), b=TrivialRep()):
            return rep.b.dim
    return None
