"""Discovery of an equivariant architecture: the smallest subspace that training does not leave.

From E = {0}, train a cloud that starts on E; while it leaves E, add the direction in which it left. When the
law of the data is equivariant, population training never leaves the fixed space E^G (Theorem 5), so E grows inside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.doors import Count, NonNegative, Positive, door
from haarflow.dynamics.domains import Restricted, restrict
from haarflow.dynamics.fields import Field
from haarflow.dynamics.progress import Tell, watching
from haarflow.dynamics.schemes import Euler, Langevin, Scheme
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud
from haarflow.practice.escape import Training, escape, excess, pull
from haarflow.practice.parameter_sharing import Sharing, SignedPermutation, sharing, symmetries
from haarflow.practice.search import REPLICATES, KnownDirections, Plan, refuse_unless_searchable


@dataclass(frozen=True, eq=False)
class Step:
    """One round: the dimension trained from, how far the cloud left it, and how many directions were added.

    `p_value` is that of the leading direction (NaN with fewer than four replicates), `sizes` are the singular values
    of the mean residual.
    """

    dimension: int
    rmd2: float
    p_value: float
    sizes: Float[np.ndarray, " m"]
    added: int


@dataclass(frozen=True, eq=False)
class Discovery:
    """A subspace of the parameters that training keeps, found from data: a ready equivariant architecture.

    `history` has a Step for every round, and `ended` says why there was no further one.
    """

    basis: Float[np.ndarray, "p k"]
    history: list[Step]
    ended: str = ""

    def __str__(self) -> str:
        """One sentence: the dimension, the rounds, and why it ended."""
        rounds = f"{len(self.history)} round{'s' * (len(self.history) != 1)}"
        words = f"A subspace of dimension {self.dimension} in R^{len(self.basis)}, found in {rounds}"
        return f"{words}: {self.ended}." if self.ended else f"{words}."

    @property
    def dimension(self) -> int:
        """The dimension of the subspace."""
        return self.basis.shape[1]

    @property
    def projector(self) -> Float[np.ndarray, "p p"]:
        """The orthogonal projector on the subspace."""
        return self.basis @ self.basis.T

    @door
    def angles(self, known: Rep | Float[np.ndarray, "p m"]) -> Float[np.ndarray, " a"]:
        """The principal angles, in degrees, to a known fixed space: a representation's, or a basis of it."""
        return angles(self.basis, known.fixed_basis() if isinstance(known, Rep) else known)

    def sharing(self, *, tolerance: float = 0.3) -> Sharing:
        """Which weights are tied, with signs, and which are zero."""
        return sharing(self.basis, tolerance=tolerance)

    def symmetries(
        self, *, shape: tuple[int, int] | None = None, tolerance: float = 0.3, limit: int = 5000
    ) -> list[SignedPermutation]:
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

    @door
    def start(self, cloud: Cloud) -> Cloud:
        """A cloud brought into the subspace, to start from."""
        return cloud.project(self.projector)

    @door
    def scheme(self, temperature: NonNegative = 0.0) -> Scheme:
        """Noisy steps whose noise stays in the subspace."""
        return Langevin(Euler(), temperature, projector=self.projector)


@door
def discover(
    field: Field | Sequence[Field],
    start: Cloud,
    *,
    key: PRNGKeyArray,
    dt: Positive,
    steps: Count,
    temperature: NonNegative = 0.0,
    rule: str = "singular",
    stop: str = "test",
    false_expansion: float = 0.01,
    threshold: float | None = None,
    replicates: Count | None = None,
    directions: Count = 1,
    ties: float = 5.0,
    most: Count | None = None,
    progress: bool | Tell | None = None,
) -> Discovery:
    """The subspace that training with this field does not leave, grown from {0}.

    Each round trains `replicates` times (16 unless given) from `start` projected on E, each on fresh data, with noise
    projected on E. A finite sample is not itself symmetric, and replicates that share it share its accidents: give
    a sequence of fields, one for each replicate, on data of their own (`folds` deals a sample out).

    `rule` chooses what to add: the top singular vector of the mean residual matrix, up to `directions` of them at
    once; or the `mean` residual (published), which says nothing after the first round. `stop` says when to end:

    - "test": trainings are held on E, and a residual is how the field, added up along the way, pulled each
      particle off E. A singular pair found on half of the replicates is judged by a one-sided t-test on the other half.
      If the law of the batches is equivariant and E = E^G, the law of a residual matrix is G-invariant, so its mean is
      exactly zero, at any number of particles and any step: a direction is added there with probability
      `false_expansion` at most. Rounds are tested in order up to the first that is not rejected, so a procedure that
      arrives at E^G goes on with that probability. (A free training also amplifies noise wherever E is unstable; its
      residual can be large, of random sign, and no evidence at all.)
      With `threshold` > 0 the hypothesis is a mean residual of at most that size (as an RMD²).
    - "threshold": trainings are free, and end the search when their median RMD² to E is at most `threshold` (1e-3
      unless given); with `replicates=1` this is the published procedure.

    A found direction carries noise, and training leaves a tilted E with good reason. So coordinates that differ
    by less than about `ties` standard errors over the replicates are tied, which makes E exact where E^G is a
    sharing pattern: equal weights, opposite weights and zeros. The stated probability rests on this. With `ties=0`, or
    where E^G ties no coordinates, E keeps its tilt and the search usually goes on, up to the whole space; a
    `threshold` then helps where the pull is strong.

    What is found lies in E^G and may be smaller: a direction that the data never excite from smaller subspaces is
    not found. A wide start, where the unit is not linear, excites most. `progress` is a function of the fraction
    done, True or False; the fraction counts on the largest possible dimension, `most`, so the end may come early.
    """
    given = REPLICATES if isinstance(field, Field) else len(field)
    most = start.p if most is None else min(most, start.p)
    replicates = given if replicates is None else replicates
    plan = Plan(rule, stop, false_expansion, threshold, replicates, directions, ties, most, steps)
    refuse_unless_searchable(field, start, plan)
    with watching(progress, "discover") as tell:
        return _search(field, start, plan, Training(key, dt, steps, replicates, temperature), tell)


def _search(field: Field | Sequence[Field], start: Cloud, plan: Plan, training: Training, tell: Tell) -> Discovery:
    """Round after round: train, look at what leaves E, add it if it is wanted."""
    known, history = KnownDirections(np.zeros((start.p, 0)), np.zeros((start.p, 0))), []
    look = pull if plan.stop == "test" else escape
    while (k := known.basis.shape[1]) < start.p:
        here = training._replace(
            key=jax.random.fold_in(training.key, len(history)), progress=_from(tell, k, plan.most + 1)
        )
        seen = look(field, start, known.basis, here)
        found = excess(seen.residuals, rule=plan.rule, above=plan.above(seen), weights=np.asarray(start.weights, float))
        count = int(np.argmin(np.append(plan.wanted(seen, found), False)))
        count = min(count, plan.directions, plan.most - k)
        ties = plan.ties if plan.replicates > 1 else 0
        grown = known.grown(found.directions[:count], found.errors[:count], ties)
        added = max(grown.basis.shape[1] - k, 0)
        history.append(Step(k, seen.rmd2, float(found.p_values[0]), found.sizes, added))
        if not added:
            return Discovery(known.basis, history, plan.ended(k, seen, found, count))
        known = grown
    return Discovery(known.basis, history, "it is the whole space")


def _from(tell: Tell, done: int, total: int) -> Tell:
    """The progress of the round that starts with `done` directions of `total`."""
    return lambda fraction: tell((done + fraction) / total)


@door
def angles(found: Float[np.ndarray, "p k"], known: Float[np.ndarray, "p m"]) -> Float[np.ndarray, " a"]:
    """Principal angles between two subspaces in degrees, largest first; 90 for each dimension they differ by."""
    from scipy.linalg import subspace_angles

    gap = abs(found.shape[1] - known.shape[1])
    shared = subspace_angles(found, known) if min(found.shape[1], known.shape[1]) else np.zeros(0)
    return np.concatenate([np.full(gap, 90.0), np.degrees(shared)])
