"""Distances between two clouds: exact transport, its cheap relatives, and the kernel distance.

Each takes clouds, or arrays (n, p) as clouds of equal weights. They run on the host in float64, whatever the precision
of the clouds, and scale with their input. The neighbours: `invariance` has the distances of one cloud to a symmetry,
and `brackets` two-sided bounds for clouds too large to solve.
"""

import numpy as np
from jaxtyping import Array, PRNGKeyArray

from haarflow.doors import Count, Positive, door
from haarflow.errors import Refusal
from haarflow.measures import entropic, mmd, quotients
from haarflow.measures.costs import FEWER, refuse_hours, refuse_many_projections
from haarflow.measures.isometries import Under, acted
from haarflow.measures.samples import Law, OtherLaw, Pair, arrays, binade, generator, pair
from haarflow.measures.transport import Progress, exact, line


@door
def w1(
    mu: Law, nu: OtherLaw, *, under: Under | None = None, force: bool = False, progress: Progress | None = None
) -> float:
    """W1(mu, nu), exactly: the least mean distance |z − z'| over all couplings.

    `under` a group it is that of the symmetrised clouds, at the cost of the plain ones: the least mean of
    min_g |z − g z'|. A representation, an Action of elements that stand for the group, `Shifts` or `Isometries`.
    """
    if under is not None:
        given, symmetry = acted(mu, nu, under)
        return quotients.transport(given, symmetry, order=1, force=force, progress=progress) * given.unit
    given = pair(mu, nu)
    return exact(given, order=1, force=force, progress=progress) * given.unit


@door
def w2(
    mu: Law, nu: OtherLaw, *, under: Under | None = None, force: bool = False, progress: Progress | None = None
) -> float:
    """W2(mu, nu), exactly: the root of the least mean square distance |z − z'|² over all couplings.

    `under` a group it is that of the symmetrised clouds, at the cost of the plain ones; see `w1`.
    """
    if under is not None:
        given, symmetry = acted(mu, nu, under)
        return quotients.transport(given, symmetry, order=2, force=force, progress=progress) ** 0.5 * given.unit
    given = pair(mu, nu)
    return exact(given, order=2, force=force, progress=progress) ** 0.5 * given.unit


@door
def rmd(
    mu: Law, nu: OtherLaw, *, under: Under | None = None, force: bool = False, progress: Progress | None = None
) -> float:
    """The relative distance RMD(mu, nu), with RMD² = W2² / (2∫|z|²dmu + 2∫|z|²dnu), between zero and one.

    `under` a group W2 is that of the symmetrised clouds, whose second moments are those of the clouds; see `w1`.
    """
    (x, a), (y, b) = arrays(mu), arrays(nu)
    if under is not None:
        quotients.refuse_torus("rmd", under)
        far = w2(mu, nu, under=under, force=force, progress=progress)
        unit = max(binade(x), binade(y))
        size = 2 * a @ np.sum((x / unit) ** 2, axis=1) + 2 * b @ np.sum((y / unit) ** 2, axis=1)
        return float(far / unit / np.sqrt(size)) if size > 0 else 0.0
    given = pair(mu, nu)
    unit = max(binade(x), binade(y))
    size = 2 * a @ np.sum((x / unit) ** 2, axis=1) + 2 * b @ np.sum((y / unit) ** 2, axis=1)
    far = exact(given, order=2, force=force, progress=progress) ** 0.5 * (given.unit / unit)
    return float(far / np.sqrt(size)) if size > 0 else 0.0


@door
def sinkhorn(
    mu: Law,
    nu: OtherLaw,
    *,
    blur: Positive = 0.2,
    under: Under | None = None,
    iterations: Count = 2000,
    force: bool = False,
) -> float:
    """The debiased entropic distance, near W2(mu, nu) when `blur` is small; zero between equal clouds.

    The entropy is weighed by `blur`² times the mean of |z − z'|². It is right to ten digits, also between clouds that
    lie close together: there to 1e-15 of the clouds' size over the distance. Half the blur takes about twice as long;
    `iterations` is the largest number of passes over all pairs of atoms. `under` a group it is that of the symmetrised
    clouds, at the cost of the plain ones; see `w1`.
    """
    given, symmetry = (pair(mu, nu), None) if under is None else acted(mu, nu, under)
    spread = _mean_square_gap(given) if symmetry is None else quotients.mean_square_gap(given, symmetry)
    if spread == 0:
        return 0.0
    refuse_hours("sinkhorn", 2e-6 * given.atoms**2, FEWER, force=force)
    # Beyond 1e8 only the means are told apart, to rounding.
    reg = min(blur, 1e8) ** 2 * spread
    if not reg > 1e-250 * spread:
        raise Refusal(
            f"sinkhorn weighs an entropy by blur² within float64; got blur={blur:g}. Write a larger `blur`, or take "
            "`w2`, which has none."
        )
    try:
        if symmetry is None:
            square = entropic.divergence(given, reg, spread, iterations)
        else:
            square = quotients.entropic_square(given, symmetry, reg, iterations, force=force)
    except entropic.Spent:
        raise Refusal(
            f"sinkhorn stops when its marginals are right; they were not after {iterations} iterations. "
            "Write a larger `blur` or more `iterations`, or take `w2` or `w2_bounds`."
        ) from None
    return float(np.sqrt(max(square, 0.0))) * given.unit


@door
def sliced(key: PRNGKeyArray | Array, mu: Law, nu: OtherLaw, *, order: int = 2, projections: Count = 128) -> float:
    """The sliced distance (mean over directions u of W(u#mu, u#nu)^order)^(1/order), in O(n log n).

    The directions come in random orthonormal frames, which spreads them better than independent draws.
    """
    if order not in (1, 2):
        raise Refusal(f"sliced takes order 1 or 2; got {order}. Write `sliced(key, mu, nu, order=2)`.")
    x, a, y, b, unit = given = pair(mu, nu)
    p = x.shape[1]
    refuse_many_projections("sliced", given, projections)
    directions = np.concatenate(list(frames(key, -(-projections // p), p)), axis=1)[:, :projections]
    return float(np.mean([line(x @ u, a, y @ u, b, order) for u in directions.T]) ** (1 / order)) * unit


@door
def mmd_squared(
    mu: Law,
    nu: OtherLaw,
    *,
    width: Positive | None = None,
    under: Under | None = None,
    block: Count = 512,
    force: bool = False,
) -> float:
    """MMD²(mu, nu) for the kernel exp(−|z − z'|² / 2 width²), in blocks: memory O(block · n).

    Without a width, width² is the mean of |z − z'|² over independent draws from the half-and-half mixture. `under` a
    group the kernel is averaged over it, which gives the MMD² of the symmetrised clouds; see `w1`.
    """
    if under is not None:
        quotients.refuse_torus("mmd_squared", under)
        given, symmetry = acted(mu, nu, under)
        narrow = None if width is None else width / given.unit
        return quotients.kernel_square(given, symmetry, narrow, block, force=force)
    given = pair(mu, nu)
    refuse_hours("mmd_squared", 3e-9 * given.atoms**2, FEWER, force=force)
    width = mmd.mixture_width(given) if width is None else width / given.unit
    return mmd.squared_mmd(given, width, block)


def frames(key: PRNGKeyArray | Array, count: int, p: int):
    """Random orthonormal frames of R^p, as the columns of (p, p) matrices orthogonal to float64 rounding."""
    for draw in generator(key).normal(size=(count, p, p)):
        yield np.linalg.qr(draw)[0]


def _mean_square_gap(given: Pair) -> float:
    """The mean of |z − z'|² over independent draws of the two samples."""
    x, a, y, b, _ = given
    return float(a @ np.sum((x - b @ y) ** 2, axis=1) + b @ np.sum((y - b @ y) ** 2, axis=1))
