"""Data: laws of pairs (x, y) that hand out batches.

A batch depends on its key alone, so schemes that share a key share their data.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.doors import Count, NonNegativeLeaf, Place, admit, door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.epochs import refuse_unless_counted, rows_at
from haarflow.learning.labels import Labels
from haarflow.learning.losses import Loss
from haarflow.measures.actions import action_on
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.orbits import orbits
from haarflow.models.fits import refuse_unless_particles, shapes_of
from haarflow.models.networks import network
from haarflow.models.units import Dense, Unit
from haarflow.values import leaf, numbers, refuse_unless_affordable, whole

T = TypeVar("T")
Batch = tuple[Float[Array, "b d"], Float[Array, "b c"]]

_LOOK = 64  # labels that are drawn to see of which kind they are


class Data(eqx.Module):
    """A law of pairs (x, y)."""

    instead: ClassVar[str] = "Write Sample(xs, ys), for example."

    @abstractmethod
    def batch(self, key: PRNGKeyArray) -> Batch:
        """Inputs (b, d) and outputs (b, c), a function of the key alone."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Data"]:
        """Small members for the laws."""

    def at_step(self, key: PRNGKeyArray, step: Int[Array, ""]) -> "Data":
        """These data at a step of a flow, given the key of the run; for data that go through epochs or files in order.

        A flow asks at every step, and only those that override this.
        """
        return self

    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes (b, d) and (b, c) of a batch, found without drawing one."""
        rule = f"A batch of {type(self).__name__} is a pair of inputs (b, d) and outputs (b, c)"
        found = shapes_of(rule, "Write a law that returns such a pair.", self.batch, jax.random.key(0))
        shapes = [getattr(part, "shape", None) for part in found] if isinstance(found, tuple | list) else []
        match shapes:
            case [(b, d), (e, c)] if b == e and b:
                return (b, d), (e, c)
        got = " and ".join(map(str, shapes)) or type(found).__name__
        raise Refusal(f"{rule}; got {got}. For scalar outputs write ys[:, None].")

    def labelled(self, loss: Loss, outputs: int | None) -> "Data":
        """These data with labels as the loss takes them: where labels are drawn, they must be drawn so."""
        shape = self.shapes()[1]
        loss.fitting(Labels(jax.ShapeDtypeStruct(shape, float)), outputs)
        if loss.labels != "reals":
            keys = jax.random.split(jax.random.key(0), -(-_LOOK // shape[0]))
            ys = jax.vmap(lambda key: self.batch(key)[1])(keys).reshape(-1, shape[1])
            if loss.fitting(Labels(ys), outputs) is not ys:
                raise Refusal(
                    f"Labels that are drawn are drawn as the loss {loss.called} takes them; got "
                    f"{', '.join(f'{value:g}' for value in np.unique(ys)[:4])}. "
                    f"Write {loss.wanted} in the law, or take a Sample."
                )
        return self

    def one_per_orbit(self, on_x: Rep, on_y: Rep) -> "tuple[Data, Float[Array, 'm'] | None]":
        """One pair of each orbit and what the orbits weigh; None where every pair that is drawn weighs the same."""
        raise Refusal(
            "Folded data is closed at every step: a whole Sample, or an exact augmentation; got a "
            f"{type(self).__name__} that draws. Write augment(data, on_x, on_y, exact=True)."
        )


class Sample(Data):
    """A finite sample: the whole of it at every step, or `size` pairs, drawn with replacement or dealt out in epochs.

    With `replace=False` a flow sees every pair once in an epoch, in an order that depends on the flow's key and the
    epoch; where `size` does not divide the number of pairs, a batch goes on into the next epoch. Outside of a flow,
    where no step is counted, a batch is one of the first epoch.

    Inputs and labels come as lists, NumPy, JAX or pandas, a single label a row also as (m,). Labels that are class
    names become indicators, a column for each of the `classes`, which are in alphabetical order.
    """

    xs: Float[Array, "m d"]
    ys: Float[Array, "m c"]
    size: int | None = None
    replace: bool = eqx.field(default=True, static=True)
    classes: tuple[str, ...] = eqx.field(default=(), static=True)

    def __init__(self, xs: Any, ys: Any, size: Any = None, *, replace: Any = True):
        self.xs = numbers("A Sample's xs", xs)
        self.ys, self.classes = _labels(ys)
        self.size = None if size is None else whole("A batch size", size, least=1)
        if self.xs.ndim != 2 or self.ys.ndim != 2 or len(self.xs) != len(self.ys) or 0 in self.xs.shape + self.ys.shape:
            raise Refusal(
                f"A Sample holds m >= 1 inputs (m, d) and m outputs (m, c); got {self.xs.shape} and {self.ys.shape}. "
                "For scalar inputs write xs[:, None]."
            )
        self.replace = admit(Place("A Sample's replace", {}), replace, bool)
        if not replace and self.size is None:
            raise Refusal(
                "A Sample without replacement is dealt out in batches; got no size. Write size=128, for example, or "
                "leave `replace` out for the whole sample at every step."
            )
        if not replace:
            refuse_unless_counted(self.size or 1, len(self.xs))
        _refuse_unless_held(self.size or 1, self.xs.shape[1] + self.ys.shape[1])

    @door
    def batch(self, key: PRNGKeyArray):
        if self.size is None:
            return self.xs, self.ys
        rows = self._rows(key, self.size, len(self.xs))
        return self.xs[rows], self.ys[rows]

    def _rows(self, key: PRNGKeyArray, size: int, m: int) -> Int[Array, "b"]:
        if self.replace:
            return jax.random.randint(key, (size,), 0, m)
        return rows_at(key, jax.random.randint(key, (), 0, max(1, m // size)), size, m)

    def at_step(self, key, step):
        return self if self.replace or self.size is None else Dealt(self, key, step)

    def shapes(self):
        rows = self.size or len(self.xs)
        return (rows, self.xs.shape[1]), (rows, self.ys.shape[1])

    def labelled(self, loss, outputs):
        ys = loss.fitting(Labels(self.ys, self.classes), outputs)
        return self if ys is self.ys else self.holding(self.xs, ys)

    def one_per_orbit(self, on_x, on_y):
        if self.size is not None:
            return super().one_per_orbit(on_x, on_y)
        pairs = np.concatenate([_sized(self.xs), _sized(self.ys)], axis=1)
        weights, action = np.full(len(pairs), 1 / len(pairs)), action_on(on_x + on_y, pairs.shape[1])
        slack = 1e-9 if self.xs.dtype == jnp.float64 else 1e-4
        found = orbits(pairs, weights, action, owner="A Sample", tolerance=slack)
        return self.holding(self.xs[found.first], self.ys[found.first]), jnp.asarray(found.mass, self.ys.dtype)

    def holding(self, xs: Float[Array, "m d"], ys: Float[Array, "m c"]) -> "Sample":
        """The same sample with other pairs in it."""
        if not self.replace:
            refuse_unless_counted(self.size or 1, len(xs))
        return eqx.tree_at(lambda sample: (sample.xs, sample.ys), self, (xs, ys))

    @classmethod
    def examples(cls):
        xs = jnp.arange(10.0).reshape(5, 2) / 7
        return [cls(xs, jnp.sin(xs)), cls(xs, xs[:, :1], size=3), cls(xs, xs[:, 1:], size=2, replace=False)]


class Dealt(Data):
    """A Sample without replacement at one step of a flow: its batch is that of the step, whatever the key."""

    sample: Sample
    key: PRNGKeyArray
    step: Int[Array, ""]

    def batch(self, key):
        sample = self.sample
        rows = rows_at(self.key, self.step, sample.shapes()[0][0], len(sample.xs))
        return sample.xs[rows], sample.ys[rows]

    def shapes(self):
        return self.sample.shapes()

    @classmethod
    def examples(cls):
        return [cls(Sample.examples()[2], jax.random.key(1), jnp.asarray(3))]


def _sized(rows) -> Float[np.ndarray, "m k"]:
    """The rows in units of their largest entry, so that pairs coincide where both of their parts do."""
    rows = np.asarray(rows, float)
    return rows / max(np.abs(rows).max(), 1e-300)


def _labels(ys: Any) -> tuple[Array, tuple[str, ...]]:
    """Labels as an array (m, c), with the names of the classes where they came as names."""
    plain = None if isinstance(ys, jax.Array) else _array_or_none(ys)
    if plain is not None and plain.size and (plain.dtype.kind in "US" or _all_words(plain)):
        classes, index = np.unique(plain.astype(str), return_inverse=True)
        if plain.ndim != 1 and plain.shape[1:] != (1,):
            raise Refusal(
                f"A Sample's class names are one for each input; got names of shape {plain.shape}. Write one column."
            )
        refuse_unless_affordable(
            "The indicators of the classes", 8.0 * plain.size * len(classes), instead="Write fewer classes."
        )
        return jnp.asarray(np.eye(len(classes))[index.ravel()]), tuple(map(str, classes))
    found = numbers("A Sample's ys", ys)
    return found[:, None] if found.ndim == 1 else found, ()


def _array_or_none(values: Any) -> np.ndarray | None:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths: `numbers` has the sentence
        return None


def _all_words(values: np.ndarray) -> bool:
    return values.dtype == object and all(isinstance(value, str) for value in values.ravel())


def _refuse_unless_held(rows: int, columns: int):
    refuse_unless_affordable("A batch", float(min(8 * rows * columns, 10**300)), instead="Write a smaller size.")


@door
class Stream(Data):
    """One pass over a user's law: `law(key, size)` returns fresh inputs (size, d) and outputs (size, c)."""

    law: Callable = eqx.field(converter=by_value)
    size: Count

    def __check_init__(self):
        _refuse_unless_held(self.size, 2)
        (b, d), (_, c) = self.shapes()
        _refuse_unless_held(b, d + c)

    @door
    def batch(self, key: PRNGKeyArray):
        return jax.tree.map(lambda part: numbers("A batch of a Stream", part), self.law(key, self.size))

    @classmethod
    def examples(cls):
        def law(key, size):
            xs = jax.random.uniform(key, (size, 2))
            return xs, xs[:, :1] - xs[:, 1:]

        return [cls(law, 4)]


@door
class Teacher(Data):
    """One pass over x ~ N(0, scale² I) labelled by a network, with Gaussian label noise if asked."""

    unit: Unit
    cloud: Cloud
    size: Count
    scale: NonNegativeLeaf = eqx.field(default=1.0, converter=leaf, kw_only=True)
    noise: NonNegativeLeaf | None = eqx.field(default=None, converter=leaf, kw_only=True)

    def __check_init__(self):
        refuse_unless_particles(self.unit, self.cloud)
        _refuse_unless_held(self.size, self.unit.inputs + self.unit.outputs)

    @door
    def batch(self, key: PRNGKeyArray):
        inputs, labels = jax.random.split(key)
        xs = self.scale * jax.random.normal(inputs, (self.size, self.unit.inputs), self.cloud.atoms.dtype)
        ys = network(self.unit, self.cloud, xs)
        if self.noise is None:
            return xs, ys
        return xs, ys + self.noise * jax.random.normal(labels, ys.shape, ys.dtype)

    @classmethod
    def examples(cls):
        cloud = uniform(jnp.array([[1.0, 0.5, -0.3, 0.2], [0.1, -0.4, 0.8, 0.0]]))
        return [cls(Dense(2, 2), cloud, 3, scale=4.0), cls(Dense(2, 2), cloud, 2, noise=0.1)]


@door
class TwoGaussians(Data):
    """One pass over labels y = ±1, equally likely, with x ~ N(0, (1 + delta y)² I): no direction tells them apart."""

    inputs: Count
    delta: Float[Array, ""] = eqx.field(converter=leaf)
    size: Count

    def __check_init__(self):
        _refuse_unless_held(self.size, self.inputs + 1)

    @door
    def batch(self, key: PRNGKeyArray):
        labels, inputs = jax.random.split(key)
        ys = jax.random.rademacher(labels, (self.size, 1), self.delta.dtype)
        return (1 + self.delta * ys) * jax.random.normal(inputs, (self.size, self.inputs), self.delta.dtype), ys

    @classmethod
    def examples(cls):
        return [cls(3, 0.4, 5)]


def at_step(tree: T, key: PRNGKeyArray, step: Int[Array, ""]) -> T:
    """A field, or any other tree, whose data are those of a step of a flow."""

    def in_order(node) -> bool:
        return isinstance(node, Data) and type(node).at_step is not Data.at_step

    return jax.tree.map(lambda node: node.at_step(key, step) if in_order(node) else node, tree, is_leaf=in_order)


def whole_sample(owner: str, data: Data, instead: str) -> Sample:
    """The data, where they are a Sample without batches; else a sentence that ends with what to write instead."""
    if not (isinstance(data, Sample) and data.size is None):
        raise Refusal(f"{owner} over a whole Sample only; got random batches. {instead}")
    return data
