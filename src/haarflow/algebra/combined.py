"""Actions on sums and products of spaces: one gather where both parts are, their parts side by side otherwise."""

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.algebra.acting import Action, ByGather, ByMatrices, Still, is_plain, library


class Two(Action):
    """Two actions of the same elements as one."""

    a: Action
    b: Action

    def __len__(self):
        return len(self.a)

    @property
    def permutes(self):
        return self.a.permutes and self.b.permutes

    def chosen(self, places):
        return type(self)(self.a.chosen(places), self.b.chosen(places))

    @property
    def inverse(self):
        return type(self)(self.a.inverse, self.b.inverse)

    def merged(self):
        return self.gathers() if self.permutes else type(self)(self.a.merged(), self.b.merged())


class Beside(Two):
    """Two actions side by side, on R^a + R^b."""

    @property
    def dim(self):
        return self.a.dim + self.b.dim

    def everywhere(self, z):
        return _side_by_side(self.a.everywhere(z[..., : self.a.dim]), self.b.everywhere(z[..., self.a.dim :]))

    def one_by_one(self, z):
        return _side_by_side(self.a.one_by_one(z[..., : self.a.dim]), self.b.one_by_one(z[..., self.a.dim :]))

    def matrices(self):
        a, b = self.a.matrices(), self.b.matrices()
        if is_plain((a, b)):
            found = np.zeros((len(self), self.dim, self.dim))
            found[:, : self.a.dim, : self.a.dim], found[:, self.a.dim :, self.a.dim :] = a, b
            return found
        return jax.vmap(jax.scipy.linalg.block_diag)(jnp.asarray(a), jnp.asarray(b))

    def traces(self):
        return self.a.traces() + self.b.traces()

    def gathers(self):
        a, b = self.a.gathers(), self.b.gathers()
        index = _side_by_side(a.index, b.index + np.int32(a.dim))
        return ByGather(index, _if_any(a, b, lambda: _side_by_side(_signs(a), _signs(b))))

    def block(self, start, stop):
        if stop <= self.a.dim:
            return self.a if (start, stop) == (0, self.a.dim) else self.a.block(start, stop)
        if start >= self.a.dim:
            here, end = start - self.a.dim, stop - self.a.dim
            return self.b if (here, end) == (0, self.b.dim) else self.b.block(here, end)
        return super().block(start, stop)

    @classmethod
    def examples(cls):
        return [cls(ByMatrices.examples()[0], ByGather.examples()[1].chosen(np.arange(3))), cls(Still(4, 2), _SHIFTS)]


class Kron(Two):
    """The product of two actions, on row-major matrices (dim a × dim b): Z becomes a(g) Z b(g)ᵀ."""

    @property
    def dim(self):
        return self.a.dim * self.b.dim

    def everywhere(self, z):
        if isinstance(self.b, Still):
            rows = z.reshape(*z.shape[:-1], self.a.dim, self.b.dim).swapaxes(-1, -2)
            return self.a.everywhere(rows).swapaxes(-1, -2).reshape(len(self), *z.shape)
        rows = z.reshape(*z.shape[:-1], self.a.dim, self.b.dim)
        return self._left(self.b.everywhere(rows)).reshape(len(self), *z.shape)

    def one_by_one(self, z):
        return self._left(self.b.one_by_one(z.reshape(*z.shape[:-1], self.a.dim, self.b.dim))).reshape(z.shape)

    def matrices(self):
        a, b = self.a.matrices(), self.b.matrices()
        return (a[:, :, None, :, None] * b[:, None, :, None, :]).reshape(len(self), self.dim, self.dim)

    def traces(self):
        return self.a.traces() * self.b.traces()

    def gathers(self):
        a, b = self.a.gathers(), self.b.gathers()
        index = (a.index[:, :, None] * np.int32(b.dim) + b.index[:, None, :]).reshape(len(self), -1)
        signs = _if_any(a, b, lambda: (_signs(a)[:, :, None] * _signs(b)[:, None, :]).reshape(len(self), -1))
        return ByGather(index, signs)

    def merged(self):
        # Where one factor stays (channels of an image, columns of points), one gather of all coordinates is as fast as
        # that of the other factor, measured at 128 images of 28 × 28 × 3, and takes more memory.
        if isinstance(self.a, Still) or isinstance(self.b, Still):
            return Kron(self.a.merged(), self.b.merged())
        return super().merged()

    def _left(self, z):
        return z if isinstance(self.a, Still) else self.a.one_by_one(z.swapaxes(-1, -2)).swapaxes(-1, -2)

    @classmethod
    def examples(cls):
        flips = ByGather.examples()[1]
        turns = ByMatrices.examples()[0]
        return [cls(turns, Still(3, 2)), cls(Still(3, 3), turns), cls(flips, Still(4, 2)), cls(flips, _SHIFTS)]


_SHIFTS = ByGather(np.array([[0, 1], [1, 0], [1, 0], [0, 1]], np.int32))


def beside(a: Action, b: Action) -> Action:
    """The same elements on the sum of two spaces."""
    both_still = isinstance(a, Still) and isinstance(b, Still)
    return Still(len(a), a.dim + b.dim) if both_still else Beside(a, b)


def kron(a: Action, b: Action) -> Action:
    """The same elements on the product of two spaces."""
    both_still = isinstance(a, Still) and isinstance(b, Still)
    return Still(len(a), a.dim * b.dim) if both_still else Kron(a, b)


def _side_by_side(a, b):
    return library((a, b)).concatenate([a, b], axis=-1)


def _signs(gather: ByGather):
    return np.ones(gather.index.shape, np.int8) if gather.signs is None else gather.signs


def _if_any(a: ByGather, b: ByGather, signs):
    return None if a.signs is None and b.signs is None else signs()
