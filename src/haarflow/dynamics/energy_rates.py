"""Rates along a flow: how fast an energy falls, and how fast the mean of a test function changes."""

from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.doors import Least, door
from haarflow.dynamics.fields import Tangent
from haarflow.dynamics.pairwise import refuse_unless_number
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud


@door
def dissipation(
    functional: Functional,
    cloud: Cloud,
    *,
    transport: Annotated[float | Float[Array, ""], Least(0)] = 1.0,
    growth: Annotated[float | Float[Array, ""], Least(0)] = 0.0,
) -> Float[Array, ""]:
    """`dE/dt = −transport ∫|∇Psi|² dmu − growth ∫(Psi − mean Psi)² dmu` along `Descend(functional, …)`."""
    potential, velocity = functional.variation(cloud)
    centred = potential - cloud.weights @ potential
    return -transport * cloud.weights @ jnp.sum(velocity**2, axis=1) - growth * cloud.weights @ centred**2


@door
def weak_form_rate(cloud: Cloud, tangent: Tangent, test: Callable) -> Float[Array, ""]:
    """`d/dt ∫test dmu = ∫∇test·velocity dmu + ∫test·growth dmu`: the continuity equation in weak form."""
    if tangent.velocity.shape != cloud.atoms.shape:
        raise Refusal(
            f"A weak rate is along a tangent of the cloud's shape {cloud.atoms.shape}; got {tangent.velocity.shape}. "
            "Write field(key, cloud)."
        )
    refuse_unless_number("A test function", test, cloud, 1)
    values, slopes = jax.vmap(jax.value_and_grad(test))(cloud.atoms)
    rate = jnp.sum(slopes * tangent.velocity, axis=1)
    return cloud.weights @ (rate if tangent.growth is None else rate + values * tangent.growth)
