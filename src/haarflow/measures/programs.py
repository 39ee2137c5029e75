"""The convex programs of (f, Γ)-divergences: the least W_Γ(Q, η) + D_f(η‖P) over laws η, by clarabel.

W_Γ is what the discriminators alone would see: transport for Lipschitz functions, a norm for a ball of features. The
law η lies on the atoms of P, and on those of Q where mass without P costs finitely much: it stays there. The
multipliers make a witness; whoever calls checks it, so that nothing rests on the solver's own word.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from haarflow.measures.generators import Generator

NEAREST = 12
"""Pairs of atoms that each atom begins with; those whose price is too low are added."""

ROUNDS = 40


class Program:
    """Variables η, then the auxiliaries of f, then those of Γ; rows are added cone by cone."""

    def __init__(self, generator: Generator, b: Float[np.ndarray, " m"], more: int):
        import clarabel as compiled

        self.clarabel: Any = compiled
        self.m, self.rows, self.values, self.cones = len(b), [], [], []
        bent = generator.quadratic(b)
        self.each, cones = (0, []) if bent is not None else generator.cones(self.clarabel, b)
        self.first = self.m * (1 + self.each)
        self.size = self.first + more
        self.cost = np.zeros(self.size)
        self.curvature = np.zeros(self.size)
        if bent is not None:
            self.curvature[: self.m] = bent
        else:
            self.cost[self.m : self.first] = np.tile(generator.weight(), self.m)
            self._add_generator(cones)

    def _add_generator(self, cones: list) -> None:
        rows, columns, entries, constants = [], [], [], []
        per_atom = len(cones) // self.m
        for place, (_, lines) in enumerate(cones):
            j = place // per_atom
            for eta, auxiliaries, constant in lines:
                for column, entry in [(j, eta), *((self.m + self.each * j + k, c) for k, c in enumerate(auxiliaries))]:
                    if entry:
                        rows.append(len(constants))
                        columns.append(column)
                        entries.append(-float(entry))
                constants.append(float(constant))
        shape = len(constants), self.size
        self.rows.append(_table(entries, rows, columns, shape))
        self.values.append(np.array(constants))
        self.cones += [cone for cone, _ in cones]

    def add(self, matrix: Any, values: np.ndarray, cone: Any) -> slice:
        """Rows values − matrix z in a cone; where their multipliers stand."""
        start = sum(len(one) for one in self.values)
        self.rows.append(matrix)
        self.values.append(values)
        self.cones.append(cone)
        return slice(start, start + len(values))

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """The variables and the multipliers of all rows."""
        from scipy.sparse import csc_array, diags_array, vstack

        settings = self.clarabel.DefaultSettings()
        settings.verbose, settings.max_iter = False, 400
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        # Power and exponential cones stop short of that with the usual settings: equations are solved more exactly.
        settings.min_terminate_step_length, settings.static_regularization_constant = 1e-8, 1e-12
        settings.iterative_refinement_max_iter = 50
        settings.iterative_refinement_reltol = settings.iterative_refinement_abstol = 1e-15
        solver = self.clarabel.DefaultSolver(
            csc_array(diags_array(self.curvature)),
            self.cost,
            csc_array(vstack(self.rows)),
            np.concatenate(self.values),
            self.cones,
            settings,
        )
        solution = solver.solve()
        return np.array(solution.x), np.array(solution.z)


def transported(
    generator: Generator, a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"], costs: Float[np.ndarray, "n m"]
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """For transport at these costs: the best plan (n, m), the mass (n,) that stays, and the potential (n,) on Q.

    Few pairs carry mass, so the program begins with the nearest ones and adds those that its prices ask for.
    """
    active = nearest_pairs(costs)
    slack = 1e-10 * max(float(costs.max()), 1e-300)
    for _ in range(ROUNDS):
        plan, stay, potential, prices = _on_pairs(generator, a, b, costs, active)
        dear = (potential[:, None] - prices - costs > slack) & ~active
        if not dear.any():
            return plan, stay, potential
        active |= dear
    return _on_pairs(generator, a, b, costs, np.ones_like(active))[:3]


def nearest_pairs(costs: Float[np.ndarray, "n m"]) -> Bool[np.ndarray, "n m"]:
    """The pairs that are among the nearest of one of their atoms."""
    active = np.zeros(costs.shape, bool)
    k = min(NEAREST, *costs.shape)
    np.put_along_axis(active, np.argpartition(costs, k - 1, axis=1)[:, :k], True, axis=1)
    np.put_along_axis(active, np.argpartition(costs, k - 1, axis=0)[:k], True, axis=0)
    return active


def _on_pairs(generator: Generator, a, b, costs, active):
    i, j = np.nonzero(active)
    n, m, pairs = len(a), len(b), len(i)
    stays = n if np.isfinite(generator.limit) else 0
    program = Program(generator, b, pairs + stays)
    first, whole = program.first, pairs + stays
    program.cost[first : first + pairs] = costs[active]
    program.cost[first + pairs :] = generator.limit if stays else 0.0
    here = first + np.arange(whole)
    zero, free = program.clarabel.ZeroConeT, program.clarabel.NonnegativeConeT
    from_x = np.concatenate([i, np.arange(stays)])
    rows = program.add(_table(np.ones(whole), from_x, here, (n, program.size)), a, zero(n))
    to_y = _table(
        np.concatenate([np.ones(pairs), -np.ones(m)]),
        np.concatenate([j, np.arange(m)]),
        np.concatenate([here[:pairs], np.arange(m)]),
        (m, program.size),
    )
    columns = program.add(to_y, np.zeros(m), zero(m))
    program.add(_table(-np.ones(whole), np.arange(whole), here, (whole, program.size)), np.zeros(whole), free(whole))
    found, multipliers = program.solve()
    masses = np.maximum(found[first:], 0.0)
    masses *= (a / np.maximum(np.bincount(from_x, masses, n), 1e-300))[from_x]
    plan = np.zeros(costs.shape)
    plan[active] = masses[:pairs]
    return plan, masses[pairs:] if stays else np.zeros(n), -multipliers[rows], multipliers[columns]


def normed(
    generator: Generator, a: Float[np.ndarray, " n"], b: Float[np.ndarray, " m"], factor: Float[np.ndarray, "r k"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"], Float[np.ndarray, " k"]]:
    """For the norm of the features (n + m, k) of all atoms: the mass (n,) that stays on Q, η (m,) on P, and a witness.

    The witness is a vector of length up to one: its products with the features are the best discriminator.
    """
    from scipy.sparse import csc_array

    n, m, k = len(a), len(b), factor.shape[1]
    stays = n if np.isfinite(generator.limit) else 0
    program = Program(generator, b, stays + 1)
    program.cost[program.first : program.first + stays] = generator.limit if stays else 0.0
    program.cost[-1] = 1.0
    places = np.concatenate([np.arange(m), program.first + np.arange(stays)])
    whole = _table(np.ones(m + stays), np.zeros(m + stays, int), places, (1, program.size))
    program.add(whole, np.ones(1), program.clarabel.ZeroConeT(1))
    positive = _table(-np.ones(m + stays), np.arange(m + stays), places, (m + stays, program.size))
    program.add(positive, np.zeros(m + stays), program.clarabel.NonnegativeConeT(m + stays))
    cone = np.zeros((1 + k, program.size))
    cone[0, -1] = -1.0
    cone[1:, places] = np.concatenate([factor[n:], factor[:stays]]).T
    values = np.concatenate([[0.0], a @ factor[:n]])
    norm = program.add(csc_array(cone), values, program.clarabel.SecondOrderConeT(1 + k))
    found, multipliers = program.solve()
    masses = np.maximum(found[places], 0.0)
    masses /= masses.sum()
    along = -multipliers[norm][1:]
    along /= max(1.0, float(np.linalg.norm(along)))
    return (masses[m:] if stays else np.zeros(n)), masses[:m], along


def _table(entries: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import coo_array

    return coo_array((entries, (rows, columns)), shape=shape)
