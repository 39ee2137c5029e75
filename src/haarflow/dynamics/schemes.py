"""Schemes: one step along a field. A variation wraps another scheme."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.doors import Advised, Count, Most, NonNegativeLeaf, PositiveLeaf, door
from haarflow.dynamics.fields import Field, Tangent
from haarflow.dynamics.noise import gaussian
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.measures.clouds import Cloud, projector_matrix
from haarflow.settling import settled
from haarflow.values import leaf, said


class Scheme(eqx.Module):
    """One step of size dt. `state` is what the next step needs besides the cloud."""

    instead: ClassVar[str] = "Write for example Euler()."

    @abstractmethod
    def step(
        self, key: PRNGKeyArray, field: Field, cloud: Cloud, state: Any, dt: Float[Array, ""]
    ) -> tuple[Cloud, Any]:
        """The cloud and the state after one step; `streams(key)` are its data and its noise."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Scheme"]:
        """Members for the laws, on clouds in R^4."""

    def start(self, cloud: Cloud) -> Any:
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


def streams(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """The data key and the noise key of a step: the same for every scheme, so that schemes share both."""
    pair = jax.random.split(key)
    data, noise = jax.random.wrap_key_data(settled(jax.random.key_data(pair)), impl=jax.random.key_impl(pair))
    return data, noise


def travel(cloud: Cloud, tangent: Tangent, dt: Float[Array, ""]) -> Cloud:
    """Straight atoms and exponential weights: positive, and of mass one, at any step size."""
    atoms = cloud.atoms + dt.astype(cloud.atoms.dtype) * tangent.atoms
    if tangent.growth is None:
        return Cloud(atoms, cloud.weights)
    return Cloud(atoms, grow(cloud.weights, dt.astype(cloud.atoms.dtype) * tangent.growth))


def grow(weights: Float[Array, "n"], exponents: Float[Array, "n"]) -> Float[Array, "n"]:
    """`w_i exp(e_i)` brought back to mass one, safe from overflow."""
    grown = weights * jnp.exp(exponents - jnp.max(exponents))
    return grown / jnp.sum(grown)


class Euler(Scheme):
    """The literal step `theta + dt · velocity`: with a stochastic field, SGD."""

    def step(self, key, field, cloud, state, dt):
        return travel(cloud, field(streams(key)[0], cloud), dt), state

    @classmethod
    def examples(cls):
        return [cls()]


class Heun(Scheme):
    """The second-order step: the mean of the tangents at both ends, on the same data."""

    def step(self, key, field, cloud, state, dt):
        data, _ = streams(key)
        here = field(data, cloud)
        there = field(data, travel(cloud, here, dt))
        return travel(cloud, jax.tree.map(lambda a, b: (a + b) / 2, here, there), dt), state

    @classmethod
    def examples(cls):
        return [cls()]


@door
class Noisy(Scheme):
    """Another scheme plus `sqrt(2 · temperature · dt) xi`, xi drawn in R^p and then projected if asked."""

    inner: Scheme
    temperature: NonNegativeLeaf = eqx.field(converter=leaf)
    projector: Float[Array, "p p"] | None = eqx.field(default=None, converter=leaf, kw_only=True)

    def __check_init__(self):
        if self.projector is not None and not isinstance(self.projector, Tracer):
            projector_matrix(self.projector, len(self.projector))

    def start(self, cloud):
        return self.inner.start(cloud)

    def step(self, key, field, cloud, state, dt):
        moved, state = self.inner.step(key, field, cloud, state, dt)
        dtype = moved.atoms.dtype
        noise = gaussian(streams(key)[1], (moved.n, moved.p), dtype)
        if self.projector is not None:
            if len(self.projector) != moved.p:
                raise Refusal(
                    f"A Noisy scheme's projector acts on the particles; got one of R^{len(self.projector)} and a cloud "
                    f"in R^{moved.p}. Write a projector ({moved.p}, {moved.p})."
                )
            noise = noise @ self.projector.astype(dtype)
        size = jnp.sqrt(2 * self.temperature * dt).astype(dtype)
        return Cloud(moved.atoms + size * noise, moved.weights), state

    @classmethod
    def examples(cls):
        return [cls(Euler(), 0.01), cls(Heun(), 0.02, projector=np.diag([1.0, 1.0, 0.0, 0.0]))]


def _transformation(given: Any) -> Any:
    """The transformation, its functions compared by value: one that is made again compiles nothing again."""
    return jax.tree.map(by_value, given) if isinstance(given, tuple) else given


class Optax(Scheme):
    """Any optax transformation on the atoms; dt multiplies its update, so `Optax(optax.adam(1.0))` slides by dt."""

    transformation: Any = eqx.field(converter=_transformation)

    def __check_init__(self):
        pair = (getattr(self.transformation, name, None) for name in ("init", "update"))
        if isinstance(self.transformation, type) or not all(callable(part) for part in pair):
            raise Refusal(
                f"An Optax scheme wraps an optax transformation; got {said(self.transformation)}. "
                "Write Optax(optax.adam(1.0))."
            )

    def start(self, cloud):
        return self.transformation.init(cloud.atoms)

    def step(self, key, field, cloud, state, dt):
        tangent = field(streams(key)[0], cloud)
        update, state = self.transformation.update(-tangent.atoms, state, cloud.atoms)
        return travel(cloud, Tangent(update, tangent.growth), dt), state

    @classmethod
    def examples(cls):
        import optax

        return [cls(optax.sgd(1.0)), cls(optax.adam(1.0)), cls(optax.sgd(1.0, momentum=0.9))]


@door
class Adaptive(Scheme):
    """The flow itself to a tolerance: diffrax integrates over each dt with error control, on the step's data."""

    rtol: PositiveLeaf = eqx.field(default=1e-8, converter=leaf, kw_only=True)
    atol: PositiveLeaf = eqx.field(default=1e-10, converter=leaf, kw_only=True)
    most: Annotated[Count, Most(2**31 - 1)] = eqx.field(default=4096, kw_only=True)

    def step(self, key, field, cloud, state, dt):
        import diffrax

        data, _ = streams(key)

        def slope(_, flowing, __):
            turned, exponents = flowing
            tangent = field(data, Cloud(turned.T, grow(cloud.weights, exponents)))
            still = jnp.zeros_like(exponents)
            return tangent.atoms.T, still if tangent.growth is None else tangent.growth

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(slope),  # pyright: ignore[reportArgumentType]
            diffrax.Tsit5(),
            t0=0.0,
            t1=dt,
            dt0=None,
            y0=(cloud.atoms.T, jnp.zeros_like(cloud.weights)),  # as they lie in the loop of a flow, if they are short
            stepsize_controller=diffrax.PIDController(rtol=self.rtol, atol=self.atol),  # pyright: ignore
            max_steps=self.most,
            throw=False,
        )
        turned, exponents = jax.tree.map(lambda leaf: leaf[-1], solution.ys)
        # A solver that gave up reports no number: the loop then stops at its last good state.
        atoms = jnp.where(solution.result == diffrax.RESULTS.successful, turned.T, jnp.nan)
        return Cloud(atoms, grow(cloud.weights, exponents)), state

    @classmethod
    def examples(cls):
        return [cls()]
