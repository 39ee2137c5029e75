"""Domains: where particles live. `restrict` keeps those of a field there, whatever the scheme does to them.

A domain says which points it has, which way a velocity may point, and how a step ends inside; the particles of a fixed
space (EA), of a sphere or of a box are restricted in the same way, for one cloud, for every player or for some of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.acting import in_jax
from haarflow.algebra.projection import ByMatrix, Projection
from haarflow.algebra.reps import Rep
from haarflow.doors import door
from haarflow.dynamics.fields import Checked, Descend, Field, Tangent
from haarflow.dynamics.players import listed, map_clouds
from haarflow.errors import Refusal
from haarflow.measures.actions import projection_on
from haarflow.measures.clouds import Cloud


class Domain(eqx.Module):
    """A closed set of points of R^p. A member needs `project` and `along`; arrays are (n, p), a point in each row."""

    instead: ClassVar[str] = "Write for example Sphere()."

    @abstractmethod
    def project(self, atoms: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """The points of the domain nearest to these: where a flow starts."""

    @abstractmethod
    def along(self, atoms: Float[Array, "n p"], velocity: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """The part of a velocity that does not leave the domain, at points of the domain."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Domain"]:
        """Members for the laws, in R^4."""

    def inside(self, atoms: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """Where the field is asked, for points that a scheme tries on its way: in the domain too."""
        return self.project(atoms)

    def keep(self, before: Float[Array, "n p"], after: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """The points after a step, brought back into the domain."""
        return self.project(after)

    def apart(self, before: Float[Array, "n p"], after: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """The displacement from points to others: their difference, unless the domain closes on itself."""
        return after - before

    def cover(self, p: int) -> tuple[Float[np.ndarray, "m p"], Float[np.ndarray, "m p"]]:
        """The lower and the upper corners of m boxes of R^p whose projections cover the domain.

        On these boxes `project` brings no two points further apart. A search for the best response over the domain
        needs it to end with a proof; a domain that is not bounded has none.
        """
        raise Refusal(
            f"A {type(self).__name__} says nothing of how boxes cover it, so that no search over it ends with a proof. "
            "Write a Sphere, Ball, Box or Torus, or a domain of your own with cover(p)."
        )


class Space(Domain):
    """All of R^p: nothing is changed."""

    def project(self, atoms):
        return atoms

    def along(self, atoms, velocity):
        return velocity

    @classmethod
    def examples(cls):
        return [cls()]


class Subspace(Domain):
    """The range of an orthogonal projector; through the start, each atom keeps its part across the subspace."""

    projector: Projection
    through: str = eqx.field(default="origin", static=True)

    def project(self, atoms):
        return self._within(atoms) if self.through == "origin" else atoms

    def along(self, atoms, velocity):
        return self._within(velocity)

    def inside(self, atoms):
        return atoms  # velocities along a subspace never leave it

    def keep(self, before, after):
        # By the difference: to project the atoms themselves at every step would add up the projector's own rounding.
        return before + self._within(after - before)

    def _within(self, vectors):
        if vectors.shape[-1] != self.projector.dim:
            raise Refusal(
                f"A restricted field lives in R^{self.projector.dim}, where its projector acts; got a cloud in "
                f"R^{vectors.shape[-1]}. Write the action on the unit's parameters, `unit.action(on_x, on_y)`."
            )
        return jnp.asarray(self.projector.apply(vectors))

    @classmethod
    def examples(cls):
        askew = ByMatrix(jnp.array([[0.36, 0.48, 0, 0], [0.48, 0.64, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]]))
        return [cls(askew), cls(askew, "start")]


class Restricted(Field):
    """A field whose particles stay in a domain: EA, where that is the fixed space of a group.

    Velocities are projected, and so is what any scheme makes of them: noise, the updates of Adam, fresh particles.
    `domain` is one for every cloud, or {player: domain}; a player that is not named moves freely.
    """

    field: Field
    domain: Domain | dict[str, Domain]

    @door
    def __call__(self, key: PRNGKeyArray, cloud: Cloud | Mapping[str, Cloud]) -> Any:
        inside = self._each(lambda domain, one: Cloud(domain.inside(one.atoms), one.weights), cloud)
        tangents = Checked(self.field)(key, inside)
        return self._each(
            lambda domain, one, tangent: Tangent(domain.along(one.atoms, tangent.velocity), tangent.growth),
            inside,
            tangents,
        )

    def begin(self, clouds):
        return self._each(lambda domain, one: Cloud(domain.project(one.atoms), one.weights), clouds)

    def keep(self, before, after):
        return self._each(lambda domain, old, new: Cloud(domain.keep(old.atoms, new.atoms), new.weights), before, after)

    def _each(self, function: Callable, clouds: Any, *others: Any) -> Any:
        """The function of each cloud's domain, of the cloud, and of what else there is of it."""
        if not isinstance(self.domain, Mapping):
            return map_clouds(lambda *parts: function(self.domain, *parts), clouds, *others)
        if not isinstance(clouds, Mapping) or not set(self.domain) <= set(clouds):
            got = f"the players {listed(clouds)}" if isinstance(clouds, Mapping) else "one cloud"
            raise Refusal(
                f"A field is restricted for players that there are; got domains for {listed(self.domain)} and {got}. "
                "Give both the same names."
            )
        domains = {name: self.domain.get(name, Space()) for name in clouds}
        return map_clouds(lambda one, domain, *parts: function(domain, one, *parts), clouds, domains, *others)

    @classmethod
    def examples(cls):
        from haarflow.dynamics.games import DescentAscent
        from haarflow.dynamics.regions import Sphere

        ones = Subspace(ByMatrix(jnp.ones((4, 4)) / 4))
        return [
            *(cls(field, ones) for field in Descend.examples()),
            cls(Descend.examples()[1], Subspace(ones.projector, "start")),
            cls(DescentAscent.examples()[0], {"y": Sphere(2.0)}),
        ]


Where = Domain | Rep | np.ndarray | Array


@door
def restrict(
    field: Field, domain: Where | Mapping[str, Where], *, through: Literal["origin", "start"] = "origin"
) -> Restricted:
    """The field on a domain: the fixed space of a representation, the range of a projector (p, p), a Sphere, a Box.

    A flow along it starts from the projected cloud and stays there to rounding, whatever the scheme: velocities, noise
    and the updates of an optimiser are projected. With `through="start"` each atom moves in the translate of the
    subspace through its own start: what lies across is frozen, not removed.
    Of players, every one is restricted, or those that are named: `restrict(field, {"x": Sphere(), "y": rep})`.
    """
    if isinstance(field, Restricted):
        raise Refusal(
            "restrict takes a field that moves freely; got one that is restricted already. "
            "Write the projector on the smaller subspace, once."
        )
    if isinstance(domain, Mapping) and not domain:
        raise Refusal("restrict names the players that it restricts; got none. Write {player: domain}.")
    if isinstance(domain, Mapping):
        return Restricted(field, {name: _domain(one, through) for name, one in domain.items()})
    return Restricted(field, _domain(domain, through))


def _domain(given: Any, through: str) -> Domain:
    """The domain that was meant; a representation stands for its fixed space."""
    if isinstance(given, Domain):
        if through == "start":
            raise Refusal(
                f"restrict goes through the start of each atom along a subspace; got through='start' and a "
                f"{type(given).__name__}. Write a representation, or a projector."
            )
        return given
    p = given.dim if isinstance(given, Rep) else np.shape(given)[0] if np.ndim(given) else 0
    return Subspace(in_jax(projection_on(given, p)), through)
