"""Does training leave a subspace? Free and held trainings on replicated data, and the test between them and noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.dynamics.fields import Descend, Field, Tangent
from haarflow.dynamics.flow import Path, flow
from haarflow.dynamics.progress import Tell
from haarflow.dynamics.schemes import Euler, Noisy
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud
from haarflow.models.units import Dense

RULES = ("mean", "singular")


class Held(Field):
    """A field held on a subspace, with a memory: atoms (z, m) move by (P v(z), (I − P) v(z)).

    The cloud z never leaves the subspace, and m adds up how the field pulled each atom away from it.
    """

    field: Field
    projector: Float[Array, "p p"]

    def __call__(self, key, cloud):
        p = cloud.p // 2
        velocity = self.field(key, Cloud(cloud.atoms[:, :p], cloud.weights)).atoms
        inside = velocity @ self.projector.astype(velocity.dtype)
        return Tangent(jnp.concatenate([inside, velocity - inside], axis=1))

    @classmethod
    def examples(cls):
        risk = Risk(Dense(2, 1), Sample(jnp.array([[0.3, -1.0], [0.5, 0.2]]), jnp.array([[1.0], [-0.5]])))
        return [cls(Descend(risk), jnp.array([[1.0, 0.0], [0.0, 0.0]]))]


class Training(NamedTuple):
    """How to train: the same start, `replicates` times, each on data of its own."""

    key: PRNGKeyArray
    dt: float | int
    steps: int
    replicates: int
    temperature: float | int = 0.0
    progress: bool | Tell | None = None

    def run(self, field: Field, start: Cloud, projector: Float[np.ndarray, "p p"]) -> Path:
        """All replicates, in one program, with noise projected."""
        return flow(
            field,
            Noisy(Euler(), self.temperature, projector=projector),
            start,
            key=jax.random.split(self.key, self.replicates),
            dt=self.dt,
            steps=self.steps,
            progress=self.progress,
        )


class Escape(NamedTuple):
    """Where r trainings went, and its part off the subspace; atoms are scaled by the roots of their weights."""

    atoms: Float[np.ndarray, "r n p"]
    residuals: Float[np.ndarray, "r n p"]

    @property
    def rmd2(self) -> float:
        """The median over replicates of RMD²(mu, P # mu)."""
        off, mass = (np.sum(values**2, axis=(1, 2)) for values in (self.residuals, self.atoms))
        size = 4 * mass - 2 * off
        return float(np.median(off / np.where(size > 0, size, 1)))


class Excess(NamedTuple):
    """Singular directions of a mean residual: the p-value and size of each, and its standard errors."""

    p_values: Float[np.ndarray, " m"]
    directions: Float[np.ndarray, "m p"]
    sizes: Float[np.ndarray, " m"]
    errors: Float[np.ndarray, "m p"]


def escape(field: Field, start: Cloud, basis: Float[np.ndarray, "p k"], training: Training) -> Escape:
    """Train freely from the start on the subspace: the residuals (I − P) z at the end."""
    projector = basis @ basis.T
    path = training.run(field, start.project(projector), projector)
    atoms = _scaled(path)
    return Escape(atoms, atoms - (atoms @ basis) @ basis.T)


def pull(field: Field, start: Cloud, basis: Float[np.ndarray, "p k"], training: Training) -> Escape:
    """Train held on the subspace: where the field, added up along the way, would have pulled each atom."""
    projector = basis @ basis.T
    atoms = start.project(projector).atoms
    double = Cloud(jnp.concatenate([atoms, jnp.zeros_like(atoms)], axis=1), start.weights)
    wide = np.zeros((2 * start.p, 2 * start.p))
    wide[: start.p, : start.p] = projector
    ends = _scaled(training.run(Held(field, jnp.asarray(projector)), double, wide))
    residuals = ends[..., start.p :]
    return Escape(ends[..., : start.p] + residuals, residuals)


def _scaled(path: Path) -> Float[np.ndarray, "r n p"]:
    """Atoms times the square root of their weights, so that sums over atoms are integrals."""
    return np.asarray(path.cloud.atoms * jnp.sqrt(path.cloud.weights)[..., None], float)


def excess(residuals: Float[np.ndarray, "r n p"], *, rule: str = "singular", above: float = 0.0) -> Excess:
    """Is a residual more than noise? Directions from half of the replicates, each judged by the other half.

    The p-value is that of a one-sided t-test that <u, R v> has mean at most `above`, for the singular pair (u, v) of
    the first half's mean. Under the null the replicates R of the second half are independent of the pair and of
    mean zero. The directions returned are those of all replicates, with standard errors for their coordinates.
    """
    half = len(residuals) // 2
    rows, columns, sizes = _pairs(residuals.mean(axis=0), rule)
    spread = np.einsum("mn,rnp->rmp", rows, residuals) / np.where(sizes > 0, sizes, 1)[None, :, None]
    errors = spread.std(axis=0, ddof=1) / np.sqrt(len(residuals)) if len(residuals) > 1 else np.zeros(columns.shape)
    p_values = np.full(len(sizes), np.nan)
    if half > 1:
        left, right, _ = _pairs(residuals[:half].mean(axis=0), rule)
        p_values = _p_values(np.einsum("mn,rnp,mp->rm", left, residuals[half:], right), above)
    # A few replicates know each coordinate's error roughly: half of it is what the coordinates have in common.
    errors = np.sqrt((errors**2 + np.mean(errors**2, axis=1, keepdims=True)) / 2)
    return Excess(p_values, columns, sizes, errors)


def _pairs(mean: Float[np.ndarray, "n p"], rule: str):
    """Left and right singular vectors in rows, and sizes; for the mean rule, the mean alone."""
    if rule == "singular":
        left, sizes, right = np.linalg.svd(mean, full_matrices=False)
        kept = max(1, int(np.sum(sizes > 1e-9 * sizes[0])))
        return left.T[:kept], right[:kept], sizes[:kept]
    left = np.full((1, len(mean)), len(mean) ** -0.5)
    total = left @ mean
    size = float(np.linalg.norm(total))
    return left, total / (size or 1.0), np.array([size])


def _p_values(draws: Float[np.ndarray, "h m"], above: float) -> Float[np.ndarray, " m"]:
    from scipy.stats import ttest_1samp

    moving = draws.std(axis=0) > 0
    p_values = np.where(draws.mean(axis=0) > above, 0.0, 1.0)
    if moving.any():
        tested = ttest_1samp(draws[:, moving], above, alternative="greater")
        p_values[moving] = np.asarray(tested.pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    return p_values
