"""Orbits folded together: an equivariant network answers for a whole orbit of samples when it answers for one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from haarflow.algebra.kinds import Finite
from haarflow.algebra.reps import Rep, one_group
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.learning.data import Data, Sample
from haarflow.learning.losses import LOSSES
from haarflow.learning.risks import Fit, Functional, Penalty, Risk, Sum
from haarflow.learning.symmetry import Augmented, Averaged, average
from haarflow.measures.orbits import orbits
from haarflow.models.fits import refuse_unless_acting


@door
def fold(functional: Functional, on_x: Rep, on_y: Rep) -> Functional:
    """The same functional with one sample per orbit: FA over orbit-closed data, |G| times cheaper, on every cloud.

    Averaged risks over a closed Sample, or over `augment(data, on_x, on_y, exact=True)`; their sums with penalties.
    """
    return _folded(functional, on_x, on_y, closed=False)


def fold_closed(functional: Functional, on_x: Rep, on_y: Rep, action: Rep) -> Functional:
    """The functional of mu = nu^G as a functional of nu: units become averaged, samples one per orbit."""
    for part in functional.parts:
        if isinstance(part, Penalty):
            _refuse_unless_invariant(part, action)
    return _folded(functional, on_x, on_y, closed=True)


def _folded(functional: Functional, on_x: Rep, on_y: Rep, *, closed: bool) -> Functional:
    group = one_group("The folding of orbits", on_x, on_y)
    if not isinstance(group, Finite):
        raise Refusal(f"The folding of orbits is for finite groups; got {group}. Flow the whole cloud instead.")
    match functional:
        case Sum():
            return Sum(tuple(_folded(part, on_x, on_y, closed=closed) for part in functional.parts))
        case Penalty():
            return functional
        case Risk():
            return _folded_risk(functional, on_x, on_y, closed=closed)
    raise Refusal(
        f"Orbits are folded in a Risk, a Penalty or their sum; got {type(functional).__name__}. "
        "Flow the whole cloud with it, or add a way to `haarflow.learning.folding`."
    )


def _folded_risk(risk: Risk, on_x: Rep, on_y: Rep, *, closed: bool) -> Functional:
    if isinstance(risk.unit, Averaged):
        _refuse_unless_same(risk.unit, on_x, on_y)
        try:
            return _on_one_per_orbit(risk.unit, risk.data, risk.loss, on_x, on_y)
        except Refusal:
            if closed:  # over a closed cloud FA is reduced whatever its data; there are only no samples to fold
                return risk
            raise
    if closed:
        return _on_one_per_orbit(average(risk.unit, on_x, on_y), risk.data, risk.loss, on_x, on_y)
    raise Refusal(
        f"One sample stands for its orbit where the network is equivariant; got a plain {type(risk.unit).__name__}. "
        "Write average(unit, on_x, on_y), or reduce(field, cloud, on_x, on_y) for an orbit-closed cloud."
    )


def _on_one_per_orbit(unit: Averaged, data: Data, loss: str, on_x: Rep, on_y: Rep) -> Functional:
    refuse_unless_acting(unit, on_x, on_y)
    _refuse_unless_invariant_loss(loss, on_y)
    if isinstance(data, Augmented) and data.actions is not None:
        _refuse_unless_same(Averaged(unit.unit, *data.actions), on_x, on_y)
        return Risk(unit, data.data, loss)
    if not isinstance(data, Sample) or data.size is not None:
        raise Refusal(
            "Folded data is closed at every step: a whole Sample, or an exact augmentation; got a "
            f"{type(data).__name__} that draws. Write augment(data, on_x, on_y, exact=True)."
        )
    pairs = np.concatenate([_sized(data.xs), _sized(data.ys)], axis=1)
    weights = np.full(len(pairs), 1 / len(pairs))
    found = orbits(pairs, weights, (on_x + on_y).action(), owner="A Sample", tolerance=_slack(data.xs))
    mass = jnp.asarray(found.mass, data.ys.dtype)
    return Fit(unit, data.xs[found.first], data.ys[found.first], loss, mass)


def _sized(rows) -> Float[np.ndarray, "m k"]:
    """The rows in units of their largest entry, so that pairs coincide where both of their parts do."""
    rows = np.asarray(rows, float)
    return rows / max(np.abs(rows).max(), 1e-300)


def _slack(array) -> float:
    return 1e-9 if array.dtype == jnp.float64 else 1e-4


def _refuse_unless_same(unit: Averaged, on_x: Rep, on_y: Rep) -> None:
    for action, rep in ((unit.on_x, on_x), (unit.on_y, on_y)):
        if not action.agrees(rep.action(), 1e-6):
            raise Refusal(
                f"Orbits are folded by the group that averages or augments; got {len(action)} elements there and "
                f"{len(rep.action())} of {type(on_x.group).__name__} here. Give the same on_x and on_y to both."
            )


def _refuse_unless_invariant_loss(loss: str, on_y: Rep) -> None:
    f, y = np.random.default_rng(0).uniform(0.1, 1, (2, on_y.dim))
    gap = _gap(lambda pair: LOSSES[loss](*pair.reshape(2, -1)), 2 * on_y, np.concatenate([f, y]))
    if gap > 1e-4:
        raise Refusal(
            f"A loss that scores a whole orbit alike satisfies l(g f, g y) = l(f, y); got a gap of {gap:.2g} for "
            f"{loss!r}. Use 'half-square', or an action that leaves the labels where they are."
        )


def _refuse_unless_invariant(penalty: Penalty, action: Rep) -> None:
    gap = _gap(penalty.r, action, np.random.default_rng(0).normal(size=action.dim))
    if gap > 1e-4:
        raise Refusal(
            f"A penalty that weighs a whole orbit alike satisfies r(M_g theta) = r(theta); got a gap of {gap:.2g}. "
            "Use the default half norm, or flow the whole cloud."
        )


def _gap(function: Callable, rep: Rep, point: Float[np.ndarray, " k"]) -> float:
    """How far a function is from invariant at a point, relative to its size there."""
    images = np.concatenate([point[None], rep.action().apply(point)])
    values = np.asarray(jax.jit(jax.vmap(function))(images))
    return float(np.abs(values - values[0]).max() / max(1.0, abs(values[0])))
