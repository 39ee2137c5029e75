"""Where a flow went: the Path it returns, and the log that is kept on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from haarflow.dynamics.shards import whole
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud

GOING = np.iinfo(np.int32).max
"""The last good step of a run that has not stopped."""


@dataclass(frozen=True)
class Path:
    """Where a flow went: its last cloud, and its probes at the recorded steps and times.

    A flow over r keys has clouds (r, n, p) and probes (r, k, ...); over a single key there is no r.
    `ended` is the last good step of each run: that of the cloud. `stopped` is None, or the sentence that says which
    runs met a number that is not finite, and when; from then on their probes are NaN, and the other runs went on.
    """

    cloud: Cloud
    steps: Int[np.ndarray, "k"]
    times: Float[np.ndarray, "*r k"]
    probes: dict[str, np.ndarray]
    ended: Int[np.ndarray, "*r"]
    stopped: str | None = None


class State(eqx.Module):
    """What the next step needs: each lane's cloud and scheme state; and the last good step of runs that stopped."""

    lanes: dict[str, tuple[Cloud, Any]]
    last: dict[str, Int[Array, "*r"]]

    def going(self, lane: str) -> bool:
        """Whether some run of a lane goes on."""
        return bool((whole(self.last[lane]) == GOING).any())


class Log:
    """What a flow recorded on its way: rows of (step, time, {lane: {probe: value}})."""

    def __init__(self, probes: Mapping[str, Any], lanes: list[str], *, batched: bool):
        self.probes, self.batched, self.rows = _by_lane(probes, lanes), batched, []

    def record(self, step: int, time: np.ndarray, state: State, lanes: list[str] | None = None):
        """One more row, measured at this state, of the given lanes."""
        measured = {
            lane: {name: self._value(name, probe, state, lane, step) for name, probe in self.probes[lane].items()}
            for lane in (list(state.lanes) if lanes is None else lanes)
        }
        self.rows.append((step, time, measured))

    def _value(self, name: str, probe: Callable, state: State, lane: str, step: int) -> np.ndarray:
        value = _measured(name, probe, state.lanes[lane][0], self.batched)
        over = whole(state.last[lane]) < step
        if over.any() and np.issubdtype(value.dtype, np.inexact):
            value = np.where(over.reshape(over.shape + (1,) * (value.ndim - over.ndim)), np.nan, value)
        return value

    def paths(self, state: State, at: int) -> dict[str, Path]:
        """A Path for each lane."""
        return {lane: self._path(lane, state, at) for lane in state.lanes}

    def _path(self, lane: str, state: State, at: int) -> Path:
        steps, times, values = zip(
            *((step, time, row[lane]) for step, time, row in self.rows if lane in row), strict=True
        )
        axis, last = int(self.batched), whole(state.last[lane])
        return Path(
            state.lanes[lane][0],
            np.array(steps),
            np.stack(times, axis),
            {name: _stacked(name, [row[name] for row in values], axis) for name in self.probes[lane]},
            np.asarray(np.minimum(last, at)),
            _sentence(lane, last),
        )


def _by_lane(probes: Mapping[str, Any], lanes: list[str]) -> dict[str, dict[str, Callable]]:
    """The probes of each lane: the same for all, or a mapping for each."""
    own = [name for name, probe in probes.items() if isinstance(probe, Mapping)]
    if not own:
        return {lane: dict(probes) for lane in lanes}
    if set(probes) - set(lanes) or len(own) != len(probes):
        raise Refusal(
            f"Probes are functions of a cloud, or such functions for each field by its name; got {sorted(probes)} for "
            f"the fields {sorted(lanes)}. Write probes={{field: {{name: function}}}}."
        )
    return {lane: dict(probes.get(lane, {})) for lane in lanes}


def _measured(name: str, probe: Callable, cloud: Cloud, batched: bool) -> np.ndarray:
    """A probe's value; a probe that does not compile is called as plain Python, once for each run."""
    try:
        return whole(_compiled(probe, cloud, batched))
    except (jax.errors.JAXTypeError, Refusal):
        here = jax.tree.map(lambda leaf: jnp.asarray(whole(leaf)), cloud)
        runs = [jax.tree.map(lambda leaf, i=i: leaf[i], here) for i in range(len(here.atoms))] if batched else [here]
        found = [_numeric(name, probe(run)) for run in runs]
        return np.stack(found) if batched else found[0]


@eqx.filter_jit
def _compiled(probe, cloud, batched):
    return (jax.vmap(probe) if batched else probe)(cloud)


def _numeric(name: str, value: Any) -> np.ndarray:
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.asarray(None)
    if found.dtype.kind not in "biufc":
        raise Refusal(
            f"A probe returns a number or an array; got a {type(value).__name__} from {name}. "
            "Write one probe for each number."
        )
    return found


def _stacked(name: str, values: list[np.ndarray], axis: int) -> np.ndarray:
    if len({value.shape for value in values}) > 1:
        raise Refusal(
            f"A probe returns arrays of one shape; got {sorted({value.shape for value in values})} from {name}. "
            "Write a probe whose result does not change its size."
        )
    return np.stack(values, axis)


def _sentence(lane: str, last: np.ndarray) -> str | None:
    """Which runs of a lane stopped, and when; None if all went on to the end."""
    runs = np.flatnonzero(last.ravel() != GOING)
    if not len(runs):
        return None
    advice = "Write a smaller dt, a smaller growth, or a bounded activation."
    name = f" along {lane!r}" if lane else ""
    if not last.ndim:
        return (
            f"The flow{name} met a number that is not finite in step {int(last) + 1}; it kept the state after step "
            f"{int(last)}. {advice}"
        )
    told = ", ".join(f"run {run} after step {last[run]}" for run in runs[:5]) + (", …" if len(runs) > 5 else "")
    return (
        f"{len(runs)} of {last.size} runs of the flow{name} met a number that is not finite and kept their last good "
        f"state: {told}; the others went on. {advice}"
    )
