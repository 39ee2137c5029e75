"""Time averages of laws along a flow: in games it is these that are promised to approach an equilibrium."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.doors import NonNegative, door
from haarflow.dynamics.players import by_name, map_clouds
from haarflow.dynamics.trajectories import Trajectory
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud


@door
def snapshot(clouds: Cloud | Mapping[str, Cloud]) -> Float[Array, "_"]:
    """A probe that keeps all atoms and weights at the recorded steps, as one row of numbers: `time_average` reads it.

    `flow(..., every=50, probes={"laws": snapshot})` keeps one of fifty laws.
    """
    return jnp.concatenate(
        [part.ravel() for cloud in by_name(clouds).values() for part in (cloud.atoms, cloud.weights)]
    )


@door
def recorded(path: Trajectory, probe: str = "laws") -> Any:
    """The laws at all k records of a flow with `probes={"laws": snapshot}`: a stack of clouds (k, n, p), or of players.

    Of several runs, (r, k, n, p); `recorded(path)["x"].atoms[-1]` are the last atoms of the player x.
    """
    if probe not in path.probes:
        raise Refusal(
            f"The laws of a flow are those that a probe kept; got {probe!r}, not among {sorted(path.probes)}. "
            "Write flow(..., every=50, probes={'laws': snapshot})."
        )
    rows, runs, found = path.probes[probe], path.ended.ndim, {}
    sizes = {name: (cloud.n * cloud.p, cloud.n) for name, cloud in by_name(path.cloud).items()}
    if rows.ndim != runs + 2 or rows.shape[-1] != sum(map(sum, sizes.values())):
        raise Refusal(
            f"The laws of a flow are those that the probe snapshot kept; got records of shape {rows.shape[runs + 1 :]} "
            f"from {probe!r}. Write probes={{'laws': snapshot}}."
        )
    if not np.isfinite(rows).all():
        raise Refusal(
            f"The laws of a flow are those of runs that went on to their end; got some that did not. {path.stopped}"
        )
    for name, cloud in by_name(path.cloud).items():
        atoms, weights, rows = np.split(rows, np.cumsum(sizes[name]), axis=-1)
        found[name] = Cloud(jnp.asarray(atoms.reshape(*atoms.shape[:-1], cloud.n, cloud.p)), jnp.asarray(weights))
    return found[""] if isinstance(path.cloud, Cloud) else found


@door
def time_average(path: Trajectory, probe: str = "laws", *, until: NonNegative | None = None) -> Any:
    """`(1/T) ∫ mu_t dt`: the law that is as likely to be met at any time, of one cloud or {name: law} of players.

    `path` is of a flow with `probes={"laws": snapshot}`; the integral is by the trapezoidal rule over its k records, so
    that the average has k n atoms. With `until`, T is the last recorded time up to there; the atoms of later records
    stay, without mass, so that averages of all times have one shape. Of several runs, an average for each.
    """
    shares = _shares(path.times, until)

    def mixed(laws: Cloud) -> Cloud:
        lead = laws.atoms.shape[:-3]
        weights = jnp.asarray(shares, laws.weights.dtype)[..., None] * laws.weights
        return Cloud(laws.atoms.reshape(*lead, -1, laws.p), weights.reshape(*lead, -1))

    return map_clouds(mixed, recorded(path, probe))


def _shares(times: Float[np.ndarray, "*r k"], until: float | None) -> Float[np.ndarray, "*r k"]:
    """The weights of the trapezoidal rule over the records up to a time, of sum one."""
    held = np.ones(times.shape, bool) if until is None else times <= until * (1 + 1e-12)
    gaps = np.diff(times, axis=-1) * held[..., 1:]
    total = np.zeros(times.shape)
    total[..., 1:] += gaps / 2
    total[..., :-1] += gaps / 2
    total[..., 0] += gaps.sum(axis=-1) == 0  # a single record is its own average
    return total / total.sum(axis=-1, keepdims=True)
