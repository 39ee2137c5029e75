"""Exact transport: sorted on the line, an assignment between even samples of one size, else a network simplex.

The samples come in units of their own size (see `samples`), so that no square is too small or too large.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal
from haarflow.measures.samples import Pair, binade, even
from haarflow.values import refuse_unless_affordable

EXACT_LIMIT = 25_000_000
"""Largest number of pairs of atoms that exact transport solves without `force=True`: about ten seconds."""

Progress = Callable[[str], None]


Gaps = Callable[[Float[np.ndarray, "n p"], Float[np.ndarray, "m p"]], Float[np.ndarray, "n m"]]


def exact(
    given: Pair, *, order: int, force: bool = False, progress: Progress | None = None, gaps: Gaps | None = None
) -> float:
    """The least mean |z − z'|^order over all couplings, in the units of the pair; or of other squared `gaps`."""
    x, a, y, b, _ = given
    if x.shape[1] == 1 and gaps is None:
        return line(x[:, 0], a, y[:, 0], b, order)
    equal = len(x) == len(y) and given.even
    _guard(len(x), len(y), equal, force, progress)
    cost = squared_gaps(x, y) if gaps is None else gaps(x, y)
    cost = cost if order == 2 else np.sqrt(cost, out=cost)
    return _assignment(cost) if equal else float(np.sum(plan(a, b, cost) * cost))


def line(x, a, y, b, order: int) -> float:
    """The least mean |x − y|^order between two weighted samples on the line, by sorting."""
    if even(a) and even(b) and len(y) % len(x) == 0:
        return float(np.mean(np.abs(np.sort(x)[:, None] - np.sort(y).reshape(len(x), -1)) ** order))
    rank_x, rank_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    i, j, mass = staircase(a[rank_x], b[rank_y])
    return float(mass @ np.abs(x[rank_x][i] - y[rank_y][j]) ** order)


def staircase(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"]):
    """The monotone coupling of two weighted orders: sources i, targets j and the mass sent from i to j."""
    n, m = len(a), len(b)
    if even(a) and even(b) and max(n, m) % min(n, m) == 0:
        size = max(n, m)
        return np.arange(size) // (size // n), np.arange(size) // (size // m), np.full(size, 1 / size)
    ends_a, ends_b = np.cumsum(a), np.cumsum(b)
    cuts = np.sort(np.concatenate([ends_a[:-1], ends_b[:-1], [max(ends_a[-1], ends_b[-1])]]))
    mass = np.diff(cuts, prepend=0.0)
    middle = (cuts - mass / 2)[mass > 0]
    i, j = np.searchsorted(ends_a, middle), np.searchsorted(ends_b, middle)
    return np.minimum(i, n - 1), np.minimum(j, m - 1), mass[mass > 0]


def plan(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"], cost: Float[np.ndarray, "n m"]):
    """An optimal coupling (n, m) for this cost, by POT's network simplex, whose tolerance is for costs around one."""
    import ot

    best, log = ot.emd(a, b / b.sum() * a.sum(), cost / binade(cost), numItermax=10**9, log=True)
    if log["warning"] is not None:
        raise Refusal(f"Exact transport must reach its optimum; the solver said: {log['warning']}")
    return best


def squared_gaps(x: Float[np.ndarray, "n p"], y: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "n m"]:
    """All |x_i − y_j|², from the differences themselves, so that equal atoms are at distance zero exactly."""
    from scipy.spatial.distance import cdist

    return cdist(x, y, "sqeuclidean")


def transport_cost(n: int, m: int, *, equal: bool = False) -> tuple[float, float]:
    """Expected seconds and gigabytes of exact transport between n and m atoms (measured, one core)."""
    return 0.2 * (n * m / 1e6) ** 1.25, n * m * (11 if equal else 52) / 1e9


def refuse_many_pairs(n: int, m: int) -> None:
    """Refuse costs of all pairs that do not fit in memory."""
    refuse_unless_affordable(f"Costs of {n:,} × {m:,} pairs of atoms", 40.0 * n * m, instead="Write fewer atoms.")


def _guard(n: int, m: int, equal: bool, force: bool, progress: Progress | None) -> None:
    seconds, gigabytes = transport_cost(n, m, equal=equal)
    cost = f"about {seconds:.0f} s and {gigabytes:.1f} GB"
    if n * m > EXACT_LIMIT and not force:
        raise Refusal(
            f"Exact transport solves up to {EXACT_LIMIT:,} pairs of atoms unasked; "
            f"got {n:,} × {m:,}, which takes {cost}. Write `force=True` to wait, "
            "or take bounds: `w2_bounds`, or `wi_bounds` for the distance to the orbit."
        )
    refuse_unless_affordable(
        f"Exact transport of {n:,} to {m:,} atoms",
        1e9 * gigabytes,
        instead="Take bounds: `w2_bounds`, or `wi_bounds` for the distance to the orbit.",
    )
    if progress is not None:
        progress(f"exact transport of {n:,} to {m:,} atoms: {cost}")


def _assignment(cost: Float[np.ndarray, "n n"]) -> float:
    from scipy.optimize import linear_sum_assignment

    return float(cost[linear_sum_assignment(cost)].mean())
