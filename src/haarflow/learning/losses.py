"""Losses: what an output costs against a label. A loss is a short class, its name in quotes, or a plain function."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.annotations import kind_of
from haarflow.doors import Advised, PositiveLeaf, door
from haarflow.errors import Refusal, one_of
from haarflow.identity import by_value
from haarflow.learning.labels import RULES, WORDS, Labels
from haarflow.models.fits import shapes_of
from haarflow.values import leaf

T = TypeVar("T")
LabelKind = Literal["reals", "signs", "probabilities"]


class Loss(eqx.Module):
    """What one output f (c,) costs against one label y (c,): a number, differentiable in f.

    A member says which `labels` it takes; a Risk brings the labels that people have into that form, or refuses them.
    With a `name`, it may be given by that name in quotes.
    """

    instead: ClassVar[str] = "Write 'half-square', for example, or a function of an output and a label."

    name: ClassVar[str] = ""
    """The short name; a loss without one is called after its class."""

    labels: ClassVar[LabelKind] = "reals"
    """As many real numbers as outputs; a sign ±1 for each output; or a probability for each class."""

    convex: ClassVar[bool] = False
    """Whether it claims to be convex in f; then the risk of a mean of units is convex in the law."""

    square: ClassVar[float | None] = None
    """The number k, where the loss is k |f − y|²: such risks are quadratic in the weights of a cloud."""

    @abstractmethod
    def __call__(self, f: Float[Array, "c"], y: Float[Array, "c"]) -> Float[Array, ""]:
        """The cost."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[tuple["Loss", Float[np.ndarray, "m c"]]]:
        """Members for the laws, each with labels (m, c) that it takes."""

    @property
    def called(self) -> str:
        """What it is called in a sentence, in quotes."""
        return repr(self.name or type(self).__name__)

    def fitting(self, labels: Labels, outputs: int | None) -> Any:
        """The labels (m, c) as this loss takes them, for so many outputs if that is known; or a refusal."""
        owner = f"The loss {self.called}"
        ys = RULES[one_of("The labels of a loss", self.labels, RULES)](owner, labels, outputs)
        rule = f"{owner} takes an output and a label, each of {ys.shape[1]} numbers, to one real number"
        row, instead = jax.ShapeDtypeStruct(ys.shape[1:], jnp.zeros(()).dtype), "Write jnp.sum(...) of what it returns."
        found = shapes_of(rule, instead, self.__call__, row, row)
        if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
            got = f"{found.shape} of {found.dtype}" if hasattr(found, "shape") else kind_of(found)
            raise Refusal(f"{rule}; got {got}. {instead}")
        return ys

    @property
    def wanted(self) -> str:
        """The labels that it takes, in words."""
        return WORDS[self.labels]

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """What else may be given for a loss: its name, or a function of an output and a label."""
        if isinstance(value, Loss):
            return value
        if isinstance(value, str):
            return named(Loss, owner, value)
        return CustomLoss(value) if callable(value) and not isinstance(value, type) else value


def by_name(kind: type[T]) -> dict[str, type[T]]:
    """The classes of a kind that have a `name`, by their names: the library's own and those that users have written."""
    found, todo = {}, [kind]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if isinstance(cls.__dict__.get("name"), str) and cls.__dict__["name"]:
            found[cls.__dict__["name"]] = cls
    return dict(sorted(found.items()))


def named(kind: type[T], owner: str, name: str) -> T:
    """The member of a kind that has this name; the refusal lists them all."""
    known: dict[str, Any] = dict(by_name(kind))
    if name not in known:
        raise Advised(f"{owner} is one of {', '.join(known)}, or a function; got {name!r}. Write one of these.")
    return known[name]()


def _reals() -> Float[np.ndarray, "m c"]:
    return np.array([[0.3, -1.2], [2.0, 0.1], [-0.4, 0.9]])


def _signs() -> Float[np.ndarray, "m c"]:
    return np.array([[1.0, -1.0], [-1.0, -1.0], [1.0, 1.0]])


class HalfSquare(Loss):
    """`|f − y|²/2`, the default: the conventions of this library are written for it."""

    name, convex, square = "half-square", True, 0.5

    def __call__(self, f, y):
        return jnp.sum((f - y) ** 2) / 2

    @classmethod
    def examples(cls):
        return [(cls(), _reals())]


HALF_SQUARE = HalfSquare()


class Square(Loss):
    """`|f − y|²`."""

    name, convex, square = "square", True, 1.0

    def __call__(self, f, y):
        return jnp.sum((f - y) ** 2)

    @classmethod
    def examples(cls):
        return [(cls(), _reals())]


class Absolute(Loss):
    """`Σ |f − y|`, with the slope zero where f is y."""

    name, convex = "absolute", True

    def __call__(self, f, y):
        return jnp.sum(jnp.abs(f - y))

    @classmethod
    def examples(cls):
        return [(cls(), _reals())]


@door
class Huber(Loss):
    """`Σ e²/2` where `|e| <= delta`, and `delta (|e| − delta/2)` beyond, for e = f − y."""

    delta: PositiveLeaf = eqx.field(default=1.0, converter=leaf)

    name, convex = "huber", True

    def __call__(self, f, y):
        size = jnp.abs(f - y)
        near = jnp.minimum(size, self.delta)
        return jnp.sum(near * (size - near / 2))

    @classmethod
    def examples(cls):
        return [(cls(), _reals()), (cls(0.3), _reals())]


@door
class PseudoHuber(Loss):
    """`Σ delta² (√(1 + (e/delta)²) − 1)` for e = f − y: a square near 0, an absolute value far away, smooth between."""

    delta: PositiveLeaf = eqx.field(default=1.0, converter=leaf)

    name, convex = "pseudo-huber", True

    def __call__(self, f, y):
        error = f - y
        # delta² (√(1 + (e/delta)²) − 1) without the difference of nearly equal numbers, and without overflow
        return jnp.sum(error**2 * (self.delta / (jnp.hypot(self.delta, error) + self.delta)))

    @classmethod
    def examples(cls):
        return [(cls(), _reals()), (cls(0.4), _reals())]


class Logistic(Loss):
    """`Σ log(1 + e^{−yf})` for labels ±1."""

    name, labels, convex = "logistic", "signs", True

    def __call__(self, f, y):
        return jnp.sum(jax.nn.softplus(-y * f))

    @classmethod
    def examples(cls):
        return [(cls(), _signs())]


class Exponential(Loss):
    """`Σ e^{−yf}` for labels ±1."""

    name, labels, convex = "exponential", "signs", True

    def __call__(self, f, y):
        return jnp.sum(jnp.exp(-y * f))

    @classmethod
    def examples(cls):
        return [(cls(), _signs())]


class Hinge(Loss):
    """`Σ max(0, 1 − yf)` for labels ±1, with the slope zero at the corner."""

    name, labels, convex = "hinge", "signs", True

    def __call__(self, f, y):
        return jnp.sum(jax.nn.relu(1 - y * f))

    @classmethod
    def examples(cls):
        return [(cls(), _signs())]


class CrossEntropy(Loss):
    """`−Σ y log softmax(f)`, an output for each class."""

    name, labels, convex = "cross-entropy", "probabilities", True

    def __call__(self, f, y):
        return -jnp.sum(y * jax.nn.log_softmax(f))

    @classmethod
    def examples(cls):
        return [(cls(), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.5, 0.3]]))]


@door
class CustomLoss(Loss):
    """A user's own `function(output, label) -> number` on real labels; a Risk makes one of a plain function."""

    function: Callable = eqx.field(converter=by_value)

    @property
    def called(self):
        return repr(getattr(self.function, "__name__", type(self.function).__name__))

    def __call__(self, f, y):
        return self.function(f, y)

    @classmethod
    def examples(cls):
        return [(cls(lambda f, y: jnp.sum(jnp.cosh(f - y) - 1)), _reals())]
