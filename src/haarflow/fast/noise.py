"""Gaussian noise by counters: the number at (key, particle, coordinate) depends on nothing else.

Threefry-2x32 with 13 rounds, unrolled, hashes the counter (particle, coordinate) under the step's key into two 32-bit
words; the radius and the cosine of Box and Muller turn them into one standard normal. So the noise of a particle does
not depend on how many other particles there are, on blocks or on shards. The same words serve float32 and float64
(tails to 6.7 sigma), so that runs in both precisions share their noise up to rounding; and each is made in its own
precision, since compiled programs round float32 differently, which float64 runs would see.
"""

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt32

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.fast.switch import fast
from haarflow.values import refuse_unless_affordable, said, whole

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ROUNDS = 13  # the fewest that pass BigCrush (Salmon, Moraes, Dror and Shaw 2011)
_PARITY = np.uint32(0x1BD11BDA)
_ROOT_HALF = np.int32(0x3F3504F3)  # the bits of √½
_TAYLOR = [(-1) ** k / math.factorial(2 * k) for k in range(12)]
# The best polynomials of their degree: (log(1 + x) − x) / x² to 6e-8 of the logarithm, cos √s to 2e-10.
_LOG = [-0.49999982, 0.33334225, -0.25002491, 0.19953613, -0.16552335, 0.14979286, -0.14441872, 0.08733625]
_COS = [1.0, -0.5, 0.041666638, -0.0013888362, 2.4760162e-05, -2.6051495e-07]


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


@cache
def _unrolled() -> Any:
    """The generator, made when it is first wanted: `define_prng_impl` is a part of JAX that may change."""
    from jax.extend.random import define_prng_impl

    return define_prng_impl(
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
    if not fast() or jax.random.key_impl(key) != "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_unrolled())


@door
def gaussian(key: PRNGKeyArray, shape: Sequence[int], dtype: Any = None, *, first: Any = 0) -> Float[Array, "n p"]:
    """Standard normals (n, p) for the particles first, first + 1, ...: one row each, whatever n is.

    On a CPU they take less than half the time of `jax.random.normal`, also for the inputs of a law.
    """
    if len(shape) != 2 or min(shape) < 0:
        raise Refusal(f"Gaussian noise has a row for each particle; got the shape {tuple(shape)}. Write (n, p).")
    kind = _precision(dtype)
    refuse_unless_affordable(
        f"Gaussian noise of shape {tuple(shape)}", float(math.prod(shape)) * kind.itemsize, instead="Draw it in blocks."
    )
    if not isinstance(first, Tracer) and not 0 <= whole("The first particle", first) <= 2**32 - shape[0]:
        raise Refusal(
            f"Gaussian noise counts particles from 0 to 2**32; got {shape[0]} from {first}. Write first=0, or another "
            "key for the particles beyond."
        )
    return _drawn(key, first, tuple(shape), kind)


def _precision(dtype: Any) -> np.dtype:
    """float32 or float64; by default the one that JAX has."""
    try:
        found = jnp.dtype(jnp.result_type(float) if dtype is None else dtype)
    except TypeError:
        found = jnp.dtype(bool)
    if found not in (jnp.float32, jnp.result_type(float)):
        reason = " before jax.config.update('jax_enable_x64', True)" if found == jnp.float64 else ""
        raise Refusal(f"Gaussian noise is float32 or float64; got {said(dtype)}{reason}. Write jnp.float32.")
    return found


@partial(jax.jit, static_argnames=("shape", "dtype"), inline=True)
def _drawn(key, first, shape, dtype):
    particles, coordinates = (jax.lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in (0, 1))
    particles = particles + jnp.asarray(first, jnp.uint32)
    radius_word, angle_word = threefry(jax.random.key_data(key), particles, coordinates, rounds=_ROUNDS)
    return _radius(radius_word, dtype) * _cosine(angle_word, dtype)


def _radius(word: UInt32[Array, "..."], dtype) -> Float[Array, "..."]:
    """`sqrt(−2 log u)` for u uniform in (0, 1), of which the word gives 31 bits: up to 6.7."""
    count = (word >> np.uint32(1)).astype(jnp.int32).astype(dtype) + 0.5
    if dtype != jnp.float32 or not fast():
        return jnp.sqrt(-2 * jnp.log(count * 2.0**-31))
    # u = 2^e (1 + x) with 1 + x between the roots of ½ and 2: a quarter less than `log`, which also serves 0 and inf.
    bits = jax.lax.bitcast_convert_type(count, jnp.int32) - _ROOT_HALF
    power = (bits >> np.int32(23)) - np.int32(31)
    x = jax.lax.bitcast_convert_type((bits & np.int32(0x7FFFFF)) + _ROOT_HALF, jnp.float32) - 1
    logarithm = power.astype(jnp.float32) * np.float32(math.log(2)) + (x + x * x * _polynomial(_LOG, x))
    return jnp.sqrt(-2 * logarithm)


def _cosine(word: UInt32[Array, "..."], dtype) -> Float[Array, "..."]:
    """The cosine of a uniform angle: one bit for the sign, 31 for the angle in [0, π/2)."""
    angle = (word >> np.uint32(1)).astype(jnp.int32).astype(dtype) * (math.pi / 2**32)
    series = _COS if dtype == jnp.float32 else _TAYLOR
    value = _polynomial(series, angle * angle)
    return jnp.where((word & np.uint32(1)) == np.uint32(1), -value, value)


def _polynomial(coefficients: list[float], x: Float[Array, "..."]) -> Float[Array, "..."]:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
