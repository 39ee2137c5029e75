"""Functionals of a cloud: a number for each, the first variation that moves the particles, sums, and penalties."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.reps import Rep
from haarflow.annotations import kind_of
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.forms import QuadraticForm, linear_form
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.fits import invariance_gap, refuse_unless_cloud, shapes_of
from haarflow.values import said


class Variation(NamedTuple):
    """The first variation Psi at each atom, and minus its gradient there."""

    potential: Float[Array, "n"]
    velocity: Float[Array, "n p"]


class Functional(eqx.Module):
    """A number for each cloud. Autodiff gives every member its variation; a member may know a faster way.

    A member may also answer `quadratic_form`, for `optimum`, and `action`, `folded` and `by_orbits`, for `fold` and
    `reduce_by_orbits`; where it does not, these say so.
    """

    instead: ClassVar[str] = "Write Risk(unit, data), for example."

    @abstractmethod
    def __call__(self, cloud: Cloud) -> Float[Array, ""]:
        """The value at a cloud."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Functional"]:
        """Members for the laws, on clouds in R^4."""

    def sample(self, key: PRNGKeyArray) -> "Functional":
        """One draw of a random functional; a deterministic one is its own draw."""
        return self

    def variation(self, cloud: Cloud) -> Variation:
        """Psi = dR/dweights and −∇Psi = −(dR/datoms) / weights, at each atom.

        An atom without mass has a potential, but no velocity by this quotient, 0/0: here it stays. A member that has a
        formula for −∇Psi, such as Risk, Penalty and their sum, moves it as all others.
        """
        refuse_unless_cloud(type(self).__name__, cloud)
        rule = "A Functional takes a cloud to one real number"
        found = shapes_of(rule, "Write jnp.sum(...) of what it returns, for example.", self.__call__, cloud)
        if getattr(found, "shape", None) != ():
            raise Refusal(f"{rule}; got {said(found)}. Write jnp.sum(...) of what it returns, for example.")
        slope = jax.grad(self.__call__)(cloud)
        weights = cloud.weights[:, None]
        moves = -slope.atoms / jnp.where(weights > 0, weights, 1)
        return Variation(slope.weights, moves)

    def quadratic_form(self, atoms: Float[Array, "n p"]) -> QuadraticForm:
        """This functional as a function of the weights on given atoms, where it is a convex quadratic one."""
        raise Refusal(
            "An optimum is that of functionals which are quadratic in the weights and say so by `quadratic_form`; got "
            f"{kind_of(self)}, which does not. Write Risk(unit, sample, 'half-square'), plus penalties."
        )

    def action(self, on_x: Rep, on_y: Rep) -> Rep | None:
        """How the group moves the particles; None, where the functional does not know of inputs and outputs."""
        return None

    def folded(self, on_x: Rep, on_y: Rep) -> "Functional":
        """The same functional with one sample for each orbit of samples."""
        raise self._not_by_orbits("folded")

    def by_orbits(self, on_x: Rep, on_y: Rep, action: Rep) -> "Functional":
        """This functional of the law nu^G, as a functional of nu, with one sample for each orbit of samples."""
        raise self._not_by_orbits("by_orbits")

    def _not_by_orbits(self, method: str) -> Refusal:
        return Refusal(
            f"Orbits are folded in functionals that say how, such as a Risk or a Penalty; got {kind_of(self)} "
            f"without a method `{method}`. Flow the whole cloud with it, or write that method."
        )

    @property
    def dim(self) -> int | None:
        """The size p of the atoms it takes; None where it takes atoms of every size."""
        return None

    @property
    def parts(self) -> tuple["Functional", ...]:
        """The functionals that this one is the sum of, none of them a sum: itself, unless it is one."""
        return (self,)

    def __add__(self, other: object) -> "Sum":
        return Sum((self, other))

    def __radd__(self, other: object) -> "Sum":
        return Sum((other, self))


def _flat(terms: Iterable) -> tuple[Functional, ...]:
    """The parts of all terms; a sentence, where something else than a functional is added."""
    terms = tuple(terms)
    strangers = [term for term in terms if not isinstance(term, Functional)]
    if strangers:
        raise Refusal(
            f"A functional is added to functionals only; got {type(strangers[0]).__name__}. "
            "Write risk + Penalty(tau), for example."
        )
    return tuple(part for term in terms for part in term.parts)


class Sum(Functional):
    """The sum of functionals, kept flat: a sum of sums has the parts of all of them, and asks each of them."""

    terms: tuple[Functional, ...] = eqx.field(converter=_flat)

    def __check_init__(self):
        sizes = {part.dim: type(part).__name__ for part in self.parts if part.dim is not None}
        if len(sizes) > 1:
            found = " and ".join(f"a {name} in R^{size}" for size, name in sizes.items())
            raise Refusal(
                f"A sum of functionals is one of clouds in one R^p; got {found}. "
                "Write units with the same number of parameters."
            )

    @property
    def dim(self):
        return next((part.dim for part in self.parts if part.dim is not None), None)

    @property
    def parts(self):
        return self.terms

    def __call__(self, cloud):
        return sum((part(cloud) for part in self.parts), jnp.zeros((), cloud.atoms.dtype))

    def sample(self, key):
        return Sum(tuple(part.sample(key) for part in self.parts))

    def variation(self, cloud):
        variations = [part.variation(cloud) for part in self.parts]
        return jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *variations)

    def quadratic_form(self, atoms):
        first, *rest = (part.quadratic_form(atoms) for part in self.parts)
        return sum(rest, first)

    def action(self, on_x, on_y):
        found = [(part, rep) for part in self.parts if (rep := part.action(on_x, on_y)) is not None]
        strangers = [part for part, rep in found if not _alike(found[0][1], rep)]
        if strangers:
            names = " and ".join(type(part).__name__ for part in (found[0][0], *strangers))
            raise Refusal(
                f"The particles of a sum are moved alike by a group, whichever part is asked; got {names} that move "
                "them differently. Write risks of one unit."
            )
        return found[0][1] if found else None

    def folded(self, on_x, on_y):
        return Sum(tuple(part.folded(on_x, on_y) for part in self.parts))

    def by_orbits(self, on_x, on_y, action):
        return Sum(tuple(part.by_orbits(on_x, on_y, action) for part in self.parts))

    @classmethod
    def examples(cls):
        return [Penalty(0.3) + Penalty(0.2, lambda theta: jnp.sin(theta[0] - theta[3]))]


def _alike(one: Rep, other: Rep) -> bool:
    return one.dim == other.dim and one.action().agrees(other.action())


def half_norm(theta: Float[Array, "p"]) -> Float[Array, ""]:
    """½|θ|², the default regulariser."""
    return jnp.sum(theta**2) / 2


@door
class Penalty(Functional):
    """`tau ∫ r dmu`, with r = ½|θ|² unless another function of one parameter is given."""

    tau: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    r: Callable = eqx.field(default=half_norm, converter=by_value)

    def __call__(self, cloud):
        potential = self.variation(cloud).potential
        return cloud.weights @ potential

    def variation(self, cloud):
        refuse_unless_cloud("A Penalty", cloud)
        self._refuse_unless_number(cloud)
        values, slopes = jax.vmap(jax.value_and_grad(self.r))(cloud.atoms)
        return Variation(self.tau * values, -self.tau * slopes)

    def _refuse_unless_number(self, cloud: Cloud):
        rule = f"The r of a Penalty takes a parameter ({cloud.p},) to one number in floating point"
        parameter = jax.ShapeDtypeStruct((cloud.p,), cloud.atoms.dtype)
        found = shapes_of(rule, "Write it for parameters of that size.", self.r, parameter)
        if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
            got = f"{found.shape} of {found.dtype}" if hasattr(found, "shape") else kind_of(found)
            raise Refusal(f"{rule}; got {got}. Write jnp.sum(...) of what it returns, for example.")

    def quadratic_form(self, atoms):
        return linear_form(np.asarray(self.variation(uniform(atoms)).potential, float))

    def folded(self, on_x, on_y):
        return self

    def by_orbits(self, on_x, on_y, action):
        gap = invariance_gap(self.r, action, np.random.default_rng(0).normal(size=action.dim))
        if gap > 1e-4:
            raise Refusal(
                f"A penalty that weighs a whole orbit alike satisfies r(M_g theta) = r(theta); got a gap of {gap:.2g}. "
                "Use the default half norm, or flow the whole cloud."
            )
        return self

    @classmethod
    def examples(cls):
        return [cls(0.7), cls(0.2, lambda theta: jnp.sum(jnp.cos(theta)))]
