"""The lanes of one flow: a field, a scheme and the clouds they move, for each; how they start, and one step of all."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from haarflow.dynamics.ensembles import apart, stacked, together
from haarflow.dynamics.fields import Checked, Field
from haarflow.dynamics.players import by_name, expecting, listed, map_clouds, particle_axes
from haarflow.dynamics.schemes import Scheme
from haarflow.dynamics.trajectories import GOING, State
from haarflow.errors import Refusal
from haarflow.fast.noise import unrolled
from haarflow.learning.data import at_step
from haarflow.measures.clouds import Cloud
from haarflow.values import said


class Lane(eqx.Module):
    """A field and the scheme that steps along it; the lanes of one flow share their data and noise."""

    field: Field
    scheme: Scheme


def lanes_of(field: Any, scheme: Any, key: Key[Array, "*r"]) -> dict[str, Lane]:
    """The lanes by name; a single field is a lane without one."""
    if isinstance(scheme, Mapping) and not isinstance(field, Mapping):
        raise Refusal(
            f"A flow along one field takes one scheme; got schemes for {listed(scheme)}. "
            "Write Each({player: scheme}) for players, or name the fields too."
        )
    fields = field if isinstance(field, Mapping) else {"": field}
    schemes = scheme if isinstance(scheme, Mapping) else dict.fromkeys(fields, scheme)
    if not fields or set(fields) != set(schemes) or not all(isinstance(name, str) for name in fields):
        raise Refusal(
            f"A flow of several fields, each with a name, needs one scheme or a scheme for each; got fields "
            f"{listed(fields)} and schemes {listed(schemes)}. Give both the same names."
        )
    return {name: Lane(_one("Fields", fields[name], key), _one("Schemes", schemes[name], key)) for name in fields}


def _one(owner: str, given: Any, key) -> Any:
    """A field or a scheme; of a list with one for each key, the one that stands for all."""
    if not isinstance(given, Sequence):
        return given
    if key.shape != (len(given),):
        raise Refusal(
            f"{owner} are one, or one for each key; got {len(given)} and {_counted(key.shape, 'key')}. "
            f"Write key=jax.random.split(key, {len(given)})."
        )
    return stacked(owner, given)


def begun(lanes: dict[str, Lane], cloud: Any, key: Key[Array, "*r"]) -> State:
    """The state before the first step: each lane's clouds, brought to where its field lives, and its scheme's state."""
    given = _clouds(lanes, cloud)
    refuse_traced(given)
    given = {name: map_clouds(partial(_spread, key), clouds) for name, clouds in given.items()}
    own, shared = apart(lanes)

    def begin(own, clouds):
        found = {}
        for name, lane in together(own, shared).items():
            with expecting(f"The scheme {type(lane.scheme).__name__}", clouds[name], _TREES):
                there = lane.field.begin(clouds[name])
                found[name] = (there, lane.scheme.start(there))
        return jax.tree.map(jnp.asarray, found)

    found = (jax.vmap(begin) if key.ndim else begin)(own, given)
    entered = [found[name][0] for name, lane in lanes.items() if type(lane.field).begin is not Field.begin]
    if entered and not finite(entered):
        raise Refusal(
            "A flow starts from finite numbers; got atoms that have no place where their field lives. "
            "Write other atoms, none at the centre of a Sphere."
        )
    return State(found, {name: jnp.full(key.shape, GOING, jnp.int32) for name in lanes})


@eqx.filter_jit
def finite(tree: Any) -> Array:
    """Whether all numbers of a tree are finite."""
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _clouds(lanes: dict[str, Lane], cloud: Any) -> dict[str, Any]:
    """The clouds of each lane: its own, if the names are those of the lanes, or the same one or players for all."""
    if not isinstance(cloud, Mapping):
        return dict.fromkeys(lanes, cloud)
    if set(cloud) == set(lanes):
        return {name: _players(cloud[name]) for name in lanes}
    if set(cloud) & set(lanes):
        raise Refusal(
            f"A flow of several fields starts from one cloud, or a cloud for each; got fields {listed(lanes)} and "
            f"clouds {listed(cloud)}. Give both the same names."
        )
    return dict.fromkeys(lanes, _players(cloud))


def _players(clouds: Any) -> Any:
    """One cloud, or players: clouds by name, none of them a mapping again."""
    if isinstance(clouds, Cloud):
        return clouds
    if not clouds or not all(isinstance(name, str) and name and isinstance(clouds[name], Cloud) for name in clouds):
        raise Refusal(
            f"Players are clouds by their names; got {said(clouds)} with {listed(clouds)}. "
            'Write {"x": cloud, "y": other}.'
        )
    return dict(clouds)


def _spread(key, cloud: Cloud) -> Cloud:
    """A cloud for each key: a stack of them, or the same one."""
    lead = cloud.atoms.shape[:-2]
    if lead == key.shape:
        return cloud
    if lead == ():
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*key.shape, *leaf.shape)), cloud)
    raise Refusal(
        f"A flow runs one cloud, or a stack with one cloud for each key; got {_counted(lead, 'cloud')} and "
        f"{_counted(key.shape, 'key')}. Write key=jax.random.split(key, {lead[0]})."
    )


def step_sizes(dt: Any, key: Key[Array, "*r"]) -> Float[np.ndarray, "*r"]:
    """The step of each run, in double precision."""
    sizes = np.asarray(dt, np.float64)
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise Refusal(f"A step dt is a finite number > 0; got {sizes}. Write for example dt=0.01.")
    if sizes.shape not in ((), key.shape):
        raise Refusal(
            f"A step dt is one number, or one for each key; got {said(dt)} and {_counted(key.shape, 'key')}. "
            "Write one dt, or as many as there are keys."
        )
    return np.broadcast_to(sizes, key.shape)


def _counted(shape: tuple[int, ...], noun: str) -> str:
    """How many there are, in words: "one key", "3 keys", "2 × 3 keys"."""
    return f"{' × '.join(map(str, shape))} {noun}s" if shape else f"one {noun}"


def refuse_traced(*given: Any) -> None:
    """A sentence, where a flow is called inside of a compiled program."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(given)):
        raise Refusal(
            "flow compiles a loop of its own, which looks at its numbers; got traced ones. "
            "Call it outside of jit, vmap and grad, with many keys for many runs."
        )


def along(lanes: dict[str, Lane], state: State) -> dict[str, Any]:
    """For every array of every lane's clouds and scheme state, an `Along`: whose particles lie along which axis."""
    own, shared = apart(lanes)

    def axes(name: str) -> Any:
        def start(own, clouds):
            return clouds, together(own, shared[name]).scheme.start(clouds)

        runs = jax.vmap(start) if state.last[name].ndim else start
        return particle_axes(partial(runs, own[name]), state.lanes[name][0])

    return {name: axes(name) for name in lanes}


def stepped(lanes: dict[str, Lane], state: State, key, dt, schedule, k) -> State:
    """The state after step k of every lane, of every run."""
    own, shared = apart(lanes)

    def one(own, before, key, dt):
        here = jax.random.fold_in(unrolled(key), k)
        size = dt * schedule(k * dt)
        moved = {}
        for name, lane in at_step(together(own, shared), unrolled(key), k).items():
            clouds, memory = before[name]
            with expecting(f"The scheme {type(lane.scheme).__name__}", clouds, _TREES):
                found = lane.scheme.step(here, Checked(lane.field), clouds, memory, size)
            after, memory = _pair(lane, clouds, found)
            moved[name] = _alike(lane, before[name], (lane.field.keep(clouds, after), memory))
        return moved

    return State((jax.vmap(one) if key.ndim else one)(own, state.lanes, key, dt), state.last)


_TREES = "Write it by advance and map_clouds, which take both."


def _pair(lane: Lane, before: Any, found: Any) -> tuple[Any, Any]:
    """What a scheme's step returned, if it is clouds and a state."""
    pair = isinstance(found, tuple) and len(found) == 2
    after = by_name(found[0]) if pair else {}
    if set(after) != set(by_name(before)) or not all(isinstance(cloud, Cloud) for cloud in after.values()):
        players = f" of the players {listed(before)}" if isinstance(before, Mapping) else ""
        what = f"{said(found[0])} and a state" if pair else said(found)
        raise Refusal(
            f"A Scheme's step returns a cloud and a state{players}; got {what} from {type(lane.scheme).__name__}. "
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
