"""How a discovery searches: what it adds each round, when it ends, and the sentences about both."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from haarflow.dynamics.fields import Field
from haarflow.errors import Refusal, one_of
from haarflow.measures.clouds import Cloud
from haarflow.practice.escape import RULES, Escape, Excess
from haarflow.practice.parameter_sharing import tie, tied
from haarflow.values import refuse_unless_affordable

STOPS = ("test", "threshold")
REPLICATES = 16
_EXACT = 1e-9  # the standard error of a direction that never varies: rounding


class Plan(NamedTuple):
    """The choices of a discovery; `discover` explains them."""

    rule: str
    stop: str
    false_expansion: float
    threshold: float | None
    replicates: int
    directions: int
    ties: float
    most: int
    steps: int

    @property
    def level(self) -> float:
        """The RMD² that counts as staying."""
        usual = 1e-3 if self.stop == "threshold" else 0.0
        return usual if self.threshold is None else float(self.threshold)

    def above(self, seen: Escape) -> float:
        """The same as the size of a mean residual."""
        return float(np.sqrt(4 * self.level * np.mean(np.sum(seen.atoms**2, axis=(1, 2)))))

    def wanted(self, seen: Escape, found: Excess) -> Bool[np.ndarray, " m"]:
        """Which of the directions are worth adding, each by itself."""
        if self.stop == "test":
            return found.p_values <= self.false_expansion
        return (found.sizes > 0) & (seen.rmd2 > self.level)

    def ended(self, dimension: int, seen: Escape, found: Excess, count: int) -> str:
        """Why a round adds nothing, though it wanted to add `count` directions."""
        if count:
            return "the direction in which training left could not be told from those already known"
        if self.wanted(seen, found)[0]:
            return f"no more than {dimension} directions were asked for, and training still leaves them"
        if self.stop == "threshold":
            return f"training stays, with RMD² = {seen.rmd2:.2g}"
        return f"what pulls training away is no more than noise explains (p = {found.p_values[0]:.2g})"


class KnownDirections(NamedTuple):
    """The directions known so far, in columns, and the standard errors of their coordinates."""

    basis: Float[np.ndarray, "p k"]
    errors: Float[np.ndarray, "p k"]

    def grown(
        self, directions: Float[np.ndarray, "m p"], errors: Float[np.ndarray, "m p"], ties: float | int
    ) -> "KnownDirections":
        """More directions, and those coordinates tied that noise cannot tell apart; what tying empties goes.

        Differences are measured in standard errors, column by column, so that the best known columns decide.
        """
        basis = np.linalg.qr(np.concatenate([self.basis, directions.T], axis=1))[0]
        noise = np.concatenate([self.errors, errors.T], axis=1)
        if not ties or not basis.shape[1]:
            return KnownDirections(basis, noise)
        pattern = tied(basis, ties + np.sqrt(basis.shape[1]), errors=np.maximum(noise, _EXACT))
        made, kept = tie(basis, pattern)
        return KnownDirections(made, noise[:, kept])


def refuse_unless_searchable(field: Field | Sequence[Field], start: Cloud, plan: Plan) -> None:
    """A sentence, where a discovery cannot start."""
    one_of("A discovery rule", plan.rule, RULES)
    one_of("A discovery stop", plan.stop, STOPS)
    if start.atoms.ndim != 2:
        raise Refusal(
            f"A discovery starts from one Cloud (n, p); got atoms {start.atoms.shape}. "
            "Write one cloud; its replicates differ in their data."
        )
    given = 1 if isinstance(field, Field) else len(field)
    if not given or given not in (1, plan.replicates):
        raise Refusal(
            f"A discovery trains on one field, or on one for each replicate; got {given} fields and "
            f"replicates={plan.replicates}. Leave replicates out."
        )
    if plan.stop == "test" and plan.replicates < 4:
        raise Refusal(
            f"The stop 'test' splits at least 4 replicates into halves; got replicates={plan.replicates}. "
            f"Write replicates={REPLICATES}, or stop='threshold'."
        )
    refuse_unless_affordable(
        f"A discovery with {plan.replicates} replicates",
        8.0 * 8 * plan.replicates * start.n * start.p,
        instead="Write fewer `replicates`.",
    )
    _refuse_numbers(plan)


def _refuse_numbers(plan: Plan) -> None:
    if not 0 < plan.false_expansion < 1:
        raise Refusal(
            f"A false-expansion probability is between 0 and 1; got {plan.false_expansion}. Write false_expansion=0.01."
        )
    if not 0 <= plan.level < 0.5:
        raise Refusal(f"A threshold is an RMD², from 0 to below ½; got {plan.threshold}. Write threshold=1e-3.")
    if not 0 <= plan.ties < np.inf:
        raise Refusal(f"Ties are in standard errors, from 0 on; got {plan.ties}. Write ties=5, or 0 to tie nothing.")
