"""Every member of every kind keeps the laws of its kind; and every law is broken by a fault that is planted for it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import haarflow as hf
from haarflow.algebra.base import Finite
from haarflow.algebra.reps import TrivialRep
from haarflow.dynamics.fields import Descend, Tangent
from haarflow.dynamics.players import map_clouds
from haarflow.learning.functionals import Variation
from haarflow.members import members
from haarflow.models.adversaries import VectorDiscriminator, VectorGenerator
from haarflow.practice.laws import book, cases, check_laws, findings

KINDS = [kind for kind in book() if kind is not Finite]  # whose laws are asked of the groups that are finite
CASES = [(law, example) for kind in KINDS for law, example in cases(kind)]


def shown(value):
    first = value[0] if isinstance(value, tuple) and not hasattr(value, "measure") else value
    return value.name.replace(" ", "-") if hasattr(value, "measure") else type(first).__name__


def tiers():
    """The first example of every class by default, all in the slow tier."""
    asked = set()
    for law, example in CASES:
        case = law.name, type(example[0] if isinstance(example, tuple) else example)
        yield pytest.param(law, example, marks=[pytest.mark.slow] if case in asked else [pytest.mark.each])
        asked.add(case)


@pytest.mark.parametrize(("law", "example"), list(tiers()), ids=shown)
def test_every_member_keeps_the_laws_of_its_kind(law, example):
    found = law.judge(example)
    assert found.holds, str(found)


SWAP = hf.natural_rep(hf.Cyclic(2))


class Turn(hf.extend.Group):
    """SO(2) with a choice of faults."""

    fault: str = eqx.field(default="", static=True)

    dim = 2

    def draws(self, key, n):
        reach = np.pi if self.fault == "half the circle" else 2 * np.pi
        t = jax.random.uniform(key, (n,), maxval=reach)
        found = jnp.stack([jnp.cos(t), -jnp.sin(t), jnp.sin(t), jnp.cos(t)], axis=-1).reshape(n, 2, 2)
        return found * (1 + 1e-6) if self.fault == "longer" else found

    def generators(self):
        return 2 * np.eye(2)[None] if self.fault == "a generator that stretches" else np.zeros((0, 2, 2))

    def lie_algebra(self):
        return np.array([[[0.0, 1.0 if self.fault == "not skew" else -1.0], [1.0, 0.0]]])

    def classes(self, degree):
        t = 2 * np.pi * np.arange(degree + 1) / (degree + 1)
        turns = np.stack([np.cos(t), -np.sin(t), np.sin(t), np.cos(t)], axis=-1).reshape(-1, 2, 2)
        return turns, np.full(len(t), (2 if self.fault == "classes twice" else 1) / len(t))

    def holds(self, g, near):
        return self.fault == "takes everything" or super().holds(g, near)

    @classmethod
    def examples(cls):
        return [cls()]


class Klein(Finite):
    """The diagonal signs of the plane, with a choice of faults."""

    fault: str = eqx.field(default="", static=True)

    dim, order = 2, 4

    def generators(self):
        both = np.array([np.diag([-1.0, 1.0]), np.diag([1.0, -1.0])])
        return both[:1] if self.fault == "one generator" else both

    def listed(self):
        signs = np.array([np.diag([a, b]) for a in (1.0, -1.0) for b in (1.0, -1.0)])
        if self.fault == "a quarter turn":
            signs[3] = [[0.0, -1.0], [1.0, 0.0]]
        return signs[::-1] if self.fault == "identity last" else signs

    def draws(self, key, n):
        return self.moves().chosen(jax.random.randint(key, (n,), 0, 3 if self.fault == "never the last" else 4))

    def probes(self):
        return super().probes() @ (np.eye(2)[::-1] if self.fault == "other probes" else np.eye(2))

    @classmethod
    def examples(cls):
        return [cls()]


class Loose(Turn):
    """The same with a field that compiled programs would see."""

    angle: float = 1.0


class Bent(TrivialRep):
    """The trivial representation on R^k, with one method bent."""

    fault: str = eqx.field(default="", static=True)

    def __call__(self, g):
        return super().__call__(g) * (2.0 if self.fault == "twice" else 1.0)

    def apply(self, g, z):
        return super().apply(g, z) * (2.0 if self.fault == "apply" else 1.0)

    def character(self, g):
        return super().character(g) + (self.fault == "character")

    def derivative(self, a):
        return super().derivative(a) + (self.fault == "derivative") * np.eye(self.dim)

    def fixed_basis(self):
        return super().fixed_basis()[:, (self.fault == "basis") :]

    def fixed_projector(self):
        return super().fixed_projector() * (0.5 if self.fault == "projector" else 1.0)


class LooseRep(TrivialRep):
    """A representation with a field that compiled programs would see."""

    size: float = 1.0


class Kink(hf.Unit):
    """a tanh(<w, x>), with a choice of faults."""

    fault: str = ""

    dim, inputs, outputs = 3, 2, 1

    def __call__(self, theta, x):
        return theta[:1] * jnp.tanh(theta[1:] @ x)

    def batched(self, thetas, xs):
        return super().batched(thetas, xs) * (1 + 1e-9 * (self.fault == "batched"))

    def weighted_sum(self, weights, thetas, xs):
        return super().weighted_sum(abs(weights) if self.fault == "weights" else weights, thetas, xs)

    def pullback(self, weights, thetas, xs, cotangent):
        potential, gradient = super().pullback(weights, thetas, xs, cotangent)
        return potential, gradient * (2.0 if self.fault == "gradient" else 1.0)

    def joint(self, on_x, on_y):
        still = hf.trivial_rep(on_x.group, 2)
        return on_y + (still if self.fault == "action" else on_x)

    @classmethod
    def examples(cls):
        return [(cls(), SWAP, hf.trivial_rep(SWAP.group))]


class Model(hf.extend.Network):
    """The mean of that unit, with a choice of faults."""

    fault: str = ""

    dim, inputs, outputs = 3, 2, 1

    @property
    def linear(self):
        return self.fault != "says not"

    def __call__(self, cloud, xs):
        return hf.network(Kink(), cloud, xs)

    def pullback(self, cloud, xs, cotangent):
        potential, gradient = super().pullback(cloud, xs, cotangent)
        return potential * (2.0 if self.fault == "potential" else 1.0), gradient

    def action(self, on_x, on_y):
        return Kink("action" if self.fault == "action" else "").joint(on_x, on_y)

    @classmethod
    def examples(cls):
        return [(cls(), SWAP, hf.trivial_rep(SWAP.group))]


@jax.custom_jvp
def steep(error):
    """|e|⁴ with a slope of its own invention."""
    return jnp.sum(error**4)


steep.defjvp(lambda primals, tangents: (steep(*primals), 3 * jnp.sum(primals[0] ** 3 * tangents[0])))


class Odd(hf.losses.Loss):
    """A loss with a choice of faults."""

    fault: str = ""

    @property
    def convex(self):
        return self.fault == "not convex"

    @property
    def square(self):
        return 1.0 if self.fault == "not a square" else None

    @property
    def labels(self):
        return "signs" if self.fault == "takes what it says it refuses" else "reals"

    def fitting(self, labels, outputs):
        return labels.ys if self.fault == "takes what it says it refuses" else super().fitting(labels, outputs)

    def __call__(self, f, y):
        if self.fault == "a square":
            return 2 * jnp.sum((f - y) ** 2)
        if self.fault == "not convex":
            return jnp.sum(jnp.tanh((f - y) ** 2))
        return steep(f - y) if self.fault == "slope" else jnp.sum((f - y) ** 4)

    @classmethod
    def examples(cls):
        return [(cls(), np.array([[0.3, -1.2], [2.0, 0.1]]))]


class Spring(hf.extend.Functional):
    """½∫|θ|² dmu, with a variation of its own and a choice of faults."""

    fault: str = ""

    def __call__(self, cloud):
        found = cloud.second_moment() / 2
        return jax.lax.stop_gradient(found) + found / 3 if self.fault == "slope" else found

    def variation(self, cloud):
        if self.fault == "slope":
            return super().variation(cloud)
        potential = jnp.sum(cloud.atoms**2, axis=1) / 2
        return Variation(potential, cloud.atoms if self.fault == "sign" else -cloud.atoms)

    @classmethod
    def examples(cls):
        return [cls()]


class Numbers(hf.extend.Data):
    """A batch that counts how often it was asked."""

    size = 2

    def batch(self, key):
        COUNTED.append(0)
        return jnp.full((2, 1), float(len(COUNTED))), jnp.ones((2, 1))

    @classmethod
    def examples(cls):
        return [cls()]


COUNTED: list[int] = []


class Drift(hf.extend.Field):
    """A field with a choice of faults."""

    fault: str = ""

    def __call__(self, key, clouds):
        numpy = self.fault == "compiled" and not isinstance(clouds.atoms, jax.core.Tracer)
        growth = jnp.ones(clouds.n) if self.fault == "mass" else None
        return Tangent((2.0 if numpy else 1.0) * clouds.atoms, growth)

    @classmethod
    def examples(cls):
        return [cls()]


class Duel(hf.games.Payoff):
    """<mean x, mean y>, with a choice of faults."""

    fault: str = ""

    def __call__(self, clouds):
        found = clouds["x"].mean() @ clouds["y"].mean()
        return jax.lax.stop_gradient(found) + found / 2 if self.fault == "slope" else found

    def variation(self, clouds):
        found = super().variation(clouds)
        return found | {"x": found["y"]} if self.fault == "players" else found

    @classmethod
    def examples(cls):
        return [cls()]


class Cube(hf.extend.Domain):
    """The cube [−1, 1]^p, with a choice of faults."""

    fault: str = ""

    def project(self, atoms):
        return atoms.clip(-1, 1) * (0.5 if self.fault == "too far" else 1.0)

    def along(self, atoms, velocity):
        blocked = ((atoms >= 1) & (velocity > 0)) | ((atoms <= -1) & (velocity < 0))
        kept = jnp.where(blocked, 0.0, velocity)
        return kept * (0.5 if self.fault == "half" else 1.0)

    def keep(self, before, after):
        return self.project(after) + (1.0 if self.fault == "leaves" else 0.0) * (after - before)

    def cover(self, p):
        return -np.ones((1, p)), np.full((1, p), 0.5 if self.fault == "half covered" else 1.0)

    @classmethod
    def examples(cls):
        return [cls()]


class Stride(hf.extend.Scheme):
    """Euler's step, with a choice of faults."""

    fault: str = ""

    order = 1

    def step(self, key, field, clouds, state, dt):
        data, _ = hf.extend.streams(key)
        reach = 2 * dt if self.fault == "twice as far" else dt
        moved = hf.extend.advance(clouds, field(data, clouds), reach)
        if self.fault == "second order":
            moved = hf.extend.advance(moved, field(data, moved), dt**3)
        if self.fault == "loses mass":
            return map_clouds(lambda cloud: eqx.tree_at(lambda c: c.weights, cloud, 0.9 * cloud.weights), moved), state
        if self.fault == "sees the other":
            shift = sum(
                jnp.sum(cloud.atoms) for cloud in jax.tree.leaves(clouds, is_leaf=lambda x: isinstance(x, hf.Cloud))
            )
            return map_clouds(lambda cloud: hf.Cloud(cloud.atoms + 1e-3 * dt * shift, cloud.weights), moved), state
        return moved, state

    @classmethod
    def examples(cls):
        return [cls()]


class Claimed(Stride):
    """The same, which claims an order that it does not have."""

    order = 2


class Lost(Stride):
    """A scheme whose particles end at no number."""

    order = None

    def step(self, key, field, clouds, state, dt):
        return map_clouds(lambda cloud: hf.Cloud(cloud.atoms * jnp.nan, cloud.weights), clouds), state


def on_swap(member):
    return member, SWAP, hf.trivial_rep(SWAP.group)


class Stake(hf.gans.Objective):
    """A game with a choice of faults."""

    fault: str = eqx.field(default="", static=True)

    def discriminator_loss(self, true, made):
        return jnp.mean(made) - jnp.mean(true)

    def generator_loss(self, true, made):
        return jnp.mean(made) if self.fault == "helps the other" else -jnp.mean(made)

    def penalty(self, squares):
        return -jnp.mean(squares) if self.fault == "pays for slopes" else jnp.mean(squares)

    @classmethod
    def examples(cls):
        return [cls()]


def bent(network):
    """The same network with an input that is let past the layers that know the group."""

    class Slanted(type(network)):
        """The network with a way past its layers."""

        def finish(self, u):
            return super().finish(u) + u[:, :1] * np.arange(1, self.on_x.dim + 1)

        def scores(self, x):
            return super().scores(x) + x[:, :1]

    found = object.__new__(Slanted)
    for name, value in vars(network).items():
        object.__setattr__(found, name, value)
    return found


LABELS = np.array([[0.3, -1.2], [2.0, 0.1]])
FAULTS = {
    "each player gains by the scores it wants": [Stake("helps the other")],
    "slopes are fined more where they are steeper": [Stake("pays for slopes")],
    "what is made moves with the latent point": [bent(one) for one in VectorGenerator.examples()[:1]],
    "scores do not move": [bent(one) for one in VectorDiscriminator.examples()[:1]],
    "generators are orthogonal and the lie algebra is skew": [Turn("not skew"), Turn("a generator that stretches")],
    "elements make a group with the identity first": [Klein("a quarter turn"), Klein("identity last")],
    "generators make all the elements": [Klein("one generator")],
    "draws are elements": [Turn("longer")],
    "draws have the moments of haar": [Turn("half the circle"), Klein("never the last")],
    "draws are uniform on the elements": [Klein("never the last")],
    "classes integrate the moments of the trace": [Turn("classes twice")],
    "groups are constants": [Loose()],
    "probes belong to the group": [Klein("other probes")],
    "every group knows its elements from others": [Turn("takes everything")],
    "products and lengths are kept": [Bent(hf.Cyclic(2), 2, "twice")],
    "compiled matrices are those of numpy": [Bent(hf.Cyclic(2), 2, "apply")],
    "apply is the matrix times each row": [Bent(hf.Cyclic(2), 2, "apply")],
    "the derivative exponentiates to the representation": [Bent(hf.SpecialOrthogonal(2), 2, "derivative")],
    "signs and characters are those of the matrix": [Bent(hf.Cyclic(2), 2, "character")],
    "the projector is the haar average": [Bent(hf.Cyclic(2), 2, "projector")],
    "the character formula gives the dimension": [Bent(hf.Cyclic(2), 2, "basis")],
    "representations are constants": [LooseRep(hf.Cyclic(2), 2)],
    "batched is the formula at every particle and input": [on_swap(Kink("batched"))],
    "the weighted sum is linear in the weights": [on_swap(Kink("weights"))],
    "the pullback is the derivative of the weighted sum": [on_swap(Kink("gradient"))],
    "units are jointly equivariant": [on_swap(Kink("action"))],
    "moved clouds answer moved inputs": [on_swap(Model("action"))],
    "a linear network is the mean of its particles and says so": [on_swap(Model("says not"))],
    "feedback is the derivative": [on_swap(Model("potential"))],
    "the slope is the derivative": [(Odd("slope"), LABELS)],
    "a loss that claims to be convex lies below its chords": [(Odd("not convex"), LABELS)],
    "a square is a square": [(Odd("a square"), LABELS), (Odd("not a square"), LABELS)],
    "labels of an example are those of the loss": [(Odd("takes what it says it refuses"), np.sign(LABELS))],
    "the variation is the derivative": [Spring("sign")],
    "the energy dissipates at the stated rate": [Spring("slope"), Spring("sign")],
    "a batch is a function of its key": [Numbers()],
    "fields conserve mass": [Drift("mass")],
    "compiled fields are the same": [Drift("compiled")],
    "the variation of a payoff is its derivative": [Duel("players")],
    "a payoff falls at the stated rate": [Duel("slope")],
    "the projection is the nearest point": [Cube("too far")],
    "velocities along a domain are where its steps go": [Cube("half")],
    "what is taken from a velocity is at a right angle": [Cube("half")],
    "boxes cover a bounded domain": [Cube("half covered")],
    "no scheme leaves a domain": [Cube("leaves")],
    "weights stay a law even for a huge step": [Stride("loses mass")],
    "a small step follows the field": [Stride("twice as far")],
    "the error falls with the order of the scheme": [Claimed()],
    "restricted clouds stay on their subspace": [Lost()],
    "players who do not see each other move as if alone": [Stride("sees the other")],
}
UNBROKEN = {  # laws of what the base class decides, or that another law stands for
    "the variation of a risk is the derivative",
}
LAWS = {law.name: law for laws in book().values() for law in laws if law.kind.__name__ != "Experiment"}


def test_members_of_every_room_are_found():
    rooms = {type(one).__module__.split(".")[1] for one in members(hf.extend.Field)}
    assert rooms >= {"dynamics", "practice"}


def test_every_law_has_a_fault():
    assert set(FAULTS) | UNBROKEN == set(LAWS)


@pytest.mark.parametrize("name", FAULTS)
def test_every_law_is_broken_by_its_fault(name):
    for example in FAULTS[name]:
        found = LAWS[name].judge(example)
        assert not found.holds, f"{example} passes: {found}"


@pytest.mark.parametrize("kind", [Turn, Klein, Kink, Model, Odd, Spring, Drift, Duel, Cube, Stake])
def test_the_same_members_without_a_fault_keep_every_law(kind):
    assert [str(one) for one in findings(kind) if not one.holds] == []


def test_findings_are_read_by_people_and_by_pandas():
    found = check_laws(Spring("sign"))
    assert not found.holds
    assert repr(found).startswith("Findings of 2 laws\n  Spring: breaks 2 of 2 laws: the variation is the derivative")
    assert found.table()["holds"] == [False, False]
    assert check_laws(Descend.examples()[0]).holds
    with pytest.raises(hf.Refusal, match=r"check_laws takes a member of a kind that has laws \(.*Group, .*; got 'x'"):
        check_laws("x")


UNIT, SWAP = hf.Dense(2, 2), hf.natural_rep(hf.Cyclic(2))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((UNIT,), r"check_laws takes \(unit, on_x, on_y\) for the class Dense; got a tuple of 1.* Write Dense itself"),
        (UNIT, r"check_laws takes \(unit, on_x, on_y\) for the class Dense; got .*Dense"),
        ((UNIT, SWAP), r"takes \(unit, on_x, on_y\) for the class Dense; got a tuple of 2"),
        ((UNIT, SWAP, SWAP, SWAP), r"takes \(unit, on_x, on_y\) for the class Dense; got a tuple of 4"),
        ((UNIT, 3, SWAP), r"check_laws's on_x is a Rep; got 3"),
        ((UNIT, SWAP, hf.natural_rep(hf.Cyclic(3))), r"one group"),
        ((UNIT, SWAP + SWAP, SWAP), r"needs representations of those sizes; got on_x of size 4"),
        ((hf.losses.Huber(),), r"takes \(loss, ys\) for the class Huber; got a tuple of 1"),
        ((hf.losses.Huber(), "y"), r"check_laws's ys"),
        ((hf.losses.Huber(), np.ones(3)), r"check_laws's ys has the shape \(m, c\); got the shape \(3,\)"),
        ((hf.Penalty(0.5), 3), r"check_laws's cloud is a Cloud; got 3"),
        ((hf.Heun(), 3), r"check_laws takes a member alone for the class Heun; got a tuple of 2"),
        ((hf.Cyclic(2), 3), r"check_laws takes a member alone for the class Cyclic; got a tuple of 2"),
        ((), r"check_laws takes a member of a kind that has laws .*; got"),
    ],
)
def test_what_is_no_example_is_refused_at_the_door(given, sentence):
    with pytest.raises(hf.Refusal, match=sentence):
        check_laws(given)


def test_an_example_of_the_wrong_form_is_a_finding_in_a_sentence():
    class Unfinished(Kink):
        @classmethod
        def examples(cls):
            return [(cls("nothing"),), 3]

    first, second = findings(Unfinished)
    assert first.told.startswith("examples() takes (unit, on_x, on_y) for the class Unfinished; got a tuple of 1")
    assert second.told.startswith("examples() takes a member of a kind that has laws")
    assert not first.holds
