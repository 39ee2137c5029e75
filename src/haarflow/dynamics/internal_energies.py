"""Internal energies `strength · ∫ f(dmu/dnu) dnu` with a convex f: what a law with a density pays for being dense.

The reference nu is volume, or a law. With r = dmu/dnu the first variation is `strength · f'(r)`, and mass flows by
`mu ∇f'(r) = nu ∇P(r)` with the pressure `P = r f' − f`. The entropy, f = r log r and P = r, is the one whose flow is
diffusion at one temperature. Every other has a temperature at each density, `strength · r f''(r)`, and between the
densities a and b of two cells their mean `strength · (f'(b) − f'(a)) / (log b − log a)`: with it the fluxes of a grid
vanish exactly where `Psi + strength · f'(r)` is constant.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float
from scipy.special import logsumexp

from haarflow.annotations import kind_of
from haarflow.doors import NonNegativeLeaf, door
from haarflow.dynamics.doubles import doubled
from haarflow.errors import Refusal
from haarflow.identity import by_value
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_cloud, shapes_of
from haarflow.values import leaf

_LOGS = np.linspace(-20.0, 5.0, 51)  # of the densities at which a caller's f is looked at
_BOTTOM = -690.0  # the logarithm of what counts as no density at all
_LEAST = 1e-14  # of its neighbour's density has a cell that is empty: so the edge of a law in equilibrium leaks so much
_NEAR = 1e-5  # in the logarithm: two densities that are nearer are one


class InternalEnergy(eqx.Module):
    """`strength · ∫ f(dmu/dnu) dnu`. A member is its f; slope and inverse are found from it where it does not say them.

    Without a `reference` law, nu is volume. An internal energy belongs to laws with a density, on a Grid: a cloud of
    atoms has none. So it is no Functional; the functions of laws on grids take it beside one, as `internal=`.
    """

    strength: NonNegativeLeaf = eqx.field(default=1.0, converter=leaf, kw_only=True)
    reference: Cloud | None = eqx.field(default=None, kw_only=True)

    instead: ClassVar[str] = "Write PorousMedium(2.0), for example."

    def __check_init__(self):
        if self.reference is not None:
            refuse_unless_cloud(f"The reference of {kind_of(self)}", self.reference)

    @abstractmethod
    def density(self, ratio: Any) -> Any:
        """f at one density r >= 0 or at many, in jax.numpy; it is strictly convex, and finite at 0."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["InternalEnergy"]:
        """Members for the laws, on `Grid(-2, 2, 40)`."""

    def room(self, gaps: Float[Array, "m"], n: int) -> Float[Array, ""]:
        """Minus the energy of mass 1/n spread evenly over each of some lengths, in jax.numpy."""
        return -self.strength * jnp.sum(gaps * self.density(1 / (n * gaps)))

    def slope(self, ratio: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """f' at densities > 0."""
        return _host(_slopes, self, ratio)

    def inverse(self, slope: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The densities at which f' has these values; zero where f' is larger everywhere."""
        return _host(_inverses, self, slope)

    def heat(self, here: Float[np.ndarray, "*n"], there: Float[np.ndarray, "*n"]) -> Any:
        """The mean of `r f''(r)` between two densities, `(f'(b) − f'(a)) / (log b − log a)`.

        Where they are nearly equal it is taken between two densities a little apart, about their mean; a density of
        zero counts as 1e-14 of the other.
        """
        floor = np.maximum(_LEAST * np.maximum(here, there), 1e-290)
        low, high = (np.log(np.maximum(one, floor)) for one in (here, there))
        middle, half = (low + high) / 2, np.maximum(np.abs(high - low) / 2, _NEAR)
        return (self.slope(np.exp(middle + half)) - self.slope(np.exp(middle - half))) / (2 * half)

    def level(self, slopes: Float[np.ndarray, "s n"], masses: Float[np.ndarray, " n"]) -> Float[np.ndarray, "s 1"]:
        """What to add to rows of slopes so that the densities there make laws over cells of these masses."""
        return _level(self, slopes, masses)


@doubled
def _host(question: Callable, energy: InternalEnergy, values) -> np.ndarray:
    """What a compiled question below says of numbers, in float64 and NumPy."""
    return np.asarray(question(energy, jnp.asarray(values)))


@eqx.filter_jit
def _values(energy: InternalEnergy, ratio):
    return energy.density(ratio)


@eqx.filter_jit
def _slopes(energy: InternalEnergy, ratio):
    return jax.grad(lambda ratio: jnp.sum(energy.density(ratio)))(ratio)


@eqx.filter_jit
def _inverses(energy: InternalEnergy, slope):
    """By bisection of the logarithm of the density."""

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        below = _slopes(energy, jnp.exp(middle)) < slope
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    start = (jnp.full(slope.shape, _BOTTOM), jnp.full(slope.shape, -_BOTTOM))
    low, high = jax.lax.fori_loop(0, 64, halve, start)
    return jnp.where(low > _BOTTOM, jnp.exp((low + high) / 2), 0.0)


def _level(energy: InternalEnergy, slopes, masses) -> np.ndarray:
    """By Newton's method, kept between two levels of too little and too much mass, which close in."""
    top, at = slopes.max(axis=1, keepdims=True), slopes.argmax(axis=1)
    low = energy.slope(np.full_like(top, 1 / masses.sum())) - top
    high = energy.slope(1 / masses[at])[:, None] - top
    level = high
    for _ in range(200):
        ratio = energy.inverse(slopes + level)
        total = (ratio * masses).sum(axis=1, keepdims=True)
        if (np.abs(total - 1) <= 1e-15 * len(masses)).all() or (np.nextafter(low, high) >= high).all():
            break
        low, high = np.where(total < 1, level, low), np.where(total < 1, high, level)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = level - (total - 1) / (masses * looseness(energy, ratio)).sum(axis=1, keepdims=True)
        level = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
    return level


def looseness(energy: InternalEnergy, ratio: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """`1 / f''(r)`, by how much a density answers to its slope; none where there is nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = ratio / energy.heat(ratio, ratio)
    return np.where((ratio > 0) & np.isfinite(found), found, 0.0)


def value_of(energy: InternalEnergy, ratio: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """f at densities, in float64 and NumPy."""
    return _host(_values, energy, ratio)


def refuse_unless_convex(energy: InternalEnergy) -> None:
    """Refuse an f that is no function of densities, is not convex, or presses hard where there is nearly nothing."""
    name = type(energy).__name__
    rule, instead = f"The f of a {name} takes densities (n,) to as many numbers", "Write lambda r: r**2, for example."
    found = shapes_of(rule, instead, energy.density, jax.ShapeDtypeStruct((3,), float))
    if getattr(found, "shape", None) != (3,) or not jnp.issubdtype(found.dtype, jnp.floating):
        got = f"an array {found.shape} of {found.dtype}" if hasattr(found, "shape") else kind_of(found)
        raise Refusal(f"{rule}; got {got}. {instead}")
    if any(isinstance(part, Tracer) for part in jax.tree.leaves(energy)):
        return
    with jax.ensure_compile_time_eval():
        slopes, ground = energy.slope(np.exp(_LOGS)), value_of(energy, np.zeros(1))
    heat = np.diff(slopes) / np.diff(_LOGS)  # r f''(r)
    if not (np.isfinite(slopes).all() and np.isfinite(ground).all()):
        raise Refusal(
            f"The f of a {name} has a value at 0 and slopes above; got one that is not finite. Write "
            "jnp.where(r > 0, r, 1.0) inside a logarithm."
        )
    if not ((heat >= 0).all() and (heat > 0)[_LOGS[:-1] > -5].all()):
        where = float(np.exp(_LOGS[int(np.argmin(heat))]))
        raise Refusal(f"The f of a {name} is strictly convex; got none of it at the density {where:.2g}. {instead}")
    if heat[0] > 2 * heat[: len(heat) // 2].min():
        raise Refusal(
            f"The f of a {name} presses little where there is nearly nothing, else its flow has no scheme here; got "
            f"r f''(r) = {heat[0]:.2g} at the density {np.exp(_LOGS[0]):.2g}. Write powers above one, or r log r."
        )


@door
class Entropy(InternalEnergy):
    """`temperature · ∫log mu dmu`: f = r log r, and the temperature is the strength, at every density.

    The functions of laws on grids take it as `temperature=`.
    """

    def density(self, ratio):
        return ratio * jnp.log(jnp.where(ratio > 0, ratio, 1.0))

    def room(self, gaps, n):
        return self.strength * jnp.sum(jnp.log(n * gaps)) / n

    def slope(self, ratio):
        return 1 + np.log(np.maximum(ratio, 1e-300))

    def inverse(self, slope):
        return np.exp(slope - 1)

    def heat(self, here, there):
        return 1.0

    def level(self, slopes, masses):
        return 1 - np.asarray(logsumexp(slopes, axis=1, b=masses, keepdims=True))

    @classmethod
    def examples(cls):
        return [cls(strength=0.7)]


@door
class PorousMedium(InternalEnergy):
    """`strength · ∫u^m dx / (m − 1)` of a density u, m > 1, which flows by the porous medium equation.

    That is `u' = strength · Δu^m`. The thinner the mass, the less it presses: what has an edge keeps one, and the edge
    moves at a finite speed.
    """

    m: Float[Array, ""] = eqx.field(converter=leaf)

    def __check_init__(self):
        if not isinstance(self.m, Tracer) and not 1 < float(self.m) <= 100:
            raise Refusal(
                f"A PorousMedium has an exponent m > 1, and at most 100; got {float(self.m):g}. Write 2.0, for "
                "example, or a temperature for m = 1; fast diffusion, m < 1, has no scheme here."
            )

    def density(self, ratio):
        return ratio**self.m / (self.m - 1)

    def slope(self, ratio):
        m = float(self.m)
        return m / (m - 1) * ratio ** (m - 1)

    def inverse(self, slope):
        m = float(self.m)
        return np.maximum((m - 1) / m * slope, 0.0) ** (1 / (m - 1))

    @classmethod
    def examples(cls):
        return [cls(2.0), cls(3.5, strength=0.4)]


@door
class ChiSquared(InternalEnergy):
    """`strength · ∫(dmu/dnu − 1)² dnu`, the chi-squared divergence from a reference law nu on the same grid."""

    reference: Cloud = eqx.field()  # pyright: ignore[reportGeneralTypeIssues]

    def density(self, ratio):
        return (ratio - 1) ** 2

    def slope(self, ratio):
        return 2 * (ratio - 1)

    def inverse(self, slope):
        return np.maximum(1 + slope / 2, 0.0)

    @classmethod
    def examples(cls):
        places = np.linspace(-1.95, 1.95, 40)
        return [cls(Cloud(places[:, None], (2 + np.sin(places)) / 80), strength=0.6)]


@door
class ConvexEnergy(InternalEnergy):
    """`strength · ∫ f(dmu/dnu) dnu` of a convex function f of one's own, in jax.numpy; nu is volume, or a law.

    Write f for an array of densities r >= 0, such as `lambda r: r**2 + r**3`. It is strictly convex and finite at 0;
    `r f''(r)`, the temperature at the density r, must not grow without bound where there is nearly nothing.
    """

    function: Callable = eqx.field(converter=by_value)

    def __check_init__(self):
        refuse_unless_convex(self)

    def density(self, ratio):
        return self.function(ratio)

    @classmethod
    def examples(cls):
        return [cls(lambda r: r**2 + r * jnp.log(jnp.where(r > 0, r, 1.0)), strength=0.3)]


class HeldEnergy(InternalEnergy):
    """`U + ∫r log r dnu / tau`: an internal energy with the part of a relative entropy over tau that a density pays."""

    inner: InternalEnergy
    tau: Float[Array, ""] = eqx.field(converter=leaf)

    def density(self, ratio):
        return self.inner.strength * self.inner.density(ratio) + Entropy().density(ratio) / self.tau

    def slope(self, ratio):
        return float(self.inner.strength) * self.inner.slope(ratio) + (1 + np.log(ratio)) / float(self.tau)

    @classmethod
    def examples(cls):
        return [cls(PorousMedium(3.0), 0.5)]
