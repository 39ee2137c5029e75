"""Fields: which way a cloud goes, or the clouds of several players. Descent by transport, by growth, or by both."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, overload

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.doors import Advised, NonNegativeLeaf, door
from haarflow.dynamics.players import by_name, expecting, listed, map_clouds
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Penalty, Risk
from haarflow.measures.clouds import Cloud
from haarflow.values import leaf, said


@door
class Tangent(eqx.Module):
    """A direction for a cloud: a velocity for each atom and, where mass moves too, a growth rate of each weight."""

    velocity: Float[Array, "n p"]
    growth: Float[Array, "n"] | None = None


@overload
def advance(clouds: Cloud, tangents: Tangent, dt: Any) -> Cloud: ...
@overload
def advance(clouds: Mapping[str, Cloud], tangents: Mapping[str, Tangent], dt: Any) -> dict[str, Cloud]: ...
@door
def advance(
    clouds: Cloud | Mapping[str, Cloud], tangents: Tangent | Mapping[str, Tangent], dt: Float[Array, ""]
) -> Any:
    """The clouds after a time dt along their tangents: straight atoms, exponential weights `w exp(dt · growth)`.

    The weights stay positive and of mass one at any step size. Players each go along their own tangent. This is the one
    function by which schemes move clouds: `advance(clouds, field(key, clouds), dt)` is the step of Euler.
    """
    _refuse_unless_matching(clouds, tangents)
    return map_clouds(partial(_advanced, dt), clouds, tangents)


def _advanced(dt, cloud: Cloud, tangent: Tangent) -> Cloud:
    atoms = cloud.atoms + dt.astype(cloud.atoms.dtype) * tangent.velocity
    if tangent.growth is None:
        return Cloud(atoms, cloud.weights)
    return Cloud(atoms, grow(cloud.weights, dt.astype(cloud.atoms.dtype) * tangent.growth))


def _refuse_unless_matching(clouds: Any, tangents: Any) -> None:
    """A sentence, where there is not one tangent of its shape for each cloud."""
    ours, theirs = by_name(clouds), by_name(tangents)
    if set(ours) != set(theirs):
        raise Refusal(
            f"advance takes a tangent for each cloud; got clouds {listed(ours)} and tangents {listed(theirs)}. "
            "Give both the same names."
        )
    for name, cloud in ours.items():
        if theirs[name].velocity.shape != cloud.atoms.shape:
            raise Refusal(
                f"advance takes a tangent of the cloud's shape {cloud.atoms.shape}; got {theirs[name].velocity.shape}. "
                "Write field(key, clouds)."
            )


def grow(weights: Float[Array, "n"], exponents: Float[Array, "n"]) -> Float[Array, "n"]:
    """`w_i exp(e_i)` brought back to mass one, safe from overflow."""
    grown = weights * jnp.exp(exponents - jnp.max(exponents))
    return grown / jnp.sum(grown)


class Field(eqx.Module):
    """A direction at every cloud; `key` draws the data of a stochastic one.

    A field of players takes a mapping {name: Cloud} and returns a mapping {name: Tangent}: each may depend on all.
    """

    instead: ClassVar[str] = "Write for example Descend(functional)."

    @abstractmethod
    def __call__(self, key: PRNGKeyArray, clouds: Any, /) -> Any:
        """The tangent at this cloud, or of each player at the clouds of all."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Field"]:
        """Members for the laws, on clouds in R^4, or on two players "x" and "y" there."""

    def begin(self, clouds: Any, /) -> Any:
        """Where a flow along this field starts, from given clouds: there, unless the field lives elsewhere."""
        return clouds

    def keep(self, before: Any, after: Any, /) -> Any:
        """The clouds after a step of any scheme, brought back to where this field lives."""
        return after

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """Say what to write where something else was given for a field."""
        if isinstance(value, Functional):
            raise Advised(
                f"{owner} is a Field, which says how a cloud moves; got {said(value)}, which is a Functional. "
                "Write Descend(functional)."
            )
        return value


@door
class Descend(Field):
    """Steepest descent of a functional: `theta' = −transport ∇Psi`, `(log w)' = −growth (Psi − mean Psi)`.

    Transport alone is the Wasserstein flow, growth alone Fisher–Rao, both Wasserstein–Fisher–Rao.
    """

    functional: Functional
    transport: NonNegativeLeaf = eqx.field(default=1.0, converter=leaf, kw_only=True)
    growth: NonNegativeLeaf | None = eqx.field(default=None, converter=leaf, kw_only=True)

    @door
    def __call__(self, key: PRNGKeyArray, cloud: Cloud | Mapping[str, Cloud]) -> Tangent:
        if isinstance(cloud, Mapping):
            raise Refusal(
                f"A Descend moves one cloud; got the players {listed(cloud)}. "
                "Write DescentAscent(payoff, ascend=()) for players who all descend."
            )
        potential, velocity = self.functional.sample(key).variation(cloud)
        if self.growth is None:
            return Tangent(self.transport * velocity)
        return Tangent(self.transport * velocity, -self.growth * (potential - cloud.weights @ potential))

    @classmethod
    def examples(cls):
        risk = Risk.examples()[0] + Penalty(0.1)
        return [cls(risk), cls(risk, transport=0.5, growth=2.0), cls(risk, transport=0.0, growth=1.0)]


class Checked(Field):
    """Another field, whose answers are looked at: a flow calls every field through it."""

    field: Field

    def __call__(self, key, clouds):
        name = type(self.field).__name__
        with expecting(f"The field {name}", clouds, "Write a field that returns a Tangent for each cloud it is given."):
            found = self.field(key, clouds)
        if not isinstance(clouds, Mapping):
            return _checked(name, found, clouds)
        if not isinstance(found, Mapping) or set(found) != set(clouds):
            got = f"tangents of {listed(sorted(map(str, found)))}" if isinstance(found, Mapping) else said(found)
            raise Refusal(
                f"A Field of players returns a Tangent for each of them, {listed(clouds)}; got {got} from {name}. "
                "Write return {name: Tangent(velocity), ...}, with zeros for a player that stays."
            )
        return {player: _checked(f"{name} for {player!r}", found[player], clouds[player]) for player in clouds}

    @classmethod
    def examples(cls):
        return [cls(Descend.examples()[1])]


def _checked(whose: str, found: Any, cloud: Cloud) -> Tangent:
    """A tangent of the cloud's own shapes, or a sentence."""
    if not isinstance(found, Tangent) or found.velocity.shape != cloud.atoms.shape:
        got = f"velocities of shape {found.velocity.shape}" if isinstance(found, Tangent) else said(found)
        raise Refusal(
            f"A Field returns a Tangent with a velocity for each atom {cloud.atoms.shape}; got {got} from {whose}. "
            "Write return Tangent(velocity)."
        )
    if found.growth is not None and found.growth.shape != cloud.weights.shape:
        raise Refusal(
            f"A Tangent's growth is a rate for each weight {cloud.weights.shape}; got the shape {found.growth.shape} "
            f"from {whose}. Write one number for each atom."
        )
    return found
