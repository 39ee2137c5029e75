"""What fits a unit: particles, inputs and representations of its sizes; a sentence where something does not."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from haarflow.algebra.reps import Rep, one_group
from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud
from haarflow.values import numbers, said


def refuse_unless_cloud(owner: str, cloud: Any, *, stacks: bool = False):
    """A sentence, where something else stands in the place of one cloud, or of a stack of them if they are welcome."""
    if not isinstance(cloud, Cloud):
        raise Refusal(f"{owner} takes a Cloud of particles; got {said(cloud)}. Write uniform(atoms).")
    if cloud.atoms.ndim != 2 and not stacks:
        raise Refusal(
            f"{owner} takes one Cloud at a time; got a stack with atoms {cloud.atoms.shape}. "
            "Write jax.vmap over the clouds."
        )


def refuse_unless_particles(unit: Any, cloud: Any, *, stacks: bool = False):
    """A sentence, where the atoms of a cloud are not parameters of the unit, or particles of the network."""
    refuse_unless_cloud(f"A {unit.title}", cloud, stacks=stacks)
    if unit.dim not in (None, cloud.p):
        raise Refusal(
            f"A {unit.title} has {unit.dim} parameters; got atoms in R^{cloud.p}. Write atoms of shape (n, {unit.dim})."
        )


def inputs_for(unit: Any, cloud: Cloud, xs: Any) -> Float[Array, "b d"]:
    """The inputs of a unit or network as an array (b, d), in the precision of the cloud, which the outputs have."""
    xs = numbers(f"The input of a {unit.title}", xs)
    if xs.ndim != 2 or unit.inputs not in (None, xs.shape[1]):
        size = "d" if unit.inputs is None else unit.inputs
        raise Refusal(
            f"A {unit.title} takes inputs of shape (b, {size}); got {xs.shape}. "
            f"Write one input of {size} numbers in each row, x[None] for a single one."
        )
    return xs.astype(cloud.atoms.dtype)


def shapes_of(rule: str, instead: str, function: Callable, *arguments: Any) -> Any:
    """What a caller's function returns, in shapes alone; its errors end the sentence of the rule that it breaks."""
    try:
        return jax.eval_shape(function, *arguments)
    except Refusal:
        raise
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        said_first = str(error).strip().split("\n")[0].rstrip(".")
        raise Refusal(f"{rule}; got an error, {said_first}. {instead}") from error


def refuse_unless_acting(unit: Any, on_x: Rep, on_y: Rep):
    """A sentence, where two representations are not those of one group on the inputs and outputs of a unit."""
    one_group(f"A {unit.title}", on_x, on_y)
    if (on_x.dim, on_y.dim) != (unit.inputs, unit.outputs):
        raise Refusal(
            f"A {unit.title} from R^{unit.inputs} to R^{unit.outputs} needs representations of those "
            f"sizes; got on_x of size {on_x.dim} and on_y of size {on_y.dim}. "
            f"For an invariant output write on_y=trivial_rep(group, {unit.outputs})."
        )


def refuse_unless_equivariant(unit: Any, on_x: Rep, on_y: Rep, on_theta: Rep):
    """A sentence with the group element and the size of the violation, where sampling shows one."""
    one_group(f"The action of a {unit.title}", on_x, on_theta)
    if on_theta.dim != unit.dim:
        raise Refusal(
            f"A {unit.title} has {unit.dim} parameters; got an action on R^{on_theta.dim}. "
            f"Write an action of size {unit.dim}."
        )
    elements = on_x.group.probes()
    tolerance = 1e-8 if jax.config.read("jax_enable_x64") else 1e-3
    sizes = violations(unit, on_x, on_y, on_theta, elements)
    if not (sizes <= tolerance).all():
        worst = int(np.argmax(np.where(np.isnan(sizes), np.inf, sizes)))
        raise Refusal(
            f"A {unit.title} must satisfy unit(M_g theta, g x) = g unit(theta, x); "
            f"got a relative violation of {sizes[worst]:.2g} at g = {np.round(elements[worst], 4).tolist()}. "
            f"Write an action on the parameters that undoes g, or use a smaller group."
        )


def violations(
    unit: Any, on_x: Rep, on_y: Rep, on_theta: Rep, elements: Float[np.ndarray, "g e e"]
) -> Float[np.ndarray, " g"]:
    """The largest relative failure of joint equivariance at each element, over fixed particles and inputs.

    Drawn and moved by NumPy, and evaluated in one compiled call.
    """
    draw = np.random.default_rng(0)
    thetas, xs = draw.normal(size=(16, unit.dim)), draw.normal(size=(16, unit.inputs))
    moved_thetas = np.stack([thetas, *(np.asarray(on_theta.apply(g, thetas)) for g in elements)])
    moved_xs = np.stack([xs, *(np.asarray(on_x.apply(g, xs)) for g in elements)])
    here, *there = np.asarray(_evaluated(unit, moved_thetas, moved_xs))
    expected = [np.asarray(on_y.apply(g, here.swapaxes(1, 2))).swapaxes(1, 2) for g in elements]
    gaps = [np.abs(found - wanted).max() for found, wanted in zip(there, expected, strict=True)]
    return np.array(gaps, float) / (np.abs(here).max() + 1e-30)


@eqx.filter_jit
def _evaluated(unit: Any, thetas, xs):
    return jax.vmap(unit.batched)(jnp.asarray(thetas, float), jnp.asarray(xs, float))


def invariance_gap(function: Callable, rep: Rep, point: Float[np.ndarray, " k"]) -> float:
    """How far a function of R^k is from invariant at a point, relative to its size there."""
    images = np.concatenate([point[None], rep.action().apply(point)])
    values = np.asarray(jax.jit(jax.vmap(function))(images))
    return float(np.abs(values - values[0]).max() / max(1.0, abs(values[0])))
