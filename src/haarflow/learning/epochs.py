"""Rows dealt out epoch by epoch, each once, from the key and the number of the step alone: nothing is kept or sorted.

The rows of all epochs stand in one endless line, every epoch in an order of its own, and step k takes the next `size`
of them; where the size does not divide the number of rows, a batch goes on into the next epoch. The order of an epoch
is a swap-or-not shuffle (Hoang, Morris and Rogaway 2012), which finds the row at one place without the others: in each
of 6 log₂ m rounds a row x and its partner s − x mod m change places if a hash of the larger of the two says so.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from haarflow.errors import Refusal

_ORDER = 0x0E90_C45E  # where the orders of the epochs come from, apart from the keys of the steps
_LONGEST = 2**31


def refuse_unless_counted(size: int, m: int) -> None:
    """A sentence, where places in the line are too large for 32 bits before batches begin with an epoch again."""
    if math.lcm(size, m) >= _LONGEST:
        raise Refusal(
            f"Batches without replacement begin with an epoch again within 2**31 rows; got batches of {size} from {m} "
            f"rows, which need {math.lcm(size, m)}. Write a size that divides the number of rows."
        )


def rows_at(key: PRNGKeyArray, step: Int[Array, ""] | int, size: int, m: int) -> Int[Array, "b"]:
    """The rows that step k takes, numbers from 0 to m − 1, the same for the same key and step."""
    common = math.gcd(size, m)
    again, at = jnp.divmod(jnp.asarray(step, jnp.int32), m // common)  # so many batches make whole epochs
    place = at * size + jnp.arange(size, dtype=jnp.int32)
    first = again * (size // common) + at * size // m
    return _shuffled(jax.random.fold_in(key, _ORDER), first, place // m - at * size // m, place % m, m)


def _shuffled(key, first, epoch, x, m: int):
    """The row at place x of its epoch, which is counted from the `first` that is met here."""
    met = x.shape[0] // m + 2
    rounds = 6 * max(1, math.ceil(math.log2(m)))
    orders = jax.vmap(lambda number: jax.random.fold_in(key, number))(first + jnp.arange(met, dtype=jnp.int32))
    keys = jax.vmap(lambda order: jax.random.split(order, rounds), out_axes=1)(orders)
    shifts = jax.vmap(jax.vmap(lambda one: jax.random.randint(one, (), 0, m, jnp.int32)))(keys)

    def swapped(x, given):
        key, shift = given
        partner = (shift[epoch] - x) % m
        words = jax.random.key_data(jax.vmap(jax.random.fold_in)(key[epoch], jnp.maximum(x, partner)))
        return jnp.where(words[:, -1] & 1 == 1, partner, x), None

    return jax.lax.scan(swapped, x, (keys, shifts))[0]
