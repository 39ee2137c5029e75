"""Two Gaussians that no direction tells apart: the training of a network on them is a flow in one number."""

import numpy as np

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.reduced import best_norm, norm_quantiles, radial_risk
from haarflow.dynamics.schemes import Euler, Heun
from haarflow.learning.data import Sample, TwoGaussians
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Risk
from haarflow.learning.sphere import unit_vectors
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.units import Dense
from haarflow.runs.experiment import Experiment, below, between, named, once, over, panel, tell
from haarflow.runs.sizes import Count, Positive, Step
from haarflow.runs.style import DASHED, INK, MUTED, colour, legend, marker

PUBLISHED = {0.1: 0.6288, 0.2: 0.3411, 0.3: 0.1392, 0.4: 0.0256}  # the least risks of one norm
SCANNED = np.round(np.linspace(0.05, 0.8, 16), 3)  # Δ at which laws are optimised
TIMES = 0.04 * np.arange(21)  # at which SGD and the reduced flow are compared


class GaussianPair(Experiment):
    """Two centred Gaussians of different variance are told apart by a flow in one number, the norm of a neuron, and
    SGD of wide networks follows it; up to a threshold neurons of a single norm are optimal, beyond it a spread law is,
    and it makes no error.

    Source: lecture 7 on mean-field networks (two Gaussians), after A mean field view of the landscape of two-layer
    neural networks (arXiv 1804.06561).

    The Gaussians are N(0, (1 ± Δ)² I), the units ramp(<w, x>), the risk is E(y − f)², the square loss without a half.
    The optimum over all laws of |w| is a convex program on a grid. The reduced flow in R^d is exact: the average over
    directions and the norms |x| are those of R^d. The published values are those of the limit of high dimension.
    """

    group = "dynamics"
    seconds = 9.0
    faults = {"half loss": "SGD descends the loss with a half, at half the speed of the reduced flow"}

    deltas: tuple[Positive, ...] = (0.2, 0.4, 0.6)  # Δ at which networks are trained
    width: Count = 1600  # neurons of a network
    d: Count = 40  # dimension of its inputs
    batch: Count = 50  # inputs of each step
    dt: Step = 0.001  # step of SGD, of the reduced flow four times as long

    @classmethod
    def full(cls):
        return cls(width=6400, batch=400)

    def design(self):
        yield self.train, over(delta=self.deltas)
        yield self.optima, once()

    def train(self, key, delta):
        """The risks of SGD and of the reduced flow in R^d, and the least risk there."""
        d, draw, every = self.d, generator(key), 4 * max(1, round(0.01 / self.dt))
        starts = uniform(0.8 / np.sqrt(d) * draw.normal(size=(self.width, d)))
        norms = uniform(0.8 / np.sqrt(d) * norm_quantiles(d, 40)[:, None])
        # held-out inputs of random directions, whose norms are the quantiles of their law
        labels, lengths = np.repeat([1.0, -1.0], 500)[:, None], np.tile(norm_quantiles(d, 500), 2)[:, None]
        xs = (1 + delta * labels) * (lengths * unit_vectors(draw, (1000, d)))
        unit, risk = Dense(d, 1, "ramp"), radial_risk(delta, d=d)
        loss = "half-square" if self.fault == "half loss" else "square"
        field = Descend(Risk(unit, TwoGaussians(d, delta, self.batch), loss))
        probes = {"risk": Risk(unit, Sample(xs, labels), "square")}
        steps = {"dt": TIMES[1] / every, "steps": 20 * every, "every": every}
        sgd = flow(field, Euler(), starts, key=key, probes=probes, progress=tell, **steps)
        steps = {"dt": 4 * TIMES[1] / every, "steps": 5 * every, "every": every // 4}
        ideal = flow(Descend(risk), Heun(), norms, key=key, probes={"risk": risk}, progress=False, **steps)
        risks, labels = [sgd.probes["risk"], ideal.probes["risk"]], {"way": ("SGD", "reduced flow"), "time": TIMES}
        least = optimum(risk, np.geomspace(0.05, 60, 301)[:, None]).value
        return {"risk": named(risks, "way", "time", **labels), "least": least}

    def optima(self, key):
        """The best single norm and the best law at each Δ, with certificates; and the Δ at which they part."""
        places, low, high = np.geomspace(0.05, 60, 801)[:, None], 0.3, 0.7
        one = [best_norm(radial_risk(float(delta)))[1:] for delta in SCANNED]
        tell(0.4)
        law = [optimum(radial_risk(float(delta)), places)[1:] for delta in SCANNED]
        tell(0.7)
        while high - low > 1e-5:
            middle = (low + high) / 2
            low, high = (middle, high) if best_norm(radial_risk(middle))[2] < 1e-7 else (low, middle)
        published = [best_norm(radial_risk(delta))[1] for delta in PUBLISHED]
        best = named([one, law], "norms", "delta", "value", norms=("one", "any"), delta=SCANNED, value=("risk", "gap"))
        return {"best": best, "threshold": low, "published": named(published, "delta", delta=PUBLISHED)}

    def claims(self, data):
        table = "the best single norm has the published risks at Δ = .1, .2, .3, .4, to {bound:g}"
        yield below(table, np.abs(data.published - list(PUBLISHED.values())).max(), 1e-4)
        (_, one), (_, law) = data.best.sel(value="risk").each("norms")
        at = float(data.threshold)
        same, none = (one - law).sel(delta=lambda delta: delta < at), law.sel(delta=lambda delta: delta > at)
        yield below("below the threshold no law is better than one norm, to {bound:g}", same.max(), 1e-4)
        yield below("above the threshold the best law has risk zero, to {bound:g}", none.max(), 1e-6)
        yield between("one norm is optimal up to Δ", at, 0.4735, 0.4745)
        (_, sgd), (_, flowed) = data.risk.each("way")
        near = "SGD is within {bound:.0%} of the start risk of the reduced flow at all times"
        yield below(near, (abs(sgd - flowed) / flowed.isel(time=0)).max(), 0.02)

    def numbers(self, data):
        ends = {f"Δ = {at:g}: {way} at the end": end for (at, way), end in data.risk.isel(time=-1).each("delta", "way")}
        return ends | {f"Δ = {at:g}: least risk in R^d": least for at, least in data.least.each("delta")}

    @panel(
        "Two Gaussians, one number",
        "Telling N(0, (1 + Δ)² I) from N(0, (1 − Δ)² I). Left, high dimension: up to the threshold neurons of one norm "
        "are optimal, beyond it only a spread law is, and it makes no error. Right: SGD of {width} neurons in R^{d}, "
        "on top of the flow in one number.",
        columns=2,
        size=(10.2, 4.2),
    )
    def risks(self, axes, data):
        """Optimal risks against Δ, and SGD on the reduced flow."""
        left, right = axes
        looks = {"one": ("EA", "best single norm", 9), "any": ("vanilla", "best law of norms", 4)}
        for norms, risks in data.best.sel(value="risk").each("norms"):
            shade, words, size = looks[norms]
            look = {"color": colour(shade), "marker": marker(shade), "markersize": size, "markerfacecolor": "none"}
            left.plot(SCANNED, risks, label=words, **look)
        left.plot(*zip(*PUBLISHED.items(), strict=True), "x", color=INK, markersize=8, label="published")
        at = float(data.threshold)
        left.axvline(at, color=MUTED, linestyle=DASHED, linewidth=1.0)
        place = {"xytext": (5, 0), "textcoords": "offset points", "color": MUTED, "fontsize": 8.5}
        left.annotate(f"Δ = {at:.3f}", (at, 0.5), **place)
        left.set(xlabel="Δ", ylabel="least risk", ylim=(-0.02, None))
        left.legend(loc="upper right")
        for order, (delta, risks) in enumerate(data.risk.each("delta")):
            shade, look = {"color": colour(order)}, {"marker": marker(order), "linestyle": "none"}
            right.plot(TIMES, risks.sel(way="reduced flow"), **shade)
            right.plot(TIMES, risks.sel(way="SGD"), label=f"Δ = {delta:g}", **shade, **look)
            right.axhline(data.least.sel(delta=delta), linestyle=DASHED, linewidth=1.0, **shade)
        right.plot([], [], color=INK, label="reduced flow")
        right.plot([], [], color=INK, linestyle=DASHED, linewidth=1.0, label="least risk")
        right.set(yscale="log", xlabel="time t", ylabel="risk")
        legend(right, title="SGD")
