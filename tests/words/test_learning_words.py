"""The sentences with which units, data, risks and symmetry refuse bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, SpecialOrthogonal
from haarflow.algebra.reps import natural, trivial
from haarflow.errors import Refusal
from haarflow.learning.data import Sample
from haarflow.learning.deep import average_network
from haarflow.learning.symmetry import asymmetry, augment, average, close, symmetrise
from haarflow.measures.clouds import uniform
from haarflow.models.residual import Residual
from haarflow.models.units import Dense

KEY = jax.random.key(0)
SWAP, SHIFT = natural(Cyclic(2)), natural(Cyclic(3))
STILL = trivial(Cyclic(3), 2)
UNIT = Dense(2, 2)
CLOUD = uniform(np.ones((3, 4)))
XS = jnp.arange(6.0).reshape(3, 2)
SAMPLE = Sample(XS, jnp.sin(XS))

TWO_GROUPS = {
    "augment": lambda: augment(SAMPLE, SWAP, STILL),
    "augment exactly": lambda: augment(SAMPLE, SWAP, STILL, exact=True),
    "average": lambda: average(UNIT, SWAP, STILL),
    "close": lambda: close(SAMPLE, SWAP, STILL),
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
        lambda: augment(SAMPLE, SHIFT, trivial(Cyclic(3))),
        "augment moves inputs in R^2 and labels in R^2 by representations of those sizes; got on_x of size 3 and on_y "
        "of size 1. For labels that stay write on_y=trivial(group, 2).",
    ),
    "close": (
        lambda: close(SAMPLE, SHIFT, STILL),
        "close moves inputs in R^2 and labels in R^2 by representations of those sizes; got on_x of size 3 and on_y "
        "of size 2. For labels that stay write on_y=trivial(group, 2).",
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


def test_what_advises_elements_takes_them():
    turns = natural(SpecialOrthogonal(2))
    with pytest.raises(Refusal, match="elements="):
        close(SAMPLE, turns, turns)
    closed = close(SAMPLE, turns, turns, elements=SpecialOrthogonal(2).grid(4))
    assert closed.xs.shape == (12, 2)
