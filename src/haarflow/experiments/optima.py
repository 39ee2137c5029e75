"""Where the best laws are: the convex programs over weakly invariant laws, and with augmented or averaged risks."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from haarflow.algebra.groups import Cyclic, PlanarRotations, Symmetric
from haarflow.algebra.reps import natural_rep
from haarflow.learning.data import Sample
from haarflow.learning.optima import optimum
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import average, orbit_closure, symmetrise
from haarflow.measures.clouds import uniform
from haarflow.measures.distances import generator
from haarflow.models.units import Dense, Perceptron
from haarflow.practice.testing import Case, case
from haarflow.runs.experiment import Experiment, above, below, named, over, panel
from haarflow.runs.sizes import Count, NonNegative
from haarflow.runs.style import INK, colour, legend, marker

BOUND = 1e-8
PROGRAMS = {"free": "vanilla", "WI": "EA", "DA": "DA", "FA": "FA"}  # and their colours


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
    is the optimum of the plain risk over weakly invariant laws.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Theorem 2 and
    Corollary 1.

    Every program is convex in the weights and solved by clarabel; its duality gap `∫Psi dmu − min Psi` is computed from
    the weights that come back and proves the value. The targets have no symmetry; with symmetric data the free optimum
    is the invariant one too. What strongly invariant laws miss is the experiment `strong-optima`.
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 1.5
    faults = {
        "unclosed data": "one image of one sample is lost",
        "no average": "the averaged risk is that of the unit itself",
    }

    orbits: Count = 40  # orbits of atoms of the programs
    samples: Count = 25
    tau: NonNegative = 1e-2

    @classmethod
    def full(cls):
        return cls(orbits=120, samples=60)

    def design(self):
        yield self.programs, over(group=cases())

    def programs(self, key, group):
        """Theorem 2 and Corollary 1: the optimal values and the duality gaps, without and with the penalty."""
        on_x, on_y, unit, _ = cases()[group]
        action, draw = unit.action(on_x, on_y), generator(key)
        atoms = np.asarray(uniform(2 * draw.normal(size=(self.orbits, unit.dim))).orbit(action).atoms)
        mix = jnp.asarray(draw.normal(size=(unit.inputs, unit.outputs)))

        def target(xs):
            return 0.4 * jnp.sin(xs @ mix) + 0.3

        xs = 2 * draw.normal(size=(self.samples, unit.inputs))
        plain = Sample(xs, target(jnp.asarray(xs)))
        closed = orbit_closure(plain, on_x, on_y)
        if self.fault == "unclosed data":
            closed = Sample(closed.xs[1:], closed.ys[1:])
        averaged = unit if self.fault == "no average" else average(unit, on_x, on_y)
        solved = {
            "free": (Risk(unit, plain), None),
            "WI": (Risk(unit, plain), action),
            "DA": (Risk(unit, closed), None),
            "FA": (Risk(averaged, plain), None),
            "closed, WI": (Risk(unit, closed), action),
        }
        found = [
            {name: optimum(risk + Penalty(tau), atoms, invariant=on) for name, (risk, on) in solved.items()}
            for tau in (0.0, self.tau)
        ]
        f, ideal = target(closed.xs), symmetrise(target, on_x, on_y)(closed.xs)
        fits = [optimum(Risk(unit, Sample(closed.xs, ys), "square"), atoms, invariant=action) for ys in (f, ideal)]
        axes, labels = ("penalty", "program"), {"penalty": ("no penalty", "penalty"), "program": tuple(solved)}
        return {
            "optimal": named([[one.value for one in row.values()] for row in found], *axes, **labels),
            "gaps": named([[one.gap for one in row.values()] for row in found], *axes, **labels),
            "split": named([fits[0].value, np.mean(np.sum((f - ideal) ** 2, axis=1)), fits[1].value], "term"),
        }

    def claims(self, data):
        free, weak, closed = (data.optimal.sel(program=name) for name in ("free", "WI", "closed, WI"))
        augmented = data.optimal.sel(program=("DA", "FA"))
        words = "Thm 2: the optima of DA and of FA are the WI optimum, with and without penalty, to {bound}"
        yield below(words, np.abs(augmented - weak).max(), BOUND)
        yield below("Thm 2: every value is proved by a duality gap", data.gaps.max(), BOUND)
        words = "Thm 2: with symmetric data the free optimum is the WI optimum, to {bound}"
        yield below(words, np.abs(closed - augmented.sel(program="DA")).max(), BOUND)
        words = "Thm 2: with data of no symmetry the free optimum is lower, by more than {bound}"
        yield above(words, (weak - free).min(), 1e-3)
        words = "Cor 1: the best WI fit of f costs |f − Qf|² more than the best WI fit of Qf, to {bound}"
        f, apart, ideal = data.split.transpose("term", "group")
        yield below(words, np.abs(f - apart - ideal).max(), BOUND)

    def numbers(self, data):
        return {"{program} optimum, {group}, {penalty}": data.optimal.sel(program=tuple(PROGRAMS))}

    @panel(
        "Three programs, one optimum",
        "Optimal values of the four convex programs on the same atoms, for targets without symmetry. WI, DA and FA "
        "share one value, the line through them; free weights do better, because the target is not symmetric.",
    )
    def one_optimum(self, axis, data):
        weak = data.optimal.sel(program="WI")
        names = [", ".join(at) for at, _ in weak.each("group", "penalty")]
        rows = np.arange(len(names))[::-1]
        for place, (program, shade) in enumerate(PROGRAMS.items()):
            shift = 0 if program == "free" else 0.2 * (2 - place)
            look = {"color": colour(shade), "marker": marker(shade), "linestyle": "none"}
            axis.plot(data.optimal.sel(program=program).values.ravel(), rows + shift, label=program, **look)
        axis.vlines(weak.values.ravel(), rows - 0.35, rows + 0.35, color=INK, linewidth=0.8, zorder=1)
        axis.set(xlabel="optimal value", xlim=(0, None), ylim=(-0.6, rows[0] + 0.6))
        axis.set_yticks(rows, names)
        legend(axis)
