"""Distances between two samples under a group: transport with the quotient cost, and means of the averaged kernel.

Each equals the plain distance of the symmetrised samples, with |G| times fewer atoms on either side. For entropic
transport the cost that does so is the soft minimum −reg log mean_g exp(−|x − g y|²/reg) over the group.
"""

from collections.abc import Iterable
from itertools import islice

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal
from haarflow.measures import entropic
from haarflow.measures.costs import FEWER, refuse_hours
from haarflow.measures.isometries import Isometries, Shifts, Under
from haarflow.measures.mmd import displaced_mmd, is_close, kernel_mean
from haarflow.measures.samples import Pair, together
from haarflow.measures.symmetries import Rows, Symmetry
from haarflow.measures.transport import Progress, exact

TOGETHER = 8192
"""Images of small samples are put together up to this many atoms: a call of a compiled program costs 0.3 ms."""


def transport(given: Pair, symmetry: Symmetry, *, order: int, force: bool, progress: Progress | None) -> float:
    """The least mean d_G(x, y)^order over all couplings, in the units of the pair."""
    x, a, y, b, _ = given
    if symmetry.fold:
        flat = Pair(symmetry.fold(x), a, symmetry.fold(y), b, 1.0)
        return exact(flat, order=order, force=force, progress=progress)
    if isinstance(symmetry, Shifts) and x.shape[1] == 1 and order == 1:
        return _circle(given, symmetry.cell)
    refuse_long_gaps(given, symmetry, force=force)
    return exact(given, order=order, force=force, progress=progress, gaps=symmetry.gaps)


def refuse_long_gaps(given: Pair, symmetry: Symmetry, *, times: float = 1.0, force: bool = False) -> None:
    """Refuse quotient costs that take hours."""
    p = given.x.shape[1]
    work = times * len(given.x) * len(given.y) * p * symmetry.passes(p)
    refuse_hours("A quotient cost", symmetry.seconds * work, FEWER, force=force)


def _circle(given: Pair, cell: float) -> float:
    import ot

    x, a, y, b, _ = given
    turns = [np.mod(z[:, 0] / cell, 1.0) for z in (x, y)]
    return float(ot.wasserstein_circle(turns[0], turns[1], a, b, p=1)[0]) * cell


def entropic_square(given: Pair, symmetry: Symmetry, reg: float, passes: int, *, force: bool) -> float:
    """The debiased entropic cost of the symmetrised samples, in squares of the pair's unit."""
    x, a, y, b, _ = given
    refuse_hours("sinkhorn", 2e-8 * symmetry.count(x.shape[1]) * given.atoms**2, FEWER, force=force)
    cross = soft_costs(x, y, symmetry, reg)
    own = soft_costs(x, x, symmetry, reg), soft_costs(y, y, symmetry, reg)
    return entropic.divergence_of_costs(a, b, cross, own, reg, passes)


def soft_costs(x, y, symmetry: Symmetry, reg: float) -> Float[np.ndarray, "n m"]:
    """−reg log mean_g exp(−|x − g y|²/reg), (n, m)."""
    found = np.full((len(x), len(y)), -np.inf)
    for image in symmetry.images(y):
        np.logaddexp(found, -symmetry.plain(x, image) / reg, out=found)
    return np.maximum(-reg * (found - np.log(symmetry.count(x.shape[1]))), 0.0)


def mean_square_gap(given: Pair, symmetry: Symmetry) -> float:
    """The mean of |g x − h y|² over independent draws of both samples and of two elements."""
    x, a, y, b, _ = given
    if isinstance(symmetry, Shifts | Isometries):
        gaps = [a @ symmetry.plain(x, image) @ b for image in symmetry.images(y)]
        return float(np.mean(gaps))
    means = a @ symmetry.mean(x), b @ symmetry.mean(y)
    return float(a @ np.sum((x - means[1]) ** 2, axis=1) + b @ np.sum((y - means[1]) ** 2, axis=1))


def kernel_square(
    given: Pair, symmetry: Symmetry, width: float | None, block: int, *, force: bool, clipped: bool = True
) -> float:
    """MMD² of the symmetrised samples for the Gaussian kernel, whose width is in units of the pair.

    Of some elements alone it may be negative, and is left so where it is not to be clipped.
    """
    x, a, y, b, _ = given
    count = symmetry.count(x.shape[1])
    refuse_hours("mmd_squared", 3e-9 * count * given.atoms**2, FEWER, force=force)
    width = kernel_width(given, symmetry) if width is None else width
    own = sum(_kernel_mean(z, w, symmetry.pairs(z), w, width, block) for z, w in ((x, a), (y, b)))
    cross = _kernel_mean(x, a, ((1 / count, image) for image in symmetry.images(y)), b, width, block)
    found = own - 2 * cross
    if not clipped:
        return float(found)
    if is_close(found, count * given.atoms, count * given.atoms):
        orbits = [np.concatenate(list(symmetry.images(z))) for z in (x, y)]
        turned = together(orbits[0], np.tile(a, count) / count, orbits[1], np.tile(b, count) / count)
        return displaced_mmd(turned, width / turned.unit)
    return max(float(found), 0.0)


def _kernel_mean(x, a, shared: Iterable[tuple[float, Rows]], b, width: float, block: int) -> float:
    """The mean kernel of one sample and the images of another, several small images at a time."""
    found, several, shared = 0.0, max(TOGETHER // len(b), 1), iter(shared)
    while some := list(islice(shared, several)):
        shares, images = zip(*some, strict=True)
        found += kernel_mean(x, a, np.concatenate(images), np.outer(shares, b).ravel(), width, block)
    return found


def kernel_width(given: Pair, symmetry: Symmetry) -> float:
    """The root mean square distance between two independent draws of the half-and-half mixture, symmetrised."""
    x, a, y, b, _ = given
    mean = (a @ symmetry.mean(x) + b @ symmetry.mean(y)) / 2
    spread = a @ np.sum((x - mean) ** 2, axis=1) + b @ np.sum((y - mean) ** 2, axis=1)
    return float(np.sqrt(spread)) or 1.0


def refuse_torus(owner: str, under: Under) -> None:
    """Refuse what is made of distances in R^p under a group that keeps those of a torus instead."""
    if getattr(under, "period", None) is not None:
        raise Refusal(
            f"{owner} is made of distances in R^p; got a group that keeps those of a torus, under which its kernel or "
            "size is not invariant. Write `w1`, `w2` or `sinkhorn`, or `divergences.ipm` within a `KernelBall` of a "
            "periodic kernel."
        )
