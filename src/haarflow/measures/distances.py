"""Distances between two clouds: exact transport, its cheap relatives, and the kernel distance.

These run on the host in float64, whatever the precision of the clouds. The neighbours: `invariance` has the
distances of one cloud to a symmetry, and `brackets` two-sided bounds for clouds too large to solve.
"""

import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud

EXACT_LIMIT = 25_000_000
"""Largest number of pairs of atoms that exact transport solves without `force=True`: about ten seconds."""

ENTROPIC_SLACK = 1e-5

Progress = Callable[[str], None]


def w1(mu: Cloud, nu: Cloud, *, force: bool = False, progress: Progress | None = None) -> float:
    """W1(mu, nu), exactly: the least mean distance |z − z'| over all couplings."""
    return exact(*pair(mu, nu), order=1, force=force, progress=progress)


def w2(mu: Cloud, nu: Cloud, *, force: bool = False, progress: Progress | None = None) -> float:
    """W2(mu, nu), exactly: the root of the least mean square distance |z − z'|² over all couplings."""
    return exact(*pair(mu, nu), order=2, force=force, progress=progress) ** 0.5


def rmd(mu: Cloud, nu: Cloud, *, force: bool = False, progress: Progress | None = None) -> float:
    """The relative distance RMD(mu, nu), with RMD² = W2² / (2∫|z|²dmu + 2∫|z|²dnu), between zero and one."""
    (x, a), (y, b) = pair(mu, nu)
    size = 2 * a @ np.sum(x**2, axis=1) + 2 * b @ np.sum(y**2, axis=1)
    return float(w2(mu, nu, force=force, progress=progress) / np.sqrt(size)) if size > 0 else 0.0


def sinkhorn(mu: Cloud, nu: Cloud, *, blur: float | int = 0.2, iterations: int = 2000) -> float:
    """The debiased entropic distance, near W2(mu, nu) when `blur` is small; zero between equal clouds.

    The entropy is weighed by `blur`² times the mean of |z − z'|²; half the blur takes four times as long.
    """
    positive("sinkhorn", "blur", blur)
    (x, a), (y, b) = pair(mu, nu)
    reg = blur**2 * _spread(x, a, y, b)
    if reg == 0:
        return 0.0
    cross = _entropic(x, a, y, b, reg, iterations)
    own = _entropic(x, a, x, a, reg, iterations) + _entropic(y, b, y, b, reg, iterations)
    return float(np.sqrt(max(cross - own / 2, 0.0)))


def sliced(key: PRNGKeyArray | Array, mu: Cloud, nu: Cloud, *, order: int = 2, projections: int = 128) -> float:
    """The sliced distance (mean over directions u of W(u#mu, u#nu)^order)^(1/order), in O(n log n).

    The directions come in random orthonormal frames, which spreads them better than independent draws.
    """
    if order not in (1, 2):
        raise Refusal(f"sliced takes order 1 or 2; got {order}. Write `sliced(key, mu, nu, order=2)`.")
    positive("sliced", "projections", projections)
    (x, a), (y, b) = pair(mu, nu)
    count = -(-projections // x.shape[1])
    directions = np.concatenate(list(frames(key, count, x.shape[1])), axis=1)[:, :projections]
    return float(np.mean([line(x @ u, a, y @ u, b, order) for u in directions.T]) ** (1 / order))


def mmd_squared(mu: Cloud, nu: Cloud, *, width: float | int | None = None, block: int = 512) -> float:
    """MMD²(mu, nu) for the kernel exp(−|z − z'|² / 2 width²), in blocks: memory O(block · n).

    Without a width, width² is the mean of |z − z'|² over independent draws from the half-and-half mixture.
    """
    (x, a), (y, b) = pair(mu, nu)
    width = mixture_width(x, a, y, b) if width is None else width
    positive("mmd_squared", "width", width)
    means = [
        kernel_mean(*first, *second, width=width, block=block)
        for first, second in (((x, a), (x, a)), ((y, b), (y, b)), ((x, a), (y, b)))
    ]
    return max(means[0] + means[1] - 2 * means[2], 0.0)


def arrays(mu: Cloud) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"]]:
    """The atoms that carry mass, and their weights, in float64 and summing to one to rounding."""
    if mu.atoms.ndim != 2:
        raise Refusal(
            f"A distance takes one cloud at a time; got a stack with atoms {mu.atoms.shape}. "
            "Write `jax.tree.map(lambda leaf: leaf[0], clouds)` for its first cloud."
        )
    atoms, weights = np.asarray(mu.atoms, float), np.asarray(mu.weights, float)
    keep = weights > 0
    return (atoms, weights / weights.sum()) if keep.all() else (atoms[keep], weights[keep] / weights.sum())


def pair(mu: Cloud, nu: Cloud):
    """The arrays of two clouds, refused unless they live in the same space."""
    if mu.p != nu.p:
        raise Refusal(
            f"A distance compares clouds in the same R^p; got p = {mu.p} and p = {nu.p}. "
            "Write `cloud.push(matrix)` to bring both to one dimension."
        )
    return arrays(mu), arrays(nu)


def even(weights: Float[np.ndarray, " n"]) -> bool:
    """Whether all weights are equal, to rounding."""
    return float(np.ptp(weights)) <= 1e-12 * float(weights.max())


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


def line(x, a, y, b, order: int) -> float:
    """The least mean |x − y|^order between two weighted samples on the line, by sorting."""
    if even(a) and even(b) and len(y) % len(x) == 0:
        return float(np.mean(np.abs(np.sort(x)[:, None] - np.sort(y).reshape(len(x), -1)) ** order))
    rank_x, rank_y = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    i, j, mass = staircase(a[rank_x], b[rank_y])
    return float(mass @ np.abs(x[rank_x][i] - y[rank_y][j]) ** order)


def frames(key: PRNGKeyArray | Array, count: int, p: int):
    """Random orthonormal frames of R^p, as the columns of (p, p) matrices orthogonal to float64 rounding."""
    for draw in generator(key).normal(size=(count, p, p)):
        yield np.linalg.qr(draw)[0]


def generator(key: PRNGKeyArray | Array) -> np.random.Generator:
    """A NumPy generator that this key determines: the host draws without compiling anything."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key) if typed else key).ravel())


def transport_cost(n: int, m: int, *, equal: bool = False) -> tuple[float, float]:
    """Expected seconds and gigabytes of exact transport between n and m atoms (measured, one core)."""
    return 0.2 * (n * m / 1e6) ** 1.25, n * m * (11 if equal else 52) / 1e9


def mixture_width(x, a, y, b) -> float:
    """The root mean square distance between two independent draws of the half-and-half mixture."""
    mean = (a @ x + b @ y) / 2
    spread = a @ np.sum((x - mean) ** 2, axis=1) + b @ np.sum((y - mean) ** 2, axis=1)
    return float(np.sqrt(spread)) or 1.0


def kernel_mean(x, a, y, b, *, width: float | int, block: int = 512) -> float:
    """∬ exp(−|z − z'|² / 2 width²) of two weighted samples, computed in float64 on the default device."""
    centre = a @ x
    with jax.enable_x64(True):
        scaled = [jnp.asarray((z - centre) / width) for z in (x, y)]
        block = min(block, len(x))
        short = -len(x) % block
        rows = jnp.pad(scaled[0], ((0, short), (0, 0)))
        mass = jnp.pad(jnp.asarray(a), (0, short))
        return float(
            _kernel_mean(rows.reshape(-1, block, x.shape[1]), mass.reshape(-1, block), scaled[1], jnp.asarray(b))
        )


@jax.jit
def _kernel_mean(rows, mass, y, b):
    half = jnp.sum(y**2, axis=1) / 2

    def one(piece):
        x, a = piece
        gaps = x @ y.T - half[None, :] - jnp.sum(x**2, axis=1)[:, None] / 2
        return a @ (jnp.exp(jnp.minimum(gaps, 0.0)) @ b)

    return jnp.sum(jax.lax.map(one, (rows, mass)))


def exact(first, second, *, order: int, force: bool = False, progress: Progress | None = None) -> float:
    """The least mean |z − z'|^order between two samples (atoms, weights): sorted on the line, else solved."""
    (x, a), (y, b) = first, second
    if x.shape[1] == 1:
        return line(x[:, 0], a, y[:, 0], b, order)
    equal = len(x) == len(y) and even(a) and even(b)
    _guard(len(x), len(y), equal, force, progress)
    cost = squared_gaps(x, y) if order == 2 else np.sqrt(squared_gaps(x, y))
    return _assignment(cost) if equal else _simplex(a, b, cost)


def squared_gaps(x: Float[np.ndarray, "n p"], y: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "n m"]:
    """All |x_i − y_j|², from the differences themselves, so that equal atoms are at distance zero exactly."""
    from scipy.spatial.distance import cdist

    return cdist(x, y, "sqeuclidean")


def _guard(n: int, m: int, equal: bool, force: bool, progress: Progress | None) -> None:
    seconds, gigabytes = transport_cost(n, m, equal=equal)
    cost = f"about {seconds:.0f} s and {gigabytes:.1f} GB"
    if n * m > EXACT_LIMIT and not force:
        raise Refusal(
            f"Exact transport solves up to {EXACT_LIMIT:,} pairs of atoms unasked; "
            f"got {n:,} × {m:,}, which takes {cost}. Write `force=True` to wait, "
            "or take bounds: `w2_bounds`, or `wi_bounds` for the distance to the orbit."
        )
    if progress is not None:
        progress(f"exact transport of {n:,} to {m:,} atoms: {cost}")


def _assignment(cost: Float[np.ndarray, "n n"]) -> float:
    from scipy.optimize import linear_sum_assignment

    return float(cost[linear_sum_assignment(cost)].mean())


def _simplex(a, b, cost) -> float:
    return float(np.sum(plan(a, b, cost) * cost))


def plan(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"], cost: Float[np.ndarray, "n m"]):
    """An optimal coupling (n, m) for this cost, by POT's network simplex."""
    import ot

    best, log = ot.emd(a, b / b.sum() * a.sum(), cost, numItermax=10**9, log=True)
    if log["warning"] is not None:
        raise Refusal(f"Exact transport must reach its optimum; the solver said: {log['warning']}")
    return best


def _entropic(x, a, y, b, reg: float, iterations: int) -> float:
    """The least ∫|z − z'|² dπ + reg KL(π | a×b), from POT's potentials; in blocks when large."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        large = len(x) * len(y) > EXACT_LIMIT
        u, v = (_blocked_potentials if large else _potentials)(x, a, y, b, reg, iterations)
    value = float(a @ u + b @ v - reg * (a @ np.log(a) + b @ np.log(b)))
    if said or not np.isfinite(value):
        raise Refusal(
            f"sinkhorn stops when its marginals are right; they were not after {iterations} iterations. "
            "Write a larger `blur` or more `iterations`, or take `w2` or `w2_bounds`."
        )
    return value


def _potentials(x, a, y, b, reg: float, iterations: int):
    import ot

    cost = squared_gaps(x, y)
    if cost.max() < 300 * reg:
        log = ot.bregman.sinkhorn_knopp(a, b, cost, reg, iterations, ENTROPIC_SLACK, log=True)[1]
        return reg * np.log(log["u"]), reg * np.log(log["v"])
    log = ot.bregman.sinkhorn_log(a, b, cost, reg, iterations, ENTROPIC_SLACK, log=True)[1]
    return reg * np.asarray(log["log_u"]), reg * np.asarray(log["log_v"])


def _blocked_potentials(x, a, y, b, reg: float, iterations: int):
    import ot

    options = {"numIterMax": iterations, "stopThr": ENTROPIC_SLACK, "isLazy": True, "batchSize": 512}
    found = ot.bregman.empirical_sinkhorn(x, y, reg, a, b, **options)
    return reg * np.asarray(found[0]), reg * np.asarray(found[1])


def _spread(x, a, y, b) -> float:
    return float(a @ np.sum((x - b @ y) ** 2, axis=1) + b @ np.sum((y - b @ y) ** 2, axis=1))


def positive(owner: str, name: str, value: float | int) -> None:
    """Refuses a number that is not above zero."""
    if not value > 0:
        raise Refusal(f"{owner} takes a positive {name}; got {value}. Leave it out for the default.")
