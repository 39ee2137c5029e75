"""Schemes: one step along a field. A variation wraps another scheme.

Every scheme moves one cloud, or the clouds of several players, through `advance`, which moves a tree of clouds.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.doors import Advised, Least, Most, NonNegativeLeaf, PositiveLeaf, door
from haarflow.dynamics.fields import Field, Tangent, advance, grow
from haarflow.dynamics.players import listed, map_clouds, own_keys, settled_keys
from haarflow.errors import Refusal
from haarflow.fast.noise import gaussian
from haarflow.identity import by_value
from haarflow.measures.actions import projector_matrix
from haarflow.measures.clouds import Cloud
from haarflow.values import leaf, said


class Scheme(eqx.Module):
    """One step of size dt, of one cloud or of players {name: Cloud}: `clouds` is either.

    `state` is what the next step needs besides the clouds. Arrays of it that have a row for each particle, as `start`
    makes them, follow the particles: to their devices, and to the copies that birth and death make.
    """

    instead: ClassVar[str] = "Write for example Euler()."

    order: ClassVar[int | None] = None
    """The power of dt by which its error at a given time falls; None where it draws, or states nothing."""

    @abstractmethod
    def step(
        self, key: PRNGKeyArray, field: Field, clouds: Any, state: Any, dt: Float[Array, ""], /
    ) -> tuple[Any, Any]:
        """The clouds and the state after one step; `streams(key)` are its data and its noise."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Scheme"]:
        """Members for the laws, on clouds in R^4, or on two players "x" and "y" there."""

    def start(self, clouds: Any, /) -> Any:
        """The state before the first step."""
        return ()

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """Say what to write where something else was given for a scheme."""
        if isinstance(value, type) and issubclass(value, Scheme):
            raise Advised(f"{owner} is a Scheme; got the class {value.__name__} itself. Write {value.__name__}(...).")
        if hasattr(value, "init") and hasattr(value, "update"):
            raise Advised(f"{owner} is a Scheme; got an optax transformation. Write Optax(transformation).")
        return value


@door
def streams(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """The data key and the noise key of a step: the same for every scheme, so that schemes share both."""
    data, noise = settled_keys(jax.random.split(key))
    return data, noise


class Euler(Scheme):
    """The step `theta + dt · velocity`, and nothing more; with a field that draws its data, this is SGD."""

    order = 1

    def step(self, key, field, clouds, state, dt):
        return advance(clouds, field(streams(key)[0], clouds), dt), state

    @classmethod
    def examples(cls):
        return [cls()]


class Heun(Scheme):
    """The second-order step: the mean of the tangents at both ends, on the same data."""

    order = 2

    def step(self, key, field, clouds, state, dt):
        data, _ = streams(key)
        here = field(data, clouds)
        there = field(data, advance(clouds, here, dt))
        return advance(clouds, jax.tree.map(lambda a, b: (a + b) / 2, here, there), dt), state

    @classmethod
    def examples(cls):
        return [cls()]


class Extragradient(Scheme):
    """The step along the tangent that a trial step finds at its end, on the same data.

    In a game the players spiral away from the equilibrium under Euler, and inward under this scheme (Korpelevich 1976);
    with growth it is mirror-prox: `w ∝ w exp(dt · growth at the trial)` (Nemirovski 2004).
    """

    order = 1

    def step(self, key, field, clouds, state, dt):
        data, _ = streams(key)
        trial = advance(clouds, field(data, clouds), dt)
        return advance(clouds, field(data, trial), dt), state

    @classmethod
    def examples(cls):
        return [cls()]


@door
class Langevin(Scheme):
    """Another scheme plus `sqrt(2 · temperature · dt) xi`, xi drawn in R^p and then projected if asked.

    The noise of a player is decided by the key, its name, the particle and the coordinate, not by who plays beside it.
    """

    inner: Scheme
    temperature: NonNegativeLeaf = eqx.field(converter=leaf)
    projector: Float[Array, "p p"] | None = eqx.field(default=None, converter=leaf, kw_only=True)

    def __check_init__(self):
        if self.projector is not None and not isinstance(self.projector, Tracer):
            projector_matrix(self.projector, len(self.projector))

    def start(self, clouds):
        return self.inner.start(clouds)

    def step(self, key, field, clouds, state, dt):
        moved, state = self.inner.step(key, field, clouds, state, dt)
        return map_clouds(partial(self._shaken, dt), moved, own_keys(streams(key)[1], moved)), state

    def _shaken(self, dt, cloud: Cloud, key) -> Cloud:
        dtype = cloud.atoms.dtype
        noise = gaussian(key, (cloud.n, cloud.p), dtype)
        if self.projector is not None:
            if len(self.projector) != cloud.p:
                raise Refusal(
                    f"A Langevin scheme's projector acts on the particles; got one of R^{len(self.projector)} and a "
                    f"cloud in R^{cloud.p}. Write a projector ({cloud.p}, {cloud.p})."
                )
            noise = noise @ self.projector.astype(dtype)
        size = jnp.sqrt(2 * self.temperature * dt).astype(dtype)
        return Cloud(cloud.atoms + size * noise, cloud.weights)

    @classmethod
    def examples(cls):
        return [cls(Euler(), 0.01), cls(Heun(), 0.02, projector=np.diag([1.0, 1.0, 0.0, 0.0]))]


def _transformation(given: Any) -> Any:
    """The transformation, its functions compared by value: one that is made again compiles nothing again."""
    return jax.tree.map(by_value, given) if isinstance(given, tuple) else given


class Optax(Scheme):
    """Any optax transformation on the atoms; dt multiplies its update, so `Optax(optax.adam(1.0))` slides by dt.

    Of players it sees the atoms of all, {name: atoms}: a transformation that looks across, such as clipping by the
    global norm, couples them; `Each` gives every player its own.
    """

    transformation: Any = eqx.field(converter=_transformation)

    def __check_init__(self):
        pair = (getattr(self.transformation, name, None) for name in ("init", "update"))
        if isinstance(self.transformation, type) or not all(callable(part) for part in pair):
            raise Refusal(
                f"An Optax scheme wraps an optax transformation; got {said(self.transformation)}. "
                "Write Optax(optax.adam(1.0))."
            )

    def start(self, clouds):
        return self.transformation.init(_atoms(clouds))

    def step(self, key, field, clouds, state, dt):
        tangents = field(streams(key)[0], clouds)
        uphill = map_clouds(lambda _, tangent: -tangent.velocity, clouds, tangents)
        updates, state = self.transformation.update(uphill, state, _atoms(clouds))
        directions = map_clouds(lambda _, tangent, update: Tangent(update, tangent.growth), clouds, tangents, updates)
        return advance(clouds, directions, dt), state

    @classmethod
    def examples(cls):
        import optax

        return [cls(optax.sgd(1.0)), cls(optax.adam(1.0)), cls(optax.sgd(1.0, momentum=0.9))]


def _atoms(clouds: Any) -> Any:
    return map_clouds(lambda cloud: cloud.atoms, clouds)


@door
class Adaptive(Scheme):
    """The flow itself, up to a tolerance: diffrax integrates over each dt with error control, on one draw of data."""

    rtol: PositiveLeaf = eqx.field(default=1e-8, converter=leaf, kw_only=True)
    atol: PositiveLeaf = eqx.field(default=1e-10, converter=leaf, kw_only=True)
    most: Annotated[int, Least(1), Most(2**31 - 1)] = eqx.field(default=4096, kw_only=True)

    def step(self, key, field, clouds, state, dt):
        import diffrax

        data, _ = streams(key)

        def slope(_, flowing, __):
            tangents = field(data, map_clouds(_flown, clouds, flowing))
            return map_clouds(_slope, clouds, tangents)

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(slope),  # pyright: ignore[reportArgumentType]
            diffrax.Tsit5(),
            t0=0.0,
            t1=dt,
            dt0=None,
            # Turned, as short atoms lie in the loop of a flow.
            y0=map_clouds(lambda cloud: (cloud.atoms.T, jnp.zeros_like(cloud.weights)), clouds),
            stepsize_controller=diffrax.PIDController(rtol=self.rtol, atol=self.atol),  # pyright: ignore
            max_steps=self.most,
            throw=False,
        )
        # A solver that gave up reports no number: the loop then stops at its last good state.
        found = solution.result == diffrax.RESULTS.successful
        ends = map_clouds(_flown, clouds, jax.tree.map(lambda leaf: leaf[-1], solution.ys))
        return map_clouds(lambda end: Cloud(jnp.where(found, end.atoms, jnp.nan), end.weights), ends), state

    @classmethod
    def examples(cls):
        return [cls()]


def _flown(cloud: Cloud, flowing: tuple) -> Cloud:
    """The cloud whose atoms lie turned, and whose weights have grown by these exponents, in the middle of a step."""
    turned, exponents = flowing
    return Cloud(turned.T, grow(cloud.weights, exponents))


def _slope(cloud: Cloud, tangent: Tangent) -> tuple:
    still = jnp.zeros_like(cloud.weights)
    return tangent.velocity.T, still if tangent.growth is None else tangent.growth


class View(Field):
    """A field of players as some of them see it: the others stay where they are."""

    field: Field
    everyone: dict[str, Cloud]

    def __call__(self, key, clouds):
        found = self.field(key, {**self.everyone, **clouds})
        return {name: found[name] for name in clouds}

    @classmethod
    def examples(cls):
        return []


@door
class Each(Scheme):
    """A scheme for each player: `Each({"x": Euler(), "y": Langevin(Heun(), 0.1)})`.

    Every player steps from the clouds of all before the step, on the same data; while a scheme tries points on its way,
    the others stay. A scheme sees the one player {name: cloud}, so that its noise is that player's.
    """

    schemes: Mapping[str, Scheme]

    def start(self, clouds):
        self.refuse_unless_named(clouds)
        return {name: scheme.start({name: clouds[name]}) for name, scheme in self.schemes.items()}

    def step(self, key, field, clouds, state, dt):
        self.refuse_unless_named(clouds)
        view, moved, memory = View(field, clouds), {}, {}
        for name, scheme in self.schemes.items():
            after, memory[name] = scheme.step(key, view, {name: clouds[name]}, state[name], dt)
            moved[name] = after[name]
        return moved, memory

    def refuse_unless_named(self, clouds: Any) -> None:
        """A sentence, where the players are not those who have schemes."""
        if not isinstance(clouds, Mapping) or set(clouds) != set(self.schemes):
            got = f"the players {listed(clouds)}" if isinstance(clouds, Mapping) else "one cloud"
            raise Refusal(
                f"Each has a scheme for every player; got schemes for {listed(self.schemes)} and {got}. "
                "Give both the same names."
            )

    @classmethod
    def examples(cls):
        import optax

        return [cls({"x": Langevin(Heun(), 0.02), "y": Optax(optax.sgd(1.0, momentum=0.9))})]
