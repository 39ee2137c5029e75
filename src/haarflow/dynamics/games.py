"""Games: payoffs of several players, and the field by which some descend and others ascend."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.annotations import a, kind_of
from haarflow.doors import NonNegativeLeaf, door
from haarflow.dynamics.fields import Field, Tangent
from haarflow.dynamics.players import listed
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.risks import Variation
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import shapes_of
from haarflow.values import leaf, numbers, said

_INSTEAD = "Write a function that returns jnp.sum(...), for example."


class Payoff(eqx.Module):
    """A number for the clouds of several players. Autodiff gives every member its variations."""

    instead: ClassVar[str] = "Write a function of the clouds, or ExpectedPayoff(lambda x, y: ...)."

    @abstractmethod
    def __call__(self, clouds: dict[str, Cloud], /) -> Float[Array, ""]:
        """The value at the clouds {name: Cloud} of all players."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Payoff"]:
        """Members for the laws, on players "x" and "y" in R^4."""

    @property
    def players(self) -> tuple[str, ...]:
        """The players whose points it takes, where it is linear in the law of each."""
        raise self._mixed()

    def against(self, name: str, clouds: dict[str, Cloud], /) -> Callable:
        """The function of one point that the player would be paid, with the others as they are.

        Only payoffs that are linear in the law of each player have it: best responses are then points.
        """
        raise self._mixed()

    def _mixed(self) -> Refusal:
        return Refusal(
            f"Best responses are points where a payoff is linear in the law of each player; {_name(self)} does not say "
            "that it is. Write ExpectedPayoff(lambda x, y: ...), or a Payoff with players and against(name, clouds)."
        )

    def sample(self, key: PRNGKeyArray) -> "Payoff":
        """One draw of a random payoff; a deterministic one is its own draw."""
        return self

    def variation(self, clouds: dict[str, Cloud], /) -> dict[str, Variation]:
        """For each player, the first variation V = d/dweights at its atoms, and −∇V = −(d/datoms) / weights.

        An atom without mass stays by this quotient, 0/0; a member that has a formula for ∇V moves it as all others.
        """
        refuse_unless_players(self, clouds)
        rule = f"A payoff takes players to one real number, and {_name(self)} does not"
        slopes = jax.grad(_number(rule, self.__call__, clouds))(clouds)
        return {name: Variation(slopes[name].weights, _velocity(slopes[name], clouds[name])) for name in clouds}

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """A plain function of the mapping of clouds is a payoff."""
        function = callable(value) and not isinstance(value, type | eqx.Module)
        return FunctionPayoff(value) if function else value


def _number(rule: str, function: Callable, *arguments: Any) -> Callable:
    """The function, whose value is a number in floating point; a sentence, where it is something else."""

    def value(*arguments):
        return numbers("A payoff", function(*arguments), finite=False)

    found = shapes_of(rule, _INSTEAD, value, *arguments)
    if found.shape != ():
        raise Refusal(f"{rule}; got an array of shape {found.shape}. {_INSTEAD}")
    return value


def _velocity(slope: Cloud, cloud: Cloud) -> Float[Array, "n p"]:
    weights = cloud.weights[:, None]
    return -slope.atoms / jnp.where(weights > 0, weights, 1)


def _name(payoff: Payoff) -> str:
    return repr(payoff.value) if isinstance(payoff, FunctionPayoff) else kind_of(payoff)


def refuse_unless_players(owner: Any, clouds: Any, names: Sequence[str] = ()) -> None:
    """A sentence, where something else stands in the place of players, or some of those named are missing."""
    if not isinstance(clouds, Mapping) or not all(isinstance(cloud, Cloud) for cloud in clouds.values()):
        got = "one cloud" if isinstance(clouds, Cloud) else said(clouds)
        raise Refusal(
            f"{a(type(owner).__name__)} is of players, a mapping of clouds by name; got {got}. "
            'Write {"x": cloud, "y": other}.'
        )
    if not set(names) <= set(clouds):
        raise Refusal(
            f"{a(type(owner).__name__)} of {listed(names)} takes these players; got {listed(clouds)}. "
            "Give both the same names."
        )


class FunctionPayoff(Payoff):
    """A function of the mapping of clouds that returns a number."""

    value: Callable = eqx.field(converter=by_value)

    def __call__(self, clouds):
        return self.value(clouds)

    @classmethod
    def examples(cls):
        return [cls(lambda clouds: jnp.tanh(clouds["x"].mean() @ clouds["y"].mean()) + clouds["y"].second_moment())]


@door
class ExpectedPayoff(Payoff):
    """`∬ l(x, y) mu(dx) nu(dy)`: the expected payoff of two mixed strategies, for a function of a point of each player.

    `first` and `second` name the players whose points l takes, in this order; others do not matter to it.
    """

    pair: Callable = eqx.field(converter=by_value)
    first: str = eqx.field(default="x", static=True)
    second: str = eqx.field(default="y", static=True)

    def __check_init__(self):
        if self.first == self.second:
            raise Refusal(
                f"An ExpectedPayoff is of two players; got {self.first!r} twice. "
                "Write Pairwise for what the particles of one cloud do to each other."
            )

    def __call__(self, clouds):
        pair, one, other = self._parts(clouds)
        table = jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(one.atoms, other.atoms)
        return one.weights @ table @ other.weights

    @property
    def players(self):
        return (self.first, self.second)

    def variation(self, clouds):
        self._parts(clouds)
        found = {name: _still(cloud) for name, cloud in clouds.items()}
        return found | {name: _varied(self.against(name, clouds), clouds[name]) for name in self.players}

    def against(self, name, clouds):
        pair, one, other = self._parts(clouds)
        if name == self.first:
            return lambda x: jax.vmap(lambda y: pair(x, y))(other.atoms) @ other.weights
        return lambda y: jax.vmap(lambda x: pair(x, y))(one.atoms) @ one.weights

    def _parts(self, clouds: Any) -> tuple[Callable, Cloud, Cloud]:
        """The pair function, and the clouds of the two players whose points it takes to a number."""
        refuse_unless_players(self, clouds, (self.first, self.second))
        one, other = clouds[self.first], clouds[self.second]
        rule = f"The pair function of a payoff takes points ({one.p},) and ({other.p},) to one real number"
        points = [jax.ShapeDtypeStruct((cloud.p,), cloud.atoms.dtype) for cloud in (one, other)]
        return _number(rule, self.pair, *points), one, other

    @classmethod
    def examples(cls):
        matrix = jnp.array(np.diag([1.0, 0.5, -0.25, 2.0]) + np.diag([0.3, 0.0, -0.7], 1))

        def curved(y, x):
            return jnp.cos(x[0] - y[1]) + y @ matrix @ x + x[2] ** 2

        return [cls(lambda x, y: x @ matrix @ y), cls(curved, "y", "x")]


def _varied(potential: Callable, cloud: Cloud) -> Variation:
    """A potential and its descent at every atom, with mass or without."""
    values, slopes = jax.vmap(jax.value_and_grad(potential))(cloud.atoms)
    return Variation(values, -slopes)


def _still(cloud: Cloud) -> Variation:
    return Variation(jnp.zeros_like(cloud.weights), jnp.zeros_like(cloud.atoms))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _leaves(given: Any) -> Any:
    """A number, or numbers by player, as JAX's own."""
    return {name: leaf(one) for name, one in given.items()} if isinstance(given, Mapping) else leaf(given)


def _rate(given: Any, name: str, usual: Any) -> Any:
    return given.get(name, usual) if isinstance(given, Mapping) else given


@door
class DescentAscent(Field):
    """Players who descend a payoff, and those in `ascend`, who climb it: `θ' = ∓transport ∇V`,
    `(log w)' = ∓growth (V − mean V)`, V the first variation in the player's own law.

    `payoff` is one for all (a zero-sum game, if some ascend), or {player: payoff} of their own; a plain function of the
    mapping of clouds will do. `transport` and `growth` are numbers, or {player: number}: transport alone is gradient
    descent–ascent, growth alone the replicator, both Wasserstein–Fisher–Rao.

    With a `temperature`, every player also pays `temperature KL(w | reference)` for the weights of its mixed strategy:
    `(log w)' = −growth (±V + temperature log(w/reference) − mean)`. Over fixed atoms the game then has one equilibrium,
    where each is Gibbs in the field of the others. `reference` has weights by player; without, all atoms weigh alike.
    (Atoms that move meet their entropy as noise: `Langevin`.)
    """

    payoff: Payoff | Mapping[str, Payoff]
    ascend: str | Sequence[str] = eqx.field(converter=_names, kw_only=True, static=True)
    transport: NonNegativeLeaf | Mapping[str, NonNegativeLeaf] = eqx.field(default=1.0, converter=_leaves, kw_only=True)
    growth: NonNegativeLeaf | Mapping[str, NonNegativeLeaf] | None = eqx.field(
        default=None, converter=_leaves, kw_only=True
    )
    temperature: NonNegativeLeaf | None = eqx.field(default=None, converter=leaf, kw_only=True)
    reference: Mapping[str, Float[Array, "_"]] | None = eqx.field(default=None, converter=_leaves, kw_only=True)

    def __check_init__(self):
        if self.temperature is not None and self.growth is None:
            raise Refusal(
                "A DescentAscent's temperature is that of growing weights; got no growth. Write growth=1.0 beside it, "
                "or Langevin(scheme, temperature) for atoms that move."
            )
        for name, row in (self.reference or {}).items():
            if self.temperature is None:
                raise Refusal(
                    "A DescentAscent's reference is that of its entropy; got no temperature. Write temperature=0.1."
                )
            if not isinstance(row, Tracer) and not ((row > 0).all() and abs(float(row.sum()) - 1) < 1e-6):
                raise Refusal(
                    f"A DescentAscent's reference[{name!r}] has weights > 0 of sum one; got a least weight of "
                    f"{float(row.min(initial=1)):.3g} and the sum {float(row.sum()):.6g}. "
                    "Write weights / weights.sum()."
                )

    def __call__(self, key, clouds):
        refuse_unless_players(self, clouds, self._named)
        return {name: self._tangent(name, clouds[name], *varied) for name, varied in self._variations(key, clouds)}

    @property
    def _named(self) -> tuple[str, ...]:
        """Every player that this field speaks of."""
        parts = (self.payoff, self.transport, self.growth, self.reference)
        mappings = [part for part in parts if isinstance(part, Mapping)]
        return (*self.ascend, *(name for mapping in mappings for name in mapping))

    def payoff_of(self, name: str) -> Payoff:
        """The payoff that a player descends or climbs."""
        return self.payoff[name] if isinstance(self.payoff, Mapping) else self.payoff

    def log_density(self, name: str, cloud: Cloud) -> Float[Array, "n"]:
        """`log(w/reference)` at a player's atoms; a weight that underflowed to zero stands at the least number."""
        logs = jnp.log(jnp.maximum(cloud.weights, jnp.finfo(cloud.weights.dtype).tiny))
        row = (self.reference or {}).get(name)
        if row is None:
            return logs + np.log(cloud.n)
        if row.shape != cloud.weights.shape:
            raise Refusal(
                f"A DescentAscent's reference[{name!r}] has a weight for each atom; got {len(row)} for {cloud.n} "
                "atoms. Write the weights of the law it is compared with."
            )
        return logs - jnp.log(row.astype(logs.dtype))

    def _variations(self, key, clouds):
        if not isinstance(self.payoff, Mapping):
            return list(self.payoff.sample(key).variation(clouds).items())
        missing = set(clouds) - set(self.payoff)
        if missing:
            raise Refusal(
                f"Payoffs by name are one for every player; got none for {listed(sorted(missing))}. "
                "Write one payoff for all, or one for each."
            )
        return [(name, self.payoff[name].sample(key).variation(clouds)[name]) for name in clouds]

    def _tangent(self, name: str, cloud: Cloud, potential, velocity) -> Tangent:
        sign = -1 if name in self.ascend else 1
        transport, growth = _rate(self.transport, name, 1.0), _rate(self.growth, name, None)
        moving = sign * transport * velocity
        if growth is None:
            return Tangent(moving)
        cost = sign * potential
        if self.temperature is not None:
            cost = cost + self.temperature.astype(cost.dtype) * self.log_density(name, cloud)
        return Tangent(moving, -growth * (cost - cloud.weights @ cost))

    @classmethod
    def examples(cls):
        pair, other = ExpectedPayoff.examples()
        return [
            cls(pair, ascend="y"),
            cls({"x": other, "y": pair}, ascend=("x",), transport={"x": 0.5}, growth=2.0),
            cls(FunctionPayoff.examples()[0], ascend=(), growth={"y": 1.5}),
            cls(pair, ascend="y", growth=0.5, temperature=0.3),
        ]
