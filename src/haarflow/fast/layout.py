"""How arrays lie in memory: transposed for real, where XLA would only relabel their axes."""

import jax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float

from haarflow.fast import tuning
from haarflow.fast.switch import fast


def lies_turned(coordinates: int) -> bool:
    """Whether rows of so many coordinates lie as columns, (p, n), in the loop of a flow."""
    return fast() and coordinates < tuning.SHORT_ROW


def turned(leaf: Float[Array, "*r n p"], mesh: Mesh | None, axis: str) -> Float[Array, "*r p n"]:
    """Transpose the last two axes and force the transposed layout in memory; XLA would otherwise only relabel them.

    The particles stay divided over the mesh's axis of that name.
    """
    from jax.experimental.layout import Layout, with_layout_constraint

    def exchanged(part):
        return with_layout_constraint(part.swapaxes(-1, -2), Layout(tuple(range(part.ndim))))

    if mesh is None:
        return exchanged(leaf)
    before, after = (PartitionSpec(*[None] * place, axis) for place in (leaf.ndim - 2, leaf.ndim - 1))
    return jax.shard_map(exchanged, mesh=mesh, in_specs=before, out_specs=after)(leaf)
