"""Every group: orthogonal, closed, exactly Haar, and a constant of compiled programs."""

import functools
import math

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from haarflow.algebra import cache, chains
from haarflow.algebra.base import Finite, Group, element
from haarflow.algebra.generated import Matrices, Permutations
from haarflow.algebra.groups import (
    Alternating,
    Cyclic,
    Dihedral,
    Hyperoctahedral,
    Orthogonal,
    PlanarRotations,
    Signs,
    SpecialOrthogonal,
    Symmetric,
)
from haarflow.algebra.products import direct_product
from haarflow.algebra.reps import natural_rep
from haarflow.algebra.tables import match
from haarflow.errors import Refusal
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
        projector = (natural_rep(group) ** power).fixed_projector()
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
        dimension = (natural_rep(group) ** power).fixed_basis().shape[1]
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
    assert np.array_equal(turns, PlanarRotations(6).elements())
    assert np.array_equal(Orthogonal(2).grid(3), Dihedral(3).elements())


def test_quarter_turns_are_exact():
    assert set(np.unique(Dihedral(4).elements())) == {-1.0, 0.0, 1.0}


def test_a_product_is_finite_when_both_factors_are():
    assert isinstance(Symmetric(3) * PlanarRotations(2), Finite)
    assert not isinstance(direct_product(Symmetric(3), SpecialOrthogonal(2)), Finite)


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


@every
def test_keys_of_both_kinds_and_seeds_draw_the_same(group):
    expected = group.haar(jax.random.key(7), 5)
    for key in (7, np.int64(7), jax.random.PRNGKey(7)):
        np.testing.assert_array_equal(group.haar(key, 5), expected)


@every
@pytest.mark.parametrize(("key", "n"), [(0, -1), (0, 2.5), (0, "x"), (0, 10**18), ("x", 2), (None, 2), (-1, 2)])
def test_draws_that_cannot_be_are_refused(group, key, n):
    with pytest.raises(Refusal):
        group.haar(key, n)


@every
def test_every_group_knows_its_elements_from_others(group):
    """Haar draws in both precisions belong; a tenth of a turn off them, a skewed matrix and another size do not."""
    for g in np.asarray(group.haar(7, 5)):
        assert element(group, g) is not None
        assert element(group, g.astype(np.float32)).dtype == np.float64
        for other in (2 * g, g + 1e-3, np.pad(g, 1), g * np.nan):
            with pytest.raises(Refusal):
                element(group, other)
    if group.dim > 1 and isinstance(group, Finite):
        skew = np.triu(np.ones((group.dim, group.dim)), 1)
        with pytest.raises(Refusal, match="acts through its own elements; got a matrix that is none of them"):
            element(group, scipy.linalg.expm(0.1 * (skew - skew.T)))


def test_groups_of_signed_permutations_tell_each_other_apart():
    shift, swap, sign = np.roll(np.eye(4), 1, axis=0), np.eye(4)[[1, 0, 2, 3]], np.diag([-1.0, 1.0, 1.0, 1.0])
    homes = {
        Cyclic(4): [True, False, False],
        Symmetric(4): [True, True, False],
        Alternating(4): [False, False, False],
        Signs(4): [False, False, True],
        Hyperoctahedral(4): [True, True, True],
        SpecialOrthogonal(4): [False, False, False],
        Orthogonal(4): [True, True, True],
        Permutations([(1, 2, 3, 0)]): [True, False, False],
        Symmetric(2) * Symmetric(2): [False, True, False],
    }
    for group, expected in homes.items():
        assert [group.holds(g, 1e-6) for g in (shift, swap, sign)] == expected


def test_rows_of_equal_prints_are_found_in_single_precision():
    """A million turns lie closer than the tolerance of single precision in the direction that sorts them."""
    group = PlanarRotations(1_000_000)
    places = np.random.default_rng(0).integers(0, group.order, 20_000)
    rough = group.elements()[places].astype(np.float32).astype(float)
    found = match(group.elements(), rough, 1e-6)
    np.testing.assert_array_equal(found, places)


def _mathieu():
    """M24 on the points of the projective line over the field of 23 elements (Conway): order 244 823 040."""
    squares = {pow(i, 2, 23) for i in range(1, 23)}
    shift = [*((i + 1) % 23 for i in range(23)), 23]
    turn = [23, *(-pow(i, -1, 23) % 23 for i in range(1, 23)), 0]
    extra = [0, *(pow(i, 3, 23) * (pow(9, -1, 23) if i in squares else 9) % 23 for i in range(1, 23)), 23]
    return [shift, turn, extra]


def _rubik():
    from sympy.combinatorics.generators import rubik_cube_generators

    return [p.array_form for p in rubik_cube_generators()]


def _twice(n):
    """All permutations of n points, moving two copies of them alike."""
    return [[*p, *(n + np.array(p))] for p in ([*range(1, n), 0], [1, 0, *range(2, n)])]


def _pairs(n):
    """The permutations of n pairs of points that may also turn a pair around."""
    flip, pairs = np.array([1, 0, *range(2, 2 * n)]), np.arange(2 * n).reshape(n, 2)
    return [flip, pairs[[*range(1, n), 0]].ravel(), pairs[[1, 0, *range(2, n)]].ravel()]


ORDERS = {
    "all 60": ([[*range(1, 60), 0], [1, 0, *range(2, 60)]], math.factorial(60)),
    "all 100": ([[*range(1, 100), 0], [1, 0, *range(2, 100)]], math.factorial(100)),
    "even 51": ([[*range(1, 51), 0], [1, 2, 0, *range(3, 51)]], math.factorial(51) // 2),
    "Mathieu": (_mathieu(), 244_823_040),
    "cube": (_rubik(), 43_252_003_274_489_856_000),
    "twice 20": (_twice(20), math.factorial(20)),
    "pairs 15": (_pairs(15), 2**15 * math.factorial(15)),
    "turns 40": ([np.roll(np.arange(40), 1)], 40),
    "nothing": ([np.arange(7)], 1),
}


@pytest.mark.parametrize("name", ORDERS)
def test_known_orders_of_groups_of_permutations(name):
    """S_100 took longer than anybody waited before; each of these takes a second at most on a free core."""
    generators, order = ORDERS[name]
    assert Permutations(generators).order == order


@exact
@given(st.integers(1, 12).flatmap(permutations))
def test_orders_are_those_of_sympy(generators):
    from sympy.combinatorics import Permutation, PermutationGroup

    assert Permutations(generators).order == PermutationGroup([Permutation(list(p)) for p in generators]).order()


@exact
@given(st.integers(1, 7).flatmap(permutations), st.integers(0, 10**6))
def test_a_chain_that_was_found_too_short_is_proven_to_its_end(generators, seed):
    """Without random elements the chain begins short; the proof must find what is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "_random", lambda given: iter([given] * chains.QUIET))
        levels = chains.stabilisers(np.array(generators))
    order = Matrices(Permutations(generators).generators()).order
    assert math.prod(len(level.there) for level in levels) == order
    for g in np.random.default_rng(seed).permuted(np.tile(np.arange(len(generators[0])), (5, 1)), axis=1):
        matrix = np.eye(len(g))[:, g].T
        assert chains.belongs(levels, g) == bool(np.all(match(Permutations(generators).elements(), matrix[None]) >= 0))


def test_tables_are_forgotten_when_they_hold_too_many_bytes():
    shelf = cache.Shelf(10_000)
    for size in (500, 400, 300, 200):
        shelf.get(size, lambda size=size: np.zeros(size))
        assert shelf.held <= 10_000
    kept = shelf.get(200, lambda: None)
    assert kept.shape == (200,)
    assert shelf.get(500, lambda: "made again") == "made again"
    huge = shelf.get("huge", lambda: np.zeros(10_000))
    assert shelf.get("huge", lambda: None) is huge


def test_all_that_the_algebra_remembers_lies_on_one_shelf():
    """Lists of elements and of matrices, up to 29 kB each: never more than the shelf may hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SHELF", cache.Shelf(100_000))
        for n in range(90, 101):
            rep = natural_rep(PlanarRotations(n))
            assert rep.matrices() is rep.matrices()
            assert (rep + rep).fixed_projector().shape == (4, 4)
            assert (rep + rep + rep).matrices().nbytes == 8 * 36 * n
            assert cache.SHELF.held <= 100_000
        assert cache.SHELF.held > 50_000
