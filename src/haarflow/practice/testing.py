"""Do the laws of a symmetry hold for a unit and a group of your own? How large the failure of each is.

`check_identities` measures the exact identities behind the three ways to use a symmetry. The cloud and the data are
drawn and moved by NumPy, and everything is measured in one compiled call: a case costs one compilation. In float64 a
failure above 1e-12 means that the unit's action or the group is not what it claims to be. An infinite group is given by
finitely many `elements` that make a subgroup of it. `training.py` has the same for statements about training.
"""

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.algebra.base import Group
from haarflow.algebra.groups import Icosahedral, PlanarRotations
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.doors import Count, door
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.symmetry import Averaged
from haarflow.measures.actions import action_matrices
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator, w2
from haarflow.models.networks import network
from haarflow.models.units import Unit
from haarflow.values import refuse_unless_affordable

Fault = Literal["none", "no inverse", "half orbit", "one-sided action", "unclosed data"]

QUARTER_TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])  # about the third axis

# The identities are exact whatever the compiler does, and their programs run once: spend nothing on speed.
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Case(NamedTuple):
    """A unit, how a group acts on its inputs and outputs, and the elements that stand for an infinite group."""

    on_x: Rep
    on_y: Rep
    unit: Unit
    elements: np.ndarray | None = None


def case(
    group: Group,
    unit: Unit,
    on_x: Rep | None = None,
    on_y: Rep | None = None,
    elements: np.ndarray | None = None,
) -> Case:
    """A case whose inputs are moved naturally, and whose outputs stay, unless told otherwise."""
    on_x = natural_rep(group) if on_x is None else on_x
    return Case(on_x, trivial_rep(group, unit.outputs) if on_y is None else on_y, unit, elements)


def all_rotations(unit: Unit, *, turns: int = 16, few: bool = False) -> Case:
    """All rotations of the plane or of space that a unit reads, by a finite subgroup that averages them exactly.

    `turns` equispaced rotations of the plane average every polynomial of degree below `turns` as all of SO(2) do, and
    the 60 rotations of the icosahedron those up to 5 as SO(3). `few` plants a mistake: half turns, and quarter turns
    about one axis.
    """
    group = SpecialOrthogonal(unit.inputs)
    if unit.inputs == 2:
        elements = PlanarRotations(2 if few else turns).elements()
    elif few:
        elements = np.stack([np.linalg.matrix_power(QUARTER_TURN, k) for k in range(4)])
    else:
        elements = Icosahedral().elements()
    on_y = natural_rep(group) if unit.outputs == unit.inputs else None
    return case(group, unit, on_y=on_y, elements=elements)


@door
def check_identities(
    key: PRNGKeyArray,
    unit: Unit,
    on_x: Rep,
    on_y: Rep,
    *,
    elements: Any = None,
    atoms: Count = 7,
    samples: Count = 5,
    fault: Fault = "none",
) -> dict[str, float]:
    """How far each exact identity of a unit under a group fails, by its name; `fault` plants a mistake to see it fail.

    `hf.practice.check_identities(key, hf.Dense(2, 2), swap, swap)` has eleven numbers near 1e-16.
    """
    action, into, out = unit.action(on_x, on_y), matrices(on_x, elements), matrices(on_y, elements)
    rows = float(atoms * unit.dim + samples * (unit.inputs + unit.outputs)) * len(into)
    refuse_unless_affordable("check_identities", 16 * rows, instead="Write fewer atoms and samples.")
    draw = generator(key)
    weights = draw.exponential(size=atoms)
    cloud = Cloud(draw.normal(size=(atoms, unit.dim)), weights / weights.sum())
    xs, ys = draw.normal(size=(samples, unit.inputs)), draw.normal(size=(samples, unit.outputs))
    one_sided = unit.joint(on_x, trivial_rep(on_x.group, unit.outputs)) if fault == "one-sided action" else action
    images = matrices(one_sided, elements)
    closed = moved(into, xs), moved(out, ys)
    if fault == "unclosed data":
        closed = closed[0][:-1], closed[1][:-1]
    kept = images[:-1] if fault == "half orbit" else images
    orbit = Cloud(moved(kept, np.asarray(cloud.atoms)), np.tile(weights / weights.sum(), len(kept)) / len(kept))
    averaged = Averaged(unit, jnp.asarray(into), jnp.asarray(out.swapaxes(1, 2) if fault == "no inverse" else out))
    projector = action.fixed_projector()
    arrays = jnp.asarray(images), jnp.asarray(projector)
    setting = _Setting(unit, averaged, *arrays, Sample(xs, ys), Sample(*closed), cloud, orbit)
    found = _measured(setting, *_functions(draw, closed[0], into, out))
    strong = cloud.project(projector)
    off = np.asarray(cloud.atoms) - np.asarray(strong.atoms)
    gap = abs(np.sqrt(np.asarray(cloud.weights) @ np.sum(off**2, axis=1)) - w2(cloud, strong))
    return {name: float(value) for name, value in found.items()} | {
        "SI distance: |z − Pz| is the transport to P # mu": float(gap)
    }


class _Setting(eqx.Module):
    """A case with its random cloud and data."""

    unit: Unit
    averaged: Averaged
    images: Float[Array, "g p p"]
    projector: Float[Array, "p p"]
    sample: Sample
    closed: Sample
    cloud: Cloud
    orbit: Cloud

    @property
    def risks(self) -> tuple[Risk, Risk, Risk]:
        """Plain, augmented by the whole group, and averaged."""
        return Risk(self.unit, self.sample), Risk(self.unit, self.closed), Risk(self.averaged, self.sample)


def matrices(rep: Rep, elements: np.ndarray | None) -> Float[np.ndarray, "g k k"]:
    """A representation at every element of the group, or at those that stand for it."""
    return action_matrices(rep, rep.dim, elements=elements)


def moved(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Every row moved by every matrix, element by element of the group: (g · n, k)."""
    return np.einsum("gij,nj->gni", table, rows).reshape(-1, rows.shape[1])


def _functions(draw: np.random.Generator, xs: np.ndarray, into: np.ndarray, out: np.ndarray):
    """A function with no symmetry at all, and its symmetrisation, on these inputs."""
    mix = draw.normal(size=(xs.shape[1], out.shape[1]))

    def target(inputs):
        return np.sin(inputs @ mix) + np.exp(-(inputs[:, :1] ** 2))

    turned = target(moved(into, xs)).reshape(len(into), len(xs), -1)
    return jnp.asarray(target(xs)), jnp.asarray(np.einsum("gji,gbj->bi", out, turned) / len(out))


@eqx.filter_jit(compiler_options=QUICK_TO_COMPILE)  # pyright: ignore[reportCallIssue]
def _measured(s: _Setting, target, ideal) -> dict[str, Array]:
    return _static(s, target, ideal) | _drifts(s)


def _static(s: _Setting, target, ideal) -> dict[str, Array]:
    """The identities of functions and risks."""
    plain, augmented, mean = s.risks
    risks, still = jax.vmap(lambda image: (plain(s.cloud.push(image)), augmented(s.cloud.push(image))))(s.images)
    weak = network(s.unit, s.orbit, s.closed.xs)
    return {
        "Prop 1: Q f_mu = f_(mu^G)": _gap(
            network(s.averaged, s.cloud, s.sample.xs), network(s.unit, s.orbit, s.sample.xs)
        ),
        "Prop 2: R^DA(mu) = mean_g R(M_g # mu)": _gap(augmented(s.cloud), risks.mean()),
        "Prop 2: R^FA(mu) = R(mu^G)": _gap(mean(s.cloud), plain(s.orbit)),
        "Prop 2: R(M_g # mu) = R(mu) on closed data": still.max() - still.min(),
        "Cor 1: |f_mu − f|² = |f − Qf|² + |f_mu − Qf|²": _gap(
            _mean_square(weak - target), _mean_square(target - ideal) + _mean_square(weak - ideal)
        ),
        "E^G: P = mean_g M_g": _gap(s.projector, s.images.mean(0)),
    }


def _drifts(s: _Setting) -> dict[str, Array]:
    """The identities of velocities, on the orbit of the cloud (WI) and on its projection (SI)."""
    _, augmented, mean = s.risks
    strong = s.cloud.push(s.projector)
    weak_da, weak_fa = (risk.variation(s.orbit).velocity for risk in (augmented, mean))
    plain, strong_da, strong_fa = (risk.variation(strong).velocity for risk in s.risks)
    rows = weak_da.reshape(-1, s.cloud.n, s.cloud.p)
    carried = jnp.einsum("gij,nj->gni", s.images[: len(rows)], rows[0])
    held = plain @ s.projector
    return {
        "Thm 3: closed data move orbits as orbits": _gap(rows, carried),
        "Thm 4: DA and FA pull alike on WI clouds": _gap(weak_da, weak_fa),
        "Thm 5: closed data keep E^G": _gap(strong_da @ s.projector, strong_da),
        "Thm 6: DA, FA and EA pull alike on SI clouds": jnp.maximum(_gap(strong_da, held), _gap(strong_fa, held)),
    }


def _mean_square(values):
    return jnp.mean(jnp.sum(values**2, axis=-1))


def _gap(a, b):
    return jnp.abs(a - b).max()
