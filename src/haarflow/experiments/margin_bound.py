"""What a symmetry gives to generalisation by margin: the measured error against the bounds with and without it."""

from collections.abc import Callable

import numpy as np

from haarflow.algebra.reps import Rep
from haarflow.experiments._separable import action, digits
from haarflow.measures.samples import generator
from haarflow.practice.max_margin import max_margin
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Positive,
    Sizes,
    above,
    below,
    named,
    over,
    panel,
    stream,
)
from haarflow.runs.style import colour, legend, log_axes

LAWS = ("synthetic", "digits")
KINDS = ("invariant", "free")
INNER, OUTER = 4.0, 12.0  # the longest averaged input R̄ and the longest input R of the synthetic law; |β0| = 1
DELTA = 0.05


class MarginBound(Experiment):
    """The error of the classifier of largest margin stays below 2R|β0|/√n + √(log(1/δ)/2n) for inputs of length R at
    most; of the invariant one below the same with R̄, the longest averaged input: the symmetry saves (R/R̄)² of the data.

    Source: the talk "Generalization and optimization in symmetry-preserving machine learning"; Chen and Zhu, On the
    implicit bias of linear equivariant steerable networks (arXiv 2303.04198).

    Both laws are invariant and β0, which has margins of at least one almost surely, too. Synthetic: D4 on 5 × 5 pixels,
    the invariant part uniform in a ball of radius 4 where |<β0, x>| ≥ 1, the rest in a ball, so that no input is longer
    than 12. Digits: 0 and 1 in a random quarter turn, drawn with replacement; β0 is the largest margin of all of them.
    δ = 0.05. A bound above one tells nothing, and is kept.
    """

    seconds = 12.0
    faults = {"shuffled labels": "fresh inputs are judged by the labels of others"}

    sizes: Sizes = (8, 16, 32, 64, 128, 256, 512, 1024, 4096)  # inputs n that are learned from
    runs: Count = 8  # draws of them
    tests: Count = 10_000  # fresh inputs that the error is measured on
    confidence: Positive = DELTA  # δ

    @classmethod
    def full(cls):
        return cls(sizes=(8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096), runs=100, tests=100_000)

    def design(self):
        yield self.errors, over(law=LAWS, n=self.sizes)

    def errors(self, key, law, n):
        """The error of both classifiers on fresh inputs, for every run."""
        draws, rep, _, _ = self._law(law)
        found = []
        for one in range(self.runs):
            draw = generator(stream(key, law, n, one))
            (x, y), (fresh, truth) = draws(draw, n), draws(draw, self.tests)
            if self.fault == "shuffled labels":
                draw.shuffle(truth)
            if len(np.unique(y)) < 2:  # one class alone: the other is never predicted
                found.append([np.mean(truth != y[0])] * 2)
                continue
            models = (max_margin(x, y, under=rep), max_margin(x, y))
            found.append([np.mean(model.predict(fresh) != truth) for model in models])
        return {"error": named(np.array(found), "run", "classifier", classifier=KINDS)}

    def _law(self, law) -> tuple[Callable, Rep, float, float]:
        """A function that draws inputs and labels, the action, and R |β0| of the invariant and the free classifier."""
        if law == "digits":
            data = digits(0, 1)
            all_of_them = data.augmented()
            steepness = 1 / max_margin(data.x, data.y, under=data.rep).margin
            longest = [float(np.linalg.norm(rows, axis=1).max()) for rows in (data.averaged, data.x)]

            def draws(draw, n):
                chosen = draw.integers(len(all_of_them.x), size=n)
                return all_of_them.x[chosen], all_of_them.y[chosen]

            return draws, data.rep, steepness * longest[0], steepness * longest[1]
        rep = action("D4")
        basis = rep.fixed_basis()
        rest = np.linalg.svd(np.eye(rep.dim) - basis @ basis.T)[0][:, : rep.dim - basis.shape[1]]

        def synthetic(draw, n):
            inner = np.zeros((0, basis.shape[1]))
            while len(inner) < n:
                tried = _ball(draw, 2 * n + 10, basis.shape[1], INNER)
                inner = np.concatenate([inner, tried[np.abs(tried[:, 0]) >= 1]])
            inner = inner[:n]
            outer = _ball(draw, n, rest.shape[1], np.sqrt(OUTER**2 - INNER**2))
            return inner @ basis.T + outer @ rest.T, np.sign(inner[:, 0])

        return synthetic, rep, INNER, OUTER

    def _bounds(self, law, classifier):
        """The bound for every n."""
        n, size = np.asarray(self.sizes, float), self._law(law)[2:][KINDS.index(classifier)]
        return 2 * size / np.sqrt(n) + np.sqrt(np.log(1 / self.confidence) / (2 * n))

    def claims(self, data):
        for law, row in data.error.each("law"):
            for classifier, error in row.each("classifier"):
                share = np.asarray(error.transpose("run", "n")) / self._bounds(law, classifier)
                yield below(f"{law}, {classifier}: largest error over its bound, all n and runs", share.max(), 1.0)
        few = data.error.isel(n=slice(0, 4)).mean("run", "n")
        for law, error in few.each("law"):
            ratio = error.sel(classifier="free") / error.sel(classifier="invariant")
            yield above(f"{law}: mean error of the free classifier over the invariant one, n up to 64", ratio, 1.5)

    def numbers(self, data):
        return {
            f"{law}, {kind}: n from which the bound tells": self._telling(law, kind) for law in LAWS for kind in KINDS
        }

    def _telling(self, law, kind):
        """The n at which the bound is one."""
        size = self._law(law)[2:][KINDS.index(kind)]
        return float((2 * size + np.sqrt(np.log(1 / self.confidence) / 2)) ** 2)

    @panel(
        "Measured error and both bounds",
        "Lines: mean error over {runs} draws, with the range of all; dashed: the bounds. The invariant classifier "
        "needs fewer data, and its bound knows it. No error at all is drawn at the lower edge.",
        columns=LAWS,
        size=(9.6, 3.9),
        sharey=True,
    )
    def curves(self, axis, data, law):
        floor = 0.2 / self.tests
        for classifier in KINDS:
            rows = np.asarray(data.error.sel(law=law, classifier=classifier).transpose("run", "n"))
            paint = colour("FA" if classifier == "invariant" else "vanilla")
            ends, bound = np.maximum([rows.min(0), rows.max(0)], floor), self._bounds(law, classifier)
            axis.fill_between(self.sizes, *ends, color=paint, alpha=0.18, linewidth=0)
            axis.plot(self.sizes, np.maximum(rows.mean(0), floor), color=paint, label=f"{classifier}, measured")
            axis.plot(self.sizes, bound, color=paint, linestyle=(0, (4, 2)), label=f"{classifier}, bound")
        log_axes(axis, self.sizes, "inputs n", "error" if law == LAWS[0] else "")
        if law == LAWS[-1]:
            legend(axis)


def _ball(draw, n, dim, radius):
    """Points uniform in a ball."""
    points = draw.normal(size=(n, dim))
    lengths = radius * draw.uniform(size=(n, 1)) ** (1 / dim)
    return lengths * points / np.linalg.norm(points, axis=1, keepdims=True)
