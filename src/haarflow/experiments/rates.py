"""Measured exponents in the number of particles, the step and the batch, over units and optimisers."""

from functools import cache
from itertools import product
from typing import Annotated, ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Optax, Scheme
from haarflow.experiments import _published as published
from haarflow.learning.data import Teacher
from haarflow.learning.symmetry import average
from haarflow.measures.clouds import Cloud
from haarflow.measures.distances import generator
from haarflow.models.networks import network
from haarflow.models.units import Dense
from haarflow.runs.experiment import Experiment, below, in_turns, named, over, panel, power_law, stream
from haarflow.runs.sizes import Count, NonNegative, Sizes
from haarflow.runs.style import GRID, INK, colour, legend_above, marker, reference, slopes

Setting = Literal["sigmoid SGD", "tanh SGD", "relu SGD", "sigmoid Adam", "tanh Adam", "relu Adam"]
STEPS = dict(zip(get_args(Setting), (1 / 16, 1 / 256, 1 / 256, 0.02, 0.02, 0.02), strict=True))
COUNT = 40  # how many of these steps are made
SHARES = (0.25, 0.5, 1.0)  # the steps that are compared, as multiples of the setting's own
SMOOTH = ("sigmoid SGD", "tanh SGD")  # the settings that the theorems cover

LANES = ("vanilla", "DA", "FA", "EA", "plain from E^G")
PAIRS = (("DA", "FA"), ("DA", "vanilla"), ("plain from E^G", "EA"))
SWEEPS = {"n": "particles n", "step": "step s", "batch": "batch B"}
QUANTITIES = (*(f"|f − Qf|², {lane}" for lane in LANES), *(f"coupled |{a} − {b}|²" for a, b in PAIRS))
EXACT = "|f − Qf|², EA"
FITTED = tuple(quantity for quantity in QUANTITIES if quantity != EXACT)
THEORY = {  # the exponents in n, step and batch, where theory states one
    "|f − Qf|², DA": (-1.0, 0.0, 0.0),
    "|f − Qf|², FA": (-1.0, 0.0, 0.0),
    "|f − Qf|², plain from E^G": (0.0, 1.0, -1.0),
    "coupled |DA − FA|²": (-1.0, None, None),
    "coupled |plain from E^G − EA|²": (0.0, 1.0, -1.0),
}


class Rates(Experiment):
    """With a weakly invariant teacher, DA and FA are equivariant up to 1/n whatever the step and the batch, and
    coincide as n grows; plain training from E^G leaves it by s/B whatever n: for sigmoid and tanh units under SGD
    each exponent is theory's. The exponents of ReLU units and of Adam are measured and shown.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorems 4 to 6; the
    rates are its first open direction.

    The published task (X ~ N(0, 16 I), swap of coordinates, loss |y − ŷ|², penalty 1e-4 |z|², batch 20, starts N(0,
    1/16)) without thermal noise, for 40 steps that do not change with n: of 1/16 for sigmoid; of a sixteenth of it
    for tanh(u) = 2 sigmoid(2u) − 1, which is the same dynamics sixteen times as fast, and for ReLU, as steep; and at
    the rate 0.02 for Adam. One of n, s, B is varied at a time, s at a fixed flow time; s and B at 64 particles. The
    schemes share start, data and steps; EA and a second plain run start from the projection on E^G. Coupled
    differences are means over particles of the same index. The law s/B is the leading order of small steps: at 1/4
    for sigmoid and 1/16 for tanh the exponents of |plain − EA|² in s are 1.16 and 1.45. Theory gives no exponents for
    ReLU (not smooth) and Adam (no gradient flow); the swap permutes coordinates, with which Adam commutes, so EA must
    stay exact for it too.

    Exponents are fitted to means over repetitions, half of them along n. |f − Qf|² of a plain run from E^G is the
    square of one or two Gaussian numbers: 72 repetitions know its exponents over a factor of four to about 0.1, the
    others to about 0.075, so that true ones leave the claimed bands of ±0.4 and ±0.25 with probability below 0.001
    each. To compile less, a batch smaller than the largest is repeated up to its size, which is the same mean, and a
    cloud of fewer than 64 particles has others beside it without mass.
    """

    seconds: ClassVar[float] = 25.0

    settings: Annotated[tuple[Setting, ...], Field(min_length=1)] = get_args(Setting)[:4]  # units and optimisers
    sizes: Sizes = (32, 64, 512)  # numbers of particles n
    batches: Sizes = (5, 10, 20)  # batch sizes B
    particles: Count = 64  # n while step and batch change
    batch: Count = 20  # B while n and the step change
    repetitions: Annotated[int, Field(ge=2)] = 72
    tau: NonNegative = 1e-4
    inputs: Count = 200  # fresh inputs at which networks are compared

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

    def design(self):
        settings = over(setting=self.settings)
        yield self.vary, (settings * over(n=sorted(self.sizes))).largest_first("n")
        yield self.vary, settings * over(step=SHARES)
        yield self.vary, settings * over(batch=sorted(self.batches))

    def vary(self, key, setting, n=None, step=1.0, batch=None):
        """Another n, with half of the repetitions; or another step, in multiples of the setting's own; or batch."""
        found = self.train(key, setting, n or self.particles, step * STEPS[setting], batch or self.batch)
        if n is not None:
            return {"along_n": found.isel(run=slice(self.repetitions // 2))}
        return {"along_step" if batch is None else "along_batch": found}

    def train(self, key, setting, n, step, batch):
        """All lanes in one program: every quantity in every run."""
        activation, optimiser = setting.split()
        unit, small = Dense(2, 2, activation), n <= self.particles
        keys = jax.random.split(jax.random.fold_in(key, 11), self.repetitions if small else self.repetitions // 2)
        teacher = Teacher(unit, published.teacher_cloud("weak"), self._most, scale=published.SCALE)
        four = published.four(published.repeated(teacher, batch), self.tau, unit=unit).fields
        fields = {lane: four["vanilla" if lane.startswith("plain") else lane] for lane in LANES}
        scheme, steps = _optimiser(optimiser), max(1, round(COUNT * STEPS[setting] / step))
        xs = generator(stream(key, "inputs")).normal(size=(self.inputs, 2)) * published.SCALE
        starts = _starts(jax.random.fold_in(key, n), len(keys), n, max(n, self.particles))
        found = []
        for some in in_turns(np.arange(len(keys)), len(keys) / _blocks(len(keys), n)):
            begun = {lane: Cloud(*(leaf[some] for leaf in cloud)) for lane, cloud in starts.items()}
            paths = flow(fields, scheme, begun, key=keys[some], dt=step, steps=steps, progress=False)
            found.append(_measure({lane: paths[lane].cloud for lane in LANES}, unit, jnp.asarray(xs)))
        return named(np.concatenate(found), "run", "quantity", quantity=QUANTITIES)

    def fits(self, data):
        return {
            _law(setting, quantity, sweep): power_law(
                data[f"along_{sweep}"].sel(setting=setting, quantity=quantity), along=sweep, centre="mean"
            )
            for setting, sweep, quantity in product(self.settings, SWEEPS, FITTED)
        }

    def claims(self, data):
        for setting, quantity in product(SMOOTH, THEORY):
            slack = 0.4 if quantity == "|f − Qf|², plain from E^G" else 0.25
            for sweep, power in zip(SWEEPS, THEORY[quantity], strict=True):
                if setting in self.settings and power is not None:
                    yield data.fits[_law(setting, quantity, sweep)].between(power - slack, power + slack)
        worst = max(float(data[f"along_{sweep}"].sel(quantity=EXACT).max()) for sweep in SWEEPS)
        yield below("EA is equivariant in every setting: |f − Qf|²", worst, 1e-24)

    @panel(
        "Exponents in n, step and batch",
        "Fitted exponents with 95% bootstrap bands over {repetitions} repetitions. Black bars: what theory says of "
        "smooth units under SGD. Grey, without a bar: two causes add, and no single exponent is stated.",
        columns=3,
        size=(9.6, 5.6),
        sharey=True,
    )
    def exponents(self, axes, data):
        rows = np.arange(len(FITTED))[::-1]
        for place, (axis, (sweep, words)) in enumerate(zip(axes, SWEEPS.items(), strict=True)):
            for order, setting in enumerate(self.settings):
                fits = [data.fits[_law(setting, quantity, sweep)] for quantity in FITTED]
                middle = np.array([fit.value for fit in fits])
                band = np.abs(np.array([(fit.low, fit.high) for fit in fits]).T - middle)
                look = {"color": colour(order), "marker": marker(order), "markersize": 4, "linewidth": 1.2}
                shift = 0.3 - 0.6 * order / max(len(self.settings) - 1, 1)
                axis.errorbar(middle, rows + shift, xerr=band, label=setting, linestyle="none", **look)
            for row, quantity in zip(rows, FITTED, strict=True):
                axis.axhline(row - 0.5, color=GRID, linewidth=0.7)
                if (power := THEORY.get(quantity, (None,) * 3)[place]) is None:
                    axis.axhspan(row - 0.5, row + 0.5, color=GRID, alpha=0.4, linewidth=0)
                else:
                    axis.vlines(power, row - 0.42, row + 0.42, color=INK, linewidth=1.4)
            axis.vlines([], 0, 1, color=INK, linewidth=1.4, label="theory")
            axis.set(xlabel=f"exponent in {words}", ylim=(-0.5, rows[0] + 0.5))
            axis.grid(visible=False, axis="y")
        axes[0].set_yticks(rows, [_typeset(quantity) for quantity in FITTED])
        legend_above(axes[0])

    @property
    def pairs(self) -> int:
        """The rows of the second picture, two settings in each."""
        return (len(self.settings) + 1) // 2

    @panel(
        "How far from equivariant, by n",
        "Mean with a 10–90% band. Plain training stops falling where the distance that minibatches make, seen alone "
        "from a start on E^G, takes over.",
        rows="pairs",
        columns=2,
        sharex=True,
    )
    def asymmetry(self, axes, data):
        for axis, setting in zip(axes, self.settings, strict=False):
            values = dict(data.along_n.sel(setting=setting).each("quantity"))
            shown = {
                _typeset(lane): values[f"|f − Qf|², {lane}"].transpose("run", "n") for lane in LANES if lane != "EA"
            }
            slopes(axis, values[EXACT].labels("n"), shown, fits={}, centre="mean", colours=(0, 1, 2, "fifth"))
            reference(axis, values[EXACT].labels("n"), -1, shown["FA"].quantile(0.9, "run"), side="above")
            axis.set(title=setting, ylabel=r"$|f - Qf|^2$")
        for axis in axes[len(self.settings) :]:
            axis.set_axis_off()
        for axis in axes[-2:]:
            axis.set_xlabel("particles n")
        legend_above(axes[0])


def _law(setting: str, quantity: str, sweep: str) -> str:
    return f"{setting}, {quantity} by {sweep}"


def _typeset(quantity: str) -> str:
    return quantity.replace("|f − Qf|²", "$|f - Qf|^2$").replace("E^G", "$E^G$")


def _blocks(runs: int, n: int) -> int:
    """Into how many equal blocks to cut the runs, so that one fits the cache."""
    return next(
        count for count in range(1, runs + 1) if (runs % count == 0 and runs // count * n <= 8_192) or count == runs
    )


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
    """|f − Qf|² by lane, then mean |difference|² by pair: (runs, quantities)."""
    averaged = average(unit, published.SWAP, published.SWAP)

    def asymmetry(cloud):
        gap = network(unit, cloud, xs) - network(averaged, cloud, xs)
        return jnp.mean(jnp.sum(gap**2, axis=1))

    gaps = [jnp.sum((ends[a].atoms - ends[b].atoms) ** 2, axis=-1) for a, b in PAIRS]
    coupled = [jnp.sum(ends["DA"].weights * gap, axis=-1) for gap in gaps]
    return jnp.stack([*(jax.vmap(asymmetry)(ends[lane]) for lane in LANES), *coupled], 1)
