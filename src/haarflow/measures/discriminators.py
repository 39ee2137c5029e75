"""Classes Γ of discriminators: what an integral probability metric or an (f, Γ)-divergence looks at two samples with.

Each is a ball of functions: Lipschitz functions, a kernel's ball, or features of your own. Under a group the invariant
members are meant, which are found by quotient distances and averaged kernels.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from haarflow.doors import Positive, door
from haarflow.errors import Refusal
from haarflow.measures import programs, transport
from haarflow.measures.generators import Generator
from haarflow.measures.isometries import PROBES
from haarflow.measures.quotients import kernel_width, refuse_long_gaps
from haarflow.measures.samples import Pair
from haarflow.measures.symmetries import Rows, Symmetry
from haarflow.measures.witnesses import Values
from haarflow.values import numbers, refuse_unless_affordable

FLAT = 1e-4
"""Below this difference of mean features, relative to their size, a witness is made of the multipliers instead."""

Kernel = Callable[[Rows, Rows], Float[np.ndarray, "n m"]]


class Discriminators(abc.ABC):
    """A ball of functions, closed under averages over a group that acts by isometries."""

    instead: ClassVar[str] = "Write `Lipschitz(1.0)`, `KernelBall(width=1.0)` or `Features(function)`."

    @abc.abstractmethod
    def ipm(self, given: Pair, symmetry: Symmetry) -> tuple[float, Values]:
        """An upper bound on sup_γ E_x γ − E_y γ, and a member that attains it."""

    @abc.abstractmethod
    def mixed(self, given: Pair, symmetry: Symmetry, generator: Generator) -> tuple[float, Values]:
        """An upper bound on sup_γ E_x γ − E_y f*(γ) over members plus constants, and a member near the best."""


@door
@dataclass(frozen=True)
class Lipschitz(Discriminators):
    """Functions with |γ(z) − γ(z')| ≤ constant · |z − z'|; under a group, constant times the quotient distance."""

    constant: Positive = 1.0

    def ipm(self, given, symmetry):
        import ot

        x, a, _, b, _ = given
        costs = self._costs(given, symmetry)
        unit = max(float(costs.max()), 1e-300)
        plan, log = ot.emd(a, b / b.sum() * a.sum(), costs / unit, numItermax=10**9, log=True)
        return float(np.sum(plan * costs)), self._witness(x, unit * log["u"], symmetry)

    def mixed(self, given, symmetry, generator):
        x, a, _, b, _ = given
        costs = self._costs(given, symmetry)
        plan, stay, potential = programs.transported(generator, a, b, costs)
        with np.errstate(divide="ignore"):
            upper = float(np.sum(plan * costs) + b @ generator.value(plan.sum(axis=0) / b))
        upper += generator.limit * float(stay.sum()) if stay.any() else 0.0
        return upper, self._witness(x, potential, symmetry)

    def _costs(self, given: Pair, symmetry: Symmetry):
        x, y = given.x, given.y
        refuse_long_gaps(given, symmetry)
        transport.refuse_many_pairs(len(x), len(y))
        return self.constant * np.sqrt(symmetry.gaps(x, y))

    def _witness(self, x: Rows, potential, symmetry: Symmetry) -> Values:
        """The least member with these values on x, or larger ones: max_i (u_i − L d(z, x_i))."""
        return lambda z: np.max(potential - self.constant * np.sqrt(symmetry.gaps(z, x)), axis=1)


class Ball(Discriminators):
    """A ball of a space of functions with features, or a kernel."""

    radius: float

    @abc.abstractmethod
    def gram(self, given: Pair, symmetry: Symmetry) -> Kernel:
        """The invariant kernel of these samples."""

    def ipm(self, given, symmetry):
        x, a, y, b, _ = given
        kernel = self.gram(given, symmetry)
        cross = a @ kernel(x, y) @ b
        size = float(np.sqrt(max(a @ kernel(x, x) @ a + b @ kernel(y, y) @ b - 2 * cross, 0.0)))
        return self.radius * size, self._witness(given, a, b, kernel, size)

    def mixed(self, given, symmetry, generator):
        x, a, y, b, _ = given
        kernel, points = self.gram(given, symmetry), np.concatenate([x, y])
        gram = kernel(points, points)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        keep = values > 1e-14 * max(float(values.max()), 1e-300)
        vectors, roots = vectors[:, keep], np.sqrt(values[keep])
        factor = self.radius * vectors * roots
        stay, eta, along = programs.normed(generator, a, b, factor)
        size = float(np.linalg.norm(np.concatenate([a - stay, -eta]) @ factor)) / self.radius
        with np.errstate(divide="ignore"):
            upper = self.radius * size + float(b @ generator.value(eta / b))
        upper += generator.limit * float(stay.sum()) if stay.any() else 0.0
        if size > FLAT * float(roots.max()):
            return upper, self._witness(given, a - stay, eta, kernel, size)
        weights = self.radius * vectors @ (along / roots)
        return upper, lambda z: kernel(z, points) @ weights

    def _witness(self, given: Pair, a, eta, kernel: Kernel, size: float) -> Values:
        x, y = given.x, given.y
        scale = self.radius / size if size > 0 else 0.0
        return lambda z: scale * (kernel(z, x) @ a - kernel(z, y) @ eta)


@door
@dataclass(frozen=True)
class KernelBall(Ball):
    """Functions of norm up to the radius in the space of a kernel, by default exp(−|z − z'|²/2 width²).

    A `kernel` of your own takes two batches to the matrix (n, m) of its values. It must be positive definite, and
    invariant, k(g z, g z') = k(z, z'), where a group acts: one that is not is refused.
    """

    kernel: Callable | None = None
    width: Positive | None = field(default=None, kw_only=True)
    radius: Positive = field(default=1.0, kw_only=True)

    def __post_init__(self):
        if self.kernel is not None and self.width is not None:
            raise Refusal("A KernelBall takes a kernel, or the width of a Gaussian one; got both. Write one of them.")

    def gram(self, given, symmetry):
        plain = self._plain(given, symmetry)
        points = np.concatenate([given.x, given.y])
        refuse_unless_affordable("A kernel's matrix", 40.0 * len(points) ** 2, instead="Write fewer atoms.")
        _refuse_unless_kernel(plain, symmetry, points)

        def averaged(z, w):
            found = sum(plain(z, image) for image in symmetry.images(w))
            return np.asarray(found) / symmetry.count(z.shape[1])

        return averaged

    def _plain(self, given: Pair, symmetry: Symmetry) -> Kernel:
        if self.kernel is not None:
            return lambda z, w: _matrix(self.kernel, z, w)
        width = self.width or kernel_width(given, symmetry)
        width = min(max(width, 1e-150), 1e150)  # whose squares are numbers
        return lambda z, w: np.exp(-transport.squared_gaps(z, w) / (2 * width**2))


@door
@dataclass(frozen=True)
class Features(Ball):
    """Combinations Σ c_k φ_k with |c| ≤ radius of features (b, p) -> (b, k) of your own; of a group, their averages."""

    function: Callable
    radius: Positive = field(default=1.0, kw_only=True)

    def gram(self, given, symmetry):
        return lambda z, w: self._of(z, symmetry) @ self._of(w, symmetry).T

    def _of(self, z: Rows, symmetry: Symmetry) -> Float[np.ndarray, "b k"]:
        found = [numbers("Features' function(z)", self.function(image), numpy=True) for image in symmetry.images(z)]
        shapes = {one.shape for one in found}
        if len(shapes) != 1 or found[0].ndim != 2 or len(found[0]) != len(z):
            raise Refusal(
                f"Features take points (b, p) to rows (b, k); got {found[0].shape} for {z.shape}. Write one row of "
                "features for each point."
            )
        return np.mean(found, axis=0)


def _matrix(kernel: Callable | None, z: Rows, w: Rows) -> Float[np.ndarray, "n m"]:
    assert kernel is not None
    found = numbers("A KernelBall's kernel(z, w)", kernel(z, w), numpy=True)
    if found.shape != (len(z), len(w)):
        raise Refusal(
            f"A kernel takes batches (n, p) and (m, p) to a matrix (n, m); got {found.shape} for {z.shape} and "
            f"{w.shape}. Write a function of all rows at once."
        )
    return found


def _refuse_unless_kernel(kernel: Kernel, symmetry: Symmetry, points: Rows) -> None:
    """Refuse a kernel that is not symmetric and positive on some points, or that an element changes."""
    some = points[np.linspace(0, len(points) - 1, min(PROBES, len(points))).astype(int)]
    wanted = kernel(some, some)
    slack = 1e-6 * max(float(np.abs(wanted).max()), 1e-300)
    if np.abs(wanted - wanted.T).max() > slack or np.linalg.eigvalsh(wanted).min() < -len(some) * slack:
        raise Refusal(
            "A kernel is symmetric and positive definite; got one that is not, on points of the samples. Write "
            "`KernelBall(width=1.0)` for the Gaussian one."
        )
    for place, image in enumerate(symmetry.images(some)):
        off = float(np.abs(kernel(image, image) - wanted).max())
        if off > slack:
            raise Refusal(
                f"A kernel under a group is invariant, k(g z, g z') = k(z, z'); got one that the element at place "
                f"{place} changes by {off:.3g}. Write a kernel of distances that the group keeps, or "
                "`mean_g k(g z, g z')`."
            )
