"""More units: the neuron without a bias, a gate that every orthogonal group moves, hidden neurons that are permuted."""

import jax.numpy as jnp

from haarflow.algebra.groups import Dihedral
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.doors import Count, door
from haarflow.models.activations import activation
from haarflow.models.units import Custom, TwoLayer, Unit


@door
class Neuron(Unit):
    """`a σ(<w, x>)` without a bias: theta is (a in R^c, w in R^d), and any orthogonal group may act on the inputs.

    `Neuron(2)` is the ReLU neuron of the plane, the unit of `ReluRisk` and of the lecture's single-neuron problems.
    """

    inputs: Count
    outputs: Count = 1
    activation: str = "relu"

    def __check_init__(self):
        activation(self.activation)

    @property
    def dim(self):
        return self.outputs + self.inputs

    def __call__(self, theta, x):
        return theta[: self.outputs] * activation(self.activation)(theta[self.outputs :] @ x)

    def joint(self, on_x, on_y):
        return on_y + on_x

    @classmethod
    def examples(cls):
        turns, triangle = natural_rep(Orthogonal(3)), natural_rep(Dihedral(3))
        return [(cls(3), turns, trivial_rep(turns.group)), (cls(2, 2, "tanh"), triangle, triangle)]


@door
class Gate(Unit):
    """`Z x tanh(xᵀ A x + b)` from R^d to R^d: theta is (Z (d×d), A (d×d), b), each row by row.

    Every orthogonal group that moves inputs and outputs acts on it, also those without a fixed direction, and what it
    fixes among the parameters is not only zero: the scalar matrices Z and A, and b.
    """

    inputs: Count

    @property
    def outputs(self):
        return self.inputs

    @property
    def dim(self):
        return 2 * self.inputs**2 + 1

    def __call__(self, theta, x):
        d = self.inputs
        z, a, b = theta[: d * d].reshape(d, d), theta[d * d : -1].reshape(d, d), theta[-1]
        return z @ x * jnp.tanh(x @ a @ x + b)

    def joint(self, on_x, on_y):
        return on_x.hom(on_y) + on_x.hom(on_x) + trivial_rep(on_x.group)

    @classmethod
    def examples(cls):
        triangle, turns = natural_rep(Dihedral(3)), natural_rep(SpecialOrthogonal(3))
        return [(cls(2), triangle, triangle), (cls(3), turns, turns)]


@door
def permuted_hidden(on_h: Rep, inputs: Count, outputs: Count = 1, *, activation: str = "tanh") -> Custom:
    """`W σ(Aᵀ x + B)`, a two-layer unit whose hidden neurons the group permutes by `on_h`.

    With the regular representation its fixed particles make a universal equivariant network; those of a `TwoLayer`,
    whose hidden neurons stay, do not.
    """
    inner = TwoLayer(inputs, on_h.dim, outputs, activation)

    def joint(on_x: Rep, on_y: Rep) -> Rep:
        return on_y * on_h + on_x * on_h + on_h

    return Custom(inner.__call__, inner.dim, inputs, outputs, joint)
