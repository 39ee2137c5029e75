"""Where a flow went: the Trajectory it returns, and the log that is kept on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from haarflow.annotations import kind_of
from haarflow.dynamics.players import by_name, expecting
from haarflow.dynamics.shards import whole
from haarflow.errors import Refusal
from haarflow.values import said, to_pandas

GOING = np.iinfo(np.int32).max
"""The last good step of a run that has not stopped."""

C = TypeVar("C")


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Generic[C]):
    """Where a flow went: its last cloud, and its probes at the recorded steps and times.

    `cloud` is a Cloud, or {name: Cloud} of players. Over r keys there are clouds (r, n, p) and probes (r, k, ...);
    over a single key there is no r. `ended` is the last good step of each run: that of the cloud. `stopped` is None, or
    the sentence that says which runs met a number that is not finite, and when; from then on their probes are NaN, and
    the others went on. In a notebook it shows itself; `draw(axis)` draws the probes over time, `table()` and
    `to_pandas()` give their numbers in columns.
    """

    cloud: C
    steps: Int[np.ndarray, "k"]
    times: Float[np.ndarray, "*r k"]
    probes: dict[str, np.ndarray]
    ended: Int[np.ndarray, "*r"]
    stopped: str | None = None

    def table(self) -> dict[str, np.ndarray]:
        """The probes as columns of one length, beside `step`, `time` and, of several runs, `run`.

        A row for each recorded step (of each run); a probe that returns an array has a column for each of its entries,
        `mean[0]`, `mean[1]`, .... Write `numpy.savetxt`, or any table of yours, from it.
        """
        runs, k = self.ended.size, len(self.steps)
        columns = {"run": np.repeat(np.arange(runs), k)} if self.ended.ndim else {}
        columns |= {"step": np.tile(self.steps, runs), "time": self.times.ravel()}
        for name, values in self.probes.items():
            columns |= {f"{name}{index}": column.ravel() for index, column in self._entries(values)}
        return columns

    def _entries(self, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """The entries of a probe over runs and time, each with its place written out: ("[0]", (*r, k))."""
        lead = self.ended.ndim + 1
        places = np.ndindex(values.shape[lead:])
        return [("".join(f"[{i}]" for i in place), values[(..., *place)]) for place in places]

    def to_pandas(self) -> Any:
        """`table()` as a DataFrame of pandas, where pandas is installed."""
        return to_pandas(self.table())

    def draw(self, axis: Any, *names: str) -> Any:
        """Draw probes over time into an axis of matplotlib, all of them or those named; returns the axis.

        Of several runs, the median as a line and the middle 80% of them as a band.
        """
        strangers = [name for name in names if name not in self.probes]
        if strangers or not hasattr(axis, "fill_between"):
            got = f"{strangers[0]!r}, not among {sorted(self.probes)}" if strangers else said(axis)
            raise Refusal(
                f"draw takes an axis of matplotlib and names of probes; got {got}. Write draw(plt.gca(), 'risk')."
            )
        for name in names or self.probes:
            for index, values in self._entries(self.probes[name]):
                times, middle, low, high = _over_runs(self.times, values)
                (line,) = axis.plot(times, middle, label=f"{name}{index}")
                if self.ended.ndim:
                    axis.fill_between(times, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        axis.set_xlabel("time")
        if names or self.probes:
            axis.legend()
        return axis

    def __repr__(self) -> str:
        rows = self._summary()
        width = max((len(name) for name, _, _ in rows), default=0)
        lines = [self._headline(), *(f"  {name:<{width}}  {first} → {last}" for name, first, last in rows)]
        return "\n".join(lines + [f"  {self.stopped}"] * (self.stopped is not None))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(first)}</td><td>{escape(last)}</td></tr>"
            for name, first, last in self._summary()
        )
        head = "<tr><th>probe</th><td>at the start</td><td>at the end</td></tr>"
        stopped = f"<p>{escape(self.stopped)}</p>" if self.stopped else ""
        return f"<p>{escape(self._headline())}</p>" + (f"<table>{head}{rows}</table>" if rows else "") + stopped

    def _headline(self) -> str:
        told = [
            f"{f'{name}: ' if name else ''}{_counted(cloud.n, 'particle')} in R^{cloud.p}"
            for name, cloud in by_name(self.cloud).items()
        ]
        runs = f"{_counted(self.ended.size, 'run')}, " if self.ended.ndim else ""
        steps = _counted(int(self.steps[-1]), "step")
        return f"Trajectory of {'; '.join(told)} ({runs}{steps} to time {np.max(self.times):g})"

    def _summary(self) -> list[tuple[str, str, str]]:
        """Every probe with its values at the start and at the end."""
        axis = self.ended.ndim
        ends = {name: [_short(values.take(i, axis), axis) for i in (0, -1)] for name, values in self.probes.items()}
        return [(name, first, last) for name, (first, last) in ends.items()]


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def _over_runs(times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, median, and the tenth and ninetieth percentile over the runs that still go on."""
    if values.ndim == 1:
        return times, values, values, values
    going = np.isfinite(values).any(0)
    low, middle, high = np.nanquantile(values[:, going].astype(float), [0.1, 0.5, 0.9], axis=0)
    return times.mean(0)[going], middle, low, high


def _short(value: Any, runs: int) -> str:
    """A value in a few letters; of several runs, the least and the largest."""
    if value.ndim > runs:
        return f"an array {value.shape[runs:]}"
    if not runs:
        return f"{value.item():.6g}"
    known = value[np.isfinite(value)]
    return f"[{known.min():.6g}, {known.max():.6g}]" if known.size else "nan"


class State(eqx.Module):
    """What the next step needs: each lane's clouds and scheme state; and the last good step of runs that stopped."""

    lanes: dict[str, tuple[Any, Any]]
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

    def trajectories(self, state: State, at: int) -> dict[str, Trajectory]:
        """A Trajectory for each lane."""
        return {lane: self._trajectory(lane, state, at) for lane in state.lanes}

    def _trajectory(self, lane: str, state: State, at: int) -> Trajectory:
        steps, times, values = zip(
            *((step, time, row[lane]) for step, time, row in self.rows if lane in row), strict=True
        )
        axis, last = int(self.batched), whole(state.last[lane])
        return Trajectory(
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


def _measured(name: str, probe: Callable, clouds: Any, batched: bool) -> np.ndarray:
    """A probe's value; a probe that does not compile is called as plain Python, once for each run."""
    with expecting(f"The probe {name}", clouds, "Write a probe of the whole mapping, lambda clouds: ...."):
        try:
            return whole(_compiled(probe, clouds, batched))
        except (jax.errors.JAXTypeError, Refusal):
            here = jax.tree.map(lambda leaf: jnp.asarray(whole(leaf)), clouds)
            count = len(jax.tree.leaves(here)[0])
            runs = [jax.tree.map(lambda leaf, i=i: leaf[i], here) for i in range(count)] if batched else [here]
            found = [_numeric(name, probe(run)) for run in runs]
            return np.stack(found) if batched else found[0]


@eqx.filter_jit
def _compiled(probe, clouds, batched):
    return (jax.vmap(probe) if batched else probe)(clouds)


def _numeric(name: str, value: Any) -> np.ndarray:
    try:
        found = np.asarray(value)
    except ValueError:
        found = np.asarray(None)
    if found.dtype.kind not in "biufc":
        raise Refusal(
            f"A probe returns a number or an array; got {kind_of(value)} from {name}. Write one probe for each number."
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
