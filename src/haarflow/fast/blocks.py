"""Large clouds in blocks of particles: memory for a block's evaluations, whatever the size of the cloud.

The particles lie in rows, and a block is a window of columns: where the rows are divided among devices, every device
has its share of every block. The last window is moved back to fit, and counts only what was not counted.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from haarflow.fast import tuning
from haarflow.fast.switch import fast


class Layout(NamedTuple):
    """How a cloud is cut: rows of particles, the width of a block, and the number of blocks."""

    rows: int
    width: int
    blocks: int


def form(unit):
    """How a unit is evaluated: by its fused form, if it has one and the fast forms run, else by its formula."""
    return (unit.fused() if fast() else None) or unit


def weighted_sum(unit, weights, thetas, xs):
    """`unit.weighted_sum`, at once where it fits, else block by block."""
    size, fused = _size(unit, xs, tuning.SUMMED), form(unit)
    if len(thetas) <= size or not fast():
        return fused.weighted_sum(weights, thetas, xs)
    layout = _layout(len(thetas), size)

    def add(i, so_far):
        _, mass, atoms = _window(i, layout, weights, thetas)
        return so_far + fused.weighted_sum(mass, atoms, xs)

    shape = jax.eval_shape(fused.weighted_sum, weights[:1], thetas[:1], xs)
    return jax.lax.fori_loop(0, layout.blocks, add, jnp.zeros(shape.shape, shape.dtype))


def pullback(unit, weights, thetas, xs, cotangent):
    """`unit.pullback`, at once where it fits, else the outputs of all blocks first, then what comes back to each."""
    size, fused = _size(unit, xs, tuning.AT_ONCE), form(unit)
    if len(thetas) <= size or not fast():
        return fused.pullback(weights, thetas, xs, cotangent)
    layout = _layout(len(thetas), size)
    slopes = cotangent(weighted_sum(unit, weights, thetas, xs))

    def fill(i, so_far):
        start, mass, atoms = _window(i, layout, weights, thetas)
        if atoms.shape[1] <= tuning.SHORT_BLOCK:
            atoms = atoms @ jnp.eye(atoms.shape[1], dtype=atoms.dtype)  # a barrier along rows, see materialise.py
        found = fused.pullback(mass, atoms, xs, lambda _: slopes)
        return jax.tree.map(
            lambda kept, new: jax.lax.dynamic_update_slice_in_dim(kept, _rows(new, layout), start, 1), so_far, found
        )

    empty = _rows(jnp.zeros_like(weights), layout), _rows(jnp.zeros_like(thetas), layout)
    potential, gradient = jax.lax.fori_loop(0, layout.blocks, fill, empty)
    return potential.reshape(weights.shape), gradient.reshape(thetas.shape)


def _size(unit, xs, most: int) -> int:
    samples = xs.shape[0] if isinstance(xs.shape[0], int) else tuning.UNKNOWN_BATCH
    return max(1, most // max(1, samples * unit.outputs * xs.dtype.itemsize))


def _layout(n: int, size: int) -> Layout:
    common = math.gcd(n, tuning.ROWS)
    rows = max(rows for rows in range(1, min(common, size) + 1) if common % rows == 0)
    width = size // rows
    return Layout(rows, width, -(-(n // rows) // width))


def _rows(array, layout: Layout):
    return array.reshape(layout.rows, -1, *array.shape[1:])


def _window(i, layout: Layout, weights, thetas):
    """Where block i starts, its weights (0 for those that an earlier block counted) and its atoms."""
    mass, atoms = _rows(weights, layout), _rows(thetas, layout)
    start = jnp.minimum(i * layout.width, mass.shape[1] - layout.width)
    mass, atoms = (jax.lax.dynamic_slice_in_dim(array, start, layout.width, 1) for array in (mass, atoms))
    fresh = start + jnp.arange(layout.width) >= i * layout.width
    return start, jnp.where(fresh[None], mass, 0).ravel(), atoms.reshape(-1, thetas.shape[1])
