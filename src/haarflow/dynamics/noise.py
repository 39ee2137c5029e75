"""Gaussian noise by counters: the number at (key, particle, coordinate) depends on nothing else.

Threefry-2x32 with 13 rounds, unrolled, hashes the counter (particle, coordinate) under the step's key into two 32-bit
words; the radius and the cosine of Box and Muller turn them into one standard normal. So the noise of a particle does
not depend on how many other particles there are, on blocks or on shards. The same words serve float32 and float64
(tails to 6.7 sigma), so that runs in both precisions share their noise up to rounding; and each is made in its own
precision, since compiled programs round float32 differently, which float64 runs would see.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt32

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ROUNDS = 13  # the fewest that pass BigCrush (Salmon, Moraes, Dror and Shaw 2011)
_PARITY = np.uint32(0x1BD11BDA)


def threefry(key: UInt32[Array, "2"], high: UInt32[Array, "..."], low: UInt32[Array, "..."], *, rounds: int = 20):
    """Threefry-2x32, written out so that the compiler can vectorise it; JAX's own keys have 20 rounds."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    high, low = high + schedule[0], low + schedule[1]
    for done in range(1, rounds + 1):
        rotation = _ROTATIONS[(done - 1) % 8]
        high = high + low
        low = high ^ ((low << np.uint32(rotation)) | (low >> np.uint32(32 - rotation)))
        if done % 4 == 0:
            block = done // 4
            high = high + schedule[block % 3]
            low = low + schedule[(block + 1) % 3] + np.uint32(block)
    return high, low


def _hashed(key: UInt32[Array, "2"], shape: tuple[int, ...]):
    """Two words for every position of an array, row by row."""
    positions = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return threefry(key, jnp.zeros_like(positions), positions)


def _bits(key, width: int, shape: tuple[int, ...]):
    high, low = _hashed(key, shape)
    if width == 64:
        return (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{width}")


def _fold_in(key, number):
    return jnp.stack(threefry(key, jnp.zeros((), jnp.uint32), jnp.asarray(number, jnp.uint32)))


_UNROLLED = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl="threefry2x32")),
    split=lambda key, shape: jnp.stack(_hashed(key, shape), axis=len(shape)),
    random_bits=_bits,
    fold_in=_fold_in,
    name="threefry2x32 unrolled",
    tag="fryu",
)


def unrolled(key: Key[Array, "..."]) -> Key[Array, "..."]:
    """The same key, whose draws are JAX's own to the bit but made without loops; another kind of key stays itself."""
    if jax.random.key_impl(key) != "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_UNROLLED)


def gaussian(
    key: PRNGKeyArray, shape: tuple[int, int], dtype=jnp.float32, *, first: int | Array = 0
) -> Float[Array, "n p"]:
    """Standard normals (n, p) for the particles first, first + 1, ...: one row each, whatever n is."""
    n, p = shape
    # One long axis: the compiler vectorises over the last, and p may be small.
    positions = jax.lax.iota(jnp.uint32, n * p)
    particles = positions // np.uint32(p) + jnp.asarray(first, jnp.uint32)
    words = threefry(jax.random.key_data(key), particles, positions % np.uint32(p), rounds=_ROUNDS)
    radius_word, angle_word = words
    uniform = (radius_word.astype(dtype) + 0.5) * 2.0**-32
    return (jnp.sqrt(-2 * jnp.log(uniform)) * _cosine(angle_word, dtype)).reshape(n, p)


def _cosine(word: UInt32[Array, "m"], dtype) -> Float[Array, "m"]:
    """The cosine of a uniform angle: one bit for the sign, 31 for the angle in [0, π/2), by its Taylor series."""
    angle = (word >> np.uint32(1)).astype(jnp.int32).astype(dtype) * (math.pi / 2**32)
    square = angle * angle
    terms = 8 if dtype == jnp.float32 else 12
    value = jnp.zeros_like(square)
    for k in reversed(range(terms)):
        value = value * square + (-1) ** k / math.factorial(2 * k)
    return jnp.where((word & np.uint32(1)) == np.uint32(1), -value, value)
