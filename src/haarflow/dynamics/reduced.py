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

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.reps import trivial
from haarflow.dynamics.limits import Pairwise, optimality_gap
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import angle_quadrature, relu_kernel
from haarflow.measures.clouds import Cloud
from haarflow.models.kernels import arc
from haarflow.models.units import Custom


class Taught(eqx.Module):
    """`V(a, s, r) = −E phi(x; a, s, r) f*(x)`: against a teacher, r is one more direction."""

    teacher: Cloud

    def __call__(self, theta: Float[Array, "p"]) -> Float[Array, ""]:
        """V at one particle."""
        return -self.teacher.weights @ relu_kernel(theta[None], _padded(self.teacher.atoms))[0]


class Turned(eqx.Module):
    """`U` of two particles (a, s, r), averaged over the angle between the parts that r measures."""

    cosines: Float[Array, "q"]
    shares: Float[Array, "q"]

    def __call__(self, theta: Float[Array, "p"], other: Float[Array, "p"]) -> Float[Array, ""]:
        """U at two particles."""
        sizes = _norm(theta[1:]) * _norm(other[1:])
        cosines = (theta[1:-1] @ other[1:-1] + theta[-1] * other[-1] * self.cosines) / sizes
        return theta[0] * other[0] * sizes * (self.shares @ arc(cosines)) / (2 * jnp.pi)


def _norm(w):
    return jnp.sqrt(w @ w + 1e-30)


def _padded(atoms):
    return jnp.concatenate([atoms, jnp.zeros((len(atoms), 1), atoms.dtype)], axis=1)


def reduced_risk(teacher: Cloud, d: int, *, nodes: int = 12) -> Pairwise:
    """The half square risk of a rotation-invariant law of ReLU units, as an energy of particles (a, s, r).

    The teacher has atoms (a, w) with w in R^k, its own span, for inputs x ~ N(0, I) in R^d; a single neuron is
    `uniform([[1.0, 1.0]])`. The angle is averaged by Gauss–Jacobi quadrature. It is `ReluLimit(teacher, d)` written
    as an energy of pairs, with Psi at any place; that one has the faster variation.
    """
    k = teacher.p - 1
    _refuse_unless_room(d, k)
    cosines, shares = angle_quadrature(d - k, nodes)
    constant = teacher.weights @ relu_kernel(teacher.atoms, teacher.atoms) @ teacher.weights / 2
    return Pairwise(Taught(teacher), Turned(jnp.asarray(cosines), jnp.asarray(shares)), constant)


def reduced_start(
    d: int,
    *,
    outputs: tuple[float, ...] = (1.0, -1.0),
    scale: float = 1.0,
    k: int = 1,
    along: int = 12,
    across: int = 3,
) -> Cloud:
    """The law of (a, s, r) for outputs a, equally likely, and w ~ N(0, scale²/d I), as a Gauss quadrature.

    s is N(0, scale²/d) in R^k and r is `scale/√d` times the norm of a Gaussian in R^(d − k). Since the flow moves the
    nodes by a smooth map, their averages stay as good as the quadrature: few nodes follow the law.
    """
    from scipy.special import roots_genlaguerre, roots_hermitenorm

    _refuse_unless_room(d, k)
    width = scale / np.sqrt(d)
    lines = [(np.asarray(outputs, float), np.full(len(outputs), 1 / len(outputs)))]
    steps, shares = roots_hermitenorm(along)
    lines += k * [(width * steps, shares)]
    halves, shares = roots_genlaguerre(across, (d - k) / 2 - 1)
    lines += [(width * np.sqrt(2 * halves), shares)]
    atoms = np.stack(np.meshgrid(*(places for places, _ in lines), indexing="ij"), axis=-1).reshape(-1, k + 2)
    weights = np.ones(())
    for _, shares in lines:
        weights = weights[..., None] * (shares / shares.sum())
    return Cloud(atoms, weights.ravel() / weights.sum())


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


def ramp_average(size: Float[Array, "*s"], *, d: int | None = None) -> Float[Array, "*s"]:
    """`E σ(size G)` of the ramp from −2.5 (below ½) to 7.5 (above 1½): what a unit of random direction says.

    G is the first coordinate of a uniform point on the sphere of radius √d, and N(0, 1) without d.
    """
    size = jnp.maximum(jnp.asarray(size, float), 1e-6)
    return -2.5 + 10 * (_excess(size, 0.5, d) - _excess(size, 1.5, d))


def radial_risk(delta: float, *, d: int | None = None, inputs: int = 32) -> Risk:
    """The risk of a law of norms r = |w| that tells N(0, (1 + delta)² I) from N(0, (1 − delta)² I), labels ±1.

    Without d it is the limit of high dimension, `½(1 − ⟨q₊, rho⟩)² + ½(1 + ⟨q₋, rho⟩)²`, `q± = E σ((1 ± delta) r G)`:
    the square loss, without a half, on two inputs. With d it is exact in R^d, over so many quantiles of each norm |x|.
    """
    from scipy.stats import chi

    if not 0 < delta < 1 or (d is not None and d < 3):
        raise Refusal(
            f"Two Gaussians have deviations 1 ± delta with 0 < delta < 1, in R^d with d >= 3; got delta = {delta} and "
            f"d = {d}. Write for example radial_risk(0.2, d=40)."
        )
    norms = np.ones(1) if d is None else chi(d).ppf((np.arange(inputs) + 0.5) / inputs) / np.sqrt(d)
    xs = np.concatenate([(1 + delta) * norms, (1 - delta) * norms])
    return Risk(radial_unit(d), Sample(xs[:, None], np.repeat([1.0, -1.0], len(norms))[:, None]), "square")


def radial_unit(d: int | None = None) -> Custom:
    """What a particle of norm r and random direction says of an input of norm x√d: `ramp_average(r x, d)`."""
    return Custom(Radial(d), 1, 1, 1, _unmoved)


def _unmoved(on_x, on_y):
    return trivial(on_x.group)


class Radial(eqx.Module):
    """The function of a radial unit."""

    d: int | None

    def __call__(self, theta: Float[Array, "1"], x: Float[Array, "1"]) -> Float[Array, "1"]:
        """Its value at one norm and one input."""
        return ramp_average(theta * x, d=self.d)


def best_norm(risk: Risk, *, low: float = 0.05, high: float = 60.0, places: int = 4001) -> tuple[float, float, float]:
    """The best law with a single norm: where, its risk, and `Psi(r) − min Psi`, zero if no law is better.

    The risk is a `radial_risk`; the minimum of Psi is over `places` norms from low to high.
    """
    from scipy.optimize import minimize_scalar

    grid = jnp.geomspace(low, high, places)
    values = np.asarray(_single(risk, grid))
    at = int(np.clip(values.argmin(), 1, places - 2))
    ends = (float(grid[at - 1]), float(grid[at + 1]))
    found = minimize_scalar(
        lambda r: float(_single(risk, jnp.array([r]))[0]), bounds=ends, method="bounded", options={"xatol": 1e-10}
    )
    cloud = Cloud(np.array([[found.x]]), np.ones(1))
    return float(found.x), float(found.fun), optimality_gap(risk, cloud, grid[:, None])


@eqx.filter_jit
def _single(risk: Risk, norms):
    return jax.vmap(lambda r: risk(Cloud(r[None, None], jnp.ones(1))))(norms)
