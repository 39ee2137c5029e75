"""Fixed spaces: by orbits where points are permuted up to sign, by null spaces otherwise."""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from haarflow.algebra.acting import as_action
from haarflow.algebra.cache import remembered
from haarflow.algebra.checks import affordable, fits
from haarflow.algebra.tables import readonly
from haarflow.errors import Refusal

NULL = 1e-8
"""Singular values of rho(g) − I and of Lie derivatives below this count as zero."""


@remembered
def basis(rep) -> Float[np.ndarray, "k m"]:
    """An orthonormal basis, in columns, of the vectors that the group fixes."""
    found = signed_generators(rep)
    if found is not None:
        return readonly(orbit_basis(*orbits(*found)))
    generators, lie = rep.group.generators(), rep.group.lie_algebra()
    fits(f"A matrix of {rep}", rep.dim, rep.dim)
    _refuse_long(rep, len(generators) + len(lie))
    moves = (np.asarray(rep.matrix(g)) - np.eye(rep.dim) for g in generators)
    turns = (rep.turning(a) for a in _generic_first(lie))
    return readonly(null_basis(chain(turns, moves), rep.dim))


@remembered
def projector(rep) -> Float[np.ndarray, "k k"]:
    """The orthogonal projector on the vectors that the group fixes."""
    fits(f"The projector of {rep}", rep.dim, rep.dim)
    basis = rep.fixed_basis()
    return readonly(basis @ basis.T)


def signed_generators(rep) -> tuple[np.ndarray, np.ndarray] | None:
    """What the generators gather, and with which signs; None when they, or the group, do anything else."""
    if len(rep.group.lie_algebra()):
        return None
    generators = rep.group.generators()
    wanted = "Write a representation on fewer coordinates."
    affordable("The orbits", rep, 4, rep.dim, len(generators) + 1, instead=wanted)
    found = rep.acting(as_action(generators if len(generators) else np.eye(rep.group.dim)[None]))
    if not found.permutes:
        return None
    gather = found.gathers()
    return gather.index, np.ones(gather.index.shape, np.int8) if gather.signs is None else gather.signs


def orbits(
    images: Int[np.ndarray, "m k"], signs: Int[np.ndarray, "m k"]
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The orbit of each coordinate, numbered from 0, and its sign in it; orbit −1 where a sign kills it.

    Generator j takes coordinate i from images[j, i] and gives it the sign signs[j, i]. A coordinate is killed
    when e_i and −e_i share an orbit.
    """
    k = images.shape[1]
    if np.all(signs > 0):
        return components(images), np.ones(k)
    odd = k * (signs < 0)
    cover = components(np.concatenate([images + odd, images + (k - odd)], axis=1))
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


def components(images: Int[np.ndarray, "m k"]) -> Int[np.ndarray, " k"]:
    """The orbits of 0 … k−1 under the maps i -> images[j, i], numbered as they are met."""
    m, k = images.shape
    links = csr_array((np.ones(m * k, np.int8), images.T.ravel(), np.arange(0, m * k + 1, m)), shape=(k, k))
    return connected_components(links, directed=False)[1].astype(np.int64)


def _generic_first(lie: Float[np.ndarray, "l d d"]) -> Iterator[Float[np.ndarray, "d d"]]:
    """The basis after one element in general position, which leaves few vectors for the others to test."""
    if len(lie) > 1:
        yield np.tensordot(np.cos(1.0 + np.arange(len(lie))), lie, 1)
    yield from lie


def _refuse_long(rep, operators: int) -> None:
    """Refuse a null space that would take longer than about half an hour."""
    if operators * rep.dim**2 > 10**11:
        raise Refusal(
            f"The fixed space of {rep} is that of {operators} matrices {rep.dim} × {rep.dim}, which takes "
            f"{operators * rep.dim**2:.0e} numbers; at most 1e+11 are computed. Write a smaller power."
        )
