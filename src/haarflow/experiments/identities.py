"""The exact identities behind the three ways to use a symmetry, over nine groups."""

from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from haarflow.algebra.given import image
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, Rotations, Signs, Symmetric
from haarflow.algebra.products import Product
from haarflow.algebra.reps import natural, trivial
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.models.units import Custom, Dense, Perceptron, TwoLayer
from haarflow.practice.testing import Case, case, check_identities
from haarflow.runs.experiment import Count, Experiment, Panel, below, between

BOUND = 1e-12


def cases() -> dict[str, Case]:
    """The groups under test, by the name the report shows."""
    swap, turn, three, signs = Cyclic(2), Rotations(4), Symmetric(3), Signs(3)
    square, cube, pair = Dihedral(4), Hyperoctahedral(2), Product(Cyclic(3), Signs(2))
    return {
        "C2 swap": case(swap, Dense(2, 2, "sigmoid"), on_y=natural(swap)),
        "C4 turns": case(turn, Perceptron(2, 2, "tanh"), on_y=natural(turn)),
        "C6 shifts": case(Cyclic(6), Dense(6, 6, "softplus"), on_y=natural(Cyclic(6))),
        "S3": case(three, Dense(3, 3, "sigmoid"), on_y=natural(three)),
        "S5": case(Symmetric(5), Perceptron(5, 1, "relu")),
        "signs": case(signs, Dense(3, 3, "tanh"), on_y=natural(signs)),
        "D4 on 4×4 images": case(square, Perceptron(16, 1, "erf"), on_x=image(square, 4, 4)),
        "B2": case(cube, TwoLayer(2, 3, 2, "cos"), on_y=natural(cube)),
        "C3 × signs": case(pair, Perceptron(5, 5, "tanh"), on_y=natural(pair)),
    }


class Identities(Experiment):
    """Averaging the network is symmetrising the cloud, augmenting the data is averaging the risk over moved clouds,
    and on invariant clouds the three techniques pull the same way: each to rounding, for every group.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Propositions 1, 2
    and 4, Corollary 1, and the drifts behind Theorems 3 to 6.

    The field `fault` plants a mistake on purpose, to see the matching verdicts fail: `no inverse` averages with g in
    place of its inverse on the outputs, `half orbit` drops the last image of every particle, `one-sided action` moves
    the parameters by the inputs' action alone, `unclosed data` loses one image of one sample.
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 2.0

    atoms: Count = 7
    samples: Count = 5
    fault: Literal["none", "no inverse", "half orbit", "one-sided action", "unclosed data"] = "none"

    @classmethod
    def full(cls):
        return cls(atoms=40, samples=20)

    def parts(self):
        return [*cases(), "Prop 4"]

    def run(self, key, part):
        if part == "Prop 4":
            return strong_optimum_example()
        return {name: np.asarray(value) for name, value in self.errors(key, cases()[part]).items()}

    def errors(self, key, case: Case) -> dict[str, float]:
        """The size of the failure of every identity."""
        return check_identities(
            key, case.unit, case.on_x, case.on_y, atoms=self.atoms, samples=self.samples, fault=self.fault
        )

    def gather(self, pieces):
        example = pieces.pop("Prop 4")
        names = list(next(iter(pieces.values())))
        table = np.array([[pieces[case][name] for name in names] for case in pieces])
        return {"errors": table, "identities": np.array(names), "groups": np.array(list(pieces)), **example}

    def verdict(self, data):
        worst = data["errors"].max(axis=0)
        claims = {
            f"{name}, to {BOUND:g}": below(value, BOUND) for name, value in zip(data["identities"], worst, strict=True)
        }
        known = (np.tanh(1) - np.tanh(2) / 2) ** 2
        return claims | {
            "Prop 4: the best SI risk is (tanh 1 − tanh 2 / 2)², to 1e-12": between(
                data["strong"] - known, -BOUND, BOUND
            ),
            "Prop 4: a WI law has risk 0, to 1e-12": below(data["weak"], BOUND),
        }

    def figures(self, data):
        worst = dict(zip(data["identities"].tolist(), data["errors"].max(axis=0), strict=True))
        return {f"worst error, {name}": value for name, value in worst.items()} | {
            "Prop 4, best SI risk": data["strong"],
            "Prop 4, WI risk": data["weak"],
        }

    def panels(self, data):
        def draw(figure):
            from haarflow.runs.style import failures

            series = dict(zip(data["groups"].tolist(), data["errors"], strict=True))
            failures(figure.add_subplot(), data["identities"].tolist(), series, BOUND)

        caption = (
            "Each mark is the largest failure of one identity for one group, on a random weighted cloud and random "
            "data, in float64. Left of the bound: the identity holds to rounding."
        )
        return [Panel("Every identity, every group", caption, draw, size=(9.6, 5.2))]


def strong_optimum_example() -> dict[str, np.ndarray]:
    """Proposition 4 on the line: signs act on tanh(xz + 1), and the only SI law is the atom at zero."""
    group = Signs(1)
    unit = Custom(lambda theta, x: jnp.tanh(theta * x + 1), 1, 1, 1, lambda on_x, on_y: on_x)
    action = unit.action(natural(group), trivial(group))
    xs = np.array([[-1.0], [1.0]])
    risk = Risk(unit, Sample(xs, np.full((2, 1), np.tanh(2) / 2)), "square")
    strong = uniform(np.array([[0.7]])).project(action)
    weak = uniform(np.array([[1.0]])).orbit(action)
    value = eqx.filter_jit(risk)
    return {"strong": np.asarray(value(strong)), "weak": np.asarray(value(weak))}
