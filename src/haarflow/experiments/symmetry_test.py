"""Tests of a symmetry are calibrated: how often they refute a true one, and how often a broken one, against rows."""

from typing import ClassVar

import numpy as np
from scipy.stats import binom

from haarflow.algebra.groups import PlanarRotations
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.measures.samples import generator
from haarflow.practice.landmarks import elements, landmarks, scaled
from haarflow.practice.law_tests import law_test
from haarflow.practice.score_tests import cost, cross_fitted, deal, score_test, tabulate
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Sizes,
    at_least,
    between,
    blocks,
    named,
    over,
    panel,
    stream,
    tell,
    within,
)
from haarflow.runs.style import colour, legend

TURNS = PlanarRotations(4)
ON_X, ON_Y = natural_rep(TURNS), trivial_rep(TURNS)
LEVEL = 0.05
FAR = (1.0, 0.5)
SHIFTS = {"0": 0.0, "0.15": 0.15, "0.3": 0.3}
BREAKS = {"0": 0.0, "0.05": 0.05, "0.1": 0.1, "0.2": 0.2, "0.3": 0.3}
LAWS = {"invariant": (0.0, 0.0), "far from invariant": FAR}
ROWS, REPETITIONS = 150, 40
LAW_POWER = {"0.15": 0.40, "0.3": 0.85}
SCORE_POWER = {
    ("invariant", "0.05"): 0.43,
    ("invariant", "0.1"): 0.78,
    ("invariant", "0.2"): 1.0,
    ("far from invariant", "0.1"): 0.40,
    ("far from invariant", "0.2"): 0.83,
}
COSTS = {(400, "0"): (-0.024, 0.044), (400, "0.3"): (0.116, 0.065), (800, "0"): (-0.015, 0.025)}
COSTS |= {(800, "0.1"): (0.001, 0.024), (800, "0.3"): (0.157, 0.031)}
"""What the reference found: mean and standard deviation over 40 repetitions, at so many rows and such a break."""

RIDGE = np.array([1e-3])
"""Of the reference's regressor, as a share of the mean eigenvalue."""

INFINITE = {"0": 0.0, "0.1": 0.021, "0.3": 0.160}


class SymmetryTest(Experiment):
    """Whatever the number of rows, a true symmetry is refuted in 5% of data sets, as the level says: by the exact
    tests of a law and by the score test of the function, also where the law of the inputs is far from invariant; and
    the interval of what building it in costs covers the cost at so many rows.

    Source: the exact test is that of arXiv 2307.15834 and arXiv 2412.14391.

    Quarter turns of the plane, x normal, y = cos 2|x| + b x_1 + 0.3 noise; a class is the sign of y. Reference rates
    are of 40 repetitions at 150 rows. A cost is that of a regressor: as in the reference, its ridge is fixed here, at a
    thousandth of the mean eigenvalue. `check_symmetry` chooses the ridge, with which the free fit learns faster.
    """

    seconds: ClassVar[float] = 200.0
    faults = {
        "bandwidth of the data": "the width of the kernel is the one at which the data look least symmetric",
        "residuals of the training rows": "fits are judged on the rows that they saw",
    }

    rows: Sizes = (75, 150)  # data sets of so many rows, for sizes and powers; 150 are those of the reference
    runs: Count = 200  # data sets without a break, and with one
    cost_rows: Sizes = (400, 800)  # rows where the cost is measured
    cost_runs: Count = 40
    copies: Count = 99  # copies of the exact tests
    signs: Count = 499  # sign draws of the score test

    @classmethod
    def tour(cls):
        return cls(runs=60, cost_runs=10)

    @classmethod
    def full(cls):
        return cls(rows=(75, 150, 300, 600), runs=1000, cost_runs=200)

    def design(self):
        yield self.law, over(shift=SHIFTS, n=self.rows) * blocks("run", self.runs, size=100)
        yield self.joint, over(n=self.rows) * blocks("run", self.runs, size=100)
        yield self.score, over(law=LAWS, b=BREAKS, n=self.rows) * blocks("run", self.runs, size=100)
        yield self.classes, over(n=self.rows) * blocks("run", self.runs, size=100)
        yield self.price, over(b=INFINITE, n=self.cost_rows) * blocks("run", self.cost_runs, size=10)

    def law(self, key, shift, n, run):
        """p-values of the law of the inputs, shifted along the first axis."""
        return {"law_p": named([self._law(key, n, (SHIFTS[shift], 0.0), i, joint=False) for i in _told(run)], "run")}

    def joint(self, key, n, run):
        """p-values of the law of inputs and outputs, without a break."""
        return {"joint_p": named([self._law(key, n, (0.0, 0.0), i, joint=True) for i in _told(run)], "run")}

    def _law(self, key, n, shift, run, *, joint):
        draw, x, y = _drawn(stream(key, "law", n, run), n, 0.0, shift)
        rows, rep = (np.concatenate([x, y], axis=1), ON_X + ON_Y) if joint else (x, ON_X)
        return law_test(rows, rep, draw, copies=self.copies, tell=_quiet, fault=self.fault)

    def score(self, key, law, b, n, run):
        """p-values of the regression function."""
        return {"score_p": named([self._score(key, n, BREAKS[b], LAWS[law], i) for i in _told(run)], "run")}

    def classes(self, key, n, run):
        """p-values of the probability of a class, without a break."""
        return {"class_p": named([self._score(key, n, 0.0, (0.0, 0.0), i, two=True) for i in _told(run)], "run")}

    def _score(self, key, n, b, shift, run, *, two=False):
        draw, x, y = _drawn(stream(key, "score", n, run), n, b, shift)
        y = np.concatenate([y > 0, y <= 0], axis=1).astype(float) if two else y
        table, y = _features(draw, x, y)
        built = cross_fitted(table.averaged, table.targets(y), deal(n, 2, draw), seen=self._seen).reshape(y.shape)
        return score_test(table, y - built, draw, signs=self.signs, tell=_quiet)

    def price(self, key, b, n, run):
        """The cost of building it in, and its standard error."""
        found = []
        for i in _told(run):
            draw, x, y = _drawn(stream(key, "cost", n, i), n, INFINITE_BREAKS[b], (0.0, 0.0))
            table, y = _features(draw, x, y)
            where = deal(n, 5, draw)
            designs = table.averaged, table.free[:, None]
            fits = [cross_fitted(one, y[:, None], where, ridges=RIDGE, seen=self._seen) for one in designs]
            built, free = (fit[:, 0] for fit in fits)
            found.append(cost(built, free, y, where, draw))
        return {
            "cost": named([one.estimate for one in found], "run"),
            "error": named([one.error for one in found], "run"),
        }

    @property
    def _seen(self):
        return self.fault == "residuals of the training rows"

    def claims(self, data):
        low, high = (binom.ppf(share, self.runs, LEVEL) / self.runs for share in (0.005, 0.995))
        for name, found in _nulls(data).items():
            for n, p in found.each("n"):
                yield within(
                    f"a true symmetry is refuted, {name}, {n} rows: from {{low}} to {{high}}", _rate(p), low, high
                )
        if ROWS in self.rows:
            for shift, rate in LAW_POWER.items():
                yield self._near(f"law shifted by {shift}", data.law_p.sel(shift=shift, n=ROWS), rate)
            for (law, b), rate in SCORE_POWER.items():
                yield self._near(f"break {b}, {law}", data.score_p.sel(law=law, b=b, n=ROWS), rate)
        for (n, b), (mean, spread) in COSTS.items():
            if n in self.cost_rows:
                slack = 3 * spread * np.sqrt(1 / REPETITIONS + 1 / self.cost_runs)
                here = data.cost.sel(b=b, n=n).mean("run")
                yield between(f"mean cost, b = {b}, {n} rows: {{low}} to {{high}}", here, mean - slack, mean + slack)
        covered = _covered(data)
        for b, share in covered.each("b"):
            worst = binom.ppf(0.001, self.cost_runs, 0.9) / self.cost_runs
            yield at_least(f"90% intervals cover the cost at so many rows, b = {b}: {{bound}}", share.min("n"), worst)

    def _near(self, name, p, rate):
        """The power is that of the reference, up to three standard errors of both."""
        slack = 3 * np.sqrt(max(rate * (1 - rate), 0.02) * (1 / REPETITIONS + 1 / self.runs))
        low, high = max(0, rate - slack), min(1, rate + slack)
        return within(f"power, {name}, {ROWS} rows: from {{low}} to {{high}}", _rate(p), low, high)

    def numbers(self, data):
        ends = data.cost + 1.645 * data.error
        rates = {
            f"power, {law}, b = {b}, {{n}} rows": _rates(p)
            for law, some in data.score_p.each("law")
            for b, p in some.each("b")
        }
        rates |= {
            f"upper end covers the cost of infinite data, b = {b}, {{n}} rows": _mean(one >= INFINITE[b])
            for b, one in ends.each("b")
        }
        return rates

    @panel(
        "A true symmetry is refuted as often as the level says",
        "Shares of {runs} data sets; grey: a 99% band around 5%.",
    )
    def sizes(self, axis, data):
        low, high = (binom.ppf(share, self.runs, LEVEL) / self.runs for share in (0.005, 0.995))
        axis.axhspan(low, high, color="grey", alpha=0.2, lw=0)
        for i, (name, p) in enumerate(_nulls(data).items()):
            axis.plot(range(len(self.rows)), [_rate(one) for _, one in p.each("n")], "o-", color=colour(i), label=name)
        axis.set(xticks=range(len(self.rows)), xticklabels=self.rows, xlabel="rows", ylabel="refuted", ylim=(0, 0.12))
        legend(axis)

    @panel("A broken one is refuted more often, the more rows there are", "Power of the score test at level 5%.")
    def powers(self, axis, data):
        for i, (law, some) in enumerate(data.score_p.each("law")):
            for j, (n, p) in enumerate(some.each("n")):
                rates = [_rate(p.sel(b=b)) for b in BREAKS]
                style = {"color": colour(i), "alpha": 0.4 + 0.6 * (j + 1) / len(self.rows)}
                axis.plot(list(BREAKS.values()), rates, "o-", label=f"{law}, {n} rows", **style)
        axis.axhline(LEVEL, color="grey", lw=0.8)
        axis.set(xlabel="size b of the break", ylabel="refuted", ylim=(0, 1.03))
        legend(axis)

    @panel(
        "What building it in costs",
        "Points: means over {cost_runs} data sets, bars: mean 90% intervals; crosses: infinite data.",
    )
    def costs(self, axis, data):
        for i, n in enumerate(self.cost_rows):
            mean, half = data.cost.sel(n=n).mean("run"), 1.645 * data.error.sel(n=n).mean("run")
            places = np.arange(len(INFINITE)) + 0.12 * i
            axis.errorbar(
                places, np.asarray(mean), np.asarray(half), fmt="o", color=colour(i), label=f"{n} rows", capsize=3
            )
        axis.plot(np.arange(len(INFINITE)) + 0.06, list(INFINITE.values()), "x", color="black", label="infinite data")
        axis.axhline(0, color="grey", lw=0.8)
        axis.set(
            xticks=range(len(INFINITE)), xticklabels=[f"b = {b}" for b in INFINITE], ylabel="share of the variance"
        )
        legend(axis)


INFINITE_BREAKS = {b: BREAKS[b] for b in INFINITE}


def _drawn(key, n, b, shift):
    """A data set and a generator for what the tests draw: the same x and noise for every break."""
    draw = generator(key)
    x = draw.normal(size=(n, 2)) + shift
    return draw, x, (np.cos(2 * np.linalg.norm(x, axis=1)) + b * x[:, 0] + 0.3 * draw.normal(size=n))[:, None]


def _features(draw, x, y):
    marks = landmarks(x, ON_X, draw, count=min(len(x), 512))
    on_y = trivial_rep(TURNS, y.shape[1])
    return tabulate(x, elements(ON_X, on_y, draw, len(x)), on_y, marks, _quiet), scaled(y, on_y)


def _nulls(data):
    """The p-values of data sets without a break, by the test."""
    laws = {f"score test, law {law}": some.sel(b="0") for law, some in data.score_p.each("law")}
    exact = {"exact, inputs": data.law_p.sel(shift="0"), "exact, inputs and outputs": data.joint_p}
    return exact | laws | {"score test, classes": data.class_p}


def _covered(data):
    """How often the 90% interval covers the mean cost at its number of rows."""
    off = abs(data.cost - data.cost.mean("run")) / data.error
    return (off <= 1.645).mean("run")


def _rate(p):
    return float(np.mean(np.asarray(p) <= LEVEL + 1e-9))


def _rates(p):
    return _mean(p <= LEVEL + 1e-9)


def _mean(truth):
    return (truth * 1.0).mean("run")


def _told(run):
    for i, one in enumerate(run):
        tell(i / len(run))
        yield one


def _quiet(_):
    return None
