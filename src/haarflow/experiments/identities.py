"""The exact identities behind the three ways to use a symmetry, over nine groups."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, PlanarRotations, Signs, Symmetric
from haarflow.algebra.products import Product
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.learning.data import Sample
from haarflow.learning.risks import Risk
from haarflow.measures.clouds import uniform
from haarflow.models.units import Custom, Dense, Perceptron, TwoLayer
from haarflow.practice.testing import Case, case, check_identities
from haarflow.runs.experiment import Experiment, below, between, named, once, over, panel
from haarflow.runs.sizes import Count
from haarflow.runs.style import failures

BOUND = 1e-12


def cases() -> dict[str, Case]:
    """The groups under test, by the name the report shows."""
    swap, turn, three, signs = Cyclic(2), PlanarRotations(4), Symmetric(3), Signs(3)
    square, cube, pair = Dihedral(4), Hyperoctahedral(2), Product(Cyclic(3), Signs(2))
    return {
        "C2 swap": case(swap, Dense(2, 2, "sigmoid"), on_y=natural_rep(swap)),
        "C4 turns": case(turn, Perceptron(2, 2, "tanh"), on_y=natural_rep(turn)),
        "C6 shifts": case(Cyclic(6), Dense(6, 6, "softplus"), on_y=natural_rep(Cyclic(6))),
        "S3": case(three, Dense(3, 3, "sigmoid"), on_y=natural_rep(three)),
        "S5": case(Symmetric(5), Perceptron(5, 1, "relu")),
        "signs": case(signs, Dense(3, 3, "tanh"), on_y=natural_rep(signs)),
        "D4 on 4×4 images": case(square, Perceptron(16, 1, "erf"), on_x=image_rep(square, 4, 4)),
        "B2": case(cube, TwoLayer(2, 3, 2, "cos"), on_y=natural_rep(cube)),
        "C3 × signs": case(pair, Perceptron(5, 5, "tanh"), on_y=natural_rep(pair)),
    }


class Identities(Experiment):
    """Averaging the network is symmetrising the cloud, augmenting the data is averaging the risk over moved clouds,
    and on invariant clouds the three techniques pull the same way: each to rounding, for every group.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Propositions 1, 2
    and 4, Corollary 1, and the drifts behind Theorems 3 to 6.
    """

    tour_included: ClassVar[bool] = True
    seconds: ClassVar[float] = 2.0
    faults = {
        "no inverse": "averages are taken with g in place of its inverse on the outputs",
        "half orbit": "the last image of every particle is lost",
        "one-sided action": "parameters are moved by the inputs' action alone",
        "unclosed data": "one image of one sample is lost",
    }

    atoms: Count = 7
    samples: Count = 5

    @classmethod
    def full(cls):
        return cls(atoms=40, samples=20)

    def design(self):
        yield self.errors, over(group=cases())
        yield self.strong_optimum, once()

    def errors(self, key, group):
        """The size of the failure of every identity for one group."""
        tested = cases()[group]
        found = check_identities(
            key, tested.unit, tested.on_x, tested.on_y, atoms=self.atoms, samples=self.samples, fault=self.fault
        )
        return {"errors": named(list(found.values()), "identity", identity=list(found))}

    def strong_optimum(self, key):
        """Proposition 4 on the line: signs act on tanh(xz + 1), and the only SI law is the atom at zero."""
        group = Signs(1)
        unit = Custom(lambda theta, x: jnp.tanh(theta * x + 1), 1, 1, 1, lambda on_x, on_y: on_x)
        action = unit.action(natural_rep(group), trivial_rep(group))
        xs = np.array([[-1.0], [1.0]])
        risk = eqx.filter_jit(Risk(unit, Sample(xs, np.full((2, 1), np.tanh(2) / 2)), "square"))
        return {
            "strong": risk(uniform(np.array([[0.7]])).project(action)),
            "weak": risk(uniform(np.array([[1.0]])).orbit(action)),
        }

    def claims(self, data):
        for identity, errors in data.errors.each("identity"):
            yield below(f"{identity}, to {{bound}}", errors.max(), BOUND)
        gap = data.strong - (np.tanh(1) - np.tanh(2) / 2) ** 2
        yield between("Prop 4: the best SI risk is (tanh 1 − tanh 2 / 2)², to {high}", gap, -BOUND, BOUND)
        yield below("Prop 4: a WI law has risk 0, to {bound}", data.weak, BOUND)

    def numbers(self, data):
        return {"Prop 4, best SI risk": data.strong}

    @panel(
        "Every identity, every group",
        "Each mark is the largest failure of one identity for one group, on a random weighted cloud and random data, "
        "in float64. Left of the bound: the identity holds to rounding.",
        size=(9.6, 5.2),
    )
    def failures(self, axis, data):
        failures(axis, data.errors.labels("identity"), dict(data.errors.each("group")), BOUND)
