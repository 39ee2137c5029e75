"""Noisy descent and its free energy: the self-consistent Gibbs law, how fast it is reached, by how many particles."""

from typing import Annotated, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics import schemes
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.grids import (
    Grid,
    fokker_planck,
    free_energy,
    gibbs,
    local_gibbs,
    relative_entropy,
    relaxation_rate,
)
from haarflow.experiments._langevin import COLD, REFINED, STEPS, cold, refinement, spot
from haarflow.learning.data import Sample
from haarflow.learning.risks import Functional, Penalty, Risk
from haarflow.measures.clouds import Cloud, stack, uniform
from haarflow.measures.distances import generator
from haarflow.models.units import network
from haarflow.runs.experiment import Check, Count, Experiment, Horizon, Panel, Positive, Step, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

START = (2.0, 0.4)  # the mean and the deviation of the start, far from the Gibbs law
WIDE = (0.5, 1.0)  # those of the start from which moments are compared, nearer so that half a run forgets it
MOMENTS = ("mean", "second moment", "variance", "fourth moment")

UNIT = spot(1, 3.0, 1.0)
INPUTS = np.linspace(-2, 2, 5)[:, None]
TARGETS = 0.9 * np.exp(-((INPUTS + 1.2) ** 2)) + 2.1 * np.exp(-((INPUTS - 1.5) ** 2)) + 0.2


class Langevin(Experiment):
    """Noisy descent samples the law that is Gibbs in its own potential: its moments, the free-energy sandwich, the
    exponential rate, a gap to the noiseless optimum of order D times temperature, and 1/N fluctuations at all times.

    Source: lecture 7 on mean-field networks (noisy SGD, free energy, convergence); the mean-field Langevin theorems
    behind it (entropy sandwich, exponential convergence, uniform-in-time propagation of chaos).

    Temperature beta means the entropy term beta ∫log mu dmu and the noise `sqrt(2 beta dt) xi`; the lectures write
    1/beta for it and print the noise without the two, which samples the law of half the temperature. The Gibbs law
    comes from a damped fixed point on a grid (undamped, it oscillates for ever), the flow from implicit finite volumes,
    checked against Gaussian closed forms in one to three dimensions. The sharp rate is the lowest eigenvalue of the
    linearised flow; the rate of Holley and Stroock bounds the free energy from the first moment on. The cold gap tends
    to D beta / 2: each coordinate of an atom holds half a temperature, interaction or not. The verdicts on chaos are
    statistical: their bounds lie more than three standard errors of the quick size away.

    The field `fault` plants a mistake on purpose, to see the verdict on the moments fail: `printed noise` moves
    particles by `sqrt(beta dt) xi`, `printed decay` shrinks them by the whole penalty at every step.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 27.0

    tau: Positive = 0.3
    temperature: Positive = 0.2
    cells: Count = 240
    particles: Count = 60000
    dt: Step = 0.01
    horizon: Horizon = 16.0
    sizes: Annotated[tuple[Count, ...], Field(min_length=2)] = (32, 128, 512)
    repetitions: Count = 64
    fault: Literal["none", "printed noise", "printed decay"] = "none"

    @classmethod
    def full(cls):
        return cls(cells=480, particles=400000, dt=0.005, sizes=(32, 128, 512, 2048), repetitions=256)

    def parts(self):
        return ["particles", *(f"chaos N={n}" for n in self.sizes), "law", *(f"grid D={d}" for d in REFINED), *_cold()]

    def run(self, key, part):
        if part.startswith("chaos"):
            return self.chaos(key, int(part.split("=")[1]))
        if part.startswith("grid"):
            return refinement(int(part[-1]))
        if part.startswith("cold"):
            return cold(int(part[-1]))
        return {"particles": self.moments, "law": self.law}[part](key)

    def energy(self) -> Functional:
        """The penalised risk whose free energy everything here descends."""
        return Risk(UNIT, Sample(INPUTS, TARGETS)) + Penalty(self.tau)

    def grid(self) -> Grid:
        """The line on which laws are solved."""
        return Grid(-4.5, 4.5, self.cells)

    def _scheme(self):
        return schemes.Langevin(schemes.Euler(), self.temperature / (2 if self.fault == "printed noise" else 1))

    def _field(self):
        extra = self.tau * (1 / self.dt - 1) if self.fault == "printed decay" else 0.0
        return Descend(self.energy() + Penalty(extra))

    def moments(self, key) -> dict[str, np.ndarray]:
        """Moments of many particles over the second half of a run, and those of the grid's Gibbs law."""
        start = WIDE[0] + WIDE[1] * generator(key).normal(size=(self.particles, 1))
        steps = round(self.horizon / self.dt)
        path = flow(
            self._field(),
            self._scheme(),
            uniform(start),
            key=key,
            dt=self.dt,
            steps=steps,
            probes={"moments": _moments},
            every=max(1, steps // 64),
            progress=tell,
        )
        late = path.times > self.horizon / 2
        law = gibbs(self.energy(), self.grid(), temperature=self.temperature).cloud
        counts, _ = np.histogram(np.asarray(path.cloud.atoms)[:, 0], self.grid().edges())
        return {
            "found": _named_moments(path.probes["moments"][late].mean(0)),
            "wanted": _named_moments(np.asarray(_moments(law))),
            "times": path.times,
            "path": path.probes["moments"],
            "histogram": counts / counts.sum() / self.grid().volume,
        }

    def chaos(self, key, n: int) -> dict[str, np.ndarray]:
        """`E|f_N(t) − f(t)|²` at the inputs, repetition by repetition: (repetitions, times)."""
        keys = jax.random.split(jax.random.fold_in(key, n), self.repetitions)
        starts = START[0] + START[1] * generator(key).normal(size=(self.repetitions, n, 1))
        dt, xs = 2 * self.dt, jnp.asarray(INPUTS)
        steps = round(self.horizon / dt)
        every = max(1, steps // 64)
        probes = {"outputs": lambda cloud: network(UNIT, cloud, xs)[:, 0]}
        path = flow(
            self._field(),
            self._scheme(),
            stack([uniform(start) for start in starts]),
            key=keys,
            dt=dt,
            steps=steps,
            probes=probes,
            every=every,
            progress=lambda fraction: tell(0.9 * fraction),
        )
        options = {"temperature": self.temperature, "dt": dt, "steps": steps, "every": every}
        limit = fokker_planck(self.energy(), self.grid(), self.grid().normal(*START), **options)
        features = np.asarray(UNIT.batched(jnp.asarray(self.grid().centres), xs))[:, 0]
        gaps = path.probes["outputs"] - (limit.weights @ features)[None]
        return {"error": np.mean(gaps**2, axis=-1), "times": limit.times}

    def law(self, key) -> dict[str, np.ndarray]:
        """The Gibbs law, the flow to it, and the sandwich along the flow and at laws drawn at random."""
        energy, grid, beta = self.energy(), self.grid(), self.temperature
        best = gibbs(energy, grid, temperature=beta)
        undamped = gibbs(energy, grid, temperature=beta, damping=1.0, most=40)
        steps = round(2 * self.horizon / self.dt)
        start = grid.normal(*START)
        path = fokker_planck(energy, grid, start, temperature=beta, dt=self.dt, steps=steps, every=steps // 80)
        tell(0.7)
        rows = np.array([self._sandwich(energy, grid, grid.law(weights), best) for weights in path.weights])
        draw = generator(key)
        draws, centres = draw.gamma(0.5, size=(20, 6)), draw.uniform(-2.5, 2.5, size=(20, 6))
        masses = np.exp(-2 * (grid.centres[None, :, 0, None] - centres[:, None]) ** 2) @ draws[:, :, None]
        drawn = np.array([self._sandwich(energy, grid, grid.law(mass), best) for mass in masses[..., 0]])
        fit = energy.parts[0]  # pyright: ignore[reportAttributeAccessIssue]
        spread = np.ptp([np.asarray(_psi(fit, grid.law(weights))) for weights in path.weights], axis=1)
        return {
            "law": np.asarray(best.cloud.weights) / grid.volume,
            "centres": grid.centres[:, 0],
            "certificates": best.certificates,
            "undamped": undamped.certificates,
            "times": path.times,
            "weights": path.weights,
            "sandwich": rows,
            "drawn": drawn,
            "rate": np.asarray(relaxation_rate(energy, grid, best.cloud, temperature=beta)),
            "floor": np.asarray(self.tau * np.exp(-spread.max() / beta)),
            "least": path.weights.min(),
            "mass": np.asarray(path.drift),
        }

    def _sandwich(self, energy, grid: Grid, law: Cloud, best) -> tuple[float, float, float]:
        """`beta KL(q | p_q)`, `F(q) − F*` and `beta KL(q | q*)`: each at least the next."""
        weights, goal, beta = np.asarray(law.weights), np.asarray(best.cloud.weights), self.temperature
        own = local_gibbs(energy, law, temperature=beta)
        middle = free_energy(energy, grid, law, temperature=beta) - best.free_energy
        return (
            beta * relative_entropy(weights, own),
            middle,
            beta * relative_entropy(weights, goal),
        )

    def gather(self, pieces):
        errors = [pieces.pop(f"chaos N={n}") for n in self.sizes]
        chaos = {"chaos": np.stack([one["error"] for one in errors]), "chaos times": errors[0]["times"]}
        grids = {f"grid D={d}": pieces.pop(f"grid D={d}") for d in REFINED}
        colds = [pieces.pop(part) for part in _cold()]
        data = {name: np.stack([one[name] for one in colds]) for name in colds[0]}
        for part, piece in (grids | pieces).items():
            data |= {f"{part}/{name}": array for name, array in piece.items()}
        return data | chaos

    def late_rate(self, data) -> float:
        """The fitted rate of the free energy's decay, over the decades where it is a pure exponential."""
        gap, times = data["law/sandwich"][:, 1], data["law/times"]
        used = (gap < 1e-4 * gap[0]) & (gap > 1e-9 * gap[0])
        return float(-np.polyfit(times[used], np.log(gap[used]), 1)[0]) if used.sum() > 2 else np.nan

    def uniformity(self, data) -> float:
        """N times the error, averaged over sizes and repetitions: its last quarter of time over its second."""
        times, error = data["chaos times"], np.mean(data["chaos"].mean(1) * np.array(self.sizes)[:, None], axis=0)
        early = (times > self.horizon / 4) & (times <= self.horizon / 2)
        return float(error[times > 3 * self.horizon / 4].mean() / error[early].mean())

    def chaos_slope(self, data) -> float:
        """The log-log slope in N of the largest mean error over all times."""
        return slope(self.sizes, data["chaos"].mean(1).max(1)).value

    @staticmethod
    def moment_claims(found: np.ndarray, wanted: np.ndarray) -> dict[str, Check]:
        """The verdicts that a wrong noise or a wrong decay makes false."""
        pairs = zip(MOMENTS[:3], np.abs(found / wanted - 1), strict=False)
        return {f"particles have the {name} of the Gibbs law, within 1%": below(wrong, 0.01) for name, wrong in pairs}

    def verdict(self, data):
        claims = self.moment_claims(data["particles/found"], data["particles/wanted"])
        rows = np.concatenate([data["law/sandwich"], data["law/drawn"]])
        slack = np.minimum(rows[:, 0] - rows[:, 1], rows[:, 1] - rows[:, 2]).min()
        decay = data["law/sandwich"][:, 1]
        bound = decay[0] * np.exp(-2 * data["law/floor"] * data["law/times"])
        least = min(data[f"grid D={d}/least"] for d in REFINED)
        mass = max(data["law/mass"], *(data[f"grid D={d}/mass"] for d in REFINED))
        claims |= {
            "the damped fixed point ends with a certificate below 1e-12": below(data["law/certificates"][-1], 1e-12),
            "the undamped one does not: after 40 steps above 0.01": between(data["law/undamped"][-1], 0.01, np.inf),
            "sandwich: beta KL(q|p_q) ≥ F(q) − F* ≥ beta KL(q|q*), to −1e-11": between(slack, -1e-11, np.inf),
            "the free energy falls at every step shown, to 1e-12": below(np.diff(decay).max(), 1e-12),
            "F − F* stays below exp(−2 LSI beta t) with Holley and Stroock's constant": below(
                (decay / bound).max(), 1 + 1e-9
            ),
            "late rate over twice the linearised rate within 2% of 1": between(
                self.late_rate(data) / (2 * data["law/rate"]), 0.98, 1.02
            ),
            "Fokker–Planck: every step keeps mass one to 1e-12, in 1, 2, 3 dimensions": below(mass, 1e-12),
            "Fokker–Planck: no cell is negative": between(min(least, data["law/least"]), -1e-300, 1.0),
            "Fokker–Planck: order in dt between 0.9 and 1.1": between(
                self._order(data, "time errors", STEPS), 0.9, 1.1
            ),
        }
        for d, cells in REFINED.items():
            order = -slope(cells, data[f"grid D={d}/errors"]).value
            claims[f"Fokker–Planck: order in the cells, D = {d}, between 1.8 and 2.2"] = between(order, 1.8, 2.2)
        for d, row in zip(REFINED, data["gaps"], strict=True):
            claims[f"gap to the noiseless optimum, D = {d}: slope in temperature between 0.9 and 1.1"] = between(
                slope(COLD, row).value, 0.9, 1.1
            )
            claims[f"gap over D·temperature at {COLD[0]:g}, D = {d}: between 0.45 and 0.55"] = between(
                row[0] / (d * COLD[0]), 0.45, 0.55
            )
        claims["the point of least energy is the known one: certificate below 1e-12"] = below(
            data["point"].max(), 1e-12
        )
        claims["chaos: slope in N of the largest error over all times between −1.15 and −0.85"] = between(
            self.chaos_slope(data), -1.15, -0.85
        )
        claims["chaos is uniform in time: last quarter over second quarter below 1.25"] = below(
            self.uniformity(data), 1.25
        )
        return claims

    @staticmethod
    def _order(data, name: str, sizes) -> float:
        return -slope(sizes, data[f"grid D=1/{name}"]).value

    def figures(self, data):
        pairs = zip(MOMENTS, data["particles/found"], data["particles/wanted"], strict=True)
        numbers = {f"{name}, particles over Gibbs": found / wanted for name, found, wanted in pairs}
        return numbers | {
            "late rate of the free energy": self.late_rate(data),
            "twice the linearised rate": 2 * data["law/rate"],
            "Holley–Stroock rate": 2 * data["law/floor"],
            "steps of the damped fixed point": len(data["law/certificates"]) - 1,
            "slope in N of the largest error": self.chaos_slope(data),
            "last quarter over second quarter": self.uniformity(data),
            **{
                f"gap over D·temperature, D = {d}": row[0] / (d * COLD[0])
                for d, row in zip(REFINED, data["gaps"], strict=True)
            },
        }

    def panels(self, data):
        return [self._law_panel(data), self._decay_panel(data), self._chaos_panel(data), self._grid_panel(data)]

    def _law_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour

            left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
            centres, volume = data["law/centres"], self.grid().volume
            left.stairs(data["particles/histogram"], self.grid().edges(), fill=True, alpha=0.35, color=colour("sixth"))
            left.plot([], [], color=colour("sixth"), linewidth=6, alpha=0.35, label=f"{self.particles:,} particles")
            for order, when in enumerate((0.0, 0.5, 2.0)):
                row = np.argmin(np.abs(data["law/times"] - when))
                label = f"flow at t = {data['law/times'][row]:.1f}"
                left.plot(
                    centres, data["law/weights"][row] / volume, color=colour("", order), linewidth=1.1, label=label
                )
            left.plot(centres, data["law/law"], color=INK, label="Gibbs law")
            left.set(xlabel=r"$\theta$", ylabel="density", xlim=(-3.5, 4), ylim=(0, 1.1))
            left.legend(loc="upper left")
            for name, order in (("certificates", 0), ("undamped", 3)):
                words = "damped" if name == "certificates" else "undamped"
                right.plot(data[f"law/{name}"], ".-", color=colour("", order), label=words)
            right.set(yscale="log", xlabel="step of the fixed point", ylabel=r"$\beta\,$KL$(q\,|\,p_q)$")
            right.legend()

        caption = (
            "Left: from a start far away (blue), the flow of laws on a grid reaches the law that is Gibbs in its own "
            "potential, and noisy particles fill the same shape. Right: the certificate that bounds the free energy "
            "left; without damping the fixed point jumps between two laws for ever."
        )
        return Panel("The self-consistent Gibbs law", caption, draw, size=(10.2, 4.0))

    def _decay_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, MUTED, colour, legend

            axis = figure.add_subplot()
            times, rows = data["law/times"], np.maximum(data["law/sandwich"], 1e-13)
            names = (r"$\beta\,$KL$(q\,|\,p_q)$", r"$F(q) - F_*$", r"$\beta\,$KL$(q\,|\,q_*)$")
            for order, name in enumerate(names):
                axis.plot(times, rows[:, order], color=colour("", order), label=name)
            anchor = np.searchsorted(-rows[:, 1], -1e-4 * rows[0, 1])
            line = rows[anchor, 2] / 8 * np.exp(-2 * data["law/rate"] * (times - times[anchor]))
            axis.plot(times, line, linestyle=DASHED, color=MUTED, label="twice the linearised rate")
            axis.set(yscale="log", ylim=(1e-13, 10), xlabel="time t", ylabel="free energy")
            legend(axis)

        caption = (
            "The free energy above its minimum lies between the two relative entropies at all times, and falls "
            "exponentially, at the rate that the linearised flow states (dashed, shifted down)."
        )
        return Panel("The entropy sandwich, and the rate", caption, draw)

    def _chaos_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import colour, reference, slopes

            left, right = figure.subplots(1, 2)
            for order, (n, errors) in enumerate(zip(self.sizes, data["chaos"], strict=True)):
                left.plot(data["chaos times"], n * errors.mean(0), color=colour("", order), label=f"N = {n}")
            left.set(xlabel="time t", ylabel=r"$N\;\mathrm{E}\,|f_N(t) - f(t)|^2$", ylim=(0, None))
            left.legend()
            series = {f"D = {d}": row for d, row in zip(REFINED, data["gaps"], strict=True)}
            slopes(right, COLD, series, xlabel=r"temperature $\beta$", ylabel=r"$E(\mu_\beta) - \min E$")
            reference(right, COLD, 1.0, float(data["gaps"][0][0] / 2), label="slope 1")
            right.legend()

        caption = (
            f"Left: the squared distance to the limit, times N, over {self.repetitions} repetitions: one curve for "
            "every N, and no growth in time. Right: what the noise costs, D beta / 2."
        )
        return Panel("Chaos, uniformly in time; and the price of noise", caption, draw, size=(10.2, 3.9))

    def _grid_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import reference, slopes

            left, right = figure.subplots(1, 2)
            for order, (d, cells) in enumerate(REFINED.items()):
                name = ("vanilla", "DA", "FA")[order]
                slopes(
                    left,
                    cells,
                    {f"{name} D = {d}": data[f"grid D={d}/errors"]},
                    xlabel="cells on an axis",
                    ylabel="error",
                )
            sizes = sorted({cell for cells in REFINED.values() for cell in cells})
            left.set_xticks(sizes, [str(size) for size in sizes], rotation=45)
            handles, labels = left.get_legend_handles_labels()
            left.legend(handles, [label.split(" ", 1)[1] for label in labels])
            slopes(right, STEPS, {"D = 1": data["grid D=1/time errors"]}, xlabel="steps to t = 0.4", ylabel="error")
            reference(right, STEPS, -1.0, float(data["grid D=1/time errors"][0] / 1.5))
            right.legend()

        caption = (
            "The grid solver against Gaussian closed forms: second order in the cells (dt refined with their square; "
            "L1 in one dimension with attraction to the mean, moments in two and three), first order in dt."
        )
        return Panel("The grid solver, refined", caption, draw, size=(10.2, 3.9))


def _cold() -> list[str]:
    return [f"cold D={d}" for d in REFINED]


def _moments(cloud: Cloud):
    return jnp.stack([cloud.weights @ cloud.atoms[:, 0] ** power for power in (1, 2, 4)])


def _named_moments(raw: np.ndarray) -> np.ndarray:
    mean, second, fourth = raw
    return np.array([mean, second, second - mean**2, fourth])


@eqx.filter_jit
def _psi(functional, cloud: Cloud):
    return functional.variation(cloud).potential
