"""Measured exponents in the number of particles, the step and the batch, over units and optimisers."""

from functools import cache
from typing import Annotated, ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from haarflow.dynamics.fields import Field as Direction
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Optax, Scheme
from haarflow.experiments import _published as published
from haarflow.learning.data import Data, Teacher
from haarflow.learning.symmetry import average
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.models.units import Dense, network
from haarflow.runs.experiment import Count, Experiment, NonNegative, Panel, below, between, stream
from haarflow.runs.progress import tell
from haarflow.runs.statistics import Slope, slope

LANES = ("vanilla", "DA", "FA", "EA", "plain from E^G")
PAIRS = (("DA", "FA"), ("DA", "vanilla"), ("plain from E^G", "EA"))
SWEEPS = {"N": "particles N", "step": "step s", "batch": "batch B"}
SHARES = (0.25, 0.5, 1.0)  # the steps of the sweep, as multiples of the setting's own
STEPS = {
    "sigmoid SGD": 1 / 16,
    "tanh SGD": 1 / 256,
    "relu SGD": 1 / 256,
    "sigmoid Adam": 0.02,
    "tanh Adam": 0.02,
    "relu Adam": 0.02,
}
COUNT = 40  # how many of these steps are made
SMOOTH = ("sigmoid SGD", "tanh SGD")  # the settings that the theorems cover
Setting = Literal["sigmoid SGD", "tanh SGD", "relu SGD", "sigmoid Adam", "tanh Adam", "relu Adam"]

ASYMMETRY = {lane: f"|f − Qf|², {lane}" for lane in LANES}
COUPLED = {pair: f"coupled |{pair[0]} − {pair[1]}|²" for pair in PAIRS}
# What theory says of each exponent, where it says something.
THEORY = {
    (ASYMMETRY["DA"], "N"): -1.0,
    (ASYMMETRY["FA"], "N"): -1.0,
    (ASYMMETRY["DA"], "step"): 0.0,
    (ASYMMETRY["FA"], "step"): 0.0,
    (ASYMMETRY["DA"], "batch"): 0.0,
    (ASYMMETRY["FA"], "batch"): 0.0,
    (ASYMMETRY["plain from E^G"], "N"): 0.0,
    (ASYMMETRY["plain from E^G"], "step"): 1.0,
    (ASYMMETRY["plain from E^G"], "batch"): -1.0,
    (COUPLED[PAIRS[0]], "N"): -1.0,
    (COUPLED[PAIRS[2]], "N"): 0.0,
    (COUPLED[PAIRS[2]], "step"): 1.0,
    (COUPLED[PAIRS[2]], "batch"): -1.0,
}


class Rates(Experiment):
    """With a weakly invariant teacher, DA and FA are equivariant up to 1/N whatever the step and the batch, and
    coincide as N grows; plain training from E^G leaves it by s/B whatever N: for sigmoid and tanh units under SGD
    each exponent is theory's. The exponents of ReLU units and of Adam are measured and shown.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorems 4 to 6; the
    rates are its first open direction.

    The published task (X ~ N(0, 16 I), swap of coordinates, loss |y − ŷ|², penalty 1e-4 |z|², batch 20, starts N(0,
    1/16)) without thermal noise, for 40 steps that do not change with N: of 1/16 for sigmoid; of a sixteenth of it
    for tanh(u) = 2 sigmoid(2u) − 1, which is the same dynamics sixteen times as fast, and for ReLU, as steep; and at
    the rate 0.02 for Adam. One of N, s, B is varied at a time, s at a fixed flow time; s and B at 64 particles. The
    schemes share start, data and steps; EA and a second plain run start from the projection on E^G. Coupled
    differences are means over particles of the same index. The law s/B is the leading order of small steps: at 1/4
    for sigmoid and 1/16 for tanh the exponents of |plain − EA|² in s are 1.16 and 1.45. Theory gives no exponents for
    ReLU (not smooth) and Adam (no gradient flow); the swap permutes coordinates, with which Adam commutes, so EA must
    stay exact for it too.

    Exponents are fitted to means over repetitions, half of them along N. |f − Qf|² of a plain run from E^G is the
    square of one or two Gaussian numbers: 72 repetitions know its exponents over a factor of four to about 0.1, the
    others to about 0.075, so that true ones leave the claimed bands of ±0.4 and ±0.25 with probability below 0.001
    each. To compile less, a batch smaller than the largest is repeated up to its size, which is the same mean, and a
    cloud of fewer than 64 particles has others beside it without mass.
    """

    seconds: ClassVar[float] = 21.0

    settings: Annotated[tuple[Setting, ...], Field(min_length=1)] = (
        "sigmoid SGD",
        "tanh SGD",
        "relu SGD",
        "sigmoid Adam",
    )
    sizes: Annotated[tuple[Count, ...], Field(min_length=2)] = (32, 64, 512)
    batches: Annotated[tuple[Count, ...], Field(min_length=2)] = (5, 10, 20)
    particles: Count = 64
    batch: Count = 20
    repetitions: Annotated[int, Field(ge=2)] = 72
    tau: NonNegative = 1e-4
    inputs: Count = 200

    @classmethod
    def full(cls):
        sizes, batches = (32, 64, 256, 1024, 4096), (5, 10, 20, 40, 80)
        return cls(settings=get_args(Setting), sizes=sizes, batches=batches, repetitions=128, inputs=500)

    @model_validator(mode="after")
    def _batches_repeat(self):
        if any(self._most % batch for batch in (self.batch, *self.batches)):
            raise ValueError(f"every batch divides the largest, {self._most}")
        return self

    @property
    def _most(self) -> int:
        return max(self.batch, *self.batches)

    def parts(self):
        large = [f"N={n}" for n in sorted(self.sizes, reverse=True) if n > self.particles]
        return [f"{setting}: {piece}" for piece in ["sweeps", *large] for setting in self.settings]

    def run(self, key, part):
        setting, piece = part.split(": ")
        if piece != "sweeps":
            return self.train(key, setting, int(piece[2:]), STEPS[setting], self.batch)
        found = {}
        for order, (name, values) in enumerate(plans := self._small(setting).items()):
            found |= {f"{name}/{what}": array for what, array in self.train(key, setting, *values).items()}
            tell((order + 1) / len(plans))
        return found

    def _small(self, setting: str) -> dict[str, tuple[int, float, int]]:
        """Every training of at most `particles` particles: N, step and batch by name."""
        n, step = self.particles, STEPS[setting]
        plans = {"own": (n, step, self.batch)}
        plans |= {f"N={size}": (size, step, self.batch) for size in self.sizes if size < n}
        plans |= {f"step={share}": (n, share * step, self.batch) for share in SHARES if share != 1}
        return plans | {f"batch={batch}": (n, step, batch) for batch in self.batches if batch != self.batch}

    def train(self, key, setting: str, n: int, step: float, batch: int) -> dict[str, np.ndarray]:
        """All lanes in one program: |f − Qf|² (repetitions, lanes) and coupled differences (repetitions, pairs)."""
        activation, optimiser = setting.split()
        unit = Dense(2, 2, activation)
        keys = jax.random.split(jax.random.fold_in(key, 11), self._runs(n))
        teacher = Teacher(unit, published.teacher_cloud("weak"), self._most, scale=published.SCALE)
        fields = _lanes(published.repeated(teacher, batch), unit, self.tau)
        scheme, steps = _optimiser(optimiser), max(1, round(COUNT * STEPS[setting] / step))
        xs = generator(stream(key, "inputs")).normal(size=(self.inputs, 2)) * published.SCALE
        starts = _starts(jax.random.fold_in(key, n), len(keys), n, max(n, self.particles))
        found = []
        for some in np.split(np.arange(len(keys)), _blocks(len(keys), n)):
            begun = {lane: Cloud(*(leaf[some] for leaf in cloud)) for lane, cloud in starts.items()}
            paths = flow(fields, scheme, begun, key=keys[some], dt=step, steps=steps, progress=False)
            found.append(_measure({lane: paths[lane].cloud for lane in LANES}, unit, jnp.asarray(xs)))
            if n > self.particles:
                tell((some[-1] + 1) / len(keys))
        asymmetry, coupled = (np.concatenate(column) for column in zip(*found, strict=True))
        return {"asymmetry": asymmetry, "coupled": coupled}

    def _runs(self, n: int) -> int:
        return self.repetitions if n <= self.particles else self.repetitions // 2

    def gather(self, pieces):
        data = {}
        for setting in self.settings:
            for what in ("asymmetry", "coupled"):
                small = pieces[f"{setting}: sweeps"]
                own = small[f"own/{what}"]
                along = [
                    pieces[f"{setting}: N={n}"][what] if n > self.particles else small.get(f"N={n}/{what}", own)
                    for n in sorted(self.sizes)
                ]
                rows = self.repetitions // 2
                data[f"{setting}/N/{what}"] = np.stack([values[:rows] for values in along], 1)
                for sweep, values in {"step": SHARES, "batch": sorted(self.batches)}.items():
                    data[f"{setting}/{sweep}/{what}"] = np.stack(
                        [small.get(f"{sweep}={value}/{what}", own) for value in values], 1
                    )
        return data

    def _grid(self, setting: str, sweep: str) -> np.ndarray:
        grids = {"N": sorted(self.sizes), "batch": sorted(self.batches)}
        return np.array(grids[sweep], float) if sweep in grids else STEPS[setting] * np.array(SHARES)

    def exponents(self, data, confidence: float | None = 0.95) -> dict[tuple[str, str, str], Slope]:
        """Every fitted exponent by setting, quantity and what was varied; EA has none, being exact."""
        found = {}
        for setting in self.settings:
            for sweep in SWEEPS:
                grid = self._grid(setting, sweep)
                columns = {
                    ASYMMETRY[lane]: data[f"{setting}/{sweep}/asymmetry"][..., i] for i, lane in enumerate(LANES)
                }
                columns |= {COUPLED[pair]: data[f"{setting}/{sweep}/coupled"][..., i] for i, pair in enumerate(PAIRS)}
                del columns[ASYMMETRY["EA"]]
                found |= {
                    (setting, name, sweep): slope(grid, values, centre="mean", confidence=confidence)
                    for name, values in columns.items()
                }
        return found

    def verdict(self, data):
        found = self.exponents(data, confidence=None)
        claims = {}
        for setting in (name for name in self.settings if name in SMOOTH):
            for (quantity, sweep), power in THEORY.items():
                slack = 0.4 if quantity == ASYMMETRY["plain from E^G"] else 0.25
                words = f"{setting}, {quantity}: exponent in {sweep} is {power:g} ± {slack}".replace("-", "−")
                claims[words] = between(found[setting, quantity, sweep].value, power - slack, power + slack)
        exact = LANES.index("EA")
        worst = max(
            data[f"{setting}/{sweep}/asymmetry"][..., exact].max() for setting in self.settings for sweep in SWEEPS
        )
        return claims | {"EA is equivariant in every setting: |f − Qf|² below 1e-24": below(worst, 1e-24)}

    def figures(self, data):
        numbers = {}
        for (setting, quantity, sweep), fit in self.exponents(data).items():
            name = f"{setting}, {quantity}, exponent in {sweep}"
            numbers |= {name: fit.value, f"{name}, low": fit.low, f"{name}, high": fit.high}
        return numbers

    def panels(self, data):
        return [self._table(data), self._curves(data)]

    def _table(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour, legend, marker

            found = self.exponents(data)
            quantities = list(dict.fromkeys(quantity for _, quantity, _ in found))
            rows = np.arange(len(quantities))[::-1]
            axes = figure.subplots(1, 3, sharey=True)
            for axis, (sweep, words) in zip(axes, SWEEPS.items(), strict=True):
                for quantity, row in zip(quantities, rows, strict=True):
                    if (quantity, sweep) in THEORY:
                        axis.vlines(THEORY[quantity, sweep], row - 0.42, row + 0.42, color=INK, linewidth=1.4)
                for order, setting in enumerate(self.settings):
                    fits = [found[setting, quantity, sweep] for quantity in quantities]
                    places = rows + 0.3 - 0.6 * order / max(len(self.settings) - 1, 1)
                    middle = np.array([fit.value for fit in fits])
                    band = np.abs(np.array([(fit.low, fit.high) for fit in fits]).T - middle)
                    style = {"color": colour("", order), "marker": marker("", order), "linestyle": "none"}
                    axis.errorbar(middle, places, xerr=band, label=setting, markersize=4, linewidth=1.2, **style)
                axis.set_xlabel(f"exponent in {words}")
                axis.grid(visible=False, axis="y")
            axes[0].set_yticks(rows, quantities)
            legend(axes[-1])

        caption = (
            f"Fitted exponents with 95% bootstrap bands over {self.repetitions} repetitions. Black bars: what theory "
            "says of smooth units under SGD."
        )
        return Panel("Exponents in N, step and batch", caption, draw, size=(9.6, 5.6))

    def _curves(self, data):
        def draw(figure):
            from haarflow.runs.style import legend, reference, slopes

            shown = [LANES.index(lane) for lane in ("vanilla", "DA", "FA", "plain from E^G")]
            for place, setting in enumerate(self.settings):
                axis = figure.add_subplot(len(self.settings), 1, place + 1)
                grid, values = self._grid(setting, "N"), data[f"{setting}/N/asymmetry"]
                series = {LANES[i]: values[..., i] for i in shown}
                slopes(axis, grid, series, xlabel="particles N", ylabel=r"$|f - Qf|^2$", centre="mean")
                reference(axis, grid, -1.0, float(np.mean(series["DA"][:, 0])))
                axis.set_title(setting)
                legend(axis)

        caption = (
            "Mean with a 10–90% band and the fitted exponent in N. Plain training stops falling where the "
            "distance that minibatches make, seen alone from a start on E^G, takes over."
        )
        return Panel("How far from equivariant, by N", caption, draw, size=(9.6, 2.6 * len(self.settings)))


def _blocks(runs: int, n: int) -> int:
    """Into how many equal blocks to cut the runs, so that one fits the cache."""
    return next(
        count for count in range(1, runs + 1) if (runs % count == 0 and runs // count * n <= 8_192) or count == runs
    )


def _lanes(data: Data, unit: Dense, tau: float) -> dict[str, Direction]:
    fields = published.fields(data, tau, unit=unit)
    return {lane: fields["vanilla" if lane.startswith("plain") else lane] for lane in LANES}


@cache
def _optimiser(name: str) -> Scheme:
    """The same object for the same name, so that its program is compiled once."""
    import optax

    return Euler() if name == "SGD" else Optax(optax.adam(1.0))


def _starts(key, runs: int, n: int, room: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Atoms (runs, room, 4) and weights, the first n with mass; drawn by NumPy, which compiles nothing."""
    free = 0.25 * generator(key).normal(size=(runs, room, 4))
    held = free @ published.PROJECTOR
    weights = np.tile(np.where(np.arange(room) < n, 1 / n, 0.0), (runs, 1))
    return {lane: (held if lane == "EA" or "E^G" in lane else free, weights) for lane in LANES}


@eqx.filter_jit
def _measure(ends: dict[str, Cloud], unit: Dense, xs):
    """|f − Qf|² by lane, and mean |difference|² by pair."""
    averaged = average(unit, published.SWAP, published.SWAP)

    def asymmetry(cloud):
        gap = network(unit, cloud, xs) - network(averaged, cloud, xs)
        return jnp.mean(jnp.sum(gap**2, axis=1))

    gaps = [jnp.sum((ends[a].atoms - ends[b].atoms) ** 2, axis=-1) for a, b in PAIRS]
    coupled = [jnp.sum(ends["DA"].weights * gap, axis=-1) for gap in gaps]
    return jnp.stack([jax.vmap(asymmetry)(ends[lane]) for lane in LANES], 1), jnp.stack(coupled, 1)
