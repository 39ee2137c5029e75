"""Risks of networks that are not linear in their cloud, such as those of several layers, and their symmetrisation."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.algebra.reps import Rep
from haarflow.errors import Refusal, one_of
from haarflow.learning.data import Data, Sample, whole_sample
from haarflow.learning.risks import LOSSES, ONE_DRAW, Functional
from haarflow.learning.symmetry import folded, moved, tables
from haarflow.measures.clouds import Cloud
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, Unit


class Deep(Functional):
    """`E l(f_mu(X), Y)` of any `network(cloud, xs) -> outputs`; the variation is by autodiff.

    For a Residual network the velocity of a particle is, layer by layer, minus the gradient of the first variation in
    that layer's marginal. An atom without mass stays where it is.
    """

    network: Callable
    data: Data
    loss: str = "half-square"

    def __check_init__(self):
        one_of("A loss", self.loss, LOSSES)
        refuse_unless_network("A Deep risk", self.network, "Risk(unit, data)")

    def __call__(self, cloud):
        sample = whole_sample("A Deep risk has an exact value", self.data, ONE_DRAW)
        outputs = self.network(cloud, sample.xs)
        if outputs.shape != sample.ys.shape:
            raise Refusal(
                f"A Deep risk compares the network's outputs with the labels; got outputs {outputs.shape} and labels "
                f"{sample.ys.shape}. Write a network that returns (b, c) for inputs (b, d)."
            )
        return jnp.mean(jax.vmap(LOSSES[self.loss])(outputs, sample.ys))

    def sample(self, key):
        return Deep(self.network, Sample(*self.data.batch(key)), self.loss)  # pyright: ignore[reportArgumentType]

    @classmethod
    def examples(cls):
        xs = jnp.array([[0.3], [-1.0], [0.7]])
        model = Residual((Dense(1, 1, "tanh"), Dense(1, 1, "softplus"), Dense(1, 2, "tanh")))
        return [
            cls(model, Sample(xs, jnp.concatenate([jnp.sin(xs), xs], axis=1)), loss) for loss in ("square", "absolute")
        ]


class AveragedNetwork(eqx.Module):
    """FA for any network: `mean_g on_y(g)^-1 network(cloud, on_x(g) x)`; `average_network` makes one."""

    network: Callable
    on_x: Float[Array, "g d d"]
    on_y: Float[Array, "g c c"]

    def __call__(self, cloud: Cloud, xs: Float[Array, "b d"]) -> Float[Array, "b c"]:
        """The averaged outputs on a batch."""
        self._fit("on_x", self.on_x, "inputs", xs)
        outputs = self.network(cloud, moved(self.on_x, xs))
        self._fit("on_y", self.on_y, "outputs", outputs)
        return folded(self.on_y, outputs)

    def _fit(self, name: str, table: Array, what: str, rows: Array):
        if rows.shape[1] != table.shape[1]:
            raise Refusal(
                f"An averaged network needs representations of the sizes of its inputs and outputs; got {name} of size "
                f"{table.shape[1]} and {what} of size {rows.shape[1]}. "
                f"For {what} that stay write {name}=trivial(group, {rows.shape[1]})."
            )


def average_network(network: Callable, on_x: Rep, on_y: Rep, *, elements=None) -> AveragedNetwork:
    """FA: `Q_G` of any `network(cloud, xs)`, over the group or over the `elements` that stand for an infinite one."""
    refuse_unless_network("average_network", network, "average(unit, on_x, on_y)")
    return AveragedNetwork(network, *tables("average_network", on_x, on_y, elements))


def refuse_unless_network(owner: str, network: object, instead: str):
    """A sentence, where something else stands in the place of a function of a cloud and of inputs."""
    if isinstance(network, Unit) or not callable(network):
        raise Refusal(
            f"{owner} takes a network(cloud, xs), such as a Residual; got {type(network).__name__}. "
            f"For the average of one unit write {instead}."
        )
