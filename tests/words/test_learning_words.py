"""The sentences with which units, data, risks and symmetry refuse bad input."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import haarflow as hf
from haarflow.algebra.groups import Cyclic, Symmetric
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.learning.averaging import average_network
from haarflow.learning.data import Sample
from haarflow.learning.symmetry import asymmetry, augment, average, orbit_closure, symmetrise
from haarflow.measures.clouds import stack_clouds, uniform
from haarflow.models.residual import Residual
from haarflow.models.units import Dense

KEY = jax.random.key(0)
SWAP, SHIFT = natural_rep(Cyclic(2)), natural_rep(Cyclic(3))
STILL = trivial_rep(Cyclic(3), 2)
UNIT = Dense(2, 2)
CLOUD = uniform(np.ones((3, 4)))
XS = jnp.arange(6.0).reshape(3, 2)
SAMPLE = Sample(XS, jnp.sin(XS))
TURNS = natural_rep(SpecialOrthogonal(2))
BIG = natural_rep(Symmetric(8)), trivial_rep(Symmetric(8))

TWO_GROUPS = {
    "augment": lambda: augment(SAMPLE, SWAP, STILL),
    "augment exactly": lambda: augment(SAMPLE, SWAP, STILL, exact=True),
    "average": lambda: average(UNIT, SWAP, STILL),
    "close": lambda: orbit_closure(SAMPLE, SWAP, STILL),
    "symmetrise": lambda: symmetrise(jnp.sin, SWAP, STILL),
    "asymmetry": lambda: asymmetry(UNIT, CLOUD, XS, SWAP, STILL),
    "action": lambda: UNIT.action(SWAP, STILL),
    "average_network": lambda: average_network(Residual((UNIT,)), SWAP, STILL),
}


@pytest.mark.parametrize("case", TWO_GROUPS)
def test_representations_of_two_groups_are_refused(case):
    with pytest.raises(Refusal, match=r"representations of one group; got Cyclic\(.*2\) and Cyclic\(.*3\)"):
        TWO_GROUPS[case]()


REFUSALS = {
    "augment": (
        lambda: augment(SAMPLE, SHIFT, trivial_rep(Cyclic(3))),
        "augment moves inputs in R^2 and labels in R^2 by representations of those sizes; got on_x of size 3 and on_y "
        "of size 1. For labels that stay write on_y=trivial_rep(group, 2).",
    ),
    "close": (
        lambda: orbit_closure(SAMPLE, SHIFT, STILL),
        "orbit_closure moves inputs in R^2 and labels in R^2 by representations of those sizes; got on_x of size 3 and "
        "on_y "
        "of size 2. For labels that stay write on_y=trivial_rep(group, 2).",
    ),
    "symmetrise inputs": (
        lambda: symmetrise(jnp.sin, SHIFT, SHIFT)(XS),
        "A symmetrised function takes inputs (b, d) to values (b, c), of the sizes d and c of its representations; got "
        "inputs (3, 2) where (3, 3) are expected. Write on_x and on_y of the sizes of the inputs and values.",
    ),
    "symmetrise values": (
        lambda: symmetrise(lambda xs: xs[:, :1], SWAP, SWAP)(XS),
        "A symmetrised function takes inputs (b, d) to values (b, c), of the sizes d and c of its representations; got "
        "values (6, 1) where (6, 2) are expected. Write on_x and on_y of the sizes of the inputs and values.",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_the_rule_what_it_got_and_what_to_write(case):
    act, sentence = REFUSALS[case]
    with pytest.raises(Refusal) as caught:
        act()
    assert str(caught.value) == sentence


house: Any = hf  # its functions are given here what their annotations do not allow
NAN = float("nan")
HUGE = 10**18


def law(key, size):
    return jnp.ones((size, 2)), jnp.ones((size, 1))


SENTENCES = [
    (
        lambda: house.Risk("unit", SAMPLE),
        "A Risk's network is a Network; got 'unit'. Write a unit such as",
    ),
    (lambda: house.Risk(UNIT, "data"), r"A Risk's data is a Data; got 'data'. Write Sample\(xs, ys\)"),
    (
        lambda: house.Risk(UNIT, SAMPLE, 3),
        "A Risk's loss is a Loss; got 3. Write 'half-square', .*or a function of",
    ),
    (
        lambda: house.Risk(Dense(3, 2), SAMPLE),
        r"a Dense of inputs in R\^3 and data with inputs in R\^2. Write a unit w",
    ),
    (lambda: house.Risk(Dense(2, 1), SAMPLE), r"outputs in R\^1 and labels in R\^2. Write a unit with outputs=2"),
    (lambda: house.Penalty(NAN), "A Penalty's tau is a finite number; got nan"),
    (lambda: house.Penalty([0.1, 0.2]), "A Penalty's tau is a finite number; got a list of 2"),
    (lambda: house.Penalty(1, 3), "A Penalty's r is a function; got 3"),
    (lambda: house.Penalty(1, jnp.sin)(CLOUD), r"takes a parameter \(4,\) to one number .*; got \(4,\) of fl"),
    (lambda: house.Penalty(1, lambda t: t @ jnp.ones(3))(CLOUD), r"a parameter \(4,\) .*; got an error, dot_g"),
    (lambda: house.Penalty(1)("cloud"), "A Penalty takes a Cloud of particles; got 'cloud'"),
    (lambda: house.Dense(-1, 1), "A Dense's inputs is a whole number >= 1; got -1"),
    (lambda: house.Dense(2.5, 1), "A Dense's inputs is a whole number; got 2.5"),
    (lambda: house.Dense(2, 1, 7), "A Dense's activation is a word in quotes; got 7"),
    (lambda: house.Perceptron(0), "A Perceptron's inputs is a whole number >= 1; got 0"),
    (lambda: house.TwoLayer(2, 0, 1), "A TwoLayer's hidden is a whole number >= 1; got 0"),
    (lambda: house.Quadratic(True), "A Quadratic's inputs is a whole number; got True"),
    (lambda: house.Bump(2, 1, variance=0), "A Bump's variance is a finite number > 0; got 0"),
    (lambda: house.Bump(2, 1, variance=NAN), "A Bump's variance is a finite number; got nan"),
    (lambda: house.kernels.Linearised("u"), "A Linearised's unit is an? Unit; got 'u'"),
    (lambda: house.kernels.Scaled(UNIT, NAN), "A Scaled's scale is a finite number; got nan"),
    (lambda: house.Custom(3, 1, 1, 1, abs), "A Custom's function is a function; got 3"),
    (
        lambda: house.Custom(lambda t, x: t * x, 2, 2, 1, abs),
        r"takes \(2,\) and \(2,\) numbers to \(1,\) .*; got \(2,\)",
    ),
    (lambda: house.Custom(lambda t, x: t @ x, 2, 3, 1, abs), r"to \(1,\); got an error, dot_general"),
    (lambda: house.Custom(lambda t, x: t @ x, 2, 2, 1, abs), r"got \(\) of float.*. Write value\[None\] for one"),
    (lambda: house.Custom(lambda t, x: t > x, 2, 2, 2, abs), r"in floating point; got \(2,\) of bool"),
    (lambda: house.Custom(lambda t, x: None, 2, 2, 2, abs), "got a NoneType"),
    (lambda: house.Custom(lambda t: t, 2, 2, 2, abs), "got an error, .* takes 1 positional argument"),
    (lambda: house.restrict(hf.Descend(hf.Penalty(1.0)), np.ones((2, 2))), "A projector P is orthogonal, .* off by 1"),
    (lambda: house.Residual(5), "A Residual's layers is a list; got 5"),
    (lambda: house.network(UNIT, "cloud", XS), "network's cloud is a Cloud; got 'cloud'"),
    (lambda: house.network(UNIT, CLOUD, "xs"), "network's xs is an array; got 'xs'|network's xs is an array of real"),
    (lambda: house.network(UNIT, CLOUD, [[1, 2], [3]]), "network's xs is .*array.* got rows of different lengths|list"),
    (lambda: house.network(UNIT, CLOUD, [[1, NAN]]), r"network's xs holds finite numbers; got nan at \[0, 1\]"),
    (lambda: house.network(Dense(3, 2), uniform(np.ones((1, 6))), XS), r"takes inputs of shape \(b, 3\); got \(3, 2\)"),
    (
        lambda: house.network(Dense(3, 2), uniform(np.ones((1, 6))), np.ones(3)),
        r"got \(3,\). .* x\[None\] for a single",
    ),
    (lambda: house.network(Dense(2, 2), uniform(np.ones((1, 4))), np.ones((3, 4))), r"\(b, 2\); got \(3, 4\)"),
    (lambda: house.network(UNIT, stack_clouds([CLOUD, CLOUD]), XS), "takes one Cloud at a time; got a stack"),
    (lambda: house.Sample(XS, [[1.0], [NAN], [2.0]]), r"A Sample's ys holds finite numbers; got nan at \[1, 0\]"),
    (lambda: house.Sample([[1.0, NAN], [1, 2]], [1, 2]), r"A Sample's xs holds finite numbers; got nan at \[0, 1\]"),
    (lambda: house.Sample([[1, 2], [3]], [1, 2]), "A Sample's xs is an array of numbers; got rows of different len"),
    (lambda: house.Sample([["a"]], [1]), "A Sample's xs is an array of real numbers"),
    (lambda: house.Sample(XS, np.array([["a", "b"]] * 3)), r"class names are one for each input; got names of shape"),
    (lambda: house.Sample(XS, ["a", 1.5, None]), "A Sample's ys is an array of real numbers"),
    (lambda: house.Sample(XS, XS, 2.5), "A batch size is a whole number >= 1; got 2.5"),
    (lambda: house.Sample(XS, XS, HUGE), "A batch would need 3.2e.*EB|A batch would need 32 EB"),
    (lambda: house.Stream(None, 3), "A Stream's law is a function; got None"),
    (lambda: house.Stream(law, 0), "A Stream's size is a whole number >= 1; got 0"),
    (lambda: house.Stream(law, HUGE), "A batch would need"),
    (lambda: house.Stream(lambda key, size: jnp.ones(size), 3), r"is a pair of inputs \(b, d\) and outputs"),
    (
        lambda: house.Stream(lambda key, size: (jnp.ones((3, 2)), jnp.ones(3)), 3),
        r"got \(3, 2\) and \(3,\). For scalar",
    ),
    (lambda: house.Stream(lambda key: 3, 3), "is a pair of inputs .*; got an error, .*positional argument"),
    (lambda: house.Teacher(UNIT, CLOUD, 3, scale=NAN), "A Teacher's scale is a finite number; got nan"),
    (lambda: house.Teacher(UNIT, CLOUD, 3, scale=-1), "A Teacher's scale is a finite number >= 0; got -1"),
    (lambda: house.Teacher(UNIT, CLOUD, 3, noise="x"), "A Teacher's noise is .*number.*; got 'x'"),
    (lambda: house.Teacher(UNIT, uniform(np.ones((2, 3))), 3), r"A Dense has 4 parameters; got atoms in R\^3"),
    (lambda: house.Teacher(UNIT, CLOUD, HUGE), "A batch would need"),
    (lambda: house.exact.TwoGaussians(0, 0.4, 5), "A TwoGaussians's inputs is a whole number >= 1; got 0"),
    (lambda: house.folds(KEY, SAMPLE, 4), "at least one row each; got 4 folds of 3 rows. Write a count from 1 to 3"),
    (lambda: house.folds(KEY, SAMPLE, 0), "folds's count is a whole number >= 1; got 0"),
    (lambda: house.folds("k", SAMPLE, 1), "folds's key is one key; got 'k'"),
    (lambda: house.load(3), "load reads a file, or a table with named columns .*; got 3. For arrays write Sample"),
    (lambda: house.augment("data", SWAP, SWAP), "augment's data is a Data; got 'data'"),
    (lambda: house.augment(SAMPLE, Cyclic(2), SWAP), "augment's on_x is a Rep.*; got|augment takes a representation"),
    (lambda: house.augment(SAMPLE, SWAP, SWAP, exact="yes"), "augment's exact is True or False; got 'yes'"),
    (lambda: house.augment(SAMPLE, SWAP, SWAP, elements=np.eye(2)[None]), "got `elements` without exact=True. Write"),
    (
        lambda: house.Custom(lambda t, x: t, 2, 2, 2, SWAP),
        "declares its action as a function of on_x and on_y; got the",
    ),
    (lambda: house.Risk(house.Penalty(1), SAMPLE), "A Risk's network is .*; got a Penalty"),
    (lambda: house.Risk(Dense, SAMPLE), "A Risk's network is .*; got the class Dense itself"),
    (lambda: house.average(UNIT, SHIFT, SHIFT), "needs representations of those sizes; got on_x of size 3"),
    (lambda: house.symmetrise(3, SWAP, SWAP), "symmetrise's function is a function or a Cloud"),
    (
        lambda: house.asymmetry(UNIT, CLOUD, np.ones((3, 4)), SWAP, SWAP),
        r"takes inputs of shape \(b, 2\); got \(3, 4\)",
    ),
    (lambda: house.orbit_closure("sample", SWAP, SWAP), "orbit_closure's sample is a Sample; got 'sample'"),
    (
        lambda: house.orbit_closure(Sample(np.ones((10**6, 8)), np.ones((10**6, 1))), *BIG),
        "would need .* of memory.* draws",
    ),
    (lambda: house.exact.fold(3, SWAP, SWAP), "fold's functional is a Functional; got 3. Write Risk"),
    (lambda: house.exact.fold(house.Risk(UNIT, SAMPLE), TURNS, TURNS), "is for finite groups; got SpecialOrthogonal"),
    (lambda: house.kernels.kernel_ridge(np.ones((2, 3)), [1, 2]), r"kernel_ridge's gram has the shape \(b, b\)"),
    (
        lambda: house.kernels.kernel_ridge(np.eye(2), [1, 2], ridge=-1),
        "kernel_ridge's ridge is a finite number >= 0; got -1",
    ),
    (lambda: house.kernels.kernel_ridge([[1, 2], [0, 9]], [1, 2]), "is symmetric; got entries that differ by 2"),
    (lambda: house.kernels.kernel_flow(np.eye(2), np.eye(3), [1, 2], times=[1]), "kernel_flow's cross has the shape"),
    (lambda: house.kernels.kernel_flow(np.eye(2), np.eye(2), [1, 2], times=[-1]), "kernel_flow's times is .*>= 0; got"),
    (lambda: house.kernels.arc_cosine(np.ones((2, 3)), np.ones((2, 2))), "arc_cosine's others has the shape"),
    (lambda: house.kernels.arc_cosine(np.ones((2, 3)), degree="x"), "arc_cosine's degree is a whole number; got 'x'"),
    (lambda: house.kernels.relu_tangent(XS, output=[1, 2]), "relu_tangent's output is .*number.*; got a list of 2"),
    (lambda: house.kernels.relu_beyond_linear(0), "relu_beyond_linear's d is a whole number >= 1; got 0"),
    (
        lambda: house.kernels.feature_kernel(UNIT, CLOUD, np.ones((2, 3))),
        r"takes inputs of shape \(b, 2\); got \(2, 3\)",
    ),
    (lambda: house.kernels.tangent_kernel(Dense(2, 1), uniform([[1, 2]]), XS, np.ones(2)), r"\(b, 2\); got \(2,\)"),
    (lambda: house.kernels.Linearised(UNIT).anchored(uniform([[1.0]])), r"A Dense has 4 parameters; got atoms in R\^1"),
    (lambda: house.Risk(UNIT, SAMPLE, "hinges"), "A Risk's loss is one of .*, or a function; got 'hinges'"),
    (lambda: house.Risk(UNIT, SAMPLE, jnp.subtract), r"each of 2 numbers, to one real number; got \(2,\) of float"),
    (lambda: house.Risk(UNIT, SAMPLE, lambda f: f), "to one real number; got an error, .* takes 1 positional arg"),
    (lambda: house.losses.Huber(0), "A Huber's delta is a finite number > 0; got 0"),
    (lambda: house.Risk(lambda cloud, xs: xs[:1], SAMPLE)(CLOUD), r"to outputs \(b, c\); got \(1, 2\) of float"),
    (lambda: house.Risk(lambda cloud, xs: None, SAMPLE)(CLOUD), r"to outputs \(b, c\); got a NoneType"),
    (lambda: house.energies.optimum(house.Risk(UNIT, SAMPLE), np.ones((2, 3))), r"has 4 parameters; got atoms in R\^3"),
]


@pytest.mark.parametrize(("act", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_bad_values_get_one_sentence(act, sentence):
    with pytest.raises(Refusal, match=sentence) as caught:
        act()
    assert str(caught.value).endswith((".", ")."))
    assert "\n" not in str(caught.value)


def test_what_people_have_is_taken():
    rows = [[1, 2], [3, 4]]
    for xs in (
        rows,
        tuple(rows),
        np.array(rows),
        np.array(rows, np.float32),
        np.array(rows, np.uint8),
        jnp.array(rows),
    ):
        found = house.network(UNIT, uniform(np.ones((3, 4))), xs)
        np.testing.assert_allclose(found, house.network(UNIT, uniform(np.ones((3, 4))), np.array(rows, float)))
        assert house.Sample(xs, xs).xs.dtype in (np.float32, np.float64)
        np.testing.assert_allclose(
            house.kernels.arc_cosine(xs), house.kernels.arc_cosine(np.array(rows, float)), rtol=1e-6
        )
    assert house.Sample(rows, [1, 2]).ys.shape == (2, 1)
    assert house.Dense(np.int64(2), 2.0).dim == 4
    assert house.network(UNIT, CLOUD, np.zeros((0, 2))).shape == (0, 2)
    for key in (0, np.int32(0), jax.random.PRNGKey(0)):
        [first, _] = house.folds(key, Sample(rows, rows), 2.0)
        np.testing.assert_array_equal(first.xs, house.folds(jax.random.key(0), Sample(rows, rows), 2)[0].xs)


def test_what_advises_elements_takes_them():
    turns = natural_rep(SpecialOrthogonal(2))
    with pytest.raises(Refusal, match="elements="):
        orbit_closure(SAMPLE, turns, turns)
    closed = orbit_closure(SAMPLE, turns, turns, elements=SpecialOrthogonal(2).grid(4))
    assert closed.xs.shape == (12, 2)
