"""Noisy descent and its free energy: the self-consistent Gibbs law, how fast it is reached, by how many particles."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from haarflow.dynamics import schemes
from haarflow.dynamics.diffusion import fokker_planck, relaxation_rate
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.free_energies import gibbs
from haarflow.dynamics.grids import Grid
from haarflow.experiments import _problems as problems
from haarflow.experiments._problems import INPUTS, MOMENTS, TARGETS, UNIT
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import stack_clouds, uniform
from haarflow.measures.distances import generator
from haarflow.models.networks import network
from haarflow.runs.experiment import Experiment, above, below, between, named, once, over, panel, power_law, tell
from haarflow.runs.sizes import Count, Horizon, Positive, Sizes, Step
from haarflow.runs.style import DASHED, INK, MUTED, colour, curves, legend

START = (2.0, 0.4)  # the mean and the deviation of the start, far from the Gibbs law
WIDE = (0.5, 1.0)  # those of the start from which moments are compared, nearer so that half a run forgets it


class Langevin(Experiment):
    """Noisy descent samples the law that is Gibbs in its own potential: its moments, the free-energy sandwich, the
    exponential rate, and 1/N fluctuations at all times.

    Source: lecture 7 on mean-field networks (noisy SGD, free energy, convergence); the mean-field Langevin theorems
    behind it (entropy sandwich, exponential convergence, uniform-in-time propagation of chaos).

    Temperature beta means the entropy term beta ∫log mu dmu and the noise `sqrt(2 beta dt) xi`; the lectures write
    1/beta for it and print the noise without the two, which samples the law of half the temperature. The Gibbs law
    comes from a damped fixed point on a grid (undamped, it oscillates for ever), the flow from implicit finite volumes,
    which the experiment `fokker-planck` checks. The sharp rate is the lowest eigenvalue of the linearised flow; the
    rate of Holley and Stroock bounds the free energy from the first moment on. The verdicts on chaos are
    statistical: their bounds lie more than three standard errors of the quick size away.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 23.0
    faults = {"printed noise": "the noise is `sqrt(beta dt) xi`", "printed decay": "each step decays by all of tau"}

    tau: Positive = 0.3
    temperature: Positive = 0.2
    cells: Count = 240
    particles: Count = 60000
    dt: Step = 0.01
    horizon: Horizon = 16.0
    sizes: Sizes = (32, 128, 512)
    repetitions: Count = 64

    @classmethod
    def full(cls):
        return cls(cells=480, particles=400000, dt=0.005, sizes=(32, 128, 512, 2048), repetitions=256)

    def design(self):
        yield self.moments, once()
        yield self.chaos, over(n=self.sizes)
        yield self.law, once()

    def energy(self):
        """The penalised risk whose free energy everything here descends."""
        return Risk(UNIT, Sample(INPUTS, TARGETS)) + Penalty(self.tau)

    def grid(self) -> Grid:
        """The line on which laws are solved."""
        return Grid(-4.5, 4.5, self.cells)

    def _train(self, start, key, dt, probe):
        """Noisy descent, with a probe recorded 64 times."""
        extra = self.tau * (1 / self.dt - 1) if self.fault == "printed decay" else 0.0
        field = Descend(self.energy() + Penalty(extra))
        scheme = schemes.Langevin(schemes.Euler(), self.temperature / (2 if self.fault == "printed noise" else 1))
        steps = round(self.horizon / dt)
        options = {"dt": dt, "steps": steps, "every": max(1, steps // 64)}
        return flow(field, scheme, start, key=key, probes={"probe": probe}, progress=tell, **options), options

    def moments(self, key):
        """Moments of many particles over the second half of a run, and those of the grid's Gibbs law."""
        start = uniform(WIDE[0] + WIDE[1] * generator(key).normal(size=(self.particles, 1)))
        path, _ = self._train(start, key, self.dt, problems.moments)
        found = path.probes["probe"]
        law = gibbs(self.energy(), self.grid(), temperature=self.temperature).cloud
        counts, _ = np.histogram(np.asarray(path.cloud.atoms)[:, 0], self.grid().edges())
        return {
            "found": problems.named_moments(found[path.times > self.horizon / 2].mean(0)),
            "wanted": problems.named_moments(np.asarray(problems.moments(law))),
            "moment_path": named(found, "time", "power", time=path.times, power=(1, 2, 4)),
            "histogram": named(counts / counts.sum() / self.grid().volume, "cell"),
        }

    def chaos(self, key, n):
        """`E|f_N(t) − f(t)|²` at the inputs, repetition by repetition."""
        keys = jax.random.split(jax.random.fold_in(key, n), self.repetitions)
        draws = START[0] + START[1] * generator(key).normal(size=(self.repetitions, n, 1))
        xs, starts = jnp.asarray(INPUTS), stack_clouds([uniform(start) for start in draws])
        path, options = self._train(starts, keys, 2 * self.dt, lambda cloud: network(UNIT, cloud, xs)[:, 0])
        grid = self.grid()
        limit = fokker_planck(self.energy(), grid, grid.normal(*START), temperature=self.temperature, **options)
        features = np.asarray(UNIT.batched(jnp.asarray(grid.centres), xs))[:, 0]
        gaps = path.probes["probe"] - (limit.weights @ features)[None]
        return {"chaos": named(np.mean(gaps**2, axis=-1), "run", "time", time=limit.times)}

    def law(self, key):
        """The Gibbs law, the flow to it, and the sandwich along the flow and at laws drawn at random."""
        energy, grid, beta = self.energy(), self.grid(), self.temperature
        best = gibbs(energy, grid, temperature=beta)
        undamped = gibbs(energy, grid, temperature=beta, damping=1.0, most=40)
        steps = round(2 * self.horizon / self.dt)
        options = {"temperature": beta, "dt": self.dt, "steps": steps, "every": steps // 80}
        path = fokker_planck(energy, grid, grid.normal(*START), **options)
        tell(0.7)
        masses, sides = problems.random_masses(generator(key), grid), {"side": ("upper", "middle", "lower")}

        def sandwich(weights):
            return problems.sandwich(energy, grid, grid.law(weights), best, beta)

        return {
            "density": named(np.asarray(best.cloud.weights) / grid.volume, "cell"),
            "centres": named(grid.centres[:, 0], "cell"),
            "certificates": named(best.certificates, "step"),
            "undamped": named(undamped.certificates, "step"),
            "weights": named(path.weights, "time", "cell", time=path.times),
            "sandwich": named([sandwich(row) for row in path.weights], "time", "side", time=path.times, **sides),
            "drawn": named([sandwich(row) for row in masses], "draw", "side", **sides),
            "rate": relaxation_rate(energy, grid, best.cloud, temperature=beta),
            "floor": problems.holley_stroock(energy, grid, path.weights, self.tau, beta),
            "least": path.weights.min(),
            "mass": path.mass_error,
        }

    def fits(self, data):
        return {"largest chaos": power_law(data.chaos.mean("run").max("time"), along="n")}

    def late_rate(self, data):
        """The fitted rate of the free energy's decay, over the decades where it is a pure exponential."""
        return problems.late_rate(data.sandwich.labels("time"), data.sandwich.sel(side="middle").values)

    def uniformity(self, data):
        """N times the error, averaged over sizes and repetitions: its last quarter of time over its second."""
        errors = data.chaos.mean("run") * named(self.sizes, "n", n=self.sizes)
        early = errors.sel(time=lambda t: self.horizon / 4 < t <= self.horizon / 2)
        return errors.sel(time=lambda t: t > 3 * self.horizon / 4).mean("n").mean() / early.mean("n").mean()

    def claims(self, data):
        for moment in MOMENTS[:3]:
            wrong = abs(data.found.sel(moment=moment) / data.wanted.sel(moment=moment) - 1)
            yield below(f"particles have the {moment} of the Gibbs law, within {{bound:.0%}}", wrong, 0.01)
        yield below("the damped fixed point ends with a certificate", data.certificates[-1], 1e-12)
        yield above("the undamped one does not: after 40 steps", data.undamped[-1], 0.01)
        slack = min(np.min(rows[:, :2] - rows[:, 1:]) for rows in (data.sandwich, data.drawn))
        yield above("sandwich: beta KL(q|p_q) ≥ F(q) − F* ≥ beta KL(q|q*), slack", slack, -1e-11)
        decay = data.sandwich.sel(side="middle")
        yield below("the free energy falls at every step shown, to {bound}", np.diff(decay).max(), 1e-12)
        most = (decay / (decay[0] * np.exp(-2 * data.floor * decay.labels("time")))).max()
        yield below("F − F* over exp(−2 LSI beta t) with Holley and Stroock's constant", most, 1 + 1e-9)
        yield between("late rate over twice the linearised rate", self.late_rate(data) / (2 * data.rate), 0.98, 1.02)
        yield below("Fokker–Planck: every step keeps mass one, to {bound}", data.mass, 1e-12)
        yield above("Fokker–Planck: the mass of every cell", data.least, -1e-300)
        yield data.fits["largest chaos"].between(-1.15, -0.85)
        yield below("chaos is uniform in time: last quarter over second quarter", self.uniformity(data), 1.25)

    def numbers(self, data):
        return {
            **{f"{moment}, particles over Gibbs": ratio for moment, ratio in (data.found / data.wanted).each("moment")},
            "late rate of the free energy": self.late_rate(data),
            "twice the linearised rate": 2 * data.rate,
            "Holley–Stroock rate": 2 * data.floor,
            "steps of the damped fixed point": len(data.certificates) - 1,
        }

    @panel(
        "The self-consistent Gibbs law",
        "Left: from a start far away (blue), the flow on a grid reaches the law that is Gibbs in its own potential, "
        "and noisy particles fill the same shape. Right: the certificate that bounds the free energy left; without "
        "damping the fixed point jumps between two laws for ever.",
        columns=2,
        width_ratios=(1.5, 1),
        size=(10.2, 4.0),
    )
    def gibbs_law(self, axes, data):
        left, right = axes
        look = {"fill": True, "alpha": 0.35, "color": colour("sixth"), "label": f"{self.particles:,} particles"}
        left.stairs(data.histogram.values, self.grid().edges(), **look)
        times = data.weights.labels("time")
        shown = [np.argmin(np.abs(times - when)) for when in (0.0, 0.5, 2.0)]
        laws = {f"flow at t = {times[row]:.1f}": data.weights[row] / self.grid().volume for row in shown}
        curves(left, data.centres, laws, linewidth=1.1)
        left.plot(data.centres.values, data.density.values, color=INK, label="Gibbs law")
        left.set(xlabel=r"$\theta$", ylabel="density", xlim=(-3.5, 4), ylim=(0, 1.1))
        left.legend(loc="upper left")
        right.plot(data.certificates.values, ".-", color=colour(0), label="damped")
        right.plot(data.undamped.values, ".-", color=colour(3), label="undamped")
        right.set(yscale="log", xlabel="step of the fixed point", ylabel=r"$\beta\,$KL$(q\,|\,p_q)$")
        right.legend()

    @panel(
        "The entropy sandwich, and the rate",
        "The free energy above its minimum lies between the two relative entropies at all times, and falls "
        "exponentially, at the rate that the linearised flow states (dashed, shifted down).",
    )
    def decay(self, axis, data):
        times, rows = data.sandwich.labels("time"), np.maximum(data.sandwich.values, 1e-13)
        names = (r"$\beta\,$KL$(q\,|\,p_q)$", r"$F(q) - F_*$", r"$\beta\,$KL$(q\,|\,q_*)$")
        curves(axis, times, dict(zip(names, rows.T, strict=True)))
        anchor = np.searchsorted(-rows[:, 1], -1e-4 * rows[0, 1])
        line = rows[anchor, 2] / 8 * np.exp(-2 * float(data.rate) * (times - times[anchor]))
        axis.plot(times, line, linestyle=DASHED, color=MUTED, label="twice the linearised rate")
        axis.set(yscale="log", ylim=(1e-13, 10), xlabel="time t", ylabel="free energy")
        legend(axis)

    @panel(
        "Chaos, uniformly in time",
        "The squared distance to the limit, times N, over {repetitions} repetitions: one curve for every N, and no "
        "growth in time.",
    )
    def uniform_chaos(self, axis, data):
        errors = {f"N = {n}": n * error.mean("run") for n, error in data.chaos.each("n")}
        curves(axis, data.chaos.labels("time"), errors)
        axis.set(xlabel="time t", ylabel=r"$N\;\mathrm{E}\,|f_N(t) - f(t)|^2$", ylim=(0, None))
        axis.legend()
