"""Discovery of an equivariant architecture: the smallest subspace that training does not leave.

From E = {0}, train a cloud that starts on E; while it leaves E, add the direction in which it left. When the
law of the data is equivariant, population training never leaves the fixed space E^G (Theorem 5), so E grows inside it.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.dynamics.fields import Field, Restricted, restrict
from haarflow.dynamics.progress import Tell
from haarflow.dynamics.schemes import Euler, Noisy, Scheme
from haarflow.errors import Refusal, one_of
from haarflow.measures.clouds import Cloud
from haarflow.practice.escape import RULES, Training, escape, excess, pull
from haarflow.practice.sharing import Sharing, Symmetry, sharing, symmetries, tie, tied

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

    def scheme(self, temperature: float | int = 0.0) -> Scheme:
        """Noisy steps whose noise stays in the subspace."""
        return Noisy(Euler(), temperature, projector=self.projector)


def discover(
    field: Field,
    start: Cloud,
    *,
    key: PRNGKeyArray,
    dt: float | int,
    steps: int,
    temperature: float | int = 0.0,
    rule: str = "singular",
    stop: str = "test",
    false_expansion: float = 0.01,
    threshold: float | int | None = None,
    replicates: int = 12,
    directions: int = 1,
    ties: float | int = 5.0,
    most: int | None = None,
    progress: bool | Tell | None = None,
) -> Discovery:
    """The subspace that training with this field does not leave, grown from {0}.

    Each round trains `replicates` times from `start` projected on E, each on fresh data, with noise projected on E.
    `rule` chooses what to add: the top singular vector of the mean residual matrix, up to `directions` of them at
    once; or the `mean` residual (published), which says nothing after the first round. `stop` says when to end:

    - "test": trainings are held on E, and a residual is how the field, added up along the way, pulled each
      particle off E. A singular pair found on half of the replicates is judged by a one-sided t-test on the other half.
      If the law of the batches is equivariant and E = E^G, the law of a residual matrix is G-invariant, so its mean is
      exactly zero, at any number of particles and any step: a direction is added there with probability
      `false_expansion`. Rounds are tested in order up to the first that is not rejected, so a procedure that arrives
      at E^G goes on with that probability. (A free training also amplifies noise wherever E is unstable; its
      residual can be large, of random sign, and no evidence at all.)
      With `threshold` > 0 the hypothesis is a mean residual of at most that size (as an RMD²).
    - "threshold": trainings are free, and end the search when their median RMD² to E is at most `threshold` (1e-3
      unless given); with `replicates=1` this is the published procedure.

    A found direction carries noise, and a tilted E is left by training for no good reason. So coordinates that
    differ by less than about `ties` standard errors over the replicates are tied, which makes E exact where E^G is a
    sharing pattern. With `ties=0`, or where E^G ties no coordinates, E keeps its tilt, and directions are added more
    often than stated. What is found lies in E^G and may be smaller: a direction that the data never excite from
    smaller subspaces is not found. A wide start, where the unit is not linear, excites most.
    """
    one_of("A discovery rule", rule, RULES)
    one_of("A discovery stop", stop, STOPS)
    _check(stop, false_expansion, replicates, directions)
    most = start.p if most is None else min(most, start.p)
    level = (1e-3 if stop == "threshold" else 0.0) if threshold is None else threshold
    basis, noise, history = np.zeros((start.p, 0)), np.zeros((start.p, 0)), []
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
        noise = np.concatenate([noise, found.errors[:count].T], axis=1)
        if ties and replicates > 1:
            grown, noise = _tied(grown, noise, ties)
        if grown.shape[1] <= basis.shape[1]:
            return Discovery(basis, history)
        basis = grown


def angles(found: Float[np.ndarray, "p k"], known: Float[np.ndarray, "p m"]) -> Float[np.ndarray, " a"]:
    """Principal angles between two subspaces in degrees, largest first; 90 for each dimension they differ by."""
    from scipy.linalg import subspace_angles

    gap = abs(found.shape[1] - known.shape[1])
    shared = subspace_angles(found, known) if min(found.shape[1], known.shape[1]) else np.zeros(0)
    return np.concatenate([np.full(gap, 90.0), np.degrees(shared)])


def _orthonormal(vectors: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "p k"]:
    return np.linalg.qr(vectors)[0]


def _tied(basis: Float[np.ndarray, "p k"], noise: Float[np.ndarray, "p k"], ties: float | int):
    """The basis and its noise, with those coordinates tied that noise cannot tell apart; mere noise goes.

    Differences are measured in standard errors, column by column, so that the best known columns decide.
    """
    pattern = tied(basis, ties + np.sqrt(basis.shape[1]), errors=np.maximum(noise, _EXACT))
    made, kept = tie(basis, pattern)
    return made, noise[:, kept]


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
