"""Small arrays settle: the same numbers, computed once; and one thread is one thread."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.settling import settled


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.uint32])
def test_settled_arrays_are_the_same_to_the_bit(dtype):
    tree = {"a": jax.random.normal(jax.random.key(0), (5, 3)) * 1e9, "b": jnp.array(7.0), "c": jnp.arange(4.0)}
    tree = jax.tree.map(lambda leaf: jnp.abs(leaf).astype(dtype), tree)
    for before, after in zip(jax.tree.leaves(tree), jax.tree.leaves(settled(tree)), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)


def test_what_is_settled_is_not_computed_again_for_every_particle():
    """Of the compiled program, the part that runs over particles holds no cosine: it is taken of 20 numbers alone."""

    def parts_with_both(hold):
        def run(x, particles):
            return jnp.tanh(hold(jnp.cos(x))[None, :] + particles)

        text = jax.jit(run).lower(jnp.ones(20), jnp.ones((1000, 20))).compile().as_text()
        return sum("cosine(" in part and "tanh(" in part for part in text.split("\n}\n"))

    assert parts_with_both(settled) == 0
    assert parts_with_both(lambda x: x) == 1


def test_one_thread_is_one_thread():
    """A worker's programs are not cut into parts for other threads, however many cores there are."""
    code = """
from haarflow.runs.machine import one_thread
one_thread()
import jax, jax.numpy as jnp
print(jax.jit(jnp.tanh).lower(jnp.ones((1000, 1000))).compile().as_text())
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("NPROC", "XLA_FLAGS")}
    text = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "tanh" in text.stdout
    assert 'outer_dimension_partitions":["' not in text.stdout
