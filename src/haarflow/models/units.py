"""Units: what one particle computes. The network is the unit averaged over a cloud."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.groups import Cyclic, Signs
from haarflow.algebra.reps import Rep, natural, trivial
from haarflow.doors import Count, PositiveLeaf, door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.measures.clouds import Cloud
from haarflow.models import blocks
from haarflow.models.activations import activation, evaluated
from haarflow.models.fits import (
    inputs_for,
    refuse_unless_acting,
    refuse_unless_equivariant,
    refuse_unless_particles,
    shapes_of,
)
from haarflow.models.networks import Network, as_network, network_of
from haarflow.settling import settled


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

    def many(self, thetas: Float[Array, "n p"], xs: Float[Array, "b d"]) -> Float[Array, "n c b"]:
        """Every particle on every input, batch last so that a dense layer is one product W @ xs.T."""
        return jax.vmap(lambda theta: jax.vmap(lambda x: self(theta, x), out_axes=1)(xs))(thetas)

    def total(
        self, weights: Float[Array, "n"], thetas: Float[Array, "n p"], xs: Float[Array, "b d"]
    ) -> Float[Array, "b c"]:
        """The weighted sum over particles: linear in the weights, which need not sum to one."""
        return _summed(weights, self.many(thetas, xs))

    def feedback(
        self,
        weights: Float[Array, "n"],
        thetas: Float[Array, "n p"],
        xs: Float[Array, "b d"],
        answer: Callable[[Float[Array, "b c"]], Float[Array, "b c"]],
    ) -> tuple[Float[Array, "n"], Float[Array, "n p"]]:
        """`sum_b <s_b, unit(theta, x_b)>` and its gradient, at every particle with mass or without.

        The slopes s are `answer(total)`: the unit is evaluated once for the outputs and for what comes back. The
        weights are those of a law and sum to one, unless the answer does not look at the total.
        """
        values, back = jax.vjp(lambda atoms: self.many(atoms, xs), thetas)
        slopes = answer(_summed(weights, values)).T
        (gradient,) = back(jnp.broadcast_to(slopes[None], values.shape))
        return values.reshape(len(thetas), -1) @ slopes.ravel(), gradient

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
        return blocks.total(self.unit, cloud.weights, cloud.atoms, inputs_for(self.unit, cloud, xs))

    def feedback(self, cloud, xs, answer):
        return blocks.feedback(self.unit, cloud.weights, cloud.atoms, xs, answer)

    def many(self, thetas, xs):
        return self.unit.many(thetas, xs)

    def action(self, on_x, on_y):
        return self.unit.action(on_x, on_y)

    def proves_equivariant(self, on_x, on_y):
        return self.unit.proves_equivariant(on_x, on_y)

    @classmethod
    def examples(cls):
        shift, flips = natural(Cyclic(3)), natural(Signs(2))
        return [
            (cls(Dense(3, 3, "sigmoid")), shift, shift),
            (cls(Perceptron(3, 2, "tanh")), shift, trivial(shift.group, 2)),
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


_FEW = 4  # inputs
_UNROLLED = 64  # samples
_TILE = 4  # columns: a product with a multiple of them takes up to a fifth less
_CACHED = 4096  # particles, about, whose evaluations stay near the processor


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

    def many(self, thetas, xs):
        rows = thetas.reshape(-1, self.inputs)
        return activation(self.activation)(rows @ xs.T).reshape(-1, self.outputs, xs.shape[0])

    # Over a few inputs a matrix product costs more than the sums it makes. There the sums are written out, with the
    # particles last, where they are many and contiguous: (c, b, n). In the loop of a flow they already lie so;
    # elsewhere they are turned, where that pays.

    def _before(self, turned, xs):
        z = turned.reshape(self.outputs, self.inputs, -1)
        terms = [xs[None, :, j, None] * z[:, j, None, :] for j in range(self.inputs)]
        return sum(terms[1:], terms[0])

    def _turned(self, thetas):
        return jnp.einsum("qp,np->qn", np.eye(self.dim, dtype=thetas.dtype), thetas)  # settled, see settling.py

    def total(self, weights, thetas, xs):
        if self.inputs > _FEW:
            return super().total(weights, thetas, xs)
        values = activation(self.activation)(self._before(self._turned(thetas), xs))
        return (values.reshape(-1, len(weights)) @ weights).reshape(self.outputs, -1).T

    def feedback(self, weights, thetas, xs, answer):
        if self.inputs > _FEW:
            return super().feedback(weights, thetas, xs, answer)
        turned = thetas.T if len(xs) <= _UNROLLED else self._turned(thetas)
        core, kept, slope, scale, shift = evaluated(self.activation, self._before(turned, xs))
        rows = core.reshape(-1, len(thetas))
        outputs = scale * (rows @ weights) + shift
        slopes = answer(outputs.reshape(self.outputs, -1).T).T
        pulls = slopes[:, :, None] * xs[None]
        if len(thetas) > _CACHED and len(xs) <= _UNROLLED:
            # Sample by sample, in one pass over what was kept: the steepness is never an array of its own.
            pulls = settled(pulls)
            terms = [pulls[:, b, :, None] * slope(kept[:, b])[:, None] for b in range(len(xs))]
            gradient = sum(terms[1:], terms[0]).reshape(self.dim, -1).T
        else:
            gradient = jnp.einsum("cbd,cbn->cdn", pulls, slope(kept)).reshape(self.dim, -1).T
        return scale * (slopes.ravel() @ rows) + shift * jnp.sum(slopes), gradient

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

    def many(self, thetas, xs):
        hidden = activation(self.activation)(thetas @ self._padded(xs).T)
        return thetas[:, : self.outputs, None] * hidden[:, None, :]

    def _padded(self, xs):
        # One product with the inputs padded to (0, x, 1): whole rows of parameters, nothing sliced or copied.
        # A constant where the size of the batch is known; `jax.export` may know it as a symbol only.
        row, b = np.append(np.zeros(self.dim - 1, xs.dtype), np.ones(1, xs.dtype))[None], xs.shape[0]
        empty = jnp.asarray(row.repeat(b, 0)) if isinstance(b, int) else jnp.broadcast_to(row, (b, self.dim))
        return empty.at[:, self.outputs : -1].set(xs)

    def feedback(self, weights, thetas, xs, answer):
        padded, a = self._padded(xs), thetas[:, : self.outputs]
        core, kept, slope, scale, shift = evaluated(self.activation, thetas @ padded.T)
        mass = weights[:, None] * a
        outputs = scale * (mass.T @ core) + shift * jnp.sum(mass, axis=0)[:, None]
        slopes = answer(outputs.T)
        inner = scale * (core @ slopes) + shift * jnp.sum(slopes, axis=0)[None]
        terms = [a[:, c, None] * slopes[None, :, c] for c in range(self.outputs)]
        even = jnp.pad(padded, ((0, 0), (0, -self.dim % _TILE)))
        gradient = ((sum(terms[1:], terms[0]) * slope(kept)) @ even)[:, : self.dim]
        if self.outputs == 1:  # one value for a row: the compiler fuses this into whatever uses the gradient
            gradient = jnp.where((jnp.arange(self.dim) == 0)[None], inner, gradient)
        else:
            gradient = gradient.at[:, : self.outputs].set(inner)
        return jnp.sum(a * inner, axis=1), gradient

    def joint(self, on_x, on_y):
        return on_y + on_x + trivial(on_x.group)

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

    def many(self, thetas, xs):
        W, A, B = self.split(thetas)
        hidden = activation(self.activation)(jnp.einsum("ndh,bd->nhb", A, xs) + B[:, :, None])
        return jnp.einsum("nch,nhb->ncb", W, hidden)

    def joint(self, on_x, on_y):
        h = self.hidden
        still = trivial(on_x.group, h)
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

    def many(self, thetas, xs):
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
