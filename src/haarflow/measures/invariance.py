"""How far a cloud is from being invariant, strongly (on the fixed space) or weakly (equal to its orbit).

Each takes a cloud, or an array (n, p) as a cloud of equal weights. `si_distance` and `si_rmd` compute in the cloud's
own precision: in float32 they are right to about 1e-6 of the cloud's size. The others compute in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.acting import Action
from haarflow.algebra.reps import Rep
from haarflow.doors import Count, Natural, Positive, door
from haarflow.errors import Refusal
from haarflow.measures.actions import Elements, action_on, projection_on
from haarflow.measures.bounds import Bounds, bracket, lower_bounds, refuse_long_bounds, scale, upper_bounds
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.costs import FEWER, refuse_hours, refuse_orbit
from haarflow.measures.couplings import Coupling, nearest, searchable
from haarflow.measures.mmd import displaced_mmd, is_close, kernel_mean, squared_mmd
from haarflow.measures.samples import ROUNDING, Law, Pair, arrays, binade, together
from haarflow.measures.symmetries import inverse_names
from haarflow.measures.transport import Progress, exact

TracedLaw = Cloud | Float[Array, "n p"]
Projector = Float[np.ndarray, "p p"]


@door
def si_distance(mu: TracedLaw, rep: Rep | Projector) -> Float[Array, "*stack"]:
    """W2(mu, P#mu) = (∫|z − Pz|² dmu)^½, also the distance to all laws on the fixed space; works under `jit`.

    `rep` is a representation, or a projector (p, p).
    """
    unit, off, _ = _parts(mu, rep)
    return unit * jnp.sqrt(off)


@door
def si_rmd(mu: TracedLaw, rep: Rep | Projector) -> Float[Array, "*stack"]:
    """The relative distance RMD(mu, P#mu), between 0 and (½)^½; works under `jit`."""
    _, off, moment = _parts(mu, rep)
    size = 4 * moment - 2 * off
    return jnp.sqrt(off / jnp.where(size > 0, size, 1))


@door
def wi_distance(
    mu: Law, rep: Rep, *, elements: Elements = None, force: bool = False, progress: Progress | None = None
) -> float:
    """How far a cloud is from weakly invariant: W2(mu, mu^G), exactly, by transport between n and n|G| atoms.

    Infinite groups need `elements`, an array (m, d, d) of group elements to average over.
    """
    x, a, unit = _sample(mu)
    given = together(x, a, *_orbit(x, a, action_on(rep, x.shape[1], elements=elements)))
    return exact(given, order=2, force=force, progress=progress) ** 0.5 * given.unit * unit


@door
def wi_rmd(
    mu: Law, rep: Rep, *, elements: Elements = None, force: bool = False, progress: Progress | None = None
) -> float:
    """The relative distance RMD(mu, mu^G), between 0 and (½)^½.

    Infinite groups need `elements`, an array (m, d, d) of group elements to average over.
    """
    x, a, unit = _sample(mu)
    size = 4 * float(a @ np.sum(x**2, axis=1))
    far = wi_distance(mu, rep, elements=elements, force=force, progress=progress) / unit
    return far / size**0.5 if size > 0 else 0.0


@door
def pair_distances(
    mu: Law, rep: Rep, *, elements: Elements = None, force: bool = False, progress: Progress | None = None
) -> Float[np.ndarray, " g"]:
    """d_h = W2(mu, M_h#mu) for every element h of a finite group, or those given; an inverse shares its solve."""
    x, a, unit = _sample(mu)
    known = {}
    names = inverse_names(action := action_on(rep, x.shape[1], elements=elements))
    for i, name in enumerate(names):
        if name not in known:
            given = together(x, a, action.pick(i).apply(x)[0], a)
            known[name] = exact(given, order=2, force=force, progress=progress) ** 0.5 * given.unit * unit
    return np.array([known[name] for name in names])


@door
def wi_bounds(
    key: PRNGKeyArray | Array,
    mu: Law,
    rep: Rep,
    *,
    elements: Elements = None,
    projections: Count = 32,
    rounds: Natural = 3,
    pairs: bool = False,
    force: bool = False,
) -> Bounds:
    """Lower and upper bounds on W2(mu, mu^G) without its solve: seconds for 10⁵ atoms in few dimensions.

    `pairs=True` also solves each d_h = W2(mu, M_h#mu): then (mean d_h²)^½ joins the upper bounds and, for the whole
    group, ½ max d_h the lower ones.
    """
    x, a, unit = _sample(mu)
    action = action_on(rep, x.shape[1], elements=elements)
    given = together(x, a, *_orbit(x, a, action))
    refuse_long_bounds("wi_bounds", given, projections, rounds)
    lowers = lower_bounds(key, given, projections=projections)
    if searchable(given):
        gaps = nearest(given.x, given.y)[0].reshape(len(action), -1) ** 2 @ a
        lowers["nearest"] = float(np.sqrt(gaps.mean()))
    if elements is None:
        lowers |= _half_largest(key, given, action, projections)
    identity = Coupling(np.tile(np.arange(len(a)), len(action)), np.arange(len(given.b)), given.b)
    uppers = upper_bounds(key, given, rounds=rounds, start=identity)
    # The images are rounded where they are made, at the size of the atoms as they lie, not as seen from nearby.
    size = scale(Pair(x, a, x, a, 1.0)) / given.unit
    if pairs:
        gaps = pair_distances(mu, rep, elements=elements, force=force) / (given.unit * unit)
        uppers["exact pairs"] = float(np.sqrt(np.mean(gaps**2) + given.blunt)) + 4 * ROUNDING * size
        if elements is None:
            lowers["half of exact pairs"] = float(np.sqrt(max(gaps.max() ** 2 / 4 - given.blunt, 0.0)))
    return bracket(lowers, uppers, given._replace(unit=given.unit * unit), size)


@door
def orbit_mmd_squared(
    mu: Law,
    rep: Rep,
    *,
    elements: Elements = None,
    width: Positive | None = None,
    block: Count = 512,
    force: bool = False,
) -> float:
    """MMD²(mu, mu^G) for the kernel exp(−|z − z'|² / 2 width²), in closed form: memory O(block · n).

    Without a width, width² is the mean of |z − z'|² over independent draws from mu^G. Infinite groups need
    `elements`, an array (m, d, d) of group elements to average over.
    """
    x, a, unit = _sample(mu)
    action = action_on(rep, x.shape[1], elements=elements)
    if width is None:
        middle = action.apply(a @ x).mean(axis=0)
        width = float(np.sqrt(2 * (a @ np.sum((x - middle) ** 2, axis=1)))) or 1.0
    else:
        width = width / unit
    visits = len(action) if elements is None else len(action) ** 2
    refuse_hours("orbit_mmd_squared", 3e-9 * visits * len(a) ** 2, FEWER, force=force)
    if elements is not None:
        given = together(x, a, *_orbit(x, a, action))
        return squared_mmd(given, width / given.unit, block)
    means = [kernel_mean(x, a, action.pick(i).apply(x)[0], a, width, block) for i in range(len(action))]
    found = kernel_mean(x, a, x, a, width, block) - float(np.mean(means))
    if not is_close(found, len(action) * len(a), len(a)):
        return max(found, 0.0)
    turned = (together(x, a, action.pick(i).apply(x)[0], a) for i in range(len(action)))
    return float(np.mean([displaced_mmd(given, width / given.unit) for given in turned])) / 2


@door
def circle_correction(mu: Law, rep: Rep | Projector, n: Count) -> float:
    """How much W2(mu, mu^G) of the circle G = SO(2) can differ from its value with n equispaced rotations.

    It is (Σ_m 2(1 − sinc(m/n)) ∫|z_m|² dmu)^½, z_m the part of z that turns m times per revolution.
    `rep` is a representation of SO(2), or the skew matrix (p, p) of its rotation speed.
    """
    x, a, unit = _sample(mu)
    speed = _speed(rep, x.shape[1])
    squares, basis = np.linalg.eigh(-speed @ speed)
    turns = np.round(np.sqrt(np.maximum(squares, 0.0)))
    if np.abs(squares - turns**2).max() > 1e-6 * max(1.0, squares.max()):
        raise Refusal(
            "A circle action turns a whole number of times per revolution in each plane; "
            f"got {np.round(np.sqrt(np.maximum(squares, 0)), 4).tolist()} turns. "
            "Scale the speed so that one revolution takes 2π."
        )
    return float(np.sqrt(_travel(np.pi * turns / n) @ (a @ (x @ basis) ** 2))) * unit


def _travel(angle: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """2(1 − sin t / t), the mean square travel within ±t; from its series where the difference loses digits."""
    small = np.where(angle < 0.5, angle, 0.0) ** 2
    series = small / 3 * (1 - small / 20 * (1 - small / 42 * (1 - small / 72 * (1 - small / 110 * (1 - small / 156)))))
    return np.where(angle < 0.5, series, 2 * (1 - np.sinc(angle / np.pi)))


def _parts(mu: TracedLaw, rep) -> tuple[Array, Array, Array]:
    """A unit of length, and in it the mean squares of z − Pz and of z."""
    mu = mu if isinstance(mu, Cloud) else uniform(mu)
    power = jnp.frexp(jax.lax.stop_gradient(jnp.max(jnp.abs(mu.atoms))))[1] - 1
    seen = Cloud(jnp.ldexp(mu.atoms, -power), mu.weights)
    rest = Cloud(projection_on(rep, mu.p).rest(seen.atoms), mu.weights)
    return jnp.ldexp(jnp.ones((), mu.atoms.dtype), power), rest.second_moment(), seen.second_moment()


def _sample(mu: Law) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"], float]:
    """The atoms in a unit of their own size, the weights, and the unit."""
    x, a = arrays(mu)
    unit = binade(x)
    return x / unit, a, unit


def _orbit(x, a, action: Action):
    refuse_orbit(len(x), x.shape[1], len(action))
    return action.apply(x).reshape(-1, x.shape[1]), np.tile(a, len(action)) / len(action)


def _half_largest(key: PRNGKeyArray | Array, given: Pair, action: Action, projections: int) -> dict[str, float]:
    """½ max_h of lower bounds on d_h: mu^G is as far from M_h#mu as from mu, so d_h ≤ 2 W2(mu, mu^G)."""
    n = len(given.a)
    turns = {name: given.y[n * k : n * (k + 1)] for k, name in enumerate(inverse_names(action)) if k}
    found = [lower_bounds(key, given._replace(y=y, b=given.a), projections=projections) for y in turns.values()]
    return {f"half of {rule}": max(one[rule] for one in found) / 2 for rule in (found[0] if found else {})}


def _speed(rep: Rep | Projector, p: int) -> Float[np.ndarray, "p p"]:
    """The skew matrix of a circle action on R^p, at one revolution per 2π."""
    speed = _turning(rep) if isinstance(rep, Rep) else np.asarray(rep, float)
    if speed.shape != (p, p) or not np.abs(speed + speed.T).max() <= 1e-9 * max(1.0, np.abs(speed).max()):
        raise Refusal(
            f"A circle action on R^{p} has a skew ({p}, {p}) matrix as its speed; got shape {speed.shape}. "
            f"Write a representation of SO(2) of dimension {p}."
        )
    return speed


def _turning(rep: Rep) -> Float[np.ndarray, "k k"]:
    turns = rep.group.lie_algebra()
    if len(turns) != 1:
        raise Refusal(
            f"circle_correction takes a representation of SO(2); got one of {rep.group!r}. "
            "Write one of `SpecialOrthogonal(2)`."
        )
    return np.asarray(rep.derivative(turns[0]), float) / np.abs(np.linalg.eigvals(turns[0])).max()
