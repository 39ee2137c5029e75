"""Payoffs that are quadratic in a point of each player, in closed form: moments of the clouds say everything."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import door
from haarflow.dynamics.games import Payoff, refuse_unless_players
from haarflow.errors import Refusal
from haarflow.learning.risks import Variation
from haarflow.measures.clouds import Cloud
from haarflow.values import leaf


class Quadratic(NamedTuple):
    """The function `zᵀ matrix z + linear·z + constant` of a point, with a symmetric matrix."""

    matrix: Float[Array, "p p"]
    linear: Float[Array, "p"]
    constant: Float[Array, ""]

    def __call__(self, point: Float[Array, "p"]) -> Float[Array, ""]:
        return point @ self.matrix @ point + self.linear @ point + self.constant

    def varied(self, cloud: Cloud) -> Variation:
        """The values and the descent directions at all atoms."""
        moved = cloud.atoms @ self.matrix
        values = jnp.sum(moved * cloud.atoms, axis=-1) + cloud.atoms @ self.linear + self.constant
        return Variation(values, -2 * moved - self.linear[None, :])


@door
class QuadraticPayoff(Payoff):
    """The mean of `xᵀ xx x + xᵀ xy y + yᵀ yy y + yᵀ yx2 (x²) + lx·x + ly·y` over two mixed strategies.

    x² is by coordinates. It is quadratic in the point of each player, so best responses on spheres and in balls are
    known exactly. Parts that are left out are zero: `QuadraticPayoff(xy=A)` is the bilinear game, with p rows for the
    player `first` and q columns for `second`. A step costs n p² instead of the n² pairs of an ExpectedPayoff.
    """

    xx: Float[Array, "p p"] | None = eqx.field(default=None, converter=leaf, kw_only=True)
    xy: Float[Array, "p q"] | None = eqx.field(default=None, converter=leaf, kw_only=True)
    yy: Float[Array, "q q"] | None = eqx.field(default=None, converter=leaf, kw_only=True)
    yx2: Float[Array, "q p"] | None = eqx.field(default=None, converter=leaf, kw_only=True)
    lx: Float[Array, "p"] | None = eqx.field(default=None, converter=leaf, kw_only=True)
    ly: Float[Array, "q"] | None = eqx.field(default=None, converter=leaf, kw_only=True)
    first: str = eqx.field(default="x", static=True, kw_only=True)
    second: str = eqx.field(default="y", static=True, kw_only=True)

    def __check_init__(self):
        if self.first == self.second:
            raise Refusal(
                f"A QuadraticPayoff is of two players; got {self.first!r} twice. Write first='x', second='y'."
            )
        if all(part is None for part in (self.xx, self.xy, self.yy, self.yx2, self.lx, self.ly)):
            raise Refusal("A QuadraticPayoff has a part at least; got none. Write QuadraticPayoff(xy=matrix).")

    @property
    def players(self):
        return (self.first, self.second)

    def __call__(self, clouds):
        one, _ = self._pair(clouds)
        return one.weights @ self.against(self.first, clouds).varied(one).potential

    def variation(self, clouds):
        self._pair(clouds)
        still = {name: Variation(0 * cloud.weights, 0 * cloud.atoms) for name, cloud in clouds.items()}
        return still | {name: self.against(name, clouds).varied(clouds[name]) for name in self.players}

    def against(self, name, clouds) -> Quadratic:
        one, other = self._pair(clouds)
        xx, xy, yy, yx2, lx, ly = self._parts(one.p, other.p, one.atoms.dtype)
        if name == self.first:
            mean, mass = other.mean(), jnp.sum(other.weights)  # one, but for who differentiates by the weights
            bent = mass * (xx + xx.T) / 2 + jnp.diag(yx2.T @ mean)
            return Quadratic(bent, xy @ mean + mass * lx, _form(other, yy) + ly @ mean)
        mean, mass, squares = one.mean(), jnp.sum(one.weights), one.weights @ one.atoms**2
        linear = xy.T @ mean + yx2 @ squares + mass * ly
        return Quadratic(mass * (yy + yy.T) / 2, linear, _form(one, xx) + lx @ mean)

    def _pair(self, clouds: Any) -> tuple[Cloud, Cloud]:
        """The clouds of the two players, of the sizes that the parts have."""
        refuse_unless_players(self, clouds, self.players)
        one, other = clouds[self.first], clouds[self.second]
        p = [len(part) for part in (self.xx, self.xy, self.lx) if part is not None]
        p += [part.shape[1] for part in (self.yx2,) if part is not None]
        q = [len(part) for part in (self.yy, self.yx2, self.ly) if part is not None]
        q += [part.shape[1] for part in (self.xy,) if part is not None]
        for name, cloud, sizes in ((self.first, one, p), (self.second, other, q)):
            if sizes and cloud.p != sizes[0]:
                raise Refusal(
                    f"A QuadraticPayoff's parts are of points of R^{sizes[0]} of {name!r}; got a cloud in R^{cloud.p}. "
                    "Write matrices and clouds of the same sizes."
                )
        return one, other

    def _parts(self, p: int, q: int, dtype: Any) -> list[Array]:
        shapes = ((p, p), (p, q), (q, q), (q, p), (p,), (q,))
        given = (self.xx, self.xy, self.yy, self.yx2, self.lx, self.ly)
        return [
            jnp.zeros(shape, dtype) if part is None else part.astype(dtype)
            for part, shape in zip(given, shapes, strict=True)
        ]

    @classmethod
    def examples(cls):
        draw = np.random.default_rng(5)
        xx, xy, yy, yx2 = draw.normal(size=(4, 4, 4)).round(2)
        return [
            cls(xy=xy),
            cls(xx=xx, xy=xy, yy=yy, yx2=yx2, lx=xx[0], ly=yy[1]),
            cls(xy=xy, ly=yy[0], first="y", second="x"),
        ]


def _form(cloud: Cloud, matrix: Float[Array, "p p"]) -> Float[Array, ""]:
    """The mean of zᵀ matrix z."""
    return cloud.weights @ jnp.sum((cloud.atoms @ matrix) * cloud.atoms, axis=-1)
