"""Residual networks of several mean-field layers: each layer is an average over the particles of one cloud."""

from itertools import accumulate
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from haarflow.algebra.groups import Symmetric
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import inputs_for, refuse_unless_cloud
from haarflow.models.networks import Network, network
from haarflow.models.units import Dense, Perceptron, Unit


@door
class Residual(Network):
    """`h <- h + ∫ phi_l(h, theta_l) dmu` layer by layer from h = x, and the last layer's average as the output.

    A particle is the tuple (theta_1, ..., theta_L) of its parameters in every layer, one after the other in R^p, so a
    network is one cloud and any flow moves it; layer l sees only the l-th marginal. Not linear in the cloud.
    The velocity of a particle under a Risk is, layer by layer, minus the gradient of the first variation in that
    layer's marginal; an atom without mass stays where it is.
    """

    layers: tuple[Unit, ...] = eqx.field(converter=tuple)

    def __check_init__(self):
        sizes = [(layer.inputs, layer.outputs) for layer in self.layers]
        if not sizes or any(size != (sizes[0][0],) * 2 for size in sizes[:-1]) or sizes[-1][0] != sizes[0][0]:
            raise Refusal(
                "A Residual network keeps its width d until the last layer, from R^d to R^c; got layers "
                f"{', '.join(f'R^{d} to R^{c}' for d, c in sizes) or 'none'}. "
                "Write Residual((Dense(d, d), Dense(d, d), Dense(d, c)))."
            )

    @property
    def dim(self) -> int:
        """The size p of a particle: the parameters of all layers."""
        return sum(layer.dim for layer in self.layers)

    @property
    def inputs(self) -> int:
        """The size d of the inputs and of every inner layer."""
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        """The size c of the outputs."""
        return self.layers[-1].outputs

    def split(self, cloud: Cloud) -> tuple[Cloud, ...]:
        """The marginals, a cloud for each layer."""
        refuse_unless_cloud("A Residual network", cloud, stacks=True)
        if cloud.p != self.dim:
            raise Refusal(
                f"A particle of this Residual network has {self.dim} numbers, those of all layers; got atoms in "
                f"R^{cloud.p}. Write atoms of shape (n, {self.dim})."
            )
        ends = list(accumulate(layer.dim for layer in self.layers))
        starts = [0, *ends[:-1]]
        return tuple(Cloud(cloud.atoms[..., a:b], cloud.weights) for a, b in zip(starts, ends, strict=True))

    def __call__(self, cloud: Cloud, xs: Any) -> Float[Array, "b c"]:
        """The outputs on a batch of inputs (b, d)."""
        *inner, last = zip(self.layers, self.split(cloud), strict=True)
        xs = inputs_for(self, cloud, xs)
        for layer, marginal in inner:
            xs = xs + network(layer, marginal, xs)
        return network(*last, xs)

    def action(self, on_x: Rep, on_y: Rep) -> Rep:
        """How the group moves a particle: every layer by its own action, the inner layers from on_x to on_x."""
        *inner, last = self.layers
        rep = last.action(on_x, on_y)
        for layer in reversed(inner):
            rep = layer.action(on_x, on_x) + rep
        return rep

    @classmethod
    def examples(cls):
        on = natural_rep(Symmetric(3))
        return [
            (cls((Dense(3, 3, "tanh"), Dense(3, 3, "softplus"), Dense(3, 3, "sigmoid"))), on, on),
            (cls((Dense(3, 3, "tanh"), Perceptron(3, 2, "tanh"))), on, trivial_rep(on.group, 2)),
        ]
