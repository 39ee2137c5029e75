"""Functionals of a cloud: the risk, its penalties, and the first variation that moves the particles."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.learning.data import Data, Sample, whole_sample
from haarflow.learning.losses import LOSSES, loss_named
from haarflow.measures.clouds import Cloud
from haarflow.models import blocks
from haarflow.models.fits import refuse_unless_cloud, refuse_unless_particles, shapes_of
from haarflow.models.units import Dense, Unit, network
from haarflow.settling import settled
from haarflow.values import said

ONE_DRAW = "Write risk.sample(key)(cloud) for one draw."


class Variation(NamedTuple):
    """The first variation Psi at each atom, and minus its gradient there."""

    potential: Float[Array, "n"]
    velocity: Float[Array, "n p"]


class Functional(eqx.Module):
    """A number for each cloud. Autodiff gives every member its variation; a member may know a faster way."""

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
    """The sum of functionals, kept flat: a sum of sums has the parts of all of them."""

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

    @classmethod
    def examples(cls):
        return [Risk.examples()[0] + Penalty(0.3)]


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
            got = f"{found.shape} of {found.dtype}" if hasattr(found, "shape") else f"a {type(found).__name__}"
            raise Refusal(f"{rule}; got {got}. Write jnp.sum(...) of what it returns, for example.")

    @classmethod
    def examples(cls):
        return [cls(0.7), cls(0.2, lambda theta: jnp.sum(jnp.cos(theta)))]


class Fit(Functional):
    """`mean_b l(f_mu(x_b), y_b)` on one batch: the literal minibatch risk; with `masses`, the weighted mean.

    The cloud decides the precision: inputs and labels of another one are cast to its own.
    """

    unit: Unit
    xs: Float[Array, "b d"]
    ys: Float[Array, "b c"]
    loss: str
    masses: Float[Array, "b"] | None = None

    @property
    def dim(self):
        return self.unit.dim

    def __call__(self, cloud):
        return self._score(network(self.unit, cloud, self.xs))

    def _score(self, outputs):
        losses = jax.vmap(LOSSES[self.loss])(outputs, self.ys.astype(outputs.dtype))
        return jnp.mean(losses) if self.masses is None else self.masses.astype(outputs.dtype) @ losses

    def variation(self, cloud):
        refuse_unless_particles(self.unit, cloud)
        answer, kind = jax.grad(self._score), cloud.atoms.dtype
        potential, slope = blocks.feedback(
            self.unit, cloud.weights, cloud.atoms, self.xs.astype(kind), lambda outputs: settled(answer(outputs))
        )
        return Variation(potential.astype(kind), -slope.astype(kind))

    @classmethod
    def examples(cls):
        plain = Risk.examples()[0].sample(jax.random.key(3))
        return [plain, cls(plain.unit, plain.xs, plain.ys, "square", jnp.array([0.5, 0.2, 0.3]))]


@door
class Risk(Functional):
    """`R(mu) = E l(f_mu(X), Y)`: exact over a whole Sample, by draws over everything else.

    The labels become those of the loss: -1 and 1 for the margin losses, also given as 0 and 1 or as two class names;
    a probability for each class for the cross-entropy, also given as indices or names; real numbers for the others.
    """

    unit: Unit
    data: Data
    loss: str

    def __init__(self, unit: Unit, data: Data, loss: str = "half-square"):
        loss_named(loss)
        (_, d), _ = data.shapes()
        if d != unit.inputs:
            raise Refusal(
                f"A Risk shows its unit the inputs of its data; got a {type(unit).__name__} of inputs in "
                f"R^{unit.inputs} and data with inputs in R^{d}. Write a unit with inputs={d}."
            )
        self.unit, self.loss = unit, loss
        self.data = data.labelled(loss, unit.outputs)

    @property
    def dim(self):
        return self.unit.dim

    def __call__(self, cloud):
        sample = whole_sample("A Risk has an exact value", self.data, ONE_DRAW)
        return Fit(self.unit, sample.xs, sample.ys, self.loss)(cloud)

    def sample(self, key):
        xs, ys = settled(self.data.batch(key))
        return Fit(self.unit, xs, ys, self.loss)

    def variation(self, cloud):
        self(cloud)
        return self.sample(jax.random.key(0)).variation(cloud)

    @classmethod
    def examples(cls):
        xs = jnp.array([[0.3, -1.0], [0.5, 0.2], [2.0, 0.1]])
        return [cls(Dense(2, 2, "tanh"), Sample(xs, jnp.sin(xs)), loss) for loss in ("half-square", "pseudo-huber")]
