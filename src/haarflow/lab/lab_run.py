"""A run of the lab: segments of one flow between changes, the rows that were measured, and clouds to go back to."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import haarflow as hf
from haarflow.dynamics.pieces import Pieces
from haarflow.lab.problem import build, key_of
from haarflow.lab.state import STEPS, LabState, cost_of

LOOKED = 5  # rows whose times are remembered: what a row costs is the least of them
MEMORY = 128e6  # bytes of clouds that a run keeps to go back to

Row = dict[str, Any]  # step, time and {lane: {column: number}}


class LabRun:
    """Steps of a state, `every` of them at a time, from the start or from a kept cloud; `rows` are its curves.

    A change of a number begins a new segment: a flow of its own from the clouds of that step, with the key
    `fold_in(key, segment)`, so that what the lab does is what a script of a few calls of `flow` does. (What a scheme
    remembers, such as momentum, begins anew there.)
    """

    def __init__(self, state: LabState, uploaded: hf.Sample | None = None):
        cost_of(state, 0 if uploaded is None else len(uploaded.xs)).refuse(state)
        self.state, self.uploaded = state, uploaded
        self.rows: list[Row] = []
        self.kept: dict[int, dict[str, Any]] = {}
        self.at, self._time, self._stride, self.end = 0, 0.0, 1, STEPS
        self._rested, self._measured = 0.0, deque[float](maxlen=LOOKED)  # when the last row was done, seconds of rows
        self.problem = build(state.at(0), uploaded)
        self._begin(self.problem.starts)
        self._record()

    def _begin(self, clouds: dict[str, Any]) -> None:
        """A segment from here, with the numbers of now."""
        now = self.state.at(self.at)
        self.segment = sum(0 < change.step <= self.at for change in self.state.changes)
        if self.at:
            self.problem = build(now, self.uploaded)
        problem, key = self.problem, key_of(self.state, self.segment)
        self.numbers = now
        self._since, self._time_since = self.at, self._time
        probes = {lane: {"measured": probe} for lane, probe in problem.probes.items()}
        self.pieces = Pieces(problem.fields, problem.schemes, clouds, key=key, dt=now.dt, probes=probes)

    def next_stop(self) -> int:
        """The step of the next record: so many more, or that of the next change."""
        ahead = [step for step in (*(change.step for change in self.state.changes), self.end) if step > self.at]
        return min([self._since + (self.pieces.at // self.state.every + 1) * self.state.every, *ahead])

    def advance(self, most: int = STEPS, *, without: Callable[[], bool] = lambda: False) -> Row | None:
        """To the next record, or `most` steps towards it; the row where one was measured.

        A flow that is cut in more pieces has the same numbers to the bit, so whoever watches may look between records;
        and rows change nothing either, so one may be left out where `without` says so, unless something changes there.
        """
        stop = self.next_stop()
        here = min(self.at + most, stop)
        self.pieces.advance(here - self.at)
        self.at = here
        self._time = self._time_since + float(self.pieces.time)
        needed = stop == self.end or any(change.step == stop for change in self.state.changes)
        if here < stop or (not needed and without()):
            return None
        row = self._record()
        if any(change.step == stop for change in self.state.changes):
            self._begin(self.pieces.clouds)
        return row

    def settle(self) -> Row | None:
        """Stand at a record: at this one where its row was left out, or at the next; None where it does already."""
        if not self.between:
            return None
        return self.advance() if self.pieces.at % self.state.every else self._record()

    @property
    def row_seconds(self) -> float:
        """What a row costs, measuring alone; zero until it is known from a few: one may be slow by chance."""
        return min(self._measured) if len(self._measured) == LOOKED else 0.0

    @property
    def row_share(self) -> float:
        """The share of a row measured now in the time since the last one."""
        return self.row_seconds / max(self.row_seconds + time.monotonic() - self._rested, 1e-12)

    def _record(self) -> Row:
        begun, now = time.monotonic(), self.numbers
        found, probes = self.pieces.measure(), self.problem.probes
        numbers = {"penalty": now.penalty, "temperature": now.temperature}
        measured = {lane: probes[lane].table(one["measured"], **numbers) for lane, one in found.items()}
        self._rested = time.monotonic()
        if self.rows:  # the first may compile
            self._measured.append(self._rested - begun)
        row = {"step": self.at, "time": self._time, "lanes": measured}
        self.rows.append(row)
        self._keep()
        return row

    def _keep(self) -> None:
        """Keep this cloud, and fewer of the older ones when they grow too many."""
        if len(self.rows) % self._stride:
            return
        self.kept[self.at] = self.pieces.clouds
        size = sum(leaf.nbytes for leaf in _leaves(self.pieces.clouds))
        if size * len(self.kept) > MEMORY and len(self.kept) > 2:
            self._stride *= 2
            steps = sorted(self.kept)
            self.kept = {step: self.kept[step] for i, step in enumerate(steps) if i % 2 == 0 or step == self.at}

    @property
    def clouds(self) -> dict[str, Any]:
        """The clouds of now."""
        return self.pieces.clouds

    @property
    def time(self) -> float:
        """The time of now."""
        return self._time

    @property
    def between(self) -> bool:
        """Whether it stands between two records."""
        return self.rows[-1]["step"] != self.at

    @property
    def stopped(self) -> dict[str, int]:
        """The lanes that met a number that is not finite, each with its last good step."""
        return {lane: self._since + step for lane, step in self.pieces.stopped.items()}

    def nearest(self, step: int) -> int:
        """The last step not after a given one whose cloud is kept: now, or an earlier one."""
        if step >= self.at:
            return self.at
        return max((kept for kept in self.kept if kept <= step), default=0)

    def turn(self, numbers: dict[str, float], step: int | None = None) -> None:
        """Change numbers here, or at an earlier step whose cloud is kept: the run goes on from there."""
        step = self.at if step is None else step
        clouds = self.pieces.clouds if step == self.at else self.kept[step]
        self.state = self.state.turned(step, numbers)
        self.rows = [row for row in self.rows if row["step"] <= step]
        self.kept = {kept: clouds for kept, clouds in self.kept.items() if kept <= step}
        self.at, self._time = step, self.rows[-1]["time"]
        if step == 0:
            self.problem = build(self.state.at(0), self.uploaded)
            self.rows, clouds = [], self.problem.starts
        self._begin(clouds)
        if step == 0:
            self._record()

    def finish(self) -> Iterator[Row]:
        """All rows to the end that the state states."""
        yield self.rows[0]
        self.end = self.state.steps
        while self.at < self.end:
            self.advance()
            yield self.rows[-1]


def columns_of(rows: list[Row]) -> dict[str, np.ndarray]:
    """The rows as columns: step, time, and `lane: quantity` for each; not a number where a lane had stopped."""
    names = {f"{lane}: {name}": (lane, name) for row in rows for lane in row["lanes"] for name in row["lanes"][lane]}
    found = {"step": np.array([row["step"] for row in rows]), "time": np.array([row["time"] for row in rows])}
    for column, (lane, name) in names.items():
        found[column] = np.array([float(row["lanes"].get(lane, {}).get(name, np.nan)) for row in rows])
    return found


def arrays_of(run: LabRun, step: int | None = None) -> dict[str, np.ndarray]:
    """Atoms and weights of every lane (and player) at a step whose cloud is kept, or now."""
    clouds = run.clouds if step in (None, run.at) else run.kept[step]
    found = {}
    for lane, cloud in clouds.items():
        for name, one in by_player(cloud).items():
            found[f"{lane}{name} atoms"] = np.asarray(one.atoms)
            found[f"{lane}{name} weights"] = np.asarray(one.weights)
    return found


def by_player(cloud: Any) -> dict[str, hf.Cloud]:
    """The clouds of a lane: one without a name, or those of players."""
    return {f" {name}": one for name, one in cloud.items()} if isinstance(cloud, dict) else {"": cloud}


def _leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree.leaves(tree)


def finished(state: LabState, uploaded: hf.Sample | None = None) -> LabRun:
    """The whole run of a state, as `haarflow lab --config` makes it."""
    run = LabRun(state, uploaded)
    for _ in run.finish():
        pass
    return run
