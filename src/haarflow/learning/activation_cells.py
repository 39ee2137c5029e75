"""Activation cells: the cones of directions that switch the same inputs on, listed one by one.

The hyperplanes `<w, z_i> = 0` cut R^k into cones. Adding one hyperplane cuts exactly those cones in two that its own
arrangement, one dimension lower, says it meets: so the list is built by deletion and restriction, without a solver.
"""

from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from haarflow.errors import Refusal

_PARALLEL = 1e-11  # rows whose directions differ by less than this are on one line


class Cells(NamedTuple):
    """Which inputs each cell switches on, a direction strictly inside it, and whether the inputs lie generally."""

    patterns: Bool[np.ndarray, "cells b"]
    directions: Float[np.ndarray, "cells k"]
    general: bool


def count_cells(b: int, k: int) -> int:
    """The cells of b hyperplanes through the origin of R^k in general position: `2 Σ_{j<k} C(b−1, j)` (Cover).

    In special position there are fewer: `count_cells(4, 2)` is 8, as many as four lines cut the plane into.
    """
    return 2 * sum(comb(b - 1, j) for j in range(k)) if b else 1


def activation_cells(rows: Float[np.ndarray, "b k"]) -> Cells:
    """All cells of the hyperplanes across these rows; rows of zeros are never on, rows on one line switch together.

    The number of cells is checked against Cover's formula: equal in general position, at most that in special.
    """
    lengths = np.linalg.norm(rows, axis=1)
    kept = lengths > 1e-13 * max(lengths.max(initial=0.0), 1e-300)
    lines, line_of, signs = _lines(rows[kept] / lengths[kept, None])
    _, sizes, frame = np.linalg.svd(lines, full_matrices=False)
    rank = int((sizes > 1e-10 * sizes[0]).sum()) if len(sizes) else 0
    flat = lines @ frame[:rank].T
    found, points, general = _signs(flat / np.linalg.norm(flat, axis=1, keepdims=True))
    most = count_cells(len(lines), rank)
    if len(found) > most or (general and len(found) != most):
        raise Refusal(
            f"{len(lines)} hyperplanes of R^{rank} have {most} cells at most; the enumeration held {len(found)}. "
            "Move inputs apart that nearly coincide."
        )
    patterns = np.zeros((len(found), len(rows)), bool)
    patterns[:, kept] = found[:, line_of] * signs > 0
    return Cells(patterns, points @ frame[:rank], general and len(lines) == kept.sum())


def _lines(units: Float[np.ndarray, "b k"]):
    """One row of each line, the line of every row, and whether a row points along it (+1) or against it (−1)."""
    first, line_of, signs = [], np.zeros(len(units), int), np.ones(len(units))
    free = np.ones(len(units), bool)
    for i in range(len(units)):
        if not free[i]:
            continue
        along = units @ units[i]
        apart = np.linalg.norm(units - np.sign(along)[:, None] * units[i], axis=1)
        same = free & (apart < _PARALLEL)
        line_of[same], signs[same] = len(first), np.sign(along[same])
        free &= ~same
        first.append(i)
    return units[first], line_of, signs


def _signs(lines: Float[np.ndarray, "m k"]):
    """The sign vectors of all cells of different lines that span R^k, points inside the cells, and generality."""
    m, k = lines.shape
    if k == 0:
        return np.ones((1, 0)), np.zeros((1, 0)), True
    if k == 1:
        return np.array([[1.0], [-1.0]]), np.array([lines[0], -lines[0]]), True
    if k == 2:
        return _sectors(lines)
    signs, points, general = np.array([[1.0], [-1.0]]), np.array([lines[0], -lines[0]]), True
    for j in range(1, m):
        on, places, plain = _restricted(lines[:j], lines[j])
        general &= plain
        met = np.isin(_names(signs), _names(on))
        if met.sum() != len(on):
            raise Refusal(
                f"Cells are told apart by signs; got {len(on)} cells of a hyperplane of which {met.sum()} were known. "
                "Move inputs apart that nearly coincide."
            )
        sides = np.sign(points[~met] @ lines[j])
        room = np.abs(places @ lines[:j].T) / np.maximum(np.abs(lines[:j] @ lines[j]), 1e-300)
        lift = np.minimum(0.5 * room.min(axis=1), 1.0)[:, None] * lines[j]
        signs = np.concatenate(
            [np.column_stack([signs[~met], sides]), *(np.column_stack([on, np.full(len(on), s)]) for s in (1.0, -1.0))]
        )
        points = np.concatenate([points[~met], places + lift, places - lift])
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return signs, points, general


def _sectors(lines: Float[np.ndarray, "m 2"]):
    """The cells of lines through the origin of the plane: the sectors between neighbouring directions."""
    angles = np.arctan2(lines[:, 1], lines[:, 0])
    edges = np.sort(np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi))
    middle = (edges + np.append(edges[1:], edges[0] + 2 * np.pi)) / 2
    points = np.column_stack([np.cos(middle), np.sin(middle)])
    return np.sign(points @ lines.T), points, True


def _restricted(lines: Float[np.ndarray, "j k"], normal: Float[np.ndarray, " k"]):
    """Signs of the earlier lines on the cells of their arrangement within the hyperplane across `normal`."""
    plane = np.linalg.svd(normal[None])[2][1:]
    shadows = lines @ plane.T
    some, line_of, signs = _lines(shadows / np.linalg.norm(shadows, axis=1, keepdims=True))
    _, sizes, frame = np.linalg.svd(some, full_matrices=False)
    rank = int((sizes > 1e-10 * sizes[0]).sum())
    flat = some @ frame[:rank].T
    found, points, general = _signs(flat / np.linalg.norm(flat, axis=1, keepdims=True))
    return found[:, line_of] * signs, points @ frame[:rank] @ plane, general and len(some) == len(lines)


def _names(signs: Float[np.ndarray, "cells m"]) -> np.ndarray:
    """Sign vectors as bytes, which can be sought."""
    packed = np.packbits(signs > 0, axis=1)
    return np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
