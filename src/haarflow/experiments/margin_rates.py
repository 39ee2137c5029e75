"""How fast a linear network turns to the largest margin: like 1/log t by gradient descent, at once in another time."""

import warnings

import numpy as np

from haarflow.dynamics.flow import Diverged
from haarflow.dynamics.schemes import Euler
from haarflow.experiments._separable import STEP, USUAL, falling, off, pairs, relative, sample, train
from haarflow.learning.margin_risks import LogExponential
from haarflow.learning.risks import Risk
from haarflow.models.linear_networks import Steerable
from haarflow.practice.max_margin import max_margin
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Step,
    above,
    below,
    between,
    named,
    over,
    panel,
)
from haarflow.runs.style import INK, colour

SLOW = {"exponential": "exponential loss", "logistic": "logistic loss"}
FAST = {"falling": "relative step, falling", "constant": "relative step, constant"}
LEVEL = (0.7, 1.3)  # how far 1/log t is from the rate over the last factor ten of the steps


class MarginRates(Experiment):
    """Gradient descent turns a linear network to the largest margin only like 1/log t, whether the loss is exponential
    or logistic; steps relative to the weights that fall like 1/t follow the same curve to 1e-5 in thousands of steps,
    and steps of a constant relative length stall, and overflow in the end.

    Source: Soudry, Hoffer, Nacson, Gunasekar and Srebro 2018 for the rate; Nacson and others 2019, Lyu and Li 2020 for
    normalised steps; Chen and Zhu (arXiv 2303.04198) for steerable networks.

    A steerable network of two layers on synthetic data under C4. The rate is that of the margin: what it lacks of the
    largest, as a share of it, times log t is level.
    """

    seconds = 9.0
    faults = {
        "no decay": "the relative step that should fall stays as it is",
        "raw margin": "the reference is the largest margin of the data as they are",
    }

    samples: Count = 16  # rows of the data
    slow_steps: Count = 100_000  # of gradient descent
    fast_steps: Count = 20_000  # of relative steps that fall, and half of those that do not
    dt: Step = 0.02  # the step of gradient descent

    @classmethod
    def full(cls):
        return cls(slow_steps=10_000_000)

    def design(self):
        yield self.slow, over(loss=SLOW)
        yield self.fast, over(step=FAST)

    def _problem(self, key):
        data = pairs(key, "C4", self.samples)
        under = None if self.fault == "raw margin" else data.rep
        return Steerable(data.rep), data, max_margin(data.x, data.y, under=under).direction

    def slow(self, key, loss):
        """The angle over log t under gradient descent."""
        network, data, best = self._problem(key)
        risk = Risk(network, sample(data), loss)
        options = {"dt": self.dt, "steps": self.slow_steps, "every": max(1, self.slow_steps // 1000)}
        path = train(key, network, risk, scheme=Euler(), **options)
        kept = np.unique(np.geomspace(1, len(path.steps) - 1, 61).astype(int))
        vectors, averaged = path.probes["vector"][kept], data.y[:, None] * data.averaged
        margins = (vectors @ averaged.T).min(axis=1) / np.linalg.norm(vectors, axis=1)
        found = {"gap": off(vectors, best), "lack": 1 - margins / (averaged @ best).min()}
        return {name: named(one, "k", k=path.steps[kept]) for name, one in found.items()}

    def fast(self, key, step):
        """1 − cos over steps relative to the weights, and the last step before numbers overflow."""
        network, data, best = self._problem(key)
        falls = step == "falling"
        decay = {"schedule": falling(USUAL)} if falls and self.fault != "no decay" else {}
        steps = self.fast_steps if falls else 2 * self.fast_steps
        every, risk = max(1, self.fast_steps // 200), LogExponential(network, sample(data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Diverged)  # it is what is looked for
            path = train(key, network, risk, scheme=relative(), dt=STEP, steps=steps, every=every, **decay)
        good = np.isfinite(path.probes["vector"]).all(axis=1) & (path.steps % every == 0)
        gaps = dict(zip(path.steps[good].tolist(), off(path.probes["vector"][good], best), strict=True))
        grid = range(0, 2 * self.fast_steps + 1, every)
        turn = named([gaps.get(k, np.nan) for k in grid], "moment", moment=list(grid))
        return {"turn": turn, "last": gaps[max(gaps)], "ended": int(path.ended)}

    def claims(self, data):
        tenth = self.slow_steps / 10
        for loss, name in SLOW.items():
            lack = data.lack.sel(loss=loss)
            place = int(np.argmin(np.abs(lack.labels("k") - tenth)))
            shares = [float(lack.isel(k=i)) * np.log(lack.labels("k")[i]) for i in (place, -1)]
            yield between(
                f"{name}: (1 − margin) log t at the end over that a tenth on the way", shares[1] / shares[0], *LEVEL
            )
        ends = data.gap.isel(k=-1)
        for loss, name in SLOW.items():
            yield above(f"{name}: 1 − cos after {self.slow_steps:,} steps", ends.sel(loss=loss), 1e-4)
        ratio = ends.sel(loss="logistic") / ends.sel(loss="exponential")
        yield between("1 − cos of the logistic loss over that of the exponential loss", ratio, 0.25, 4.0)
        falls, stays = (data.last.sel(step=step) for step in FAST)
        yield below(f"relative step, falling: 1 − cos after {self.fast_steps:,} steps", falls, 1e-5)
        yield above("relative step, constant: its last 1 − cos over that", stays / falls, 10)
        ended = data.ended.sel(step="constant")
        yield below("relative step, constant: the last step before it overflows", ended, 2 * self.fast_steps)

    def numbers(self, data):
        return {
            "1 − cos at the end, {step} relative step": data.last,
            "1 − cos at the end, {loss} loss": data.gap.isel(k=-1),
        }

    @panel(
        "The same curve in two times",
        "Left: gradient descent, what the margin lacks of the largest; dashed like 1/log t. Middle: 1 − cos to the "
        "classifier of largest margin, the same runs. Right: 1 − cos by steps relative to the weights.",
        columns=3,
        size=(10.8, 3.6),
    )
    def rates(self, axes, data):
        left, middle, right = axes
        for order, (loss, name) in enumerate(SLOW.items()):
            for axis, array in ((left, data.lack), (middle, data.gap)):
                one = array.sel(loss=loss)
                axis.plot(one.labels("k"), np.asarray(one), color=colour(order), label=name)
        lack = data.lack.sel(loss="logistic")
        steps = lack.labels("k")
        level = 0.8 * float(lack.isel(k=-1)) * np.log(steps[-1])
        late = steps[steps >= 1000]
        left.plot(late, level / np.log(late), color=INK, linestyle=(0, (4, 2)), label="like 1/log t")
        left.set(xscale="log", yscale="log", xlabel="step", ylabel="1 − margin / largest margin")
        left.legend(loc="upper right")
        middle.set(xscale="log", yscale="log", xlabel="step", ylabel="1 − cos")
        for order, (step, name) in enumerate(FAST.items()):
            one = data.turn.sel(step=step)
            right.plot(one.labels("moment"), np.asarray(one), color=colour(order + 2), label=name)
        right.set(yscale="log", xlabel="step", ylabel="1 − cos")
        right.legend(loc="upper right")
