"""The kernel distance: means of exp(−|z − z'|² / 2 width²) over pairs of atoms, and their second differences."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.measures.couplings import close_pairs
from haarflow.measures.samples import Pair
from haarflow.measures.transport import squared_gaps
from haarflow.values import refuse_unless_affordable

CLOSE = 1e-10
"""Below this value the difference of three means has lost digits, and second differences are summed instead."""

CLOSE_PAIRS = 1_000_000_000
"""Largest number of pairs whose second differences are summed: about a minute."""

NARROWEST = 1e-150
"""Narrower kernels, in units of the clouds, are zero between different atoms all the same."""


def squared_mmd(given: Pair, width: float, block: int) -> float:
    """MMD² of the two samples, for a width in the units of the pair."""
    x, a, y, b, _ = given
    means = (
        kernel_mean(*one, *two, width, block) for one, two in (((x, a), (x, a)), ((y, b), (y, b)), ((x, a), (y, b)))
    )
    found = next(means) + next(means) - 2 * next(means)
    return displaced_mmd(given, width) if is_close(found, len(a) + len(b), len(a) + len(b)) else max(found, 0.0)


def is_close(found: float, n: int, m: int) -> bool:
    """Whether a value was found so small that second differences, of n × m pairs, should tell it."""
    return found < CLOSE and n * m <= CLOSE_PAIRS


def mixture_width(given: Pair) -> float:
    """The root mean square distance between two independent draws of the half-and-half mixture."""
    x, a, y, b, _ = given
    mean = (a @ x + b @ y) / 2
    spread = a @ np.sum((x - mean) ** 2, axis=1) + b @ np.sum((y - mean) ** 2, axis=1)
    return float(np.sqrt(spread)) or 1.0


def kernel_mean(x, a, y, b, width: float, block: int = 512) -> float:
    """∬ exp(−|z − z'|² / 2 width²) of two weighted samples, computed in float64 on the default device."""
    block = min(block, len(x))
    refuse_unless_affordable(
        f"A kernel mean in blocks of {block:,} × {len(y):,} atoms",
        16.0 * block * len(y),
        instead="Write a smaller `block`, such as 512, or fewer atoms: `cloud.resample(key, n)`.",
    )
    centre, width, short = a @ x, max(width, NARROWEST), -len(x) % block
    scaled = [(z - centre) / width for z in (x, y)]
    # |z|² + |z'|² − 2 z·z' is one product, and loses the digits of |z − z'| where the kernel is narrow.
    product = max(float(np.max(np.sum(z**2, axis=1))) for z in scaled) < 100
    with jax.enable_x64(True):
        rows, y = (jnp.asarray(z) for z in scaled)
        rows = jnp.pad(rows, ((0, short), (0, 0))).reshape(-1, block, x.shape[1])
        mass = jnp.pad(jnp.asarray(a), (0, short)).reshape(-1, block)
        return float((_by_product if product else _by_differences)(rows, mass, y, jnp.asarray(b)))


@jax.jit
def _by_product(rows, mass, y, b):
    half = jnp.sum(y**2, axis=1) / 2

    def one(piece):
        x, a = piece
        gaps = x @ y.T - half[None, :] - jnp.sum(x**2, axis=1)[:, None] / 2
        return a @ (jnp.exp(jnp.minimum(gaps, 0.0)) @ b)

    return jnp.sum(jax.lax.map(one, (rows, mass)))


@jax.jit
def _by_differences(rows, mass, y, b):
    def one(piece):
        x, a = piece
        gaps = jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)
        return a @ (jnp.exp(-gaps / 2) @ b)

    return jnp.sum(jax.lax.map(one, (rows, mass)))


def displaced_mmd(given: Pair, width: float, block: int = 2**20) -> float:
    """MMD² from the moves of a short coupling: right to rounding of its own size, however close the samples are."""
    pairs = close_pairs(given)
    size, scale = max(block // len(pairs.mass), 1), max(width, NARROWEST) * 2**0.5
    x, y = given.x[pairs.i] / scale, given.y[pairs.j] / scale
    parts = [slice(at, at + size) for at in range(0, len(x), size)]
    return max(float(sum(pairs.mass[i] @ _second_differences(x[i], y[i], x, y) @ pairs.mass for i in parts)), 0.0)


def _second_differences(x, y, x2, y2) -> Float[np.ndarray, "r k"]:
    """k(x, x') − k(x, y') − k(y, x') + k(y, y') of all pairs (x, y) and (x', y'), for k = exp(−|z − z'|²).

    With x, y = r ± h and d = r − r' it is 2 exp(−|d|²) (exp(−|h − h'|²) cosh 2d·(h − h') − exp(−|h + h'|²)
    cosh 2d·(h + h')), whose two parts nearly cancel; sinh and expm1 tell their difference.
    """
    r, h, r2, h2 = (x + y) / 2, (x - y) / 2, (x2 + y2) / 2, (x2 - y2) / 2
    here = 2 * (np.sum(r * h, axis=1)[:, None] - h @ r2.T)
    there = 2 * (r @ h2.T - np.sum(r2 * h2, axis=1))
    both = h @ h2.T
    small = np.abs(here) + np.abs(there) + 4 * np.abs(both) < 1
    here, there, both = (np.where(small, part, 0.0) for part in (here, there, both))
    sizes = np.sum(h**2, axis=1)[:, None] + np.sum(h2**2, axis=1)
    parts = np.cosh(here + there) * np.exp(-2 * both) * np.expm1(4 * both)
    parts -= 2 * np.exp(2 * both) * np.sinh(here) * np.sinh(there)
    found = 2 * np.exp(-squared_gaps(r, r2) - sizes) * parts
    if small.all():
        return found
    four = [np.exp(-squared_gaps(one, two)) for one in (x, y) for two in (x2, y2)]
    return np.where(small, found, four[0] - four[1] - four[2] + four[3])
