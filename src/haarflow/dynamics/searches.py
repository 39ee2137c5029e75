"""The least value of a function over a domain, by many starts, and by a bound that no point is below.

Boxes whose projections cover the domain are halved again and again. With a Lipschitz constant L the function is nowhere
on a box below its value at the centre minus L times half the diagonal; boxes that cannot hold a better point are left
out. What the remaining ones could hold is the bound: a proof, whose work grows exponentially with the dimension.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.dynamics.domains import Domain
from haarflow.dynamics.trust_regions import Least
from haarflow.errors import Refusal

_STARTS = 8  # the best places of the cover, from which a local search goes on
_TOGETHER = 2048  # points whose values are computed at once: always as many, so that one program is compiled


def least_by_search(
    function: Callable,
    domain: Domain,
    places: Float[np.ndarray, "m p"],
    *,
    lipschitz: float | None,
    tolerance: float,
    points: int,
) -> Least:
    """The least value over the domain that starts from these places, and from the boxes of its cover, come to.

    The bound is −∞ without a Lipschitz constant, and as good as `points` values allow with one. A function that is a
    PyTree, such as a module, is compiled once for all of its kind.
    """

    def values(places):
        return _values(function, domain, places)

    starts, bound, cells = places, -np.inf, _cover(domain, places.shape[1], needed=lipschitz is not None)
    if cells is not None:
        starts = np.concatenate([starts, _first(domain, cells, points // 8)])
    point, value = _descended(function, domain, starts, values(starts))
    rule = "many starts, without a bound"
    if lipschitz is not None:
        value, point, bound = _halved(values, domain, cells, (value, point), lipschitz, tolerance, points)
        rule = f"boxes halved under the Lipschitz constant {lipschitz:g}"
    return Least(point, value, min(bound, value), rule)


def _cover(domain: Domain, p: int, *, needed: bool) -> Any:
    try:
        return domain.cover(p)
    except Refusal:
        if needed:
            raise
        return None


@eqx.filter_jit
def _at(function, domain, places):
    return jax.vmap(function)(domain.project(places))


@eqx.filter_jit
def _slope(function, domain, place):
    return jax.value_and_grad(lambda z: function(domain.project(z[None, :])[0]))(place)


def _values(function: Callable, domain: Domain, places: Float[np.ndarray, "m p"]) -> Float[np.ndarray, " m"]:
    """The function's values at the projections of many places."""
    found = []
    for first in range(0, len(places), _TOGETHER):
        some = places[first : first + _TOGETHER]
        padded = np.concatenate([some, np.repeat(some[-1:], _TOGETHER - len(some), axis=0)])
        found.append(np.asarray(_at(function, domain, jnp.asarray(padded)), float)[: len(some)])
    return np.concatenate(found)


def _first(domain: Domain, cells: Any, points: int) -> Float[np.ndarray, "m p"]:
    """The centres of boxes halved evenly, as many as asked for at most, on the domain."""
    low, high = cells
    while 2 * len(low) <= max(points, 64):
        low, high = _halves(low, high)
    return np.asarray(domain.project(jnp.asarray((low + high) / 2)))


def _halves(low, high):
    """Every box cut in two across its longest side."""
    row, axis = np.arange(len(low)), np.argmax(high - low, axis=1)
    middle = ((low + high) / 2)[row, axis]
    lower, upper = high.copy(), low.copy()
    lower[row, axis], upper[row, axis] = middle, middle
    return np.concatenate([low, upper]), np.concatenate([lower, high])


def _halved(values, domain, cells, best, lipschitz, tolerance, points):
    """Branch and bound: the best value and point, and the bound that the boxes left prove."""
    low, high = cells
    value, point = best
    found, spent, kept = np.full(len(low), -np.inf), 0, np.inf
    while len(low) and spent < points:
        order = np.argsort(found, kind="stable")[:_TOGETHER]
        rest = np.setdiff1d(np.arange(len(low)), order, assume_unique=True)
        new_low, new_high = _halves(low[order], high[order])
        centres = (new_low + new_high) / 2
        at = values(centres)
        spent += len(at)
        if at.min() < value:
            value = float(at.min())
            point = np.asarray(domain.project(jnp.asarray(centres[[at.argmin()]])))[0]
        reach = lipschitz * np.linalg.norm(new_high - new_low, axis=1) / 2
        low, high = np.concatenate([low[rest], new_low]), np.concatenate([high[rest], new_high])
        found = np.concatenate([found[rest], at - reach])
        open_ = found < value - tolerance
        kept = min(kept, found[~open_].min(initial=np.inf))
        low, high, found = low[open_], high[open_], found[open_]
    return value, point, min(kept, found.min(initial=np.inf), value)


def _descended(function, domain, starts, at):
    """The best point that local searches reach from the best of the starts."""
    from scipy.optimize import minimize

    def asked(z):
        value, gradient = _slope(function, domain, jnp.asarray(z))
        return float(value), np.nan_to_num(np.asarray(gradient, float))

    best = int(np.argmin(at))
    point, value = np.asarray(domain.project(jnp.asarray(starts[best])[None, :]), float)[0], float(at[best])
    for start in starts[np.argsort(at, kind="stable")[:_STARTS]]:
        solved = minimize(asked, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10})
        if solved.fun < value:
            point, value = np.asarray(domain.project(jnp.asarray(solved.x)[None, :]), float)[0], float(solved.fun)
    return point, value
