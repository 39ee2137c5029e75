"""Fixed spaces: by orbits where points are permuted up to sign, by null spaces otherwise."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from haarflow.algebra.checks import fits

NULL = 1e-8
"""Singular values of rho(g) − I and of Lie derivatives below this count as zero."""


def orbits(
    images: Int[np.ndarray, "m k"], signs: Float[np.ndarray, "m k"]
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The orbit of each coordinate, numbered from 0, and its sign in it; orbit −1 where a sign kills it.

    Generator j sends e_i to signs[j, i] e_{images[j, i]}. A coordinate is killed
    when e_i and −e_i share an orbit.
    """
    k = images.shape[1]
    if np.all(signs > 0):
        return _components(images), np.ones(k)
    odd = k * (signs < 0)
    cover = _components(np.concatenate([images + odd, images + (k - odd)], axis=1))
    plus, minus = cover[:k], cover[k:]
    alive = plus != minus
    labels = np.full(k, -1)
    labels[alive] = np.unique(np.minimum(plus, minus)[alive], return_inverse=True)[1]
    return labels, np.where(plus > minus, -1.0, 1.0)


def orbit_basis(labels: Int[np.ndarray, " k"], signs: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k m"]:
    """One unit vector for each orbit."""
    count = int(labels.max(initial=-1)) + 1
    fits("The basis of the fixed space", len(labels), count)
    alive = np.flatnonzero(labels >= 0)
    sizes = np.bincount(labels[alive], minlength=count)
    basis = np.zeros((len(labels), count))
    basis[alive, labels[alive]] = signs[alive] / np.sqrt(sizes[labels[alive]])
    return basis


def null_basis(operators: Iterable[Float[np.ndarray, "k k"]], k: int) -> Float[np.ndarray, "k m"]:
    """Orthonormal vectors that every operator sends to zero, found one operator after the other."""
    basis = np.eye(k)
    for operator in operators:
        if basis.shape[1]:
            _, values, rows = np.linalg.svd(operator @ basis, full_matrices=False)
            basis = basis @ rows[values < NULL].T
    return np.linalg.qr(basis)[0] if basis.shape[1] < k else basis


def _components(images: Int[np.ndarray, "m k"]) -> Int[np.ndarray, " k"]:
    """The orbits of 0 … k−1 under the maps i -> images[j, i], numbered as they are met."""
    m, k = images.shape
    links = csr_array((np.ones(m * k, np.int8), images.T.ravel(), np.arange(0, m * k + 1, m)), shape=(k, k))
    return connected_components(links, directed=False)[1].astype(np.int64)
