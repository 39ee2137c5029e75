"""Fields: which way a cloud goes. Descent of a functional by transport, by growth, or by both."""

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional, Penalty, Risk
from haarflow.measures.clouds import Cloud, projector_matrix


class Tangent(eqx.Module):
    """A direction for a cloud: a velocity for each atom and, where mass moves too, a growth rate of each weight."""

    atoms: Float[Array, "n p"]
    growth: Float[Array, "n"] | None = None


class Field(eqx.Module):
    """A direction at every cloud; `key` draws the data of a stochastic one."""

    @abstractmethod
    def __call__(self, key: PRNGKeyArray, cloud: Cloud) -> Tangent:
        """The tangent at this cloud."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Field"]:
        """Members for the laws, on clouds in R^4."""


def _rate(value):
    return None if value is None else jnp.asarray(value)


class Descend(Field):
    """Steepest descent of a functional: `theta' = −transport ∇Psi`, `(log w)' = −growth (Psi − mean Psi)`.

    Transport alone is the Wasserstein flow, growth alone Fisher–Rao, both Wasserstein–Fisher–Rao.
    """

    functional: Functional
    transport: Float[Array, ""] = eqx.field(default=1.0, converter=jnp.asarray, kw_only=True)
    growth: Float[Array, ""] | None = eqx.field(default=None, converter=_rate, kw_only=True)

    def __check_init__(self):
        for name, rate in (("transport", self.transport), ("growth", self.growth)):
            refuse_unless_nonnegative(f"A Descend's {name}", rate)

    def __call__(self, key, cloud):
        potential, velocity = self.functional.sample(key).variation(cloud)
        if self.growth is None:
            return Tangent(self.transport * velocity)
        return Tangent(self.transport * velocity, -self.growth * (potential - cloud.weights @ potential))

    @classmethod
    def examples(cls):
        risk = Risk.examples()[0] + Penalty(0.1)
        return [cls(risk), cls(risk, transport=0.5, growth=2.0), cls(risk, transport=0.0, growth=1.0)]


class Restricted(Field):
    """A field whose velocities stay in a subspace: EA, where the subspace is the fixed space of a group."""

    field: Field
    projector: Float[Array, "p p"]

    def __call__(self, key, cloud):
        tangent = self.field(key, cloud)
        return Tangent(tangent.atoms @ self.projector.astype(tangent.atoms.dtype), tangent.growth)

    @classmethod
    def examples(cls):
        ones = jnp.ones((4, 4)) / 4
        return [cls(field, ones) for field in Descend.examples()]


def restrict(field: Field, rep: Rep | np.ndarray | Array) -> Restricted:
    """The field on the fixed space of a representation, or on the range of a projector."""
    p = rep.dim if isinstance(rep, Rep) else np.shape(rep)[0]
    return Restricted(field, jnp.asarray(projector_matrix(rep, p)))


def refuse_unless_nonnegative(owner: str, value):
    """A sentence, where a concrete number is negative or not finite."""
    if value is None or isinstance(value, Tracer):
        return
    if not (np.isfinite(value).all() and (np.asarray(value) >= 0).all()):
        raise Refusal(f"{owner} is a finite number >= 0; got {np.asarray(value)}. Write 0 to switch it off.")
