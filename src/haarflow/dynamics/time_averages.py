"""Time averages of laws along a flow: in games it is these that are promised to approach an equilibrium."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import door
from haarflow.dynamics.players import by_name
from haarflow.dynamics.trajectories import Trajectory
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud


def snapshot(clouds: Any) -> Float[Array, "_"]:
    """A probe that keeps all atoms and weights at the recorded steps, as one row of numbers: `time_average` reads it.

    `flow(..., every=50, probes={"laws": snapshot})` keeps one of fifty laws.
    """
    return jnp.concatenate(
        [part.ravel() for cloud in by_name(clouds).values() for part in (cloud.atoms, cloud.weights)]
    )


@door
def time_average(path: Trajectory, probe: str = "laws", *, until: float | None = None) -> Any:
    """`(1/T) ∫ mu_t dt`: the law that is as likely to be met at any time, of one cloud or {name: law} of players.

    `path` is of a flow with `probes={"laws": snapshot}`; the integral is by the trapezoidal rule over its k records, so
    that the average has k n atoms. With `until`, T is the last recorded time up to there; the atoms of later records
    stay, without mass, so that averages of all times have one shape. Of several runs, an average for each.
    """
    if probe not in path.probes:
        raise Refusal(
            f"time_average reads the laws that a probe kept; got {probe!r}, not among {sorted(path.probes)}. "
            "Write flow(..., every=50, probes={'laws': snapshot})."
        )
    rows, runs = path.probes[probe], path.ended.ndim
    sizes = [part for cloud in by_name(path.cloud).values() for part in (cloud.n * cloud.p, cloud.n)]
    if rows.ndim != runs + 2 or rows.shape[-1] != sum(sizes):
        raise Refusal(
            f"time_average reads what the probe snapshot kept; got records of shape {rows.shape[runs + 1 :]} from "
            f"{probe!r}. Write probes={{'laws': snapshot}}."
        )
    shares = _shares(path.times, until)
    if not np.isfinite(rows).all():
        raise Refusal("time_average is of runs that went on to their end; got one that stopped. " + str(path.stopped))
    parts = iter(np.split(rows, np.cumsum(sizes)[:-1], axis=-1))
    found = {name: _mixed(cloud, next(parts), next(parts), shares) for name, cloud in by_name(path.cloud).items()}
    return found[""] if isinstance(path.cloud, Cloud) else found


def _mixed(cloud: Cloud, atoms: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> Cloud:
    """The mixture of a cloud's records in these shares."""
    lead = atoms.shape[:-2]
    return Cloud(
        jnp.asarray(atoms.reshape(*lead, -1, cloud.p)), jnp.asarray((shares[..., None] * weights).reshape(*lead, -1))
    )


def _shares(times: Float[np.ndarray, "*r k"], until: float | None) -> Float[np.ndarray, "*r k"]:
    """The weights of the trapezoidal rule over the records up to a time, of sum one."""
    held = np.ones(times.shape, bool) if until is None else times <= until * (1 + 1e-12)
    if not held[..., 0].all():
        raise Refusal(f"time_average goes from the start until a time >= 0; got {until}. Write until=1.0.")
    gaps = np.diff(times, axis=-1) * held[..., 1:]
    total = np.zeros(times.shape)
    total[..., 1:] += gaps / 2
    total[..., :-1] += gaps / 2
    total[..., 0] += gaps.sum(axis=-1) == 0  # a single record is its own average
    return total / total.sum(axis=-1, keepdims=True)
