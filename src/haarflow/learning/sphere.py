"""ReLU units on the sphere, integrated exactly: the risk against a teacher without drawing a single input.

Particles are (a, w) and compute `a relu(<w, x>)`; x is uniform on the sphere of radius √d, or N(0, I), which gives the
same integrals. Two of them have `E phi phi' = a a' |w||w'| (sin φ + (π − φ) cos φ) / 2π`, φ the angle between w and w'.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.doors import Least, Most, door
from haarflow.errors import Refusal
from haarflow.learning.forms import QuadraticForm, kernel_form
from haarflow.learning.functionals import Functional, Variation
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.fits import refuse_unless_cloud
from haarflow.models.kernels import arc
from haarflow.values import whole

Nodes = Annotated[int, Least(1), Most(5000)]


@door
def relu_kernel(
    atoms: Float[Array, "n p"] | Float[np.ndarray, "n p"], others: Float[Array, "m p"] | Float[np.ndarray, "m p"]
) -> Float[Array, "n m"]:
    """`E phi(x, θ) phi(x, θ')` for every pair of particles."""
    _refuse_unless_particles(atoms.shape[1])
    return _kernel(jnp.asarray(atoms), jnp.asarray(others))


def _kernel(atoms, others):
    (size, ways), (size_, ways_) = _polar(atoms), _polar(others)
    return (atoms[:, 0] * size)[:, None] * (others[:, 0] * size_)[None, :] * arc(ways @ ways_.T) / (2 * jnp.pi)


@door
def relu_distance(cloud: Cloud, other: Cloud) -> Float[Array, ""]:
    """`E |f − g|²` between the networks of two clouds."""
    signed, atoms = _difference(cloud, other)
    return signed @ _kernel(atoms, atoms) @ signed


class Split(NamedTuple):
    """An excess risk in three pieces, which sum to it; the last two may be negative."""

    approximation: Float[Array, ""]
    statistical: Float[Array, ""]
    optimisation: Float[Array, ""]


@door
def relu_split(teacher: Cloud, *, population: Cloud, empirical: Cloud, trained: Cloud) -> Split:
    """The excess risk of a trained network over its teacher: what the class, the sample and the training cost.

    `population` is the best law of the class under the true risk, `empirical` the best under the sampled one. Each
    piece is `R(f) − R(g)` as one inner product, `E (f − g)((f + g)/2 − teacher)`, so that none is a small difference.
    """
    laws = (teacher, population, empirical, trained)
    return Split(*(_rise(high, low, teacher) for low, high in pairwise(laws)))


@eqx.filter_jit
def _rise(high: Cloud, low: Cloud, teacher: Cloud):
    signed, atoms = _difference(high, low)
    middle = jnp.concatenate([high.weights / 2, low.weights / 2, -teacher.weights])
    return signed @ _kernel(atoms, jnp.concatenate([atoms, teacher.atoms])) @ middle


def _refuse_unless_particles(p: int) -> None:
    if p < 2:
        raise Refusal(
            f"ReLU networks have particles (a, w) in R^(1 + d); got atoms in R^{p}. "
            "Write uniform(np.column_stack([a, w]))."
        )


def _difference(cloud: Cloud, other: Cloud):
    for one in (cloud, other):
        refuse_unless_cloud("A ReLU network", one)
        _refuse_unless_particles(one.p)
    if cloud.p != other.p:
        raise Refusal(
            f"ReLU networks are compared over one R^(1 + d); got atoms in R^{cloud.p} and in R^{other.p}. "
            "Write particles (a, w) of one size, w as long as the inputs."
        )
    return jnp.concatenate([cloud.weights, -other.weights]), jnp.concatenate([cloud.atoms, other.atoms])


def _polar(atoms):
    size = length(atoms[:, 1:])
    return size, atoms[:, 1:] / jnp.where(size > 0, size, 1)[:, None]


def length(w):
    """|w| along the last axis, with the slope zero at zero."""
    squares = jnp.sum(w**2, axis=-1)
    return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


@door
class ReluRisk(Functional):
    """The exact half square risk of particles (a, w) against a teacher of the same kind, over the whole sphere."""

    teacher: Cloud

    def __check_init__(self):
        refuse_unless_cloud("A ReluRisk", self.teacher)
        _refuse_unless_particles(self.teacher.p)

    @property
    def dim(self):
        return self.teacher.p

    def __call__(self, cloud):
        return relu_distance(cloud, self.teacher) / 2

    def variation(self, cloud):
        signed, atoms = _difference(cloud, self.teacher)
        (size, ways), (sizes, directions) = _polar(cloud.atoms), _polar(atoms)
        cosine = jnp.clip(ways @ directions.T, -1, 1)
        angle = jnp.arccos(cosine)
        sine = jnp.sqrt(1 - cosine**2)
        charge = signed * atoms[:, 0] / (2 * jnp.pi)
        per_output = size * ((sine + (jnp.pi - angle) * cosine) @ (charge * sizes))
        radial = sine @ (charge * sizes)
        pull = ways * radial[:, None] + (jnp.pi - angle) @ (charge[:, None] * atoms[:, 1:])
        outputs = cloud.atoms[:, :1]
        return Variation(outputs[:, 0] * per_output, -jnp.concatenate([per_output[:, None], outputs * pull], axis=1))

    def quadratic_form(self, atoms):
        return _against_teacher("ReluRisk", _kernel, atoms, self.teacher)

    @classmethod
    def examples(cls):
        return [cls(uniform(jnp.array([[1.0, 0.3, -0.8, 0.1], [-0.5, 1.0, 0.2, 0.4]])))]


def _against_teacher(owner: str, kernel: Callable, atoms: Float[Array, "n p"], teacher: Cloud) -> QuadraticForm:
    """Half the squared distance to a teacher, from the inner products of all atoms."""
    if atoms.shape[1] != teacher.p:
        raise Refusal(
            f"The particles of this {owner} are in R^{teacher.p}, as those of its teacher; got atoms in "
            f"R^{atoms.shape[1]}. Write atoms of shape (n, {teacher.p})."
        )
    together = jnp.concatenate([atoms, teacher.atoms])
    gram = np.asarray(kernel(together, together), float)
    return kernel_form(gram, np.asarray(teacher.weights, float), np.zeros(len(atoms)))


@door
class ReluLimit(Functional):
    """The ReluRisk of laws in R^d that see k directions only, over particles (a, s, r): no direction is drawn.

    s are the k coordinates of w along the directions of the teacher, particles (a, s) in R^(1 + k), and r is the length
    of the rest, whose direction is uniform on the sphere of R^(d − k). Training keeps such a law so, and moves s and r
    as it moves w. The angle between two rests is integrated by a Gauss–Jacobi rule with `nodes` points.
    """

    teacher: Cloud
    cosines: Float[Array, "q"]
    masses: Float[Array, "q"]

    def __init__(self, teacher: Cloud, d: int, *, nodes: int = 8):
        refuse_unless_cloud("A ReluLimit", teacher)
        _refuse_unless_particles(teacher.p)
        rest = whole("A ReluLimit's d", d, least=1) - (teacher.p - 1)
        if rest < 2:
            raise Refusal(
                f"A ReluLimit needs two directions or more that its teacher does not know; got a teacher of "
                f"{teacher.p - 1} directions in R^{d}. Write a larger d, or ReluRisk(teacher)."
            )
        self.teacher = Cloud(jnp.pad(teacher.atoms, ((0, 0), (0, 1))), teacher.weights)
        self.cosines, self.masses = (jnp.asarray(part) for part in gegenbauer_rule(rest, nodes))

    @property
    def dim(self):
        return self.teacher.p

    def __call__(self, cloud):
        signed, atoms = _difference(cloud, self.teacher)
        return signed @ self.kernel(atoms, atoms) @ signed / 2

    @door
    def kernel(self, atoms: Float[Array, "n p"], others: Float[Array, "m p"]) -> Float[Array, "n m"]:
        """`E phi(x, θ) phi(x, θ')` for every pair, averaged over the directions of their rests."""
        (size, ways), (size_, ways_) = _polar(atoms), _polar(others)
        arcs, *_ = self._averages(ways, ways_)
        return (atoms[:, 0] * size)[:, None] * (others[:, 0] * size_)[None, :] * arcs / (2 * jnp.pi)

    def _averages(self, ways, ways_):
        """Of the arc, of sin φ, of π − φ and of (π − φ) times the cosine of the rests, for every pair."""
        known, rest = ways[:, :-1] @ ways_[:, :-1].T, ways[:, -1:] * ways_[:, -1][None, :]

        def add(sums, node):
            cosine, mass = node
            between = jnp.clip(known + cosine * rest, -1, 1)
            parts = (jnp.sqrt(1 - between**2), jnp.pi - jnp.arccos(between))
            return (sums[0] + mass * parts[0], sums[1] + mass * parts[1], sums[2] + mass * cosine * parts[1]), None

        nothing = (jnp.zeros_like(known),) * 3
        (sine, angle, turned), _ = jax.lax.scan(add, nothing, (self.cosines, self.masses))
        return sine + angle * known + turned * rest, sine, angle, turned

    def variation(self, cloud):
        signed, atoms = _difference(cloud, self.teacher)
        (size, ways), (sizes, directions) = _polar(cloud.atoms), _polar(atoms)
        arcs, sine, angle, turned = self._averages(ways, directions)
        charge = signed * atoms[:, 0] / (2 * jnp.pi)
        per_output = size * (arcs @ (charge * sizes))
        pulls = [angle @ (charge[:, None] * atoms[:, 1:-1]), (turned @ (charge * atoms[:, -1]))[:, None]]
        pull = ways * (sine @ (charge * sizes))[:, None] + jnp.concatenate(pulls, axis=1)
        outputs = cloud.atoms[:, :1]
        return Variation(outputs[:, 0] * per_output, -jnp.concatenate([per_output[:, None], outputs * pull], axis=1))

    def quadratic_form(self, atoms):
        return _against_teacher("ReluLimit", self.kernel, atoms, self.teacher)

    @classmethod
    def examples(cls):
        return [cls(uniform(jnp.array([[1.0, 0.3, -0.8], [-0.5, 1.0, 0.2]])), 7)]


@door
def relu_coordinates(
    atoms: Float[Array, "*n p"] | Float[np.ndarray, "*n p"], frame: Float[Array, "d k"] | Float[np.ndarray, "d k"]
) -> Float[Array, "*n q"]:
    """Particles (a, w) as (a, s, r): w along the k columns of an orthonormal frame, and the length of the rest."""
    d, k = frame.shape
    if atoms.shape[-1] != d + 1:
        raise Refusal(
            f"A frame of R^{d} is for particles (a, w) in R^{d + 1}; got atoms {atoms.shape}. Write a frame "
            f"({atoms.shape[-1] - 1}, k)."
        )
    if not isinstance(frame, Tracer) and not np.abs(np.asarray(frame).T @ np.asarray(frame) - np.eye(k)).max() < 1e-4:
        raise Refusal("A frame has orthonormal columns; got columns that are not. Write np.linalg.qr(columns)[0].")
    atoms, frame = jnp.asarray(atoms), jnp.asarray(frame)
    known = atoms[..., 1:] @ frame
    rest = length(atoms[..., 1:] - known @ frame.T)[..., None]
    return jnp.concatenate([atoms[..., :1], known, rest], axis=-1)


@door
def gegenbauer_rule(
    dim: Annotated[int, Least(2)], nodes: Nodes
) -> tuple[Float[np.ndarray, " q"], Float[np.ndarray, " q"]]:
    """Nodes and shares of the cosine between two uniform directions of R^dim: `∝ (1 − ξ²)^{(dim − 3)/2}`."""
    from scipy.special import roots_jacobi

    power = (dim - 3) / 2
    cosines, shares = roots_jacobi(nodes, power, power)
    return cosines, shares / shares.sum()


def unit_vectors(draw: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Uniform on the sphere of radius one, in the last axis."""
    ways = draw.normal(size=shape)
    return ways / np.linalg.norm(ways, axis=-1, keepdims=True)


def relu_students(draw: np.random.Generator, runs: int, n: int, d: int) -> Float[np.ndarray, "r n p"]:
    """Starts (runs, n, 1 + d) of ReLU networks: outputs N(0, 1), directions uniform on the sphere."""
    return np.concatenate([draw.normal(size=(runs, n, 1)), unit_vectors(draw, (runs, n, d))], axis=-1)


def relu_teacher(draw: np.random.Generator, outputs: Float[np.ndarray, " n"], d: int) -> Cloud:
    """A teacher of neurons with these outputs and directions uniform on the sphere."""
    return uniform(np.column_stack([outputs, unit_vectors(draw, (len(outputs), d))]))


def one_neuron(d: int) -> Cloud:
    """The teacher `relu(x₁)`, as a cloud of one particle (a, w)."""
    return uniform(np.eye(1, d + 1) + np.eye(1, d + 1, 1))


def smooth_students(draw: np.random.Generator, pairs: int, d: int) -> Float[np.ndarray, "n q"]:
    """The law of `relu_students` by 2 · pairs particles (a, s, r), s two known directions: scrambled Sobol points.

    `|s|²` of a uniform direction has the law Beta(1, d/2 − 1), and outputs come in both signs.
    """
    from scipy.stats import norm, qmc

    u, v, angle = qmc.Sobol(3, rng=draw).random(pairs).T
    square = 1 - (1 - u) ** (2 / (d - 2))
    known = np.sqrt(square)[:, None] * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)], axis=1)
    ways = np.column_stack([known, np.sqrt(1 - square)])
    return np.concatenate([np.column_stack([sign * norm.ppf(v), ways]) for sign in (1, -1)])
