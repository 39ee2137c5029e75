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

LONG = 50
"""Steps that change the potentials by more than this, in regs, are no longer near the exponential they come from."""

Rows = Callable[[slice], Float[np.ndarray, "r m"]]
Costs = Float[np.ndarray, "_ _"]


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
    """The margins a and b of the base, and block by block the base, its logarithm and the costs.

    `close` says that the base is a plan of about these costs: small changes are to keep their digits, and the base
    may be too small somewhere to be told from zero.
    """

    a: Float[np.ndarray, " n"]
    b: Float[np.ndarray, " m"]
    base: Rows
    log: Rows
    cost: Rows
    reg: float
    budget: Budget
    close: bool = False

    def change(self, i: slice, z: Float[np.ndarray, "r m"]) -> Float[np.ndarray, "r m"]:
        """base · (exp(z) − 1), with the digits of small z."""
        found = self.base(i) * np.expm1(z)
        if self.close and (far := np.abs(z) > 0.5).any():
            found[far] = np.exp(self.log(i)[far] + z[far]) - self.base(i)[far]
        return found

    def blocks(self) -> list[slice]:
        size = max(BLOCK // len(self.b), 1)
        return [slice(at, at + size) for at in range(0, len(self.a), size)]

    @property
    def pairs(self) -> int:
        return len(self.a) * len(self.b)


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
    with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is one that is damped
        return _divergence(given, reg, spread, Budget(passes))


def _divergence(given: Pair, reg: float, spread: float, budget: Budget) -> float:
    means = given.a @ given.x, given.b @ given.y
    gap = float(np.sum((means[0] - means[1]) ** 2))
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
    f, g = balance(direct_product(x, a, y, b, reg, budget), size, slack)
    p, q = (mirror(direct_product(z, w, z, w, reg, budget), slack) for z, w in ((x, a), (y, b)))
    return float(a @ (f - p) + b @ (g - q))


def divergence_of_costs(a, b, cross: Costs, own: tuple[Costs, Costs], reg: float, passes: int) -> float:
    """The same for costs (n, m), (n, n) and (m, m) of your own; digits are lost where the three values cancel."""
    budget, slack = Budget(passes), 1e-14 * min(reg, float(cross.max()) or reg)
    with np.errstate(over="ignore", invalid="ignore"):
        f, g = balance(_of_costs(a, b, cross, reg, budget), float(cross.max()), slack)
        p, q = (mirror(_of_costs(w, w, costs, reg, budget), slack) for w, costs in zip((a, b), own, strict=True))
    return float(a @ (f - p) + b @ (g - q))


def _of_costs(a, b, costs: Costs, reg: float, budget: Budget) -> Problem:
    return _product(a, b, lambda i: costs[i], reg, budget)


def _displaced(x, moves, mass, reg: float, budget: Budget) -> float:
    """The divergence of x and x + moves, both with these masses, from what the moves change in the costs."""
    own = direct_product(x, mass, x, mass, reg, budget)
    squares, along = np.sum(moves**2, axis=1), np.sum(x * moves, axis=1)
    slack = 1e-12 * float(mass @ squares)
    known = plan_problem(own, mirror(own, 1e-14 * reg))

    def one_moved(i: slice):
        return 2 * (along - x[i] @ moves.T) + squares

    def both_moved(i: slice):
        turned = along[i, None] + along - x[i] @ moves.T - moves[i] @ x.T
        return 2 * (turned - moves[i] @ moves.T) + squares[i, None] + squares

    u, w = balance(known._replace(cost=_remembered(own.pairs, one_moved)), reg, slack)
    s = mirror(known._replace(cost=_remembered(own.pairs, both_moved)), slack)
    return float(known.a @ (u + w - s))


def direct_product(x, a, y, b, reg: float, budget: Budget) -> Problem:
    """Transport of one sample to another, told from their product: the costs are |x − y|²."""
    sizes = np.sum(x**2, axis=1), np.sum(y**2, axis=1)

    def cost(i: slice):
        return np.maximum(sizes[0][i, None] + sizes[1] - 2 * x[i] @ y.T, 0.0)

    return _product(a, b, _remembered(len(a) * len(b), cost), reg, budget)


def _product(a, b, cost: Rows, reg: float, budget: Budget) -> Problem:
    logs = np.log(a), np.log(b)
    return Problem(
        a,
        b,
        base=lambda i: a[i, None] * b,
        log=lambda i: logs[0][i, None] + logs[1],
        cost=cost,
        reg=reg,
        budget=budget,
    )


def plan_problem(own: Problem, p: Float[np.ndarray, " n"]) -> Problem:
    """What is told from the plan that the potential makes; its margins are the plan's, to the last digit."""
    log = _remembered(own.pairs, lambda i: own.log(i) + (p[i, None] + p - own.cost(i)) / own.reg)
    base = _remembered(own.pairs, lambda i: np.exp(log(i)))
    margin = np.concatenate([base(i).sum(axis=1) for i in own.blocks()])
    return own._replace(a=margin, b=margin, base=base, log=log, close=True)


def balance(problem: Problem, size: float, slack: float):
    """The potentials (f, g) that keep both margins, by way of larger regs, up to the size of the costs."""
    g = np.zeros_like(problem.b)
    halvings = max(int(np.ceil(np.log2(size / problem.reg))), 0) if size > 0 else 0
    for reg in problem.reg * 2.0 ** np.arange(halvings, 0, -1):
        g = _climb(g, problem._replace(reg=float(reg)), _cross, float(reg) / 100, patience=1.0)[0]
    g, f = _climb(g, problem, _cross, slack)
    return f, g


def mirror(problem: Problem, slack: float) -> Float[np.ndarray, " n"]:
    """The one potential p = f = g of a problem that is its own mirror image."""
    return _climb(np.zeros_like(problem.b), problem, _mirrored, slack)[0]


def _climb(g, problem: Problem, look: Callable[[Problem, np.ndarray], Slope], slack: float, patience: float = 0.0):
    """Newton steps, damped where one would run far over the top, until what is left to gain is below the slack.

    A damped step sees less to gain than there is: it ends the climb when it is damped by no more than the patience.
    """
    for _ in range(2):
        now = look(problem, g)
        g = g - now.sweep * problem.reg * np.log1p(np.maximum(now.off / now.target, -1 + 1e-15))
    now, damping = look(problem, g), 0.0
    while True:
        step = problem.reg * _solve(now, damping)
        gain = -float(now.off @ step)
        there = look(problem, g + step)
        settled = gain <= 2 * slack
        over = np.ptp(step) > LONG * problem.reg or not float(there.off @ step) <= 0.5 * gain
        if settled and (damping <= patience or over):
            return g + step, there.other
        if over:
            damping = max(8 * damping, 1e-4)
        else:
            now, g, damping = there, g + step, 0.0 if settled or damping < 1e-6 else damping / 8


def _solve(now: Slope, damping: float) -> np.ndarray:
    """The step by conjugate gradients: to a tenth while far from the top, better when near."""
    size = np.sqrt(np.maximum(now.target + now.off, 1e-6 * now.target))
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
        f[i] = -problem.reg * _row_logarithms(problem, i, (g - problem.cost(i)) / problem.reg)
        off += problem.change(i, (f[i, None] + g - problem.cost(i)) / problem.reg).sum(axis=0)
    plan = _plan(problem, f, g)

    def curve(v):
        problem.budget.spend()
        through = [((rows := plan(i)) @ v / problem.a[i]) @ rows for i in problem.blocks()]
        return (problem.b + off) * v - np.sum(through, axis=0)

    return Slope(off, problem.b, curve, 1.0, f)


def _row_logarithms(problem: Problem, i: slice, z) -> Float[np.ndarray, " r"]:
    """log (Σ_j base exp(z) / a) for each row, with the digits of small z."""
    if problem.close or np.abs(z).max() < 0.5:
        shares = problem.change(i, z).sum(axis=1) / problem.a[i]
        if np.abs(shares).max() < 0.5:
            return np.log1p(shares)
    z = z + problem.log(i)
    top = z.max(axis=1)
    return top + np.log(np.exp(z - top[:, None]).sum(axis=1) / problem.a[i])


def _mirrored(problem: Problem, p) -> Slope:
    """How far the rows are off under one potential for both sides."""
    problem.budget.spend()
    sums = [problem.change(i, (p[i, None] + p - problem.cost(i)) / problem.reg).sum(axis=1) for i in problem.blocks()]
    off, plan = np.concatenate(sums), _plan(problem, p, p)

    def curve(v):
        problem.budget.spend()
        return (problem.b + off) * v + np.concatenate([plan(i) @ v for i in problem.blocks()])

    return Slope(off, problem.a, curve, 0.5, p)


def _plan(problem: Problem, f, g) -> Rows:
    """The plan that two potentials make, block by block."""

    def rows(i: slice):
        z = (f[i, None] + g - problem.cost(i)) / problem.reg
        return np.exp(problem.log(i) + z)

    return _remembered(problem.pairs, rows)


def _remembered(pairs: int, rows: Rows) -> Rows:
    """The same blocks, made once where all of them fit in memory."""
    if pairs > STORED:
        return rows
    known: dict[int, np.ndarray] = {}

    def look(i: slice):
        if i.start not in known:
            known[i.start] = rows(i)
        return known[i.start]

    return look
