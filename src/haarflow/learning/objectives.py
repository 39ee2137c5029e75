"""What a generator and a discriminator play for: the objectives of GANs, each a short class.

Scores are high where a discriminator takes a point for a true one. An objective says what the discriminator lowers and
what the generator lowers, given the scores of true points and of made ones, and which slopes of the score it fines.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from haarflow.doors import Above, Advised, NonNegativeLeaf, door
from haarflow.learning.losses import by_name
from haarflow.values import leaf

Scores = Float[Array, " n"]


class Objective(eqx.Module):
    """What two networks play for: `discriminator_loss` and `generator_loss` of scores, and a `penalty` on slopes.

    The penalty is a function of |∇score|², taken at true points, or at points drawn between true and made ones.
    """

    instead: ClassVar[str] = "Write 'lipschitz-alpha', for example, or Relativistic()."

    name: ClassVar[str] = ""
    """The short name, by which it may be given in quotes."""

    slopes_at: ClassVar[Literal["true", "between", "nowhere"]] = "nowhere"
    """Where slopes are fined."""

    @abstractmethod
    def discriminator_loss(self, true: Scores, made: Scores, /) -> Float[Array, ""]:
        """What the discriminator lowers: it falls as true points score higher, and as made points score lower."""

    @abstractmethod
    def generator_loss(self, true: Scores, made: Scores, /) -> Float[Array, ""]:
        """What the generator lowers: it falls as made points score higher."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Objective"]:
        """Members for the laws."""

    def penalty(self, squares: Float[Array, " n"], /) -> Float[Array, ""]:
        """What the discriminator pays for its squared slopes."""
        return jnp.zeros((), squares.dtype)

    @classmethod
    def welcome(cls, owner: str, value: Any) -> Any:
        """What else may be given for an objective: its name."""
        if isinstance(value, type) and issubclass(value, Objective):
            raise Advised(f"{owner} is an Objective; got the class {value.__name__} itself. Write {value.__name__}().")
        if not isinstance(value, str):
            return value
        known: dict[str, Any] = dict(by_name(Objective))
        if value not in known:
            raise Advised(f"{owner} is one of {', '.join(known)}, or an Objective; got {value!r}. Write one of these.")
        return known[value]()


class OneSided(Objective):
    """An objective whose discriminators are to have slopes up to one: `fine · E max(0, |∇score|² − 1)`."""

    fine: eqx.AbstractVar[Array]

    slopes_at = "between"

    def penalty(self, squares):
        return self.fine * jnp.mean(jnp.maximum(squares - 1, 0))


@door
class LipschitzAlpha(OneSided):
    """The Lipschitz-regularised α-divergence, `sup over Lipschitz γ of E_Q γ − E_P f*_α(γ)`, of the data Q from P.

    `f*_α(y) = α⁻¹ (α−1)^{α/(α−1)} max(y, 0)^{α/(α−1)} + 1/(α(α−1))`. With `reverse`, the divergence of P from Q, with
    the roles of the data and the made law exchanged; the score is then −γ.
    """

    alpha: Annotated[Float[Array, ""], Above(1)] = eqx.field(default=2.0, converter=leaf)
    reverse: bool = eqx.field(default=False, static=True, kw_only=True)
    fine: NonNegativeLeaf = eqx.field(default=10.0, converter=leaf, kw_only=True)

    name = "lipschitz-alpha"

    def discriminator_loss(self, true, made):
        if self.reverse:
            return jnp.mean(conjugate(self.alpha, -true)) - jnp.mean(-made)
        return jnp.mean(conjugate(self.alpha, made)) - jnp.mean(true)

    def generator_loss(self, true, made):
        return -self.discriminator_loss(true, made)

    @classmethod
    def examples(cls):
        return [cls(), cls(3.0, fine=5.0), cls(2.0, reverse=True)]


@door
class Wasserstein(OneSided):
    """W1 by its dual: the mean score of the data minus that of the made law, over scores of slope up to one."""

    fine: NonNegativeLeaf = eqx.field(default=10.0, converter=leaf, kw_only=True)

    name = "wasserstein"

    def discriminator_loss(self, true, made):
        return jnp.mean(made) - jnp.mean(true)

    def generator_loss(self, true, made):
        return -jnp.mean(made)

    @classmethod
    def examples(cls):
        return [cls(), cls(fine=1.0)]


class AtData(Objective):
    """An objective that fines slopes at the data: `½ fine · E |∇score|²`, the penalty R1."""

    fine: eqx.AbstractVar[Array]

    slopes_at = "true"

    def penalty(self, squares):
        return self.fine * jnp.mean(squares) / 2


@door
class Relativistic(AtData):
    """The relativistic average objective: is a true point more true than made points are on average?"""

    fine: NonNegativeLeaf = eqx.field(default=0.1, converter=leaf, kw_only=True)

    name = "relativistic"

    def discriminator_loss(self, true, made):
        up, down = true - jnp.mean(made), made - jnp.mean(true)
        return (jnp.mean(jax.nn.softplus(-up)) + jnp.mean(jax.nn.softplus(down))) / 2

    def generator_loss(self, true, made):
        return self.discriminator_loss(made, true)

    @classmethod
    def examples(cls):
        return [cls()]


@door
class Original(AtData):
    """The first objective of GANs, with the generator's loss that does not saturate: `E softplus(−score)`."""

    fine: NonNegativeLeaf = eqx.field(default=0.0, converter=leaf, kw_only=True)

    name = "original"

    def discriminator_loss(self, true, made):
        return jnp.mean(jax.nn.softplus(-true)) + jnp.mean(jax.nn.softplus(made))

    def generator_loss(self, true, made):
        return jnp.mean(jax.nn.softplus(-made))

    @classmethod
    def examples(cls):
        return [cls(), cls(fine=0.5)]


def conjugate(alpha: Float[Array, ""], y: Float[Array, " n"]) -> Float[Array, " n"]:
    """f*_α, the convex conjugate of f_α(t) = (t^α − 1) / (α(α−1)) on t >= 0."""
    power = alpha / (alpha - 1)
    safe = jnp.where(y > 0, y, 1.0)
    return jnp.where(y > 0, (alpha - 1) ** power * safe**power / alpha, 0.0) + 1 / (alpha * (alpha - 1))
