"""Laws with a symmetry, seen through the few numbers that their flow moves: equations in dimension one to three.

Inputs x ~ N(0, I) in R^d and a teacher of ReLU units inside R^k: the law of the students (a, w) stays invariant under
rotations of the other d − k directions, so the law of (a, s, r) is all there is, s the part of w in R^k and r the norm
of the rest. It flows by `(a, s, r)' = −∇Psi`, Psi of the energy averaged over the angle between two such rests, whose
cosine has the density `∝ (1 − ξ²)^{(d − k − 3)/2}`. As a density in da ds dr it solves the plain continuity equation

    ∂_t rho  =  ∂_a(rho ∂_a Psi) + ∂_s(rho ∂_s Psi) + ∂_r(rho ∂_r Psi),

without a factor r^(d − k − 1) or 1/r: the law is pushed forward, volume elements included, and mass is conserved.

Two centred Gaussians that differ in their variances have no direction at all: the law of r = |w| is all there is.
"""

from functools import partial
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.reps import trivial_rep
from haarflow.doors import Above, Count, Least, Most, Positive, door
from haarflow.dynamics.doubles import doubled
from haarflow.dynamics.optimality import optimality_gap
from haarflow.dynamics.pairwise import Pairwise
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import Nodes, gegenbauer_rule, length, relu_kernel
from haarflow.measures.clouds import Cloud
from haarflow.models.kernels import arc
from haarflow.models.units import Custom
from haarflow.values import refuse_unless_affordable


class TeacherPotential(eqx.Module):
    """`V(a, s, r) = −E phi(x; a, s, r) f*(x)`: against a teacher, r is one more direction."""

    teacher: Cloud

    def __call__(self, theta: Float[Array, "p"]) -> Float[Array, ""]:
        """V at one particle."""
        return -self.teacher.weights @ relu_kernel(theta[None], _padded(self.teacher.atoms))[0]


class AngleAveragedPair(eqx.Module):
    """`U` of two particles (a, s, r), averaged over the angle between the parts that r measures."""

    cosines: Float[Array, "q"]
    shares: Float[Array, "q"]

    def __call__(self, theta: Float[Array, "p"], other: Float[Array, "p"]) -> Float[Array, ""]:
        """U at two particles."""
        sizes = length(theta[1:]) * length(other[1:])
        cosines = (theta[1:-1] @ other[1:-1] + theta[-1] * other[-1] * self.cosines) / jnp.where(sizes > 0, sizes, 1)
        return theta[0] * other[0] * sizes * (self.shares @ arc(cosines)) / (2 * jnp.pi)


def _padded(atoms):
    return jnp.concatenate([atoms, jnp.zeros((len(atoms), 1), atoms.dtype)], axis=1)


@door
def reduced_risk(teacher: Cloud, d: Count, *, nodes: Nodes = 12) -> Pairwise:
    """The half square risk of a rotation-invariant law of ReLU units, as an energy of particles (a, s, r).

    The teacher has atoms (a, w) with w in R^k, its own span, for inputs x ~ N(0, I) in R^d; a single neuron is
    `uniform([[1.0, 1.0]])`. The angle is averaged by Gauss–Jacobi quadrature. It is `ReluLimit(teacher, d)` written
    as an energy of pairs, with Psi at any place; that one has the faster variation.
    """
    k = teacher.p - 1
    _refuse_unless_room(d, k)
    cosines, shares = gegenbauer_rule(d - k, nodes)
    constant = teacher.weights @ relu_kernel(teacher.atoms, teacher.atoms) @ teacher.weights / 2
    return Pairwise(TeacherPotential(teacher), AngleAveragedPair(jnp.asarray(cosines), jnp.asarray(shares)), constant)


@door
def reduced_start(
    d: Count,
    *,
    outputs: tuple[float, ...] = (1.0, -1.0),
    scale: Positive = 1.0,
    k: Count = 1,
    along: Nodes = 12,
    across: Nodes = 3,
) -> Cloud:
    """The law of (a, s, r) for outputs a, equally likely, and w ~ N(0, scale²/d I), as a Gauss quadrature.

    s is N(0, scale²/d) in R^k and r is `scale/√d` times the norm of a Gaussian in R^(d − k). Since the flow moves the
    nodes by a smooth map, their averages stay as good as the quadrature: few nodes follow the law.
    """
    from scipy.special import roots_hermitenorm

    _refuse_unless_room(d, k)
    if not outputs:
        raise Refusal("A reduced start has one output or more; got none. Write outputs=(1.0, -1.0).")
    count = len(outputs) * float(along) ** k * across
    refuse_unless_affordable(
        f"A reduced start of {count:.3g} atoms", 8 * 4 * (k + 3) * count, instead="Write a smaller k or `along`."
    )
    width = scale / np.sqrt(d)
    lines = [(np.asarray(outputs, float), np.full(len(outputs), 1 / len(outputs)))]
    steps, shares = roots_hermitenorm(along)
    lines += k * [(width * steps, shares)]
    halves, shares = _laguerre(across, (d - k) / 2 - 1)
    lines += [(width * np.sqrt(2 * halves), shares)]
    atoms = np.stack(np.meshgrid(*(places for places, _ in lines), indexing="ij"), axis=-1).reshape(-1, k + 2)
    weights = np.ones(())
    for _, shares in lines:
        weights = weights[..., None] * (shares / shares.sum())
    return Cloud(atoms, weights.ravel() / weights.sum())


def _laguerre(nodes: int, power: float) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Places and shares of the law `∝ t^power exp(−t)`, by Golub and Welsch: in every dimension, without overflow."""
    from scipy.linalg import eigh_tridiagonal

    steps = np.arange(nodes)
    places, frame = eigh_tridiagonal(2 * steps + power + 1, np.sqrt(steps[1:] * (steps[1:] + power)))
    return places, frame[0] ** 2


def _refuse_unless_room(d: int, k: int):
    if k < 1 or d < k + 2:
        raise Refusal(
            f"A reduced law has a teacher in R^k, k >= 1, and at least two directions besides; got k = {k} of d = {d}. "
            f"Write d >= {max(k, 1) + 2}."
        )


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _excess(size, level, d):
    """`E (size G − level)₊`, G a coordinate of a uniform point on the sphere of radius √d, or N(0, 1) without d."""
    cut = level / size
    beyond = jax.scipy.special.ndtr(-cut) if d is None else _share_beyond(cut, d)
    return size * _mean_beyond(cut, d) - level * beyond


@_excess.defjvp
def _(level, d, primals, tangents):
    return _excess(primals[0], level, d), _mean_beyond(level / primals[0], d) * tangents[0]


def _mean_beyond(cut, d):
    """`E G 1(G > cut)`, for a positive cut."""
    from scipy.special import beta

    if d is None:
        return jnp.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi)
    inside = jnp.clip(1 - cut**2 / d, 0, 1)
    return np.sqrt(d) * inside ** ((d - 1) / 2) / ((d - 1) * beta(0.5, (d - 1) / 2))


def _share_beyond(cut, d):
    """`P(G > cut)` on the sphere, by Gauss–Legendre quadrature of its smooth density."""
    from scipy.special import beta

    steps, shares = np.polynomial.legendre.leggauss(48)
    width = jnp.maximum(np.sqrt(d) - cut, 0)[..., None]
    places = cut[..., None] + width * ((1 + steps) / 2).reshape(*np.ones(cut.ndim, int), -1)
    inside = jnp.clip(1 - places**2 / d, 0, 1) ** ((d - 3) / 2)
    return (width * inside) @ jnp.asarray(shares / 2) / (np.sqrt(d) * beta(0.5, (d - 1) / 2))


Dimension = Annotated[int, Least(3)]


@door
def ramp_average(
    size: Annotated[Float[Array, "*s"] | Float[np.ndarray, "*s"], Least(0)], *, d: Dimension | None = None
) -> Float[Array, "*s"]:
    """`E σ(size G)` of the ramp from −2.5 (below ½) to 7.5 (above 1½): what a unit of random direction says.

    G is the first coordinate of a uniform point on the sphere of radius √d, and N(0, 1) without d.
    """
    size = jnp.maximum(jnp.asarray(size, float), 1e-6)
    return -2.5 + 10 * (_excess(size, 0.5, d) - _excess(size, 1.5, d))


@door
def radial_risk(
    delta: Annotated[float, Above(0)], *, d: Dimension | None = None, inputs: Annotated[int, Least(1), Most(10**6)] = 32
) -> Risk:
    """The risk of a law of norms r = |w| that tells N(0, (1 + delta)² I) from N(0, (1 − delta)² I), labels ±1.

    Without d it is the limit of high dimension, `½(1 − ⟨q₊, rho⟩)² + ½(1 + ⟨q₋, rho⟩)²`, `q± = E σ((1 ± delta) r G)`:
    the square loss, without a half, on two inputs. With d it is exact in R^d, over so many quantiles of each norm |x|.
    """
    if not delta < 1:
        raise Refusal(
            f"Two Gaussians have deviations 1 ± delta with 0 < delta < 1, both positive; got delta = {delta}. "
            "Write 0.2, for example."
        )
    norms = np.ones(1) if d is None else norm_quantiles(d, inputs) / np.sqrt(d)
    xs = np.concatenate([(1 + delta) * norms, (1 - delta) * norms])
    return Risk(radial_unit(d), Sample(xs[:, None], np.repeat([1.0, -1.0], len(norms))[:, None]), "square")


def norm_quantiles(d: int, n: int) -> Float[np.ndarray, " n"]:
    """The n middle quantiles of the norm of a Gaussian in R^d."""
    from scipy.stats import chi

    return chi(d).ppf((np.arange(n) + 0.5) / n)


@door
def radial_unit(d: Dimension | None = None) -> Custom:
    """What a particle of norm r and random direction says of an input of norm x√d: `ramp_average(r x, d)`."""
    return Custom(Radial(d), 1, 1, 1, _unmoved)


def _unmoved(on_x, on_y):
    return trivial_rep(on_x.group)


class Radial(eqx.Module):
    """The function of a radial unit."""

    d: int | None

    def __call__(self, theta: Float[Array, "1"], x: Float[Array, "1"]) -> Float[Array, "1"]:
        """Its value at one norm and one input."""
        return ramp_average(theta * x, d=self.d)


@door
def best_norm(
    risk: Risk, *, low: Positive = 0.05, high: Positive = 60.0, places: Annotated[int, Least(3), Most(10**6)] = 4001
) -> tuple[float, float, float]:
    """The best law with a single norm: where, its risk, and `Psi(r) − min Psi`, zero if no law is better.

    The risk is a `radial_risk`; the minimum of Psi is over `places` norms from low to high. All in float64.
    """
    from scipy.optimize import minimize_scalar

    if risk.dim != 1 or not low < high:
        raise Refusal(
            f"The best norm of a law of norms in R^1 lies between low < high; got a unit in R^{risk.dim}, "
            f"low={low:g} and high={high:g}. Write best_norm(radial_risk(0.2))."
        )
    grid = np.geomspace(low, high, places)
    values = _single(risk, grid)
    at = int(np.clip(values.argmin(), 1, places - 2))
    found = minimize_scalar(
        lambda r: float(_single(risk, np.array([r]))[0]),
        bounds=(grid[at - 1], grid[at + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.x), float(found.fun), _gap(risk, np.array([[found.x]]), grid[:, None])


@doubled
def _single(risk: Risk, norms):
    return np.asarray(_risks(risk, jnp.asarray(norms)))


@eqx.filter_jit
def _risks(risk: Risk, norms):
    return jax.vmap(lambda r: risk(Cloud(r[None, None], jnp.ones(1))))(norms)


@doubled
def _gap(risk: Risk, atoms, places) -> float:
    return optimality_gap(risk, Cloud(atoms, np.ones(1)), places)
