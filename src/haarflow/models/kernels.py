"""Kernels that networks are or become: random features, tangent kernels, their closed forms, and linearised models.

The kernel of a law mu of features is `K(x, x') = ∫ phi(x, θ)·phi(x', θ) mu(dθ)`; the tangent kernel is the same of the
features `∇phi(x, θ)`. For ReLU units with w ~ N(0, I) both are arc-cosine kernels: with φ the angle between x and x',

    E 1(<w,x> > 0) 1(<w,x'> > 0)  =  (π − φ) / 2π,          E relu(<w,x>) relu(<w,x'>)  =  |x||x'| arc(cos φ) / 2π.
"""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.algebra.groups import Cyclic, Dihedral
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.doors import Count, Least, NonNegative, door
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import inputs_for, refuse_unless_particles
from haarflow.models.units import Dense, Perceptron, Unit, Wrapped
from haarflow.values import refuse_unless_affordable


@jax.custom_jvp
def arc(cosine):
    """`sin φ + (π − φ) cos φ` as a function of cos φ, with its finite slope at both ends."""
    cosine = jnp.clip(cosine, -1, 1)
    return jnp.sqrt(1 - cosine**2) + (jnp.pi - jnp.arccos(cosine)) * cosine


@arc.defjvp
def _(primals, tangents):
    return arc(*primals), (jnp.pi - jnp.arccos(jnp.clip(primals[0], -1, 1))) * tangents[0]


@door
def arc_cosine(
    xs: Float[Array, "b d"] | Float[np.ndarray, "b d"],
    others: Float[Array, "e d"] | Float[np.ndarray, "e d"] | None = None,
    *,
    degree: int = 1,
) -> Float[Array, "b e"]:
    """`E σ(<w,x>) σ(<w,x'>)` for w ~ N(0, I): σ the step (degree 0) or the ReLU (degree 1)."""
    if degree not in (0, 1):
        raise Refusal(f"An arc-cosine kernel has degree 0 (steps) or 1 (ReLU); got {degree}. Write degree=1.")
    others = xs if others is None else others
    _refuse_unless_held(xs.shape[0], others.shape[0])
    sizes, sizes_ = jnp.linalg.norm(xs, axis=1), jnp.linalg.norm(others, axis=1)
    scale = sizes[:, None] * sizes_[None, :]
    cosine = jnp.clip(xs @ others.T / jnp.where(scale > 0, scale, 1), -1, 1)
    if degree == 0:
        return (jnp.pi - jnp.arccos(cosine)) / (2 * jnp.pi)
    return scale * arc(cosine) / (2 * jnp.pi)


@door
def relu_tangent(
    xs: Float[Array, "b d"] | Float[np.ndarray, "b d"],
    others: Float[Array, "e d"] | Float[np.ndarray, "e d"] | None = None,
    *,
    output: float | Float[Array, ""] = 1.0,
    scale: float | Float[Array, ""] = 1.0,
) -> Float[Array, "b e"]:
    """The tangent kernel of infinitely many units `a relu(<w, x>)`: w ~ N(0, scale² I), a of mean square output².

    `E relu relu + output² <x, x'> E step step`: outputs and weights learn. For a bias append a one to the inputs.
    """
    others = xs if others is None else others
    if not isinstance(scale, Tracer) and not isinstance(output, Tracer) and max(abs(scale), abs(output)) > 1e150:
        raise Refusal(
            f"A tangent kernel has squares of output and scale within float64; got output={output:g} and "
            f"scale={scale:g}. Write smaller numbers."
        )
    return scale * scale * arc_cosine(xs, others) + output * output * (xs @ others.T) * arc_cosine(xs, others, degree=0)


@door
def relu_beyond_linear(d: Count) -> float:
    """`|P_{>1} relu|²`: what no linear function catches of relu(<w, x>), |w| = 1, x uniform on the sphere of radius √d.

    It is `¼ − (E relu)²`, and `¼ − 1/2π` in high dimension.
    """
    from scipy.special import poch

    # Γ((d + 1)/2) / Γ(d/2): a difference of logarithms would lose all digits in high dimension
    size = float(min(d, 10**300))
    mean = np.sqrt(size) / poch(size / 2, 0.5) / (2 * np.sqrt(np.pi))
    return float(0.25 - mean**2)


@door
def feature_kernel(
    unit: Unit, cloud: Cloud, xs: Array | np.ndarray, others: Array | np.ndarray | None = None
) -> Float[Array, "b e"]:
    """`∫ phi(x, θ)·phi(x', θ) dmu`: random features, if the cloud is drawn from a law and only outputs learn."""
    xs, others = _inputs(unit, cloud, xs, others, unit.outputs)
    here = unit.batched(cloud.atoms, xs)
    there = here if others is None else unit.batched(cloud.atoms, others)
    return jnp.einsum("n,ncb,nce->be", cloud.weights, here, there)


@door
def tangent_kernel(
    unit: Unit, cloud: Cloud, xs: Array | np.ndarray, others: Array | np.ndarray | None = None
) -> Float[Array, "b e"]:
    """`∫ ∇phi(x, θ)·∇phi(x', θ) dmu` by autodiff: how fast the network at x learns from x', for one output.

    Under the Wasserstein flow `θ' = −∇Psi`, the outputs of the network move by `f' = −E[K(·, X)(f − Y)(X)]`.
    """
    if unit.outputs != 1:
        raise Refusal(f"A tangent kernel is that of one output; got a unit with {unit.outputs}. Write outputs=1.")
    xs, others = _inputs(unit, cloud, xs, others, unit.dim)

    def slopes(points):
        def one(theta, x):
            return unit.batched(theta[None], x[None])[0, 0, 0]

        return jax.vmap(lambda theta: jax.vmap(lambda x: jax.grad(one)(theta, x))(points))(cloud.atoms)

    here = slopes(xs)
    there = here if others is None else slopes(others)
    return jnp.einsum("n,nbp,nep->be", cloud.weights, here, there)


def _inputs(unit: Unit, cloud: Cloud, xs, others, features: int):
    """Both sets of inputs, where they are the unit's and their features fit into memory."""
    refuse_unless_particles(unit, cloud)
    xs = inputs_for(unit, cloud, xs)
    others = None if others is None else inputs_for(unit, cloud, others)
    more = 0 if others is None else others.shape[0]
    _refuse_unless_held(xs.shape[0] + more, cloud.n * features)
    _refuse_unless_held(xs.shape[0], more or xs.shape[0])
    return xs, others


def _refuse_unless_held(rows: int, columns: int):
    refuse_unless_affordable("A kernel on these inputs", 24.0 * rows * columns, instead="Write fewer inputs at a time.")


def _refuse_unless_symmetric(gram: Float[np.ndarray, "b b"]):
    gap, size = np.abs(gram - gram.T).max(), np.abs(gram).max()
    if gap > 1e-4 * size:
        raise Refusal(
            f"A Gram matrix K(xs, xs) is symmetric; got entries that differ by {gap:.2g} from their mirror images. "
            "Write the kernel of the inputs with themselves."
        )


@door
def kernel_ridge(
    gram: Float[np.ndarray, "b b"], ys: Float[np.ndarray, " b"], *, ridge: NonNegative = 0.0
) -> Float[np.ndarray, " b"]:
    """The dual weights `(K + ridge I)⁻¹ y` of kernel ridge regression: predictions are `K(·, xs) @ weights`."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    _refuse_unless_symmetric(gram)
    shifted = gram + ridge * np.eye(len(gram))
    try:
        return cho_solve(cho_factor(shifted, lower=True, overwrite_a=True), ys)
    except LinAlgError:
        raise Refusal(
            f"Kernel ridge regression needs a positive definite K + ridge I; got {len(gram)} inputs and ridge={ridge:g}"
            " with a singular one. Write a larger ridge, for example 1e-6 * np.trace(K) / len(K)."
        ) from None


@door
def kernel_flow(
    gram: Float[np.ndarray, "b b"],
    cross: Float[np.ndarray, "e b"],
    ys: Float[np.ndarray, " b"],
    *,
    times: Annotated[Float[np.ndarray, " k"], Least(0)],
) -> Float[np.ndarray, "k e"]:
    """What a linearised model says on e new inputs while it learns, from zero: `f' = −K(·, xs)(f − ys)/b`.

    The half square loss on the b inputs of `gram`; at late times this is kernel regression without ridge.
    """
    _refuse_unless_symmetric(gram)
    values, vectors = np.linalg.eigh(gram / len(ys))
    values = np.maximum(values, 0.0)
    # (1 − exp(−λt))/λ, which is t where λ is zero up to rounding
    small = values <= 1e-14 * values.max()
    rates = np.where(small, 1.0, values)
    reached = np.where(small, times[:, None], -np.expm1(-np.outer(times, rates)) / rates)
    dual = (reached * (vectors.T @ ys)) @ vectors.T
    return dual @ cross.T / len(ys)


@door
class Scaled(Wrapped):
    """`scale · phi`: with scale √n over the mean of n particles the network is a sum over √n, the lazy scaling."""

    scale: Float[Array, ""] = eqx.field(converter=jnp.asarray)

    def __call__(self, theta, x):
        return self.scale * self.unit(theta, x)

    def batched(self, thetas, xs):
        return self.scale * self.unit.batched(thetas, xs)

    @classmethod
    def examples(cls):
        shift = natural_rep(Cyclic(3))
        return [(cls(Perceptron(3, 2, "tanh"), 1.7), shift, trivial_rep(shift.group, 2))]


@door
class Linearised(Wrapped):
    """`phi(x, θ₀) + ∇phi(x, θ₀)·δ`: a particle is (δ, θ₀), and learns δ alone when restricted to `projector`."""

    @property
    def dim(self):
        return 2 * self.unit.dim

    @property
    def projector(self) -> Float[np.ndarray, "p p"]:
        """Onto the displacements: `restrict(field, unit.projector, through="start")` leaves the anchors θ₀ alone."""
        refuse_unless_affordable(
            "The projector of a Linearised unit", 8.0 * self.dim**2, instead="Write a unit with fewer parameters."
        )
        return np.diag(np.repeat([1.0, 0.0], self.unit.dim))

    def anchored(self, cloud: Cloud) -> Cloud:
        """The particles of a cloud as anchors, without displacement: the same network, to first order from there."""
        refuse_unless_particles(self.unit, cloud, stacks=True)
        return Cloud(jnp.concatenate([jnp.zeros_like(cloud.atoms), cloud.atoms], axis=-1), cloud.weights)

    def __call__(self, theta, x):
        p = self.unit.dim
        value, slope = jax.jvp(lambda anchor: self.unit(anchor, x), (theta[p:],), (theta[:p],))
        return value + slope

    def batched(self, thetas, xs):
        p = self.unit.dim
        value, slope = jax.jvp(lambda anchors: self.unit.batched(anchors, xs), (thetas[:, p:],), (thetas[:, :p],))
        return value + slope

    def joint(self, on_x, on_y):
        return 2 * self.unit.joint(on_x, on_y)

    @classmethod
    def examples(cls):
        triangle, swap = natural_rep(Dihedral(3)), natural_rep(Cyclic(2))
        return [
            (cls(Perceptron(2, 1, "tanh")), triangle, trivial_rep(triangle.group)),
            (cls(Dense(2, 2, "softplus")), swap, swap),
        ]
