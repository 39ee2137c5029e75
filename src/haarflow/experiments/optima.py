"""Where the best laws are: the convex programs over invariant laws, and what strongly invariant laws miss."""

from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.algebra.groups import Cyclic, PlanarRotations, Signs, Symmetric
from haarflow.algebra.reps import Rep, natural_rep, trivial_rep
from haarflow.algebra.user_reps import regular_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Sample
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import average, orbit_closure, symmetrise
from haarflow.measures.clouds import Cloud, stack_clouds, uniform
from haarflow.measures.distances import generator
from haarflow.models.neurons import permuted_hidden
from haarflow.models.units import Custom, Dense, Perceptron, Unit, network
from haarflow.practice.testing import Case, case
from haarflow.runs.experiment import Count, Experiment, NonNegative, Panel, above, below, between
from haarflow.runs.progress import tell

BOUND = 1e-8
UNITS = ("two-layer", "perceptron")
PROGRAMS = ("free", "WI", "DA", "FA")
LINE = (np.tanh(1) - np.tanh(2) / 2) ** 2  # the best SI risk of the example on the line
DISC = 1 / 12  # Var|X|² for X uniform on the unit disc: the best SI risk of the example in the plane


def cases() -> dict[str, Case]:
    """Groups and units whose programs are solved."""
    swap, turn, three = Cyclic(2), PlanarRotations(4), Symmetric(3)
    return {
        "C2 swap": case(swap, Dense(2, 2, "sigmoid"), on_y=natural_rep(swap)),
        "C4 turns": case(turn, Perceptron(2, 2, "tanh"), on_y=natural_rep(turn)),
        "S3": case(three, Dense(3, 3, "tanh"), on_y=natural_rep(three)),
    }


class Optima(Experiment):
    """On atoms that the group permutes, the augmented and the averaged risk have the same optimum over all laws, and it
    is the optimum of the plain risk over weakly invariant laws; strongly invariant laws can miss it by a fixed
    amount, and come as close as one likes when the fixed space is universal.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorem 2,
    Corollary 1, Propositions 4 and 5.

    Every program is convex in the weights and solved by clarabel; its duality gap `∫Psi dmu − min Psi` is computed from
    the weights that come back and proves the value. The targets of Theorem 2 have no symmetry; with symmetric data the
    free optimum is the invariant one too. Proposition 4 is shown twice, with the full square loss. On the line, signs
    act on tanh(xz + 1) and the only SI law is the atom at zero. In the plane, quarter turns act on <w, x>² + b and fix
    only w = 0: SI networks are constants, so against the target |x|² their infimum is Var|X|², here 1/12 for X uniform
    on the unit disc, while the four turns of one w give the target itself. Proposition 5 compares two units with the
    same target and the same number of fixed atoms: a two-layer unit whose hidden neurons the group permutes (a
    universal fixed space) and a perceptron (whose fixed space holds constants only).
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 6.0

    orbits: Count = 40
    samples: Count = 25
    tau: NonNegative = 1e-2
    fixed: Annotated[tuple[Count, ...], Field(min_length=2)] = (4, 8, 16, 32, 64, 128, 256)
    inputs: Count = 100
    repetitions: Count = 5
    rings: Count = 500
    steps: Count = 4000

    @classmethod
    def full(cls):
        return cls(orbits=120, samples=60, fixed=(4, 8, 16, 32, 64, 128, 256, 512, 1024), inputs=200, repetitions=10)

    def parts(self):
        return [*(f"universal {unit}" for unit in UNITS), *cases(), "line", "plane"]

    def run(self, key, part):
        if part in cases():
            return self.programs(key, cases()[part])
        if part.startswith("universal"):
            return self.universal(key, part.split()[1])
        return {"line": self.line, "plane": self.plane}[part](key)

    def programs(self, key, case: Case) -> dict[str, np.ndarray]:
        """Theorem 2 and Corollary 1 on one case: values and gaps (penalties, programs)."""
        on_x, on_y, unit, _ = case
        action, draw = unit.action(on_x, on_y), generator(key)
        atoms = np.asarray(uniform(2 * draw.normal(size=(self.orbits, unit.dim))).orbit(action).atoms)
        mix = draw.normal(size=(unit.inputs, unit.outputs))

        def target(xs):
            return 0.4 * jnp.sin(xs @ jnp.asarray(mix)) + 0.3

        xs = 2 * draw.normal(size=(self.samples, unit.inputs))
        plain = Sample(xs, target(jnp.asarray(xs)))
        closed = orbit_closure(plain, on_x, on_y)
        found = [
            {
                "free": optimum(Risk(unit, plain) + Penalty(tau), atoms),
                "WI": optimum(Risk(unit, plain) + Penalty(tau), atoms, invariant=action),
                "DA": optimum(Risk(unit, closed) + Penalty(tau), atoms),
                "FA": optimum(Risk(average(unit, on_x, on_y), plain) + Penalty(tau), atoms),
                "closed, WI": optimum(Risk(unit, closed) + Penalty(tau), atoms, invariant=action),
            }
            for tau in (0.0, self.tau)
        ]
        return {
            "values": np.array([[one[name].value for name in PROGRAMS] for one in found]),
            "gaps": np.array([max(one.gap for one in programs.values()) for programs in found]),
            "closed": np.array([abs(one["closed, WI"].value - one["DA"].value) for one in found]),
            "split": self._split(unit, closed.xs, target, on_x, on_y, atoms, action),
        }

    @staticmethod
    def _split(unit: Unit, xs, target, on_x: Rep, on_y: Rep, atoms: np.ndarray, action: Rep) -> np.ndarray:
        """Corollary 1: the best WI fit of f, against |f − Qf|² plus the best WI fit of Qf; orbit-closed inputs."""
        f, symmetric = target(xs), symmetrise(target, on_x, on_y)(xs)
        values = [optimum(Risk(unit, Sample(xs, ys), "square"), atoms, invariant=action).value for ys in (f, symmetric)]
        return np.array([values[0], float(np.mean(np.sum((f - symmetric) ** 2, axis=1))), values[1]])

    def line(self, key) -> dict[str, np.ndarray]:
        """Proposition 4 on the line: the programs, and the flows from the atom at zero and from {±0.3}."""
        group = Signs(1)
        unit = Custom(lambda theta, x: jnp.tanh(theta * x + 1), 1, 1, 1, lambda on_x, on_y: on_x)
        action = unit.action(natural_rep(group), trivial_rep(group))
        risk = Risk(unit, Sample(np.array([[-1.0], [1.0]]), np.full((2, 1), np.tanh(2) / 2)), "square")
        grid = np.linspace(-2, 2, 81)[:, None]
        starts = stack_clouds([uniform(np.array([[0.0], [0.0]])), uniform(np.array([[-0.3], [0.3]]))])
        probes = {"atoms": lambda cloud: cloud.atoms[:, 0], "risk": risk}
        keys = jnp.stack([key, key])
        path = flow(
            Descend(risk), Euler(), starts, key=keys, dt=0.05, steps=self.steps, probes=probes, every=20, progress=tell
        )
        return {
            "strong": np.asarray(optimum(risk, np.zeros((1, 1))).value),
            "weak": np.asarray(optimum(risk, grid, invariant=action).value),
            "times": path.times[0],
            "atoms": path.probes["atoms"],
            "risks": path.probes["risk"],
        }

    def plane(self, key) -> dict[str, np.ndarray]:
        """Proposition 4 in the plane: X uniform on the disc, |X|² at the midpoints of equal slices of [0, 1]."""
        group = PlanarRotations(4)
        unit = Custom(
            lambda theta, x: jnp.square(theta[:2] @ x)[None] + theta[2:],
            3,
            2,
            1,
            lambda on_x, on_y: on_x + trivial_rep(on_x.group),
        )
        action = unit.action(natural_rep(group), trivial_rep(group))
        squares = (np.arange(self.rings) + 0.5) / self.rings
        angles = 2 * np.pi * generator(key).uniform(size=self.rings)
        rays = np.sqrt(squares)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        data = orbit_closure(Sample(rays, squares[:, None]), natural_rep(group), trivial_rep(group))
        risk = Risk(unit, data, "square")
        basis = action.fixed_basis()
        constants = np.linspace(-1, 2, 7)[:, None] * basis.T
        turned = np.asarray(uniform(np.array([[np.sqrt(2), 0.0, 0.0]])).orbit(action).atoms)
        strong, weak = optimum(risk, constants), optimum(risk, turned, invariant=action)
        return {
            "fixed dimension": np.asarray(basis.shape[1]),
            "strong": np.asarray(strong.value),
            "weak": np.asarray(weak.value),
            "variance": np.asarray(np.var(squares)),
            "shown": np.linspace(0, 1, 40),
            "outputs": np.stack([_profile(unit, one.cloud) for one in (strong, weak)]),
        }

    def universal(self, key, which: str) -> dict[str, np.ndarray]:
        """Proposition 5: the SI optimum over ever more fixed atoms, on the sample and on fresh inputs."""
        group, draw = PlanarRotations(4), generator(key)
        unit = permuted_hidden(regular_rep(group), 2) if which == "two-layer" else Perceptron(2, 1, "tanh")
        basis = unit.action(natural_rep(group), trivial_rep(group)).fixed_basis()
        gaps = np.zeros((2, self.repetitions, len(self.fixed)))
        for r in range(self.repetitions):
            inputs = 2 * draw.uniform(-1, 1, size=(2, self.inputs, 2))
            atoms = draw.normal(size=(max(self.fixed), basis.shape[1])) @ (4 * basis.T)
            outputs = np.asarray(_outputs(unit, jnp.asarray(atoms), jnp.asarray(inputs)))
            risk = Risk(unit, Sample(inputs[0], _bumpy(inputs[0])), "square")
            for k, n in enumerate(self.fixed):
                weights = np.asarray(optimum(risk, atoms[:n]).cloud.weights)
                errors = [weights @ out[:n, 0] - _bumpy(xs)[:, 0] for out, xs in zip(outputs, inputs, strict=True)]
                gaps[:, r, k] = np.mean(np.square(errors), axis=1)
            tell((r + 1) / self.repetitions)
        return {"gaps": gaps}

    def gather(self, pieces):
        programs = {name: pieces[name] for name in cases()}
        table = {
            what: np.stack([piece[what] for piece in programs.values()])
            for what in ("values", "gaps", "closed", "split")
        }
        named = {f"{part}/{name}": array for part in ("line", "plane") for name, array in pieces[part].items()}
        universal = np.stack([pieces[f"universal {unit}"]["gaps"] for unit in UNITS])
        return table | named | {"universal": universal, "groups": np.array(list(programs))}

    def verdict(self, data):
        values, split = data["values"], data["split"]
        free, weak = values[..., 0], values[..., 1]
        median = np.median(data["universal"], axis=2)
        return {
            "Thm 2: the optima of DA and of FA are the WI optimum, with and without penalty, to 1e-8": below(
                np.abs(values[..., 2:] - weak[..., None]).max(), BOUND
            ),
            "Thm 2: every value is proved by a duality gap below 1e-8": below(data["gaps"].max(), BOUND),
            "Thm 2: with symmetric data the free optimum is the WI optimum, to 1e-8": below(
                data["closed"].max(), BOUND
            ),
            "Thm 2: with data of no symmetry the free optimum is lower, by more than 1e-3": above(
                (weak - free).min(), 1e-3
            ),
            "Cor 1: the best WI fit of f costs |f − Qf|² more than the best WI fit of Qf, to 1e-8": below(
                np.abs(split[:, 0] - split[:, 1] - split[:, 2]).max(), BOUND
            ),
            "Prop 4, line: the best SI risk is (tanh 1 − tanh 2 / 2)² = 0.078165, to 1e-12": between(
                data["line/strong"] - LINE, -1e-12, 1e-12
            ),
            "Prop 4, line: the best WI risk is 0, to 1e-12": below(data["line/weak"], 1e-12),
            "Prop 4, line: the flow from the atom at 0 is stuck: it moves less than 1e-12": below(
                np.abs(data["line/atoms"][0]).max(), 1e-12
            ),
            "Prop 4, line: the flow from {±0.3} ends within 1e-6 of {±1}": below(
                np.abs(data["line/atoms"][1, -1] - np.array([-1.0, 1.0])).max(), 1e-6
            ),
            "Prop 4, plane: SI networks are constants, and their infimum is Var|X|², to 1e-12": below(
                abs(data["plane/strong"] - data["plane/variance"]), 1e-12
            ),
            "Prop 4, plane: Var|X|² is 1/12 on the disc, to the 1/(12 rings²) of its slices": below(
                abs(data["plane/variance"] - DISC), 1.01 * DISC / self.rings**2
            ),
            "Prop 4, plane: the best WI risk is 0, to 1e-12": below(data["plane/weak"], 1e-12),
            "Prop 5: the SI gap never rises as fixed atoms are added, to 1e-8": below(
                np.diff(data["universal"][0, 0], axis=-1).max(), BOUND
            ),
            "Prop 5: universal E^G: the SI gap falls below 1% of its first value": below(
                median[0, 0, -1] / median[0, 0, 0], 0.01
            ),
            "Prop 5: the same on fresh inputs, below 5%": below(median[0, 1, -1] / median[0, 1, 0], 0.05),
            "Prop 5: constants only: the SI gap stays above half of its first value": above(
                median[1, 0, -1] / median[1, 0, 0], 0.5
            ),
        }

    def figures(self, data):
        median = np.median(data["universal"], axis=2)
        numbers = {
            f"{program} optimum, {group}{', penalty' * bool(t)}": data["values"][g, t, p]
            for g, group in enumerate(data["groups"])
            for t in range(2)
            for p, program in enumerate(PROGRAMS)
        }
        return numbers | {
            "largest duality gap": data["gaps"].max(),
            "line, best SI risk": data["line/strong"],
            "line, best WI risk": data["line/weak"],
            "line, risk at the end of the flow from {±0.3}": data["line/risks"][1, -1],
            "plane, best SI risk": data["plane/strong"],
            "plane, Var|X|²": data["plane/variance"],
            "plane, best WI risk": data["plane/weak"],
            "universal E^G, SI gap with the fewest atoms": median[0, 0, 0],
            "universal E^G, SI gap with the most atoms": median[0, 0, -1],
            "universal E^G, SI gap with the most atoms, fresh inputs": median[0, 1, -1],
            "constants only, SI gap with the most atoms": median[1, 0, -1],
        }

    def panels(self, data):
        return [
            self._programs_panel(data),
            self._line_panel(data),
            self._plane_panel(data),
            self._universal_panel(data),
        ]

    def _programs_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import INK, colour, legend, marker

            axis = figure.add_subplot()
            rows = np.arange(2 * len(data["groups"]))[::-1]
            values = data["values"].reshape(-1, len(PROGRAMS))
            shades = {"free": "vanilla", "WI": "EA", "DA": "DA", "FA": "FA"}
            for p, program in enumerate(PROGRAMS):
                shift = 0 if program == "free" else 0.2 * (2 - p)
                style = {"color": colour(shades[program]), "marker": marker(shades[program])}
                axis.plot(values[:, p], rows + shift, linestyle="none", label=program, **style)
            axis.vlines(values[:, 1], rows - 0.35, rows + 0.35, color=INK, linewidth=0.8)
            words = [f"{group}{', penalty' * t}" for group in data["groups"] for t in range(2)]
            axis.set(yticks=rows, xlabel="optimal value", ylim=(-0.6, rows[0] + 0.6))
            axis.set_yticklabels(words)
            legend(axis)

        apart = np.abs(data["values"][..., 2:] - data["values"][..., 1:2]).max()
        caption = (
            "Optimal values of the four convex programs on the same atoms, for targets without symmetry. WI, DA and "
            f"FA share one value (they differ by at most {apart:.1e}); free weights do better, because the target is "
            "not symmetric."
        )
        return Panel("Three programs, one optimum", caption, draw)

    def _line_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, MUTED, colour, legend

            left, right = figure.subplots(1, 2)
            late = data["line/times"] <= 0.25 * data["line/times"][-1]
            for name, run, shade in (("from the atom at 0", 0, "EA"), ("from {±0.3}", 1, "FA")):
                atoms, risks = data["line/atoms"][run][late], data["line/risks"][run][late]
                left.plot(data["line/times"][late], atoms, color=colour(shade))
                right.plot(data["line/times"][late], np.maximum(risks, 1e-17), color=colour(shade), label=name)
            for level in (-1, 1):
                left.axhline(level, color=MUTED, linewidth=0.9, linestyle=DASHED)
            left.set(xlabel="time", ylabel="atoms z")
            right.set(xlabel="time", ylabel="risk", yscale="log")
            legend(right)

        caption = (
            "Signs act on tanh(xz + 1); only z = 0 is fixed. From there plain descent never leaves and keeps the risk "
            "0.0782; from {±0.3} the two atoms go to ±1, where the risk vanishes."
        )
        return Panel("On the line, strong invariance costs 0.078", caption, draw, size=(9.6, 3.6))

    def _plane_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import DASHED, INK, colour, legend

            axis = figure.add_subplot()
            for name, values, shade in zip(("best SI", "best WI"), data["plane/outputs"], ("EA", "FA"), strict=True):
                axis.plot(data["plane/shown"], values, color=colour(shade), linewidth=3, label=name)
            axis.plot(data["plane/shown"], data["plane/shown"], color=INK, linestyle=DASHED, label="target |x|²")
            axis.set(xlabel="|x|²", ylabel="output along a ray")
            legend(axis)

        caption = (
            "Quarter turns act on <w, x>² + b. Fixed particles have w = 0 and make constants: the best one is the mean "
            f"of |X|², at a risk of Var|X|² = {float(data['plane/strong']):.6f} on the disc. Four turned particles "
            "are exact."
        )
        return Panel("In the plane, it costs the variance of the target", caption, draw)

    def _universal_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import legend, slopes

            gaps = data["universal"]
            series = {
                "universal E^G, sample": gaps[0, 0],
                "universal E^G, fresh inputs": gaps[0, 1],
                "constants only, sample": gaps[1, 0],
            }
            axis = figure.add_subplot()
            slopes(axis, self.fixed, series, xlabel="fixed atoms", ylabel="SI optimum − WI optimum", fits={})
            legend(axis)

        caption = (
            f"Median and 10–90% band of {self.repetitions} repetitions. The target is invariant under quarter turns, "
            "so the WI infimum is 0. Two-layer units whose hidden neurons are permuted have a universal fixed space, "
            "and their SI gap closes; a perceptron's fixed space holds constants, and its gap does not."
        )
        return Panel("The gap closes where the fixed space is universal", caption, draw)


def _bumpy(xs: np.ndarray) -> np.ndarray:
    """A smooth function of the plane that quarter turns leave alone, and other turns do not."""
    x, y = xs.T
    return (0.5 * np.cos(x) * np.cos(y) + 0.1 * (x**2 * y**2) / (1 + x**2 + y**2))[:, None]


@eqx.filter_jit
def _outputs(unit: Unit, atoms, inputs):
    return jax.vmap(lambda xs: unit.batched(atoms, xs))(inputs)


def _profile(unit: Unit, cloud: Cloud) -> np.ndarray:
    squares = np.linspace(0, 1, 40)
    rays = np.sqrt(squares)[:, None] * np.array([[0.6, 0.8]])
    return np.asarray(network(unit, cloud, jnp.asarray(rays)))[:, 0]
