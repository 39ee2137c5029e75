"""A law in a thousand dimensions that moves in three: the training of a network on one neuron."""

from functools import partial
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.domains import restrict
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import Grid
from haarflow.dynamics.reduced import reduced_masses, reduced_risk, reduced_start
from haarflow.dynamics.schemes import Adaptive, Euler, Heun
from haarflow.learning.data import Teacher
from haarflow.learning.risks import Risk
from haarflow.learning.single_neuron import mirrored_students
from haarflow.learning.sphere import ReluRisk, one_neuron, relu_coordinates
from haarflow.measures.clouds import Cloud, stack_clouds, uniform
from haarflow.measures.distances import generator
from haarflow.models.neurons import Neuron
from haarflow.runs import style
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Fit,
    Horizon,
    Sizes,
    Step,
    below,
    between,
    in_turns,
    named,
    once,
    over,
    panel,
    power_law,
    tell,
)
from haarflow.runs.statistics import first_below

LOOKS = 20  # times up to the horizon at which risks are taken
LEARNT = 0.1  # a run has learnt when its risk is this share of its start
SAMPLES, NEURONS = "samples until the risk is 10% of its start", "neurons with which every run learns"
BEHIND, ORDER = "risk of the most neurons over the reduced risk", "moments on the grid against characteristics"


class Reduced(Experiment):
    """The training of a network on one neuron in R^d is a flow in three numbers (a, s, r), whose law solves a plain
    continuity equation; wide networks follow it, its risk goes to zero, and so a number of neurons that does not
    depend on d learns from O(d) samples.

    Source: lecture 7 on mean-field networks (the single neuron), after A mean field view of the landscape of two-layer
    neural networks (arXiv 1804.06561).

    Inputs x ~ N(0, I), y = relu(x₁), students a relu(<w, x>) with a = ±1 and w ~ N(0, I/d) at the start, s = w₁
    and r the norm of the rest, which starts as d^{−1/2} times the norm of a Gaussian in d − 1 dimensions. The lecture
    prints a term (1/r) ∂_r(r …); a law that is pushed forward has none. The equation is solved along characteristics
    from a Gauss quadrature of the start, with a Gauss–Jacobi average over the angle of two rests. Networks draw a
    quarter of their neurons and add the images under a → −a and w → −w, symmetries of the start: so their laws start
    with the right means. One-pass SGD takes one fresh sample a step, of size `rate`/d. On a grid of (s, r), with a = 1
    kept and in the field of the characteristics, the equation conserves mass to rounding.
    """

    group = "dynamics"
    seconds = 25.0
    faults = {"printed": "the equation on the grid has the term (1/r) ∂_r(r …)"}

    d: Count = 40  # dimension of the wide network
    width: Annotated[int, Field(ge=4, multiple_of=4)] = 1600  # its neurons
    horizon: Horizon = 10.0  # time of training
    late: Horizon = 200.0  # and of the reduced flow
    dims: Sizes = (10, 20, 40, 80, 160)  # dimensions along which SGD is fitted
    neurons: Sizes = (2, 8, 64)  # its neurons
    runs: Count = 12  # its runs
    rate: Step = 0.25  # its step, times d
    refinements: Annotated[int, Field(ge=2)] = 3  # grids, each twice as fine as the last

    @classmethod
    def full(cls):
        return cls(runs=40, neurons=(2, 4, 8, 16, 32, 64, 128), rate=0.1, refinements=4)

    def design(self):
        yield self.network, once()
        yield self.sgd, over(d=self.dims).largest_first("d")
        yield self.limit, once()
        yield self.grid, once()

    times = property(lambda self: np.linspace(0, self.horizon, LOOKS + 1), doc="Up to the horizon.")

    def limit(self, key):
        """The risk of the reduced flow at every d: often up to the horizon, then rarely up to a late time."""
        dims = sorted({self.d, *self.dims})
        energies = [reduced_risk(one_neuron(1), d, nodes=8) for d in dims]
        starts = stack_clouds([reduced_start(d, along=10, across=2) for d in dims])
        short, long = self.horizon / LOOKS, (self.late - self.horizon) / 8
        path = flow(
            [Descend(energy) for energy in energies],
            Adaptive(rtol=1e-5, atol=1e-7),
            starts,
            key=jax.random.split(key, len(dims)),
            dt=short,
            steps=LOOKS + 8,
            schedule=lambda t: jnp.where(t < (LOOKS - 0.5) * short, 1.0, long / short),
            probes={"atoms": lambda cloud: cloud.atoms},
            every=1,
        )
        rows = zip(energies, path.cloud.weights, path.probes["atoms"], strict=True)
        times = [*self.times, *path.times[0, LOOKS + 1 :]]
        return {"limit": named([_risks(*row) for row in rows], "d", "time", d=dims, time=times)}

    def network(self, key):
        """One wide network in R^d under the exact gradient: its risk, and its neurons as (a, s, r) at three times."""
        risk, steps, frame = ReluRisk(one_neuron(self.d)), 2 * LOOKS, np.eye(self.d, 1)
        start = uniform(mirrored_students(generator(key), (self.width,), self.d))
        probes = {"risk": risk, "law": lambda cloud: relu_coordinates(cloud.atoms, frame)}
        options = {"dt": self.horizon / steps, "steps": steps, "every": 4, "probes": probes}
        path = flow(Descend(risk), Heun(), start, key=key, progress=tell, **options)
        times, shown = self.times[::2], [0, 2, LOOKS // 2]
        law = named(path.probes["law"][shown], "time", "neuron", "coordinate", time=times[shown])
        return {"network": named(path.probes["risk"], "time", time=times), "law": law}

    def sgd(self, key, d):
        """The risks of one-pass SGD, a sample a step, by neurons and run; fewer neurons are those with mass."""
        key, most, every = jax.random.fold_in(key, d), max(self.neurons), round(self.horizon * d / self.rate / LOOKS)
        shape = (len(self.neurons), self.runs, most)
        masses = [np.where(np.arange(most) < m, 1 / m, 0.0) for m in self.neurons]
        atoms, teacher = mirrored_students(generator(key), shape, d).reshape(-1, most, d + 1), one_neuron(d)
        path = flow(
            Descend(Risk(Neuron(d), Teacher(Neuron(d), teacher, 1))),
            Euler(),
            Cloud(atoms, np.repeat(masses, self.runs, axis=0)),
            key=jax.random.split(key, len(atoms)),
            dt=self.horizon / (LOOKS * every),
            steps=LOOKS * every,
            probes={"risk": ReluRisk(teacher)},
            every=every,
            progress=tell,
        )
        risks = path.probes["risk"].reshape(*shape[:2], -1)
        return {"sgd": named(risks, "neurons", "run", "time", neurons=self.neurons, time=self.times)}

    def grid(self, key):
        """The continuity equation of (s, r) on grids of smaller and smaller cells, against characteristics."""
        fine = [2**level for level in range(self.refinements)]
        levels = [self._level(key, cuts, self.fault == "printed") for (cuts,) in in_turns(fine)]
        ends = [(box, rows[-1], laws[-1]) for box, laws, rows, _ in levels]
        errors = [_moments(box.centres, row) - _moments(law.atoms[:, 1:], law.weights) for box, row, law in ends]
        lost = [max(np.abs(rows.sum(1) - 1).max(), drift) for *_, rows, drift in levels]
        masses = [levels[0][2].sum(1), self._level(key, 1, True)[2].sum(1)]
        box, laws, rows, _ = levels[-1]
        shown, cells = [0, len(rows) // 4, len(rows) - 1], [28 * cuts for cuts in fine]
        return {
            "moments": named(errors, "cells", "moment", cells=cells),
            "lost": named(lost, "cells", cells=cells),
            "mass": named(masses, "equation", "time", equation=("plain", "printed"), time=np.linspace(0, 2, 21)),
            "density": named(rows[shown].reshape(3, *box.cells) / box.volume, "time", "s", "r"),
            "nodes": named([laws[i].atoms[:, 1:] for i in shown], "time", "node", "coordinate"),
            "shares": named(laws[0].weights, "node"),
        }

    def _level(self, key, cuts, printed):
        """With cells of side 1/8 cut in parts: the grid, the characteristics, masses at every step, and their drift."""
        d, dt, steps = 10, 0.1 / cuts, 20 * cuts
        energy, start = reduced_risk(one_neuron(1), d, nodes=6), reduced_start(d, outputs=(1.0,), along=10, across=2)
        field = restrict(Descend(energy), np.diag([0.0, 1.0, 1.0]), through="start")
        options = {"dt": dt, "steps": steps, "every": 1, "probes": {"atoms": lambda cloud: cloud.atoms}}
        path = flow(field, Heun(), start, key=key, progress=False, **options)
        laws = [Cloud(atoms, start.weights) for atoms in path.probes["atoms"]]
        box = Grid((-1.5, 0.0), (2.0, 2.0), (28 * cuts, 16 * cuts))
        return box, laws, *reduced_masses(energy, box, laws[:-1], d, dt=dt, growth=_printed if printed else None)

    def samples(self, data):
        """Samples until a run with the most neurons has learnt, by run and d; infinite if it never does."""
        risks = data.sgd.isel(neurons=-1)
        shares = risks / risks.isel(time=0)
        when = partial(first_below, self.times, level=LEARNT)
        first = shares.over(lambda values, axis: np.apply_along_axis(when, axis, values), "time")
        return first * named(self.dims, "d", d=self.dims) / self.rate

    def enough(self, data):
        """The fewest neurons of which every run learns, at each d; infinite if there are none."""
        good = (data.sgd.isel(time=-1) < LEARNT * data.sgd.isel(time=0)).all("run").transpose("d", "neurons").values
        fewest = np.where(good.any(axis=1), np.array(self.neurons)[good.argmax(axis=1)], np.inf)
        return named(fewest, "d", d=self.dims)

    def behind(self, data):
        """The risk at the horizon of SGD with the most neurons, over that of the reduced flow, by run and d."""
        return data.sgd.isel(neurons=-1, time=-1) / data.limit.sel(d=self.dims, time=self.horizon)

    def apart(self, data):
        """The wide network over the reduced flow, minus one, at every recorded time."""
        return data.network / data.limit.sel(d=self.d, time=self.times[::2]) - 1

    def fits(self, data):
        errors = named(np.linalg.norm(data.moments, axis=1), "cells", cells=data.moments.labels("cells"))
        return {
            SAMPLES: _law(self.samples(data), centre="mean"),
            NEURONS: _law(self.enough(data)),
            BEHIND: _law(self.behind(data)),
            ORDER: power_law(errors, along="cells"),
        }

    def claims(self, data):
        wide = f"one neuron, d = {self.d}: width {self.width} is within {{bound:.0%}} of the reduced risk at all times"
        yield below(wide, abs(self.apart(data)).max(), 0.05)
        late = f"one neuron: at t = {self.late:g} the reduced risk is below {{bound:.1%}} of its start, at every d"
        yield below(late, (data.limit.isel(time=-1) / data.limit.isel(time=0)).max(), 1e-3)
        yield data.fits[SAMPLES].called(f"one neuron: {SAMPLES}").between(0.9, 1.1)
        yield data.fits[NEURONS].called(f"one neuron: {NEURONS}").below(0.25)
        yield data.fits[BEHIND].called(f"one neuron: {BEHIND}").below(0.1)
        yield below("grid: the continuity equation conserves mass to {bound:g}", data.lost.max(), 1e-12)
        yield between(f"grid: {ORDER}, order in the cells", -data.fits[ORDER].value, 0.8, 1.2)

    def numbers(self, data):
        numbers = {"wide network over reduced flow, at the end": 1 + self.apart(data)[-1]}
        ends = data.limit.isel(time=-1) / data.limit.isel(time=0)
        numbers |= {f"reduced risk over its start, d = {d}": end for d, end in ends.each("d")}
        for d, column in self.samples(data).each("d"):
            numbers |= {f"samples / d, d = {d}": column.median() / d, f"neurons, d = {d}": self.enough(data).sel(d=d)}
            numbers[f"SGD over reduced risk, d = {d}"] = self.behind(data).sel(d=d).median()
        printed = np.abs(data.mass.sel(equation="printed") - 1).max()
        return numbers | {"mass error of the printed term": printed}

    @panel(
        "One neuron: samples like d, neurons like 1",
        "One ReLU neuron in R^d, learnt by one-pass SGD with a sample a step. Left: median risk over {runs} runs "
        "(marks) on the reduced equation in (a, s, r) (lines); in samples per dimension the curves of all d nearly "
        "coincide. Right: samples until the risk is 10% of its start (dashed line on the left) grow like d; the number "
        "of neurons with which every run gets there does not.",
        columns=2,
        size=(10.2, 4.2),
        width_ratios=(1.3, 1),
    )
    def over_dimensions(self, axes, data):
        """Risk against samples per dimension; samples and neurons against d."""
        left, right = axes
        for order, (d, risks) in enumerate(data.sgd.isel(neurons=-1).each("d")):
            look = {"color": style.colour(order), "marker": style.marker(order), "linestyle": "none"}
            left.plot(self.times / self.rate, data.limit.sel(d=d, time=self.times), color=look["color"], linewidth=1.3)
            left.plot(self.times / self.rate, risks.median("run"), label=f"d = {d}", **look)
        left.plot([], [], color=style.INK, linewidth=1.3, label="reduced equation")
        left.axhline(LEARNT * data.limit.isel(d=0, time=0), color=style.MUTED, linestyle=style.DASHED, linewidth=1.0)
        left.set(yscale="log", xlabel="samples per dimension, n / d", ylabel="risk")
        left.legend(title=f"SGD, {self.neurons[-1]} neurons", loc="upper right", alignment="left")
        samples, neurons = self.samples(data).transpose("run", "d").values, self.enough(data).values
        series, fits = {"samples": samples, "neurons": neurons}, {"samples": SAMPLES, "neurons": NEURONS}
        fits = {name: data.fits[law] for name, law in fits.items()}
        style.slopes(right, self.dims, series, fits=fits, centre="mean", xlabel="dimension d", ylabel="needed to learn")
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
        """The risk of a wide network and of the reduced flow, and its neurons in the plane (s, r)."""
        first, *rest = axes
        first.plot(self.times, data.limit.sel(d=self.d, time=self.times), color=style.INK, label="reduced equation")
        look = {"color": style.colour("vanilla"), "label": f"width {self.width}"}
        first.plot(self.times[::2], data.network, "o", **look)
        first.set(yscale="log", xlabel="time t", ylabel="risk")
        first.legend(loc="upper right")
        for axis, (t, law) in zip(rest, data.law.each("time"), strict=True):
            for sign, name, shade in ((1, "a > 0", "EA"), (-1, "a < 0", "vanilla")):
                some = law[np.sign(law[:, 0]) == sign][::3]
                look = {"s": 4, "color": style.colour(shade), "linewidth": 0, "alpha": 0.6}
                axis.scatter(some[:, 1], some[:, 2], label=name, **look)
            axis.plot(1, 0, "*", color=style.INK, markersize=11, clip_on=False, label="teacher")
            axis.axvline(0, color=style.MUTED, linewidth=0.6)
            axis.set(title=f"t = {t:g}", xlabel="s", xlim=(-1.6, 2.2), ylim=(0, 1.7))
        rest[0].set(ylabel="r")
        style.legend(rest[-1], markerscale=2)

    @panel(
        "The reduced law is pushed forward",
        "The law of (s, r) in R^10 with outputs kept at one: its density by finite volumes (blue) and the "
        "characteristics of the same equation (circles, by weight). The plain equation conserves mass to rounding; the "
        "one printed with a geometric factor does not.",
        columns=4,
        size=(11.0, 3.4),
        width_ratios=(1, 1, 1, 1.25),
    )
    def mass(self, axes, data):
        """The density on the grid with its characteristics, and its mass with and without the printed term."""
        *maps, last = axes
        look = {"origin": "lower", "extent": (-1.5, 2.0, 0.0, 2.0), "aspect": "auto", "interpolation": "bilinear"}
        for axis, density, nodes, t in zip(maps, data.density, data.nodes, (0, 0.5, 2), strict=True):
            axis.imshow(density.T, cmap=style.ramp("vanilla"), **look)
            axis.scatter(*nodes.T, s=3 + 300 * data.shares, facecolor="none", edgecolor=style.colour("EA"))
            axis.set(title=f"t = {t:g}", xlabel="s", xlim=(-1.5, 2.0), ylim=(0, 2))
            axis.grid(visible=False)
        maps[0].set(ylabel="r")
        plain, printed = data.mass.values
        times = data.mass.labels("time")
        last.plot(times, plain, color=style.INK, label=r"$\partial_r(\rho\,\partial_r\Psi)$")
        words = r"$\frac{1}{r}\partial_r(r\rho\,\partial_r\Psi)$"
        last.plot(times, printed, color=style.colour("EA"), linestyle=style.DASHED, label=words)
        last.set(xlabel="time t", ylabel="mass", ylim=(0.95, 1.07))
        last.legend(loc="upper left")


@eqx.filter_jit
def _risks(energy, weights, atoms):
    """The energy of clouds with these weights, (times, n, p)."""
    return jax.vmap(lambda moved: energy(Cloud(moved, weights)))(atoms)


@eqx.filter_jit
def _printed(psi, places):
    """What the term (1/r) ∂_r(r …) adds: mass that grows at the rate (∂_r Psi)/r."""
    return jax.vmap(jax.grad(psi))(places)[:, 1] / places[:, 1]


def _moments(places, weights):
    """The first and second moments of s and r."""
    places, weights = np.asarray(places), np.asarray(weights)
    return np.concatenate([weights @ places, weights @ places**2]) / weights.sum()


def _law(array, **options):
    """The power law in d; nan where a run never learns."""
    if np.isfinite(array).all():
        return power_law(array, along="d", **options)
    return Fit(np.nan, np.nan, np.nan, np.nan, tuple(array.labels("d").tolist()), "d")
