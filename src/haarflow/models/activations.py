"""The scalar functions a unit may apply, by name."""

import jax
import jax.numpy as jnp

from haarflow.errors import one_of

ACTIVATIONS = {
    "cos": jnp.cos,
    "erf": jax.scipy.special.erf,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}


def activation(name: str):
    """The function of that name; the refusal lists them all."""
    return ACTIVATIONS[one_of("An activation", name, ACTIVATIONS)]
