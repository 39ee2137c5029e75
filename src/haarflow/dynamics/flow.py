"""The one loop: many steps of a scheme along a field, with probes, progress, a safe stop and resumption.

Step k draws everything it needs from `fold_in(key, k)`, so the result does not depend on how the loop is cut.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from haarflow.doors import Count, Natural, door
from haarflow.dynamics.batches import apart, stacked, together
from haarflow.dynamics.checkpoints import Checkpoint
from haarflow.dynamics.fields import Checked, Field
from haarflow.dynamics.noise import unrolled
from haarflow.dynamics.paths import GOING, Log, State
from haarflow.dynamics.progress import Tell, watching
from haarflow.dynamics.schemes import Scheme
from haarflow.dynamics.shards import agreed, divided, everywhere, mesh_of, turned, whole
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.data import at_step
from haarflow.learning.loaders import complaints
from haarflow.measures.clouds import Cloud
from haarflow.values import said

# Seconds, about, between two looks at the numbers: to check them, to save, to tell the progress. Every look costs a
# large cloud fresh memory, a tenth of a second for 10⁵ particles in R^66.
_LOOK_UP = 2.0
_SHORT = 64  # coordinates: with fewer, particles lie last in the loop, see `_turning`


class Diverged(UserWarning):
    """A flow met a number that is not finite, and stopped at the last good state."""


class Lane(eqx.Module):
    """A field and the scheme that steps along it; the lanes of one flow share their data and noise."""

    field: Field
    scheme: Scheme


def constant(time: Float[Array, ""]) -> Float[Array, ""]:
    """The schedule that never changes the step."""
    return jnp.ones_like(time)


@door
def flow(
    field: Field | Sequence[Field] | Mapping[str, Field | Sequence[Field]],
    scheme: Scheme | Sequence[Scheme] | Mapping[str, Scheme | Sequence[Scheme]],
    cloud: Cloud | Mapping[str, Cloud],
    *,
    key: Key[Array, "*r"],
    dt: float | Array | np.ndarray,
    steps: Natural,
    probes: Mapping[str, Callable | Mapping[str, Callable]] | None = None,
    every: Count | None = None,
    schedule: Callable = constant,
    progress: bool | Tell | None = None,
    checkpoint: str | FilePath | None = None,
    devices: Count | None = None,
) -> Any:
    """From a cloud, `steps` steps of size `dt · schedule(k · dt)`: a Path.

    With a mapping of fields, a Path for each: all lanes run in one compiled program, on the same data and noise.
    With an array of r keys, r runs in one program, each from `cloud` or from its member of a stack (r, n, p); `dt` may
    then be r numbers, and field and scheme lists of r that differ in their numbers only.
    `probes` are functions of a cloud, measured at the start, every `every` steps and at the end; for some fields only,
    `{field: {name: function}}`. A probe that JAX cannot compile is called as plain Python. `progress` is a
    function of the fraction done, or True or False; by default a bar where a terminal is watching. With
    `checkpoint`, a file from which a killed flow resumes, to the bit. With `devices`, the particles are divided
    among so many devices, of this process or of all the processes of `jax.distributed`.
    A run that meets a number that is not finite keeps its last good state, with a warning; the other runs go on.
    """
    lanes, mesh = _lanes(field, scheme, key), mesh_of(devices)
    dt, schedule = _step_sizes(dt, key), by_value(schedule)
    watched = jax.tree.map(by_value, dict(probes or {}))
    state = _start(lanes, cloud, key)
    records = {*range(0, steps, every or steps or 1), steps}
    log = Log(watched, list(lanes), batched=key.ndim == 1)
    at = 0
    saved = Checkpoint(checkpoint, (lanes, state, key, dt, schedule, watched, sorted(records)))
    if saved.found:
        at, state, log.rows = saved.load(state)
    clock = Clock(dt, schedule)
    state = _divided(state, mesh, axis=key.ndim)
    lanes, key, dt = everywhere((lanes, key, jnp.asarray(dt, float)), mesh)
    advance = _advance if all((whole(last) == GOING).all() for last in state.last.values()) else _guarded
    piece = 16
    if not log.rows:
        log.record(at, clock.at(0), state)
    with watching(progress) as tell, complaints() as refuse_if_told:
        while at < steps and any(state.going(lane) for lane in lanes):
            end = min(at + piece, min(stop for stop in records if stop > at))
            begun = time.monotonic()
            moved = advance(lanes, state, key, dt, schedule, np.asarray(at), np.asarray(end), mesh)
            if advance is _advance and not _finite(moved):
                refuse_if_told()
                advance = _guarded
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
            short = agreed(time.monotonic() - begun < _LOOK_UP, mesh)
            if agreed(saved.due(last=at == steps), mesh):
                saved.save(at, state, log.rows)
            tell(at / max(steps, 1))
            piece = piece * 2 if short else max(1, piece // 2)
    paths = log.paths(state, at)
    for path in paths.values():
        if path.stopped:
            warnings.warn(path.stopped, Diverged, stacklevel=3)
    return {name: paths[name] for name in field} if isinstance(field, Mapping) else paths[""]


@eqx.filter_jit
def _advance(lanes, state, key, dt, schedule, start, stop, mesh):
    """From step `start` to step `stop`, without looking up. The state is kept, as the last good one to go back to."""
    lay, lift = _turning(state, mesh)

    def once(k, laid):
        return lay(_step(lanes, lift(laid), key, dt, schedule, k))

    return lift(jax.lax.fori_loop(start, stop, once, lay(state)))


def _turning(state: State, mesh) -> tuple[Callable[[State], State], Callable[[State], State]]:
    """How a state is laid down between two steps of a loop, and lifted again.

    Arrays like atoms (n, p) lie as (p, n), if p is small: the compiler makes vectors along the last axis, and inside a
    step it then turns nothing.
    """

    def like_atoms(lane):
        n, p = lane[0].atoms.shape[-2:]
        return jax.tree.map(lambda leaf: p < _SHORT and leaf.shape[-2:] == (n, p), lane)

    short = {name: like_atoms(lane) for name, lane in state.lanes.items()}

    def lay(lifted):
        lanes = jax.tree.map(lambda leaf, turn: turned(leaf, mesh) if turn else leaf, lifted.lanes, short)
        return State(lanes, lifted.last)

    def lift(laid):
        lanes = jax.tree.map(lambda leaf, turn: leaf.swapaxes(-1, -2) if turn else leaf, laid.lanes, short)
        return State(lanes, laid.last)

    return lay, lift


@eqx.filter_jit
def _guarded(lanes, state, key, dt, schedule, start, stop, mesh):
    """As `_advance`, looking at every step: a run that meets a number that is not finite stays as it was before."""
    lay, lift = _turning(state, mesh)

    def once(k, laid):
        return _kept(k, laid, lay(_step(lanes, lift(laid), key, dt, schedule, k)))

    return lift(jax.lax.fori_loop(start, stop, once, lay(state)))


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


def _step(lanes: dict[str, Lane], state: State, key, dt, schedule, k) -> State:
    """Step k of every lane, of every run."""

    own, shared = apart(lanes)

    def one(own, before, key, dt):
        here = jax.random.fold_in(unrolled(key), k)
        size = dt * schedule(k * dt)
        moved = {}
        for name, lane in at_step(together(own, shared), unrolled(key), k).items():
            cloud, memory = before[name]
            after, memory = _pair(lane, lane.scheme.step(here, Checked(lane.field), cloud, memory, size))
            moved[name] = _alike(lane, before[name], (lane.field.keep(cloud, after), memory))
        return moved

    return State((jax.vmap(one) if key.ndim else one)(own, state.lanes, key, dt), state.last)


def _pair(lane: Lane, found: Any) -> tuple[Cloud, Any]:
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Cloud)):
        raise Refusal(
            f"A Scheme's step returns a cloud and a state; got {said(found)} from {type(lane.scheme).__name__}. "
            "Write return cloud, state."
        )
    return found


def _alike(lane: Lane, before: Any, after: Any) -> Any:
    """What a scheme returned, in the precision of what it was given: the cloud decides it, not the data."""
    if jax.tree.structure(before) != jax.tree.structure(after) or any(
        old.shape != jnp.shape(new) for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    ):
        raise Refusal(
            f"A step returns a cloud and a state of the shapes it was given; got others from "
            f"{type(lane.scheme).__name__} along {type(lane.field).__name__}. Check the shapes of the field's tangent."
        )
    return jax.tree.map(lambda old, new: jnp.asarray(new, old.dtype), before, after)


@eqx.filter_jit
def _finite(state: State):
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.lanes)]).all()


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


def _lanes(field, scheme, key) -> dict[str, Lane]:
    fields = field if isinstance(field, Mapping) else {"": field}
    schemes = scheme if isinstance(scheme, Mapping) else dict.fromkeys(fields, scheme)
    if set(fields) != set(schemes):
        raise Refusal(
            f"A flow of several fields needs one scheme, or a scheme for each; got fields {sorted(fields)} and "
            f"schemes {sorted(schemes)}. Give both the same names."
        )
    return {name: Lane(_one("Fields", fields[name], key), _one("Schemes", schemes[name], key)) for name in fields}


def _one(owner: str, given: Any, key) -> Any:
    """A field or a scheme; of a list with one for each key, the one that stands for all."""
    if not isinstance(given, Sequence):
        return given
    if key.shape != (len(given),):
        raise Refusal(
            f"{owner} are one, or one for each key; got {len(given)} and {key.shape or 'one'} keys. "
            f"Write key=jax.random.split(key, {len(given)})."
        )
    return stacked(owner, given)


def _start(lanes, cloud, key) -> State:
    clouds: Mapping[str, Any] = cloud if isinstance(cloud, Mapping) else dict.fromkeys(lanes, cloud)
    if set(clouds) != set(lanes):
        raise Refusal(
            f"A flow of several fields starts from one cloud, or a cloud for each; got fields {sorted(lanes)} and "
            f"clouds {sorted(clouds)}. Give both the same names."
        )
    batched: dict[str, Any] = {name: _spread(clouds[name], key) for name in lanes}
    own, shared = apart(lanes)

    def begin(own, clouds):
        begun = {}
        for name, lane in together(own, shared).items():
            there = lane.field.begin(clouds[name])
            begun[name] = (there, lane.scheme.start(there))
        return jax.tree.map(jnp.asarray, begun)

    begun = (jax.vmap(begin) if key.ndim else begin)(own, batched)
    return State(begun, {name: jnp.full(key.shape, GOING, jnp.int32) for name in lanes})


def _divided(state: State, mesh, *, axis: int) -> State:
    lanes = {name: divided(lane, mesh, n=lane[0].n, axis=axis) for name, lane in state.lanes.items()}
    return State(lanes, everywhere(state.last, mesh))


def _spread(cloud: Any, key) -> Cloud:
    lead = cloud.atoms.shape[:-2]
    if lead == key.shape:
        return cloud
    if lead == ():
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*key.shape, *leaf.shape)), cloud)
    raise Refusal(
        f"A flow runs one cloud, or a stack with one cloud for each key; got {lead or 'one'} clouds and "
        f"{key.shape or 'one'} keys. Write key=jax.random.split(key, {lead[0]})."
    )


def _step_sizes(dt: Any, key) -> Float[np.ndarray, "*r"]:
    """The step of each run, in double precision."""
    sizes = np.asarray(dt, np.float64)
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise Refusal(f"A step dt is a finite number > 0; got {sizes}. Write for example dt=0.01.")
    if sizes.shape not in ((), key.shape):
        raise Refusal(
            f"A step dt is one number, or one for each key; got {said(dt)} and {key.shape or 'one'} keys. "
            "Write one dt, or as many as there are keys."
        )
    return np.broadcast_to(sizes, key.shape)
