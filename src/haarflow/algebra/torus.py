"""Weyl's integration formula: class functions of O(n) and SO(n), integrated exactly on a grid of angles."""

from itertools import combinations

import numpy as np
from jaxtyping import Float

from haarflow.algebra.checks import fits
from haarflow.algebra.tables import blocks
from haarflow.values import whole


def torus(n: int, degree: int, sign: int) -> tuple[Float[np.ndarray, "q d d"], Float[np.ndarray, " q"]]:
    """Elements of determinant `sign` and weights, exact for class functions whose weights are ≤ degree."""
    if n % 2 and sign < 0:
        elements, weights = torus(n, degree, 1)
        return -elements, weights
    mirrored = sign < 0
    m = n // 2 - mirrored
    count = _count(n, degree)
    fits(f"The grid of angles for SO({n})", count**m, n, n)
    angles = 2 * np.pi / count * np.indices((count,) * m).reshape(m, count**m).T
    rest = [np.diag([1.0, -1.0])] if mirrored else [np.eye(n % 2)]
    elements = np.stack([blocks(*map(_turn, row), *rest) for row in angles])
    weights = _density(np.cos(angles), odd=bool(n % 2), mirrored=mirrored)
    return elements, weights / weights.sum()


def torus_size(n: int, degree: int, sign: int) -> int:
    """How many elements `torus` lists."""
    return _count(n, degree) ** ((n - (sign < 0)) // 2)


def _count(n: int, degree: int) -> int:
    """How many angles are exact on one circle."""
    return whole("The degree of a class function", degree, least=0) + 2 * n + 1


def _density(c: Float[np.ndarray, "q m"], odd: bool, mirrored: bool) -> Float[np.ndarray, " q"]:
    """The law of the eigenangles under Haar, up to a constant."""
    density = np.ones(len(c))
    for i, j in combinations(range(c.shape[1]), 2):
        density *= (c[:, i] - c[:, j]) ** 2
    if odd:
        density *= np.prod(1 - c, axis=1)
    if mirrored:
        density *= np.prod(1 - c**2, axis=1)
    return density


def _turn(angle: float) -> Float[np.ndarray, "2 2"]:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
