"""How a group acts on samples, as divergences see it: the gaps d_G(x, y)² = min_g |x − g y|², and the images g x.

Gaps are found by the fastest exact way that a representation has: a fold of the space where the quotient is flat
(sorted coordinates, sizes, norms), an assignment for permuted points, an orthogonal Procrustes problem for rotated
ones, and else the least over all listed elements.
"""

import abc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from haarflow.algebra.acting import Action
from haarflow.algebra.base import Finite
from haarflow.algebra.groups import Hyperoctahedral, Signs, Symmetric
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.reps import Natural, Rep, Sum, Tensor, TrivialRep
from haarflow.errors import Refusal
from haarflow.measures.actions import action_on
from haarflow.measures.transport import squared_gaps

Rows = Float[np.ndarray, "_ p"]
Gaps = Float[np.ndarray, "_ _"]
Fold = Callable[[Rows], Float[np.ndarray, "_ _"]]

FEW = 120
"""Permutations of points are listed up to this many; beyond it each pair is an assignment problem."""

LISTED = 100_000
"""Elements of a group that are gone through one by one."""

PIECE = 2**17
"""Pairs of points whose rotations, or coordinates whose images, are found together."""


class Symmetry(abc.ABC):
    """What a divergence asks of a group that acts on R^p by isometries."""

    seconds: ClassVar[float] = 2e-9
    """What one pair of points and one coordinate cost, for each listed element; measured, one core."""

    @abc.abstractmethod
    def gaps(self, x: Rows, y: Float[np.ndarray, "m p"]) -> Gaps:
        """The squared quotient distances d_G(x_i, y_j)², (n, m)."""

    @abc.abstractmethod
    def images(self, x: Rows) -> Iterator[Rows]:
        """g x for one element g after the other, the identity among them."""

    @abc.abstractmethod
    def count(self, p: int) -> int:
        """How many elements `images` goes through."""

    def passes(self, p: int) -> int:
        """How many elements `gaps` goes through: one where they are known in closed form."""
        return self.count(p)

    def plain(self, x: Rows, y: Float[np.ndarray, "m p"]) -> Gaps:
        """The squared distances without the group."""
        return squared_gaps(x, y)

    def pairs(self, x: Rows) -> Iterator[tuple[float, Rows]]:
        """Images with shares that sum to one: what is the same for an element and its inverse is asked once."""
        count = self.count(x.shape[1])
        return ((1 / count, image) for image in self.images(x))

    @property
    def fold(self) -> Fold | None:
        """Coordinates in which the quotient distance is the plain one, where there are such."""
        return None

    def mean(self, x: Rows) -> Rows:
        """The mean of g x over the group."""
        return np.mean(list(self.images(x)), axis=0)


def least(gaps: Iterator[Gaps]) -> Gaps:
    """The least of several matrices, entry by entry, of which two are kept at a time."""
    found = next(gaps)
    for here in gaps:
        np.minimum(found, here, out=found)
    return found


class Plain(Symmetry):
    """No group: the quotient is the space itself."""

    def gaps(self, x, y):
        return squared_gaps(x, y)

    def images(self, x):
        yield x

    def count(self, p):
        return 1


class Listed(Symmetry):
    """A group by its elements, which are gone through one by one."""

    def __init__(self, action: Action):
        self.action = action

    def gaps(self, x, y):
        return least(squared_gaps(x, image) for image in self.images(y))

    def images(self, x):
        return self._of(x, range(len(self.action)))

    def count(self, p):
        return len(self.action)

    def pairs(self, x):
        action = self.action
        names = inverse_names(action)
        places = {name: place for place, name in reversed(list(enumerate(names)))}
        times = Counter(names)
        for name, image in zip(places, self._of(x, list(places.values())), strict=True):
            yield times[name] / len(names), image

    def _of(self, x: Rows, places: Sequence[int]) -> Iterator[Rows]:
        """The images under the elements at these places, made for several at once where they are small."""
        action, several = self.action, max(PIECE // x.size, 1)
        for start in range(0, len(places), several):
            yield from np.asarray(action.pick(list(places[start : start + several])).apply(x), float)


class OfRep(Listed):
    """A group by a representation that has a faster way to its gaps; elements are listed only where asked for."""

    def __init__(self, rep: Rep, p: int):
        self.rep, self.p = rep, p

    @property
    def action(self) -> Action:  # pyright: ignore[reportIncompatibleVariableOverride]
        return listed(self.rep, self.p)

    def passes(self, p):
        return 1

    def mean(self, x):
        return np.asarray(self.rep.projection().apply(x), float)


class Folded(OfRep):
    """A quotient that is flat: sorted coordinates, sizes of coordinates, or norms."""

    seconds = 1e-9

    def __init__(self, rep: Rep, p: int, flat: Fold):
        super().__init__(rep, p)
        self.flat = flat

    @property
    def fold(self):
        return self.flat

    def gaps(self, x, y):
        return squared_gaps(self.flat(x), self.flat(y))


class Assigned(OfRep):
    """All permutations of the rows of tables: each gap is an assignment of rows to rows."""

    seconds = 1e-5

    def gaps(self, x, y):
        from scipy.optimize import linear_sum_assignment

        one, two = _tables(self.rep, x), _tables(self.rep, y)
        found = np.empty((len(x), len(y)))
        for i in range(len(x)):
            for j in range(len(y)):
                costs = squared_gaps(one[i], two[j])
                found[i, j] = costs[linear_sum_assignment(costs)].sum()
        return found


class Procrustes(OfRep):
    """All rotations, or all orthogonal matrices, of several points at once: the nearest is known in closed form."""

    seconds = 2e-6

    def gaps(self, x, y):
        one, two = _tables(self.rep, x), _tables(self.rep, y)
        size = max(PIECE // len(y), 1)
        return np.concatenate([self._piece(one[at : at + size], two) for at in range(0, len(x), size)])

    def _piece(self, one, two):
        left, _, right = np.linalg.svd(np.einsum("idk,jek->ijde", one, two))
        if isinstance(self.rep.group, SpecialOrthogonal):
            left[..., :, -1] *= np.sign(np.linalg.det(left @ right))[..., None]
        return np.sum((one[:, None] - (left @ right) @ two) ** 2, axis=(2, 3))


def symmetry_of(under: "Rep | Action", p: int) -> Symmetry:
    """The fastest exact way of a representation on R^p, or of the elements that stand for an infinite group."""
    if isinstance(under, Action):
        if under.dim != p:
            raise Refusal(
                f"An Action on R^k moves samples in R^k; got one on R^{under.dim} and samples in R^{p}. "
                f"Write `rep.action(...)` of a representation of dimension {p}."
            )
        return Listed(under)
    if under.dim != p:
        action_on(under, p)  # refuses
    if fold := _fold(under):
        return Folded(under, p, fold)
    if _on_points(under):
        match under.group:
            case Symmetric() as group if group.order > FEW:
                return Assigned(under, p)
            case Orthogonal() | SpecialOrthogonal():
                return Procrustes(under, p)
    return Listed(listed(under, p))


def inverse_names(action: Action) -> list[bytes]:
    """For each element the same bytes as for its inverse: they move a sample equally far."""
    z = np.random.default_rng(20240531).standard_normal(action.dim)
    there, back = (np.round(one.apply(z), 9) + 0.0 for one in (action, action.inverse))
    return [min(one.tobytes() for one in pair) for pair in zip(there, back, strict=True)]


def listed(rep: Rep, p: int) -> Action:
    """All elements as they act on R^p; a sentence about the elements to draw where they cannot be listed."""
    group = rep.group
    if not isinstance(group, Finite):
        plane = isinstance(group, Orthogonal | SpecialOrthogonal) and group.dim == 2
        instead = "rep.action(group.grid(64))" if plane else "rep.action(group.haar(key, 256))"
        raise Refusal(
            f"A divergence under a group goes through its elements; got the infinite {group}. Write `under={instead}` "
            "for elements that stand for it, or `quotient_bounds(key, ...)` for bounds that hold for all of it."
        )
    if group.order > LISTED:
        raise Refusal(
            f"A divergence under a group goes through up to {LISTED:,} elements; got {group} with {group.order:.3g}. "
            "Write `under=rep.action(group.draw(key, 256))` for elements that stand for it."
        )
    return action_on(rep, p)


def _fold(rep: Rep) -> Fold | None:
    """The coordinates that flatten the quotient of a representation, where it is one of those that are flat."""
    if isinstance(rep, TrivialRep):
        return lambda z: z
    if isinstance(rep, Sum):
        return _fold_beside(rep)
    if isinstance(rep, Tensor) and isinstance(rep.b, TrivialRep) and rep.b.dim == 1:
        return _fold(rep.a)
    if isinstance(rep, Tensor) and isinstance(rep.a, TrivialRep) and rep.a.dim == 1:
        return _fold(rep.b)
    if not isinstance(rep, Natural):
        return None
    match rep.group:
        case Symmetric():
            return lambda z: np.sort(z, axis=1)
        case Signs():
            return np.abs
        case Hyperoctahedral():
            return lambda z: np.sort(np.abs(z), axis=1)
        case Orthogonal():
            return _norms
        case SpecialOrthogonal(n=n) if n > 1:
            return _norms
    return None


def _fold_beside(rep: Sum) -> Fold | None:
    """Two parts side by side are flat where both are, and one of them stays."""
    if not (isinstance(rep.a, TrivialRep) or isinstance(rep.b, TrivialRep)):
        return None
    left, right, k = _fold(rep.a), _fold(rep.b), rep.a.dim
    return left and right and (lambda z: np.concatenate([left(z[:, :k]), right(z[:, k:])], axis=1))


def _norms(z: Rows) -> Float[np.ndarray, "n 1"]:
    return np.linalg.norm(z, axis=1, keepdims=True)


def _on_points(rep: Rep) -> bool:
    """Whether a group moves several points at once by its own matrices."""
    parts = (rep.a, rep.b) if isinstance(rep, Tensor) else ()
    return any(isinstance(one, Natural) for one in parts) and any(isinstance(one, TrivialRep) for one in parts)


def _tables(rep: Rep, z: Rows) -> Float[np.ndarray, "n d k"]:
    """Rows as tables d × k, of which the group moves the d rows."""
    d = rep.group.dim
    if isinstance(rep, Tensor) and isinstance(rep.a, TrivialRep):
        return z.reshape(len(z), -1, d).swapaxes(1, 2)
    return z.reshape(len(z), d, -1)
