"""Groups beside their laws (test_members.py): orders, closures, draws, and what is refused."""

import math

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from haarflow.algebra import cache, chains
from haarflow.algebra.base import Finite, Group
from haarflow.algebra.generated import Matrices, Permutations
from haarflow.algebra.groups import Alternating, Cyclic, Dihedral, Hyperoctahedral, PlanarRotations, Signs, Symmetric
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.products import direct_product
from haarflow.algebra.reps import natural_rep
from haarflow.algebra.tables import match
from haarflow.errors import Refusal
from haarflow.members import members

GROUPS = members(Group)
DRAWS = 20_000
exact = settings(max_examples=30, deadline=None, derandomize=True)
every = pytest.mark.parametrize("group", GROUPS, ids=str)


def test_the_moments_see_an_unsigned_factorisation():
    """The oldest slip in the field: Q of a Gaussian matrix as LAPACK returns it is far from Haar."""
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((DRAWS, 3, 3)))[0]
    assert np.max(np.abs(q.mean(axis=0))) > 0.4


@every
def test_groups_are_told_apart(group):
    assert sum(group == other for other in GROUPS) == 1
    if isinstance(group, SpecialOrthogonal):
        np.testing.assert_allclose(np.linalg.det(group.haar(3, 100)), 1.0, atol=1e-12)


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
