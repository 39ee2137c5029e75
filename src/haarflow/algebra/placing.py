"""A representation on some columns of a table: the named columns move, in their order, and the others stay."""

from collections.abc import Sequence

import numpy as np

from haarflow.algebra.acting import Action, ByGather, ByMatrices, library
from haarflow.algebra.groups import Cyclic
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import OfOne, Rep, natural_rep, trivial_rep
from haarflow.algebra.tables import Frozen, static
from haarflow.errors import Refusal


class Reordered(Action):
    """An action on coordinates that stand in another order: coordinate i of the inner action is column order[i]."""

    inner: Action
    order: Frozen = static()

    @property
    def dim(self):
        return self.inner.dim

    def __len__(self):
        return len(self.inner)

    @property
    def permutes(self):
        return self.inner.permutes

    def everywhere(self, z):
        return self.inner.everywhere(z[..., self.order.array])[..., self._back]

    def one_by_one(self, z):
        return self.inner.one_by_one(z[..., self.order.array])[..., self._back]

    def chosen(self, places):
        return Reordered(self.inner.chosen(places), self.order)

    @property
    def inverse(self):
        return Reordered(self.inner.inverse, self.order)

    def matrices(self):
        return self.inner.matrices()[:, self._back[:, None], self._back[None, :]]

    def traces(self):
        return self.inner.traces()

    def gathers(self):
        inner = self.inner.gathers()
        order = self.order.array.astype(np.int32)
        index = library(inner.index).asarray(order)[inner.index][:, self._back]
        return ByGather(index, None if inner.signs is None else inner.signs[:, self._back])

    def merged(self):
        return self.gathers() if self.permutes else Reordered(self.inner.merged(), self.order)

    @property
    def _back(self):
        return np.argsort(self.order.array)

    @classmethod
    def examples(cls):
        gather, turns = ByGather.examples()[1], ByMatrices.examples()[0]
        return [cls(gather, Frozen([2, 0, 1])), cls(turns, Frozen([1, 0]))]


class Placed(OfOne):
    """A representation whose coordinate i is the column order[i]."""

    order: Frozen = static()

    def acting(self, moves):
        return Reordered(self.inner.acting(moves), self.order).merged()

    def turning(self, a):
        back = np.argsort(self.order.array)
        return self.inner.turning(a)[back[:, None], back[None, :]]

    def __repr__(self):
        return f"placed({self.inner}, {self.order})"

    @classmethod
    def examples(cls):
        return [
            placed(natural_rep(Cyclic(3)), (3, 0, 2), 4),
            placed(natural_rep(SpecialOrthogonal(2)), (2, 0), 3),
        ]


def placed(rep: Rep, columns: Sequence[int], dim: int) -> Rep:
    """The representation on the given columns of R^dim, in the order in which they are given; the others stay."""
    rest = sorted(set(range(dim)) - set(columns))
    if len(set(columns)) != rep.dim or len(columns) != rep.dim or len(rest) != dim - rep.dim:
        raise Refusal(
            f"A representation on {rep.dim} coordinates is placed at {rep.dim} different columns of {dim}; got "
            f"{len(columns)}. Write each column once."
        )
    whole = rep + trivial_rep(rep.group, len(rest)) if rest else rep
    order = [*columns, *rest]
    return whole if order == list(range(dim)) else Placed(rep.group, whole, Frozen(order))
