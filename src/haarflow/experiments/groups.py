"""The identities and the statements about training, for finite groups and for all rotations of plane and space."""

from typing import Annotated, ClassVar

from pydantic import Field

from haarflow.algebra.groups import Dihedral, PlanarRotations, Signs, Symmetric
from haarflow.algebra.reps import natural_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.models.neurons import Gate
from haarflow.models.units import Dense, Perceptron, Quadratic
from haarflow.practice import training
from haarflow.practice.testing import Case, all_rotations, case, check_identities
from haarflow.runs.experiment import Experiment, above, below, named, over, panel, tell
from haarflow.runs.sizes import Count
from haarflow.runs.style import failures

BOUND = 1e-12
SPACES = {"SO(2)": 2, "SO(3)": 3}


def finite_cases() -> dict[str, Case]:
    """The finite groups under test, the largest first."""
    turn, square, three, five, signs = PlanarRotations(4), Dihedral(4), Symmetric(3), Symmetric(5), Signs(3)
    return {
        "S5": case(five, Dense(5, 5, "tanh"), on_y=natural_rep(five)),
        "D4": case(square, Gate(2), on_y=natural_rep(square)),
        "signs": case(signs, Dense(3, 3, "tanh"), on_y=natural_rep(signs)),
        "S3": case(three, Dense(3, 3, "sigmoid"), on_y=natural_rep(three)),
        "C4": case(turn, Gate(2), on_y=natural_rep(turn)),
        "image turns": case(turn, Perceptron(16, 1, "tanh"), on_x=image_rep(turn, 4, 4)),
    }


class Groups(Experiment):
    """The identities hold for quarter turns, the square, permutations, signs and images, and for the infinite groups
    SO(2) and SO(3); so do the statements that free training keeps weak invariance, that strongly invariant starts stay
    so, and that DA, FA and EA coincide from them.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Propositions 1 and 2,
    Corollary 1, Theorems 3 to 6; infinite compact groups are among the directions its authors leave open.

    An infinite group is averaged over a finite subgroup: `turns` equispaced rotations for SO(2), the 60 rotations of
    the icosahedron for SO(3). The subgroup average is the Haar average for every polynomial in g of degree below
    `turns`, or up to 5. So it gives the projector of the fixed space (degree 2 here; the other route is the null space
    of the Lie algebra), hence DA = FA = EA on fixed starts for any unit, and every identity for the quadratic unit
    <w, x>², whose risks have degree 4. The certificates of these averages are the experiment `rotations`.

    The unit for rotations is Z x tanh(xᵀ A x + b), which every orthogonal group moves and whose fixed space is not
    trivial. E^G is kept but can be unstable: rounding off it then grows along the run, so trainings end at time 15. The
    quarter turns show how far: a planted error off E^G grows 80 times at seed 0, and 33 000 times at seed 1, where the
    two claims on Theorem 6 are missed, at 2.7e-12 and 1.2e-12.
    """

    seconds: ClassVar[float] = 4.0
    faults = {
        "unclosed data": "one image of one sample is lost",
        "too few turns": "SO(2) is averaged over two rotations, SO(3) over quarter turns about one axis",
    }

    atoms: Count = 5
    samples: Count = 4
    steps: Count = 300
    turns: Annotated[int, Field(ge=5)] = 16  # rotations that stand for SO(2)

    @classmethod
    def full(cls):
        return cls(atoms=20, samples=12, steps=3000)

    def design(self):
        yield self.statements, over(group=(*SPACES, *finite_cases()))

    def statements(self, key, group):
        """The identities and the trainings of one group."""
        options = {"turns": self.turns, "few": self.fault == "too few turns"}
        if group in SPACES:
            tested, trained = (all_rotations(unit(SPACES[group]), **options) for unit in (Quadratic, Gate))
        else:
            tested = trained = finite_cases()[group]
        missing = "unclosed data" if self.fault == "unclosed data" else "none"
        options = {"elements": tested.elements, "atoms": self.atoms, "samples": self.samples, "fault": missing}
        found = check_identities(key, tested.unit, tested.on_x, tested.on_y, **options)
        task = training.unit_task(trained.unit, trained.on_x, trained.on_y, trained.elements)
        options = {"closed": missing == "none", "progress": lambda share: tell(0.9 * share)}
        kept = training.statements(task, training.train(key, task, training.Size(steps=self.steps), **options))
        what = training.STATEMENTS
        return {
            "identities": named(list(found.values()), "identity", identity=list(found)),
            "failures": named([kept[name] for name in what], "statement", statement=what),
            "leaves": kept["plain leaves"],
        }

    def claims(self, data):
        worst = data.identities.max("identity")
        yield below("identities, finite groups: every failure", worst.sel(group=tuple(finite_cases())).max(), BOUND)
        words = "identities, SO(2) and SO(3), quadratic unit: every failure"
        yield below(words, worst.sel(group=tuple(SPACES)).max(), BOUND)
        for what, words in {
            "free training keeps WI": "Thm 3: free training keeps orbits paired, every group:",
            "closed data keep SI": "Thm 5: closed data keep fixed starts on E^G, every group: distance",
            "DA, FA and EA agree": "Thm 6: DA, FA and EA coincide from fixed starts, every group:",
            "DA, FA and EA stay SI": "Thm 6: they stay on E^G, every group: distance",
        }.items():
            yield below(words, data.failures.sel(statement=what).max(), BOUND)
        words = "the test can fail: plain training on minibatches leaves E^G by more than {bound}, every group"
        yield above(words, data.leaves.min(), 1e-3)

    def numbers(self, data):
        return {
            "{group}: worst identity": data.identities.max("identity"),
            "{group}: {statement}": data.failures,
            "{group}: plain training leaves E^G by": data.leaves,
        }

    @panel(
        "Every statement, every group",
        "Each mark is the largest failure over {steps} steps and all particles. Everything that theory calls equal is "
        "equal to rounding, also for the two infinite groups; plain training on minibatches leaves the fixed space, so "
        "the tests can see a difference.",
        size=(9.6, 4.6),
    )
    def every_statement(self, axis, data):
        series = {"identities": data.identities.max("identity"), **dict(data.failures.each("statement"))}
        failures(axis, data.leaves.labels("group"), {**series, "plain training leaves SI": data.leaves}, BOUND)
