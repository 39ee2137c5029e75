"""Small differential equations, solved to a tolerance; and what is refused before and after."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_cloud

T = TypeVar("T")


def solve(
    slope: Callable,
    start: Any,
    times: Any,
    *,
    step: float | Array | None = None,
    tolerance: float | Array | None = None,
) -> Any:
    """The solution of `y' = slope(t, y, None)` from time zero, at increasing times; by Euler's method with `step`.

    The relative tolerance is 1e-10 unless another is given, and 1e-5 in float32. It is nan where there is no solution.
    """
    import diffrax

    times = jnp.asarray(times, float)
    if tolerance is None:
        tolerance = 1e-10 if jax.config.read("jax_enable_x64") else 1e-5
    control: Any = diffrax.PIDController(rtol=tolerance, atol=1e-3 * tolerance)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),  # pyright: ignore[reportArgumentType]
        diffrax.Tsit5() if step is None else diffrax.Euler(),
        t0=0.0,
        t1=times[-1],
        dt0=step,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=control if step is None else diffrax.ConstantStepSize(),
        max_steps=100_000,
        throw=False,
    )
    ended = solution.result == diffrax.RESULTS.successful
    return jax.tree.map(lambda part: jnp.where(ended, part, jnp.nan), solution.ys)


def arrays(*given: Any) -> list[Any]:
    """JAX arrays of the precision that JAX has; numbers as leaves, so that another number is the same program."""
    return [None if one is None else jnp.asarray(one, float) for one in given]


def refuse_unless_symmetric(owner: str, matrix: Any) -> None:
    """Refuse a matrix that is not symmetric, to 1e-5 of its size."""
    if isinstance(matrix, Tracer):
        return
    gap, size = np.abs(matrix - matrix.T).max(initial=0.0), np.abs(matrix).max(initial=0.0)
    if gap > 1e-5 * size:
        raise Refusal(f"{owner} is a symmetric matrix; got one that is {gap:.2g} from it. Write (M + M.T) / 2.")


def refuse_unless_covariance(owner: str, matrix: Any) -> None:
    """Refuse a matrix that is no covariance."""
    refuse_unless_symmetric(owner, matrix)
    if isinstance(matrix, Tracer):
        return
    least, size = np.linalg.eigvalsh(np.asarray(matrix, float)).min(initial=0.0), np.abs(matrix).max(initial=0.0)
    if least < -1e-5 * size:
        raise Refusal(f"{owner} has no direction below zero; got an eigenvalue {least:.2g}. Write root @ root.T.")


def refuse_unless_moments(start: Any, target: Any) -> None:
    """Refuse a start and a target of quadratic units that are no second moments and no form."""
    refuse_unless_covariance("The second moments of a start", start)
    refuse_unless_symmetric("The target of quadratic units", target)


def refuse_unless_times(times: Any) -> None:
    """Refuse times that are not in order from zero on."""
    known = not isinstance(times, Tracer)
    if not len(times) or (known and not (np.all(times[1:] >= times[:-1]) and times[0] >= 0)):
        raise Refusal(
            "A flow is told at one or more times >= 0 in order; got "
            f"{np.array2string(np.asarray(times), threshold=6) if known else 'none'}. Write np.linspace(0, 1, 11)."
        )


def refuse_unless_features(features: Any, weights: Any) -> None:
    """Refuse no features at all, and weights of features that do not sum to one."""
    if not features.size:
        raise Refusal(
            f"Features are one row or more for each unit, over one input or more; got the shape {features.shape}. "
            "Write unit.many(atoms, xs)[:, 0]."
        )
    if weights is not None and not isinstance(weights, Tracer) and not abs(float(weights.sum()) - 1) < 1e-5:
        raise Refusal(
            f"The weights of features sum to one; got {float(weights.sum()):.6g}. Write weights / weights.sum()."
        )


def refuse_unless_in(owner: str, p: int, cloud: Cloud) -> None:
    """Refuse what is no cloud, and a cloud in another dimension."""
    refuse_unless_cloud(owner, cloud)
    if cloud.p != p:
        raise Refusal(f"{owner} of R^{p} takes clouds in R^{p}; got one in R^{cloud.p}. Write atoms with {p} columns.")


def solved(found: T) -> T:
    """What an equation gave, refused where it has no finite end."""
    for part in jax.tree.leaves(found):
        if not isinstance(part, Tracer) and not np.isfinite(part).all():
            raise Refusal(
                "A flow with a closed form is followed while it is finite; got one that leaves every bound, or that "
                "needs more than 100000 steps. Write smaller numbers or earlier times."
            )
    return found
