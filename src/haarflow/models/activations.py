"""The scalar functions a unit may apply, by name."""

import jax
import jax.numpy as jnp

from haarflow.errors import one_of


def sigmoid(x):
    """1 / (1 + exp(−x)) by a tanh: twice as fast in float64, and right to 5e-16, though not relatively near 0."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)


def ramp(x):
    """−2.5 below ½, 7.5 above 1½, a straight line between."""
    return 10 * jnp.clip(x, 0.5, 1.5) - 7.5


ACTIVATIONS = {
    "cos": jnp.cos,
    "erf": jax.scipy.special.erf,
    "ramp": ramp,
    "relu": jax.nn.relu,
    "sigmoid": sigmoid,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}


def activation(name: str):
    """The function of that name; the refusal lists them all."""
    return ACTIVATIONS[one_of("An activation", name, ACTIVATIONS)]
