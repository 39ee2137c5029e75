"""The best weights on given atoms: a convex program, solved by clarabel and certified by its own gradient."""

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from haarflow.algebra import fixed_space
from haarflow.algebra.reps import Rep
from haarflow.algebra.tables import match
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.learning.forms import QuadraticForm
from haarflow.learning.functionals import Functional
from haarflow.measures.clouds import Cloud, uniform
from haarflow.values import refuse_unless_affordable

T = TypeVar("T")
_TOLERANCE = 1e-6  # the largest gap, relative to the scale of the outputs, that is called an optimum


class Optimum(NamedTuple):
    """The cloud with the best weights, its value, and a proof: no weights are better by more than `gap`."""

    cloud: Cloud
    value: float
    gap: float


@door
def optimum(
    functional: Functional, atoms: Float[Array, "n p"] | Float[np.ndarray, "n p"], *, invariant: Rep | None = None
) -> Optimum:
    """The least value over all weights on these atoms, of a square Risk over a whole Sample, penalties added or not.

    A ReluRisk takes the place of the Risk for the optimum over the whole sphere, without a sample; so does any
    functional that says by its method `quadratic_form` what it is as a function of the weights.

    With `invariant`, over the weakly invariant laws only: the atoms must be a set that the representation maps to
    itself, and those of one orbit share their weight. The gap is `∫Psi dmu − min Psi`, an upper bound on the
    distance to the optimum by convexity. Value and gap are computed in float64 and are those of the atoms and weights
    that are returned, rounded as these are in float32.
    """
    cloud = uniform(atoms)
    with jax.enable_x64(True):
        form = _doubled(functional).quadratic_form(_doubled(cloud.atoms))
    if not len(form.targets):
        raise Refusal(
            "An optimum is that of a functional with a square in it, plus penalties; got "
            f"{' + '.join(type(part).__name__ for part in functional.parts)}. Write Risk(unit, sample, 'half-square')."
        )
    labels = np.arange(cloud.n) if invariant is None else orbit_labels(invariant, np.asarray(atoms, float))
    sizes = np.bincount(labels)
    refuse_unless_affordable(
        f"An optimum over {cloud.n} atoms", 8.0 * cloud.n * len(sizes), instead="Write fewer atoms, on a coarser grid."
    )
    spread = np.zeros((cloud.n, len(sizes)))
    spread[np.arange(cloud.n), labels] = 1 / sizes[labels]
    tied = form.tied(spread)
    shares = _solve(tied)
    best = Cloud(cloud.atoms, spread @ shares)
    if best.weights.dtype != np.float64:
        shares = np.bincount(labels, np.asarray(best.weights, float))
    slope = tied.slope(shares)
    gap, value = float(slope @ shares - slope.min()), tied.value(shares)
    _refuse_unless_reached(gap, form)
    return Optimum(best, value, max(gap, 0.0))


@door
def orbit_labels(rep: Rep, atoms: Float[np.ndarray, "n p"]) -> Int[np.ndarray, " n"]:
    """The orbit of each atom, numbered from 0; the atoms must be a set of different points that the group permutes."""
    if rep.dim != atoms.shape[1]:
        raise Refusal(
            f"Invariant weights need a representation on the atoms; got one of size {rep.dim} and atoms in "
            f"R^{atoms.shape[1]}. Write unit.action(on_x, on_y)."
        )
    images = [match(atoms, np.asarray(rep.apply(g, atoms)), 1e-6) for g in rep.group.generators()]
    table = np.stack([np.arange(len(atoms)), *images])
    if len(rep.group.lie_algebra()) or (table < 0).any() or any(len(set(row)) < len(row) for row in table):
        raise Refusal(
            f"Invariant weights need atoms that {rep} maps to each other, each atom once; got {len(atoms)} atoms "
            "that it does not. Close the grid: np.unique(cloud.orbit(rep).atoms.round(9), axis=0)."
        )
    return fixed_space.orbits(table, np.ones(table.shape, int))[0]


def _doubled(tree: T) -> T:
    """The same numbers in float64: what is certified is not what float32 makes of a functional."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, tree)


def _short(form: QuadraticForm) -> QuadraticForm:
    """A very tall form in n + 1 rows, up to a constant: a rotation of the rows changes no length.

    The rows of the corner are of many sizes, which the solver likes less: so only where it saves much.
    """
    m, n = form.features.shape
    if m <= 4 * (n + 1):
        return form
    corner = np.asarray(np.linalg.qr(np.column_stack([form.features, form.targets]), mode="r"))
    return replace(form, features=corner[:, :n], targets=corner[:, n])


def _solve(tall: QuadraticForm) -> Float[np.ndarray, " n"]:
    """The weights, by an interior-point method; the residuals are variables, so that nothing is squared."""
    import clarabel as compiled
    from scipy.sparse import block_array, csc_array, eye_array

    clarabel: Any = compiled
    form = _short(tall)
    m, n = form.features.shape
    scale = max(np.abs(form.features).max(), np.abs(form.targets).max(), 1e-300)
    unit = 2 * form.factor * scale**2 * m
    curvature = block_array([[csc_array((n, n)), None], [None, eye_array(m) / m]], format="csc")
    rows = [
        [csc_array(form.features / scale), -eye_array(m)],
        [csc_array(np.ones((1, n))), None],
        [-eye_array(n), None],
    ]
    bounds = np.concatenate([form.targets / scale, [1.0], np.zeros(n)])
    cones = [clarabel.ZeroConeT(m + 1), clarabel.NonnegativeConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 200
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-14
    costs = np.concatenate([form.costs / unit, np.zeros(m)])
    solver = clarabel.DefaultSolver(curvature, costs, block_array(rows, format="csc"), bounds, cones, settings)
    weights = np.maximum(np.array(solver.solve().x)[:n], 0.0)
    return weights / weights.sum()


def _refuse_unless_reached(gap: float, form: QuadraticForm) -> None:
    size = form.factor * np.sum(form.targets**2) + np.abs(form.costs).max(initial=0.0) + 1e-300
    if not gap <= _TOLERANCE * size:
        raise Refusal(
            f"An optimum is proved by a duality gap below {_TOLERANCE * size:.1e}; the solver came to {gap:.1e}. "
            "Drop atoms that nearly coincide, or add a Penalty."
        )
