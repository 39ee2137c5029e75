"""The variation norm of a network of neurons: what its signed measure weighs, after equal neurons are merged.

A particle (a, w) of a `Neuron` without bias is `a|w| relu(<w/|w|, x>)`: the atom a|w| at the direction w/|w| of a
signed measure on the sphere. Atoms of one direction add up, and may cancel. The norm F1 of the function is the least
total variation of a measure that makes it, so the value here bounds it from above; `relu_program` finds the least one
from data.
"""

from typing import Annotated

import numpy as np
from jaxtyping import Float

from haarflow.doors import Count, Least, door
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform


@door
def merged_neurons(cloud: Cloud, *, outputs: Count = 1, tolerance: Annotated[float, Least(0)] = 1e-9) -> Cloud:
    """The same network with one particle for each direction, as a uniform cloud of (a, w) with |w| = 1.

    Particles whose directions are within `tolerance` of each other, or of a chain of others, become one with the sum of
    their outputs; those that cancel, or have no weight, are dropped, and of an empty network one particle (0, w) stays.
    """
    heads, directions = _measure(cloud, outputs)
    labels = _alike(directions, tolerance)
    sums = np.zeros((labels.max(initial=0) + 1, outputs))
    np.add.at(sums, labels, heads)
    first = np.array([np.flatnonzero(labels == label)[0] for label in range(len(sums))], int)
    kept = np.linalg.norm(sums, axis=1) > 1e-15 * max(np.abs(heads).sum(), 1e-300)
    kept[0] |= not kept.any()
    sums, ways = sums[kept], directions[first[kept]]
    return uniform(np.column_stack([len(sums) * sums, ways]))


@door
def variation_norm(cloud: Cloud, *, outputs: Count = 1, tolerance: Annotated[float, Least(0)] = 1e-9) -> float:
    """The total variation of the network's measure after merging: the sum over directions of |Σ weight · a · |w||.

    `variation_norm(uniform([[1.0, 3.0, 4.0], [-1.0, 3.0, 4.0]]))` is 0: the two neurons cancel.
    """
    merged = merged_neurons(cloud, outputs=outputs, tolerance=tolerance)
    return float(np.linalg.norm(np.asarray(merged.atoms)[:, :outputs], axis=1).mean())


def _measure(cloud: Cloud, outputs: int) -> tuple[Float[np.ndarray, "n c"], Float[np.ndarray, "n d"]]:
    """Each particle as an atom of a measure on the sphere: its vector of outputs, and its direction."""
    if cloud.atoms.ndim != 2 or cloud.p <= outputs:
        raise Refusal(
            f"Neurons are particles (a, w) with {outputs} outputs and at least one input; got atoms "
            f"{cloud.atoms.shape}. Write a cloud of a Neuron(inputs, outputs)."
        )
    atoms, weights = np.asarray(cloud.atoms, float), np.asarray(cloud.weights, float)
    lengths = np.linalg.norm(atoms[:, outputs:], axis=1)
    safe = np.where(lengths > 0, lengths, 1.0)[:, None]
    directions = np.where(lengths[:, None] > 0, atoms[:, outputs:] / safe, np.eye(1, cloud.p - outputs))
    return weights[:, None] * atoms[:, :outputs] * lengths[:, None], directions


def _alike(directions: Float[np.ndarray, "n d"], tolerance: float) -> np.ndarray:
    """A label for each direction, the same for those within the tolerance of each other or of a chain."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    pairs = KDTree(directions).query_pairs(tolerance, output_type="ndarray")
    n = len(directions)
    near = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return connected_components(near, directed=False)[1]
