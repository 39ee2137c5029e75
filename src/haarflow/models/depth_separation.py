"""Depth separation: how much of `g(x) = exp(iω Σ_j relu(x_j))` functions of one direction can hold.

The inputs have independent Laplace coordinates, of density ½ exp(−|x_j|), so that |g| = 1 has energy E|g|² = 1. A
shallow network is a sum of ridge functions, each of one direction <u, x>. The best function of a direction holds the
share `E|E[g | <u, x>]|²` of the energy, which falls exponentially in the number of coordinates, whatever u; a network
with one layer more, ReLU and then cosine and sine, is g.
"""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.reps import trivial_rep
from haarflow.doors import Above, Count, Positive, door
from haarflow.errors import Refusal
from haarflow.models.units import Custom

Row = Float[np.ndarray, " d"]
FINE = 24  # points for each turn of the fastest factor, or for the narrowest
MOST = 2**21  # points of a transform


@door
def oscillation(xs: Float[Array, "b d"] | Float[np.ndarray, "b d"], *, omega: Positive) -> Float[Array, "b 2"]:
    """`(cos, sin)(ω Σ_j relu(x_j))`: the target as two real outputs for each input.

    `oscillation(np.ones((1, 3)), omega=2.0)` is (cos 6, sin 6).
    """
    phase = omega * jnp.maximum(jnp.asarray(xs), 0).sum(axis=1)
    return jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=1)


@door
def oscillating_unit(d: Count) -> Custom:
    """`(cos, sin)(<v, relu(W x)>)`, theta = (v in R^d, W (d×d) row by row): a unit with one hidden layer more.

    One particle with v = (ω, ..., ω) and W the identity is the target.
    """

    def function(theta, x):
        phase = theta[:d] @ jnp.maximum(theta[d:].reshape(d, d) @ x, 0)
        return jnp.stack([jnp.cos(phase), jnp.sin(phase)])

    def declared(on_x, on_y):
        still = trivial_rep(on_x.group, d)
        return still + still * on_x

    return Custom(function, d + d * d, d, 2, declared)


@door
def coordinate_energy(d: Count, *, omega: Positive) -> float:
    """The share of the target's energy that functions of one coordinate hold, in closed form.

    It is `|χ(0)|^{2(d − 1)}` with `χ(0) = E exp(iω relu(X)) = ½(1 + 1/(1 − iω))`: the other d − 1 coordinates are
    averaged away. `coordinate_energy(3, omega=2.0)` is 0.16.
    """
    return float(_still(omega) ** min(d - 1, 10**300))


def _still(omega: float) -> float:
    """`|χ(0)|²`: what is left of the energy when one coordinate is averaged away."""
    return float(abs(_factor(0.0, omega)) ** 2)


def _factor(s, omega):
    """`χ(s) = E exp(iω relu(X) − isX)` for X of the Laplace law."""
    return (1 / (1 - 1j * (omega - s)) + 1 / (1 - 1j * s)) / 2


@door
def ridge_energy(direction: Row, *, omega: Positive) -> float:
    """The share `E|E[g | <u, x>]|²` of the target's energy that the best function of one direction u holds, in [0, 1].

    The length of u does not matter. Coordinates with u_j = 0 are averaged away, each for a factor |χ(0)|². For the
    others, the laws of <u, x> with and without the target's phase are products in Fourier space, and are brought back
    by one fast transform each: the error is below 1e-5 of the value where the entries are of similar size.
    `ridge_energy([1.0, 1.0], omega=4.0)` is 0.4385.
    """
    size = np.abs(direction).max(initial=0.0)
    if not size > 0:
        raise Refusal("ridge_energy takes a direction, with an entry that is not zero; got zeros. Write [1.0, 1.0].")
    moving = direction[direction != 0] / size
    left = _still(omega) ** (len(direction) - len(moving))
    return float(left) if len(moving) == 1 else float(left * _projected(moving, omega))


def _projected(u: Row, omega: float) -> float:
    reach = 40.0 + 4.0 * len(u)  # beyond, the law of <u, x> has less than 1e-16 of its mass
    finest = np.abs(u).min() / (1 + omega) * 2 * np.pi / FINE
    points = 2 ** int(np.ceil(np.log2(2 * reach / finest)))
    if points > MOST:
        raise Refusal(
            f"ridge_energy takes directions whose entries are zero or of similar size; got one of "
            f"{np.abs(u).min():.1e} times the largest. Write zero for so small an entry."
        )
    width = 2 * reach / points
    s = 2 * np.pi * np.fft.fftfreq(points, width)
    law, phased = np.ones(points), np.ones(points, complex)
    for one in u:
        law, phased = law / (1 + (s * one) ** 2), phased * _factor(s * one, omega)
    density, projected = (np.fft.ifft(part) / width for part in (law, phased))
    seen = density.real > 1e-11 * density.real.max()
    return width * float(np.sum(np.abs(projected[seen]) ** 2 / density.real[seen]))


@door
def least_norm(energy: Annotated[float, Above(0)], *, error: Positive) -> float:
    """A variation norm without which no sum of ridge functions comes within a mean square `error` < 1 of the target.

    `f = Σ a_i h_i` with E|h_i|² ≤ 1 has `E|g − f|² ≥ 1 − 2 Σ|a_i| √E`, where E is the largest share that one direction
    holds: so `Σ|a_i| ≥ (1 − error) / (2 √E)`, which grows exponentially in d.
    """
    if error >= 1:
        raise Refusal(f"least_norm takes an error below 1, which zero reaches; got {error:g}. Write error=0.5.")
    return float((1 - error) / (2 * np.sqrt(energy)))
