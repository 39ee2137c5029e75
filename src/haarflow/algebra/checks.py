"""What the algebra refuses: sizes, tables that do not fit, skewed matrices, broken products."""

import math

import numpy as np
from jaxtyping import Float

from haarflow import values
from haarflow.errors import Refusal

MOST = 2**26
"""The most numbers (half a gigabyte in float64) that one table of matrices may hold."""

TOLERANCE = 1e-8
"""Two matrices are the same, and a matrix is orthogonal, when no entry is off by more than this."""


def whole(number) -> int:
    """A whole number of at least one."""
    return values.whole("A size in a group or a representation", number, least=1)


def fits(
    owner: str,
    *shape: int,
    instead: str = "Work with `generators()`, `haar(key, n)` and `fixed_basis()`, which need no list.",
) -> None:
    """Refuse a table that would not fit in memory."""
    if math.prod(shape) > MOST:
        raise Refusal(
            f"{owner} would hold {' × '.join(map(short, shape))} numbers; at most {MOST:.1e} are listed. {instead}"
        )


def affordable(what: str, whose, *shape: int, instead: str) -> None:
    """Refuse an array of so many numbers that it would not fit in half of the machine's memory."""
    size = float(min(8 * math.prod(shape), 10**300))
    if size > 2**20:  # the words cost more than the smaller ones
        values.refuse_unless_affordable(f"{what} of {whose}", size, instead=instead)


def off_orthogonal(matrices: Float[np.ndarray, "m k k"]) -> float:
    """The largest entry of m^T m − I, over all the matrices."""
    gram = np.swapaxes(matrices, -1, -2) @ matrices
    return largest(gram - np.eye(matrices.shape[-1]))


def largest(gaps: np.ndarray) -> float:
    """The largest size among the gaps; 0 when there are none."""
    return float(np.max(np.abs(gaps), initial=0.0))


def refuse_skewed(matrices: Float[np.ndarray, "m k k"]) -> None:
    """Refuse a representation whose matrices are not orthogonal."""
    gap = off_orthogonal(matrices)
    if not gap <= 1e2 * TOLERANCE:
        raise Refusal(
            f"A representation is by orthogonal matrices; got rho(g)^T rho(g) off the identity by {gap:.1e}. "
            "Change the basis of R^k to one that the group turns rigidly."
        )


def refuse_broken(group, gap: float) -> None:
    """Refuse a representation that does not keep products."""
    if not gap <= 1e2 * TOLERANCE:
        raise Refusal(
            f"A representation keeps products, rho(gh) = rho(g) rho(h); on {group} it is off by {gap:.1e}. "
            "Check the order of the elements or generators, and that rho(g) sends e_i to the moved e_i."
        )


def short(size: int) -> str:
    """A whole number in words; of the large ones the power of ten."""
    return str(size) if size < 10**12 else f"1e{int(math.log10(size) + 1e-9)}"
