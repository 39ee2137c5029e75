"""Discovery of an equivariant architecture: the smallest subspace that training does not leave.

From E = {0}, train a cloud that starts on E; while it leaves E, add the direction in which it left. When the
law of the data is equivariant, population training never leaves the fixed space E^G (Theorem 5), so E grows inside it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.dynamics.fields import Descend, Field, Restricted, Tangent, restrict
from haarflow.dynamics.flow import Path, flow
from haarflow.dynamics.progress import Tell
from haarflow.dynamics.schemes import Euler, Noisy, Scheme
from haarflow.errors import Refusal, one_of
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import Cloud
from haarflow.models.units import Dense
from haarflow.practice.sharing import Sharing, Symmetry, sharing, symmetries, tie, tied

RULES = ("mean", "singular")
STOPS = ("test", "threshold")
_EXACT = 1e-9  # the standard error of a direction that never varies: rounding


@dataclass(frozen=True)
class Step:
    """One round: the dimension trained from, how far the cloud left it, and how many directions were added."""

    dimension: int
    rmd2: float
    p_value: float
    sizes: Float[np.ndarray, " m"]
    added: int


@dataclass(frozen=True)
class Discovery:
    """A subspace of the parameters that training keeps, found from data: a ready equivariant architecture."""

    basis: Float[np.ndarray, "p k"]
    history: list[Step]

    @property
    def dimension(self) -> int:
        """The dimension of the subspace."""
        return self.basis.shape[1]

    @property
    def projector(self) -> Float[np.ndarray, "p p"]:
        """The orthogonal projector on the subspace."""
        return self.basis @ self.basis.T

    def angles(self, known: Rep | Float[np.ndarray, "p m"]) -> Float[np.ndarray, " a"]:
        """The principal angles, in degrees, to a known fixed space: a representation's, or a basis of it."""
        return angles(self.basis, known.fixed_basis() if isinstance(known, Rep) else known)

    def sharing(self, *, tolerance: float = 0.3) -> Sharing:
        """Which weights are tied, with signs, and which are zero."""
        return sharing(self.basis, tolerance=tolerance)

    def symmetries(
        self, *, shape: tuple[int, int] | None = None, tolerance: float = 0.3, limit: int = 5000
    ) -> list[Symmetry]:
        """The signed permutations of outputs and inputs that fix the subspace, for matrices of that shape."""
        return symmetries(self.basis, shape=shape, tolerance=tolerance, limit=limit)

    def rounded(self, *, tolerance: float = 0.3) -> "Discovery":
        """The nearest exact sharing pattern, where the subspace is one up to the tolerance."""
        pattern = self.sharing(tolerance=tolerance)
        if pattern.free != self.dimension:
            raise Refusal(
                f"A subspace of dimension {self.dimension} rounds to a pattern with as many free weights; "
                f"got {pattern.free} groups of tied weights within tolerance {tolerance:g}. "
                "Write another tolerance, or train inside the basis as it is."
            )
        return replace(self, basis=pattern.basis())

    def restrict(self, field: Field) -> Restricted:
        """The field held inside the subspace: training with it trains the discovered architecture."""
        return restrict(field, self.projector)

    def start(self, cloud: Cloud) -> Cloud:
        """A cloud brought into the subspace, to start from."""
        return cloud.project(self.projector)

    def scheme(self, temperature: float = 0.0) -> Scheme:
        """Noisy steps whose noise stays in the subspace."""
        return Noisy(Euler(), temperature, projector=self.projector)


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
    dt: float
    steps: int
    replicates: int
    temperature: float = 0.0
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
    """Singular directions of a mean residual: how large, the p-value of each, and its standard error."""

    p_values: Float[np.ndarray, " m"]
    directions: Float[np.ndarray, "m p"]
    sizes: Float[np.ndarray, " m"]
    errors: Float[np.ndarray, " m"]


def discover(
    field: Field,
    start: Cloud,
    *,
    key: PRNGKeyArray,
    dt: float,
    steps: int,
    temperature: float = 0.0,
    rule: str = "singular",
    stop: str = "test",
    false_expansion: float = 0.01,
    threshold: float | None = None,
    replicates: int = 12,
    directions: int = 1,
    ties: float = 4.0,
    most: int | None = None,
    progress: bool | Tell | None = None,
) -> Discovery:
    """The subspace that training with this field does not leave, grown from {0}.

    Each round trains `replicates` times from `start` projected on E, on fresh data, with noise projected on E, and
    looks at the residuals (I − P) z. `rule` chooses the new direction: the top singular vector of the mean residual
    matrix, up to `directions` of them at once; or the `mean` residual (published), which vanishes after the first
    round. `stop` decides when to end:

    - "test": the top singular pair is estimated on half of the replicates, and the other half says by a one-sided
      t-test whether the residual along it has a positive mean. If the law of the batches is equivariant and E = E^G, the
      law of a residual matrix is G-invariant, so its mean is exactly zero, at any number of particles and any
      step size: a direction is then added with probability `false_expansion`. The rounds are tested in a fixed order
      until the first that is not rejected, so that is the probability for the whole procedure.
      With `threshold` > 0 the hypothesis is that the mean residual is at most that large (as an RMD²).
    - "threshold": stop when the median RMD² is at most `threshold` (1e-3 unless given), as published.

    A found direction carries noise, and a tilted E is left by training for no good reason. So coordinates that
    differ by less than `ties` standard errors (over replicates) are tied, which makes E exact when E^G is a sharing
    pattern; `ties=0` keeps directions as they are, and then a positive threshold is advisable.
    """
    one_of("A discovery rule", rule, RULES)
    one_of("A discovery stop", stop, STOPS)
    _check(stop, false_expansion, replicates, directions)
    most = start.p if most is None else min(most, start.p)
    level = (1e-3 if stop == "threshold" else 0.0) if threshold is None else threshold
    basis, noise, history = np.zeros((start.p, 0)), np.zeros(0), []
    look = pull if stop == "test" else escape
    while True:
        training = Training(jax.random.fold_in(key, len(history)), dt, steps, replicates, temperature, progress)
        seen = look(field, start, basis, training)
        mass = float(np.mean(np.sum(seen.atoms**2, axis=(1, 2))))
        found = excess(seen.residuals, rule=rule, above=float(np.sqrt(4 * level * mass)))
        wanted = found.p_values <= false_expansion if stop == "test" else found.sizes > 0
        if stop == "threshold" and seen.rmd2 <= level:
            wanted[:] = False
        count = min(int(np.argmin(np.append(wanted, False))), directions, most - basis.shape[1])
        history.append(Step(basis.shape[1], seen.rmd2, float(found.p_values[0]), found.sizes, count))
        if count == 0:
            return Discovery(basis, history)
        grown = _orthonormal(np.concatenate([basis, found.directions[:count].T], axis=1))
        noise = np.append(noise, found.errors[:count])
        if ties and replicates > 1:
            grown, noise = _tied(grown, noise, ties)
        if grown.shape[1] <= basis.shape[1]:
            return Discovery(basis, history)
        basis = grown


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
    mean zero. The directions returned are those of all replicates; their standard errors are per coordinate.
    """
    half = len(residuals) // 2
    rows, columns, sizes = _pairs(residuals.mean(axis=0), rule)
    spread = np.einsum("mn,rnp->rmp", rows, residuals) / np.where(sizes > 0, sizes, 1)[None, :, None]
    errors = spread.std(axis=0, ddof=1) / np.sqrt(len(residuals)) if len(residuals) > 1 else np.zeros(columns.shape)
    p_values = np.full(len(sizes), np.nan)
    if half > 1:
        left, right, _ = _pairs(residuals[:half].mean(axis=0), rule)
        p_values = _p_values(np.einsum("mn,rnp,mp->rm", left, residuals[half:], right), above)
    return Excess(p_values, columns, sizes, np.sqrt(np.mean(errors**2, axis=1)))


def angles(found: Float[np.ndarray, "p k"], known: Float[np.ndarray, "p m"]) -> Float[np.ndarray, " a"]:
    """Principal angles between two subspaces in degrees, largest first; 90 for each dimension they differ by."""
    from scipy.linalg import subspace_angles

    gap = abs(found.shape[1] - known.shape[1])
    shared = subspace_angles(found, known) if min(found.shape[1], known.shape[1]) else np.zeros(0)
    return np.concatenate([np.full(gap, 90.0), np.degrees(shared)])


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


def _orthonormal(vectors: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "p k"]:
    return np.linalg.qr(vectors)[0]


def _tied(basis: Float[np.ndarray, "p k"], noise: Float[np.ndarray, " k"], ties: float):
    """The basis and its noise with those coordinates tied that noise cannot tell apart; columns that are noise alone go.

    Rows are measured in standard errors, column by column, so that the best known columns decide.
    """
    radius = np.sqrt(2) * (ties + np.sqrt(len(noise)))
    pattern = tied(basis / np.maximum(noise, _EXACT)[None, :], radius)
    made, kept = tie(basis, pattern)
    return made, noise[kept]


def _check(stop: str, false_expansion: float, replicates: int, directions: int):
    if stop == "test" and replicates < 4:
        raise Refusal(
            f"The stop 'test' splits at least 4 replicates into halves; got replicates={replicates}. "
            "Write replicates=12, or stop='threshold'."
        )
    if not 0 < false_expansion < 1:
        raise Refusal(
            f"A false-expansion probability is between 0 and 1; got {false_expansion}. Write false_expansion=0.01."
        )
    if replicates < 1 or directions < 1:
        raise Refusal(
            f"A discovery has replicates >= 1 and adds directions >= 1 a round; got replicates={replicates}, "
            f"directions={directions}. Write for example replicates=12, directions=1."
        )
