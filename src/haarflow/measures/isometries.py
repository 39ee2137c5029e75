"""Groups that act on samples by isometries that need not be linear: shifts of a torus, and functions of your own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from haarflow.algebra.acting import Action
from haarflow.algebra.reps import Rep
from haarflow.doors import Count, Positive, door
from haarflow.errors import Refusal
from haarflow.measures.samples import Law, OtherLaw, Pair, arrays, binade
from haarflow.measures.symmetries import LISTED, Gaps, Plain, Rows, Symmetry, least, symmetry_of
from haarflow.measures.transport import squared_gaps
from haarflow.values import numbers

PROBES = 48
"""Points of the samples on which a group's isometry is looked at."""


@door
@dataclass(frozen=True)
class Shifts(Symmetry):
    """Translations of the torus (R / period)^p by multiples of period/steps in every coordinate: steps^p elements.

    Points are numbers modulo the period, and their distance is that of the circle, in which a shift is an isometry.
    With steps=1 nothing is shifted, and the distance is that of the torus. For example `w1(x, y, under=Shifts(4))`
    for samples in [0, 1) that a shift by a quarter should not tell apart.
    """

    steps: Count
    period: Positive = field(default=1.0, kw_only=True)

    seconds: ClassVar[float] = 4e-9
    instead: ClassVar[str] = "Write `Shifts(4)` for shifts by a quarter of the period."

    @property
    def cell(self) -> float:
        """The shortest shift; the quotient is the torus of this period."""
        return self.period / self.steps

    def gaps(self, x, y):
        return torus_gaps(x, y, self.cell)

    def images(self, x):
        for place in range(self.count(x.shape[1])):
            shift = np.unravel_index(place, (self.steps,) * x.shape[1])
            yield np.mod(x + self.cell * np.array(shift), self.period)

    def plain(self, x, y):
        return torus_gaps(x, y, self.period)

    def count(self, p):
        _refuse_many(count := self.steps**p, self)
        return count

    def passes(self, p):
        return 1


@door
@dataclass(frozen=True)
class Isometries(Symmetry):
    """A finite group by functions of your own, one for each element, the identity too: each moves a batch (b, p).

    With a `period`, coordinates are numbers modulo it and distances are those of the torus. That the functions keep
    all distances, and that they are a group, is looked at on the samples whenever they are used; what does not is
    refused. For example `Isometries([lambda x: x, lambda x: 1 - x])`, the reflection of an interval.
    """

    maps: Sequence[Callable]
    period: Positive | None = field(default=None, kw_only=True)

    instead: ClassVar[str] = "Write `Isometries([lambda x: x, lambda x: -x])`, one function for each element."

    def __post_init__(self):
        if not self.maps:
            raise Refusal("Isometries are one function at least, the identity; got none. Write [lambda x: x].")
        _refuse_many(len(self.maps), "Isometries")

    def gaps(self, x, y):
        return least(self.plain(x, image) for image in self.images(y))

    def plain(self, x, y):
        return squared_gaps(x, y) if self.period is None else torus_gaps(x, y, self.period)

    def images(self, x):
        for place, map in enumerate(self.maps):
            found = numbers(f"Isometries' maps[{place}]", map(x), numpy=True)
            if found.shape != x.shape:
                raise Refusal(
                    f"Isometries move a batch (b, p) to one of the same shape; got {found.shape} from maps[{place}] "
                    f"for {x.shape}. Write a function of all rows at once."
                )
            yield found

    def count(self, p):
        return len(self.maps)


Under = Rep | Action | Shifts | Isometries
"""A group that acts on samples: a representation, elements that stand for an infinite group, or other isometries."""


def acted(mu: Law, nu: OtherLaw, under: Under | None, *, scaled: bool = True) -> tuple[Pair, Symmetry]:
    """Two samples in a common unit, where they lie, and the group that acts on them, refused where it does not."""
    (x, a), (y, b) = arrays(mu), arrays(nu)
    if x.shape[1] != y.shape[1]:
        raise Refusal(
            f"A divergence compares samples in the same R^p; got p = {x.shape[1]} and p = {y.shape[1]}. "
            "Write both with the same coordinates."
        )
    if isinstance(under, Shifts | Isometries):
        given, symmetry = Pair(x, a, y, b, 1.0), under
    else:
        unit = max(binade(x), binade(y)) if scaled else 1.0
        symmetry = Plain() if under is None else symmetry_of(under, x.shape[1])
        given = Pair(x / unit, a, y / unit, b, unit)
    trusted = under is None or isinstance(under, Rep | Shifts)  # orthogonal by construction, or kept by the torus
    refuse_unless_isometric(symmetry, np.concatenate([given.x, given.y]), trusted=trusted)
    return given, symmetry


def refuse_unless_isometric(symmetry: Symmetry, points: Rows, *, trusted: bool) -> None:
    """Refuse maps that change a distance between some of these points, or that are no group."""
    if trusted:
        return
    some = points[np.linspace(0, len(points) - 1, min(PROBES, len(points))).astype(int)]
    plain = symmetry.plain
    wanted = plain(some, some)
    slack = 1e-5 * max(float(wanted.max()), 1e-300)  # draws in float32 are welcome
    images = np.array(list(symmetry.images(some)))
    for place, image in enumerate(images):
        off = float(np.abs(plain(image, image) - wanted).max())
        if not off <= slack:
            circle = isinstance(symmetry, Isometries) and symmetry.period is None
            raise Refusal(
                "A divergence under a group is for isometries, |g x − g y| = |x − y|; got an element, at place "
                f"{place}, that changes a squared distance by {off:.3g}. "
                + (
                    "For shifts modulo one write `under=Shifts(4)`, or `Isometries(maps, period=1.0)`, which measure "
                    "along the circle."
                    if circle
                    else "Write orthogonal elements, such as `rep.action(group.haar(key, 64))`."
                )
            )
    if isinstance(symmetry, Isometries):
        _refuse_unless_group(symmetry, some, slack)


def _refuse_unless_group(symmetry: Isometries, some: Rows, slack: float) -> None:
    """Refuse maps whose compositions lead out of the orbit of a point, or that lack the identity."""
    shares = np.random.default_rng(20240531).random(len(some))
    start = (shares @ some / shares.sum())[None]  # in general position among the points
    orbit = np.concatenate(list(symmetry.images(start)))
    again = np.concatenate([orbit, *symmetry.images(orbit)])
    worst = max(symmetry.plain(start, orbit).min(), symmetry.plain(again, orbit).min(axis=1).max())
    if worst > max(slack, 1e-9):
        raise Refusal(
            f"Isometries are all elements of a group; got {len(orbit)} functions whose compositions, or the identity, "
            f"lead {worst**0.5:.3g} away from all images of a point. Write one function for each element."
        )


def torus_gaps(x: Rows, y: Rows, period: float) -> Gaps:
    """The squared distances on the torus of this period."""
    found = np.zeros((len(x), len(y)))
    for one, two in zip(x.T, y.T, strict=True):
        off = (one[:, None] - two) / period
        found += (period * (off - np.round(off))) ** 2
    return found


def _refuse_many(count: int, owner: object) -> None:
    if count > LISTED:
        raise Refusal(
            f"{owner} goes through up to {LISTED:,} elements; got {count:.3g}. Write fewer, or `w1`, `w2` and "
            "`lip_alpha` under Shifts, which list none."
        )
