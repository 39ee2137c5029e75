"""The one loop: many steps of a scheme along a field, with probes, progress, a safe stop and resumption.

Step k draws everything it needs from `fold_in(key, k)`, so the result does not depend on how the loop is cut.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from haarflow.dynamics.batches import apart, stacked, together
from haarflow.dynamics.checkpoints import Checkpoint
from haarflow.dynamics.fields import Field
from haarflow.dynamics.noise import unrolled
from haarflow.dynamics.progress import Tell, watching
from haarflow.dynamics.schemes import Scheme
from haarflow.dynamics.shards import agreed, divided, everywhere, mesh_of, turned, whole
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud

# Seconds, about, between two looks at the numbers: to check them, to save, to tell the progress. Every look costs a
# large cloud fresh memory, a tenth of a second for 10⁵ particles in R^66.
_LOOK_UP = 2.0
_SHORT = 64  # coordinates: with fewer, particles lie last in the loop, see `_turning`


class Diverged(UserWarning):
    """A flow met a number that is not finite, and stopped at the last good state."""


@dataclass(frozen=True)
class Path:
    """Where a flow went: its last cloud, and its probes at the recorded steps and times.

    A flow over r keys has clouds (r, n, p) and probes (r, k, ...); over a single key there is no r.
    `stopped` is None, or the sentence that says why the flow ended early.
    """

    cloud: Cloud
    steps: Int[np.ndarray, "k"]
    times: Float[np.ndarray, "*r k"]
    probes: dict[str, np.ndarray]
    stopped: str | None = None


class Lane(eqx.Module):
    """A field and the scheme that steps along it; the lanes of one flow share their data and noise."""

    field: Field
    scheme: Scheme


class State(eqx.Module):
    """What the next step needs: the time, and each lane's cloud and scheme state."""

    time: Float[Array, "*r"]
    lanes: dict[str, tuple[Cloud, Any]]


def constant(time: Float[Array, ""]) -> Float[Array, ""]:
    """The schedule that never changes the step."""
    return jnp.ones_like(time)


def flow(
    field: Field | Sequence[Field] | Mapping[str, Field | Sequence[Field]],
    scheme: Scheme | Sequence[Scheme] | Mapping[str, Scheme | Sequence[Scheme]],
    cloud: Cloud | Mapping[str, Cloud],
    *,
    key: Key[Array, "*r"],
    dt: float | Array | np.ndarray,
    steps: int,
    probes: Mapping[str, Callable] | None = None,
    every: int | None = None,
    schedule: Callable = constant,
    progress: bool | Tell | None = None,
    checkpoint: str | FilePath | None = None,
    devices: int | None = None,
) -> Any:
    """From a cloud, `steps` steps of size `dt · schedule(k · dt)`: a Path.

    With a mapping of fields, a Path for each: all lanes run in one compiled program, on the same data and noise.
    With an array of r keys, r runs in one program, each from `cloud` or from its member of a stack (r, n, p); `dt` may
    then be r numbers, and field and scheme lists of r that differ in their numbers only.
    `probes` are functions of a cloud, measured at the start, every `every` steps and at the end. `progress` is a
    function of the fraction done, or True or False; by default a bar where a terminal is watching. With
    `checkpoint`, a file from which a killed flow resumes, to the bit. With `devices`, the particles are divided
    among so many devices, of this process or of all the processes of `jax.distributed`.
    """
    lanes, mesh = _lanes(field, scheme, key), mesh_of(devices)
    dt = jnp.broadcast_to(_check(dt, steps, every), key.shape)
    state = _start(lanes, cloud, key, dt)
    records = {*range(0, steps, every or steps or 1), steps}
    log = Log(dict(probes or {}), batched=key.ndim == 1)
    at, stopped = 0, None
    saved = Checkpoint(checkpoint, (lanes, state, key, dt, sorted(log.probes), sorted(records)))
    if saved.found:
        at, state, log.rows = saved.load(state)
    state = _divided(state, mesh, axis=key.ndim)
    lanes, key, dt = everywhere((lanes, key, dt), mesh)
    piece = 16
    if not log.rows:
        log.record(at, state)
    with watching(progress) as tell:
        while at < steps:
            end = min(at + piece, min(stop for stop in records if stop > at))
            begun = time.monotonic()
            moved = _advance(lanes, state, key, dt, schedule, np.asarray(at), np.asarray(end), mesh)
            if not _finite(moved):
                good, state = _last_good(lanes, state, key, dt, schedule, np.asarray(at), np.asarray(end), mesh)
                at, stopped = int(good), _sentence(int(good))
                if at not in records:
                    log.record(at, state)
                break
            at, state = end, moved
            if end in records:
                log.record(at, state)
            short = agreed(time.monotonic() - begun < _LOOK_UP, mesh)
            if agreed(saved.due(last=at == steps), mesh):
                saved.save(at, state, log.rows)
            tell(at / max(steps, 1))
            piece = piece * 2 if short else max(1, piece // 2)
    if stopped:
        warnings.warn(stopped, Diverged, stacklevel=2)
    paths = log.paths(state, stopped)
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
        return State(lifted.time, lanes)

    def lift(laid):
        lanes = jax.tree.map(lambda leaf, turn: leaf.swapaxes(-1, -2) if turn else leaf, laid.lanes, short)
        return State(laid.time, lanes)

    return lay, lift


@eqx.filter_jit
def _last_good(lanes, state, key, dt, schedule, start, stop, mesh):
    """The last step whose numbers are all finite, and the state after it: the same steps, looked at one by one."""
    lay, lift = _turning(state, mesh)

    def going(carry):
        k, _, good = carry
        return good & (k < stop)

    def once(carry):
        k, before, _ = carry
        after = lay(_step(lanes, lift(before), key, dt, schedule, k))
        good = _all_finite(after)
        kept = jax.tree.map(lambda new, old: jnp.where(good, new, old), after, before)
        return k + good, kept, good

    k, kept, _ = jax.lax.while_loop(going, once, (start, lay(state), jnp.asarray(True)))
    return k, lift(kept)


def _step(lanes: dict[str, Lane], state: State, key, dt, schedule, k) -> State:
    """Step k of every lane, of every run."""

    own, shared = apart(lanes)

    def one(own, state, key, dt):
        here = jax.random.fold_in(unrolled(key), k)
        size = dt * schedule(k * dt)
        moved = {}
        for name, lane in together(own, shared).items():
            cloud, memory = state.lanes[name]
            moved[name] = lane.scheme.step(here, lane.field, cloud, memory, size)
        return State(state.time + size, moved)

    return (jax.vmap(one) if key.ndim else one)(own, state, key, dt)


def _all_finite(state: State):
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.lanes)]).all()


_finite = eqx.filter_jit(_all_finite)


@eqx.filter_jit
def _measure(probe, cloud, batched):
    return (jax.vmap(probe) if batched else probe)(cloud)


class Log:
    """What a flow recorded on its way: rows of (step, time, {lane: {probe: value}})."""

    def __init__(self, probes: dict[str, Callable], *, batched: bool):
        self.probes, self.batched, self.rows = probes, batched, []

    def record(self, step: int, state: State):
        """One more row, measured at this state."""
        values = {
            lane: {name: whole(_measure(probe, cloud, self.batched)) for name, probe in self.probes.items()}
            for lane, (cloud, _) in state.lanes.items()
        }
        self.rows.append((step, np.asarray(state.time), values))

    def paths(self, state: State, stopped: str | None) -> dict[str, Path]:
        """A Path for each lane."""
        steps, times, values = zip(*self.rows, strict=True)
        axis = int(self.batched)
        return {
            lane: Path(
                cloud,
                np.array(steps),
                np.stack(times, axis),
                {name: np.stack([row[lane][name] for row in values], axis) for name in self.probes},
                stopped,
            )
            for lane, (cloud, _) in state.lanes.items()
        }


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


def _start(lanes, cloud, key, dt) -> State:
    clouds: Mapping[str, Any] = cloud if isinstance(cloud, Mapping) else dict.fromkeys(lanes, cloud)
    if set(clouds) != set(lanes):
        raise Refusal(
            f"A flow of several fields starts from one cloud, or a cloud for each; got fields {sorted(lanes)} and "
            f"clouds {sorted(clouds)}. Give both the same names."
        )
    batched: dict[str, Any] = {name: _spread(clouds[name], key) for name in lanes}
    own, shared = apart({name: lane.scheme for name, lane in lanes.items()})

    def memories(own, clouds):
        return {name: scheme.start(clouds[name]) for name, scheme in together(own, shared).items()}

    begun = (jax.vmap(memories) if key.ndim else memories)(own, batched)
    states = {name: (batched[name], begun[name]) for name in lanes}
    return State(jnp.zeros(key.shape, dt.dtype), states)


def _divided(state: State, mesh, *, axis: int) -> State:
    lanes = {name: divided(lane, mesh, n=lane[0].n, axis=axis) for name, lane in state.lanes.items()}
    return State(everywhere(state.time, mesh), lanes)


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


def _check(dt, steps: int, every: int | None) -> Float[Array, "*r"]:
    dt = jnp.asarray(dt, float)
    if not (np.isfinite(dt).all() and (np.asarray(dt) > 0).all()):
        raise Refusal(f"A step dt is a finite number > 0; got {np.asarray(dt)}. Write for example dt=0.01.")
    if steps < 0 or (every is not None and every < 1):
        raise Refusal(
            f"A flow makes steps >= 0 steps and measures every >= 1 of them; got steps={steps}, every={every}. "
            "Write for example steps=1000, every=100."
        )
    return dt


def _sentence(step: int) -> str:
    return (
        f"The flow met a number that is not finite in step {step + 1}; it kept the state after step {step}. "
        "Write a smaller dt, a smaller growth, or a bounded activation."
    )
