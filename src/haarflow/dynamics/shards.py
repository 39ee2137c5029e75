"""One flow on several devices, of this process or of many: the particles are divided, all else is everywhere.

Fields and schemes do not know of it. The compiler divides the program as its inputs are divided; sums over particles
become sums over devices; and the noise counts particles, so that each device draws the rows that are its own.
"""

import weakref
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from haarflow.dynamics.players import Along
from haarflow.errors import Refusal

T = TypeVar("T")
AXIS = "particles"
_LARGE = 2**20  # bytes, from which on the copies of an array are kept
_copies: dict[tuple[int, Mesh], tuple[weakref.ref, jax.Array]] = {}


def mesh_of(devices: int | None) -> Mesh | None:
    """The first so many devices that JAX sees; None leaves everything where it is."""
    if devices is None:
        return None
    seen, processes = jax.devices(), jax.process_count()
    if not 1 <= devices <= len(seen):
        raise Refusal(
            f"A flow runs on devices that JAX sees; got devices={devices} and {len(seen)} of them. For several on one "
            f"CPU set XLA_FLAGS=--xla_force_host_platform_device_count={max(devices, 1)} before Python starts."
        )
    if processes > 1 and devices != len(seen):
        raise Refusal(
            f"A flow over {processes} processes uses the devices of all of them; got devices={devices} of {len(seen)}. "
            "Write devices=jax.device_count()."
        )
    return Mesh(np.array(seen[:devices]), (AXIS,))


def divided(tree: T, along: Any, mesh: Mesh | None) -> T:
    """The same arrays, those in which particles lie along an axis divided along it, the others on every device.

    `along` says for every array whose particles lie where, see `particle_axes`.
    """
    if mesh is None:
        return tree

    def place(leaf, one: Along):
        axes: list[str | None] = [None] * leaf.ndim
        for axis, _ in one.axes[:1]:
            _refuse_unless_even(leaf.shape[axis], mesh)
            axes[axis] = AXIS
        return _put(leaf, NamedSharding(mesh, PartitionSpec(*axes)))

    return jax.tree.map(place, tree, along)


def _refuse_unless_even(n: int, mesh: Mesh) -> None:
    if n % mesh.size:
        raise Refusal(
            f"A flow on several devices gives each the same number of particles; got {n} particles and {mesh.size} "
            f"devices. Write a cloud of {-(-n // mesh.size) * mesh.size}, or another number of devices."
        )


def everywhere(tree: T, mesh: Mesh | None) -> T:
    """The same arrays on every device; what is not an array stays itself.

    What the caller has divided among these devices, such as the rows of a sample that fits on none, stays divided; the
    copies of a large array serve every flow on these devices as long as the array lives.
    """
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: _spread(leaf, mesh) if isinstance(leaf, jax.Array) else leaf, tree)


def _spread(leaf: jax.Array, mesh: Mesh) -> jax.Array:
    place = NamedSharding(mesh, PartitionSpec())
    if leaf.sharding.device_set == place.device_set and not leaf.is_fully_replicated and leaf.ndim:
        return _put(leaf, NamedSharding(mesh, PartitionSpec(AXIS)))
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) or leaf.nbytes < _LARGE:
        return _put(leaf, place)
    known = _copies.get((id(leaf), mesh))
    if known is None or known[0]() is not leaf:
        name = id(leaf), mesh
        known = weakref.ref(leaf, lambda _: _copies.pop(name, None)), _put(leaf, place)
        _copies[name] = known
    return known[1]


def _put(leaf: jax.Array, place: NamedSharding) -> jax.Array:
    if not jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.device_put(leaf, place)
    # Keys go by their words: JAX does not put them on the devices of other processes.
    words = jax.device_put(jax.random.key_data(leaf), place)
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))


def whole(array: Any) -> np.ndarray:
    """All of an array in this process, also of one whose parts are in others."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(array, tiled=True))


def agreed(answer: bool, mesh: Mesh | None) -> bool:
    """The first process's answer, where many must do the same: their clocks differ."""
    if mesh is None or jax.process_count() == 1:
        return answer
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return bool(broadcast_one_to_all(np.asarray(answer)))
