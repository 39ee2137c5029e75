"""Column generation: cells are added to the program of sparse ReLU learning until none is missing.

A cell is missing where the dual function exceeds the penalty in it. Whether one is, is decided by looking at all of
them, by knots on the line, or by a search that ends with a bound over the whole sphere.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from haarflow.learning.activation_cells import Cells, activation_cells
from haarflow.learning.relu_bound import prove
from haarflow.learning.relu_dual import Dual, Peak
from haarflow.learning.relu_master import (
    Column,
    Problem,
    Stage,
    coefficients_on,
    directions_of,
    least_norm,
    merge_directions,
    solve_on_cells,
)

_SLACK = 1e-9  # how far above the penalty, relative to it, the dual function counts as exceeding it
_ROUNDS = 200
_NEW = 24  # cells that are added in one round, the worst ones
_STARTS = 512  # directions from which the search climbs
_CLIMBS = 48  # of which so many, the highest, climb to the top


@dataclass(frozen=True)
class Found:
    """Neurons, the dual function's numbers q, its bound and largest value, and the gap, for labels of size one."""

    directions: Float[np.ndarray, "n k"]
    coefficients: Float[np.ndarray, " n"]
    mean: float
    q: Float[np.ndarray, " b"]
    bound: float
    attained: float
    direction: Float[np.ndarray, " k"]
    gap: float
    proof: str


def dual_at(problem: Problem, residuals: Float[np.ndarray, " b"]) -> Dual:
    """The dual function of some residuals `y − f`, which have no mean where that is free."""
    residuals = residuals - residuals.mean() if problem.free else residuals
    return Dual(problem.inputs, residuals / problem.b, problem.free)


def gap_of(problem: Problem, value: float, dual: Dual, bound: float) -> float:
    """How far the objective is from its optimum at most: the dual's value at the best multiple of q that is allowed."""
    along, square = float(dual.q @ problem.labels), problem.b * float(dual.q @ dual.q)
    if not square > 0:
        return value
    share = min(problem.penalty / bound if bound > 0 else np.inf, along / square)
    share = max(share, 0.0)
    return value - (share * along - share**2 * square / 2)


def _finished(problem: Problem, directions, certify: Callable[[Dual], tuple[Peak, float, str]]) -> Found:
    """Coefficients on these directions, without neurons that do nothing, and the certificate of their residuals."""
    coefficients, mean = coefficients_on(problem, directions)
    kept = np.abs(coefficients) > 0
    directions, coefficients = directions[kept], coefficients[kept]
    outputs = problem.features(directions) @ coefficients + mean
    dual = dual_at(problem, problem.labels - outputs)
    peak, bound, proof = certify(dual)
    gap = gap_of(problem, problem.value(outputs, float(np.abs(coefficients).sum())), dual, bound)
    return Found(directions, coefficients, mean, dual.q, bound, abs(peak.value), peak.direction, gap, proof)


def on_knots(problem: Problem) -> Found:
    """The line with a free bias: between neighbouring inputs the dual function is linear, so that knots are inputs."""
    knots = np.unique(problem.inputs[:, 0])
    rising = np.column_stack([np.ones(len(knots)), -knots])
    directions = np.concatenate([rising[:-1], -rising[1:]])

    def certify(dual: Dual) -> tuple[Peak, float, str]:
        values = dual(directions)
        best = int(np.argmax(np.abs(values)))
        bound = float(np.abs(values[best]))
        peak = Peak(directions[best], values[best], bound, problem.inputs @ directions[best] > 0)
        return peak, bound, f"at all {len(knots)} knots"

    if problem.penalty:
        return _finished(problem, directions, certify)
    return _interpolated(problem, directions, certify)


def _interpolated(problem: Problem, directions, certify) -> Found:
    """The least norm through all labels; its dual is `max <q, y>` over q with |eta| ≤ 1."""
    from haarflow.errors import Refusal

    coefficients, q, mean = least_norm(problem.features(directions), problem.labels)
    if coefficients is None:
        raise Refusal(
            "relu_program with penalty 0 goes through all labels; got an input with two different ones. Write a "
            "penalty above 0."
        )
    dual = dual_at(problem, q * problem.b)
    peak, bound, proof = certify(dual)
    kept = coefficients != 0
    gap = float(np.abs(coefficients).sum() - dual.q @ problem.labels / max(bound, 1.0))
    return Found(directions[kept], coefficients[kept], mean, dual.q, bound, abs(peak.value), peak.direction, gap, proof)


def on_all_cells(problem: Problem, tell: Callable[[float], None]) -> Found:
    """Every cell is listed; each round adds those that exceed the penalty most, and the last looks at all of them."""
    cells = activation_cells(problem.inputs)

    def missing(dual: Dual) -> list[tuple[Peak, float]]:
        for most in (8 * _NEW, None):
            found = [
                (peak, sign)
                for sign, one in ((1.0, dual), (-1.0, dual.mirrored()))
                for peak in one.peaks(cells, above=problem.penalty * (1 + _SLACK), most=most)
                if peak.value > problem.penalty * (1 + _SLACK)
            ]
            if found:
                return found
        return []

    directions = _generated(problem, missing, tell)
    return _finished(problem, directions, lambda dual: _certified(dual, cells))


def _certified(dual: Dual, cells: Cells) -> tuple[Peak, float, str]:
    """The largest value of |eta|, exactly: cells whose slope is below a value that is reached need no look."""
    best, bound = Peak(cells.directions[0], 0.0, 0.0, cells.patterns[0]), 0.0
    for one in (dual, dual.mirrored()):
        slopes = one.slopes(cells.patterns)
        for cell in np.argsort(-slopes):
            if slopes[cell] <= bound:
                break
            peak = one.peak(cells.patterns[cell])
            bound = max(bound, min(peak.bound, float(slopes[cell])))
            best = peak if peak.value > best.value else best
    return best, bound, f"in all {len(cells.patterns):,} cells"


def by_search(problem: Problem, goal: float, parts: int, tell: Callable[[float], None]) -> Found:
    """Cells are found by climbing from many directions; a bound over the whole sphere is proved at the end."""
    starts = _starts(problem)
    known: list[np.ndarray] = []

    def missing(dual: Dual) -> list[tuple[Peak, float]]:
        found = []
        for sign, one in ((1.0, dual), (-1.0, dual.mirrored())):
            peaks = _climbed(one, np.concatenate([starts, *known[-1:]]))
            found += [(peak, sign) for peak in peaks if peak.value > problem.penalty * (1 + _SLACK)]
        known.append(np.array([peak.direction for peak, _ in found]).reshape(-1, starts.shape[1]))
        return found

    def certify(dual: Dual) -> tuple[Peak, float, str]:
        both = dual, dual.mirrored()
        best = max((peak for one in both for peak in _climbed(one, starts)), key=lambda peak: peak.value)
        level = max(best.value, problem.penalty) * (1 + 1e-7)
        proofs = [
            prove(one, level=level, parts=parts // 2, tell=lambda share, i=i: tell(0.5 + (i + share) / 4))
            for i, one in enumerate(both)
        ]
        looked = sum(proof.parts for proof in proofs)
        return best, max(level, *(proof.bound for proof in proofs)), f"by {looked} parts of the sphere"

    directions = _generated(problem, missing, lambda share: tell(share / 2))
    return _finished(problem, directions, certify)


def _starts(problem: Problem) -> Float[np.ndarray, "n k"]:
    """Directions to climb from, the same for the same problem: inputs, their opposites, and normal draws."""
    draws = np.random.default_rng(0).normal(size=(_STARTS, problem.inputs.shape[1]))
    rows = problem.inputs / np.linalg.norm(problem.inputs, axis=1).max()
    if problem.free:
        draws[:, -1] *= np.linalg.norm(problem.inputs[:, :-1], axis=1).mean()
        rows = np.column_stack([rows[:, :-1], np.zeros(len(rows))])
    rows = np.concatenate([rows, -rows])
    return np.concatenate([rows[np.linalg.norm(rows[:, : problem.counted], axis=1) > 1e-9], draws])


def _climbed(dual: Dual, starts) -> list[Peak]:
    """The peaks above the highest of the starts, each once."""
    near = dual.ascend(starts)
    peaks: dict[bytes, Peak] = {}
    tried: set[bytes] = set()
    for place in np.argsort(-dual(near)):
        cell = np.packbits(dual.inputs @ near[place] > 0).tobytes()
        if cell in tried:
            continue
        tried.add(cell)
        peak = dual.climb(near[place])
        peaks[np.packbits(peak.active).tobytes()] = peak
        if len(tried) >= _CLIMBS:
            break
    return list(peaks.values())


def _generated(problem: Problem, missing: Callable, tell: Callable[[float], None]) -> Float[np.ndarray, "n k"]:
    """The directions of an optimum over all cells: cells that are missing are added until there are none.

    A cell that the optimum does not use is dropped, once: one that comes back stays.
    """
    columns: dict[bytes, Column] = {}
    dropped: set[bytes] = set()
    dual, stage, first = dual_at(problem, problem.labels), None, None
    for _ in range(_ROUNDS):
        found = missing(dual)
        worst = max((peak.value for peak, _ in found), default=problem.penalty)
        first = first or worst
        new = _columns(problem, found, columns)
        if not new and (stage is None or stage.whole):
            break
        tell(_share(worst / problem.penalty - 1, first / problem.penalty - 1))
        if stage is not None and len(columns) > 2 * _NEW:
            columns = _used(problem, columns, stage, dropped)
        columns |= {column.name: column for column in new}
        stage = solve_on_cells(problem, list(columns.values()))
        dual = dual_at(problem, stage.residuals)
    if stage is None:
        return np.zeros((0, problem.inputs.shape[1]))
    return merge_directions(directions_of(problem, list(columns.values()), stage))


def _used(problem: Problem, columns: dict[bytes, Column], stage: Stage, dropped: set[bytes]) -> dict[bytes, Column]:
    lengths = np.linalg.norm(stage.vectors[:, : problem.counted], axis=1)
    idle = {name for name, length in zip(columns, lengths, strict=True) if length < 1e-7 * lengths.max()} - dropped
    dropped |= idle
    return {name: column for name, column in columns.items() if name not in idle}


def _columns(problem: Problem, found, columns) -> list[Column]:
    """The worst of the missing cells that the program does not have yet."""
    new: dict[bytes, Column] = {}
    for peak, sign in sorted(found, key=lambda pair: -pair[0].value):
        column = Column(peak.active, sign, np.abs(problem.inputs @ peak.direction) < 1e-9)
        if column.name not in columns and len(new) < _NEW:
            new[column.name] = column
    return list(new.values())


def _share(excess: float, first: float) -> float:
    """How much of the work is done, of an excess that falls to 1e-9 geometrically."""
    if not first > 1e-9:
        return 1.0
    return float(np.clip(np.log(first / max(excess, 1e-9)) / np.log(first / 1e-9), 0.0, 1.0))
