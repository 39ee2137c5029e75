"""Sparse ReLU learning: the convex program over activation cells, its certificate, and particles that reach it."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import block_diag

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Sample
from haarflow.learning.functionals import Penalty
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.practice.relu_program import relu_program
from haarflow.runs.experiment import Experiment, below, between, named, once, over, panel, stream, tell
from haarflow.runs.sizes import Count, Sizes
from haarflow.runs.style import INK, MUTED, colour, log_axes

PENALTIES = (0.05, 0.01, 0.001)
CASES = ("line, free bias", "line, penalised bias", "plane, no bias", "plane, free bias", "space, no bias")
DIRECTIONS = 100_000
GAP = 1e-6
PENALTY, NOISE, DT = 0.02, 0.1, 0.01  # of problems other than the picture's; of labels; of the descent


def broken_line(x):
    """A function with three knots, the truth of the picture."""
    return np.abs(x) - np.maximum(x - 0.4, 0) * 1.8 + np.maximum(-0.6 - x, 0) * 0.8


class SparseRelu(Experiment):
    """Fitting a ReLU network of any width with a penalty on its variation norm is a convex program over activation
    cells: its optimum has no more neurons than data and one, a dual function proves it, and gradient descent of
    particles with weight decay reaches it, in the end exponentially fast, at the rate of the Hessian on its faces.

    Source: the talk "Measure dynamics for neural networks" (function spaces); Pilanci and Ergen 2020 for the cells,
    Savarese and others 2019 for the norm on the line, Chizat 2021 for the rate of conic particle descent.

    The objective is `mean ½(f(x) − y)² + penalty · norm`. Particles (a, w, b) descend the half square risk plus
    `Penalty(penalty)`, that is penalty · ½|θ|², which at balance is penalty times the norm; λ|W|²/m would be 2λ times
    it. An optimal neuron often lies on an edge of its cell, where the field jumps: particles slide along the edge, and
    Euler steps chatter around it by an error of order dt. The rate is therefore that of the Hessian restricted to the
    edges: it is measured from a start moved along its slowest mode (from elsewhere faster modes are seen first), at a
    step that grows with the time that the mode needs.
    """

    group = "dynamics"
    seconds = 12.0
    faults = {
        "double decay": "particles pay penalty |θ|², without its half",
        "forgotten ends": "the closed form of the norm leaves out the slopes at both ends",
        "stale certificate": "one residual of the certificate is that of another label",
    }

    samples: Count = 40  # data on the line, for the picture
    pairs: Count = 14  # data of the problems whose gaps are claimed
    width: Count = 60  # particles of the descent
    steps: Count = 300_000  # of the descent, and those of the descent that measures the rate, over five times 1 / rate
    pieces: Sizes = (2, 20, 80)  # into which the sphere is cut for the proof in many dimensions
    inputs: Count = 5  # of that problem, with sixty data

    @classmethod
    def full(cls):
        return cls(steps=3_000_000, pieces=(2, 20, 80, 400), inputs=8)

    def design(self):
        yield self.spline, over(penalty=PENALTIES)
        yield self.interpolation, once()
        yield self.certified, over(case=CASES)
        yield self.proof, once()
        yield self.descent, once()
        yield self.rate, once()

    def _line(self, key, size, name):
        draw = generator(stream(key, name))
        x = np.sort(draw.uniform(-1, 1, size))
        return x[:, None], broken_line(x) + NOISE * draw.normal(size=size)

    def spline(self, key, penalty):
        """The optimum on the line with a free bias: a linear spline whose knots are data."""
        x, y = self._line(key, self.samples, "picture")
        best = relu_program(x, y, penalty=penalty)
        places = np.linspace(-1, 1, 201)
        knots = np.full(self.samples, np.nan)
        found = -best.directions[:, 1] / best.directions[:, 0]
        knots[: best.n] = found
        away = np.abs(found[:, None] - x[:, 0]).min(axis=1).max(initial=0.0)
        return {
            "curve": named(best.predict(places[:, None]), "x", x=places),
            "knots": named(knots, "neuron"),
            "away": away,
            "picture": named(np.column_stack([x[:, 0], y]), "sample", "axis"),
            "spline_gap": best.gap,
            "spline_neurons": best.n,
        }

    def interpolation(self, key):
        """The least norm through labels on the line, against its closed form by turns and end slopes."""
        errors = []
        for tilt in (0.0, 3.0, 1e4):  # the ends matter where the function is steeper than it turns
            x, y = self._line(key, 12, "interpolation")
            y = y + tilt * x[:, 0]
            slopes = np.diff(y) / np.diff(x[:, 0])
            turns, ends = np.abs(np.diff(slopes)).sum(), abs(slopes[0] + slopes[-1])
            wanted = turns if self.fault == "forgotten ends" else max(turns, (turns + ends) / 2)
            errors.append(abs(relu_program(x, y, penalty=0.0).norm / wanted - 1))
        return {"norm_error": np.max(errors)}

    def certified(self, key, case):
        """The gap of a problem, computed anew from its certificate, and the best of many random directions."""
        where, bias = case.split(", ")
        d, bias = {"line": 1, "plane": 2, "space": 3}[where], bias.replace("no bias", "none bias").split()[0]
        draw = generator(stream(key, case))
        x = draw.normal(size=(self.pairs, d))
        y = np.maximum(x @ draw.normal(size=(d, 3)), 0) @ [1, -1, 0.5] + NOISE * draw.normal(size=self.pairs)
        best = relu_program(x, y, penalty=PENALTY, bias=bias)
        proof, residuals = best.certificate, best.certificate.residuals.copy()
        if self.fault == "stale certificate":
            residuals[0] += 0.1
        share = min(1.0, PENALTY / proof.bound)
        dual = share * np.mean(residuals * y) - share**2 * np.mean(residuals**2) / 2
        directions = draw.normal(size=(DIRECTIONS, proof.inputs.shape[1]))
        counted = directions[:, :d] if bias == "free" else directions
        values = np.abs(proof.eta(directions / np.linalg.norm(counted, axis=1, keepdims=True)))
        return {"gap": abs(best.objective - dual), "neurons": best.n, "beaten": values.max() / proof.bound}

    def proof(self, key):
        """Sixty data in several dimensions, too many cells to list: the proved gap against the parts of the sphere."""
        draw = generator(stream(key, "proof"))
        x = draw.normal(size=(60, self.inputs))
        y = np.maximum(x @ draw.normal(size=(self.inputs, 3)), 0) @ [1, -1, 1] / 2 + NOISE * draw.normal(size=60)
        options = {"penalty": 3 * PENALTY, "bias": "none", "method": "search", "progress": tell}
        found = {parts: relu_program(x, y, parts=parts, **options) for parts in sorted(self.pieces)}
        gaps = [best.gap / best.objective for best in found.values()]
        excess = max(best.certificate.attained / best.penalty - 1 for best in found.values())
        return {"proved": named(gaps, "parts", parts=list(found)), "search_excess": excess}

    def _problem(self, key):
        x, y = self._line(key, 16, "descent")
        y = y - y.mean()
        best = relu_program(x, y, penalty=PENALTY, bias="penalised")
        risk, share = Risk(best.unit, Sample(x, y)), 2 if self.fault == "double decay" else 1
        return best, Descend(risk + Penalty(share * PENALTY)), risk + Penalty(PENALTY)

    def descent(self, key):
        """Particles from a random start, transport only, and how far their objective is above the program's."""
        best, field, objective = self._problem(key)
        start = uniform(jax.random.normal(stream(key, "start"), (self.width, 3)))
        path = self._descend(key, field, objective, start, DT)
        return {"excess": named(path.probes["objective"] / best.objective - 1, "time", time=path.times)}

    def _descend(self, key, field, objective, start, dt):
        options = {"probes": {"objective": objective}, "every": max(1, self.steps // 200), "progress": tell}
        return flow(field, Euler(), start, key=key, dt=dt, steps=self.steps, **options)

    def rate(self, key):
        """Near the optimum: the measured exponential rate, and twice the least eigenvalue of the Hessian on faces."""
        best, field, objective = self._problem(key)
        cloud = best.cloud
        frame, shape = _faces(best), cloud.atoms.shape
        hessian = jax.hessian(lambda theta: objective(uniform(theta.reshape(shape))))(jnp.ravel(cloud.atoms))
        values, modes = np.linalg.eigh(frame.T @ (cloud.n * np.asarray(hessian)) @ frame)
        slowest, away = float(values[0]), 0.03 * np.linalg.norm(cloud.atoms) * (frame @ modes[:, 0])
        start = uniform(cloud.atoms + away.reshape(shape))
        path = self._descend(key, field, objective, start, 5 / slowest / self.steps)
        excess, since = path.probes["objective"] - best.objective, path.times * slowest
        fitted = (since > 1) & (since < 2.5)
        measured = -np.polyfit(path.times[fitted], np.log(np.maximum(excess[fitted], 1e-300)), 1)[0]
        local = named(excess / best.objective, "since", since=since)
        return {"predicted": 2 * slowest, "measured": measured, "local": local}

    def claims(self, data):
        yield below("line: the gap at every penalty", data.spline_gap.max(), GAP)
        yield below("line: neurons, at most data and one", data.spline_neurons.max(), self.samples + 2)
        yield below("line: every knot is a datum, to {bound:g}", data.away.max(), 1e-9)
        yield below("line: the least norm through labels is its closed form, relative error", data.norm_error, 1e-9)
        for case, gap in data.gap.each("case"):
            yield below(f"{case}: the gap computed anew from the certificate", gap, GAP)
        yield below("cells: neurons, at most data and one", data.neurons.max(), self.pairs + 2)
        random = f"the best of {DIRECTIONS:,} random directions over the proved bound"
        yield between(random, data.beaten.max(), 0.8, 1 + 1e-9)
        yield below("search: the best direction over the penalty, minus one", data.search_excess, GAP)
        yield below("search: proved gap over the objective, sphere in most parts", data.proved.isel(parts=-1), 0.1)
        yield between("descent: last objective over the program's, minus one", data.excess.isel(time=-1), -GAP, 2e-3)
        ratio = data.measured / data.predicted
        yield between("rate near the optimum over that of the Hessian on the faces", ratio, 0.8, 1.2)

    def numbers(self, data):
        found = {f"neurons at penalty {p:g}": n for p, n in data.spline_neurons.each("penalty")}
        found |= {f"proved gap by {parts} parts": gap for parts, gap in data.proved.each("parts")}
        return found | {"rate predicted": data.predicted, "rate measured": data.measured}

    @panel(
        "A sparse optimum is a spline",
        "The best network of any width, on the line with a free bias: a broken line whose knots (rings) are data. The "
        "smaller the penalty, the more knots.",
        columns=PENALTIES,
        size=(9.6, 3.4),
        sharey=True,
    )
    def splines(self, axis, data, penalty):
        curve, knots = data.curve.sel(penalty=penalty), data.knots.sel(penalty=penalty)
        picture = np.asarray(data.picture.sel(penalty=penalty))
        places = curve.labels("x")
        axis.plot(*picture.T, ".", color=MUTED, label="data")
        axis.plot(places, broken_line(places), color=colour("sixth"), linestyle=(0, (4, 2)), label="truth")
        axis.plot(places, curve, color=INK, label="optimum")
        inside = np.asarray(knots)[~np.isnan(knots)]
        axis.plot(inside, np.interp(inside, places, np.asarray(curve)), "o", color=colour("EA"), markerfacecolor="none")
        neurons = round(float(data.spline_neurons.sel(penalty=penalty)))
        axis.set_title(f"penalty {penalty:g}: {neurons} neurons")
        axis.set_xlabel("x")
        if penalty == PENALTIES[0]:
            axis.legend(loc="upper center")

    @panel(
        "Particles reach the optimum, and what is proved in many dimensions",
        "Left: {width} particles under gradient descent with weight decay, their objective above the program's. "
        "Middle: from near the optimum, against the rate of the Hessian on the faces (dashed). Right: sixty data in "
        "R^{inputs}, too many cells to list: the proved gap when the sphere is cut into more and more parts.",
        columns=3,
        size=(10.8, 3.6),
    )
    def descents(self, axes, data):
        left, middle, right = axes
        left.loglog(data.excess.labels("time")[1:], np.maximum(np.asarray(data.excess)[1:], 1e-12), color=colour("DA"))
        left.set(xlabel="time", ylabel="relative excess of the objective")
        since, local = data.local.labels("since"), np.maximum(np.asarray(data.local), 1e-12)
        middle.semilogy(since, local, color=colour("FA"))
        place = np.argmin(np.abs(since - 1.5))
        middle.semilogy(since, local[place] * np.exp(-2 * (since - since[place])), color=INK, linestyle=(0, (4, 2)))
        middle.set(xlabel="time · rate / 2", ylim=(local.min() / 3, local.max() * 3))
        right.plot(data.proved.labels("parts"), np.asarray(data.proved), "o-", color=colour("EA"))
        log_axes(right, data.proved.labels("parts"), "parts of the sphere", "proved gap over objective")


def _faces(best):
    """An orthonormal basis of the ways in which particles of an optimum move along the edges that they lie on."""
    inputs, projectors = best.certificate.inputs, []
    for direction in best.directions:
        edges = inputs[np.abs(inputs @ direction) < 1e-9]
        along = np.eye(len(direction)) - np.linalg.pinv(edges) @ edges if len(edges) else np.eye(len(direction))
        projectors += [np.ones((1, 1)), along]
    values, vectors = np.linalg.eigh(np.asarray(block_diag(*projectors)))
    return vectors[:, values > 0.5]
