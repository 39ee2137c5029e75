"""A flow that is advanced by hand, piece by piece: for whoever watches, pauses, or turns a knob on the way."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics import flow as loop
from haarflow.dynamics.lanes import begun, finite, lanes_of, step_sizes
from haarflow.dynamics.shards import whole
from haarflow.dynamics.trajectories import GOING, Log
from haarflow.identity import by_value


class Pieces:
    """The same steps, by the same compiled programs, as `flow(field, scheme, cloud, key=key, dt=dt, ...)`.

    Step k draws from `fold_in(key, k)`, so the numbers are those of that flow to the bit, however it is cut. `at` is
    the number of steps done. A lane that meets a number that is not finite keeps its last good state.
    """

    def __init__(
        self,
        field: Any,
        scheme: Any,
        cloud: Any,
        *,
        key: Any,
        dt: float,
        probes: Mapping[str, Callable | Mapping[str, Callable]] | None = None,
        schedule: Callable = loop.constant,
    ):
        self.lanes = lanes_of(field, scheme, key)
        self.state = begun(self.lanes, cloud, key)
        self.key, self.dt, self.at = key, step_sizes(dt, key), 0
        self._size, self._schedule = jnp.asarray(self.dt, float), loop._schedule(schedule)
        self._clock = loop.Clock(self.dt, self._schedule)
        watched = {name: jax.tree.map(by_value, probe) for name, probe in (probes or {}).items()}
        self._log = Log(watched, list(self.lanes), batched=False)

    @property
    def clouds(self) -> dict[str, Any]:
        """The cloud, or the players, of each lane."""
        return {name: self.state.lanes[name][0] for name in self.lanes}  # in the order given, not that of trees

    @property
    def time(self) -> np.ndarray:
        """The time of now."""
        return self._clock.at(self.at)

    @property
    def stopped(self) -> dict[str, int]:
        """The last good step of each lane that has stopped."""
        lasts = {name: int(whole(last)) for name, last in self.state.last.items()}
        return {name: last for name, last in lasts.items() if last != GOING}

    def advance(self, steps: int) -> None:
        """So many steps more; none compiles the program and changes nothing."""
        end = self.at + steps
        moved = self._run(loop._guarded if self.stopped else loop._unguarded, end)
        if not self.stopped and not finite(moved.lanes):
            moved = self._run(loop._guarded, end)
        self.state, self.at = moved, end

    def _run(self, run: Callable, end: int) -> Any:
        start, stop = np.asarray(self.at), np.asarray(end)
        return run(self.lanes, self.state, self.key, self._size, self._schedule, start, stop, None)

    def measure(self) -> dict[str, dict[str, np.ndarray]]:
        """The probes of each lane that goes on, as a flow records them here."""
        self._log.rows = []
        going = [lane for lane in self.lanes if lane not in self.stopped]
        self._log.record(self.at, self.time, self.state, going)
        return self._log.rows[0][2]
