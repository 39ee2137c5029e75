"""Units: what one particle computes. Their mean over a cloud, a network, is in `networks.py`."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.groups import Cyclic, Dihedral, Signs, Symmetric
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.annotations import kind_of
from haarflow.doors import Count, PositiveLeaf, door
from haarflow.errors import Refusal
from haarflow.fast import tuning
from haarflow.fast.fused import Fused, FusedDense, FusedPerceptron
from haarflow.identity import by_value
from haarflow.models.activations import activation, evaluated
from haarflow.models.fits import (
    refuse_unless_acting,
    refuse_unless_equivariant,
    shapes_of,
)


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
    def examples(cls) -> Sequence[tuple["Unit", Rep, Rep]]:
        """Lopsided members for the laws, each with actions on inputs and outputs that its parameters move with."""

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
        shift, flips, swap = natural_rep(Cyclic(3)), natural_rep(Signs(3)), natural_rep(Cyclic(2))
        turns = natural_rep(Symmetric(3))
        return [
            (cls(2, 2), swap, swap),
            (cls(3, 1, "tanh"), flips, trivial_rep(flips.group)),
            (cls(3, 3, "softplus"), shift, shift),
            (cls(2, 3, "sigmoid"), trivial_rep(turns.group, 2), turns),
        ]


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
        turns, triangle, shift = natural_rep(SpecialOrthogonal(3)), natural_rep(Dihedral(3)), natural_rep(Cyclic(3))
        return [
            (cls(3), turns, trivial_rep(turns.group)),
            (cls(2, 2, "tanh"), triangle, triangle),
            (cls(2, 1, "erf"), triangle, trivial_rep(triangle.group)),
            (cls(3, 2, "cos"), shift, trivial_rep(shift.group, 2)),
        ]


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
        triangle, every = natural_rep(Dihedral(3)), natural_rep(Symmetric(3))
        return [
            (cls(2, 3, 2), triangle, triangle),
            (cls(3, 2, 2, "sigmoid"), every, trivial_rep(every.group, 2)),
        ]


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
        turns = natural_rep(Orthogonal(3))
        return [(cls(3), turns, trivial_rep(turns.group))]


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
        turns, every = natural_rep(SpecialOrthogonal(2)), natural_rep(Symmetric(3))
        return [(cls(2), turns, trivial_rep(turns.group)), (cls(3, 2, 0.7), every, trivial_rep(every.group, 2))]


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
            got = f"{shape} of {found.dtype}" if shape is not None else kind_of(found)
            raise Refusal(f"{rule} in floating point; got {got}. Write value[None] for one output, outputs=c for c.")

    def __call__(self, theta, x):
        return self.function(theta, x)

    def joint(self, on_x, on_y):
        return self.declared(on_x, on_y)

    @classmethod
    def examples(cls):
        def ridge(theta, x):
            return jnp.tanh(theta @ x)[None] * (1 + jnp.sum(x**2))

        turns = natural_rep(SpecialOrthogonal(3))
        return [(cls(ridge, 3, 3, 1, lambda on_x, on_y: on_x), turns, trivial_rep(turns.group))]
