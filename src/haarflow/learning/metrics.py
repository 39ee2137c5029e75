"""Metrics: how good outputs are in numbers that people quote. A Score measures a network by one, as a probe does."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.data import Sample
from haarflow.learning.labels import Labels, probabilities, reals, signs
from haarflow.learning.losses import named
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_particles, shapes_of
from haarflow.models.networks import Network, refuse_unless_outputs
from haarflow.models.units import Perceptron, Unit


class Metric(eqx.Module):
    """A number for outputs (m, c) and their labels (m, c), all rows together; no one descends it.

    With a `name`, it may be given by that name in quotes.
    """

    instead: ClassVar[str] = "Write 'accuracy', for example, or a function of outputs (m, c) and labels (m, c)."

    name: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, outputs: Float[Array, "m c"], ys: Float[Array, "m c"]) -> Float[Array, ""]:
        """The number."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[tuple["Metric", Float[np.ndarray, "m c"]]]:
        """Members for the laws, each with labels (m, c) that it takes."""

    def fitting(self, owner: str, labels: Labels, outputs: int | None) -> Any:
        """The labels as this metric takes them, or a refusal: real numbers, unless a member says otherwise."""
        return reals(owner, labels, outputs)

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """What else may be given for a metric: its name, or a function of all outputs and all labels."""
        if isinstance(value, str):
            return named(Metric, owner, value)
        return CustomMetric(value) if callable(value) and not isinstance(value, type | Metric) else value


class Accuracy(Metric):
    """The share of rows whose class is found: the largest of several outputs, or the sign of a single one."""

    name = "accuracy"

    def __call__(self, outputs, ys):
        if outputs.shape[1] == 1:
            return jnp.mean((outputs > 0) == (ys > 0), dtype=outputs.dtype)
        return jnp.mean(jnp.argmax(outputs, axis=1) == jnp.argmax(ys, axis=1), dtype=outputs.dtype)

    def fitting(self, owner, labels, outputs):
        return (signs if outputs == 1 else probabilities)(owner, labels, outputs)

    @classmethod
    def examples(cls):
        return [(cls(), np.eye(3)[[0, 2, 1, 1, 0]]), (cls(), np.array([[1.0], [-1.0], [1.0], [1.0], [-1.0]]))]


class R2(Metric):
    """The coefficient of determination, `1 − Σ(f − y)² / Σ(y − mean y)²`, averaged over the outputs.

    An output whose labels are all equal counts 1 where they are met exactly and 0 elsewhere.
    """

    name = "r2"

    def __call__(self, outputs, ys):
        left = jnp.sum((outputs - ys) ** 2, axis=0)
        there = jnp.sum((ys - jnp.mean(ys, axis=0, keepdims=True)) ** 2, axis=0)
        constant = (left == 0).astype(outputs.dtype)
        return jnp.mean(jnp.where(there > 0, 1 - left / jnp.where(there > 0, there, 1), constant))

    @classmethod
    def examples(cls):
        return [(cls(), np.array([[0.3, -1.2], [2.0, 0.1], [-0.4, 0.9], [1.0, 1.5], [0.2, 0.2]]))]


class MeanAbsoluteError(Metric):
    """`mean |f − y|`, over rows and outputs."""

    name = "mean-absolute-error"

    def __call__(self, outputs, ys):
        return jnp.mean(jnp.abs(outputs - ys))

    @classmethod
    def examples(cls):
        return [(cls(), ys) for _, ys in R2.examples()]


class RootMeanSquareError(Metric):
    """`√(mean (f − y)²)`, over rows and outputs."""

    name = "root-mean-square-error"

    def __call__(self, outputs, ys):
        return jnp.sqrt(jnp.mean((outputs - ys) ** 2))

    @classmethod
    def examples(cls):
        return [(cls(), ys) for _, ys in R2.examples()]


@door
class CustomMetric(Metric):
    """A user's own `function(outputs, labels) -> number`; a Score makes one of a plain function."""

    function: Callable = eqx.field(converter=by_value)

    def __call__(self, outputs, ys):
        return self.function(outputs, ys)

    @classmethod
    def examples(cls):
        return [(cls(lambda outputs, ys: jnp.max(jnp.abs(outputs - ys))), ys) for _, ys in R2.examples()]


@door
class Score(eqx.Module):
    """A metric of a network on all rows of a Sample, as a function of the cloud: what a flow takes as a probe.

    For example `flow(..., probes={"accuracy": Score(unit, test, "accuracy")})`. The labels become those of the metric
    as in a Risk: indices, class names, signs or rows of probabilities for the accuracy, real numbers for the others.
    """

    network: Network
    data: Sample
    metric: Metric

    def __init__(self, network: Network | Unit | Callable, data: Sample, metric: Metric | str | Callable):
        self.network, self.metric = cast(Network, network), cast(Metric, metric)  # what the door makes of them
        if self.network.inputs not in (None, data.xs.shape[1]):
            raise Refusal(
                f"A Score shows its network the inputs of its data; got a {self.network.title} of inputs in "
                f"R^{self.network.inputs} and data with inputs in R^{data.xs.shape[1]}. "
                f"Write a unit with inputs={data.xs.shape[1]}."
            )
        labels = Labels(data.ys, data.classes)
        ys = self.metric.fitting("A Score", labels, self.network.outputs)
        self.data = data.holding(data.xs, ys)

    def __call__(self, cloud: Cloud) -> Float[Array, ""]:
        """The metric of the network of a cloud."""
        refuse_unless_particles(self.network, cloud)
        ys = self.data.ys.astype(cloud.atoms.dtype)
        refuse_unless_outputs(self.network.__call__, cloud, self.data.xs)
        outputs = self.network(cloud, self.data.xs)
        rule = f"A metric takes outputs and labels, both {ys.shape}, to one real number"
        instead = "Write jnp.mean(...) of what it returns, and a network with as many outputs as labels."
        found = shapes_of(rule, instead, self.metric.__call__, outputs, ys)
        if outputs.shape != ys.shape or getattr(found, "shape", None) != ():
            got = f"outputs {outputs.shape}" if outputs.shape != ys.shape else f"{getattr(found, 'shape', found)}"
            raise Refusal(f"{rule}; got {got}. {instead}")
        return jnp.asarray(self.metric(outputs, ys))

    @classmethod
    def examples(cls) -> Sequence["Score"]:
        """Small members, on clouds in R^4."""
        xs = np.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1]])
        return [cls(Perceptron(2, 1, "tanh"), Sample(xs, [1, 0, 1]), "accuracy")]
