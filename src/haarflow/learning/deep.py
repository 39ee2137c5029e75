"""Risks of networks that are not linear in their cloud, such as those of several layers, and their symmetrisation."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.algebra.reps import Rep
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.data import Data, Sample, whole_sample
from haarflow.learning.losses import LOSSES, loss_named
from haarflow.learning.risks import ONE_DRAW, Functional
from haarflow.learning.symmetry import folded, moved, tables
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_cloud, shapes_of
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, Unit
from haarflow.values import numbers


@door
class Deep(Functional):
    """`E l(f_mu(X), Y)` of any `network(cloud, xs) -> outputs`; the variation is by autodiff.

    For a Residual network the velocity of a particle is, layer by layer, minus the gradient of the first variation in
    that layer's marginal. An atom without mass stays where it is.
    """

    network: Callable
    data: Data
    loss: str

    def __init__(self, network: Callable, data: Data, loss: str = "half-square"):
        loss_named(loss)
        refuse_unless_network("A Deep risk", network, "Risk(unit, data)")
        (_, d), _ = data.shapes()
        inputs, outputs = _sizes(network)
        if inputs not in (None, d):
            raise Refusal(
                f"A Deep risk shows its network the inputs of its data; got a {type(network).__name__} of inputs in "
                f"R^{inputs} and data with inputs in R^{d}. Write a network of inputs in R^{d}."
            )
        self.network, self.loss = by_value(network), loss
        self.data = data.labelled(loss, outputs)

    @property
    def dim(self):
        inner = self.network.network if isinstance(self.network, AveragedNetwork) else self.network
        return inner.dim if isinstance(inner, Residual) else None

    def __call__(self, cloud):
        refuse_unless_cloud("A Deep risk", cloud)
        sample = whole_sample("A Deep risk has an exact value", self.data, ONE_DRAW)
        xs = sample.xs.astype(cloud.atoms.dtype)
        if self.dim is None:
            shapes_of("A Deep risk takes a network(cloud, xs)", "Write one for such a cloud.", self.network, cloud, xs)
        outputs = self.network(cloud, xs)
        shape = getattr(outputs, "shape", None)
        if shape != sample.ys.shape:
            raise Refusal(
                f"A Deep risk compares the network's outputs with the labels; got outputs {shape} and labels "
                f"{sample.ys.shape}. Write a network that returns (b, c) for inputs (b, d)."
            )
        return jnp.mean(jax.vmap(LOSSES[self.loss])(outputs, sample.ys.astype(outputs.dtype)))

    def sample(self, key):
        return Deep(self.network, Sample(*self.data.batch(key)), self.loss)

    @classmethod
    def examples(cls):
        xs = jnp.array([[0.3], [-1.0], [0.7]])
        model = Residual((Dense(1, 1, "tanh"), Dense(1, 1, "softplus"), Dense(1, 2, "tanh")))
        return [
            cls(model, Sample(xs, jnp.concatenate([jnp.sin(xs), xs], axis=1)), loss)
            for loss in ("square", "pseudo-huber")
        ]


class AveragedNetwork(eqx.Module):
    """FA for any network: `mean_g on_y(g)^-1 network(cloud, on_x(g) x)`; `average_network` makes one."""

    network: Callable
    on_x: Float[Array, "g d d"]
    on_y: Float[Array, "g c c"]

    def __call__(self, cloud: Cloud, xs: Any) -> Float[Array, "b c"]:
        """The averaged outputs on a batch of inputs (b, d)."""
        xs = numbers("The input of an averaged network", xs)
        _refuse_unless_moved("on_x", self.on_x.shape[1], "inputs", xs.shape)
        outputs = numbers("The output of an averaged network", self.network(cloud, moved(self.on_x, xs)))
        _refuse_unless_moved("on_y", self.on_y.shape[1], "outputs", outputs.shape)
        if outputs.shape[0] != len(self.on_x) * xs.shape[0]:
            raise Refusal(
                "An averaged network gives a row of outputs for each row of inputs; got "
                f"{outputs.shape[0]} rows for {len(self.on_x) * xs.shape[0]}. Write a network that keeps the rows."
            )
        return folded(self.on_y, outputs)


def _refuse_unless_moved(name: str, size: int, what: str, shape: tuple):
    if len(shape) != 2 or shape[1] != size:
        raise Refusal(
            f"An averaged network needs representations of the sizes of its inputs and outputs; got {name} of size "
            f"{size} and {what} of {f'size {shape[1]}' if len(shape) == 2 else f'shape {shape}'}. "
            f"For {what} that stay write {name}=trivial(group, {shape[-1] if shape else 1}), and one of them in a row."
        )


@door
def average_network(network: Callable, on_x: Rep, on_y: Rep, *, elements=None) -> AveragedNetwork:
    """FA: `Q_G` of any `network(cloud, xs)`, over the group or over the `elements` that stand for an infinite one."""
    refuse_unless_network("average_network", network, "average(unit, on_x, on_y)")
    for name, rep, what, size in zip(
        ("on_x", "on_y"), (on_x, on_y), ("inputs", "outputs"), _sizes(network), strict=True
    ):
        _refuse_unless_moved(name, rep.dim, what, (1, rep.dim if size is None else size))
    return AveragedNetwork(network, *tables("average_network", on_x, on_y, elements))


def _sizes(network: Callable) -> tuple[int | None, int | None]:
    """The sizes of inputs and outputs, of networks that say them."""
    if isinstance(network, Residual):
        return network.inputs, network.outputs
    if isinstance(network, AveragedNetwork):
        return network.on_x.shape[1], network.on_y.shape[1]
    return None, None


def refuse_unless_network(owner: str, network: object, instead: str):
    """A sentence, where something else stands in the place of a function of a cloud and of inputs."""
    if isinstance(network, Unit | Functional) or not callable(network):
        raise Refusal(
            f"{owner} takes a network(cloud, xs), such as a Residual; got {type(network).__name__}. "
            f"For the average of one unit write {instead}."
        )
