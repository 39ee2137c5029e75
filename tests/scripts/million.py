"""A million particles in R^66 on batches of 640, in float32: prints the most memory the process has held, in GB."""

import resource

import jax
import jax.numpy as jnp
import numpy as np

import haarflow as hf


def law(key, size):
    """Something to learn in 64 dimensions."""
    xs = jax.random.normal(key, (size, 64), jnp.float32)
    return xs, jnp.tanh(xs[:, :1] - xs[:, 1:2])


if __name__ == "__main__":
    field = hf.Descend(hf.Risk(hf.Perceptron(64, 1, "tanh"), hf.Stream(law, 640)) + hf.Penalty(1e-4))
    cloud = hf.uniform(np.random.default_rng(0).standard_normal((1_000_000, 66), np.float32))
    hf.flow(field, hf.Langevin(hf.Euler(), 1e-6), cloud, key=jax.random.key(0), dt=0.01, steps=2)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
