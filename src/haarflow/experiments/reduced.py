"""A law in a thousand dimensions that moves in three: the training of a network on one neuron."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.reduced import reduced_risk, reduced_start
from haarflow.dynamics.schemes import Adaptive, Euler, Heun
from haarflow.learning.data import Teacher
from haarflow.learning.risks import Risk
from haarflow.learning.single_neuron import mirrored_students
from haarflow.learning.sphere import ReluRisk, one_neuron, relu_coordinates
from haarflow.measures.clouds import Cloud, stack_clouds, uniform
from haarflow.measures.distances import generator
from haarflow.models.neurons import Neuron
from haarflow.runs import style
from haarflow.runs.experiment import Experiment, Fit, below, named, once, over, panel, power_law, tell
from haarflow.runs.sizes import Count, Horizon, Sizes, Step
from haarflow.runs.statistics import first_below

LOOKS, LEARNT = 20, 0.1  # times at which risks are taken; a run has learnt at this share of its first risk
SAMPLES, NEURONS = "samples until the risk is 10% of its start", "neurons with which every run learns"
BEHIND = "risk of the most neurons over the reduced risk"


class Reduced(Experiment):
    """The training of a network on one neuron in R^d is a flow in three numbers (a, s, r); wide networks follow it, its
    risk goes to zero, and so a number of neurons that does not depend on d learns from O(d) samples.

    Source: lecture 7 on mean-field networks (the single neuron), after A mean field view of the landscape of two-layer
    neural networks (arXiv 1804.06561).

    Inputs x ~ N(0, I), y = relu(x₁), students a relu(<w, x>) with a = ±1 and w ~ N(0, I/d) at the start, s = w₁
    and r the norm of the rest, which starts as d^{−1/2} times the norm of a Gaussian in d − 1 dimensions. The equation
    of their law is solved along characteristics from a Gauss quadrature of the start, with a Gauss–Jacobi average over
    the angle of two rests; on a grid it is solved by the experiment `continuity`. Networks draw a quarter of their
    neurons and add the images under a → −a and w → −w, symmetries of the start: so their laws start with the right
    means. One-pass SGD takes one fresh sample a step, of size `rate`/d.

    The samples' slope in d is above one, whatever the seed: so it is for the reduced equation itself, which has no
    noise. The time to a tenth of the risk is 3.04 at d = 10, 3.34 at 40, 3.44 at 160, about 3.47 − 4.4/d: neurons start
    with s of order d^{−1/2} along the teacher, and in low dimension have less far to turn. Fitted from 10 to 160 this
    makes 1.04, and nine seeds of SGD lie between 1.02 and 1.08; the law O(d) is that of large d.
    """

    group = "dynamics"
    seconds = 20.0
    faults = {"half speed": "the wide network moves at half the speed of the reduced flow"}

    d: Count = 40  # dimension of the wide network
    width: Annotated[int, Field(ge=4, multiple_of=4)] = 1600  # its neurons
    horizon: Horizon = 10.0  # time of training
    late: Horizon = 200.0  # and of the reduced flow
    dims: Sizes = (10, 20, 40, 80, 160)  # dimensions along which SGD is fitted
    neurons: Sizes = (2, 8, 64)  # its neurons
    runs: Count = 12  # its runs
    rate: Step = 0.25  # its step, times d

    @classmethod
    def full(cls):
        return cls(runs=40, neurons=(2, 4, 8, 16, 32, 64, 128), rate=0.1)

    def design(self):
        yield self.network, once()
        yield self.sgd, over(d=self.dims).largest_first("d")
        yield self.limit, once()

    times = property(lambda self: np.linspace(0, self.horizon, LOOKS + 1), doc="Up to the horizon.")

    def limit(self, key):
        """The risk of the reduced flow at every d: often up to the horizon, then rarely up to a late time."""
        dims = sorted({self.d, *self.dims})
        energies = [reduced_risk(one_neuron(1), d, nodes=8) for d in dims]
        starts = stack_clouds([reduced_start(d, along=10, across=2) for d in dims])
        short, long = self.horizon / LOOKS, (self.late - self.horizon) / 8
        fields, keys = [Descend(energy) for energy in energies], jax.random.split(key, len(dims))
        times = {"dt": short, "steps": LOOKS + 8, "every": 1, "probes": {"atoms": lambda cloud: cloud.atoms}}
        times["schedule"] = lambda t: jnp.where(t < (LOOKS - 0.5) * short, 1.0, long / short)
        path = flow(fields, Adaptive(rtol=1e-5, atol=1e-7), starts, key=keys, progress=tell, **times)
        risks = list(map(_risks, energies, path.cloud.weights, path.probes["atoms"]))
        return {"limit": named(risks, "d", "time", d=dims, time=[*self.times, *path.times[0, LOOKS + 1 :]])}

    def network(self, key):
        """One wide network in R^d under the exact gradient: its risk, and its neurons as (a, s, r) at three times."""
        risk, steps, frame = ReluRisk(one_neuron(self.d)), 2 * LOOKS, np.eye(self.d, 1)
        field = Descend(risk, transport=0.5 if self.fault == "half speed" else 1.0)
        start = uniform(mirrored_students(generator(key), (self.width,), self.d))
        probes = {"risk": risk, "law": lambda cloud: relu_coordinates(cloud.atoms, frame)}
        options = {"dt": self.horizon / steps, "steps": steps, "every": 4, "probes": probes, "progress": tell}
        path, times, shown = flow(field, Heun(), start, key=key, **options), self.times[::2], [0, 2, LOOKS // 2]
        law = named(path.probes["law"][shown], "time", "neuron", "coordinate", time=times[shown])
        return {"network": named(path.probes["risk"], "time", time=times), "law": law}

    def sgd(self, key, d):
        """The risks of one-pass SGD, a sample a step, by neurons and run; fewer neurons are those with mass."""
        key, most, every = jax.random.fold_in(key, d), max(self.neurons), round(self.horizon * d / self.rate / LOOKS)
        shape, teacher, every = (len(self.neurons), self.runs, most), one_neuron(d), max(1, every)
        atoms = mirrored_students(generator(key), shape, d).reshape(-1, most, d + 1)
        masses = [np.where(np.arange(most) < m, 1 / m, 0.0) for m in self.neurons]
        starts, keys = Cloud(atoms, np.repeat(masses, self.runs, axis=0)), jax.random.split(key, len(atoms))
        field = Descend(Risk(Neuron(d), Teacher(Neuron(d), teacher, 1)))
        options = {"dt": self.horizon / (LOOKS * every), "steps": LOOKS * every, "probes": {"risk": ReluRisk(teacher)}}
        path = flow(field, Euler(), starts, key=keys, every=every, progress=tell, **options)
        risks = path.probes["risk"].reshape(*shape[:2], -1)
        return {"sgd": named(risks, "neurons", "run", "time", neurons=self.neurons, time=self.times)}

    def samples(self, risks):
        """Samples until the risk is a tenth of its start, at each d; infinite if it never is up to the horizon."""
        shares = risks / risks.isel(time=0)
        first = shares.over(lambda values, axis: first_below(self.times, values, LEARNT, axis=axis), "time")
        return first * named(self.dims, "d", d=self.dims) / self.rate

    def enough(self, data):
        """The fewest neurons of which every run learns, at each d; infinite if there are none."""
        good = (data.sgd.isel(time=-1) < LEARNT * data.sgd.isel(time=0)).all("run").transpose("d", "neurons").values
        return named(np.where(good, self.neurons, np.inf).min(axis=1), "d", d=self.dims)

    def behind(self, data):
        """The risk at the horizon of SGD with the most neurons, over that of the reduced flow, by run and d."""
        return data.sgd.isel(neurons=-1, time=-1) / data.limit.sel(d=self.dims, time=self.horizon)

    def apart(self, data):
        """The wide network over the reduced flow, minus one, at every recorded time."""
        return data.network / data.limit.sel(d=self.d, time=self.times[::2]) - 1

    def fits(self, data):
        return {
            SAMPLES: _fit(self.samples(data.sgd.isel(neurons=-1)), centre="mean"),
            f"{SAMPLES}, reduced equation": _fit(self.samples(data.limit.sel(d=self.dims, time=self.times))),
            NEURONS: _fit(self.enough(data)),
            BEHIND: _fit(self.behind(data)),
        }

    def claims(self, data):
        wide = f"one neuron, d = {self.d}: width {self.width} is within {{bound:.0%}} of the reduced risk at all times"
        yield below(wide, abs(self.apart(data)).max(), 0.05)
        late = f"one neuron: at t = {self.late:g} the reduced risk is below {{bound:.1%}} of its start, at every d"
        yield below(late, (data.limit.isel(time=-1) / data.limit.isel(time=0)).max(), 1e-3)
        yield data.fits[SAMPLES].called(f"one neuron: {SAMPLES}").between(0.9, 1.1)
        yield data.fits[NEURONS].called(f"one neuron: {NEURONS}").below(0.25)
        yield data.fits[BEHIND].called(f"one neuron: {BEHIND}").below(0.1)

    def numbers(self, data):
        return {
            "reduced risk over its start, d = {d}": data.limit.isel(time=-1) / data.limit.isel(time=0),
            "samples / d, d = {d}": self.samples(data.sgd.isel(neurons=-1)).median("run") / np.array(self.dims),
            "neurons, d = {d}": self.enough(data),
            "SGD over reduced risk, d = {d}": self.behind(data).median("run"),
            "wide network over reduced flow, at the end": 1 + self.apart(data)[-1],
        }

    @panel(
        "One neuron: samples like d, neurons like 1",
        "One ReLU neuron in R^d, learnt by one-pass SGD with a sample a step. Left: median risk over {runs} runs "
        "(marks) close above the reduced equation in (a, s, r) (lines); in samples per dimension the curves of all d "
        "nearly coincide. Right: samples until the risk is 10% of its start (dashed line on the left) grow like d; the "
        "number of neurons with which every run gets there does not.",
        columns=2,
        size=(10.2, 4.2),
        width_ratios=(1.3, 1),
    )
    def over_dimensions(self, axes, data):
        left, right = axes
        for order, (d, risks) in enumerate(data.sgd.isel(neurons=-1).each("d")):
            look = {"color": style.colour(order), "marker": style.marker(order), "linestyle": "none"}
            left.plot(self.times / self.rate, data.limit.sel(d=d, time=self.times), color=look["color"], linewidth=1.3)
            left.plot(self.times / self.rate, risks.median("run"), label=f"d = {d}", **look)
        left.plot([], [], color=style.INK, linewidth=1.3, label="reduced equation")
        left.axhline(LEARNT * data.limit.isel(d=0, time=0), color=style.MUTED, linestyle=style.DASHED, linewidth=1.0)
        left.set(yscale="log", xlabel="samples per dimension, n / d", ylabel="risk")
        left.legend(title=f"SGD, {self.neurons[-1]} neurons", loc="upper right", alignment="left")
        samples = self.samples(data.sgd.isel(neurons=-1)).transpose("run", "d").values
        series, fits = {"samples": samples, "neurons": self.enough(data)}, (data.fits[SAMPLES], data.fits[NEURONS])
        look = {"fits": dict(zip(series, fits, strict=True)), "centre": "mean", "ylabel": "needed to learn"}
        style.slopes(right, self.dims, series, xlabel="dimension d", **look)
        style.reference(right, self.dims, 1, samples.min(axis=0))
        right.legend(title="slope in d [95% band]", loc="upper left", alignment="left")
        right.set_ylim(None, 30 * samples.max())

    @panel(
        "A wide network moves in three numbers",
        "A network of width {width} in R^{d} has its risk on the reduced equation (left). Right: its neurons, each as "
        "s, along the teacher, and r, the norm of the rest. Those that help turn towards the teacher, the others fade "
        "or turn away.",
        columns=4,
        size=(11.0, 3.6),
        width_ratios=(1.5, 1, 1, 1),
    )
    def particles(self, axes, data):
        first, *rest = axes
        first.plot(self.times, data.limit.sel(d=self.d, time=self.times), color=style.INK, label="reduced equation")
        first.plot(self.times[::2], data.network, "o", color=style.colour("vanilla"), label=f"width {self.width}")
        first.set(yscale="log", xlabel="time t", ylabel="risk")
        first.legend(loc="upper right")
        for axis, (t, law) in zip(rest, data.law.each("time"), strict=True):
            for sign, name, shade in ((1, "a > 0", "EA"), (-1, "a < 0", "vanilla")):
                some = law[np.sign(law[:, 0]) == sign][::3, 1:]
                axis.scatter(*some.T, s=4, color=style.colour(shade), linewidth=0, alpha=0.6, label=name)
            axis.plot(1, 0, "*", color=style.INK, markersize=11, clip_on=False, label="teacher")
            axis.axvline(0, color=style.MUTED, linewidth=0.6)
            axis.set(title=f"t = {t:g}", xlabel="s", xlim=(-1.6, 2.7), ylim=(0, 1.7))
        rest[0].set(ylabel="r")
        style.legend(rest[-1])


@eqx.filter_jit
def _risks(energy, weights, atoms):
    """The energy of clouds with these weights, (times, n, p)."""
    return jax.vmap(lambda moved: energy(Cloud(moved, weights)))(atoms)


def _fit(array, **options):
    """The power law in d; unknown if some run never learns."""
    unknown = Fit(np.nan, np.nan, np.nan, np.nan, along="d")
    return power_law(array, along="d", **options) if np.isfinite(array).all() else unknown
