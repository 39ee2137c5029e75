"""Proximal steps: the next law is the best compromise between low free energy and staying near the last law.

With half the squared transport distance over tau, `argmin F(mu) + W2²(mu, last) / 2 tau`, repeated steps (the
minimizing movement of Jordan, Kinderlehrer and Otto) follow the Wasserstein flow with noise; with a relative entropy
over tau, `argmin F(mu) + KL(mu | last) / tau`, they are mirror descent and follow the Fisher–Rao flow. Both are of
first order in tau, and the free energy falls at every step.
"""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.dynamics.grids import Grid, local_gibbs
from haarflow.errors import Refusal
from haarflow.learning.risks import Functional
from haarflow.measures.clouds import Cloud, uniform


def gaussian_step(mean: Any, deviation: Any, *, stiffness: Any, temperature: Any, tau: Any) -> tuple[Any, Any]:
    """The transport step in closed form, from a normal law in the potential `½ stiffness θ²`: its mean and deviation.

    For independent coordinates give arrays. Whatever tau is, the fixed point is the variance temperature / stiffness.
    """
    pull = 1 + tau * stiffness
    root = np.sqrt(deviation**2 + 4 * pull * tau * temperature)
    return mean / pull, (deviation + root) / (2 * pull)


def quantile_energy(
    functional: Functional, quantiles: Float[Array, "n"] | Float[np.ndarray, "n"], *, temperature: float | Array
) -> Float[Array, ""]:
    """The free energy of a law on the line given by n increasing quantiles, with mass 1/n between neighbours."""
    quantiles = jnp.asarray(quantiles)
    gaps = jnp.diff(quantiles)
    return functional(uniform(quantiles[:, None])) - temperature * jnp.sum(jnp.log(len(quantiles) * gaps)) / len(
        quantiles
    )


def quantile_step(
    functional: Functional, quantiles: Float[np.ndarray, " n"], *, temperature: float, tau: float
) -> Float[np.ndarray, " n"]:
    """The transport step on the line, where W2 is the distance of quantiles: a smooth problem in n numbers.

    Solved by a trust-region Newton method that starts at the last law, so the energy cannot rise.
    """
    from scipy.optimize import minimize

    last = np.asarray(quantiles, float)
    if last.ndim != 1 or not (np.diff(last) > 0).all():
        raise Refusal(
            f"A quantile step takes n increasing numbers; got shape {last.shape}, not increasing everywhere. "
            "Write np.unique(values) for n different quantiles in order."
        )
    _refuse_unless_positive("A quantile step's tau", tau)
    rest = (functional, jnp.asarray(last), jnp.asarray(temperature, float), jnp.asarray(tau, float))

    def value(x):
        return float(_objective(jnp.asarray(x), *rest)) if (np.diff(x) > 0).all() else np.inf

    found = minimize(
        value,
        last,
        jac=lambda x: np.asarray(_objective_slope(jnp.asarray(x), *rest)),
        hess=lambda x: np.asarray(_objective_bend(jnp.asarray(x), *rest)),
        method="trust-exact",
        options={"gtol": 1e-9, "maxiter": 500, "initial_trust_radius": 0.1, "max_trust_radius": 10.0},
    )
    return found.x


def _scaled(x, functional, last, temperature, tau):
    """n times the energy plus half the squared distance over tau, so that every quantile counts one."""
    return len(x) * quantile_energy(functional, x, temperature=temperature) + jnp.sum((x - last) ** 2) / (2 * tau)


_objective = eqx.filter_jit(_scaled)
_objective_slope = eqx.filter_jit(jax.grad(_scaled))
_objective_bend = eqx.filter_jit(jax.hessian(_scaled))


def entropic_step(
    functional: Functional,
    grid: Grid,
    cloud: Cloud,
    *,
    temperature: float,
    tau: float,
    blur: float | None = None,
    iterations: int = 20000,
) -> Cloud:
    """The transport step on a grid, through POT: entropic transport from the last law with a free end.

    The free energy is `temperature · KL(· | Gibbs)` in the potential of the last law, so the step is a transport whose
    second marginal is held by a relative entropy instead of being fixed. The mutual information of the plan's ends is
    weighted by `blur²`; to first order this adds half as much of the entropy of the new law, which is taken out again.
    Blur is a length, by default the width of a cell, below which mass would stick to its cells.
    """
    import ot

    _refuse_unless_positive("An entropic step's tau", tau)
    _refuse_unless_positive("An entropic step's temperature", temperature)
    blur = float(grid.widths.max()) if blur is None else blur
    _refuse_unless_positive("An entropic step's blur", blur)
    excess = blur**2 / 2
    if not excess < tau * temperature:
        raise Refusal(
            f"An entropic step's blur is below sqrt(2 · tau · temperature) = {np.sqrt(2 * tau * temperature):.3g}; got "
            f"{blur:.3g}. Write a finer Grid, or a longer step."
        )
    # POT's plan is entropic relative to last ⊗ goal: blur² KL(new | goal) more than the mutual information.
    warmer = temperature + excess / tau
    last, goal = np.asarray(cloud.weights, float), local_gibbs(functional, cloud, temperature=warmer)
    held, reached = last > 1e-30, goal > 1e-30
    cost = ot.dist(grid.centres[held], grid.centres[reached]) / 2
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plan = ot.unbalanced.sinkhorn_unbalanced(
            last[held],
            goal[reached],
            cost,
            blur**2,
            (float("inf"), tau * temperature - excess),
            numItermax=iterations,
            stopThr=1e-9,
        )
    masses = np.zeros(len(goal))
    masses[reached] = np.asarray(plan).sum(0)
    if said or not np.isfinite(masses).all() or abs(masses.sum() - 1) > 1e-6:
        raise Refusal(
            f"An entropic step ends when its plan keeps all mass; after {iterations} iterations it held "
            f"{masses.sum():.9f}. Write a larger `blur`, more `iterations`, or a smaller box."
        )
    return grid.law(masses)


def mirror_step(functional: Functional, cloud: Cloud, *, tau: float | Array, temperature: float | Array = 0.0) -> Cloud:
    """The step with relative entropy in place of transport: mirror descent on the weights, in closed form.

    `argmin ∫Psi dmu + temperature ∫log mu dmu + KL(mu | last) / tau`: the weights `∝ (w exp(−tau Psi))^(1/(1 + tau
    temperature))`. Without temperature it is the multiplicative update of `Descend(..., transport=0, growth=1)`; with
    it, on a grid, it is the damped fixed point of `gibbs`.
    """
    potential = functional.variation(cloud).potential
    logs = (jnp.log(cloud.weights) - tau * potential) / (1 + tau * temperature)
    return Cloud(cloud.atoms, jax.nn.softmax(logs))


def grid_quantiles(grid: Grid, weights: Float[np.ndarray, " m"], n: int) -> Float[np.ndarray, " n"]:
    """The n middle quantiles of a law on a line's grid, its cells filled evenly."""
    if grid.p != 1:
        raise Refusal(f"Quantiles belong to a line; got a grid with {grid.p} axes. Write Grid(-3, 3, 200).")
    levels = np.concatenate([[0.0], np.cumsum(weights)])
    return np.interp((np.arange(n) + 0.5) / n, levels / levels[-1], grid.edges())


def _refuse_unless_positive(owner: str, value: float):
    if not (np.isfinite(value) and value > 0):
        raise Refusal(f"{owner} is a finite number > 0; got {value}. Write for example 0.1.")
