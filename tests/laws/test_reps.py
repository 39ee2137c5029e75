"""Representations beside their laws (test_members.py): sums, products, fixed spaces, and what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from haarflow.algebra import fixed_space
from haarflow.algebra.base import Finite
from haarflow.algebra.characters import character_dimension
from haarflow.algebra.generated import Permutations
from haarflow.algebra.groups import Cyclic, Dihedral, Hyperoctahedral, PlanarRotations, Signs, Symmetric, Trivial
from haarflow.algebra.lie_groups import SpecialOrthogonal
from haarflow.algebra.products import lift
from haarflow.algebra.reps import Rep, natural_rep, one_group, trivial_rep
from haarflow.algebra.user_reps import image_rep, permutation_rep, regular_rep, represent
from haarflow.errors import Refusal
from haarflow.members import members
from haarflow.practice.laws import laws_of

REPS = members(Rep)
exact = settings(max_examples=12, deadline=None, derandomize=True)
every = pytest.mark.parametrize("rep", REPS, ids=str)


def close(a, b, atol=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=atol)


@every
def test_representations_are_told_apart(rep):
    assert sum(rep == other for other in REPS) == 1


@every
def test_numpy_stays_in_float64_when_jax_does_not(rep):
    g = rep.group.probes()[-1]
    expected = rep(g)
    with jax.enable_x64(False):
        assert rep(g).dtype == np.float64
        close(rep(g), expected, atol=1e-15)
        assert rep(jnp.asarray(g)).dtype == jnp.float32


GROUPS = [
    Cyclic(3),
    Symmetric(3),
    Dihedral(4),
    Hyperoctahedral(2),
    Signs(2),
    PlanarRotations(3),
    SpecialOrthogonal(2),
]


@st.composite
def expressions(draw, group):
    """Sums, products and multiples of representations of one group."""
    leaf = st.sampled_from([natural_rep(group), trivial_rep(group, 2)])
    grow = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: 2 * a,
        lambda a, b: a.hom(b),
        lambda a, b: a.dual,
    ]
    found = draw(leaf)
    for _ in range(draw(st.integers(0, 3))):
        bigger = draw(st.sampled_from(grow))(found, draw(leaf))
        found = bigger if bigger.dim <= 24 else found
    return found


@exact
@given(st.sampled_from(GROUPS).flatmap(expressions))
def test_every_expression_meets_the_laws(rep):
    for law in laws_of(Rep):
        if "compiled" not in law.name:  # a program for every expression
            found = law.judge(rep)
            assert found.holds, str(found)


@exact
@given(st.sampled_from([g for g in GROUPS if isinstance(g, Finite)]).flatmap(expressions))
def test_orbits_span_the_null_space(rep):
    moves = [rep(g) - np.eye(rep.dim) for g in rep.group.generators()]
    null = fixed_space.null_basis(moves, rep.dim)
    close(null @ null.T, rep.fixed_projector())


@exact
@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=2)))
def test_orbits_are_those_of_the_permutations(generators):
    rep = natural_rep(Permutations(generators))
    labels, signs = rep.orbits()
    assert np.all(signs == 1)
    for i in range(rep.dim):
        reached = {int(np.argmax(g[:, i])) for g in rep.group.elements()}
        assert reached == set(np.flatnonzero(labels == labels[i]))


def test_a_sign_kills_an_orbit_and_ties_another_by_sign():
    swap_and_flip = Permutations([(1, 0, 2)])
    rep = represent(swap_and_flip, elements=[np.eye(3), [[0, -1, 0], [-1, 0, 0], [0, 0, -1]]])
    labels, signs = rep.orbits()
    np.testing.assert_array_equal(labels, [0, 0, -1])
    np.testing.assert_array_equal(signs[:2], [1, -1])


def test_hom_moves_matrices_between_the_two_spaces():
    group = Symmetric(3)
    a, b = natural_rep(group), natural_rep(group) + trivial_rep(group)
    z = np.random.default_rng(3).standard_normal((4, 3))
    for g in group.elements():
        close(a.hom(b).apply(g, z.ravel()), (b(g) @ z @ a(g).T).ravel())


def test_a_multiple_is_copies_side_by_side():
    rep = natural_rep(Dihedral(3))
    for g in rep.group.elements():
        close((3 * rep)(g), scipy.linalg.block_diag(rep(g), rep(g), rep(g)))
    assert rep * 3 == 3 * rep
    assert 1 * rep == rep**1 == rep


def test_image_turns_are_those_of_numpy():
    picture = np.arange(9.0).reshape(3, 3)
    quarter, flip = Dihedral(4).generators()
    rep = image_rep(Dihedral(4), 3, 3)
    np.testing.assert_array_equal(rep.apply(quarter, picture.ravel()).reshape(3, 3), np.rot90(picture))
    np.testing.assert_array_equal(rep.apply(flip, picture.ravel()).reshape(3, 3), np.flipud(picture))
    wide = np.arange(8.0).reshape(2, 4)
    half = image_rep(PlanarRotations(2), 2, 4).apply(PlanarRotations(2).elements()[1], wide.ravel()).reshape(2, 4)
    np.testing.assert_array_equal(half, np.rot90(wide, 2))


def test_the_regular_representation_is_left_multiplication():
    group = Symmetric(3)
    rep = regular_rep(group)
    for g in group.elements():
        np.testing.assert_array_equal(rep.permutation(g), [group.index(g @ h) for h in group.elements()])
    assert regular_rep(Trivial(2)).dim == 1


def test_generators_are_extended_to_the_group():
    group = Symmetric(4)
    sign = represent(group, generators=[[[-1.0]], [[-1.0]]])
    np.testing.assert_array_equal(sign.matrices()[:, 0, 0], np.round(np.linalg.det(group.elements())))
    corners = permutation_rep(Dihedral(4), generators=[(1, 2, 3, 0), (3, 2, 1, 0)])
    points = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    assert corners == permutation_rep(Dihedral(4), points)


def test_a_function_serves_inside_jit_and_can_be_made_there():
    group = SpecialOrthogonal(2)

    def double(g):
        return jnp.matmul(g, g)

    @jax.jit
    def inside(g):
        return represent(group, double, dim=2)(g)

    g = group.grid(7)[2]
    close(inside(jnp.asarray(g)), group.grid(7)[4])
    close(represent(group, double, dim=2).derivative(group.lie_algebra()[0]), 2 * group.lie_algebra()[0], 1e-11)


def test_both_factors_of_a_product_act_on_a_point_set():
    a, b = Symmetric(2), SpecialOrthogonal(3)
    both = a * b
    rep = lift(natural_rep(a), both, 0) * lift(natural_rep(b), both, 1)
    g, h = a.elements()[1], np.asarray(b.haar(jax.random.key(0), 1)[0])
    z = np.arange(6.0).reshape(2, 3)
    close(rep.apply(scipy.linalg.block_diag(g, h), z.ravel()), (g @ z @ h.T).ravel())
    assert (rep * rep).fixed_basis().shape[1] == character_dimension(rep * rep) == 2


def test_equal_representations_share_their_work():
    first, again = (functools.reduce(lambda a, b: a * b, [natural_rep(Symmetric(4))] * 2) for _ in range(2))
    assert first.fixed_basis() is again.fixed_basis()
    assert not first.fixed_basis().flags.writeable


@pytest.mark.parametrize("group", [Symmetric(5), Dihedral(30), Hyperoctahedral(3) * Cyclic(2)], ids=str)
def test_a_function_that_fails_on_few_elements_is_refused(group):
    """The determinant with the sign changed on 1, 2 or 8 elements, ten times each: the check looks at every element."""
    draw = np.random.default_rng(5)
    for count in (1, 2, 8) * 10:
        wrong = group.elements()[draw.choice(np.arange(1, group.order), count, replace=False)]

        def sign(g, wrong=wrong):
            return np.linalg.det(g)[None, None] * (1 - 2 * np.any(np.all(np.abs(wrong - g) < 1e-6, axis=(1, 2))))

        with pytest.raises(Refusal, match="A representation keeps products"):
            represent(group, sign, dim=1)


def _sign(g):
    return np.linalg.det(np.asarray(g))[None, None]


def test_a_representation_says_when_it_was_checked_by_sampling():
    small, large = represent(Symmetric(7), _sign, dim=1), represent(Symmetric(8), _sign, dim=1)
    assert (small.sampled, large.sampled) == (False, True)
    assert str(small) == "represent(Symmetric(7), _sign, dim=1)"
    assert str(large) == "represent(Symmetric(8), _sign, dim=1, checked by sampling)"
    assert represent(SpecialOrthogonal(2), lambda g: jnp.matmul(g, g), dim=2).sampled
    for built in (
        large + large,
        large * trivial_rep(large.group, 2),
        lift(large, large.group * Cyclic(2), 0),
        large**2,
    ):
        assert built.sampled
    assert not any(rep.sampled for rep in REPS if isinstance(rep.group, Finite))


@pytest.mark.parametrize("group", [Symmetric(8), SpecialOrthogonal(3)], ids=str)
def test_sampling_sees_a_fault_on_one_element_in_ten(group):
    """64 random pairs: a fault on a tenth of the elements escapes with probability below 0.9^128 = 1.4e-6."""

    def sign(g):
        return np.array([[-1.0 if g[0, 0] > 0.7 else 1.0]])

    share = np.mean([sign(g)[0, 0] < 0 for g in np.asarray(group.haar(0, 2000))])
    assert 0.1 < share < 0.2
    with pytest.raises(Refusal, match="A representation keeps products"):
        represent(group, sign, dim=1)


def test_equal_functions_make_equal_representations():
    first, again = (represent(Cyclic(3), lambda g: jnp.linalg.det(g)[None, None], dim=1) for _ in range(2))
    assert first == again
    assert hash(first) == hash(again)
    assert first.matrices() is again.matrices()


@every
def test_every_representation_refuses_what_belongs_to_another_group(rep):
    """An element of another size, a skewed matrix, and a stranger of the right size where there is one."""
    other = natural_rep(Cyclic(5) if rep.group != Cyclic(5) else Cyclic(7))
    size = rep.group.dim
    strangers = [np.eye(size + 1), np.ones((size, size)) * 2, np.full((size, size), np.nan), "x", None]
    turned = scipy.linalg.expm(0.1 * np.triu(np.ones((size, size)), 1) - 0.1 * np.tril(np.ones((size, size)), -1))
    if isinstance(rep.group, Finite) and size > 1:
        strangers.append(turned)
    for stranger in strangers:
        for ask in (rep, rep.signed, rep.character, lambda g: rep.apply(g, np.ones(rep.dim))):
            with pytest.raises(Refusal):
                ask(stranger)
    for combine in (
        lambda: rep + other,
        lambda: other + rep,
        lambda: rep * other,
        lambda: rep.hom(other),
        lambda: one_group("This", rep, other),
        lambda: lift(rep, other.group * other.group, 0),
        lambda: rep + rep.group,
    ):
        with pytest.raises(Refusal):
            combine()


@every
def test_lists_integers_and_single_precision_are_welcome(rep):
    g = rep.group.probes()[-1]
    z = np.arange(2 * rep.dim).reshape(2, rep.dim)
    expected = rep.apply(g, z.astype(float))
    close(rep.apply(g.tolist(), z.tolist()), expected)
    close(rep(g.tolist()), rep(g), atol=0)
    close(rep.apply(g.astype(np.float32), z.astype(np.float32)), expected, atol=1e-3)
    assert jnp.issubdtype(rep(jnp.eye(rep.group.dim, dtype=jnp.int32)).dtype, jnp.floating)
