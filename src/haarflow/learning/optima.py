"""The best weights on given atoms: a convex program, solved by clarabel and certified by its own gradient."""

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from haarflow.algebra import fixed
from haarflow.algebra.reps import Rep
from haarflow.algebra.tables import match
from haarflow.doors import door, refuse_unless_affordable
from haarflow.errors import Refusal
from haarflow.learning.data import whole_sample
from haarflow.learning.risks import Functional, Penalty, Risk
from haarflow.learning.sphere import ReluRisk, relu_kernel
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.fits import refuse_unless_particles
from haarflow.models.units import Unit

T = TypeVar("T")
SQUARES = {"half-square": 0.5, "square": 1.0}
_TOLERANCE = 1e-6  # the largest gap, relative to the scale of the outputs, that is called an optimum


class Optimum(NamedTuple):
    """The cloud with the best weights, its value, and a proof: no weights are better by more than `gap`."""

    cloud: Cloud
    value: float
    gap: float


class Program(NamedTuple):
    """`factor · mean_b |features w − targets|² + costs · w` over the simplex; a row for each output of each input."""

    features: Float[np.ndarray, "m n"]
    targets: Float[np.ndarray, " m"]
    costs: Float[np.ndarray, " n"]
    factor: float

    def value(self, weights: Float[np.ndarray, " n"]) -> float:
        """The functional at these weights."""
        return float(self.factor * np.sum((self.features @ weights - self.targets) ** 2) + self.costs @ weights)

    def slope(self, weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Its gradient: the first variation at each atom."""
        return 2 * self.factor * self.features.T @ (self.features @ weights - self.targets) + self.costs


@door
def optimum(
    functional: Functional, atoms: Float[Array, "n p"] | Float[np.ndarray, "n p"], *, invariant: Rep | None = None
) -> Optimum:
    """The least value over all weights on these atoms, of a square Risk over a whole Sample, penalties added or not.

    A ReluRisk takes the place of the Risk for the optimum over the whole sphere, without a sample.

    With `invariant`, over the weakly invariant laws only: the atoms must be a set that the representation maps to
    itself, and those of one orbit share their weight. The gap is `∫Psi dmu − min Psi`, an upper bound on the
    distance to the optimum by convexity. Value and gap are computed in float64 and are those of the atoms and weights
    that are returned, rounded as these are in float32.
    """
    cloud = uniform(atoms)
    with jax.enable_x64(True):
        program = _program(_doubled(functional), _doubled(cloud))
    labels = np.arange(cloud.n) if invariant is None else orbit_labels(invariant, np.asarray(atoms, float))
    sizes = np.bincount(labels)
    refuse_unless_affordable(
        f"An optimum over {cloud.n} atoms", 8.0 * cloud.n * len(sizes), instead="Write fewer atoms, on a coarser grid."
    )
    spread = np.zeros((cloud.n, len(sizes)))
    spread[np.arange(cloud.n), labels] = 1 / sizes[labels]
    tied = program._replace(features=program.features @ spread, costs=program.costs @ spread)
    shares = _solve(tied)
    best = Cloud(cloud.atoms, spread @ shares)
    if best.weights.dtype != np.float64:
        shares = np.bincount(labels, np.asarray(best.weights, float))
    slope = tied.slope(shares)
    gap, value = float(slope @ shares - slope.min()), tied.value(shares)
    _refuse_unless_reached(gap, program)
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
    return fixed.orbits(table, np.ones(table.shape))[0]


def _doubled(tree: T) -> T:
    """The same numbers in float64: what is certified is not what float32 makes of a functional."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, tree)


def _program(functional: Functional, cloud: Cloud) -> Program:
    parts = functional.parts
    risks = [part for part in parts if isinstance(part, Risk | ReluRisk)]
    penalties = [part for part in parts if isinstance(part, Penalty)]
    square = len(risks) == 1 and (isinstance(risks[0], ReluRisk) or risks[0].loss in SQUARES)
    if not square or len(risks) + len(penalties) != len(parts):
        raise Refusal(
            "An optimum is that of one Risk with a square loss, plus penalties; got "
            f"{' + '.join(type(part).__name__ for part in parts)}. Write Risk(unit, sample, 'half-square')."
        )
    costs = sum((np.asarray(one.variation(cloud).potential, float) for one in penalties), np.zeros(cloud.n))
    risk = risks[0]
    return _sphere(risk, cloud, costs) if isinstance(risk, ReluRisk) else _sampled(risk, cloud, costs)


def _sampled(risk: Risk, cloud: Cloud, costs: Float[np.ndarray, " n"]) -> Program:
    data = whole_sample("An optimum is that of a Risk", risk.data, "Write Sample(xs, ys).")
    refuse_unless_particles(risk.unit, cloud)
    refuse_unless_affordable(
        f"An optimum over {cloud.n} atoms and {data.ys.size} labels",
        4 * 8.0 * cloud.n * data.ys.size,
        instead="Write fewer atoms, on a coarser grid, or fewer samples.",
    )
    outputs = np.asarray(_outputs(risk.unit, cloud.atoms, data.xs), float)
    targets = np.asarray(data.ys, float).T.ravel()
    return Program(outputs.reshape(cloud.n, -1).T, targets, costs, SQUARES[risk.loss] / len(data.xs))


def _sphere(risk: ReluRisk, cloud: Cloud, costs: Float[np.ndarray, " n"]) -> Program:
    """Units as vectors with the same inner products: the root of their Gram matrix, teacher and all."""
    if cloud.p != risk.teacher.p:
        raise Refusal(
            f"The particles of this ReluRisk are in R^{risk.teacher.p}, as those of its teacher; got atoms in "
            f"R^{cloud.p}. Write atoms of shape (n, {risk.teacher.p})."
        )
    together = jnp.concatenate([cloud.atoms, risk.teacher.atoms])
    values, frame = np.linalg.eigh(np.asarray(relu_kernel(together, together), float))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * frame.T
    return Program(root[:, : cloud.n], root[:, cloud.n :] @ np.asarray(risk.teacher.weights, float), costs, 0.5)


@eqx.filter_jit
def _outputs(unit: Unit, atoms, xs):
    return unit.many(atoms, xs)


def _short(program: Program) -> Program:
    """A very tall program in n + 1 rows, up to a constant: a rotation of the rows changes no length.

    The rows of the corner are of many sizes, which the solver likes less: so only where it saves much.
    """
    m, n = program.features.shape
    if m <= 4 * (n + 1):
        return program
    corner = np.asarray(np.linalg.qr(np.column_stack([program.features, program.targets]), mode="r"))
    return program._replace(features=corner[:, :n], targets=corner[:, n])


def _solve(tall: Program) -> Float[np.ndarray, " n"]:
    """The weights, by an interior-point method; the residuals are variables, so that nothing is squared."""
    import clarabel as compiled
    from scipy.sparse import block_array, csc_array, eye_array

    clarabel: Any = compiled
    program = _short(tall)
    m, n = program.features.shape
    scale = max(np.abs(program.features).max(), np.abs(program.targets).max(), 1e-300)
    unit = 2 * program.factor * scale**2 * m
    curvature = block_array([[csc_array((n, n)), None], [None, eye_array(m) / m]], format="csc")
    rows = [
        [csc_array(program.features / scale), -eye_array(m)],
        [csc_array(np.ones((1, n))), None],
        [-eye_array(n), None],
    ]
    bounds = np.concatenate([program.targets / scale, [1.0], np.zeros(n)])
    cones = [clarabel.ZeroConeT(m + 1), clarabel.NonnegativeConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 200
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-14
    costs = np.concatenate([program.costs / unit, np.zeros(m)])
    solver = clarabel.DefaultSolver(curvature, costs, block_array(rows, format="csc"), bounds, cones, settings)
    weights = np.maximum(np.array(solver.solve().x)[:n], 0.0)
    return weights / weights.sum()


def _refuse_unless_reached(gap: float, program: Program) -> None:
    size = program.factor * np.sum(program.targets**2) + np.abs(program.costs).max(initial=0.0) + 1e-300
    if not gap <= _TOLERANCE * size:
        raise Refusal(
            f"An optimum is proved by a duality gap below {_TOLERANCE * size:.1e}; the solver came to {gap:.1e}. "
            "Drop atoms that nearly coincide, or add a Penalty."
        )
