"""How far a cloud is from being invariant, strongly (on the fixed space) or weakly (equal to its orbit)."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.errors import Refusal
from haarflow.measures.brackets import Bounds, bracket, lower_bounds, scale, upper_bounds
from haarflow.measures.clouds import Cloud, action_matrices, projector_matrix
from haarflow.measures.couplings import Coupling, nearest, searchable
from haarflow.measures.distances import Progress, arrays, exact, kernel_mean, positive


def si_distance(mu: Cloud, rep) -> Float[Array, ""]:
    """W2(mu, P#mu) = (∫|z − Pz|² dmu)^½, also the distance to all laws on the fixed space; works under `jit`.

    `rep` is a representation, or a projector (p, p).
    """
    return jnp.sqrt(_off(mu, rep))


def si_rmd(mu: Cloud, rep) -> Float[Array, ""]:
    """The relative distance RMD(mu, P#mu), between 0 and (½)^½; works under `jit`."""
    off = _off(mu, rep)
    size = 4 * mu.second_moment() - 2 * off
    return jnp.sqrt(off / jnp.where(size > 0, size, 1))


def wi_distance(
    mu: Cloud,
    rep,
    *,
    elements: Array | np.ndarray | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> float:
    """W2(mu, mu^G), exactly: transport between n and n|G| atoms.

    Infinite groups need `elements`, an array (m, d, d) of group elements to average over.
    """
    images = action_matrices(rep, mu.p, elements=elements)
    sample = arrays(mu)
    return exact(sample, _orbit(*sample, images), order=2, force=force, progress=progress) ** 0.5


def wi_rmd(mu: Cloud, rep, *, force: bool = False, progress: Progress | None = None) -> float:
    """The relative distance RMD(mu, mu^G), between 0 and (½)^½."""
    x, a = arrays(mu)
    size = 4 * float(a @ np.sum(x**2, axis=1))
    return wi_distance(mu, rep, force=force, progress=progress) / size**0.5 if size > 0 else 0.0


def pair_distances(mu: Cloud, rep, *, force: bool = False, progress: Progress | None = None) -> Float[np.ndarray, " g"]:
    """d_h = W2(mu, M_h#mu) for every element h of a finite group, exactly; an inverse shares its solve."""
    x, a = arrays(mu)
    known = {}
    for turn in (images := action_matrices(rep, mu.p)):
        if (name := _name(turn)) not in known:
            known[name] = exact((x, a), (x @ turn.T, a), order=2, force=force, progress=progress) ** 0.5
    return np.array([known[_name(turn)] for turn in images])


def wi_bounds(
    key: PRNGKeyArray | Array,
    mu: Cloud,
    rep,
    *,
    elements: Array | np.ndarray | None = None,
    projections: int = 32,
    rounds: int = 3,
    pairs: bool = False,
    force: bool = False,
) -> Bounds:
    """Lower and upper bounds on W2(mu, mu^G) without its solve: seconds for 10⁵ atoms in few dimensions.

    `pairs=True` also solves each d_h = W2(mu, M_h#mu): then ½ max d_h and (mean d_h²)^½ join the bounds.
    """
    images = action_matrices(rep, mu.p, elements=elements)
    x, a = arrays(mu)
    y, b = _orbit(x, a, images)
    lowers = lower_bounds(key, x, a, y, b, projections=projections)
    if searchable(len(x), len(y), mu.p):
        gaps = nearest(x, y)[0].reshape(len(images), -1) ** 2 @ a
        lowers["nearest"] = float(np.sqrt(gaps.mean()))
    if elements is None:
        lowers |= _half_largest(key, x, a, images, projections)
    identity = Coupling(np.tile(np.arange(len(x)), len(images)), np.arange(len(y)), b)
    uppers = upper_bounds(key, x, a, y, b, rounds=rounds, start=identity)
    if pairs and elements is None:
        gaps = pair_distances(mu, rep, force=force)
        lowers["half of exact pairs"] = float(gaps.max() / 2)
        uppers["exact pairs"] = float(np.sqrt(np.mean(gaps**2)))
    return bracket(lowers, uppers, scale(x, a, y, b))


def orbit_mmd_squared(mu: Cloud, rep, *, width: float | int | None = None, block: int = 512) -> float:
    """MMD²(mu, mu^G) for the kernel exp(−|z − z'|² / 2 width²), in closed form: memory O(block · n).

    Without a width, width² is the mean of |z − z'|² over independent draws from mu^G.
    """
    images = action_matrices(rep, mu.p)
    x, a = arrays(mu)
    if width is None:
        width = float(np.sqrt(2 * (a @ np.sum((x - images.mean(axis=0) @ (a @ x)) ** 2, axis=1)))) or 1.0
    positive("orbit_mmd_squared", "width", width)
    means = [kernel_mean(x, a, x @ turn.T, a, width=width, block=block) for turn in images]
    return max(kernel_mean(x, a, x, a, width=width, block=block) - float(np.mean(means)), 0.0)


def circle_correction(mu: Cloud, rep, n: int) -> float:
    """How much W2(mu, mu^G) of the circle G = SO(2) can differ from its value with n equispaced rotations.

    It is (Σ_m 2(1 − sinc(m/n)) ∫|z_m|² dmu)^½, z_m the part of z that turns m times per revolution.
    `rep` is a representation of SO(2), or the skew matrix (p, p) of its rotation speed.
    """
    if n < 1:
        raise Refusal(f"circle_correction takes n ≥ 1 equispaced rotations; got {n}. Write n = 64, say.")
    x, a = arrays(mu)
    speed = _speed(rep, mu.p)
    squares, basis = np.linalg.eigh(-speed @ speed)
    turns = np.round(np.sqrt(np.maximum(squares, 0.0)))
    if np.abs(squares - turns**2).max() > 1e-6 * max(1.0, squares.max()):
        raise Refusal(
            "A circle action turns a whole number of times per revolution in each plane; "
            f"got {np.round(np.sqrt(np.maximum(squares, 0)), 4).tolist()} turns. "
            "Scale the speed so that one revolution takes 2π."
        )
    return float(np.sqrt((2 * (1 - np.sinc(turns / n))) @ (a @ (x @ basis) ** 2)))


def _off(mu: Cloud, rep) -> Float[Array, ""]:
    off = np.eye(mu.p) - projector_matrix(rep, mu.p)
    return mu.weights @ jnp.sum((mu.atoms @ jnp.asarray(off.T, mu.atoms.dtype)) ** 2, axis=-1)


def _orbit(x, a, images):
    return np.concatenate([x @ turn.T for turn in images]), np.tile(a, len(images)) / len(images)


def _half_largest(key: PRNGKeyArray | Array, x, a, images, projections: int) -> dict[str, float]:
    """½ max_h of lower bounds on d_h: mu^G is as far from M_h#mu as from mu, so d_h ≤ 2 W2(mu, mu^G)."""
    turns = {_name(turn): turn for turn in images[1:]}
    found = [lower_bounds(key, x, a, x @ turn.T, a, projections=projections) for turn in turns.values()]
    return {f"half of {rule}": max(one[rule] for one in found) / 2 for rule in (found[0] if found else {})}


def _name(turn: np.ndarray) -> bytes:
    """The same bytes for a matrix and for its inverse: they move the cloud equally far."""
    return min((np.round(one, 9) + 0.0).tobytes() for one in (turn, turn.T))


def _speed(rep, p: int) -> Float[np.ndarray, "p p"]:
    """The skew matrix of a circle action on R^p, at one revolution per 2π."""
    if hasattr(rep, "derivative"):
        turns = rep.group.lie_algebra()
        if len(turns) != 1:
            raise Refusal(
                f"circle_correction takes a representation of SO(2); got one of {rep.group!r}. "
                "Write one of `SpecialOrthogonal(2)`."
            )
        rep = np.asarray(rep.derivative(turns[0]), float) / np.abs(np.linalg.eigvals(turns[0])).max()
    speed = np.asarray(rep, float)
    if speed.shape != (p, p) or not np.allclose(speed, -speed.T, atol=1e-9):
        raise Refusal(
            f"A circle action on R^{p} has a skew ({p}, {p}) matrix as its speed; got shape {speed.shape}. "
            f"Write a representation of SO(2) of dimension {p}."
        )
    return speed
