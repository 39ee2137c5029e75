"""Two-sided bounds on W2 without an exact solve: every rule is a theorem, and the best are kept."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.doors import Count, Natural, NonNegative, door
from haarflow.measures.costs import refuse_hours, refuse_many_projections
from haarflow.measures.couplings import (
    Coupling,
    greedy,
    nearest,
    refined,
    searchable,
    sorted_along,
)
from haarflow.measures.distances import frames
from haarflow.measures.samples import Law, OtherLaw, Pair, generator, pair
from haarflow.measures.transport import line

COUPLING_LIMIT = 2_000_000
"""Largest number of pairs that the slower couplings (greedy, refined) are asked to improve."""


@door
@dataclass(frozen=True)
class Bounds:
    """lower ≤ W2 ≤ upper (or another distance, `of`), which rule gave each, and what every rule gave."""

    lower: NonNegative
    upper: NonNegative
    lower_rule: str
    upper_rule: str
    lowers: dict[str, float] = field(repr=False)
    uppers: dict[str, float] = field(repr=False)
    of: str = "W2"

    def __str__(self) -> str:
        return f"{self.lower:.4g} ({self.lower_rule}) ≤ {self.of} ≤ {self.upper:.4g} ({self.upper_rule})"


@door
def w2_bounds(
    key: PRNGKeyArray | Array, mu: Law, nu: OtherLaw, *, projections: Count = 32, rounds: Natural = 3
) -> Bounds:
    """Lower and upper bounds on W2(mu, nu), in about n log n: seconds for 10⁵ atoms in few dimensions.

    `projections` directions serve the sliced lower bound; `rounds` refinements improve the best coupling.
    """
    given = pair(mu, nu)
    refuse_long_bounds("w2_bounds", given, projections, rounds)
    lowers = lower_bounds(key, given, projections=projections)
    if searchable(given):
        there, back = nearest(given.x, given.y)[0], nearest(given.y, given.x)[0]
        lowers["nearest"] = float(np.sqrt(max(given.b @ there**2, given.a @ back**2)))
    return bracket(lowers, upper_bounds(key, given, rounds=rounds), given, scale(given))


def refuse_long_bounds(owner: str, given: Pair, projections: int, rounds: int) -> None:
    """Refuse bounds from more directions or rounds than an hour has."""
    refuse_many_projections(owner, given, projections)
    refuse_hours(f"{owner} in {rounds:.3g} rounds", 1e-5 * given.atoms * rounds, "Write fewer `rounds`.")


def bracket(lowers: dict[str, float], uppers: dict[str, float], given: Pair, size: float) -> Bounds:
    """The best of each side; lower bounds give away what rounding may have added to atoms of this size."""
    lowers = {rule: max(value - 1e-14 * size, 0.0) * given.unit for rule, value in lowers.items()}
    uppers = {rule: value * given.unit for rule, value in uppers.items()}
    low, high = max(lowers, key=lambda rule: lowers[rule]), min(uppers, key=lambda rule: uppers[rule])
    if lowers[low] > uppers[high]:
        raise ArithmeticError(
            f"haarflow found a lower bound on W2 above an upper one: {low} gave {lowers[low]!r}, {high} gave "
            f"{uppers[high]!r}. One of the two is wrong: please report it with these clouds."
        )
    return Bounds(lowers[low], uppers[high], low, high, lowers, uppers)


def scale(given: Pair) -> float:
    """The root mean square norm of the atoms of both samples, with room for the dimension."""
    moments = given.a @ np.sum(given.x**2, axis=1) + given.b @ np.sum(given.y**2, axis=1)
    return float(np.sqrt(given.x.shape[1] * moments))


def lower_bounds(key: PRNGKeyArray | Array, given: Pair, *, projections: int) -> dict[str, float]:
    """Lower bounds on W2 by rule: the means, the Gaussians of the same moments, the projections."""
    x, a, y, b, _ = given
    return {
        "mean": float(np.linalg.norm(a @ x - b @ y)),
        "gaussian": gelbrich(x, a, y, b),
        "sliced": sliced_frames(key, given, projections=projections),
    }


def gelbrich(x, a, y, b) -> float:
    """W2 between the Gaussians with these means and covariances, which no coupling of the samples beats."""
    first, second = _root(x, a), _root(y, b)
    gap = np.sum((a @ x - b @ y) ** 2)
    total = np.sum(first**2) + np.sum(second**2)
    overlap = np.sum(np.linalg.svd(first @ second.T, compute_uv=False))
    return float(np.sqrt(max(gap + total - 2 * overlap - 1e-14 * x.shape[1] * total, 0.0)))


def sliced_frames(key: PRNGKeyArray | Array, given: Pair, *, projections: int) -> float:
    """The largest (Σ_k W2²(u_k#mu, u_k#nu))^½ over orthonormal frames u: each alone is at most W2."""
    x, a, y, b, _ = given
    p = x.shape[1]
    first = discriminating_frame(given)[:, :projections]
    others = frames(key, max(projections // p - 1, 0), p)
    squares = [sum(line(x @ u, a, y @ u, b, 2) for u in frame.T) for frame in (first, *others)]
    return float(np.sqrt(max(max(squares) - given.blunt, 0.0)))


def discriminating_frame(given: Pair) -> Float[np.ndarray, "p p"]:
    """An orthonormal frame whose first columns show best how the two samples' first two moments differ."""
    x, a, y, b, _ = given
    gap, first, second = a @ x - b @ y, _root(x, a), _root(y, b)
    values, vectors = np.linalg.eigh(first.T @ first - second.T @ second + np.outer(gap, gap))
    return vectors[:, np.argsort(-np.abs(values), kind="stable")]


def upper_bounds(
    key: PRNGKeyArray | Array, given: Pair, *, rounds: int, start: Coupling | None = None
) -> dict[str, float]:
    """Upper bounds on W2 by coupling; `start` is one more coupling that the caller knows, called identity."""
    couplings = _first_couplings(given, start)
    found = {rule: coupling.length(given) for rule, coupling in couplings.items()}
    best = couplings[min(found, key=lambda rule: found[rule])]
    if len(best.i) > COUPLING_LIMIT:
        return found
    draw = generator(key)
    for _ in range(rounds):
        best = refined(np.linalg.qr(draw.normal(size=(given.x.shape[1],) * 2))[0], given.x, given.y, best)
        found["refined"] = best.length(given)
    return found


def _first_couplings(given: Pair, start: Coupling | None) -> dict[str, Coupling]:
    x, a, y, b, _ = given
    frame = discriminating_frame(given)
    ways = [sorted_along(u, x, a, y, b) for u in frame[:, :4].T]
    couplings = {"sorted": min(ways, key=lambda way: way.length(given))}
    if start is not None:
        couplings["identity"] = start
    elif len(x) == len(y) and np.array_equal(a, b):
        couplings["identity"] = Coupling(np.arange(len(x)), np.arange(len(x)), a)
    if searchable(given) and len(x) + len(y) <= COUPLING_LIMIT:
        couplings["greedy"] = greedy(frame[:, 0], x, a, y, b)
    return couplings


def _root(x, a) -> Float[np.ndarray, "k p"]:
    """R with RᵀR the covariance, without forming it: small spreads keep their digits."""
    return np.linalg.qr(np.sqrt(a)[:, None] * (x - a @ x))[1]
