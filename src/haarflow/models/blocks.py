"""Large clouds in blocks of particles: memory for a block's evaluations, whatever the size of the cloud.

A block is a window of the cloud; the last window is moved back to fit, and counts only what was not counted.
"""

import jax
import jax.numpy as jnp

AT_ONCE = 2**20  # evaluations of a unit, one per particle, input and output, that are held in memory together


def total(unit, weights, thetas, xs):
    """`unit.total`, at once where it fits, else block by block."""
    if len(thetas) <= _size(unit, xs):
        return unit.total(weights, thetas, xs)

    def add(i, so_far):
        _, mass, atoms = _window(i, _size(unit, xs), weights, thetas)
        return so_far + unit.total(mass, atoms, xs)

    shape = jax.eval_shape(unit.total, weights[:1], thetas[:1], xs)
    return jax.lax.fori_loop(0, _count(unit, thetas, xs), add, jnp.zeros(shape.shape, shape.dtype))


def feedback(unit, weights, thetas, xs, answer):
    """`unit.feedback`, at once where it fits, else the outputs of all blocks first, then what comes back to each."""
    if len(thetas) <= _size(unit, xs):
        return unit.feedback(weights, thetas, xs, answer)
    slopes = answer(total(unit, weights, thetas, xs))

    def fill(i, so_far):
        start, mass, atoms = _window(i, _size(unit, xs), weights, thetas)
        found = unit.feedback(mass, atoms, xs, lambda _: slopes)
        return jax.tree.map(lambda kept, new: jax.lax.dynamic_update_slice_in_dim(kept, new, start, 0), so_far, found)

    empty = jnp.zeros_like(weights), jnp.zeros_like(thetas)
    return jax.lax.fori_loop(0, _count(unit, thetas, xs), fill, empty)


def _size(unit, xs) -> int:
    return max(1, AT_ONCE // (len(xs) * unit.outputs))


def _count(unit, thetas, xs) -> int:
    return -(-len(thetas) // _size(unit, xs))


def _window(i, size, weights, thetas):
    """Where block i starts, its weights (0 for those that an earlier block counted) and its atoms."""
    start = jnp.minimum(i * size, len(thetas) - size)
    mass = jax.lax.dynamic_slice_in_dim(weights, start, size)
    fresh = start + jnp.arange(size) >= i * size
    return start, jnp.where(fresh, mass, 0), jax.lax.dynamic_slice_in_dim(thetas, start, size)
