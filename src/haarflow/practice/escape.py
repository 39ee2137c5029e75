"""Does training leave a subspace? Free and held trainings on replicated data, and the test between them and noise."""

import warnings
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.doors import Least, door
from haarflow.dynamics.fields import Descend, Field, Tangent
from haarflow.dynamics.flow import Diverged, flow
from haarflow.dynamics.progress import Tell
from haarflow.dynamics.schemes import Euler, Langevin
from haarflow.errors import Refusal, one_of
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud, stack_clouds
from haarflow.models.units import Dense

RULES = ("mean", "singular")


class HeldOnSubspace(Field):
    """A field held on a subspace, with a memory: atoms (z, m) move by (P v(z), (I − P) v(z)).

    The cloud z never leaves the subspace, and m adds up how the field pulled each atom away from it.
    """

    field: Field
    projector: Float[Array, "p p"]

    def __call__(self, key, cloud):
        p = cloud.p // 2
        tangent = self.field(key, Cloud(cloud.atoms[:, :p], cloud.weights))
        inside = tangent.velocity @ self.projector.astype(tangent.velocity.dtype)
        return Tangent(jnp.concatenate([inside, tangent.velocity - inside], axis=1), tangent.growth)

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

    def run(self, fields: Sequence[Field], start: Cloud, projector: Float[np.ndarray, "p p"]) -> Cloud:
        """The ends (r, n, p) of all replicates: on one field in one program, or on a field for each, in turn."""
        if len(fields) not in (1, self.replicates):
            raise Refusal(
                f"A discovery trains on one field, or on one for each of its {self.replicates} replicates; got "
                f"{len(fields)}. Write as many fields as replicates."
            )
        scheme = Langevin(Euler(), self.temperature, projector=projector)
        keys = jax.random.split(self.key, self.replicates)
        turns = [(fields[0], keys)] if len(fields) == 1 else list(zip(fields, keys, strict=True))
        ends = []
        for turn, (field, key) in enumerate(turns):
            told = _share(self.progress, turn, len(turns))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Diverged)
                path = flow(field, scheme, start, key=key, dt=self.dt, steps=self.steps, progress=told)
            if path.stopped is not None:
                raise Refusal(
                    f"A discovery trains without meeting an infinite number; got one after {path.ended.min()} steps of "
                    f"dt={self.dt:g}. Write a smaller dt, or a start nearer to zero."
                )
            ends.append(path.cloud)
        return ends[0] if len(fields) == 1 else stack_clouds(ends)


def _share(progress: bool | Tell | None, turn: int, turns: int) -> bool | Tell | None:
    """The progress of one turn of several."""
    return (lambda fraction: progress((turn + fraction) / turns)) if callable(progress) else progress


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


@door
def escape(field: Field | Sequence[Field], start: Cloud, basis: Float[np.ndarray, "p k"], training: Training) -> Escape:
    """Train freely from the start on the subspace: the residuals (I − P) z at the end."""
    projector = _projector(basis, start)
    atoms = _scaled(training.run(_several(field), _moved(start, projector), projector))
    return Escape(atoms, atoms - (atoms @ basis) @ basis.T)


@door
def pull(field: Field | Sequence[Field], start: Cloud, basis: Float[np.ndarray, "p k"], training: Training) -> Escape:
    """Train held on the subspace: where the field, added up along the way, would have pulled each atom."""
    projector = _projector(basis, start)
    double = _moved(start, np.concatenate([projector, np.zeros_like(projector)], axis=1))
    wide = np.zeros((2 * start.p, 2 * start.p))
    wide[: start.p, : start.p] = projector
    held = [HeldOnSubspace(one, jnp.asarray(projector)) for one in _several(field)]
    ends = _scaled(training.run(held, double, wide))
    residuals = ends[..., start.p :]
    return Escape(ends[..., : start.p] + residuals, residuals)


def _projector(basis: Float[np.ndarray, "p k"], start: Cloud) -> Float[np.ndarray, "p p"]:
    if len(basis) != start.p or not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6):
        raise Refusal(
            f"A subspace of R^{start.p} is given by orthonormal columns ({start.p}, k); got the shape {basis.shape}, "
            "or columns that are not orthonormal. Write np.linalg.qr(columns)[0]."
        )
    return basis @ basis.T


def _several(field: Field | Sequence[Field]) -> Sequence[Field]:
    return [field] if isinstance(field, Field) else field


# Around the compiled trainings everything is NumPy: a single operation by JAX would cost its compilation.


def _moved(cloud: Cloud, matrix: Float[np.ndarray, "p q"]) -> Cloud:
    atoms = np.asarray(cloud.atoms)
    return Cloud(jnp.asarray((atoms @ matrix).astype(atoms.dtype)), cloud.weights)


def _scaled(cloud: Cloud) -> Float[np.ndarray, "r n p"]:
    """Atoms times the square root of their weights, so that sums over atoms are integrals."""
    return np.asarray(cloud.atoms, float) * np.sqrt(np.asarray(cloud.weights, float))[..., None]


@door
def excess(
    residuals: Float[np.ndarray, "r n p"],
    *,
    rule: str = "singular",
    above: float = 0.0,
    weights: Annotated[Float[np.ndarray, " n"], Least(0)] | None = None,
) -> Excess:
    """Is a residual more than noise? Directions from half of the replicates, each judged by the other half.

    The p-value is that of a one-sided t-test that <u, R v> has mean at most `above`, for the singular pair (u, v) of
    the first half's mean. Under the null the replicates R of the second half are independent of the pair and of
    mean zero. The directions returned are those of all replicates, with standard errors for their coordinates. The
    `mean` rule has one pair: u the roots of the weights (equal unless given), v the mean residual.
    """
    one_of("The rule of a residual", rule, RULES)
    half, n = len(residuals) // 2, residuals.shape[1]
    roots = None if rule == "singular" else np.sqrt(np.full(n, 1 / n) if weights is None else weights)
    rows, columns, sizes = _pairs(residuals.mean(axis=0), roots)
    spread = np.einsum("mn,rnp->rmp", rows, residuals) / np.where(sizes > 0, sizes, 1)[None, :, None]
    errors = spread.std(axis=0, ddof=1) / np.sqrt(len(residuals)) if len(residuals) > 1 else np.zeros(columns.shape)
    p_values = np.full(len(sizes), np.nan)
    if half > 1:
        left, right, _ = _pairs(residuals[:half].mean(axis=0), roots)
        tested = _p_values(np.einsum("mn,rnp,mp->rm", left, residuals[half:], right), above)
        shared = min(len(tested), len(sizes))
        p_values[:shared] = tested[:shared]
    # A few replicates know each coordinate's error roughly: half of it is what the coordinates have in common.
    errors = np.sqrt((errors**2 + np.mean(errors**2, axis=1, keepdims=True)) / 2)
    return Excess(p_values, columns, sizes, errors)


def _pairs(mean: Float[np.ndarray, "n p"], roots: Float[np.ndarray, " n"] | None):
    """Left and right singular vectors in rows, and sizes; with the roots of the weights, the mean residual alone."""
    if roots is None:
        left, sizes, right = np.linalg.svd(mean, full_matrices=False)
        kept = max(1, int(np.sum(sizes > 1e-9 * sizes[0])))
        return left.T[:kept], right[:kept], sizes[:kept]
    total = roots[None] @ mean
    size = float(np.linalg.norm(total))
    return roots[None], total / (size or 1.0), np.array([size])


def _p_values(draws: Float[np.ndarray, "h m"], above: float) -> Float[np.ndarray, " m"]:
    from scipy.stats import ttest_1samp

    # Replicates of a field without noise differ by rounding only, of which a t-test could not speak.
    moving = np.ptp(draws, axis=0) > 32 * np.finfo(float).eps * np.abs(draws).max(axis=0)
    p_values = np.where(draws.mean(axis=0) > above, 0.0, 1.0)
    if moving.any():
        tested = ttest_1samp(draws[:, moving], above, alternative="greater")
        p_values[moving] = np.asarray(tested.pvalue)  # pyright: ignore[reportAttributeAccessIssue]
    return p_values
