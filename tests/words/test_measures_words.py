"""The sentences with which the measures refuse bad input."""

import jax
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.reps import natural_rep
from haarflow.errors import Refusal
from haarflow.measures.bounds import w2_bounds
from haarflow.measures.clouds import Cloud, stack_clouds, uniform
from haarflow.measures.distances import mmd_squared, sinkhorn, sliced, w2
from haarflow.measures.invariance import (
    circle_correction,
    orbit_mmd_squared,
    si_distance,
    wi_bounds,
    wi_distance,
    wi_rmd,
)

KEY = jax.random.key(0)
PLANE = uniform(np.eye(2))
SPACE = uniform(np.eye(3))
LARGE = uniform(np.zeros((6000, 2)) + np.arange(6000.0)[:, None])

REFUSALS = {
    "sizes": (
        lambda: Cloud(np.ones((3, 2)), np.full(4, 0.25)),
        "A Cloud holds n atoms in R^p and n weights; got atoms (3, 2) and weights (4,). "
        "For equal weights write `uniform(atoms)`.",
    ),
    "sum": (
        lambda: Cloud(np.ones((2, 1)), [0.5, 0.6]),
        "A Cloud's weights sum to one; got a sum of 1.1. "
        "Write `weights / weights.sum()`, or `uniform(atoms)` for equal weights.",
    ),
    "negative": (
        lambda: Cloud(np.ones((2, 1)), [-0.5, 1.5]),
        "A Cloud's weights are non-negative; got -0.5. "
        "Write `weights / weights.sum()` of non-negative weights, or `uniform(atoms)`.",
    ),
    "weight nan": (
        lambda: Cloud(np.ones((2, 1)), [np.nan, 1.0]),
        "A Cloud's weights are non-negative; got nan. "
        "Write `weights / weights.sum()` of non-negative weights, or `uniform(atoms)`.",
    ),
    "nan": (
        lambda: uniform([[0.0, 1.0], [3.0, np.nan]]),
        "A Cloud's atoms are finite; got [ 3. nan] at atom 1. "
        "Drop such atoms, or make the step that produced them smaller.",
    ),
    "words": (
        lambda: uniform([["a", "b"]]),
        "A Cloud's table of atoms is an array of real numbers; got a list of 1. Write the numbers as floats.",
    ),
    "line": (
        lambda: uniform(np.arange(3.0)),
        "A Cloud holds n atoms in R^p, n and p at least one; got atoms (3,). "
        "For atoms on the line write `uniform(values[:, None])`.",
    ),
    "stack": (
        lambda: stack_clouds([PLANE, SPACE]),
        "stack_clouds takes at least one cloud, all with atoms of the same shape; got shapes [(2, 2), (3, 3)]. "
        "Bring them to n atoms with `cloud.resample(key, n)`.",
    ),
    "push": (
        lambda: PLANE.push(np.eye(3)),
        "push takes a function of one atom, or a matrix with 2 columns for a cloud in R^2; got shape (3, 3). "
        "Write `cloud.push(lambda z: ...)` or transpose the matrix.",
    ),
    "rep": (
        lambda: PLANE.orbit(natural_rep(Cyclic(3))),
        "A representation of dimension k acts on clouds in R^k; got dimension 3 and a cloud in R^2. "
        "Write a representation of dimension 2, such as the unit's `action(on_x, on_y)`.",
    ),
    "rep of a distance": (
        lambda: wi_distance(PLANE, natural_rep(Cyclic(3))),
        "A representation of dimension k acts on clouds in R^k; got dimension 3 and a cloud in R^2. "
        "Write a representation of dimension 2, such as the unit's `action(on_x, on_y)`.",
    ),
    "projector": (
        lambda: si_distance(PLANE, np.eye(3)),
        "A projector on R^2 is a (2, 2) matrix; got shape (3, 3). "
        "Write `rep.fixed_projector()` of a representation of that dimension.",
    ),
    "infinite": (
        lambda: wi_bounds(KEY, SPACE, natural_rep(SpecialOrthogonal(3))),
        "An orbit is a finite sum over the group; got the infinite SpecialOrthogonal(3). "
        "Write `elements=group.haar(key, 64)` to average over 64 draws.",
    ),
    "resample": (
        lambda: PLANE.resample(KEY, 0),
        "resample's n is a whole number >= 1; got 0. Write 1, for example.",
    ),
    "dimensions": (
        lambda: w2(PLANE, SPACE),
        "A distance compares clouds in the same R^p; got p = 2 and p = 3. "
        "Write `cloud.push(matrix)` to bring both to one dimension.",
    ),
    "stacked": (
        lambda: w2(stack_clouds([PLANE, PLANE]), PLANE),
        "A distance takes one cloud at a time; got a stack with atoms (2, 2, 2). "
        "Write `jax.tree.map(lambda leaf: leaf[0], clouds)` for its first cloud.",
    ),
    "size": (
        lambda: w2(LARGE, LARGE),
        "Exact transport solves up to 25,000,000 pairs of atoms unasked; got 6,000 × 6,000, "
        "which takes about 18 s and 0.4 GB. Write `force=True` to wait, "
        "or take bounds: `w2_bounds`, or `wi_bounds` for the distance to the orbit.",
    ),
    "order": (
        lambda: sliced(KEY, PLANE, PLANE, order=3),
        "sliced takes order 1 or 2; got 3. Write `sliced(key, mu, nu, order=2)`.",
    ),
    "width": (
        lambda: mmd_squared(PLANE, PLANE, width=0),
        "mmd_squared's width is a finite number > 0; got 0. Write 0.5, for example.",
    ),
    "blur": (
        lambda: sinkhorn(PLANE, PLANE, blur=float("nan")),
        "sinkhorn's blur is a finite number; got nan. Write a number such as 0.5.",
    ),
    "iterations": (
        lambda: sinkhorn(uniform(np.eye(5)), uniform(np.arange(20.0).reshape(4, 5)), iterations=1),
        "sinkhorn stops when its marginals are right; they were not after 1 iterations. "
        "Write a larger `blur` or more `iterations`, or take `w2` or `w2_bounds`.",
    ),
    "ragged": (
        lambda: uniform([[1, 2], [3]]),
        "A Cloud's table of atoms is an array of numbers; got rows of different lengths. Write rows of one length.",
    ),
    "one cloud": (
        lambda: stack_clouds(PLANE),
        "stack_clouds's clouds is a list; got a Cloud. Write [a Cloud, ...].",
    ),
    "no projector": (
        lambda: si_distance(PLANE, 5 * np.eye(2)),
        "A projector P is orthogonal, P = Pᵀ = P²; got a matrix that is off by 20. "
        "Write `rep.fixed_projector()` of a representation.",
    ),
    "no elements": (
        lambda: wi_distance(PLANE, natural_rep(SpecialOrthogonal(2)), elements=np.ones((3, 2, 2))),
        "SpecialOrthogonal(2) acts through its own elements, which are orthogonal matrices; got `elements` that are "
        "not. Write `elements=group.haar(key, 64)`, say.",
    ),
    "shape of elements": (
        lambda: wi_rmd(PLANE, natural_rep(SpecialOrthogonal(2)), elements=np.eye(2)),
        "`elements` is a list of elements of SpecialOrthogonal(2), an array (m, 2, 2); got shape (2, 2). "
        "Write `elements=group.haar(key, 64)`, say.",
    ),
    "plane": (
        lambda: orbit_mmd_squared(PLANE, natural_rep(SpecialOrthogonal(2))),
        "An orbit is a finite sum over the group; got the infinite SpecialOrthogonal(2). "
        "Write `elements=SpecialOrthogonal(2).grid(32)`: the averages over n equispaced rotations are exact once n "
        "exceeds the largest weight.",
    ),
    "infinite width": (
        lambda: mmd_squared(PLANE, PLANE, width=float("inf")),
        "mmd_squared's width is a finite number; got inf. Write a number such as 0.5.",
    ),
    "no block": (
        lambda: mmd_squared(PLANE, PLANE, block=0),
        "mmd_squared's block is a whole number >= 1; got 0. Write 1, for example.",
    ),
    "traced": (
        lambda: jax.jit(lambda cloud: w2(cloud, PLANE))(PLANE),
        "A distance between clouds is computed on the host, outside of compiled programs; got a cloud that is being "
        "traced. Call it outside of jit, vmap and grad; `si_distance` and `si_rmd` work inside.",
    ),
    "rounds": (
        lambda: w2_bounds(KEY, PLANE, PLANE, rounds=10**18),
        "w2_bounds in 1e+18 rounds takes up to an hour unasked; this takes about 1.11e+10 hours. Write fewer `rounds`.",
    ),
    "beyond": (
        lambda: w2(PLANE, uniform(np.full((1, 2), 1e305))),
        "A distance takes atoms of a size up to 1e+300, so that it is a number itself; got 1e+305. "
        "Divide the clouds by a unit of their own.",
    ),
    "turns": (
        lambda: circle_correction(PLANE, np.array([[0.0, -0.5], [0.5, 0.0]]), 8),
        "A circle action turns a whole number of times per revolution in each plane; got [0.5, 0.5] turns. "
        "Scale the speed so that one revolution takes 2π.",
    ),
    "circle": (
        lambda: circle_correction(PLANE, natural_rep(Cyclic(2)), 8),
        "circle_correction takes a representation of SO(2); got one of Cyclic(2). Write one of `SpecialOrthogonal(2)`.",
    ),
    "speed": (
        lambda: circle_correction(SPACE, np.zeros((2, 2)), 8),
        "A circle action on R^3 has a skew (3, 3) matrix as its speed; got shape (2, 2). "
        "Write a representation of SO(2) of dimension 3.",
    ),
    "rotations": (
        lambda: circle_correction(PLANE, np.zeros((2, 2)), 0),
        "circle_correction's n is a whole number >= 1; got 0. Write 1, for example.",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_the_rule_what_it_got_and_what_to_write(case):
    act, sentence = REFUSALS[case]
    with pytest.raises(Refusal) as caught:
        act()
    assert str(caught.value) == sentence


def test_progress_announces_the_cost_before_the_solve():
    heard = []
    w2(uniform(np.eye(3)), SPACE, progress=heard.append)
    assert heard == ["exact transport of 3 to 3 atoms: about 0 s and 0.0 GB"]


def test_force_solves_beyond_the_limit(monkeypatch):
    monkeypatch.setattr("haarflow.measures.transport.EXACT_LIMIT", 4)
    with pytest.raises(Refusal):
        w2(SPACE, SPACE)
    assert w2(SPACE, SPACE, force=True) == 0


def test_weights_in_single_precision_get_single_precision_slack():
    weights = np.full(3, 1 / 3, np.float32)
    Cloud(np.eye(3, dtype=np.float32), weights)
    with pytest.raises(Refusal, match="sum to one"):
        Cloud(np.eye(3), np.full(3, 1 / 3) + 1e-8)


def test_traced_values_are_not_read():
    jax.jit(lambda weights: Cloud(np.eye(2), weights).mean())(np.array([2.0, 3.0]))
