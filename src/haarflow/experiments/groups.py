"""The identities and the statements about training, for finite groups and for all rotations of plane and space."""

from typing import Annotated, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from haarflow.algebra.base import Group
from haarflow.algebra.groups import Dihedral, Icosahedral, PlanarRotations, Signs, SpecialOrthogonal, Symmetric
from haarflow.algebra.reps import natural_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Sample
from haarflow.learning.risks import Penalty, Risk
from haarflow.measures.clouds import Cloud, uniform
from haarflow.measures.distances import generator, w2
from haarflow.measures.invariance import circle_correction
from haarflow.models.neurons import Gate
from haarflow.models.units import Dense, Perceptron, Quadratic, Unit, network
from haarflow.practice import training
from haarflow.practice.testing import Case, case, check_identities
from haarflow.runs.experiment import Experiment, above, below, named, over, panel, power_law, tell
from haarflow.runs.sizes import Count
from haarflow.runs.style import colour, failures, log_axes, marker, reference

BOUND = 1e-12
SPACES = {"SO(2)": 2, "SO(3)": 3}
UNITS = {"quadratic": Quadratic, "gate": Gate}  # of polynomials in g, and not
FORMULAS = {"quadratic": r"$\langle w, x\rangle^2$", "gate": r"$Z x\,\tanh(x^{\top} A x + b)$"}
FITTED = 16  # below, n rotations of the data are so few that every n trains another law
LAW = f"SO(2): the certificate falls like 1/n from n = {FITTED} on"
FEW = (2, 4, 8, 16, 32, 64, 128)  # rotations whose average is compared with that of many more
MANY = 512


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
    SO(2) and SO(3) with certified errors; so do the statements that free training keeps weak invariance, that strongly
    invariant starts stay so, and that DA, FA and EA coincide from them.

    Source: Symmetries in overparametrized neural networks: a mean-field view (arXiv 2405.19995), Propositions 1 and 2,
    Corollary 1, Theorems 3 to 6; infinite compact groups are among the directions its authors leave open.

    An infinite group is averaged over a finite subgroup: `turns` equispaced rotations for SO(2), the 60 rotations of
    the icosahedron for SO(3). The subgroup average is the Haar average for every polynomial in g of degree below
    `turns`, or up to 5. So it gives the projector of the fixed space (degree 2 here; the other route is the null space
    of the Lie algebra), hence DA = FA = EA on fixed starts for any unit, and every identity for the quadratic unit
    <w, x>², whose risks have degree 4. The certificate is that averages over random cosets of the subgroup agree; a
    Haar-draw average must agree too, within 4 standard errors (false-alarm rate below 1e-3 over the 8 numbers of quick
    mode). For other units the cosets show the error that is left. For SO(2) the distance of a cloud to its
    symmetrisation is certified by `circle_correction`.

    The unit for rotations is Z x tanh(xᵀ A x + b), which every orthogonal group moves and whose fixed space is not
    trivial. E^G is kept but can be unstable: rounding off it then grows along the run, so trainings end at time 15. The
    quarter turns show how far: a planted error off E^G grows 80 times at seed 0, and 33 000 times at seed 1, where the
    two claims on Theorem 6 are missed, at 2.7e-12 and 1.2e-12.
    """

    seconds: ClassVar[float] = 6.0
    faults = {
        "unclosed data": "one image of one sample is lost",
        "too few turns": "SO(2) is averaged over two rotations, SO(3) over quarter turns about one axis",
    }

    atoms: Count = 5
    samples: Count = 4
    steps: Count = 300
    turns: Annotated[int, Field(ge=5)] = 16  # rotations that stand for SO(2)
    circle: Annotated[tuple[Count, ...], Field(min_length=3)] = (8, 16, 32, 64)  # numbers of rotations n
    draws: Annotated[int, Field(ge=16)] = 4000  # Haar draws

    @classmethod
    def full(cls):
        return cls(atoms=20, samples=12, steps=3000, circle=(8, 16, 32, 64, 128), draws=100_000)

    def design(self):
        yield self.statements, over(group=(*SPACES, *finite_cases()))
        yield self.certificates, over(space=SPACES, unit=UNITS)
        yield self.decay, over(unit=UNITS)
        yield self.circles, over(n=self.circle)
        yield self.spheres, over(unit=UNITS)

    def statements(self, key, group):
        """The identities and the trainings of one group."""
        infinite = group in SPACES
        trained = self._rotations(group, "gate") if infinite else finite_cases()[group]
        tested = self._rotations(group, "quadratic") if infinite else trained
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

    def _rotations(self, space, unit) -> Case:
        """SO(2) by its equispaced rotations, SO(3) by those of the icosahedron: subgroups that average exactly."""
        d = SPACES[space]
        group, model = SpecialOrthogonal(d), UNITS[unit](d)
        elements = PlanarRotations(self.turns).elements() if d == 2 else Icosahedral().elements()
        if self.fault == "too few turns":
            elements = elements[[0, self.turns // 2]] if d == 2 else _quarter_turns()
        return case(group, model, on_y=natural_rep(group) if model.outputs == d else None, elements=elements)

    def certificates(self, key, space, unit):
        """How far averages over random cosets are from the subgroup average, and a Haar-draw average with its error."""
        tested = self._rotations(space, unit)
        rotations = np.asarray(_haar(tested.on_x.group, key, self.draws + 8), float)
        shifts, rotations = rotations[self.draws :], rotations[: self.draws]
        cloud, xs = self._drawn(key, tested.unit)

        def averages(elements):
            return np.asarray(_averages(tested.unit, cloud, xs, elements, _at(tested.on_y, elements)))

        exact, draws = averages(tested.elements).mean(0), averages(rotations)
        cosets = [averages(shift @ tested.elements).mean(0) for shift in shifts]
        error = draws.std(0, ddof=1) / np.sqrt(self.draws)
        return {
            "cosets": np.abs(np.stack(cosets) - exact).max() / np.abs(exact).max(),
            "scores": np.abs((draws.mean(0) - exact) / error).max(),
            "error": error.max() / np.abs(exact).max(),
        }

    def _drawn(self, key, unit: Unit):
        """A random cloud and random inputs."""
        draw = generator(key)
        cloud = uniform(draw.normal(size=(self.atoms, unit.dim)))
        return cloud, jnp.asarray(draw.normal(size=(self.samples, unit.inputs)))

    def decay(self, key, unit):
        """The error of few equispaced rotations of the plane against many more."""
        model, many = UNITS[unit](2), PlanarRotations(MANY).elements()
        out = many if model.outputs == 2 else np.ones((MANY, 1, 1))
        values = np.asarray(_averages(model, *self._drawn(key, model), many, out))
        exact = values.mean(0)
        errors = [np.abs(values[:: MANY // n].mean(0) - exact).max() / np.abs(exact).max() for n in FEW]
        return {"decay": named(errors, "turns", turns=FEW)}

    def circles(self, key, n):
        """A trained cloud closed under n rotations: the certified distance to SO(2)-invariance, and a finer orbit."""
        unit, on, draw = Gate(2), natural_rep(SpecialOrthogonal(2)), generator(key)
        action, elements = unit.action(on, on), PlanarRotations(n).elements()
        start = uniform(0.7 * draw.normal(size=(3, unit.dim))).orbit(action, elements=elements)
        data = Sample(*(training.moved(elements, rows) for rows in draw.normal(size=(2, self.samples, 2))))
        field = Descend(Risk(unit, data) + Penalty(1e-3))
        cloud = flow(field, Euler(), start, key=key, dt=0.1, steps=self.steps).cloud
        finer = uniform(cloud.atoms[:3]).orbit(action, elements=PlanarRotations(8 * n).elements())
        return {
            "pairing": training.pairing(training.unit_task(unit, on, on, elements), cloud),
            "certificate": circle_correction(cloud, action, n),
            "slack": circle_correction(finer, action, 8 * n),
            "finer": w2(cloud, finer),
        }

    def spheres(self, key, unit):
        """SO(3), free training from icosahedral starts on icosahedral data: invariance at Haar draws."""
        tested, draw = self._rotations("SO(3)", unit), generator(key)
        task = training.unit_task(tested.unit, tested.on_x, tested.on_y, tested.elements)
        rotations = np.asarray(_haar(tested.on_x.group, key, 64), float)
        xs, ys = (draw.normal(size=(self.samples, size)) for size in (3, tested.unit.outputs))
        start = uniform(training.moved(task.matrices(task.action), 0.5 * draw.normal(size=(1, tested.unit.dim))))
        field = Descend(task.risk(training.closed_sample(task, xs, ys)) + Penalty(1e-3))
        clouds = start, flow(field, Euler(), start, key=key, dt=0.02, steps=self.steps).cloud
        fresh, out = jnp.asarray(draw.normal(size=(self.samples, 3))), _at(tested.on_y, rotations)
        gaps = [_spread(np.asarray(_averages(tested.unit, cloud, fresh, rotations, out))) for cloud in clouds]
        return {"asymmetry": named(gaps, "when", when=("start", "trained"))}

    def fits(self, data):
        return {LAW: power_law(data.certificate, along="n", since=FITTED)}

    def claims(self, data):
        worst = data.identities.max("identity")
        yield below("identities, finite groups: every failure", worst.sel(group=tuple(finite_cases())).max(), BOUND)
        words = "identities, SO(2) and SO(3), quadratic unit: every failure"
        yield below(words, worst.sel(group=tuple(SPACES)).max(), BOUND)
        for space, cosets in data.cosets.sel(unit="quadratic").each("space"):
            yield below(f"{space}, quadratic unit: random cosets average alike, to {{bound}}", cosets, BOUND)
        words = "SO(2) and SO(3): quadratic unit, Haar draws agree within {bound} standard errors"
        yield below(words, data.scores.sel(unit="quadratic").max(), 4.0)
        for what, words in {
            "free training keeps WI": "Thm 3: free training keeps orbits paired, every group:",
            "closed data keep SI": "Thm 5: closed data keep fixed starts on E^G, every group: distance",
            "DA, FA and EA agree": "Thm 6: DA, FA and EA coincide from fixed starts, every group:",
            "DA, FA and EA stay SI": "Thm 6: they stay on E^G, every group: distance",
        }.items():
            yield below(words, data.failures.sel(statement=what).max(), BOUND)
        words = "the test can fail: plain training on minibatches leaves E^G by more than {bound}, every group"
        yield above(words, data.leaves.min(), 1e-3)
        share = data.finer / (data.certificate + data.slack)
        yield below("SO(2): the distance to the orbit of 8n rotations over its certificate, every n:", share.max(), 1.0)
        yield data.fits[LAW].between(-1.1, -0.9)
        words = "SO(3): free training keeps the quadratic network invariant at 64 Haar draws, to {bound}"
        yield below(words, data.asymmetry.sel(unit="quadratic").max(), BOUND)

    def numbers(self, data):
        return {
            "{group}: worst identity": data.identities.max("identity"),
            "{group}: {statement}": data.failures,
            "{group}: plain training leaves E^G by": data.leaves,
            "{space}, {unit} unit: relative error of cosets": data.cosets,
            "{space}, {unit} unit: relative standard error of Haar draws": data.error,
            "{space}, {unit} unit: Haar draws off by, in standard errors": data.scores,
            "SO(2), n = {n}: certificate": data.certificate,
            "SO(2), n = {n}: distance to the finer orbit": data.finer,
            "SO(3): relative asymmetry of the gate network, {when}": data.asymmetry.sel(unit="gate"),
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

    @panel(
        "What finitely many rotations leave out",
        "SO(2) through n equispaced rotations. Left: a trained cloud closed under n rotations is this far from "
        "SO(2)-invariant; the certificate needs no transport and falls like 1/n. Right: the average of a network over "
        "n rotations is exact once n exceeds its degree (quadratic unit), and nears it ever faster for a smooth unit.",
        columns=2,
        size=(9.6, 3.8),
    )
    def left_out(self, axes, data):
        left, right = axes
        fit, rings = data.fits[LAW], {"linestyle": "none", "marker": "o", "markersize": 9, "markerfacecolor": "none"}
        left.plot(self.circle, data.certificate, color=colour(0), marker="o", label=f"certificate, slope {fit.words}")
        left.plot(self.circle, data.finer, color=colour(1), label="distance to the orbit of 8n turns", **rings)
        reference(left, self.circle, -1, data.certificate)
        for place, (unit, errors) in enumerate(data.decay.each("unit"), 2):
            shown = np.maximum(errors, 1e-17)
            right.plot(FEW, shown, color=colour(place), marker=marker(place), label=FORMULAS[unit])
        log_axes(left, self.circle, "equispaced rotations n", "distance to SO(2)-invariance")
        log_axes(right, FEW, "equispaced rotations n", "relative error of $Q f$")
        for axis in axes:
            axis.legend()


@eqx.filter_jit
def _haar(group: Group, key, n: int):
    return group.haar(key, n)


@eqx.filter_jit
def _averages(unit: Unit, cloud: Cloud, xs, into, out):
    """`out_g^-1 f(g x)` for every element g: (elements, inputs, outputs)."""
    turn = jax.vmap(lambda g, h: network(unit, cloud, xs @ g.T) @ h)
    return turn(jnp.asarray(into, xs.dtype), jnp.asarray(out, xs.dtype))


def _at(rep, elements) -> np.ndarray:
    return np.stack([np.asarray(rep(g)) for g in elements])


def _spread(values: np.ndarray) -> float:
    """The largest difference between elements, relative to the values."""
    return float(np.ptp(values, axis=0).max() / np.abs(values).max())


def _quarter_turns() -> np.ndarray:
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return np.stack([np.linalg.matrix_power(turn, k) for k in range(4)])
