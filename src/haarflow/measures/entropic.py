"""Entropic transport: the plan base · exp((f ⊕ g − cost) / reg) that keeps the margins of its base.

The base is a coupling that is known already: the product of two samples, or the plan of a problem nearby. Sums are of
`expm1`, so that what is small keeps its digits: told from the plan of one sample, the potentials of another that lies
close to it are right to rounding of their own size. The dual is climbed by damped Newton steps, solved by conjugate
gradients. Passes over all pairs are counted, and never more are made than the budget has.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from haarflow.measures.couplings import close_pairs
from haarflow.measures.samples import Pair

STORED = 25_000_000
"""Largest number of pairs whose costs and plan are kept in memory; beyond it they are made anew, block by block."""

BLOCK = 2**20
"""How many pairs are looked at together."""

CLOSE = 1e-6
"""Below this part of the mean square distance, the difference of three values is told from one of the plans."""

Rows = Callable[[slice], Float[np.ndarray, "r m"]]


class Spent(Exception):
    """The budget of passes is used up."""


class Budget:
    """How many passes over all pairs are left."""

    def __init__(self, passes: int):
        self.left = passes

    def spend(self) -> None:
        if self.left <= 0:
            raise Spent
        self.left -= 1


class Problem(NamedTuple):
    """The margins a and b of the base, and block by block the base and the costs."""

    a: Float[np.ndarray, " n"]
    b: Float[np.ndarray, " m"]
    base: Rows
    cost: Rows
    reg: float
    budget: Budget

    def blocks(self) -> list[slice]:
        size = max(BLOCK // len(self.b), 1)
        return [slice(at, at + size) for at in range(0, len(self.a), size)]

    def stored(self) -> bool:
        return len(self.a) * len(self.b) <= STORED


class Slope(NamedTuple):
    """Where a climb stands: how far a margin is off its target, and the product with the curvature."""

    off: Float[np.ndarray, " m"]
    target: Float[np.ndarray, " m"]
    curve: Callable[[np.ndarray], np.ndarray]
    sweep: float
    other: Float[np.ndarray, " n"]


def divergence(given: Pair, reg: float, spread: float, passes: int) -> float:
    """The entropic cost of the pair less half the cost of each sample with itself, for this reg.

    A common shift of one sample adds its square alone, so both are centred first. Where the three values nearly
    cancel, the answer is computed from the displacements of a short coupling instead.
    """
    means = given.a @ given.x, given.b @ given.y
    gap = float(np.sum((means[0] - means[1]) ** 2))
    budget = Budget(passes)
    if gap + (rest := _apart(given, means, reg, budget)) > CLOSE * spread:
        return gap + rest
    pairs = close_pairs(given)
    mass = pairs.mass / pairs.mass.sum()
    moves = given.y[pairs.j] - given.x[pairs.i]
    mean = mass @ moves
    return float(mean @ mean) + _displaced(given.x[pairs.i] - means[0], moves - mean, mass, reg, budget)


def _apart(given: Pair, means, reg: float, budget: Budget) -> float:
    x, y, a, b = given.x - means[0], given.y - means[1], given.a, given.b
    size = 2 * float(np.max(np.sum(x**2, axis=1)) + np.max(np.sum(y**2, axis=1)))
    slack = 1e-14 * min(reg, size)
    f, g = balance(product(x, a, y, b, reg, budget), size, slack)
    p, q = (mirror(product(z, w, z, w, reg, budget), slack) for z, w in ((x, a), (y, b)))
    return float(a @ (f - p) + b @ (g - q))


def _displaced(x, moves, mass, reg: float, budget: Budget) -> float:
    """The divergence of x and x + moves, both with these masses, from what the moves change in the costs."""
    own = product(x, mass, x, mass, reg, budget)
    squares, along = np.sum(moves**2, axis=1), np.sum(x * moves, axis=1)
    slack = 1e-12 * float(mass @ squares)
    known = own._replace(base=plan_rows(own, p := mirror(own, 1e-14 * reg), p))
    known = known._replace(a=(margin := np.concatenate([known.base(i).sum(axis=1) for i in own.blocks()])), b=margin)

    def one_moved(i: slice):
        return 2 * (along - x[i] @ moves.T) + squares

    def both_moved(i: slice):
        turned = along[i, None] + along - x[i] @ moves.T - moves[i] @ x.T
        return 2 * (turned - moves[i] @ moves.T) + squares[i, None] + squares

    u, w = balance(known._replace(cost=_remembered(own, one_moved)), reg, slack)
    s = mirror(known._replace(cost=_remembered(own, both_moved)), slack)
    return float(margin @ (u + w - s))


def product(x, a, y, b, reg: float, budget: Budget) -> Problem:
    """Transport of one sample to another, told from their product: the costs are |x − y|²."""
    sizes = np.sum(x**2, axis=1), np.sum(y**2, axis=1)
    fresh = Problem(a, b, lambda i: a[i, None] * b, lambda i: a, reg, budget)
    return fresh._replace(
        cost=_remembered(fresh, lambda i: np.maximum(sizes[0][i, None] + sizes[1] - 2 * x[i] @ y.T, 0.0))
    )


def plan_rows(problem: Problem, f, g) -> Rows:
    """The plan that two potentials make, block by block."""
    return _remembered(problem, lambda i: problem.base(i) * np.exp((f[i, None] + g - problem.cost(i)) / problem.reg))


def balance(problem: Problem, size: float, slack: float):
    """The potentials (f, g) that keep both margins, by way of larger regs, up to the size of the costs."""
    g = np.zeros_like(problem.b)
    halvings = max(int(np.ceil(np.log2(size / problem.reg))), 0) if size > 0 else 0
    for reg in problem.reg * 2.0 ** np.arange(halvings, 0, -1):
        g = _climb(g, problem._replace(reg=float(reg)), _cross, float(reg) / 100)[0]
    g, f = _climb(g, problem, _cross, slack)
    return f, g


def mirror(problem: Problem, slack: float) -> Float[np.ndarray, " n"]:
    """The one potential p = f = g of a problem that is its own mirror image."""
    return _climb(np.zeros_like(problem.b), problem, _mirrored, slack)[0]


def _climb(g, problem: Problem, look: Callable[[Problem, np.ndarray], Slope], slack: float):
    """Newton steps, damped where one would run far over the top, until what is left to gain is below the slack."""
    for _ in range(2):
        now = look(problem, g)
        g = g - now.sweep * problem.reg * np.log1p(np.maximum(now.off / now.target, -1 + 1e-15))
    now, damping = look(problem, g), 0.0
    while True:
        step = problem.reg * _solve(now, damping)
        gain = -float(now.off @ step)
        there = look(problem, g + step)
        if gain <= 2 * slack and damping == 0:
            return g + step, there.other
        if gain <= 2 * slack:
            damping = 0.0
        elif float(there.off @ step) <= 0.5 * gain:
            now, g, damping = there, g + step, damping / 8 if damping > 1e-9 else 0.0
        else:
            damping = max(8 * damping, 1e-4)


def _solve(now: Slope, damping: float) -> np.ndarray:
    """The step by conjugate gradients: to a tenth while far from the top, better when near."""
    size = np.sqrt(np.maximum(now.target + now.off, 1e-300))
    left = -now.off / size
    square = float(left @ left)
    goal = square * min(0.01, square**0.5)
    found, ahead = np.zeros_like(left), left
    for _ in range(len(left)):
        bent = now.curve(ahead / size) / size + damping * ahead if square > goal else ahead
        curvature = float(ahead @ bent)
        if square <= goal or curvature <= 1e-14 * float(ahead @ ahead):
            break
        found, left = found + square / curvature * ahead, left - square / curvature * bent
        square, before = float(left @ left), square
        ahead = left + square / before * ahead
    return found / size


def _cross(problem: Problem, g) -> Slope:
    """With f such that every row is right: how far the columns are off, from one pass."""
    problem.budget.spend()
    f, off = np.empty_like(problem.a), np.zeros_like(problem.b)
    for i in problem.blocks():
        base, scaled = problem.base(i), (g - problem.cost(i)) / problem.reg
        top = scaled.max(axis=1)
        scaled -= top[:, None]
        if scaled.min() > -0.5:
            rest = np.log1p(np.sum(base * np.expm1(scaled), axis=1) / problem.a[i])
        else:
            rest = np.log(np.sum(base * np.exp(scaled), axis=1) / problem.a[i])
        f[i] = -problem.reg * (top + rest)
        off += np.sum(base * np.expm1(scaled - rest[:, None]), axis=0)
    plan = plan_rows(problem, f, g)

    def curve(v):
        problem.budget.spend()
        parts = (plan(i) for i in problem.blocks())
        return (problem.b + off) * v - sum(
            (rows @ v / problem.a[i]) @ rows for i, rows in zip(problem.blocks(), parts, strict=True)
        )

    return Slope(off, problem.b, curve, 1.0, f)


def _mirrored(problem: Problem, p) -> Slope:
    """How far the rows are off under one potential for both sides."""
    problem.budget.spend()
    off = np.empty_like(problem.a)
    for i in problem.blocks():
        off[i] = np.sum(problem.base(i) * np.expm1((p[i, None] + p - problem.cost(i)) / problem.reg), axis=1)
    plan = plan_rows(problem, p, p)

    def curve(v):
        problem.budget.spend()
        return (problem.b + off) * v + np.concatenate([plan(i) @ v for i in problem.blocks()])

    return Slope(off, problem.a, curve, 0.5, p)


def _remembered(problem: Problem, rows: Rows) -> Rows:
    """The same blocks, made once where all of them fit in memory."""
    if not problem.stored():
        return rows
    known: dict[int, np.ndarray] = {}

    def look(i: slice):
        if i.start not in known:
            known[i.start] = rows(i)
        return known[i.start]

    return look
