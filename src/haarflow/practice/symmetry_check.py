"""Does my data have this symmetry? Two exact tests, a score test, the cost of building it in, and a verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.special import ndtri

from haarflow.algebra.reps import Rep
from haarflow.doors import Above, Below, Least, Most, door
from haarflow.dynamics.progress import Tell, watching
from haarflow.measures.samples import generator
from haarflow.practice.answers import Answer
from haarflow.practice.landmarks import Joined, Rows, elements, how_many, landmarks, scaled
from haarflow.practice.law_tests import law_test
from haarflow.practice.pairs import Pairs, paired
from haarflow.practice.score_tests import Cost, Table, cost, cross_fitted, deal, score_test, tabulate
from haarflow.practice.subgroups import SubgroupLattice, lattice, listable

Level = Annotated[float, Above(0), Below(0.5)]
Fault = Literal["none", "bandwidth of the data", "residuals of the training rows"]


@dataclass(frozen=True)
class SymmetryCheck(Answer):
    """What data say about a symmetry: p-values of three tests, the cost interval, and the verdict.

    `inputs` and `joint` are exact p-values of the law of the inputs, and of inputs and outputs together; `function` is
    that of the regression function. `cost` with its ends `low` and `high`, each wrong with probability `level`, is what
    an equivariant fit loses against a free one at this number of rows, as a share of the variance of y. `explained` is
    the share of the variance that the free fit explains, `errors` what building in adds to the error rate of classes.
    """

    group: str
    rows: int
    inputs: float
    joint: float
    function: float
    cost: float
    low: float
    high: float
    tolerance: float
    level: float
    explained: float
    errors: float | None
    target: str
    method: str
    lattice: SubgroupLattice | None = None

    @property
    def verdict(self) -> Literal["holds", "broken", "cannot tell"]:
        """Holds within the tolerance, broken, or cannot tell."""
        if self.high < self.tolerance:
            return "holds"
        return "broken" if self.function <= self.level and self.low > 0 else "cannot tell"

    @property
    def rows_needed(self) -> int:
        """About how many rows would make the interval narrower than the tolerance."""
        half = (self.high - self.low) / 2
        needed = self.rows * (2 * half / self.tolerance) ** 2
        return int(float(f"{max(needed, self.rows):.1e}"))

    def sentence(self) -> str:
        """The verdict with its numbers."""
        price = (
            f"building it in costs {self.cost:z.1%} of the variance of y at {self.rows} rows with this regressor "
            f"({1 - 2 * self.level:.0%} interval {self.low:z.1%} to {self.high:z.1%})"
        )
        refuted = self.function <= self.level
        said = f"the score test {'refutes it' if refuted else 'does not refute it'} (p = {self.function:.2g})"
        largest = "" if self.lattice is None else f" {self.lattice}"
        if self.verdict == "holds":
            but = "but" if refuted else "and"
            return f"The symmetry {self.group} holds within {self.tolerance:.1%}: {price}, {but} {said}.{largest}"
        if self.verdict == "broken":
            return f"The symmetry {self.group} is broken: {said}, and {price}.{largest}"
        return (
            f"These data cannot tell whether the symmetry {self.group} holds within {self.tolerance:.1%}: {price}, "
            f"and {said}; about {self.rows_needed} rows would.{largest}"
        )

    def table(self) -> dict[str, list]:
        """A row for each question: the answer, its p-value or interval."""
        questions = ["law of the inputs", "law of inputs and outputs", "regression function", "cost of building it in"]
        found = [self.inputs, self.joint, self.function]
        answers = ["refuted" if p <= self.level else "not refuted" for p in found]
        nothing = float("nan")
        return {
            "question": questions,
            "test": ["exact", "exact", "score test", "cross-fitted, share of the variance"],
            "answer": [*answers, self.verdict],
            "p-value": [*found, nothing],
            "estimate": [nothing, nothing, nothing, self.cost],
            "low": [nothing, nothing, nothing, self.low],
            "high": [nothing, nothing, nothing, self.high],
        }

    def draw(self, axis: Any) -> Any:
        """The cost with its interval, the costs within the tolerance in green, and the three p-values above."""
        colour = {"holds": "#2a7f62", "broken": "#b5403a", "cannot tell": "#7a7a7a"}[self.verdict]
        axis.axvspan(min(self.low, 0) - self.tolerance, self.tolerance, color="#2a7f62", alpha=0.10, lw=0)
        axis.axvline(0, color="black", lw=0.8)
        axis.plot([self.low, self.high], [0, 0], color=colour, lw=4, solid_capstyle="round")
        axis.plot([self.cost], [0], "o", color=colour, ms=9)
        axis.text(self.cost, 0.14, self.verdict, ha="center", color=colour, fontsize=12)
        within = {"ha": "right", "va": "bottom", "color": "#2a7f62", "fontsize": 8, "rotation": 90}
        axis.text(self.tolerance, -0.56, f"within {self.tolerance:.1%}", **within)
        axis.set(ylim=(-0.6, 0.5), yticks=[], xlabel="cost of building it in, share of the variance of y")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:z.1%}")
        found = f"p-values: inputs {self.inputs:.2g}, joint {self.joint:.2g}, function {self.function:.2g}"
        axis.set_title(f"{self.group}, {self.rows} rows\n{found}", fontsize=9)
        return axis


@door
def check_symmetry(
    x: Any,
    y: Any,
    on_x: Rep | str,
    on_y: Rep | None = None,
    *,
    key: PRNGKeyArray,
    tolerance: Annotated[float, Above(0), Below(1)] = 0.01,
    level: Level = 0.05,
    copies: Annotated[int, Least(19), Most(9999)] = 199,
    folds: Annotated[int, Least(2)] = 5,
    target: Literal["auto", "numbers", "classes"] = "auto",
    subgroups: bool = False,
    progress: bool | Tell | None = None,
    fault: Fault = "none",
) -> SymmetryCheck:
    """Whether data (x, y) have a symmetry: a `SymmetryCheck` whose `str` is the verdict in one sentence.

    `x` is a table (n, d), `y` numbers (n,) or (n, c), or class names; `on_x` says how the group moves inputs, as a
    representation or in words ("flips of 8x8 images"), `on_y` how it moves outputs (nothing unless given). Three
    questions: is the law of x invariant, is that of (x, y), is the function E[y | x] equivariant? And what does
    building it in cost? It *holds within the tolerance* if the upper end of the cost interval is below, it is *broken*
    if the score test refutes it and the lower end is above zero; otherwise the data cannot tell, and the answer says
    how many rows would. With `subgroups=True`, `.lattice` tests every subgroup. Gaussian features at up to 512
    landmarks make it fit into memory and a minute at 100000 rows. `fault` plants a mistake, to see it fail.

        print(check_symmetry(x, y, "quarter turns of columns 0, 1", key=0))
    """
    pairs = paired("check_symmetry", x, y, on_x, on_y, target=target, folds=folds)
    if subgroups:
        listable(pairs.on_x.group)
    pairs = pairs._replace(x=scaled(pairs.x, pairs.on_x), y=scaled(pairs.y, pairs.on_y))
    draw = generator(key)
    with watching(progress, "check") as tell:
        found = _checked(pairs, draw, copies, folds, level, fault, _part(tell, 0.0, 0.8 if subgroups else 1.0))
        known = lattice(pairs, draw, copies, folds, level, _part(tell, 0.8, 1.0)) if subgroups else None
        return SymmetryCheck(**found, tolerance=tolerance, level=level, lattice=known)


def _part(tell: Callable, first: float, last: float) -> Callable:
    return lambda fraction: tell(first + (last - first) * fraction)


def _checked(
    pairs: Pairs, draw: np.random.Generator, copies: int, folds: int, level: float, fault: str, tell: Callable
):
    """The numbers of all four questions about scaled pairs, by the names of the fields."""
    x, y = pairs.x, pairs.y
    inputs = law_test(x, pairs.on_x, draw, copies=copies, tell=_part(tell, 0.0, 0.25), fault=fault)
    joint = law_test(
        Joined(x, y), pairs.on_x + pairs.on_y, draw, copies=copies, tell=_part(tell, 0.25, 0.5), fault=fault
    )
    table, method = features(x, pairs, draw, _part(tell, 0.5, 0.8))
    where = deal(len(x), folds, draw)
    seen = fault == "residuals of the training rows"
    built = fitted(table, y, where, seen=seen)
    free = cross_fitted(table.free[:, None], y[:, None], where, seen=seen)[:, 0]
    function = score_test(table, y - built, draw, signs=copies, tell=_part(tell, 0.8, 1.0))
    same = np.max(np.abs(built - free)) <= 1e-9 * np.max(np.abs(y))  # as where the group moves nothing
    price = Cost(0.0, 0.0) if same else cost(built, free, y, where, draw)
    wide = float(-ndtri(level) * price.error)
    rates = None
    if pairs.classes:
        truth = y.argmax(axis=1)
        rates = float(np.mean(built.argmax(axis=1) != truth) - np.mean(free.argmax(axis=1) != truth))
    return {
        "group": pairs.group,
        "rows": len(x),
        "inputs": inputs,
        "joint": joint,
        "function": function,
        "cost": price.estimate,
        "low": price.estimate - wide,
        "high": price.estimate + wide,
        "explained": float(1 - np.sum((free - y) ** 2) / np.sum(y**2)),
        "errors": rates,
        "target": f"{len(pairs.classes)} classes" if pairs.classes else "numbers",
        "method": method,
    }


def features(x: Rows, pairs: Pairs, draw: np.random.Generator, tell: Callable) -> tuple[Table, str]:
    """The features of the inputs and their averages over the group, and how they were made."""
    moves = elements(pairs.on_x, pairs.on_y, draw, len(x))
    outputs = 1 if pairs.still else pairs.on_y.dim
    marks = landmarks(x, pairs.on_x, draw, count=how_many(len(x), moves.size, outputs))
    kind = "all" if moves.exact else "each row's own" if moves.draw is not None else "equispaced"
    over = f"{kind} {moves.size} elements" if moves.size > 1 else "one element"
    method = f"Gaussian features at {len(marks.points)} landmarks, averages over {over}"
    return tabulate(x, moves, pairs.on_y, marks, tell), method


def fitted(table: Table, y: Rows, folds: np.ndarray, *, seen: bool = False):
    """What the equivariant fits predict for rows that they have not seen, (n, c)."""
    return cross_fitted(table.averaged, table.targets(y), folds, seen=seen).reshape(y.shape)
