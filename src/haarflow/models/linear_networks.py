"""Deep linear networks: products of matrices, all of them free, or each of them moving with a finite group.

As functions they are inner products `<beta, x>`, whatever their depth; as parametrisations they differ, and so does
where gradient descent takes them. One particle is a whole network, so that a Risk scores it and a flow trains it.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow.algebra.acting import as_action
from haarflow.algebra.base import Finite, finite
from haarflow.algebra.cache import remembered
from haarflow.algebra.groups import Cyclic, Dihedral, Signs
from haarflow.algebra.reps import Rep, TrivialRep, natural_rep, trivial_rep
from haarflow.algebra.tables import readonly
from haarflow.algebra.user_reps import image_rep
from haarflow.doors import Count, Positive, door
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.units import Unit
from haarflow.values import refuse_unless_affordable

Coordinates = Literal["isometric", "orbit sums"]


class LinearNetwork(Unit):
    """A product of layers `M_L ... M_1 x` with one output: one particle is one network."""

    if TYPE_CHECKING:  # every member has these, as fields or as properties
        depth: ClassVar[int]

    @property
    def outputs(self):
        return 1

    @property
    @abstractmethod
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the free parameters of each layer, from the first to the last."""

    @abstractmethod
    def matrices(self, theta: Float[Array, "p"]) -> list[Float[Array, "_ _"]]:
        """The layers as matrices, from the first, which takes an input (d,), to the last, of one row."""

    @property
    def dim(self):
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def parts(self, theta: Float[Array, "p"]) -> list[Float[Array, "..."]]:
        """The free parameters of each layer, in their shapes."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        cuts = np.split(np.arange(self.dim), np.cumsum(sizes)[:-1])
        return [theta[cut[0] : cut[-1] + 1].reshape(shape) for cut, shape in zip(cuts, self.shapes, strict=True)]

    def vector(self, theta: Float[Array, "p"]) -> Float[Array, "d"]:
        """The vector beta that the network is the inner product with: `unit(theta, x) = <beta, x>`."""
        *layers, last = self.matrices(theta)
        row = last[0]
        for layer in reversed(layers):
            row = row @ layer
        return row

    def __call__(self, theta, x):
        for layer in self.matrices(theta):
            x = layer @ x
        return x

    def batched(self, thetas, xs):
        return (jax.vmap(self.vector)(thetas) @ xs.T)[:, None, :]

    @door
    def start(self, key: PRNGKeyArray, scale: Positive = 1.0) -> Cloud:
        """A cloud of one particle: every layer with independent normal entries, of size about `scale` as a map."""
        keys = jax.random.split(key, len(self.shapes))
        drawn = [jax.random.normal(one, shape) for one, shape in zip(keys, self.shapes, strict=True)]
        parts = [layer.ravel() / np.sqrt(max(layer.shape)) for layer in drawn]
        return uniform(scale * jnp.concatenate(parts)[None])


@door
class DeepLinear(LinearNetwork):
    """`v W_{L-1} ... W_1 x`: the fully connected linear network of a depth L, its inner layers of one width.

    For example `DeepLinear(64, width=8, depth=3)`; depth 1 is the linear classifier `<w, x>` itself.
    """

    inputs: Count
    width: Count = eqx.field(default=4, kw_only=True)
    depth: Count = eqx.field(default=2, kw_only=True)

    def __check_init__(self):
        _refuse_unless_affordable(self, self.depth, self.inputs * self.width + self.width**2 * max(self.depth - 2, 0))

    @property
    def shapes(self):
        if self.depth == 1:
            return ((1, self.inputs),)
        inner = ((self.width, self.width),) * (self.depth - 2)
        return ((self.width, self.inputs), *inner, (1, self.width))

    def matrices(self, theta):
        return self.parts(theta)

    def joint(self, on_x, on_y):
        first = trivial_rep(on_x.group, self.shapes[0][0]) * on_x
        rest = self.dim - first.dim
        return first + trivial_rep(on_x.group, rest) if rest else first

    @classmethod
    def examples(cls):
        shift, flips = natural_rep(Cyclic(3)), natural_rep(Signs(2))
        return [
            (cls(3, width=2, depth=3), shift, trivial_rep(shift.group)),
            (cls(2, depth=1), flips, trivial_rep(flips.group)),
        ]


@door
class Steerable(LinearNetwork):
    """A linear network whose layers move with a finite group, and whose output does not: invariant for all parameters.

    The first layer lifts to the group, `h[g, k] = <rho(g) w_k, x> / √|G|`, those between are group convolutions
    `h'[g, k] = Σ W[k, j, g⁻¹ h] h[h, j]`, and the last sums, `Σ v_k h[g, k] / √|G|`. These coordinates are isometric:
    the length of a layer's parameters is that of the layer as a map, up to a number of the layer. With coordinates
    "orbit sums" the first layer has instead one weight for each orbit of coordinates, which multiplies the sum over the
    orbit: the same functions, and another length. For example
    `Steerable(image_rep("rotations", 8, 8), channels=4, depth=3)`.
    """

    rep: Rep = eqx.field(static=True)
    channels: Count = eqx.field(default=4, kw_only=True)
    depth: Count = eqx.field(default=2, kw_only=True)
    coordinates: Coordinates = eqx.field(default="isometric", kw_only=True)

    def __check_init__(self):
        order = finite("A Steerable network", self.rep.group, "Write a finite subgroup of it, such as Cyclic(8).").order
        width = order * self.channels
        _refuse_unless_affordable(self, self.depth, width * self.rep.dim + width**2 * max(self.depth - 2, 0) + order**2)
        if self.coordinates == "orbit sums":
            _orbit_sums(self.rep)

    @property
    def inputs(self):
        return self.rep.dim

    @property
    def group(self) -> Finite:
        """The finite group under which the network is invariant."""
        return finite("A Steerable network", self.rep.group, "Write a finite group.")

    @property
    def shapes(self):
        first = self.rep.dim if self.coordinates == "isometric" else len(_orbit_sums(self.rep))
        if self.depth == 1:
            return ((1, first),)
        inner = ((self.channels, self.channels, self.group.order),) * (self.depth - 2)
        return ((self.channels, first), *inner, (1, self.channels))

    def matrices(self, theta):
        first, *rest = self.parts(theta)
        inner, last = (rest[:-1], rest[-1]) if rest else ([], jnp.ones((1, 1), theta.dtype))
        order, table = self.group.order, _quotients(self.group)
        each = jnp.full((1, order, 1), 1 / np.sqrt(order), theta.dtype)
        convolutions = [_convolution(kernel, table) for kernel in inner]
        return [self._lifted(first), *convolutions, (each * last[:, None, :]).reshape(1, -1)]

    def _lifted(self, first):
        """The rows rho(g) w_k / √|G|, those of one element beside each other."""
        if self.coordinates == "isometric":
            rows = self.rep.action().apply(first)
        else:
            rows = jnp.broadcast_to(first @ _orbit_sums(self.rep), (self.group.order, len(first), self.rep.dim))
        return jnp.asarray(rows, first.dtype).reshape(-1, self.rep.dim) / np.sqrt(self.group.order)

    def joint(self, on_x, on_y):
        return trivial_rep(on_x.group, self.dim)

    def proves_equivariant(self, on_x, on_y):
        return on_x == self.rep and isinstance(on_y, TrivialRep)

    @classmethod
    def examples(cls):
        square, turns = image_rep(Dihedral(4), 3, 3), natural_rep(Cyclic(3)) + trivial_rep(Cyclic(3))
        return [
            (cls(square, channels=2, depth=3), square, trivial_rep(square.group)),
            (cls(turns, channels=1, depth=1), turns, trivial_rep(turns.group)),
            (cls(square, channels=2, coordinates="orbit sums"), square, trivial_rep(square.group)),
        ]


def _convolution(kernel: Float[Array, "k j u"], table: Int[np.ndarray, "g h"]) -> Float[Array, "_ _"]:
    """The matrix ((g, k), (h, j)) with the entries kernel[k, j, g⁻¹ h]."""
    order, width = len(table), len(kernel)
    return jnp.transpose(kernel[:, :, table], (2, 0, 3, 1)).reshape(order * width, order * width)


@remembered
def _quotients(group: Finite) -> Int[np.ndarray, "g h"]:
    """The position of g⁻¹ h among the elements, for all g and h."""
    elements = group.elements()
    rows = [np.asarray(group.places(as_action(g.T @ elements)), np.int64) for g in elements]
    return readonly(np.stack(rows))


@remembered
def _orbit_sums(rep: Rep) -> Float[np.ndarray, "m d"]:
    """One row for each orbit of coordinates, with ones (or signs) where the orbit is."""
    labels, signs = rep.orbits()
    rows = np.zeros((int(labels.max(initial=-1)) + 1, rep.dim))
    alive = np.flatnonzero(labels >= 0)
    rows[labels[alive], alive] = signs[alive]
    if not len(rows):
        raise Refusal(f"Orbit sums are those of coordinates that a group permutes; got {rep}, which fixes nothing.")
    return readonly(rows)


def _refuse_unless_affordable(unit: Unit, depth: int, size: int) -> None:
    name = type(unit).__name__
    if depth > 100:
        raise Refusal(f"A {name} is a product of 100 layers at most; got depth={depth}. Write a smaller depth.")
    owner = f"A {name} of depth {depth}"
    refuse_unless_affordable(owner, 8.0 * size, instead="Write fewer channels, a smaller width or a smaller group.")
