"""The identities and the statements about training, for finite groups and for all rotations of plane and space."""

from typing import Annotated, ClassVar, Literal

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
from haarflow.runs.experiment import Count, Experiment, Panel, above, below, between
from haarflow.runs.progress import tell
from haarflow.runs.statistics import slope

BOUND = 1e-12
SPACES = {"SO(2)": 2, "SO(3)": 3}
FITTED = 16  # below, n rotations of the data are so few that every n trains another law


def finite_cases() -> dict[str, Case]:
    """The finite groups under test."""
    turn, square, three, five, signs = PlanarRotations(4), Dihedral(4), Symmetric(3), Symmetric(5), Signs(3)
    return {
        "C4": case(turn, Gate(2), on_y=natural_rep(turn)),
        "D4": case(square, Gate(2), on_y=natural_rep(square)),
        "S3": case(three, Dense(3, 3, "sigmoid"), on_y=natural_rep(three)),
        "S5": case(five, Dense(5, 5, "tanh"), on_y=natural_rep(five)),
        "signs": case(signs, Dense(3, 3, "tanh"), on_y=natural_rep(signs)),
        "image turns": case(turn, Perceptron(16, 1, "tanh"), on_x=image_rep(turn, 4, 4)),
    }


def infinite_case(name: str, unit: Unit, turns: int) -> Case:
    """SO(2) by its equispaced rotations, SO(3) by the rotations of the icosahedron: subgroups that average exactly."""
    group: Group = SpecialOrthogonal(SPACES[name])
    elements = PlanarRotations(turns).elements() if SPACES[name] == 2 else Icosahedral().elements()
    on_y = natural_rep(group) if unit.outputs == group.dim else None
    return case(group, unit, on_y=on_y, elements=elements)


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
    trivial. Rounding grows along unstable directions, so trainings end at time 15. The field `fault` plants a mistake,
    to see the verdicts fail: `unclosed data` loses one image of one sample, `too few turns` averages SO(2) over two
    rotations and SO(3) over quarter turns about one axis.
    """

    seconds: ClassVar[float] = 6.0

    atoms: Count = 5
    samples: Count = 4
    steps: Count = 300
    turns: Annotated[int, Field(ge=5)] = 16
    circle: Annotated[tuple[Count, ...], Field(min_length=3)] = (8, 16, 32, 64)
    draws: Annotated[int, Field(ge=16)] = 4000
    fault: Literal["none", "unclosed data", "too few turns"] = "none"

    @classmethod
    def full(cls):
        return cls(atoms=20, samples=12, steps=3000, circle=(8, 16, 32, 64, 128), draws=100_000)

    def parts(self):
        certificates = [f"certificate {name}" for name in SPACES]
        return ["S5", *SPACES, *(name for name in finite_cases() if name != "S5"), *certificates, "circle", "sphere"]

    def run(self, key, part):
        if part == "circle":
            return self.circle_distances(key)
        if part == "sphere":
            return self.sphere(key)
        if part.startswith("certificate"):
            return self.certificate(key, part.split()[1])
        return self.statements(key, part)

    def statements(self, key, name: str) -> dict[str, np.ndarray]:
        """The identities and the trainings of one group."""
        trained = self._infinite(name, Gate(SPACES[name])) if name in SPACES else finite_cases()[name]
        tested = self._infinite(name, Quadratic(SPACES[name])) if name in SPACES else trained
        missing = "unclosed data" if self.fault == "unclosed data" else "none"
        options = {"elements": tested.elements, "atoms": self.atoms, "samples": self.samples, "fault": missing}
        found = check_identities(key, tested.unit, tested.on_x, tested.on_y, **options)
        task = training.unit_task(trained.unit, trained.on_x, trained.on_y, trained.elements)
        size = training.Size(steps=self.steps)
        paths = training.train(
            key, task, size, closed=self.fault != "unclosed data", progress=lambda share: tell(0.9 * share)
        )
        worst = max(found, key=lambda identity: found[identity])
        return {
            "identities": np.array(list(found.values())),
            "worst": np.asarray(worst),
            **training.statements(task, paths),
        }

    def _infinite(self, name: str, unit: Unit) -> Case:
        found = infinite_case(name, unit, self.turns)
        if self.fault != "too few turns":
            return found
        assert found.elements is not None
        few = found.elements[[0, self.turns // 2]] if name == "SO(2)" else np.stack(_quarter_turns())
        return found._replace(elements=few)

    def certificate(self, key, name: str) -> dict[str, np.ndarray]:
        """How far averages over random cosets are from the subgroup average, and a Haar-draw average with its error."""
        d = SPACES[name]
        rotations = np.asarray(_haar(SpecialOrthogonal(d), key, self.draws + 8), float)
        shifts, found = rotations[self.draws :], {}
        for kind, unit in (("polynomial", Quadratic(d)), ("gate", Gate(d))):
            tested = self._infinite(name, unit)
            assert tested.elements is not None
            draw = generator(key)
            cloud = uniform(draw.normal(size=(self.atoms, unit.dim)))
            xs, rep = jnp.asarray(draw.normal(size=(self.samples, d))), tested.on_y

            def averages(elements, unit=unit, rep=rep, cloud=cloud, xs=xs):
                return np.asarray(
                    _averages(unit, cloud, xs, elements, np.stack([np.asarray(rep(g)) for g in elements]))
                )

            exact = averages(tested.elements).mean(0)
            cosets = [averages(shift @ tested.elements).mean(0) for shift in shifts]
            found[f"{kind} cosets"] = np.asarray(np.abs(np.stack(cosets) - exact).max() / np.abs(exact).max())
            draws = averages(rotations[: self.draws])
            error = draws.std(0, ddof=1) / np.sqrt(self.draws)
            found[f"{kind} scores"] = ((draws.mean(0) - exact) / error).ravel()
            found[f"{kind} error"] = np.asarray(error.max() / np.abs(exact).max())
        if d == 2:
            found["decay"] = self._decay(key)
        return found

    def _decay(self, key) -> np.ndarray:
        """The error of n equispaced rotations against many more, for n = 2, 3, ... (polynomial, gate)."""
        rows = []
        for unit in (Quadratic(2), Gate(2)):
            draw = generator(key)
            cloud = uniform(draw.normal(size=(self.atoms, unit.dim)))
            xs = jnp.asarray(draw.normal(size=(self.samples, 2)))
            many = PlanarRotations(512).elements()
            out = many if unit.outputs == 2 else np.ones((512, 1, 1))
            values = np.asarray(_averages(unit, cloud, xs, many, out))
            exact = values.mean(0)
            rows.append([np.abs(values[:: 512 // n].mean(0) - exact).max() / np.abs(exact).max() for n in DECAY])
        return np.array(rows)

    def circle_distances(self, key) -> dict[str, np.ndarray]:
        """Trained clouds closed under n rotations: the certified distance to SO(2)-invariance, and a finer orbit."""
        group, unit = SpecialOrthogonal(2), Gate(2)
        on = natural_rep(group)
        action = unit.action(on, on)
        draw = generator(key)
        atoms = 0.7 * draw.normal(size=(3, unit.dim))
        xs, ys = draw.normal(size=(2, self.samples, 2))
        found = {"certificate": [], "finer": [], "slack": [], "pairing": []}
        for n in self.circle:
            elements = PlanarRotations(n).elements()
            data = Sample(training.moved(elements, xs), training.moved(elements, ys))
            field = Descend(Risk(unit, data) + Penalty(1e-3))
            start = uniform(atoms).orbit(action, elements=elements)
            cloud = flow(field, Euler(), start, key=key, dt=0.1, steps=self.steps).cloud
            task = training.unit_task(unit, on, on, elements)
            finer = uniform(cloud.atoms[:3]).orbit(action, elements=PlanarRotations(8 * n).elements())
            found["pairing"].append(training.pairing(task, cloud))
            found["certificate"].append(circle_correction(cloud, action, n))
            found["slack"].append(circle_correction(finer, action, 8 * n))
            found["finer"].append(w2(cloud, finer))
            tell(len(found["finer"]) / len(self.circle))
        return {name: np.array(values) for name, values in found.items()}

    def sphere(self, key) -> dict[str, np.ndarray]:
        """SO(3), free training of both units from icosahedral starts on icosahedral data: invariance at Haar draws."""
        found = {}
        rotations = np.asarray(_haar(SpecialOrthogonal(3), key, 64), float)
        for kind, unit in (("polynomial", Quadratic(3)), ("gate", Gate(3))):
            tested = self._infinite("SO(3)", unit)
            task = training.unit_task(unit, tested.on_x, tested.on_y, tested.elements)
            draw = generator(key)
            xs, ys = draw.normal(size=(self.samples, 3)), draw.normal(size=(self.samples, unit.outputs))
            data = training.closed_sample(task, xs, ys, slice(None))
            start = uniform(training.moved(task.matrices(task.action), 0.5 * draw.normal(size=(1, unit.dim))))
            field = Descend(task.risk(data) + Penalty(1e-3))
            clouds = [start, flow(field, Euler(), start, key=key, dt=0.02, steps=self.steps).cloud]
            fresh = jnp.asarray(draw.normal(size=(self.samples, 3)))
            out = np.stack([np.asarray(tested.on_y(g)) for g in rotations])
            gaps = [_spread(np.asarray(_averages(unit, cloud, fresh, rotations, out))) for cloud in clouds]
            found[kind] = np.array(gaps)
            tell(0.5)
        return found

    def gather(self, pieces):
        names = [*finite_cases(), *SPACES]
        data = {what: np.stack([pieces[name][what] for name in names]) for what in pieces[names[0]]}
        extra = {f"{part}/{what}": value for part in EXTRA for what, value in pieces[part].items()}
        return data | extra | {"groups": np.array(names)}

    def verdict(self, data):
        finite = len(finite_cases())
        cosets = {name: data[f"certificate {name}/polynomial cosets"] for name in SPACES}
        scores = [data[f"certificate {name}/{kind} scores"] for name in SPACES for kind in ("polynomial", "gate")]
        kept = np.array(self.circle) >= FITTED
        return {
            "identities, finite groups: every failure below 1e-12": below(data["identities"][:finite].max(), BOUND),
            "identities, SO(2) and SO(3), quadratic unit: every failure below 1e-12": below(
                data["identities"][finite:].max(), BOUND
            ),
            "SO(2), quadratic unit: random cosets average alike, to 1e-12": below(cosets["SO(2)"], BOUND),
            "SO(3), quadratic unit: random cosets average alike, to 1e-12": below(cosets["SO(3)"], BOUND),
            "SO(2) and SO(3): quadratic unit, Haar draws agree within 4 standard errors": below(
                max(np.abs(score).max() for score in scores[::2]), 4.0
            ),
            "Thm 3: free training keeps orbits paired, every group: below 1e-12": below(
                data["free training keeps WI"].max(), BOUND
            ),
            "Thm 5: closed data keep fixed starts on E^G, every group: distance below 1e-12": below(
                data["closed data keep SI"].max(), BOUND
            ),
            "Thm 6: DA, FA and EA coincide from fixed starts, every group: below 1e-12": below(
                data["DA, FA and EA agree"].max(), BOUND
            ),
            "Thm 6: they stay on E^G, every group: distance below 1e-12": below(
                data["DA, FA and EA stay SI"].max(), BOUND
            ),
            "the test can fail: plain training on minibatches leaves E^G by more than 1e-3, every group": above(
                data["plain leaves"].min(), 1e-3
            ),
            "SO(2): the distance to the orbit of 8n rotations is within the certificate, every n": below(
                (data["circle/finer"] / (data["circle/certificate"] + data["circle/slack"])).max(), 1.0
            ),
            f"SO(2): the certificate falls like 1/n from n = {FITTED} on: slope between −1.1 and −0.9": between(
                slope(np.array(self.circle)[kept], data["circle/certificate"][kept]).value, -1.1, -0.9
            ),
            "SO(3): free training keeps the quadratic network invariant at 64 Haar draws, to 1e-12": below(
                data["sphere/polynomial"].max(), BOUND
            ),
        }

    def figures(self, data):
        numbers = {}
        for i, name in enumerate(data["groups"].tolist()):
            numbers[f"{name}: worst identity"] = data["identities"][i].max()
            for what in training.STATEMENTS:
                numbers[f"{name}: {what}"] = data[what][i]
            numbers[f"{name}: plain training leaves E^G by"] = data["plain leaves"][i]
        for name in SPACES:
            for kind in ("polynomial", "gate"):
                words = f"{name}, {kind} unit"
                numbers[f"{words}: relative error of cosets"] = data[f"certificate {name}/{kind} cosets"]
                numbers[f"{words}: relative standard error of Haar draws"] = data[f"certificate {name}/{kind} error"]
                score = np.abs(data[f"certificate {name}/{kind} scores"]).max()
                numbers[f"{words}: Haar draws off by, in standard errors"] = score
        for i, n in enumerate(self.circle):
            numbers[f"SO(2), n = {n}: certificate"] = data["circle/certificate"][i]
            numbers[f"SO(2), n = {n}: distance to the finer orbit"] = data["circle/finer"][i]
        numbers["SO(3): relative asymmetry of the gate network, start"] = data["sphere/gate"][0]
        numbers["SO(3): relative asymmetry of the gate network, trained"] = data["sphere/gate"][1]
        return numbers

    def panels(self, data):
        return [self._statements_panel(data), self._circle_panel(data)]

    def _statements_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import failures

            series = {
                "identities": data["identities"].max(axis=1),
                **{what: data[what] for what in training.STATEMENTS},
                "plain training leaves SI": data["plain leaves"],
            }
            failures(figure.add_subplot(), data["groups"].tolist(), series, BOUND)

        caption = (
            f"Each mark is the largest failure over {self.steps} steps and all particles. Everything that theory calls "
            "equal is equal to rounding, also for the two infinite groups; plain training on minibatches leaves the "
            "fixed space, so the tests can see a difference."
        )
        return Panel("Every statement, every group", caption, draw, size=(9.6, 4.6))

    def _circle_panel(self, data):
        def draw(figure):
            from haarflow.runs.style import colour, legend, marker, reference

            left, right = figure.subplots(1, 2)
            for order, (label, values) in enumerate(
                {"certificate": data["circle/certificate"], "to the orbit of 8n turns": data["circle/finer"]}.items()
            ):
                left.plot(self.circle, values, color=colour("", order), marker=marker("", order), label=label)
            reference(left, self.circle, -1.0, 1.6 * float(data["circle/certificate"][0]))
            left.set(xscale="log", yscale="log", xlabel="equispaced rotations n", ylabel="distance to SO(2)-invariance")
            left.set_xticks(self.circle, [str(n) for n in self.circle])
            left.minorticks_off()
            left.legend(loc="lower left")
            for order, (label, values) in enumerate(
                zip(("<w, x>²", "Z x tanh(xᵀ A x + b)"), data["certificate SO(2)/decay"], strict=True)
            ):
                shown = np.maximum(values, 1e-17)
                right.plot(DECAY, shown, color=colour("", order + 2), marker=marker("", order + 2), label=label)
            right.set(xscale="log", yscale="log", xlabel="equispaced rotations n", ylabel="relative error of Q f")
            right.set_xticks(DECAY, [str(n) for n in DECAY])
            right.minorticks_off()
            legend(right)

        caption = (
            "SO(2) through n equispaced rotations. Left: a trained cloud closed under n rotations is this far from "
            "SO(2)-invariant; the certificate needs no transport and falls like 1/n. Right: the average of a network "
            "over n rotations is exact once n exceeds its degree (quadratic unit); for a smooth unit the error falls "
            "ever faster."
        )
        return Panel("What finitely many rotations leave out", caption, draw, size=(9.6, 3.8))


DECAY = (2, 4, 8, 16, 32, 64, 128)
EXTRA = (*(f"certificate {name}" for name in SPACES), "circle", "sphere")


@eqx.filter_jit
def _haar(group: Group, key, n: int):
    return group.haar(key, n)


@eqx.filter_jit
def _averages(unit: Unit, cloud: Cloud, xs, into, out):
    """`out_g^-1 f(g x)` for every element g: (elements, inputs, outputs)."""
    turn = jax.vmap(lambda g, h: network(unit, cloud, xs @ g.T) @ h)
    return turn(jnp.asarray(into, xs.dtype), jnp.asarray(out, xs.dtype))


def _spread(values: np.ndarray) -> float:
    """The largest difference between elements, relative to the values."""
    return float(np.ptp(values, axis=0).max() / np.abs(values).max())


def _quarter_turns() -> list[np.ndarray]:
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return [np.linalg.matrix_power(turn, k) for k in range(4)]
