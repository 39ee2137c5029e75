"""Learning from L samples: what the penalty, the sample and the training each cost, against convex references."""

from typing import Annotated, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Sample
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.sphere import ReluRisk, relu_distance, relu_split
from haarflow.measures.clouds import Cloud, stack_clouds, uniform
from haarflow.measures.distances import generator
from haarflow.models.neurons import Neuron
from haarflow.runs.experiment import Count, Experiment, Panel, Positive, above, below, stream
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

DIRECTIONS = 64  # of the neurons on the circle, for the convex programs
RADIUS = 30.0  # more than any norm met here, so that laws on atoms of this size and on zero are all norms below it
FACTORS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16)  # of the penalty, over the one used
PIECES = ("approximation", "statistical", "optimisation")


def _ways(places) -> np.ndarray:
    turns = 2 * np.pi * np.asarray(places) / DIRECTIONS
    return np.stack([np.cos(turns), np.sin(turns)], axis=-1)


def _neurons(outputs: np.ndarray, ways: np.ndarray) -> np.ndarray:
    """Balanced neurons (a, w), |a| = |w|, with these products and directions: ½|θ|² is then |a||w|."""
    size = np.sqrt(np.abs(outputs))[:, None]
    return np.concatenate([np.sign(outputs)[:, None] * size, size * ways], axis=1)


UNIT = Neuron(2)
TRUTH = uniform(_neurons(np.array([5.0, -4.0, 4.0, -3.0]), _ways([3, 17, 30, 46])))
NORM = 4.0  # of the truth: the mean of |a||w|
ATOMS = np.concatenate(
    [np.zeros((1, 3))]
    + [_neurons(np.full(DIRECTIONS, sign * RADIUS), _ways(np.arange(DIRECTIONS))) for sign in (1, -1)]
)


class Drawn(NamedTuple):
    """L inputs on the circle of radius √2, their noisy labels, and the noise."""

    xs: np.ndarray
    ys: np.ndarray
    noise: np.ndarray


class Generalisation(Experiment):
    """Penalised by λ = c L^{-1/2}, networks trained on L samples have an excess risk that falls at least like L^{-1/2},
    and √L neurons are enough for it; the excess is the sum of an approximation, a statistical and an optimisation
    error, each measured.

    Source: lectures 7 and 8 on mean-field networks and the measure-dynamics talk (generalisation in the space F1,
    the three-way split of the error).

    ReLU neurons (a, w) on the circle, a truth of four of them, labels with normal noise. Weight decay `λ ∫½|θ|² dmu`
    is λ times the total variation norm, so the best law is a convex program, here on 64 directions with both signs:
    over the sample it is the empirical minimiser, and with the exact integrals of the circle the population's. The
    three pieces are `R(f_λ) − R(f)`, `R(f̂_λ) − R(f_λ)` and `R(f̂) − R(f̂_λ)`: f the truth, f_λ the population's
    minimiser, f̂_λ the sample's, f̂ the network that descent made of √L neurons; all risks are exact integrals. The
    last piece may be negative, as a network that is not quite at the empirical minimum may be nearer to the truth.

    What theory states, for all samples: the approximation error is at most λ|f|; and half the mean square of
    `f̂_λ − f` on the sample is at most `(λ + λ')|f| + (λ' − λ)₊|f̂_λ|`, λ' being the largest correlation of the noise
    with a neuron, which is of order L^{-1/2}. n draws from the empirical minimiser cost `(∫U(θ,θ) − ∬U)/2n` on average,
    hence some n neurons cost no more: √L of them cost another L^{-1/2}. These are bounds for every problem; on the
    circle, whose neurons are few and alike, the excess risk falls nearly like 1/L, and the best c is small: the noise
    and c = 1/8 were chosen after such a sweep of penalties on another seed, so the verdict on the penalty says that
    one c serves all L, not that c = 1 would do. Of both bounds the measured errors use a small part.

    The field `fault` plants a mistake on purpose, to see the matching verdicts fail: `fixed penalty` keeps λ = c as L
    grows, `two neurons` trains two neurons whatever L is.
    """

    group: ClassVar[str] = "dynamics"
    seconds: ClassVar[float] = 7.0

    sizes: Annotated[tuple[Count, ...], Field(min_length=2)] = (64, 144, 400, 1024)
    widths: Annotated[tuple[Count, ...], Field(min_length=2)] = (2, 5, 20, 80)
    repetitions: Annotated[int, Field(ge=2)] = 6
    strength: Positive = 0.125
    noise: Positive = 1.0
    dt: Positive = 0.2
    steps: Count = 1500
    fault: Literal["none", "fixed penalty", "two neurons"] = "none"

    @classmethod
    def full(cls):
        sizes = (64, 144, 256, 400, 784, 1600, 4096)
        return cls(sizes=sizes, widths=(2, 3, 5, 10, 20, 40, 80), repetitions=32, steps=6000)

    def parts(self):
        return [*(f"L={size}" for size in reversed(self.sizes)), "width", *(f"penalty L={L}" for L in self._two())]

    def run(self, key, part):
        if part == "width":
            return self.width(key)
        size = int(part.split("=")[1])
        return self.penalties(key, size) if part.startswith("penalty") else self.split(key, size)

    def _two(self) -> tuple[int, int]:
        """The sizes at which all penalties are tried."""
        return self.sizes[0], self.sizes[-1]

    def middle(self) -> int:
        """The size at which all widths are tried."""
        return self.sizes[len(self.sizes) // 2]

    def penalty(self, size: int) -> float:
        """λ at L samples."""
        return self.strength / np.sqrt(1 if self.fault == "fixed penalty" else size)

    def neurons(self, size: int) -> int:
        """The number of neurons trained on L samples."""
        return 2 if self.fault == "two neurons" else _root(size)

    def draw(self, key, size: int) -> list[Drawn]:
        """The samples of all repetitions."""
        random = generator(jax.random.fold_in(key, size))
        angles = random.uniform(0, 2 * np.pi, size=(self.repetitions, size))
        xs = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        noise = self.noise * random.normal(size=(self.repetitions, size, 1))
        return [Drawn(x, np.asarray(_said(TRUTH, x)) + e, e) for x, e in zip(xs, noise, strict=True)]

    def train(self, key, samples: list[Drawn], n: int, penalty: float) -> list[Cloud]:
        """Descent of n neurons on each sample, from even directions, turned at random, for each sign."""
        random = generator(stream(key, "start", n))
        starts = [self._start(random, n) for _ in samples]
        fields = [Descend(_objective(sample, penalty)) for sample in samples]
        keys = jax.random.split(key, len(samples))
        path = flow(fields, Euler(), stack_clouds(starts), key=keys, dt=self.dt, steps=self.steps)
        return [jax.tree.map(lambda leaf, r=r: leaf[r], path.cloud) for r in range(len(samples))]

    @staticmethod
    def _start(random, n: int) -> Cloud:
        counts = (n + 1) // 2, n // 2
        even = [DIRECTIONS * (np.arange(count) / max(count, 1) + random.uniform()) for count in counts]
        return uniform(_neurons(np.repeat([1.0, -1.0], counts), _ways(np.concatenate(even))))

    def split(self, key, size: int) -> dict[str, np.ndarray]:
        """The three pieces, their sum, and both sides of the inequalities, repetition by repetition."""
        penalty, n, samples = self.penalty(size), self.neurons(size), self.draw(key, size)
        population = optimum(ReluRisk(TRUTH) + Penalty(penalty), ATOMS).cloud
        trained = self.train(key, samples, n, penalty)
        tell(0.6)
        rows = {name: [] for name in ("pieces", "total", "left", "right", "gap", "draws", "norm")}
        for place, (sample, network) in enumerate(zip(samples, trained, strict=True)):
            best = optimum(_objective(sample, penalty), ATOMS)
            rows["pieces"].append(relu_split(TRUTH, population=population, empirical=best.cloud, trained=network))
            rows["total"].append(_excess(network))
            rows["norm"].append(_norm(best.cloud))
            left, right = self._inequality(sample, best.cloud, penalty)
            rows["left"].append(left)
            rows["right"].append(right)
            rows["gap"].append(_value(_objective(sample, penalty), network) - best.value)
            rows["draws"].append(_draws(sample, best.cloud, _root(size)))
            tell(0.6 + 0.4 * (place + 1) / len(samples))
        found = {name: np.asarray(row, float) for name, row in rows.items()}
        return found | self._example(samples[0], best_of(samples[0], penalty), trained[0])

    def _inequality(self, sample: Drawn, best: Cloud, penalty: float) -> tuple[float, float]:
        """Half the mean square error on the sample, and what the oracle inequality allows."""
        neurons = np.maximum(sample.xs @ _ways(np.arange(DIRECTIONS)).T, 0)
        loudest = np.abs(neurons.T @ sample.noise).max() / len(sample.xs)
        error = float(np.mean((np.asarray(_said(best, sample.xs)) - (sample.ys - sample.noise)) ** 2)) / 2
        return error, (penalty + loudest) * NORM + max(loudest - penalty, 0.0) * _norm(best)

    @staticmethod
    def _example(sample: Drawn, best: Cloud, network: Cloud) -> dict[str, np.ndarray]:
        turns = np.linspace(-np.pi, np.pi, 361)
        circle = np.sqrt(2) * np.stack([np.cos(turns), np.sin(turns)], axis=1)
        curves = np.concatenate([np.asarray(_said(law, circle)) for law in (TRUTH, best, network)], axis=1)
        dots = np.column_stack([np.arctan2(sample.xs[:, 1], sample.xs[:, 0]), sample.ys[:, 0]])
        return {"curves": curves, "turns": turns, "dots": dots}

    def width(self, key) -> dict[str, np.ndarray]:
        """The excess risk, and the objective above its minimum, over the number of neurons: (repetitions, widths)."""
        size = self.middle()
        penalty, samples = self.penalty(size), self.draw(key, size)
        best = [optimum(_objective(sample, penalty), ATOMS) for sample in samples]
        excess, gaps = [], []
        for place, n in enumerate(self.widths):
            clouds = self.train(key, samples, n, penalty)
            excess.append([_excess(cloud) for cloud in clouds])
            rows = zip(samples, clouds, best, strict=True)
            gaps.append([_value(_objective(sample, penalty), cloud) - least.value for sample, cloud, least in rows])
            tell((place + 1) / len(self.widths))
        draws = [_draws(sample, least.cloud, 1) for sample, least in zip(samples, best, strict=True)]
        return {
            "excess": np.array(excess).T,
            "gap": np.array(gaps).T,
            "convex": np.array([_excess(least.cloud) for least in best]),
            "one draw": np.array(draws),
        }

    def penalties(self, key, size: int) -> dict[str, np.ndarray]:
        """The excess risk of the empirical minimiser over the penalty: (repetitions, factors)."""
        samples = self.draw(key, size)
        laws = [[best_of(sample, factor * self.strength / np.sqrt(size)) for factor in FACTORS] for sample in samples]
        return {"excess": np.array([[_excess(law) for law in row] for row in laws])}

    def gather(self, pieces):
        rows = [pieces[f"L={size}"] for size in self.sizes]
        names = ("pieces", "total", "left", "right", "gap", "draws", "norm")
        data = {name: np.stack([row[name] for row in rows], axis=1) for name in names}
        shown = pieces[f"L={self.middle()}"]
        data |= {name: shown[name] for name in ("curves", "turns", "dots")}
        data |= {f"width/{name}": array for name, array in pieces["width"].items()}
        return data | {"penalty": np.stack([pieces[f"penalty L={size}"]["excess"] for size in self._two()])}

    def convex(self, data) -> np.ndarray:
        """The excess risk of the empirical minimiser: (repetitions, sizes)."""
        return data["pieces"][..., :2].sum(-1)

    def _at_root(self, data) -> float:
        """The mean excess risk of the narrowest width from √L on, over that of the widest."""
        widths, excess = np.array(self.widths), data["width/excess"].mean(0)
        enough = np.flatnonzero(widths >= np.sqrt(self.middle()))[0]
        return float(excess[enough] / excess[-1])

    def verdict(self, data):
        convex, total = self.convex(data), data["total"]
        allowed = np.array([self.penalty(size) for size in self.sizes]) * NORM
        u_shape = data["penalty"].mean(1)
        here = FACTORS.index(1)
        return {
            "the three pieces add up to the excess risk, to 1e-10": below(
                np.abs(data["pieces"].sum(-1) - total).max(), 1e-10
            ),
            "approximation error over λ|f| at most 1 at every L": below(
                (data["pieces"][..., 0] / allowed[None]).max(), 1.0
            ),
            "oracle inequality on every sample: left over right at most 1": below(
                (data["left"] / data["right"]).max(), 1.0
            ),
            "the empirical minimiser: excess risk in L, upper end of the slope's band below −0.4": below(
                slope(self.sizes, convex, centre="mean").high, -0.4
            ),
            "√L neurons: excess risk in L, upper end of the slope's band below −0.4": below(
                slope(self.sizes, total, centre="mean").high, -0.4
            ),
            "√L neurons: mean excess risk at every L below twice that of the empirical minimiser": below(
                (total.mean(0) / convex.mean(0)).max(), 2.0
            ),
            "√L neurons: objective above its minimum by less than √L draws cost, mean at every L": below(
                (data["gap"].mean(0) / data["draws"].mean(0)).max(), 1.0
            ),
            f"width at L = {self.middle()}: excess risk at √L neurons below 1.5 of that at {self.widths[-1]}": below(
                self._at_root(data), 1.5
            ),
            "penalty: λ = c L^{-1/2} costs less than a penalty 16 times smaller or larger, at both L": above(
                (np.minimum(u_shape[:, 0], u_shape[:, -1]) / u_shape[:, here]).min(), 1.0
            ),
        }

    def figures(self, data):
        convex, total = self.convex(data), data["total"]
        best = self.strength * np.array(FACTORS)[data["penalty"].mean(1).argmin(1)]
        numbers = {f"{name} error at L = {self.sizes[-1]}": data["pieces"][:, -1, i].mean() for i, name in _numbered()}
        return numbers | {
            f"excess risk at L = {self.sizes[-1]}": total[:, -1].mean(),
            "slope of the empirical minimiser": slope(self.sizes, convex, centre="mean").value,
            "slope of √L neurons": slope(self.sizes, total, centre="mean").value,
            "largest norm of an empirical minimiser": data["norm"].max(),
            **{f"best penalty times √L at L = {L}": one for L, one in zip(self._two(), best, strict=True)},
            f"excess risk at {self.widths[0]} neurons over that at {self.widths[-1]}": (
                data["width/excess"][:, 0].mean() / data["width/excess"][:, -1].mean()
            ),
        }

    def panels(self, data):
        return [self._split_panel(data), self._choice_panel(data)]

    def _split_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, MUTED, colour, reference, slopes

            left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
            left.plot(*data["dots"].T, ".", color=MUTED, markersize=3, alpha=0.5, label=f"{self.middle()} samples")
            truth, best, network = data["curves"].T
            left.plot(data["turns"], truth, color=INK, label="truth")
            left.plot(data["turns"], best, color=colour("vanilla"), label="empirical minimiser")
            words = f"{self.neurons(self.middle())} neurons, trained"
            left.plot(data["turns"], network, color=colour("EA"), linestyle=(0, (4, 2)), label=words)
            left.set(xlabel="angle of the input", ylabel="output", ylim=(None, 1.5 * data["dots"][:, 1].max()))
            left.set_xticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
            left.legend(loc="upper left", ncols=2)
            series = {name: np.abs(data["pieces"][..., i].mean(0)) for i, name in _numbered()}
            slopes(right, self.sizes, series, fits={})
            right.plot(self.sizes, data["total"].mean(0), color=INK, linewidth=2.4, label="excess risk")
            reference(right, self.sizes, -0.5, float(data["total"].mean(0)[0] * 1.5), label="slope −1/2")
            lowest = min(row.min() for row in series.values())
            right.set(xlabel="samples L", ylabel="mean error", ylim=(lowest / 30, None))
            right.legend(loc="lower left")

        caption = (
            "Left: a truth of four ReLU neurons on the circle, noisy samples, the convex minimiser of the penalised "
            "risk, and √L trained neurons. Right: the excess risk and its three pieces (optimisation without its "
            f"sign), with λ = {self.strength:g}/√L and √L neurons: it falls faster than 1/√L."
        )
        return Panel("Three errors, one sum", caption, draw, size=(10.2, 4.0))

    def _choice_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, INK, MUTED, colour, slopes

            left, right = figure.subplots(1, 2)
            widths = np.array(self.widths)
            gap = data["width/gap"].mean(0)
            objective = {"excess risk": data["width/excess"].mean(0), "objective above its minimum": gap}
            above_zero = {n: np.where(np.minimum.accumulate(row) > 0, row, np.nan) for n, row in objective.items()}
            slopes(left, widths, above_zero, fits={})
            bound = data["width/one draw"].mean() / widths
            left.plot(widths, bound, linestyle=DASHED, color=MUTED, label="what n draws cost")
            left.axhline(data["width/convex"].mean(), color=INK, linewidth=1, label="empirical minimiser")
            left.axvline(np.sqrt(self.middle()), color=MUTED, linewidth=1, linestyle=":")
            left.set(xlabel=f"neurons n  (dotted: √L, L = {self.middle()})", ylabel="mean error", ylim=(1e-7, None))
            left.legend()
            for order, (size, rows) in enumerate(zip(self._two(), data["penalty"], strict=True)):
                right.plot(
                    self.strength * np.array(FACTORS), rows.mean(0), "o-", color=colour("", order), label=f"L = {size}"
                )
            right.axvline(self.strength, color=MUTED, linewidth=1, linestyle=":")
            right.set(xscale="log", yscale="log", xlabel=r"$\lambda\,\sqrt{L}$", ylabel="mean excess risk")
            right.legend()

        caption = (
            "Left: beyond √L neurons, more of them hardly help; the objective lies below what n independent draws "
            "from the minimiser cost (dashed), and wide networks, free of the grid, go below its minimum. Right: too "
            "small a penalty learns the noise, too large a one learns nothing; the best λ is a multiple of 1/√L, near "
            f"{self.strength:g} (dotted) at both sizes."
        )
        return Panel("How many neurons, how much penalty", caption, draw, size=(10.2, 3.9))


def _root(size: int) -> int:
    return int(np.ceil(np.sqrt(size)))


def _numbered():
    return list(enumerate(PIECES))


def _objective(sample: Drawn, penalty: float):
    return Risk(UNIT, Sample(sample.xs, sample.ys)) + Penalty(penalty)


def best_of(sample: Drawn, penalty: float) -> Cloud:
    """The empirical minimiser: the best law on all directions and signs."""
    return optimum(_objective(sample, penalty), ATOMS).cloud


def _norm(cloud: Cloud) -> float:
    """The total variation norm of a law of balanced neurons, `∫½|θ|² dmu`."""
    return float(np.asarray(cloud.weights) @ np.sum(np.asarray(cloud.atoms) ** 2, axis=1) / 2)


def _excess(cloud: Cloud) -> float:
    return float(_half_distance(cloud, TRUTH))


def _value(functional, cloud: Cloud) -> float:
    return float(_jitted_value(functional, cloud))


def _draws(sample: Drawn, best: Cloud, n: int) -> float:
    """`(∫U(θ,θ) − ∬U)/2n`: what n draws from a minimiser cost, its neurons all brought to the size of its norm."""
    shares = np.asarray(best.weights)[1:].reshape(2, DIRECTIONS) * RADIUS
    neurons = np.maximum(sample.xs @ _ways(np.arange(DIRECTIONS)).T, 0)
    alone = shares.sum() * np.mean(neurons**2 @ shares.sum(0))
    return float(alone - np.mean((neurons @ (shares[0] - shares[1])) ** 2)) / (2 * n)


@eqx.filter_jit
def _said(cloud: Cloud, xs):
    return (cloud.weights @ UNIT.batched(cloud.atoms, jnp.asarray(xs))[:, 0])[:, None]


@eqx.filter_jit
def _half_distance(cloud: Cloud, other: Cloud):
    return relu_distance(cloud, other) / 2


@eqx.filter_jit
def _jitted_value(functional, cloud: Cloud):
    return functional(cloud)
