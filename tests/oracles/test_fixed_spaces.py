"""Fixed spaces against closed forms and other libraries, and fast enough for large groups."""

import time

import numpy as np
import pytest
import scipy.linalg

from haarflow.algebra import characters, fixed_space
from haarflow.algebra.characters import character_dimension
from haarflow.algebra.groups import (
    Alternating,
    Cyclic,
    Dihedral,
    Hyperoctahedral,
    Icosahedral,
    PlanarRotations,
    Signs,
    Symmetric,
)
from haarflow.algebra.lie_groups import Orthogonal, SpecialOrthogonal
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.algebra.user_reps import image_rep, regular_rep

BELL = {1: 1, 2: 2, 3: 5, 4: 15, 5: 52}


def dimension(rep):
    return rep.fixed_basis().shape[1]


@pytest.mark.parametrize("power", BELL)
def test_symmetric_tensors_are_counted_by_bell_numbers(power):
    rep = natural_rep(Symmetric(6)) ** power
    assert dimension(rep) == character_dimension(rep) == BELL[power]


def test_few_points_have_fewer_patterns_than_bell():
    assert dimension(natural_rep(Symmetric(2)) ** 4) == 8
    assert dimension(natural_rep(Symmetric(3)) ** 4) == 14


@pytest.mark.parametrize(
    ("group", "dimensions"),
    [
        (Cyclic(5), [1, 5, 25, 125]),
        (Signs(3), [0, 3, 0, 21]),
        (Hyperoctahedral(3), [0, 1, 0, 4]),
        (PlanarRotations(4), [0, 2, 0, 8]),
        (Dihedral(3), [0, 1, 1, 3]),
        (SpecialOrthogonal(2), [0, 2, 0, 6]),
        (Orthogonal(2), [0, 1, 0, 3]),
        (SpecialOrthogonal(3), [0, 1, 1, 3]),
        (Orthogonal(3), [0, 1, 0, 3]),
        (SpecialOrthogonal(4), [0, 1, 0, 4]),
        (Orthogonal(4), [0, 1, 0, 3]),
        (SpecialOrthogonal(5), [0, 1, 0, 3]),
    ],
    ids=str,
)
def test_known_dimensions_of_tensor_powers(group, dimensions):
    powers = [natural_rep(group) ** power for power in (1, 2, 3, 4)]
    assert [dimension(rep) for rep in powers] == dimensions
    assert [character_dimension(rep) for rep in powers] == dimensions


def test_the_fixed_tensors_of_rotations_are_delta_and_epsilon():
    v = natural_rep(SpecialOrthogonal(3))
    delta, epsilon = (v**2).fixed_basis()[:, 0], (v**3).fixed_basis()[:, 0].reshape(3, 3, 3)
    np.testing.assert_allclose(np.abs(delta.reshape(3, 3)), np.eye(3) / np.sqrt(3), atol=1e-14)
    assert abs(epsilon[0, 1, 2]) == pytest.approx(1 / np.sqrt(6))
    np.testing.assert_allclose(epsilon, -epsilon.transpose(1, 0, 2), atol=1e-14)


@pytest.mark.parametrize(
    "rep",
    [
        natural_rep(Dihedral(3)) ** 3,
        natural_rep(PlanarRotations(5)) ** 2 + trivial_rep(PlanarRotations(5)),
        natural_rep(Hyperoctahedral(2)) ** 4,
        image_rep(Dihedral(4), 4, 4),
        regular_rep(Symmetric(4)),
    ],
    ids=["turns", "sum", "signs", "image", "regular"],
)
def test_the_null_space_of_scipy_agrees(rep):
    stacked = np.concatenate([rep(g) - np.eye(rep.dim) for g in rep.group.generators()])
    null = scipy.linalg.null_space(stacked, rcond=1e-10)
    np.testing.assert_allclose(rep.fixed_projector(), null @ null.T, atol=1e-12)


def test_the_published_swap_fixes_the_identity_and_the_swap():
    rep = natural_rep(Cyclic(2)).hom(natural_rep(Cyclic(2)))
    expected = np.array([[1, 0, 0, 1], [0, 1, 1, 0]]).T / np.sqrt(2)
    np.testing.assert_allclose(rep.fixed_projector(), expected @ expected.T, atol=1e-15)


def test_equispaced_rotations_give_the_projector_once_they_exceed_the_weight():
    group = SpecialOrthogonal(2)
    rep = natural_rep(group) ** 3
    averages = {n: np.mean([rep(g) for g in group.grid(n)], axis=0) for n in (3, 4)}
    np.testing.assert_allclose(averages[4], rep.fixed_projector(), atol=1e-14)
    assert np.max(np.abs(averages[3] - rep.fixed_projector())) > 0.1


@pytest.mark.parametrize(("n", "seconds"), [(40, 0.05), (1000, 2.0)])
def test_large_symmetric_groups_are_fast(n, seconds):
    """Best of three, without the cache; S(1000) on V⊗V has a million coordinates."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        rep = natural_rep(Symmetric(n)) * natural_rep(Symmetric(n))
        basis = fixed_space.basis.__wrapped__(rep)
        times.append(time.perf_counter() - start)
    assert min(times) < seconds
    assert basis.shape == (n * n, 2)
    np.testing.assert_allclose(np.unique(basis), [0.0, 1 / np.sqrt(n * (n - 1)), 1 / np.sqrt(n)])


def test_the_character_formula_reaches_groups_too_large_to_list():
    assert character_dimension(natural_rep(Symmetric(20)) ** 3) == 5
    assert character_dimension(natural_rep(Symmetric(1000)) ** 2) == 2


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_the_icosahedron_averages_as_all_rotations_do_up_to_degree_five(degree):
    rep = natural_rep(SpecialOrthogonal(3)) ** degree
    mean = np.mean([np.asarray(rep(g)) for g in Icosahedral().elements()], axis=0)
    np.testing.assert_allclose(mean, rep.fixed_projector(), atol=1e-13)


def test_the_icosahedron_is_not_all_rotations_at_degree_six():
    group = Icosahedral()
    legendre = np.polynomial.Legendre.basis(6)
    axis = np.array([0.3, -0.5, np.sqrt(0.66)])
    assert abs(legendre(group.elements() @ axis @ axis).mean()) > 1e-3


@pytest.mark.parametrize(
    ("rep", "dimension"),
    [
        (natural_rep(Symmetric(40)) ** 2, 2),
        (natural_rep(Symmetric(1000)) ** 2, 2),
        (natural_rep(Alternating(30)) ** 3, 5),
        (natural_rep(Hyperoctahedral(30)) ** 2, 1),
        (natural_rep(Symmetric(60)) ** 2 + trivial_rep(Symmetric(60), 3), 5),
    ],
    ids=str,
)
def test_orbits_answer_where_the_classes_are_too_many(rep, dimension):
    """Burnside: S(40) took 67 s by its 37 338 classes and S(1000) did not answer; orbits take a second at most."""
    assert rep.group.count_classes(0) > characters.TERMS
    assert character_dimension(rep) == dimension


@pytest.mark.parametrize(
    "rep",
    [
        natural_rep(Symmetric(6)) ** 3,
        natural_rep(Hyperoctahedral(3)) ** 4,
        image_rep(Dihedral(4), 5, 5) ** 2,
        regular_rep(Symmetric(4)) * natural_rep(Symmetric(4)),
        natural_rep(Signs(3)) ** 4,
    ],
    ids=["S6", "B3", "image", "regular", "signs"],
)
def test_orbits_and_classes_count_the_same(rep, monkeypatch):
    by_classes = character_dimension(rep)
    monkeypatch.setattr(characters, "TERMS", 0)
    assert character_dimension(rep) == by_classes


@pytest.mark.parametrize(
    "group", [Symmetric(7), Orthogonal(3), Orthogonal(4), SpecialOrthogonal(5), Symmetric(3) * Orthogonal(2)], ids=str
)
def test_classes_are_as_many_as_were_counted(group):
    for degree in (0, 3):
        elements, weights = group.classes(degree)
        assert len(elements) == len(weights) == group.count_classes(degree)
