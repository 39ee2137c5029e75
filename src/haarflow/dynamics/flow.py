"""The one loop: many steps of a scheme along a field, with probes, progress, a safe stop and resumption.

It moves one cloud, or the clouds of several players under a field that sees all of them.

Step k draws everything it needs from `fold_in(key, k)`, so the result does not depend on how the loop is cut.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from haarflow.doors import Count, Natural, door
from haarflow.dynamics.checkpoints import Checkpoint
from haarflow.dynamics.fields import Field
from haarflow.dynamics.lanes import along, begun, finite, lanes_of, refuse_traced, step_sizes, stepped
from haarflow.dynamics.players import Along
from haarflow.dynamics.progress import Tell, watching
from haarflow.dynamics.schemes import Scheme
from haarflow.dynamics.shards import AXIS, agreed, divided, everywhere, mesh_of, whole
from haarflow.dynamics.trajectories import GOING, Log, State, Trajectory
from haarflow.errors import Refusal
from haarflow.fast import tuning
from haarflow.fast.layout import lies_turned, turned
from haarflow.identity import by_value
from haarflow.learning.loaders import complaints
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import shapes_of
from haarflow.values import refuse_unless_affordable, refuse_unless_soon, said


class Diverged(UserWarning):
    """A flow met a number that is not finite, and stopped at the last good state."""


def constant(time: Float[Array, ""]) -> Float[Array, ""]:
    """The schedule that never changes the step."""
    return jnp.ones_like(time)


class Options(TypedDict, total=False):
    """What stands beside field, scheme and cloud in a call of `flow`."""

    key: Required[Any]
    dt: Required[float | Array | np.ndarray | Sequence[float]]
    steps: Required[int]
    probes: Mapping[str, Callable | Mapping[str, Callable]] | None
    every: int | None
    schedule: Callable
    progress: bool | Tell | None
    checkpoint: str | Path | None
    devices: int | None


Fields = Field | Sequence[Field]
Schemes = Scheme | Sequence[Scheme]
Players = Mapping[str, Cloud]


@overload
def flow(field: Fields, scheme: Schemes, cloud: Cloud, **options: Unpack[Options]) -> Trajectory[Cloud]: ...
@overload
def flow(
    field: Fields, scheme: Schemes, cloud: Players, **options: Unpack[Options]
) -> Trajectory[dict[str, Cloud]]: ...
@overload
def flow(
    field: Mapping[str, Fields], scheme: Schemes | Mapping[str, Schemes], cloud: Cloud, **options: Unpack[Options]
) -> dict[str, Trajectory[Cloud]]: ...
@overload
def flow(
    field: Mapping[str, Fields],
    scheme: Schemes | Mapping[str, Schemes],
    cloud: Mapping[str, Players],
    **options: Unpack[Options],
) -> dict[str, Trajectory[dict[str, Cloud]]]: ...
@overload
def flow(  # the names say whether these are players, or a cloud for each field
    field: Mapping[str, Fields],
    scheme: Schemes | Mapping[str, Schemes],
    cloud: Mapping[str, Cloud | Players],
    **options: Unpack[Options],
) -> dict[str, Trajectory[Any]]: ...
@door
def flow(
    field: Field | Sequence[Field] | Mapping[str, Field | Sequence[Field]],
    scheme: Scheme | Sequence[Scheme] | Mapping[str, Scheme | Sequence[Scheme]],
    cloud: Cloud | Mapping[str, Cloud | Mapping[str, Cloud]],
    *,
    key: Key[Array, "*r"],
    dt: float | Array | np.ndarray | Sequence[float],
    steps: Natural,
    probes: Mapping[str, Callable | Mapping[str, Callable]] | None = None,
    every: Count | None = None,
    schedule: Callable = constant,
    progress: bool | Tell | None = None,
    checkpoint: str | Path | None = None,
    devices: Count | None = None,
) -> Any:
    """From a cloud, `steps` steps of size `dt · schedule(k · dt)`: a Trajectory.

    With players, a mapping {name: cloud}, the field sees all of them and moves each; `Each` gives them schemes of their
    own. With a mapping of fields, a Trajectory for each: all lanes run in one compiled program, on the same data and
    noise, from the same cloud or players, or each from its own, `{field: cloud or players}`.
    With an array of r keys, r runs in one program, each from `cloud` or from its member of a stack (r, n, p); `dt` may
    then be r numbers, and field and scheme lists of r that differ in their numbers only.
    `probes` are functions of the cloud, or of the mapping of all players, measured at the start, every `every` steps
    and at the end; for some fields only, `{field: {name: function}}`. A probe that JAX cannot compile is called as
    plain Python. `progress` is a function of the fraction done, or True or False; by default a bar where a terminal is
    watching. With `checkpoint`, a file from which a killed flow resumes, to the bit. With `devices`, the particles are
    divided among so many devices, of this process or of all the processes of `jax.distributed`.
    A run that meets a number that is not finite keeps its last good state, with a warning; the other runs go on.
    """
    _refuse_unless_soon(steps, every or steps or 1, key.size)
    lanes, mesh = lanes_of(field, scheme, key), mesh_of(devices)
    refuse_traced(lanes, key, dt)
    dt, schedule = step_sizes(dt, key), _schedule(schedule)
    watched = {name: jax.tree.map(by_value, probe) for name, probe in (probes or {}).items()}
    state = begun(lanes, cloud, key)
    records = {*range(0, steps, every or steps or 1), steps}
    log = Log(watched, list(lanes), batched=key.ndim == 1)
    at = 0
    named = sorted(watched.items(), key=lambda probe: probe[0])
    saved = Checkpoint(checkpoint, (lanes, state, key, dt, schedule, named, sorted(records)))
    if saved.found:
        at, state, log.rows = saved.load(state)
    clock = Clock(dt, schedule)
    if mesh is not None:
        state = State(divided(state.lanes, along(lanes, state), mesh), everywhere(state.last, mesh))
    lanes, key, dt = everywhere((lanes, key, jnp.asarray(dt, float)), mesh)
    going = all((whole(last) == GOING).all() for last in state.last.values())
    run = _unguarded if going else _guarded
    piece = 16
    if not log.rows:
        log.record(at, clock.at(0), state)
    with watching(progress) as tell, complaints() as refuse_if_told:
        while at < steps and any(state.going(lane) for lane in lanes):
            end = min(at + piece, min(stop for stop in records if stop > at))
            begin = time.monotonic()
            moved = run(lanes, state, key, dt, schedule, np.asarray(at), np.asarray(end), mesh)
            if run is _unguarded and not finite(moved.lanes):
                refuse_if_told()
                run = _guarded
                continue
            stopping = [lane for lane in lanes if state.going(lane) and not moved.going(lane)]
            refuse_if_told()
            for lane in stopping:  # a row where its last run stopped, and no other after it
                last = int(whole(moved.last[lane]).max())
                if last not in records or last > at:
                    log.record(last, clock.at(last), moved, [lane])
            at, state = end, moved
            if end in records:
                log.record(at, clock.at(at), state, [lane for lane in lanes if state.going(lane)])
            short = agreed(time.monotonic() - begin < tuning.SECONDS_BETWEEN_LOOKS, mesh)
            if agreed(saved.due(last=at == steps), mesh):
                saved.save(at, state, log.rows)
            tell(at / max(steps, 1))
            piece = piece * 2 if short else max(1, piece // 2)
    found = log.trajectories(state, at)
    for trajectory in found.values():
        if trajectory.stopped:
            warnings.warn(trajectory.stopped, Diverged, stacklevel=3)
    return {name: found[name] for name in field} if isinstance(field, Mapping) else found[""]


@eqx.filter_jit
def _unguarded(lanes, state, key, dt, schedule, start, stop, mesh):
    """From step `start` to step `stop`, without looking up. The state is kept, as the last good one to go back to."""
    lay, lift = _turning(lanes, state, mesh)

    def once(k, laid):
        return lay(stepped(lanes, lift(laid), key, dt, schedule, k))

    return lift(jax.lax.fori_loop(start, stop, once, lay(state)))


@eqx.filter_jit
def _guarded(lanes, state, key, dt, schedule, start, stop, mesh):
    """As `_unguarded`, looking at every step: a run that meets a number that is not finite stays as it was before."""
    lay, lift = _turning(lanes, state, mesh)

    def once(k, laid):
        return _kept(k, laid, lay(stepped(lanes, lift(laid), key, dt, schedule, k)))

    return lift(jax.lax.fori_loop(start, stop, once, lay(state)))


def _turning(lanes, state: State, mesh) -> tuple[Callable[[State], State], Callable[[State], State]]:
    """Two functions: `lay` transposes arrays with a short row for each particle for the loop, `lift` turns them back.

    Atoms (n, p), and what a scheme remembers of them, lie as (p, n) between two steps if p is small: the compiler makes
    vectors along the last axis, and inside a step it then transposes nothing.
    """
    axes = along(lanes, state)

    def short(leaf, one: Along) -> bool:
        return [axis for axis, _ in one.axes] == [leaf.ndim - 2] and lies_turned(leaf.shape[-1])

    turn = {name: jax.tree.map(short, state.lanes[name], axes[name]) for name in state.lanes}

    def lay(lifted):
        return State(
            jax.tree.map(lambda leaf, t: turned(leaf, mesh, AXIS) if t else leaf, lifted.lanes, turn), lifted.last
        )

    def lift(laid):
        return State(jax.tree.map(lambda leaf, t: leaf.swapaxes(-1, -2) if t else leaf, laid.lanes, turn), laid.last)

    return lay, lift


def _kept(k, before: State, after: State) -> State:
    """The state after step k of the runs that go on, and the last good state of those that stopped."""
    lanes, lasts = {}, {}
    for name, last in before.last.items():
        leaves = jax.tree.leaves(after.lanes[name])
        good = jnp.stack([jnp.isfinite(leaf).all(tuple(range(last.ndim, leaf.ndim))) for leaf in leaves]).all(0)
        keep = partial(_where, (last == GOING) & good)
        lanes[name] = jax.tree.map(keep, after.lanes[name], before.lanes[name])
        lasts[name] = jnp.where((last == GOING) & ~good, jnp.asarray(k, last.dtype), last)
    return State(lanes, lasts)


def _where(going, new, old):
    return jnp.where(going.reshape(going.shape + (1,) * (new.ndim - going.ndim)), new, old)


class Clock:
    """The time at each step, in double precision: the sum of `dt · schedule(k · dt)` over the steps before it."""

    def __init__(self, dt: Float[np.ndarray, "*r"], schedule: Callable):
        self.dt, self.schedule = dt, schedule
        self.step, self.time = 0, np.zeros(dt.shape)

    def at(self, step: int) -> Float[np.ndarray, "*r"]:
        """The time at a step, not before the one asked for last."""
        if self.schedule == by_value(constant):
            return np.asarray(self.dt * step)
        total, lost = _elapsed(jnp.asarray(self.dt, float), self.schedule, np.asarray(self.step), np.asarray(step))
        self.step, self.time = step, self.time + np.asarray(total, np.float64) - np.asarray(lost, np.float64)
        return np.asarray(self.time)


@eqx.filter_jit
def _elapsed(dt, schedule, start, stop):
    """The sum of the steps' sizes, and what rounding added to it (Kahan)."""
    each = jax.vmap(schedule) if dt.ndim else schedule

    def add(k, carry):
        total, lost = carry
        size = dt * each(k * dt) - lost
        grown = total + size
        return grown, (grown - total) - size

    return jax.lax.fori_loop(start, stop, add, (jnp.zeros_like(dt), jnp.zeros_like(dt)))


def _refuse_unless_soon(steps: int, every: int, runs: int) -> None:
    """No step takes less than a microsecond, no record less than eight bytes for each run; and both add up."""
    refuse_unless_soon(f"A flow of {steps} steps", 1e-6 * steps, most=720 * 3600, instead="Write a larger dt.")
    refuse_unless_affordable(
        f"A flow of {steps} steps with a record every {every}",
        100.0 * runs * (steps // every),
        instead="Write a larger `every`.",
    )


def _schedule(given: Callable) -> Callable:
    """A schedule that takes a time to one number."""
    rule, instead = "A schedule takes a time to one number", "Write lambda t: 1 / (1 + t), for example."
    found = shapes_of(rule, instead, given, jax.ShapeDtypeStruct((), jnp.asarray(0.0).dtype))
    if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.number):
        got = f"an array {found.shape} of {found.dtype}" if hasattr(found, "shape") else said(found)
        raise Refusal(f"{rule}; got {got}. {instead}")
    return by_value(given)
