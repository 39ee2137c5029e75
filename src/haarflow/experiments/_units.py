"""Units that several experiments share: one for every orthogonal group, one whose hidden neurons are permuted."""

import jax.numpy as jnp

from haarflow.algebra.reps import Rep, trivial
from haarflow.models.units import Custom, TwoLayer


def gate(d: int) -> Custom:
    """`Z x tanh(xᵀ A x + b)`: theta is (Z, A, b); any orthogonal group acts, and what it fixes is not only zero."""

    def function(theta, x):
        z, a, b = theta[: d * d].reshape(d, d), theta[d * d : -1].reshape(d, d), theta[-1]
        return z @ x * jnp.tanh(x @ a @ x + b)

    return Custom(function, 2 * d * d + 1, d, d, _gate_action)


def _gate_action(on_x: Rep, on_y: Rep) -> Rep:
    return on_x.hom(on_y) + on_x.hom(on_x) + trivial(on_x.group)


def permuted_hidden(on_h: Rep, inputs: int, outputs: int = 1, activation: str = "tanh") -> Custom:
    """`W σ(Aᵀ x + B)`, a two-layer unit whose hidden neurons the group permutes by `on_h`."""
    inner = TwoLayer(inputs, on_h.dim, outputs, activation)

    def joint(on_x: Rep, on_y: Rep) -> Rep:
        return on_y * on_h + on_x * on_h + on_h

    return Custom(inner.__call__, inner.dim, inputs, outputs, joint)
