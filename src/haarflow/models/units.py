"""Units: what one particle computes. The network is the unit averaged over a cloud."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.base import Group
from haarflow.algebra.groups import Cyclic, Signs
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.doors import Count, PositiveLeaf, door
from haarflow.errors import Refusal
from haarflow.fast import blocks, tuning
from haarflow.fast.fused import Fused, FusedDense, FusedPerceptron
from haarflow.identity import by_value
from haarflow.measures.clouds import Cloud
from haarflow.models.activations import activation, evaluated
from haarflow.models.fits import (
    inputs_for,
    refuse_unless_acting,
    refuse_unless_equivariant,
    refuse_unless_particles,
    shapes_of,
)
from haarflow.models.networks import Network, as_network, network_of


class Unit(eqx.Module):
    """A function of one parameter in R^p and one input in R^d, with values in R^c."""

    instead: ClassVar[str] = "Write Dense(inputs, outputs), for example."

    if TYPE_CHECKING:  # every member has these three, as fields or as properties
        dim: ClassVar[int]
        inputs: ClassVar[int]
        outputs: ClassVar[int]

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        return type(self).__name__

    @abstractmethod
    def __call__(self, theta: Float[Array, "p"], x: Float[Array, "d"]) -> Float[Array, "c"]:
        """What the particle theta says about the input x."""

    @abstractmethod
    def joint(self, on_x: Rep, on_y: Rep) -> Rep:
        """The action on parameters that moves with on_x and on_y; `action` checks it."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Unit"]:
        """Lopsided members for the laws."""

    def example_action(self, group_of: Callable[[int], Group]) -> Rep:
        """How a group of permutations acts on the inputs, for the laws: on coordinates, or on what they are made of."""
        return natural_rep(group_of(self.inputs))

    def batched(self, thetas: Float[Array, "n p"], xs: Float[Array, "b d"]) -> Float[Array, "n c b"]:
        """Every particle on every input, batch last so that a dense layer is one product W @ xs.T."""
        return jax.vmap(lambda theta: jax.vmap(lambda x: self(theta, x), out_axes=1)(xs))(thetas)

    def weighted_sum(
        self, weights: Float[Array, "n"], thetas: Float[Array, "n p"], xs: Float[Array, "b d"]
    ) -> Float[Array, "b c"]:
        """The weighted sum over particles: linear in the weights, which need not sum to one."""
        return _summed(weights, self.batched(thetas, xs))

    def pullback(
        self,
        weights: Float[Array, "n"],
        thetas: Float[Array, "n p"],
        xs: Float[Array, "b d"],
        cotangent: Callable[[Float[Array, "b c"]], Float[Array, "b c"]],
    ) -> tuple[Float[Array, "n"], Float[Array, "n p"]]:
        """One forward and one backward pass: the first variation (n,) and its gradient (n, p) at every particle.

        For each particle, `sum_b <s_b, unit(theta, x_b)>`, where s = cotangent(outputs) is the derivative of the loss
        in the outputs (b, c). Atoms of weight zero get values too. The weights are those of a law and sum to one,
        unless the cotangent does not look at the outputs.
        """
        values, back = jax.vjp(lambda atoms: self.batched(atoms, xs), thetas)
        slopes = cotangent(_summed(weights, values)).T
        (gradient,) = back(jnp.broadcast_to(slopes[None], values.shape))
        return values.reshape(len(thetas), -1) @ slopes.ravel(), gradient

    def fused(self) -> Fused | None:
        """A faster form of `weighted_sum` and `pullback`, tested equal; None where the formula is as fast."""
        return None

    def action(self, on_x: Rep, on_y: Rep) -> Rep:
        """The representation M with unit(M_g theta, on_x(g) x) = on_y(g) unit(theta, x), checked by sampling."""
        refuse_unless_acting(self, on_x, on_y)
        rep = self.joint(on_x, on_y)
        refuse_unless_equivariant(self, on_x, on_y, rep)
        return rep

    def proves_equivariant(self, on_x: Rep, on_y: Rep) -> bool:
        """Whether `unit(theta, g x) = g unit(theta, x)` for every theta, as it is for one averaged over the group."""
        return False


class Wrapped(Unit):
    """A unit made of another one: its parameters, sizes and actions, unless it says otherwise."""

    unit: Unit

    @property
    def dim(self):
        return self.unit.dim

    @property
    def inputs(self):
        return self.unit.inputs

    @property
    def outputs(self):
        return self.unit.outputs

    def joint(self, on_x, on_y):
        return self.unit.joint(on_x, on_y)


def _summed(weights: Float[Array, "n"], values: Float[Array, "n c b"]) -> Float[Array, "b c"]:
    return (weights @ values.reshape(len(weights), -1)).reshape(values.shape[1:]).T


@door
class Mean(Network):
    """`f_mu(x) = ∫ phi(x, theta) mu(d theta)`: the unit averaged over the cloud, which a Risk makes of a unit."""

    unit: Unit

    linear: ClassVar[bool] = True

    @property
    def title(self):
        return self.unit.title

    @property
    def dim(self):
        return self.unit.dim

    @property
    def inputs(self):
        return self.unit.inputs

    @property
    def outputs(self):
        return self.unit.outputs

    def __call__(self, cloud, xs):
        refuse_unless_particles(self.unit, cloud)
        return blocks.weighted_sum(self.unit, cloud.weights, cloud.atoms, inputs_for(self.unit, cloud, xs))

    def pullback(self, cloud, xs, cotangent):
        return blocks.pullback(self.unit, cloud.weights, cloud.atoms, xs, cotangent)

    def batched(self, thetas, xs):
        return self.unit.batched(thetas, xs)

    def action(self, on_x, on_y):
        return self.unit.action(on_x, on_y)

    def proves_equivariant(self, on_x, on_y):
        return self.unit.proves_equivariant(on_x, on_y)

    @classmethod
    def examples(cls):
        shift, flips = natural_rep(Cyclic(3)), natural_rep(Signs(2))
        return [
            (cls(Dense(3, 3, "sigmoid")), shift, shift),
            (cls(Perceptron(3, 2, "tanh")), shift, trivial_rep(shift.group, 2)),
            (cls(Perceptron(2, 2, "softplus")), flips, flips),
        ]


as_network.register(Unit, Mean)


@door
def network(model: Any, cloud: Cloud, xs: Array | np.ndarray) -> Float[Array, "b c"]:
    """The outputs (b, c) of a network on inputs (b, d), in the precision of the cloud.

    A unit stands for its mean over the cloud, `f_mu(x) = ∫ phi(x, theta) mu(d theta)`: for example,
    `network(Perceptron(2), uniform([[1.0, 0.5, 0.5, 0.0]]), [[2.0, 1.0]])` is 1 · relu(0.5 · 2 + 0.5 · 1) = 1.5.
    """
    return network_of("network's model", model)(cloud, xs)


@door
class Dense(Unit):
    """`σ(z x)`: theta is the matrix z (c×d) row by row, the activation pointwise."""

    inputs: Count
    outputs: Count
    activation: str = "sigmoid"

    def __check_init__(self):
        activation(self.activation)

    @property
    def dim(self):
        return self.inputs * self.outputs

    def __call__(self, theta, x):
        return activation(self.activation)(theta.reshape(self.outputs, self.inputs) @ x)

    def batched(self, thetas, xs):
        rows = thetas.reshape(-1, self.inputs)
        return activation(self.activation)(rows @ xs.T).reshape(thetas.shape[0], self.outputs, xs.shape[0])

    def fused(self):
        if self.inputs > tuning.FEW_INPUTS:
            return None
        return FusedDense(self.inputs, self.outputs, activation(self.activation), partial(evaluated, self.activation))

    def joint(self, on_x, on_y):
        return on_x.hom(on_y)

    @classmethod
    def examples(cls):
        return [cls(2, 2), cls(3, 1, "tanh"), cls(2, 3, "softplus")]


@door
class Perceptron(Unit):
    """`a σ(<w, x> + b)`: theta is (a in R^c, w in R^d, b)."""

    inputs: Count
    outputs: Count = 1
    activation: str = "relu"

    def __check_init__(self):
        activation(self.activation)

    @property
    def dim(self):
        return self.outputs + self.inputs + 1

    def __call__(self, theta, x):
        a, w, b = theta[: self.outputs], theta[self.outputs : -1], theta[-1]
        return a * activation(self.activation)(w @ x + b)

    def batched(self, thetas, xs):
        hidden = activation(self.activation)(thetas @ self._padded(xs).T)
        return thetas[:, : self.outputs, None] * hidden[:, None, :]

    def _padded(self, xs):
        # One product with the inputs padded to (0, x, 1): whole rows of parameters, nothing sliced or copied.
        # A constant where the size of the batch is known; `jax.export` may know it as a symbol only.
        row, b = np.append(np.zeros(self.dim - 1, xs.dtype), np.ones(1, xs.dtype))[None], xs.shape[0]
        empty = jnp.asarray(row.repeat(b, 0)) if isinstance(b, int) else jnp.broadcast_to(row, (b, self.dim))
        return empty.at[:, self.outputs : -1].set(xs)

    def fused(self):
        return FusedPerceptron(
            self.outputs, self.dim, self._padded, partial(evaluated, self.activation), self.weighted_sum
        )

    def joint(self, on_x, on_y):
        return on_y + on_x + trivial_rep(on_x.group)

    @classmethod
    def examples(cls):
        return [cls(3), cls(2, 2, "tanh"), cls(2, 1, "erf"), cls(3, 2, "cos")]


@door
class TwoLayer(Unit):
    """`W σ(Aᵀ x + B)`: theta is (W (c×h), A (d×h), B (h)), each row by row."""

    inputs: Count
    hidden: Count
    outputs: Count
    activation: str = "tanh"

    def __check_init__(self):
        activation(self.activation)

    @property
    def dim(self):
        return (self.outputs + self.inputs + 1) * self.hidden

    def split(self, theta: Float[Array, "*n p"]):
        """W, A and B out of a parameter, or out of many."""
        h, cut = self.hidden, self.outputs * self.hidden
        lead = theta.shape[:-1]
        return (
            theta[..., :cut].reshape(*lead, -1, h),
            theta[..., cut:-h].reshape(*lead, -1, h),
            theta[..., -h:],
        )

    def __call__(self, theta, x):
        W, A, B = self.split(theta)
        return W @ activation(self.activation)(A.T @ x + B)

    def batched(self, thetas, xs):
        W, A, B = self.split(thetas)
        hidden = activation(self.activation)(jnp.einsum("ndh,bd->nhb", A, xs) + B[:, :, None])
        return jnp.einsum("nch,nhb->ncb", W, hidden)

    def joint(self, on_x, on_y):
        h = self.hidden
        still = trivial_rep(on_x.group, h)
        return on_y * still + on_x * still + still

    @classmethod
    def examples(cls):
        return [cls(2, 3, 1), cls(3, 2, 2, "sigmoid")]


@door
class Quadratic(Unit):
    """`<w, x>²`: theta is w; the network is a quadratic form, with closed-form risks."""

    inputs: Count
    outputs: Count = eqx.field(default=1, init=False)

    @property
    def dim(self):
        return self.inputs

    def __call__(self, theta, x):
        return jnp.square(theta @ x)[None]

    def batched(self, thetas, xs):
        return jnp.square(thetas @ xs.T)[:, None, :]

    def joint(self, on_x, on_y):
        return on_x

    @classmethod
    def examples(cls):
        return [cls(3)]


@door
class Bump(Unit):
    """`a exp(−|x − m|² / 2v)`: theta is (a in R^c, m in R^d), v the variance all bumps share."""

    inputs: Count
    outputs: Count = 1
    variance: PositiveLeaf = eqx.field(default=0.5, converter=jnp.asarray)

    @property
    def dim(self):
        return self.outputs + self.inputs

    def __call__(self, theta, x):
        a, m = theta[: self.outputs], theta[self.outputs :]
        return a * jnp.exp(-jnp.sum((x - m) ** 2) / (2 * self.variance))

    def joint(self, on_x, on_y):
        return on_y + on_x

    @classmethod
    def examples(cls):
        return [cls(2), cls(3, 2, 0.7)]


@door
class Custom(Unit):
    """A user's own `function(theta, x) -> (c,)` with the action it declares, checked by sampling when used."""

    function: Callable = eqx.field(converter=by_value)
    dim: Count
    inputs: Count
    outputs: Count
    declared: Callable[[Rep, Rep], Rep] = eqx.field(converter=by_value)

    def __check_init__(self):
        if isinstance(self.declared, Rep):
            raise Refusal(
                f"A Custom unit declares its action as a function of on_x and on_y; got the representation "
                f"{self.declared}. Write lambda on_x, on_y: on_x, for example."
            )
        rule = f"The function of a Custom unit takes ({self.dim},) and ({self.inputs},) numbers to ({self.outputs},)"
        kind = jnp.zeros(()).dtype
        theta, x = jax.ShapeDtypeStruct((self.dim,), kind), jax.ShapeDtypeStruct((self.inputs,), kind)
        found = shapes_of(rule, "Write dim, inputs and outputs as the function has them.", self.function, theta, x)
        shape = getattr(found, "shape", None)
        if shape != (self.outputs,) or not jnp.issubdtype(found.dtype, jnp.floating):
            got = f"{shape} of {found.dtype}" if shape is not None else f"a {type(found).__name__}"
            raise Refusal(f"{rule} in floating point; got {got}. Write value[None] for one output, outputs=c for c.")

    def __call__(self, theta, x):
        return self.function(theta, x)

    def joint(self, on_x, on_y):
        return self.declared(on_x, on_y)

    @classmethod
    def examples(cls):
        def ridge(theta, x):
            return jnp.tanh(theta @ x)[None] * (1 + jnp.sum(x**2))

        return [cls(ridge, 3, 3, 1, lambda on_x, on_y: on_x)]
