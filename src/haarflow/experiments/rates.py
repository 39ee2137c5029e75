"""Measured exponents in the number of particles, the step and the batch, over units and optimisers."""

from functools import cache
from typing import Annotated, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Field as Direction
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler, Optax, Scheme
from haarflow.experiments import _published as published
from haarflow.learning.data import Teacher
from haarflow.learning.symmetry import average
from haarflow.measures.clouds import Cloud
from haarflow.models.units import Dense, network
from haarflow.runs.experiment import Count, Experiment, NonNegative, Panel, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import Slope, slope

LANES = ("vanilla", "DA", "FA", "EA", "vanilla from E^G")
PAIRS = (("DA", "FA"), ("DA", "vanilla"), ("vanilla from E^G", "EA"))
SWEEPS = {"N": "particles N", "step": "step s", "batch": "batch B"}
SHARES = (0.25, 0.5, 1.0, 2.0)  # the steps of the sweep, as multiples of the setting's own
# The step of each setting, about a tenth of the largest stable one; the flow time is 80 such steps.
STEPS = {
    "sigmoid SGD": 0.125,
    "tanh SGD": 1 / 32,
    "relu SGD": 1 / 128,
    "sigmoid Adam": 0.01,
    "tanh Adam": 0.01,
    "relu Adam": 0.01,
}
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
    (ASYMMETRY["vanilla from E^G"], "N"): 0.0,
    (ASYMMETRY["vanilla from E^G"], "step"): 1.0,
    (ASYMMETRY["vanilla from E^G"], "batch"): -1.0,
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
    1/16)) without thermal noise, for 80 steps at a step that does not change with N: 0.125 for sigmoid, 1/32 for
    tanh, 1/128 for ReLU, whose velocities grow with the particle and need a smaller step, and the rate 0.01 for Adam.
    One of N, s, B is varied at a time, s at a fixed flow time; s and B at the smallest N. The schemes share start,
    data and steps; EA and a second plain run start from the projection on E^G. Coupled differences are means over
    particles of the same index. Theory gives no exponents for ReLU (not smooth) and Adam (no gradient flow); the swap
    permutes coordinates, with which Adam commutes, so EA must stay exact for it too. Exponents are fitted to means
    over repetitions. |f − Qf|² of a plain run from E^G is the square of one or two Gaussian numbers: 48 repetitions
    know its exponents to about 0.13, the others to about 0.06, so that true ones leave the claimed bands of ±0.4 and
    ±0.25 with probability below 0.003 each.
    """

    settings: Annotated[tuple[Setting, ...], Field(min_length=1)] = (
        "sigmoid SGD",
        "tanh SGD",
        "relu SGD",
        "sigmoid Adam",
    )
    sizes: Annotated[tuple[Count, ...], Field(min_length=2)] = (64, 256, 1024)
    batches: Annotated[tuple[Count, ...], Field(min_length=2)] = (5, 20, 80)
    batch: Count = 20
    repetitions: Count = 48
    tau: NonNegative = 1e-4
    inputs: Count = 500

    @classmethod
    def full(cls):
        return cls(settings=get_args(Setting), sizes=(64, 256, 1024, 4096), batches=(5, 10, 20, 40, 80), repetitions=64)

    def parts(self):
        pieces = [f"N={n}" for n in sorted(self.sizes, reverse=True)]
        pieces += [f"batch={b}" for b in sorted(self.batches, reverse=True) if b != self.batch]
        return [f"{setting}: {piece}" for piece in [*pieces, "step"] for setting in self.settings]

    def run(self, key, part):
        setting, piece = part.split(": ")
        least, step = min(self.sizes), STEPS[setting]
        if piece == "step":
            rows = [self.train(key, setting, least, share * step, self.batch) for share in SHARES]
            return {what: np.stack([row[what] for row in rows], 1) for what in rows[0]}
        name, value = piece.split("=")
        n, batch = (int(value), self.batch) if name == "N" else (least, int(value))
        return self.train(key, setting, n, step, batch)

    def train(self, key, setting: str, n: int, step: float, batch: int) -> dict[str, np.ndarray]:
        """All lanes in one program: |f − Qf|² (repetitions, lanes) and coupled differences (repetitions, pairs)."""
        activation, optimiser = setting.split()
        unit = Dense(2, 2, activation)
        keys = jax.random.split(jax.random.fold_in(key, 11), self.repetitions)
        fields = _lanes(Teacher(unit, published.teacher_cloud("weak"), batch, scale=published.SCALE), unit, self.tau)
        scheme, steps = _optimiser(optimiser), max(1, round(80 * STEPS[setting] / step))
        xs = published.inputs(jax.random.fold_in(key, 12), self.inputs)
        found = []
        for some in np.split(np.arange(len(keys)), _blocks(len(keys), n)):
            paths = flow(fields, scheme, _starts(keys[some], n), key=keys[some], dt=step, steps=steps, progress=False)
            found.append(_measure({lane: paths[lane].cloud for lane in LANES}, unit, xs))
            tell((some[-1] + 1) / len(keys))
        asymmetry, coupled = (np.concatenate(column) for column in zip(*found, strict=True))
        return {"asymmetry": asymmetry, "coupled": coupled}

    def gather(self, pieces):
        data = {}
        for setting in self.settings:
            for what in ("asymmetry", "coupled"):
                for sweep, values in {"N": self.sizes, "batch": self.batches}.items():
                    names = [f"{setting}: {sweep}={value}" for value in sorted(values)]
                    both = f"{setting}: N={min(self.sizes)}"  # the batch of the other sweeps
                    data[f"{setting}/{sweep}/{what}"] = np.stack(
                        [pieces.get(name, pieces[both])[what] for name in names], 1
                    )
                data[f"{setting}/step/{what}"] = pieces[f"{setting}: step"][what]
        return data

    def _grid(self, setting: str, sweep: str) -> np.ndarray:
        grids = {"N": sorted(self.sizes), "batch": sorted(self.batches)}
        return np.array(grids[sweep], float) if sweep in grids else STEPS[setting] * np.array(SHARES)

    def exponents(self, data) -> dict[tuple[str, str, str], Slope]:
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
                    (setting, name, sweep): slope(grid, values, centre="mean") for name, values in columns.items()
                }
        return found

    def verdict(self, data):
        found = self.exponents(data)
        claims = {}
        for setting in (name for name in self.settings if name in SMOOTH):
            for (quantity, sweep), power in THEORY.items():
                slack = 0.4 if quantity == ASYMMETRY["vanilla from E^G"] else 0.25
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

            shown = [LANES.index(lane) for lane in ("vanilla", "DA", "FA", "vanilla from E^G")]
            for place, setting in enumerate(self.settings):
                axis = figure.add_subplot(len(self.settings), 1, place + 1)
                grid, values = self._grid(setting, "N"), data[f"{setting}/N/asymmetry"]
                series = {LANES[i].replace("vanilla from", "plain from"): values[..., i] for i in shown}
                slopes(axis, grid, series, xlabel="particles N", ylabel=r"$|f - Qf|^2$")
                reference(axis, grid, -1.0, float(np.median(series["DA"][:, 0])))
                axis.set_title(setting)
                legend(axis)

        caption = (
            "Median with a 10–90% band and the fitted exponent in N. Plain training stops falling where the "
            "distance that minibatches make, seen alone from a start on E^G, takes over."
        )
        return Panel("How far from equivariant, by N", caption, draw, size=(9.6, 2.6 * len(self.settings)))


def _blocks(runs: int, n: int) -> int:
    """Into how many equal blocks to cut the runs, so that one fits the cache."""
    return next(
        count for count in range(1, runs + 1) if (runs % count == 0 and runs // count * n <= 25_600) or count == runs
    )


def _lanes(data: Teacher, unit: Dense, tau: float) -> dict[str, Direction]:
    fields = published.fields(data, tau, unit=unit)
    return {lane: fields[lane.split()[0]] for lane in LANES}


@cache
def _optimiser(name: str) -> Scheme:
    """The same object for the same name, so that its program is compiled once."""
    import optax

    return Euler() if name == "SGD" else Optax(optax.adam(1.0))


@eqx.filter_jit
def _starts(keys, n: int) -> dict[str, Cloud]:
    def start(key):
        begun = published.starts(jax.random.fold_in(key, n), n, strong=False)
        return {lane: begun["EA" if "E^G" in lane else lane] for lane in LANES}

    return jax.vmap(start)(keys)


@eqx.filter_jit
def _measure(ends: dict[str, Cloud], unit: Dense, xs):
    """|f − Qf|² by lane, and mean |difference|² by pair."""
    averaged = average(unit, published.SWAP, published.SWAP)

    def asymmetry(cloud):
        gap = network(unit, cloud, xs) - network(averaged, cloud, xs)
        return jnp.mean(jnp.sum(gap**2, axis=1))

    gaps = [ends[a].atoms - ends[b].atoms for a, b in PAIRS]
    coupled = [jnp.mean(jnp.sum(gap**2, axis=-1), axis=-1) for gap in gaps]
    return jnp.stack([jax.vmap(asymmetry)(ends[lane]) for lane in LANES], 1), jnp.stack(coupled, 1)
