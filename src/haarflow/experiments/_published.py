"""The published teacher–student task: the swap of two coordinates acting on `sigmoid(z x)`.

X = Y = R², Z = R^{2×2}, X ~ N(0, 16 I), loss |y − ŷ|², penalty tau |z|², step alpha / N for 20 N steps. In the
library's convention the penalty is `Penalty(2 tau)`, because its r is ½|z|²; everything else is as printed.
"""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import natural_rep
from haarflow.dynamics.fields import Descend
from haarflow.dynamics.flow import flow
from haarflow.dynamics.schemes import Euler
from haarflow.learning.data import Batch, Data, Sample, Stream, Teacher
from haarflow.learning.risks import Penalty, Risk
from haarflow.learning.symmetry import average, orbit_closure
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.networks import network
from haarflow.models.units import Dense, Unit
from haarflow.practice.compare import SCHEMES, FourSchemes, four_schemes

SWAP = natural_rep(Cyclic(2))
UNIT = Dense(2, 2, "sigmoid")
ACTION = SWAP.hom(SWAP)
PROJECTOR = ACTION.fixed_projector()
SCALE = 4.0

_ATOMS = 0.5 * np.array([(-1, 0, 0, 0.5), (0.5, 1, 0, 1), (-0.5, 0.3, 1, 0), (0, -1, -0.5, 1), (0.7, -0.7, 0.5, 0.7)])
_FIXED = 0.5 * np.array([(1, 0), (0.5, 1), (-0.5, 0.3), (0, -1), (0.7, 0.7)])
_BASIS = np.array([(1, 0, 0, 1), (0, 1, 1, 0)]) / np.sqrt(2)


def teacher_cloud(name: str) -> Cloud:
    """The arbitrary, the weakly or the strongly invariant teacher."""
    arbitrary = uniform(_ATOMS)
    return {
        "arbitrary": lambda: arbitrary,
        "weak": lambda: arbitrary.orbit(ACTION),
        "strong": lambda: uniform(_FIXED @ _BASIS),
    }[name]()


def task(teacher: str, batch: int, *, atoms: int | None = None) -> Teacher:
    """One-pass data labelled by the teacher; `atoms` repeats its atoms to this number: the same law."""
    cloud = teacher_cloud(teacher)
    if atoms is not None:
        cloud = uniform(np.tile(cloud.atoms, (atoms // cloud.n, 1)))
    return Teacher(UNIT, cloud, batch, scale=SCALE)


def four(data: Data, tau: float, *, unit: Unit = UNIT, exact: bool = True) -> FourSchemes:
    """The four schemes on the published task, with the published penalty tau |z|²."""
    return four_schemes(unit, data, SWAP, SWAP, penalty=2 * tau, loss="square", exact=exact)


def starts(key: PRNGKeyArray, n: int, *, strong: bool, deviation: float = 0.25) -> dict[str, Cloud]:
    """Gaussian atoms (a WI law), or their projection (an SI law); EA always starts from the projection."""
    weak = uniform(deviation * jax.random.normal(key, (n, UNIT.dim)))
    return FourSchemes({}, PROJECTOR).starts(weak, strong=strong)


def drawn(keys: Key[Array, "r"], n: int, *, strong: bool, room: int = 0, deviation: float = 0.25) -> dict[str, Cloud]:
    """`starts` for every key, as stacks of clouds, drawn by NumPy: compiled, they would cost seconds for each n.

    With `room` for more, the other atoms have no mass: clouds of several sizes then share one program.
    """
    words, room = np.asarray(jax.random.key_data(keys)), max(n, room)
    weak = deviation * np.stack([np.random.default_rng([*word, n]).normal(size=(room, UNIT.dim)) for word in words])
    weights = jnp.asarray(np.tile(np.where(np.arange(room) < n, 1 / n, 0.0), (len(words), 1)))
    free, flat = Cloud(jnp.asarray(weak), weights), Cloud(jnp.asarray(weak @ PROJECTOR), weights)
    return {name: flat if strong or name == "EA" else free for name in SCHEMES}


class Repeated(eqx.Module):
    """A teacher's batch, its rows repeated: the first B again and again are a batch of B. New rows, same program."""

    teacher: Teacher
    rows: Int[Array, "b"]

    def __call__(self, key: PRNGKeyArray, size: int) -> Batch:
        """Fresh inputs and outputs."""
        xs, ys = self.teacher.batch(key)
        return xs[self.rows], ys[self.rows]


def repeated(teacher: Teacher, batch: int) -> Stream:
    """The teacher's data in batches of `batch`, which divides the teacher's own: the same program for each."""
    return Stream(Repeated(teacher, jnp.arange(teacher.size) % batch), teacher.size)


def inputs(key: PRNGKeyArray, m: int) -> Float[Array, "m d"]:
    """Fresh inputs on which functions are compared."""
    return SCALE * jax.random.normal(key, (m, UNIT.inputs))


def closed_descent(key: PRNGKeyArray, begin: Callable[[Cloud], Cloud], *, steps: int, n: int = 8) -> Cloud:
    """Where full-batch descent takes n Gaussian atoms, made invariant by `begin`, on ten orbit-closed samples.

    They are labelled by the arbitrary teacher: after closing, the data are equivariant all the same.
    """
    first, rows = jax.random.split(key)
    plain = Sample(inputs(rows, 10), task("arbitrary", 10).batch(rows)[1])
    field = Descend(Risk(UNIT, orbit_closure(plain, SWAP, SWAP), "square") + Penalty(2e-4))
    start = begin(uniform(0.5 * jax.random.normal(first, (n, UNIT.dim))))
    return flow(field, Euler(), start, key=key, dt=0.5, steps=steps).cloud


def atoms(cloud: Cloud) -> Float[Array, "n p"]:
    """A probe of where the particles are; one function, so that its program is compiled once."""
    return cloud.atoms


def errors(cloud: Cloud, teacher: Cloud, xs: Float[Array, "m d"]) -> Mapping[str, Array]:
    """`|f − Qf|²`, `|f − f*|²` and `|f − Qf*|²` on these inputs."""
    averaged = average(UNIT, SWAP, SWAP)
    f, symmetric = network(UNIT, cloud, xs), network(averaged, cloud, xs)
    target, ideal = network(UNIT, teacher, xs), network(averaged, teacher, xs)
    gaps = {"asymmetry": f - symmetric, "teacher": f - target, "ideal": f - ideal}
    return {name: jnp.mean(jnp.sum(gap**2, axis=1)) for name, gap in gaps.items()}
