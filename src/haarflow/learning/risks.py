"""Risks: a network scored by a loss on data, exactly over a whole sample and by draws over everything else."""

from collections.abc import Callable
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.fast.materialise import materialised
from haarflow.learning.averaging import average_network
from haarflow.learning.data import Data, Sample, whole_sample
from haarflow.learning.forms import QuadraticForm
from haarflow.learning.functionals import Functional, Penalty, Sum, Variation
from haarflow.learning.losses import HALF_SQUARE, Loss
from haarflow.measures.clouds import uniform
from haarflow.models.fits import invariance_gap, refuse_unless_acting, refuse_unless_particles
from haarflow.models.networks import Mean, Network, outputs_told
from haarflow.models.residual import Residual
from haarflow.models.units import Dense, Unit
from haarflow.values import refuse_unless_affordable

__all__ = ["Fit", "Functional", "Penalty", "Risk", "Sum", "Variation"]

ONE_DRAW = "Write risk.sample(key)(cloud) for one draw."


class Fit(Functional):
    """`mean_b l(f_mu(x_b), y_b)` on one batch: the literal minibatch risk; with `masses`, the weighted mean.

    The cloud decides the precision: inputs and labels of another one are cast to its own.
    """

    network: Network
    xs: Float[Array, "b d"]
    ys: Float[Array, "b c"]
    loss: Loss
    masses: Float[Array, "b"] | None = None

    @property
    def dim(self):
        return self.network.dim

    def __call__(self, cloud):
        refuse_unless_particles(self.network, cloud)
        with outputs_told(self.network, cloud, self.xs):
            return self._score(self.network(cloud, self.xs))

    def _score(self, outputs):
        if outputs.shape != self.ys.shape:  # a network that did not say the size of its outputs
            raise Refusal(
                f"A Risk compares the network's outputs with the labels; got outputs {outputs.shape} and labels "
                f"{self.ys.shape}. Write a network that returns (b, c) for inputs (b, d)."
            )
        losses = jax.vmap(self.loss)(outputs, self.ys.astype(outputs.dtype))
        return jnp.mean(losses) if self.masses is None else self.masses.astype(outputs.dtype) @ losses

    def variation(self, cloud):
        refuse_unless_particles(self.network, cloud)
        gradient, kind = jax.grad(self._score), cloud.atoms.dtype
        xs = self.xs.astype(kind)
        with outputs_told(self.network, cloud, xs):
            potential, slope = self.network.pullback(cloud, xs, lambda outputs: materialised(gradient(outputs)))
        return Variation(potential.astype(kind), -slope.astype(kind))

    def quadratic_form(self, atoms):
        self._refuse_unless_quadratic()
        cloud, labels = uniform(atoms), self.ys.size
        refuse_unless_particles(self.network, cloud)
        refuse_unless_affordable(
            f"An optimum over {cloud.n} atoms and {labels} labels",
            4 * 8.0 * cloud.n * labels,
            instead="Write fewer atoms, on a coarser grid, or fewer samples.",
        )
        outputs = np.asarray(_many(self.network, cloud.atoms, self.xs), float)
        features, targets = outputs.reshape(cloud.n, -1).T, np.asarray(self.ys, float).T.ravel()
        factor, costs = self.loss.square or 0.0, np.zeros(cloud.n)
        if self.masses is None:
            return QuadraticForm(features, targets, costs, factor / len(self.xs))
        root = np.sqrt(np.tile(np.asarray(self.masses, float), self.ys.shape[1]))
        return QuadraticForm(root[:, None] * features, root * targets, costs, factor)

    def _refuse_unless_quadratic(self):
        if self.loss.square is None:
            raise Refusal(
                f"An optimum is that of a Risk with a square loss, plus penalties; got the loss {self.loss.called}. "
                "Write Risk(unit, sample, 'half-square')."
            )
        if not self.network.linear:
            raise Refusal(
                "An optimum is that of a Risk of a network which is linear in its cloud, such as the mean of a unit; "
                f"got a {self.network.title}. Write Risk(unit, sample, 'half-square')."
            )

    @classmethod
    def examples(cls):
        plain = Risk.examples()[0].sample(jax.random.key(3))
        return [plain, cls(plain.network, plain.xs, plain.ys, plain.loss, jnp.array([0.5, 0.2, 0.3]))]


@eqx.filter_jit
def _many(network: Network, atoms, xs):
    return network.batched(atoms, xs)


@door
class Risk(Functional):
    """`R(mu) = E l(f_mu(X), Y)` of a network: exact over a whole Sample, by draws over everything else.

    The network is the mean of a unit, where a unit is given; a Residual network; an averaged one; or any function of a
    cloud and of inputs. The loss is a name such as "square", a Loss, or a function of one output and one label.
    The labels become those of the loss: -1 and 1 for the margin losses, also given as 0 and 1 or as two class names;
    a probability for each class for the cross-entropy, also given as indices or names; real numbers for the others.
    """

    network: Network
    data: Data
    loss: Loss

    def __init__(self, network: Network | Unit | Callable, data: Data, loss: Loss | str | Callable = HALF_SQUARE):
        self.network, self.loss = cast(Network, network), cast(Loss, loss)  # what the door makes of them
        (_, d), _ = data.shapes()
        if self.network.inputs not in (None, d):
            raise Refusal(
                f"A Risk shows its network the inputs of its data; got a {self.network.title} of inputs in "
                f"R^{self.network.inputs} and data with inputs in R^{d}. Write a unit with inputs={d}."
            )
        self.data = data.labelled(self.loss, self.network.outputs)

    @property
    def dim(self):
        return self.network.dim

    @property
    def unit(self) -> Unit:
        """The unit whose mean the network is; refused for other networks."""
        if not isinstance(self.network, Mean):
            raise Refusal(
                f"The unit of a Risk is that whose mean its network is; got a {self.network.title}, which is the mean "
                "of none. Write Risk(unit, data)."
            )
        return self.network.unit

    def __call__(self, cloud):
        return self._whole("A Risk has an exact value", ONE_DRAW)(cloud)

    def _whole(self, owner: str, instead: str) -> Fit:
        sample = whole_sample(owner, self.data, instead)
        return Fit(self.network, sample.xs, sample.ys, self.loss)

    def sample(self, key):
        xs, ys = materialised(self.data.batch(key))
        return Fit(self.network, xs, ys, self.loss)

    def variation(self, cloud):
        self._whole("A Risk has an exact variation", ONE_DRAW)
        return self.sample(jax.random.key(0)).variation(cloud)

    def quadratic_form(self, atoms):
        return self._whole("An optimum is that of a Risk", "Write Sample(xs, ys).").quadratic_form(atoms)

    def action(self, on_x, on_y):
        return self.network.action(on_x, on_y)

    def folded(self, on_x, on_y):
        if not self.network.proves_equivariant(on_x, on_y):
            raise Refusal(
                f"One sample stands for its orbit where the network is equivariant; got a plain {self.network.title}. "
                "Write average(unit, on_x, on_y), or reduce_by_orbits(field, cloud, on_x, on_y) for an orbit-closed "
                "cloud."
            )
        return self._on_one_per_orbit(self.network, on_x, on_y)

    def by_orbits(self, on_x, on_y, action):
        if not self.network.proves_equivariant(on_x, on_y):
            if not self.network.linear:
                raise Refusal(
                    "The network of an orbit-closed cloud is an average over the group where it is linear in the "
                    f"cloud; got a {self.network.title}, which is not. Flow the whole cloud."
                )
            return self._on_one_per_orbit(average_network(self.network, on_x, on_y), on_x, on_y)
        try:
            return self._on_one_per_orbit(self.network, on_x, on_y)
        except Refusal:  # over a closed cloud FA is reduced whatever its data; there are only no samples to fold
            return self

    def _on_one_per_orbit(self, network: Network, on_x, on_y) -> Functional:
        refuse_unless_acting(network, on_x, on_y)
        self._refuse_unless_invariant_loss(on_y)
        data, masses = self.data.one_per_orbit(on_x, on_y)
        if masses is None:
            return Risk(network, data, self.loss)
        sample = whole_sample("One pair per orbit", data, "Write a Sample.")
        return Fit(network, sample.xs, sample.ys, self.loss, masses)

    def _refuse_unless_invariant_loss(self, on_y):
        f, y = np.random.default_rng(0).uniform(0.1, 1, (2, on_y.dim))
        gap = invariance_gap(lambda pair: self.loss(*pair.reshape(2, -1)), 2 * on_y, np.concatenate([f, y]))
        if gap > 1e-4:
            raise Refusal(
                f"A loss that scores a whole orbit alike satisfies l(g f, g y) = l(f, y); got a gap of {gap:.2g} for "
                f"{self.loss.called}. Use 'half-square', or an action that leaves the labels where they are."
            )

    @classmethod
    def examples(cls):
        xs = jnp.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1]])
        deep = Residual((Dense(1, 1, "tanh"), Dense(1, 1, "softplus"), Dense(1, 2, "tanh")))
        two = jnp.concatenate([jnp.sin(xs[:, :1]), xs[:, :1]], axis=1)
        return [
            cls(Dense(2, 2, "tanh"), Sample(xs, jnp.sin(xs))),
            cls(Dense(2, 2, "tanh"), Sample(xs, jnp.sin(xs)), "pseudo-huber"),
            cls(deep, Sample(xs[:, :1], two), "square"),
        ]
