"""Direct products: two groups side by side, and the representations of each seen over both."""

import math

import jax
import numpy as np

from haarflow.algebra.acting import as_action
from haarflow.algebra.base import Finite, Group, Matrix, a_group
from haarflow.algebra.checks import affordable, fits, largest
from haarflow.algebra.combined import beside
from haarflow.algebra.groups import Cyclic, PlanarRotations, Signs, Symmetric
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import OfOne, Rep, natural_rep
from haarflow.algebra.tables import blocks, static
from haarflow.doors import door
from haarflow.errors import Refusal


class Pair(Group):
    """The direct product of two groups: block-diagonal matrices on the sum of the two spaces."""

    a: Group = static()
    b: Group = static()

    @property
    def dim(self):
        return self.a.dim + self.b.dim

    def __check_init__(self):
        for factor in (self.a, self.b):
            a_group("A direct product", factor)

    def draws(self, key, n):
        left, right = jax.random.split(key)
        return beside(as_action(self.a.draws(left, n)), as_action(self.b.draws(right, n)))

    def generators(self):
        return self._blocks(self.a.generators(), self.b.generators(), np.eye)

    def lie_algebra(self):
        return self._blocks(self.a.lie_algebra(), self.b.lie_algebra(), lambda d: np.zeros((d, d)))

    def classes(self, degree):
        fits(f"The list of classes of {self}", self.count_classes(degree) or 0, self.dim, self.dim)
        (left, u), (right, v) = self.a.classes(degree), self.b.classes(degree)
        return np.stack([blocks(g, h) for g in left for h in right]), np.outer(u, v).ravel()

    def count_classes(self, degree):
        left, right = self.a.count_classes(degree), self.b.count_classes(degree)
        return None if left is None or right is None else left * right

    def holds(self, g, near):
        parts = np.asarray(self.part(g, 0)), np.asarray(self.part(g, 1))
        apart = largest(g - blocks(*parts)) < near
        return apart and self.a.holds(parts[0], near) and self.b.holds(parts[1], near)

    def part(self, g: Matrix, side: int) -> Matrix:
        """The factor of g in the first (0) or the second (1) group."""
        return g[self.a.dim :, self.a.dim :] if side else g[: self.a.dim, : self.a.dim]

    def _blocks(self, left, right, rest):
        wanted = "Write a group of a smaller space."
        affordable("A list of matrices", self, len(left) + len(right), self.dim, self.dim, instead=wanted)
        rows = [blocks(g, rest(self.b.dim)) for g in left] + [blocks(rest(self.a.dim), h) for h in right]
        return np.array(rows).reshape(-1, self.dim, self.dim)


class Product(Pair, Finite):
    """The direct product of two finite groups, block-diagonal; `a * b` makes the right product of any two."""

    @property
    def order(self):
        return math.prod(factor.order for factor in self._factors())

    def __check_init__(self):
        self._factors()

    def listed(self):
        a, b = self._factors()
        left, right = np.divmod(np.arange(self.order), b.order)
        return beside(a.moves().chosen(left), b.moves().chosen(right))

    def _factors(self) -> tuple[Finite, Finite]:
        if isinstance(self.a, Finite) and isinstance(self.b, Finite):
            return self.a, self.b
        raise Refusal(f"Product is of two finite groups; got {self.a} and {self.b}. Write `direct_product(a, b)`.")

    @classmethod
    def examples(cls):
        return [cls(Cyclic(2), Symmetric(3)), cls(Signs(1), PlanarRotations(3))]


class InfiniteProduct(Pair):
    """The direct product of two groups of which one at least is infinite."""

    @classmethod
    def examples(cls):
        return [cls(Symmetric(2), SpecialOrthogonal(3))]


class Lifted(OfOne):
    """A representation of one factor, seen as one of a direct product."""

    side: int = static()

    def acting(self, moves):
        both = self._pair()
        return self.inner.acting(moves.block(*((both.a.dim, both.dim) if self.side else (0, both.a.dim))))

    def turning(self, a):
        return self.inner.turning(np.asarray(self._pair().part(a, self.side)))

    def __repr__(self):
        return f"lift({self.inner}, {self.group}, {self.side})"

    def _pair(self) -> Pair:
        assert isinstance(self.group, Pair)
        return self.group

    @classmethod
    def examples(cls):
        both = direct_product(Symmetric(2), SpecialOrthogonal(3))
        return [
            lift(natural_rep(SpecialOrthogonal(3)), both, 1),
            lift(natural_rep(Cyclic(3)), Cyclic(3) * Cyclic(2), 0),
        ]


@door
def direct_product(a: Group, b: Group) -> Group:
    """The direct product of two groups, which `a * b` is too: block-diagonal matrices on the sum of the two spaces."""
    finite = isinstance(a, Finite) and isinstance(b, Finite)
    return Product(a, b) if finite else InfiniteProduct(a, b)


@door
def lift(rep: Rep, group: Group, side: int) -> Rep:
    """A representation of the first (0) or second (1) factor of a direct product, as one of the product."""
    if not isinstance(group, Pair) or side not in (0, 1) or (group.a, group.b)[side] != rep.group:
        raise Refusal(
            f"lift takes a representation of factor 0 or 1 of a direct product; got one of {rep.group} for "
            f"factor {side} of {group}. Write `lift(natural_rep(a), a * b, 0)`."
        )
    return Lifted(group, rep, side)
