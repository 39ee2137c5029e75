"""Which symmetry do my data have? Candidates from tied weights and a small library, confirmed on rows kept apart.

A search can propose what is not there: nothing is called a symmetry before the score test and the cost interval, on
rows that the search has not seen and at a level divided by the number of proposals, have confirmed it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.special import ndtri

from haarflow.algebra.groups import Trivial
from haarflow.algebra.reps import Rep, trivial_rep
from haarflow.doors import Above, Below, Least, Most, door
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.progress import Tell, watching
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.learning.splits import folds as deal_out
from haarflow.measures.clouds import uniform
from haarflow.measures.samples import generator
from haarflow.models.units import Dense
from haarflow.practice.answers import Answer
from haarflow.practice.discover import Discovery, discover
from haarflow.practice.group_library import Candidate, library, tied
from haarflow.practice.landmarks import scaled
from haarflow.practice.pairs import Pairs, paired
from haarflow.practice.score_tests import cost, cross_fitted, deal, score_test
from haarflow.practice.symmetry_check import features, fitted
from haarflow.values import numbers

WEIGHTS = 64
"""The most weights among which ties are searched; with more, the library alone is asked."""

REPLICATES, PARTICLES, STEP, STEPS, BATCH, START = 16, 24, 0.4, 250, 50, 2.0
"""Of the search for tied weights: as docs/discover.md found them to work on rows of unit scale."""

SHOWN = 20
"""The most candidates of a picture."""

UNTOLD = "or the fixed space is not a pattern of tied weights"


@dataclass(frozen=True)
class Found:
    """What the rows say of one candidate: screened on the first half; confirmed on the second, NaN where it was not."""

    name: str
    order: float
    screened: float
    function: float
    cost: float
    low: float
    high: float
    answer: str


@dataclass(frozen=True)
class SymmetrySearch(Answer):
    """The symmetries that data have, as far as rows can tell: `confirmed` ones first, and what could not be seen.

    `smallest` is the smallest cost of a break that the held-out rows would have shown, as a share of the variance;
    `explained` what the free fit explains; `pattern` the tied weights that the search proposed, if it was made.
    """

    rows: int
    tolerance: float
    candidates: tuple[Found, ...]
    smallest: float
    explained: float
    settings: dict[str, Any]
    search: str
    pattern: tuple[tuple[str, ...], ...]
    actions: dict[str, tuple[Rep, Rep]]

    @property
    def confirmed(self) -> tuple[Found, ...]:
        """The candidates that hold within the tolerance, the largest group first."""
        held = [one for one in self.candidates if one.answer == "holds"]
        return tuple(sorted(held, key=lambda one: -one.order))

    def to_group(self) -> tuple[Rep, Rep]:
        """How the largest confirmed symmetry moves inputs and outputs, for `check_symmetry` and whatever takes them."""
        if not self.confirmed:
            raise Refusal(f"to_group gives a symmetry that was confirmed; got none: {self} Give more rows.")
        return self.actions[self.confirmed[0].name]

    def sentence(self) -> str:
        """What was confirmed, or why nothing was, and the smallest break that could have been seen."""
        power = f"a break that costs less than {self.smallest:.1%} of the variance could not have been seen"
        if self.confirmed:
            best = self.confirmed[0]
            others = len(self.confirmed) - 1
            more = f" (and {others} other{'s' * (others > 1)})" if others else ""
            return (
                f"These data have a symmetry within {self.tolerance:.1%} of the variance of y, {best.name}{more}: on "
                f"{self.rows} rows that the search had not seen it costs {best.cost:z.1%} (up to {best.high:z.1%}) and "
                f"the score test does not refute it (p = {best.function:.2g}); {power}. {self.search}"
            )
        if any(one.answer == "cannot tell" for one in self.candidates):
            about = int(float(f"{2 * self.rows * max((self.smallest / self.tolerance) ** 2, 2):.1e}"))
            return (
                f"Too few rows: no symmetry of {len(self.candidates)} could be confirmed, and {power} on {self.rows} "
                f"held-out rows, where the best fit explains {self.explained:.0%}; about {about} rows would tell "
                f"within {self.tolerance:.1%}. {self.search}"
            )
        return f"None of {len(self.candidates)} candidates is a symmetry of these data; {power}. {self.search}"

    def table(self) -> dict[str, list]:
        """A row for each candidate, the confirmed first."""
        rows = self._ordered()
        return {
            "candidate": [one.name for one in rows],
            "answer": [one.answer for one in rows],
            "screening p": [one.screened for one in rows],
            "held-out p": [one.function for one in rows],
            "cost": [one.cost for one in rows],
            "high": [one.high for one in rows],
        }

    def _ordered(self) -> list[Found]:
        """The confirmed first, the refuted last."""
        return sorted(self.candidates, key=lambda one: (one.answer != "holds", one.answer == "refuted", -one.screened))

    def to_json(self) -> str:
        """All that is known, as JSON; the representations, which JSON cannot hold, by their names alone."""
        return super(SymmetrySearch, replace(self, actions={})).to_json()

    def draw(self, axis: Any) -> Any:
        """The cost intervals of the candidates that held-out rows were asked about, in the order of the table."""
        asked = [one for one in self._ordered() if np.isfinite(one.cost)]
        shown = asked[:SHOWN]
        colours = {"holds": "#2a7f62", "cannot tell": "#7a7a7a", "refuted": "#b5403a"}
        for place, one in enumerate(shown):
            axis.plot([one.low, one.high], [place, place], color=colours[one.answer], lw=3, solid_capstyle="round")
            axis.plot([one.cost], [place], "o", color=colours[one.answer])
        axis.axvline(0, color="black", lw=0.8)
        axis.axvline(self.tolerance, color="#2a7f62", lw=0.8, ls="--", label=f"tolerance, {self.tolerance:.1%}")
        for answer in [one for one in colours if any(found.answer == one for found in shown)]:
            axis.plot([], [], "o-", color=colours[answer], label=answer)
        axis.set(yticks=range(len(shown)), ylim=(len(shown) - 0.4, -0.6))
        axis.set(xlabel="cost on held-out rows, share of the variance of y")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:z.1%}")
        axis.set_yticklabels([_shortened(one.name) for one in shown], fontsize=7)
        axis.legend(fontsize=7)
        of = f", {SHOWN} of {len(asked)}" if len(asked) > SHOWN else ""
        axis.set_title(
            f"Candidates that the search proposed{of}" if shown else "Every candidate was refuted", fontsize=9
        )
        return axis

    def draw_sharing(self, axis: Any) -> Any:
        """The tied weights that the search proposed: a row for each output, a column for each input."""
        table = self.pattern or (("?",),)
        letters = sorted({word.strip("−") for row in table for word in row})
        for i, row in enumerate(table):
            for j, word in enumerate(row):
                shade = f"C{letters.index(word.strip('−')) % 10}" if word != "0" else "none"
                axis.add_patch(_box(j, i, shade))
                axis.text(j, i, word, ha="center", va="center", fontsize=8)
        axis.set(xlim=(-0.6, len(table[0]) - 0.4), ylim=(len(table) - 0.4, -0.6), aspect="equal")
        axis.set_title("Tied weights that the search proposed", fontsize=9)
        axis.axis("off")
        return axis


def _shortened(name: str) -> str:
    return name if len(name) <= 36 else f"{name[:22]}…{name[-13:]}"


def _box(column: int, row: int, shade: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, facecolor=shade, alpha=0.35, edgecolor="none")


@door
def search_symmetry(
    x: Any,
    y: Any,
    *,
    key: PRNGKeyArray,
    tolerance: Annotated[float, Above(0), Below(1)] = 0.01,
    level: Annotated[float, Above(0), Below(0.5)] = 0.05,
    copies: Annotated[int, Least(19), Most(9999)] = 199,
    ties: bool = True,
    progress: bool | Tell | None = None,
) -> SymmetrySearch:
    """Which symmetries data (x, y) have: a `SymmetrySearch` whose `str` is the answer in one sentence.

    Half of the rows propose: `discover` looks for tied weights (up to 64 of them; `ties=False` leaves it out), and a
    small library of groups, swaps, signs, shifts, turns of the plane, flips and turns of images, is screened by the
    score test. The other half confirm: a proposal is a symmetry if the score test does not refute it there and the
    upper end of its cost interval, at `level` divided by the number of proposals, is below the tolerance. *Too few
    rows* is an answer. The unit, step, folds and start are chosen from the data, and told in `settings`.
    """
    columns = [str(name) for name in getattr(x, "columns", ())]
    whole = paired("search_symmetry", x, y, _still(x), None, target="auto", folds=10)
    columns = columns or [str(i) for i in range(whole.x.shape[1])]
    draw, random = generator(key), jax.random.fold_in(key, 1)
    order = draw.permutation(len(whole.x))
    first, second = (whole._replace(x=whole.x[some], y=whole.y[some]) for some in np.array_split(order, 2))
    with watching(progress, "discover") as tell:
        known, pattern, search, settings = _tied_weights(first, random, ties, lambda f: tell(0.4 * f))
        offered = [*known, *library(whole.x.shape[1], whole.y.shape[1], columns)]
        screened = [_look(first, one, draw, copies)[0] for one in _told(offered, lambda f: tell(0.4 + 0.3 * f))]
        kept = [i for i, p in enumerate(screened) if p > level]
        wide = -float(ndtri(level / max(len(kept), 1)))
        looks = {i: _look(second, offered[i], draw, copies) for i in _told(kept, lambda f: tell(0.7 + 0.3 * f))}
        free, error = _free(second, draw)
    explained = free
    found = [
        _judged(one, screened[i], looks.get(i), wide, level, tolerance, explained) for i, one in enumerate(offered)
    ]
    errors = [(one.high - one.cost) for one in found if np.isfinite(one.cost)] or [wide * error]
    actions = {one.name: (one.on_x, one.on_y) for one in offered}
    return SymmetrySearch(
        len(second.x), tolerance, tuple(found), float(np.median(errors)), explained, settings, search, pattern, actions
    )


def _still(x: Any) -> Rep:
    shape = numbers("search_symmetry's x", x, numpy=True).shape
    d = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return trivial_rep(Trivial(1), max(d, 1))


def _told(things: list, tell: Callable):
    for i, one in enumerate(things):
        yield one
        tell((i + 1) / len(things))


def _look(pairs: Pairs, one: Candidate, draw: np.random.Generator, copies: int):
    """The p-value of the score test, and the cost, of a candidate on some rows."""
    here = pairs._replace(on_x=one.on_x, on_y=one.on_y, group=one.name)
    x, y = scaled(here.x, here.on_x), scaled(here.y, here.on_y)
    table, _ = features(x, here, draw, lambda done: None)
    where = deal(len(x), 5, draw)
    built = fitted(table, y, where)
    free = cross_fitted(table.free[:, None], y[:, None], where)[:, 0]
    p = score_test(table, y - built, draw, signs=copies, tell=lambda done: None)
    return p, cost(built, free, y, where, draw)


def _free(pairs: Pairs, draw: np.random.Generator) -> tuple[float, float]:
    """The share of the variance that the free fit explains, and the standard error of a cost of zero."""
    d, c = pairs.x.shape[1], pairs.y.shape[1]
    group = Trivial(1)
    here = pairs._replace(on_x=trivial_rep(group, d), on_y=trivial_rep(group, c))
    x, y = scaled(here.x, here.on_x), scaled(here.y, here.on_y)
    table, _ = features(x, here, draw, lambda done: None)
    where = deal(len(x), 5, draw)
    free = cross_fitted(table.free[:, None], y[:, None], where)[:, 0]
    return float(1 - np.sum((free - y) ** 2) / np.sum(y**2)), cost(free, free, y, where, draw).error


def _judged(one: Candidate, screened: float, look: Any, wide: float, level: float, tolerance: float, explained: float):
    order = float(getattr(one.on_x.group, "order", np.inf))
    if look is None:
        nothing = float("nan")
        return Found(one.name, order, screened, nothing, nothing, nothing, nothing, "refuted")
    p, price = look
    low, high = price.estimate - wide * price.error, price.estimate + wide * price.error
    holds = p > level and high < tolerance and explained > 10 * tolerance
    answer = "holds" if holds else "refuted" if p <= level else "cannot tell"
    return Found(one.name, order, screened, p, price.estimate, low, high, answer)


def _tied_weights(pairs: Pairs, key: PRNGKeyArray, wanted: bool, tell: Callable):
    """What `discover` proposes: a candidate, its pattern, a sentence, and the settings that were chosen."""
    (n, d), c = pairs.x.shape, pairs.y.shape[1]
    if not wanted or d * c > WEIGHTS:
        why = "was left out" if not wanted else f"is for {WEIGHTS} weights at most, and these data need {d * c}"
        return [], (), f"The search for tied weights {why}.", {}
    if n < 4 * REPLICATES:
        return [], (), f"The search for tied weights needs {8 * REPLICATES} rows, and these are {2 * n}.", {}
    settings = {"unit": f"Dense({d}, {c}, sigmoid)", "step": STEP, "steps": STEPS, "folds": REPLICATES}
    settings |= {"particles": PARTICLES, "batch": min(BATCH, n // REPLICATES), "start": f"normal, scale {START:g}"}
    found = _discovered(pairs, key, settings["batch"], tell)
    pattern = tuple(tuple(row) for row in found.sharing().words((c, d)))
    words = f"The search for tied weights ended at {found.dimension} of {d * c}: {found.ended}, {UNTOLD}."
    try:
        proposed = tied(found.symmetries(shape=(c, d), limit=100), d, c) if 0 < found.dimension < d * c else None
    except Refusal:
        proposed = None
    return [proposed] if proposed else [], pattern, words, settings


def _discovered(pairs: Pairs, key: PRNGKeyArray, batch: int, tell: Callable) -> Discovery:
    """`discover` on standardised rows, outputs brought into the range of a sigmoid."""
    x = START * scaled(pairs.x, pairs.on_x)
    span = np.quantile(np.abs(pairs.y - np.median(pairs.y, axis=0)), 0.99, axis=0)
    y = 0.5 + 0.4 * (pairs.y - np.median(pairs.y, axis=0)) / np.where(span > 0, span, 1)
    unit = Dense(x.shape[1], y.shape[1], "sigmoid")
    keys = jax.random.split(key, 3)
    parts = deal_out(keys[0], Sample(x, y, batch), REPLICATES)
    fields = [Descend(Risk(unit, part, "square")) for part in parts]
    start = uniform(START * np.asarray(jax.random.normal(keys[1], (PARTICLES, unit.dim))))
    return discover(fields, start, key=keys[2], dt=STEP, steps=STEPS, progress=tell)
