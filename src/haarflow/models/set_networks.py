"""Networks on sets: `f(mu) = Σ_j w_j σ(<v_j, mean_k σ(U (x_k, 1))>)` over the points x_k of a set.

A set is one row of numbers, (mass, x) point after point: mass 1 for a point, 0 for the padding that makes sets of
different sizes rows of one length. So a set is a measure, and the mean over its points knows neither their order nor
how often the whole set is repeated. Masses between are welcome: a histogram, or the grey values of pixels.

One neuron of the outer layer is a particle, and a network is a cloud of them. What is trained decides the space that
the network lives in: all layers (S1), the outer two (S2, the first layer frozen), or the last one (S3).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.base import Group
from haarflow.algebra.groups import Cyclic, Signs, Symmetric
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.user_reps import point_set
from haarflow.doors import Count, door
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.activations import activation
from haarflow.models.fits import refuse_unless_particles
from haarflow.models.units import Unit
from haarflow.values import numbers, refuse_unless_affordable

Layers = tuple[Float[Array, "n c"], Float[Array, "n h"], Float[Array, "n h e"]]


@door
def pack_sets(sets: Sequence[Any], *, points: Count | None = None) -> Float[Array, "b d"]:
    """Sets of different sizes, arrays (m_i, q), as rows of one length d = m (q + 1) that the units on sets take.

    Each point is (mass, x): mass 1 where there is a point, and zeros behind the last one. m is the size of the largest
    set, or `points`. For example `Sample(pack_sets([np.ones((3, 2)), np.zeros((5, 2))]), [1.0, 0.0])`, for a unit
    `SetNeuron(points=5, columns=2, hidden=8)`.
    """
    tables = [_table(i, one) for i, one in enumerate(sets)]
    if not tables:
        raise Refusal("pack_sets takes one set or more; got none. Write a list of arrays (m, q).")
    widths = sorted({table.shape[1] for table in tables})
    if len(widths) > 1:
        raise Refusal(
            f"The points of all sets have one number of features q; got sets with {' and '.join(map(str, widths))}. "
            "Write arrays (m, q) with the same q."
        )
    most = max(map(len, tables))
    if points is not None and points < most:
        raise Refusal(
            f"pack_sets makes room for the largest set; got points={points} and a set of {most}. "
            f"Write points={most}, or leave it out."
        )
    m, q = points or most, widths[0]
    refuse_unless_affordable(
        f"{len(tables)} sets of {m} points in R^{q}", 8.0 * len(tables) * m * (q + 1), instead="Write smaller sets."
    )
    packed = np.zeros((len(tables), m, q + 1))
    for row, table in zip(packed, tables, strict=True):
        row[: len(table), 0], row[: len(table), 1:] = 1, table
    return jnp.asarray(packed.reshape(len(tables), -1))


def _table(i: int, one: Any) -> Float[np.ndarray, "m q"]:
    """One set as an array (m, q), or a sentence that names it."""
    found = numbers(f"Set {i} of pack_sets", one, numpy=True)
    if found.ndim != 2 or 0 in found.shape:
        shape = f"the shape {found.shape}"
        raise Refusal(
            f"A set is an array (m, q) of m >= 1 points with q >= 1 features; got {shape} for set {i}. "
            "Leave empty sets out, and for points on a line write xs[:, None]."
        )
    return found


class SetUnit(Unit):
    """A neuron of the outer layer: `w σ(<v, mean_k σ(U (x_k, 1))>)`, on sets of at most `points` points in R^q."""

    if TYPE_CHECKING:  # every member has these, as fields or as properties
        points: ClassVar[int]
        columns: ClassVar[int]
        hidden: ClassVar[int]
        activation: ClassVar[str]

    @abstractmethod
    def layers(self, thetas: Float[Array, "n p"]) -> Layers:
        """w (n, c), v (n, h) and U (n, h, q + 1) of n particles; the last column of U is the bias."""

    @property
    def inputs(self):
        return self.points * (self.columns + 1)

    def with_points(self, points: int):
        """The same unit for sets of at most so many points; its particles stay what they are."""
        return replace(self, points=points)

    def pooled(self, first: Float[Array, "r e"], xs: Float[Array, "b d"]) -> Float[Array, "r b"]:
        """The mean of each first-layer neuron over the points of each set."""
        table = xs.reshape(-1, self.points, self.columns + 1)
        ends = jnp.concatenate([table[..., 1:], jnp.ones_like(table[..., :1])], axis=-1)
        heard = activation(self.activation)(jnp.einsum("rq,bmq->rbm", first, ends))
        return jnp.einsum("rbm,bm->rb", heard, self.shares(jnp.abs(table[..., 0])))

    def shares(self, masses: Float[Array, "b m"]) -> Float[Array, "b m"]:
        """What each point weighs in the mean over its set."""
        total = jnp.sum(masses, axis=1, keepdims=True)
        return masses / jnp.where(total > 0, total, 1)

    def __call__(self, theta, x):
        return self.batched(theta[None], x[None])[0, :, 0]

    def joint(self, on_x, on_y):
        return on_y + trivial_rep(on_x.group, self.dim - self.outputs)

    def permuted(self, group: Group) -> tuple["SetUnit", Rep, Rep]:
        """This unit with a group of permutations of the points, and outputs that stay: an example for the laws."""
        return self, point_set(group, self.columns + 1), trivial_rep(group, self.outputs)


@door
class SetNeuron(SetUnit):
    """S1: `w σ(<v, mean_k σ(U (x_k, 1))>)` with all layers in the particle: theta is (w (c), v (h), U (h × (q + 1))).

    For example `SetNeuron(points=5, columns=2, hidden=8)`, for sets of at most five points of the plane. A network in
    which all outer neurons share one first layer is the cloud whose particles have the same U.
    """

    points: Count
    columns: Count
    hidden: Count
    outputs: Count = 1
    activation: str = "relu"

    def __check_init__(self):
        activation(self.activation)

    @property
    def dim(self):
        return self.outputs + self.hidden * (self.columns + 2)

    def layers(self, thetas):
        c, h = self.outputs, self.hidden
        return thetas[:, :c], thetas[:, c : c + h], thetas[:, c + h :].reshape(-1, h, self.columns + 1)

    def batched(self, thetas, xs):
        w, v, first = self.layers(thetas)
        pooled = self.pooled(first.reshape(-1, self.columns + 1), xs).reshape(*v.shape, -1)
        return w[:, :, None] * activation(self.activation)(jnp.einsum("nh,nhb->nb", v, pooled))[:, None]

    @classmethod
    def examples(cls):
        return [cls(2, 1, 1).permuted(Cyclic(2)), cls(3, 2, 2, 2, "tanh").permuted(Symmetric(3))]


@door
class FrozenSetNeuron(SetUnit):
    """S2: `w σ(<v, mean_k σ(U (x_k, 1))>)` with a first layer U that all particles share and nothing trains.

    `first` is U (h, q + 1), biases last; theta is (w (c), v (h)). `freeze_layers(field, unit, 2)` freezes v too: S3.
    """

    first: Float[Array, "h e"] = eqx.field(converter=jnp.asarray)
    points: Count
    outputs: Count = 1
    activation: str = "relu"

    def __check_init__(self):
        activation(self.activation)
        if self.first.shape[0] < 1 or self.first.shape[1] < 2:
            raise Refusal(
                f"The first layer of a FrozenSetNeuron is (h, q + 1), h >= 1, with q >= 1 features and a bias; got "
                f"{self.first.shape}. Write draw_layer(key, hidden, columns)."
            )

    @property
    def hidden(self):
        return self.first.shape[0]

    @property
    def columns(self):
        return self.first.shape[1] - 1

    @property
    def dim(self):
        return self.outputs + self.hidden

    def layers(self, thetas):
        w, v = thetas[:, : self.outputs], thetas[:, self.outputs :]
        return w, v, jnp.broadcast_to(self.first.astype(thetas.dtype), (len(thetas), *self.first.shape))

    def batched(self, thetas, xs):
        w, v = thetas[:, : self.outputs], thetas[:, self.outputs :]
        hidden = activation(self.activation)(v @ self.pooled(self.first.astype(thetas.dtype), xs))
        return w[:, :, None] * hidden[:, None]

    @classmethod
    def examples(cls):
        first = np.array([[0.5, -1.0, 0.25], [1.0, 0.75, -0.5], [-0.25, 0.5, 1.0]])
        return [cls(first, 3).permuted(Symmetric(3)), cls(first[:, 1:], 2, 2, "tanh").permuted(Cyclic(2))]


@door
def draw_layer(key: PRNGKeyArray, hidden: Count, columns: Count) -> Float[Array, "h e"]:
    """A random first layer (h, q + 1), rows uniform on the unit sphere: what S2 and S3 freeze.

    For example `FrozenSetNeuron(draw_layer(jax.random.key(0), 100, 2), points=5)`.
    """
    refuse_unless_affordable(
        f"A layer of {hidden} neurons on {columns} features", 8.0 * hidden * (columns + 1), instead="Write fewer."
    )
    return _directions(key, (hidden, columns + 1))


@door
def draw_neurons(key: PRNGKeyArray, unit: SetUnit, n: Count) -> Cloud:
    """A uniform cloud of n random particles of a unit on sets, every one of norm about 1: where training starts.

    w has independent normal entries, and v √h and the rows of U are uniform on unit spheres. All particles of a
    SetNeuron have the same U, so that S1 starts from a network of the kind that S2 freezes.
    """
    refuse_unless_affordable(f"A cloud of {n} particles in R^{unit.dim}", 8.0 * n * unit.dim, instead="Write fewer.")
    last, outer, inner = jax.random.split(key, 3)
    parts = [jax.random.normal(last, (n, unit.outputs)), _directions(outer, (n, unit.hidden)) / np.sqrt(unit.hidden)]
    if unit.dim > unit.outputs + unit.hidden:
        first = _directions(inner, (unit.hidden, unit.columns + 1)).ravel()
        parts.append(jnp.broadcast_to(first, (n, len(first))))
    return uniform(jnp.concatenate(parts, axis=1))


def _directions(key, shape):
    drawn = jax.random.normal(key, shape)
    return drawn / jnp.linalg.norm(drawn, axis=-1, keepdims=True)


Norm = Literal["S1", "S2", "S3"]


@door
def set_norm(unit: SetUnit, cloud: Cloud, norm: Norm = "S1") -> Float[Array, ""]:
    """The norm of a network on sets in one of three spaces, S1 ≤ S2 ≤ S3; for ReLU it is that of the function space.

    S1 is `∫ |w| Σ_k |v_k| |U_k| dmu`, S2 `∫ |w| |v| |U| dmu`, and S3 `(∫ (|w| |v| |U|)² dmu)^½`. With frozen layers
    of unit norm, |U_k| = 1 and |v| = 1/√h, S2 is `Σ_j |w_j| √h |v_j|` and S3 is `√n |w|` in the weights w_j/n of the
    sum. Scaling one layer up and the next one down changes nothing.
    """
    refuse_unless_particles(unit, cloud)
    return measured(unit, cloud, norm)


def measured(unit: SetUnit, cloud: Cloud, norm: str) -> Float[Array, ""]:
    """The norm without questions, with a gradient everywhere: zero in the layers that vanish."""
    w, v, first = unit.layers(cloud.atoms)
    if norm == "S1":
        return cloud.weights @ (_length(w) * jnp.sum(jnp.abs(v) * _length(first), axis=1))
    sizes = _length(w) * _length(v) * _length(first.reshape(len(first), -1))
    if norm == "S2":
        return cloud.weights @ sizes
    return _root(cloud.weights @ sizes**2)


def _length(rows):
    return _root(jnp.sum(rows**2, axis=-1))


def _root(squares):
    """√, with slope zero at zero: the double `where` keeps infinity out of the gradient."""
    there = squares > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, squares, 1)), 0)


def trained_layers(unit: SetUnit, frozen: int) -> Rep:
    """A representation whose fixed vectors are the particles' coordinates that stay free: a sign turns the others."""
    free = unit.outputs + (unit.hidden if frozen < 2 else 0)
    turned = natural_rep(Signs(1))
    still = trivial_rep(turned.group, free)
    return still if free == unit.dim else still + turned * trivial_rep(turned.group, unit.dim - free)
