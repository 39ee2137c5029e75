"""What a caller holds says what it is when it is printed, in a line."""

from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import haarflow as hf
from haarflow.runs.ledger import Record

ATOMS = np.zeros((10, 3), np.float32)
SHIFT = hf.natural_rep(hf.Cyclic(3))
FACTS = {"experiment": "weak-invariance", "seed": 1, "verdicts": {"a": True, "b": False}}


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (hf.Cyclic(3), "Cyclic(3)"),
        (hf.Cyclic(2) * hf.SpecialOrthogonal(3), "InfiniteProduct(Cyclic(2), SpecialOrthogonal(3))"),
        (SHIFT + hf.trivial_rep(SHIFT.group, 2), "(natural_rep(Cyclic(3)) + trivial_rep(Cyclic(3), 2))"),
        (hf.uniform(ATOMS), "Cloud of 10 particles in R^3, float32"),
        (hf.uniform(ATOMS[:1]), "Cloud of 1 particle in R^3, float32"),
        (hf.stack_clouds([hf.uniform(ATOMS)] * 4), "Stack of 4 Clouds of 10 particles in R^3, float32"),
        (hf.grids.Grid(-3, 3.5, 200), "Grid(-3, 3.5, 200)"),
        (hf.grids.Grid((-3, -2), 3, 60), "Grid((-3.0, -2.0), (3.0, 3.0), (60, 60))"),
        (Record(Path("out"), FACTS, {}), "Record of weak-invariance, seed 1: 1 of 2 claims hold (out)"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_print_says_what_it_is(thing, said):
    assert repr(thing) == said


def test_clouds_print_inside_a_program_and_when_they_hold_other_things():
    seen = []
    eqx.filter_jit(lambda cloud: seen.append(repr(cloud)))(hf.uniform(ATOMS))
    assert seen == ["Cloud of 10 particles in R^3, float32"]
    assert "None" in repr(jax.tree.map(lambda leaf: None, hf.uniform(ATOMS)))
