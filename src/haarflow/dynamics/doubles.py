"""Work in float64 whatever precision JAX has: for answers that float32 could not give, such as a fixed point to 1e-12.

Functionals keep the numbers they were given; inside `doubled` they are taken as float64, and so is all arithmetic.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp

P = ParamSpec("P")
T = TypeVar("T")


def doubled(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, run with 64 bits, and with every array among its arguments as float64."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            args, kwargs = jax.tree.map(_double, (args, kwargs))
            return function(*args, **kwargs)

    return run


def _double(leaf):
    floating = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf.astype(jnp.float64) if floating else leaf
