"""Fields: which way a cloud goes. Descent of a functional by transport, by growth, or by both."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.acting import in_jax
from haarflow.algebra.projection import ByMatrix, Projection
from haarflow.algebra.reps import Rep
from haarflow.doors import Advised, NonNegativeLeaf, door
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Penalty, Risk
from haarflow.measures.actions import projection_on
from haarflow.measures.clouds import Cloud
from haarflow.values import leaf, said


@door
class Tangent(eqx.Module):
    """A direction for a cloud: a velocity for each atom and, where mass moves too, a growth rate of each weight."""

    atoms: Float[Array, "n p"]
    growth: Float[Array, "n"] | None = None


class Field(eqx.Module):
    """A direction at every cloud; `key` draws the data of a stochastic one."""

    instead: ClassVar[str] = "Write for example Descend(functional)."

    @abstractmethod
    def __call__(self, key: PRNGKeyArray, cloud: Cloud) -> Tangent:
        """The tangent at this cloud."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Field"]:
        """Members for the laws, on clouds in R^4."""

    def begin(self, cloud: Cloud) -> Cloud:
        """Where a flow along this field starts, from a given cloud (n, p): there, unless the field lives elsewhere."""
        return cloud

    def keep(self, before: Cloud, after: Cloud) -> Cloud:
        """The cloud after a step of any scheme, brought back to where this field lives."""
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
    def __call__(self, key: PRNGKeyArray, cloud: Cloud) -> Tangent:
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

    def __call__(self, key, cloud):
        found = self.field(key, cloud)
        if not isinstance(found, Tangent) or found.atoms.shape != cloud.atoms.shape:
            got = f"velocities of shape {found.atoms.shape}" if isinstance(found, Tangent) else said(found)
            raise Refusal(
                f"A Field returns a Tangent with a velocity for each atom {cloud.atoms.shape}; got {got} from "
                f"{type(self.field).__name__}. Write return Tangent(velocity)."
            )
        if found.growth is not None and found.growth.shape != cloud.weights.shape:
            raise Refusal(
                f"A Tangent's growth is a rate for each weight {cloud.weights.shape}; got the shape "
                f"{found.growth.shape} from {type(self.field).__name__}. Write one number for each atom."
            )
        return found

    @classmethod
    def examples(cls):
        return [cls(Descend.examples()[1])]


class Restricted(Field):
    """A field whose particles stay in a subspace: EA, where the subspace is the fixed space of a group.

    Velocities are projected, and so is what any scheme makes of them: noise, the updates of Adam, fresh particles.
    Through the origin, the start is projected too; through the start, each atom keeps its part across the subspace.
    """

    field: Field
    projector: Projection
    through: str = eqx.field(default="origin", static=True)

    @door
    def __call__(self, key: PRNGKeyArray, cloud: Cloud) -> Tangent:
        tangent = self.field(key, cloud)
        return Tangent(self._along(tangent.atoms), tangent.growth)

    def begin(self, cloud):
        return Cloud(self._along(cloud.atoms), cloud.weights) if self.through == "origin" else cloud

    def keep(self, before, after):
        # By the difference: to project the atoms themselves at every step would add up the projector's own rounding.
        return Cloud(before.atoms + self._along(after.atoms - before.atoms), after.weights)

    def _along(self, vectors):
        if vectors.shape[-1] != self.projector.dim:
            raise Refusal(
                f"A restricted field lives in R^{self.projector.dim}, where its projector acts; got a cloud in "
                f"R^{vectors.shape[-1]}. Write the action on the unit's parameters, `unit.action(on_x, on_y)`."
            )
        return jnp.asarray(self.projector.apply(vectors))

    @classmethod
    def examples(cls):
        ones = ByMatrix(jnp.ones((4, 4)) / 4)
        return [*(cls(field, ones) for field in Descend.examples()), cls(Descend.examples()[1], ones, "start")]


@door
def restrict(
    field: Field, rep: Rep | np.ndarray | Array, *, through: Literal["origin", "start"] = "origin"
) -> Restricted:
    """The field on the fixed space of a representation, or on the range of an orthogonal projector (p, p).

    A flow along it starts from the projected cloud and stays there to rounding, whatever the scheme: velocities, noise
    and the updates of an optimiser are projected. With `through="start"` each atom moves in the translate of the
    subspace through its own start: what lies across is frozen, not removed.
    """
    if isinstance(field, Restricted):
        raise Refusal(
            "restrict takes a field that moves freely; got one that is restricted already. "
            "Write the projector on the smaller subspace, once."
        )
    p = rep.dim if isinstance(rep, Rep) else np.shape(rep)[0] if np.ndim(rep) else 0
    return Restricted(field, in_jax(projection_on(rep, p)), through)
