"""Proximal steps: the next law is the best compromise between low free energy and staying near the last law.

With half the squared transport distance over tau, `argmin F(mu) + W2²(mu, last) / 2 tau`, repeated steps (the
minimizing movement of Jordan, Kinderlehrer and Otto) follow the Wasserstein flow with noise; with a relative entropy
over tau, `argmin F(mu) + KL(mu | last) / tau`, they are mirror descent and follow the Fisher–Rao flow. Both are of
first order in tau, and the free energy falls at every step. Another internal energy may stand in the place of the
entropy, as `internal=`, but for `entropic_step`, which is about relative entropies throughout.
"""

import contextlib
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from haarflow.annotations import kind_of
from haarflow.doors import Above, Count, Least, NonNegative, Positive, door
from haarflow.dynamics.cells import CellEnergy
from haarflow.dynamics.doubles import doubled
from haarflow.dynamics.entropic_plans import Plan
from haarflow.dynamics.fluxes import log_gibbs
from haarflow.dynamics.free_energies import Masses, potential_of
from haarflow.dynamics.grids import Grid, given_energy
from haarflow.dynamics.internal_energies import HeldEnergy, InternalEnergy
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud, uniform
from haarflow.values import numbers, refuse_unless_affordable, said


def gaussian_step(mean: Any, deviation: Any, *, stiffness: Any, temperature: Any, tau: Any) -> tuple[Any, Any]:
    """The transport step in closed form, from a normal law in the potential `½ stiffness θ²`: its mean and deviation.

    For independent coordinates give arrays. Whatever tau is, the fixed point is the variance temperature / stiffness.
    """
    given = {"mean": mean, "deviation": deviation, "stiffness": stiffness, "temperature": temperature, "tau": tau}
    m, s, h, beta, tau = (
        np.asarray(numbers(f"gaussian_step's {name}", one, numpy=True)) for name, one in given.items()
    )
    with np.errstate(over="ignore", invalid="ignore"):
        pull = 1 + tau * h
    if not ((s >= 0).all() and (beta >= 0).all() and (tau > 0).all() and (pull > 0).all()):
        raise Refusal(
            "A Gaussian step has deviation >= 0, temperature >= 0, tau > 0 and 1 + tau · stiffness > 0, else it has no "
            f"end; got {_listed(given)}. Write a smaller tau."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        root = np.sqrt(s**2 + 4 * pull * tau * beta)
        moved, spread = m / pull, (s + root) / (2 * pull)
    if not (np.isfinite(moved).all() and np.isfinite(spread).all()):
        raise Refusal(f"A Gaussian step is a law in float64; got {_listed(given)} beyond it. Write smaller numbers.")
    return moved[()], spread[()]


def _listed(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={said(value)}" for name, value in given.items())


@door
def quantile_energy(
    functional: Functional,
    quantiles: Float[Array, "n"] | Float[np.ndarray, "n"],
    *,
    temperature: Annotated[float | Float[Array, ""], Least(0)] | None = None,
    internal: InternalEnergy | None = None,
) -> Float[Array, ""]:
    """The free energy of a law on the line given by n increasing quantiles, with mass 1/n between neighbours."""
    _refuse_unless_increasing("A quantile energy", quantiles)
    return _quantile_energy(functional, quantiles, _of_volume("quantile_energy", temperature, internal))


def _of_volume(owner: str, temperature: Any, internal: InternalEnergy | None) -> InternalEnergy:
    """The internal energy that a caller gave, refused where its reference is a law: quantiles know their gaps alone."""
    energy = given_energy(owner, temperature, internal)
    if energy.reference is not None:
        raise Refusal(
            f"{owner} takes internal energies of volume; got {kind_of(energy)} with a law for its reference. "
            "Write fokker_planck on a Grid, or a Penalty for what the reference attracts to."
        )
    return energy


def _quantile_energy(functional, quantiles, energy: InternalEnergy):
    gaps = jnp.diff(quantiles)
    return functional(uniform(quantiles[:, None])) - energy.room(gaps, len(quantiles))


def _refuse_unless_increasing(owner: str, quantiles) -> None:
    if len(quantiles) < 2 or not (isinstance(quantiles, Tracer) or np.all(quantiles[1:] > quantiles[:-1])):
        raise Refusal(
            f"{owner} takes two or more increasing numbers; got shape {quantiles.shape}, not increasing everywhere. "
            "Write np.unique(values) for different quantiles in order."
        )


@door
def quantile_step(
    functional: Functional,
    quantiles: Float[np.ndarray, " n"],
    *,
    temperature: NonNegative | None = None,
    internal: InternalEnergy | None = None,
    tau: Positive,
) -> Float[np.ndarray, " n"]:
    """The transport step on the line, where W2 is the distance of quantiles: a smooth problem in n numbers.

    Solved in float64 by a trust-region Newton method that starts at the last law, so the energy cannot rise.
    """
    from scipy.optimize import minimize

    _refuse_unless_increasing("A quantile step", quantiles)
    with jax.enable_x64(True):
        energy = _of_volume("quantile_step", temperature, internal)
    n, spread = len(quantiles), float(np.ptp(quantiles))
    refuse_unless_affordable(f"A quantile step of {n} quantiles", 8 * 4.0 * n**2, instead="Write fewer quantiles.")
    rest = (functional, quantiles, energy, tau)
    length = float(np.clip(1.0, spread / 100, 100 * spread))  # one, unless the law is of another scale altogether
    options = {
        "gtol": 1e-9 * min(1.0, length / tau),
        "maxiter": 500,
        "initial_trust_radius": 0.1 * length,
        "max_trust_radius": 10.0 * length,
    }
    left = np.nan
    with np.errstate(all="ignore"), contextlib.suppress(ValueError, np.linalg.LinAlgError):  # where it met no number
        found = minimize(
            lambda x: float(_told(_objective, x, *rest)) if (np.diff(x) > 0).all() else np.inf,
            quantiles,
            jac=lambda x: _told(_objective_slope, x, *rest),
            hess=lambda x: _told(_objective_bend, x, *rest),
            method="trust-exact",
            options=options,
        )
        left = tau * float(np.abs(found.jac).max())
        if left <= 1e-6 * spread:
            return found.x
    raise Refusal(
        f"A quantile step ends where its slope is zero, to 1e-6 of the law's spread {spread:.2g}; got {left:.1e} at "
        f"tau={tau:g}, temperature={float(energy.strength):g}. Write a smaller tau."
    )


@doubled
def _told(question, x, functional, last, energy, tau):
    """What the compiled objective says, in float64 and NumPy."""
    x, last, tau = map(jnp.asarray, (x, last, tau))
    return np.asarray(question(x, functional, last, energy, tau))


def _scaled(x, functional, last, energy, tau):
    """n times the energy plus half the squared distance over tau, so that every quantile counts one."""
    return len(x) * _quantile_energy(functional, x, energy) + jnp.sum((x - last) ** 2) / (2 * tau)


_objective = eqx.filter_jit(_scaled)
_objective_slope = eqx.filter_jit(jax.grad(_scaled))
_objective_bend = eqx.filter_jit(jax.hessian(_scaled))


@door
def entropic_step(
    functional: Functional,
    grid: Grid,
    cloud: Cloud,
    *,
    temperature: Positive,
    tau: Positive,
    blur: Positive | None = None,
    iterations: Count = 300,
) -> Cloud:
    """The transport step on a grid: entropic transport from the last law with a free end.

    The free energy is `temperature · KL(· | Gibbs)` in the potential of the last law, so the step is a transport whose
    second marginal is held by a relative entropy instead of being fixed. The mutual information of the plan's ends is
    weighted by `blur²`; to first order this adds half as much of the entropy of the new law, which is taken out again.
    Blur is a length, by default the width of a cell, below which mass would stick to its cells. Some twenty iterations
    of Newton's method are usual, each of which takes a time that grows like the cube of the number of cells.
    """
    from scipy.spatial.distance import cdist

    last = grid.weights("An entropic step", cloud)
    blur = float(grid.widths.max()) if blur is None else blur
    excess, limit = blur * blur / 2, float(np.sqrt(2 * tau * temperature))
    if not (np.isfinite(tau * temperature) and 1e-3 * grid.widths.min() <= blur < np.inf):
        raise Refusal(
            "An entropic step has tau · temperature within float64 and a blur of a thousandth of a cell or more, else "
            f"mass sticks to its cells; got tau={tau:g}, temperature={temperature:g}, blur={blur:g}. Leave blur out."
        )
    if not excess < tau * temperature:
        raise Refusal(
            f"An entropic step's blur is below sqrt(2 · tau · temperature) = {limit:.3g}; got {blur:.3g}. Write "
            f"blur={limit / 2:.2g} on a Grid of cells no wider, or tau={4 * excess / temperature:.2g}."
        )
    refuse_unless_affordable(
        f"An entropic step over {len(last)} cells", 8 * 10.0 * len(last) ** 2, instead="Write a Grid of fewer cells."
    )
    # The plan is entropic relative to last ⊗ goal: blur² KL(new | goal) more than the mutual information.
    goal = log_gibbs(potential_of(functional, grid.centres, last), temperature + excess / tau)
    with np.errstate(divide="ignore"):
        plan = Plan(
            cdist(grid.centres, grid.centres, "sqeuclidean") / 2, np.log(last), goal, tau * temperature - excess
        )
    return grid.law(np.exp(plan.solve(blur**2, iterations)))


@door
def mirror_step(
    functional: Functional,
    cloud: Cloud,
    *,
    tau: Annotated[float | Float[Array, ""], Above(0)],
    temperature: Annotated[float | Float[Array, ""], Least(0)] | None = None,
    internal: InternalEnergy | None = None,
    grid: Grid | None = None,
) -> Cloud:
    """The step with relative entropy in place of transport: mirror descent on the weights, in closed form.

    `argmin ∫Psi dmu + temperature ∫log mu dmu + KL(mu | last) / tau`: the weights `∝ (w exp(−tau Psi))^(1/(1 + tau
    temperature))`. Without temperature it is the multiplicative update of `Descend(..., transport=0, growth=1)`; with
    it, on a grid, it is the damped fixed point of `gibbs`. Another internal energy U of laws on a `grid` stands in the
    place of the entropy: then the weights solve `Psi + U' + log(w / last) / tau = constant`, cell by cell.
    """
    if internal is not None:
        return _cellwise_step(functional, cloud, tau, temperature, internal, grid)
    potential = functional.variation(cloud).potential
    heat = 0.0 if temperature is None else temperature
    logs = (jnp.log(cloud.weights) - tau * potential) / (1 + tau * heat)
    return Cloud(cloud.atoms, jax.nn.softmax(logs))


def _cellwise_step(functional, cloud, tau, temperature, internal, grid) -> Cloud:
    """A mirror step with an internal energy U, in float64: `U + KL(· | last) / tau` is another, and a potential."""
    if grid is None:
        raise Refusal(f"A mirror step with {kind_of(internal)} is one of laws on a Grid; got none. Write grid=grid.")
    last, cells = grid.weights("A mirror step", cloud), grid.internal("mirror_step", temperature, internal)
    held = last > 0
    mixed = CellEnergy(HeldEnergy(internal, tau), cells.masses[held])
    against = np.log(last[held] / mixed.masses) / float(tau)
    weights = np.zeros(len(last))
    slopes = mixed.answers((potential_of(functional, grid.centres, last)[held] - against)[None])
    weights[held] = mixed.weights(slopes)[0]
    return grid.law(weights)


@door
def grid_quantiles(grid: Grid, weights: Masses, n: Count) -> Float[np.ndarray, " k"]:
    """The n middle quantiles of a law on a line's grid, its cells filled evenly."""
    if grid.p != 1:
        raise Refusal(f"Quantiles belong to a line; got a grid with {grid.p} axes. Write Grid(-3, 3, 200).")
    if len(weights) != len(grid.centres) or not weights.any():
        raise Refusal(
            f"Quantiles are of a weight for each of the {len(grid.centres)} cells, not all zero; got {len(weights)}. "
            "Write np.asarray(cloud.weights)."
        )
    refuse_unless_affordable(f"{n} quantiles", 8 * 3.0 * n, instead="Write fewer.")
    levels = np.concatenate([[0.0], np.cumsum(weights)])
    return np.interp((np.arange(n) + 0.5) / n, levels / levels[-1], grid.edges())
