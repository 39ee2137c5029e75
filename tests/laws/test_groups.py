"""Every group: orthogonal, closed, exactly Haar, and a constant of compiled programs."""

import functools

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from haarflow.algebra.generated import Matrices, Permutations
from haarflow.algebra.groups import Dihedral, Orthogonal, Rotations, SpecialOrthogonal, Symmetric
from haarflow.algebra.kinds import Finite, Group
from haarflow.algebra.products import product
from haarflow.algebra.reps import natural
from haarflow.algebra.tables import match
from haarflow.members import members

GROUPS = members(Group)
FINITE = [group for group in GROUPS if isinstance(group, Finite)]
DRAWS = 20_000
exact = settings(max_examples=30, deadline=None, derandomize=True)
every = pytest.mark.parametrize("group", GROUPS, ids=str)
every_finite = pytest.mark.parametrize("group", FINITE, ids=str)


@functools.cache
def draws(group):
    """Drawn inside jit, where flows draw; one compilation for each group."""
    return np.asarray(jax.jit(lambda key: group.haar(key, DRAWS))(jax.random.key(11)))


@every
def test_generators_are_orthogonal_and_the_lie_algebra_is_skew(group):
    generators, lie = group.generators(), group.lie_algebra()
    assert generators.shape[1:] == lie.shape[1:] == (group.dim, group.dim)
    assert generators.dtype == lie.dtype == np.float64
    gram = np.swapaxes(generators, 1, 2) @ generators
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(group.dim), gram.shape), atol=1e-14)
    np.testing.assert_array_equal(lie, -np.swapaxes(lie, 1, 2))


@every_finite
def test_elements_make_a_group_with_the_identity_first(group):
    elements = group.elements()
    assert elements.shape == (group.order, group.dim, group.dim)
    np.testing.assert_array_equal(elements[0], np.eye(group.dim))
    np.testing.assert_array_equal(match(elements, elements), np.arange(group.order))
    for g in elements:
        assert np.array_equal(np.sort(match(elements, g @ elements)), np.arange(group.order))
    assert np.all(match(elements, np.swapaxes(elements, 1, 2)) >= 0)


@every_finite
def test_the_generators_make_all_the_elements(group):
    reached = {0}
    todo = [0]
    for here in todo:
        fresh = {group.index(group.elements()[here] @ s) for s in group.generators()} - reached
        reached |= fresh
        todo += sorted(fresh)
    assert len(reached) == group.order


@every
def test_draws_are_elements(group):
    found = draws(group)
    assert found.shape == (DRAWS, group.dim, group.dim)
    gram = np.swapaxes(found, 1, 2) @ found
    np.testing.assert_allclose(gram, np.broadcast_to(np.eye(group.dim), gram.shape), atol=1e-12)
    if isinstance(group, Finite):
        assert np.all(match(group.elements(), found) >= 0)
    if isinstance(group, SpecialOrthogonal):
        np.testing.assert_allclose(np.linalg.det(found), 1.0, atol=1e-12)


@every
def test_draws_have_the_moments_of_haar(group):
    """The mean of g, g⊗g, g⊗g⊗g over draws is the projector on the fixed space, entry by entry.

    Entries lie in [−1, 1], so by Hoeffding an entry is off by 0.05 at 20000 draws with probability below
    3e-11, and one of the 16000 entries of a group with probability below 5e-7; the key is fixed.
    """
    d, g = group.dim, draws(group)
    two = np.einsum("nij,nkl->nikjl", g, g, optimize=True)
    three = np.tensordot(two, g, axes=(0, 0)).transpose(0, 1, 4, 2, 3, 5)
    for power, mean in ((1, g.mean(axis=0)), (2, two.mean(axis=0)), (3, three / DRAWS)):
        projector = (natural(group) ** power).fixed_projector()
        np.testing.assert_allclose(mean.reshape(d**power, d**power), projector, atol=0.05)


@every_finite
def test_draws_are_uniform_on_the_elements(group):
    """Chi-square over the elements at 20000 draws; alarm at p < 1e-6, with a fixed key."""
    counts = np.bincount(match(group.elements(), draws(group)), minlength=group.order)
    assert scipy.stats.chisquare(counts).pvalue > 1e-6 if group.order > 1 else counts[0] == DRAWS


def test_the_moments_see_an_unsigned_factorisation():
    """The oldest slip in the field: Q of a Gaussian matrix as LAPACK returns it is far from Haar."""
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((DRAWS, 3, 3)))[0]
    assert np.max(np.abs(q.mean(axis=0))) > 0.4


@every
def test_the_weights_of_classes_integrate_the_moments_of_the_trace(group):
    elements, weights = group.classes(4)
    assert np.sum(weights) == pytest.approx(1.0, abs=1e-14)
    traces = np.trace(elements, axis1=1, axis2=2)
    for power in (1, 2, 3):
        dimension = (natural(group) ** power).fixed_basis().shape[1]
        assert np.sum(weights * traces**power) == pytest.approx(dimension, abs=1e-11)


@every
def test_groups_are_constants(group):
    again = type(group).examples()[type(group).examples().index(group)]
    assert again == group
    assert hash(again) == hash(group)
    assert sum(group == other for other in GROUPS) == 1
    assert jax.tree.leaves(group) == []


@every
def test_probes_belong_to_the_group(group):
    probes = group.probes()
    np.testing.assert_array_equal(probes[0], np.eye(group.dim))
    if isinstance(group, Finite):
        assert np.all(match(group.elements(), probes) >= 0)
    assert np.allclose(np.swapaxes(probes, 1, 2) @ probes, np.eye(group.dim))


def test_grids_of_the_plane_are_equispaced():
    turns = SpecialOrthogonal(2).grid(6)
    np.testing.assert_allclose(turns[2], scipy.linalg.expm(2 * np.pi / 3 * np.array([[0.0, -1.0], [1.0, 0.0]])))
    assert np.array_equal(turns, Rotations(6).elements())
    assert np.array_equal(Orthogonal(2).grid(3), Dihedral(3).elements())


def test_quarter_turns_are_exact():
    assert set(np.unique(Dihedral(4).elements())) == {-1.0, 0.0, 1.0}


def test_a_product_is_finite_when_both_factors_are():
    assert isinstance(Symmetric(3) * Rotations(2), Finite)
    assert not isinstance(product(Symmetric(3), SpecialOrthogonal(2)), Finite)


def permutations(n):
    return st.lists(st.permutations(range(n)), min_size=1, max_size=3)


@exact
@given(st.integers(1, 5).flatmap(permutations))
def test_permutations_and_their_matrices_make_the_same_group(generators):
    chain = Permutations(generators)
    closed = Matrices(chain.generators())
    assert chain.order == closed.order
    assert np.array_equal(np.sort(match(chain.elements(), closed.elements())), np.arange(chain.order))


@exact
@given(st.integers(2, 4).flatmap(permutations), st.integers(0, 100))
def test_a_change_of_basis_keeps_the_order(generators, seed):
    chain = Permutations(generators)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((chain.dim, chain.dim)))[0]
    turned = Matrices(basis @ chain.generators() @ basis.T)
    assert turned.order == chain.order
    assert np.all(match(basis @ chain.elements() @ basis.T, turned.elements()) >= 0)


def test_a_huge_permutation_group_is_counted_and_drawn_without_a_list():
    group = Permutations([np.roll(np.arange(20), -1), [1, 0, *range(2, 20)]])
    assert group.order == Symmetric(20).order
    draws = np.asarray(jax.jit(lambda key: group.haar(key, 2000))(jax.random.key(0)))
    np.testing.assert_allclose(draws.mean(axis=0), 1 / 20, atol=0.05)
