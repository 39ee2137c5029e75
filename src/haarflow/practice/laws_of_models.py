"""The laws of units and networks: batches are the formula, feedback is the derivative, and actions move as they say."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from haarflow.algebra.base import Finite
from haarflow.algebra.reps import Rep
from haarflow.measures.clouds import Cloud
from haarflow.models.fits import refuse_unless_acting, violations
from haarflow.models.networks import Network
from haarflow.models.units import Unit
from haarflow.practice.laws import law, require
from haarflow.practice.testing import QUICK_TO_COMPILE

PARTICLES, INPUTS = 5, 4
WEIGHTS = np.array([0.5, -0.2, 0.0, 0.1, 0.6])
LISTED = 50  # elements of a group that are all tried; of more, its probes


def _elements(rep: Rep) -> np.ndarray:
    group = rep.group
    return group.elements() if isinstance(group, Finite) and group.order <= LISTED else group.probes()


def off(found: Any, wanted: Any, least: float = 1.0) -> float:
    """The largest difference, relative to the largest of the wanted numbers if that is more than `least`."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    require(found.shape == wanted.shape, f"an array of shape {wanted.shape} is wanted; got {found.shape}.")
    gap = np.abs(found - wanted).max(initial=0.0) / max(least, np.abs(wanted).max(initial=0.0))
    return float(gap) if np.isfinite(gap) else np.inf


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _unit_forms(unit, thetas, xs, weights):
    """What a unit says one by one and in batches, and both derivatives: in one program, compiled once for a unit."""
    formula = jnp.stack([jnp.stack([unit(theta, x) for x in xs], axis=-1) for theta in thetas])
    total = unit.weighted_sum(weights, thetas, xs)
    back = jax.vjp(lambda w, atoms: jnp.einsum("n,ncb->bc", w, unit.batched(atoms, xs)), jnp.ones(len(thetas)), thetas)
    return {
        "formula": formula,
        "batched": unit.batched(thetas, xs),
        "total": total,
        "pullback": unit.pullback(weights, thetas, xs, jnp.sin),
        "derivative": back[1](jnp.sin(total)),
    }


def _forms(unit: Unit) -> dict[str, Any]:
    draw = np.random.default_rng(7)
    thetas, xs = draw.normal(size=(PARTICLES, unit.dim)), draw.normal(size=(INPUTS, unit.inputs))
    return _unit_forms(unit, jnp.asarray(thetas), jnp.asarray(xs), jnp.asarray(WEIGHTS))


@law(Unit, 1e-13)
def batched_is_the_formula_at_every_particle_and_input(unit, on_x: Rep, on_y: Rep):
    """`batched` returns (n, c, b), the numbers that `__call__` gives one by one."""
    forms = _forms(unit)
    return off(forms["batched"], forms["formula"])


@law(Unit, 1e-12)
def the_weighted_sum_is_linear_in_the_weights(unit, on_x: Rep, on_y: Rep):
    """The weighted sum (b, c) of what the particles say, of weights of any sign."""
    forms = _forms(unit)
    return off(forms["total"], np.einsum("n,ncb->bc", WEIGHTS, forms["formula"]))


@law(Unit, 1e-12)
def the_pullback_is_the_derivative_of_the_weighted_sum(unit, on_x: Rep, on_y: Rep):
    """In the weights the potential, in the atoms the gradient: at unit weights, whatever the weights."""
    forms = _forms(unit)
    return max(off(found, wanted) for found, wanted in zip(forms["pullback"], forms["derivative"], strict=True))


@law(Unit, 1e-12)
def units_are_jointly_equivariant(unit, on_x: Rep, on_y: Rep):
    """`unit(M_g theta, on_x(g) x) = on_y(g) unit(theta, x)` for the action `joint(on_x, on_y)`, at every element."""
    refuse_unless_acting(unit, on_x, on_y)
    action = unit.joint(on_x, on_y)
    require(action.dim == unit.dim, f"the unit has {unit.dim} parameters, and its action is on R^{action.dim}.")
    return violations(unit, on_x, on_y, action, _elements(on_x)).max()


@eqx.filter_jit
def _value(model, cloud, xs):
    return model(cloud, xs)


def _drawn(model: Any) -> tuple[Cloud, Any]:
    draw = np.random.default_rng(0)
    cloud = Cloud(draw.normal(size=(4, model.dim)), draw.dirichlet(np.ones(4)))
    return cloud, jnp.asarray(draw.normal(size=(5, model.inputs)))


@law(Network, 1e-12)
def moved_clouds_answer_moved_inputs(model, on_x: Rep, on_y: Rep):
    """`network(M_g # mu, g x) = g network(mu, x)`, at every element."""
    (mu, xs), action, elements = _drawn(model), model.action(on_x, on_y), _elements(on_x)
    here = np.asarray(_value(model, mu, xs))
    there = [_value(model, mu.push(action(g)), xs @ on_x(g).T) for g in elements]
    return max(off(found, here @ on_y(g).T) for found, g in zip(there, elements, strict=True))


@law(Network, 0.0)
def a_linear_network_is_the_mean_of_its_particles_and_says_so(model, on_x: Rep, on_y: Rep):
    """One that claims to be `linear` is the mean of what its particles say, to 1e-13; another is not, by 1e-3."""
    mu, xs = _drawn(model)
    mean = jnp.einsum("n,ncb->bc", mu.weights, model.batched(mu.atoms, xs))
    gap = float(jnp.abs(mean - _value(model, mu, xs)).max())
    return float(gap >= 1e-13) if model.linear else float(gap <= 1e-3)


@law(Network, 1e-11)
def feedback_is_the_derivative(model, on_x: Rep, on_y: Rep):
    """`pullback` is the derivative in the weights, and in the atoms divided by their weights."""
    mu, xs = _drawn(model)
    potential, gradient = model.pullback(mu, xs, jnp.sin)
    slopes = jnp.sin(_value(model, mu, xs))
    slope = jax.grad(lambda mu: jnp.sum(slopes * model(mu, xs)))(mu)
    return max(off(potential, slope.weights), off(gradient * mu.weights[:, None], slope.atoms))
