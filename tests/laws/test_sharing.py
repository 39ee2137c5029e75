"""Parameter sharing: read off exact and noisy subspaces of known groups, with the symmetries that fix them."""

from itertools import permutations

import numpy as np
import pytest

from haarflow.algebra.given import image
from haarflow.algebra.groups import Cyclic, Dihedral, Rotations, Symmetric
from haarflow.algebra.reps import natural
from haarflow.errors import Refusal
from haarflow.practice.discover import Discovery, angles
from haarflow.practice.sharing import sharing, symmetries, tie, tied


def hom(group):
    return natural(group).hom(natural(group))


CASES = {
    "swap": (hom(Cyclic(2)), (2, 2), 2),
    "turns": (hom(Rotations(4)), (2, 2), 2),
    "S3": (hom(Symmetric(3)), (3, 3), 6),
    "shifts": (hom(Cyclic(5)), (5, 5), 5),
}


def turned(basis, seed=0):
    """The same subspace in another basis."""
    rng = np.random.default_rng(seed)
    return basis @ np.linalg.qr(rng.normal(size=(basis.shape[1],) * 2))[0]


@pytest.mark.parametrize("name", CASES)
def test_the_pattern_is_that_of_the_orbits_in_any_basis_and_with_noise(name):
    rep, _, _ = CASES[name]
    orbits, orbit_signs = rep.orbits()
    noise = 0.02 * np.random.default_rng(1).normal(size=rep.fixed_basis().shape)
    for basis in (turned(rep.fixed_basis()), np.linalg.qr(turned(rep.fixed_basis()) + noise)[0]):
        pattern = sharing(basis)
        assert pattern.free == rep.fixed_basis().shape[1]
        same = (pattern.labels[:, None] == pattern.labels[None]) & (pattern.labels[:, None] >= 0)
        np.testing.assert_array_equal(same, (orbits[:, None] == orbits[None]) & (orbits[:, None] >= 0))
        products = np.where(same, pattern.signs[:, None] * pattern.signs[None], 0)
        np.testing.assert_array_equal(products, np.where(same, orbit_signs[:, None] * orbit_signs[None], 0))
        assert angles(pattern.basis(), rep.fixed_basis()).max() < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_symmetries_fix_the_subspace_and_are_all_there(name):
    rep, shape, count = CASES[name]
    basis = turned(rep.fixed_basis())
    found = symmetries(basis, shape=shape)
    assert len(found) == count
    seen = set()
    for symmetry in found:
        a, b = symmetry.matrices()
        np.testing.assert_allclose(np.kron(a, b) @ basis, basis, atol=1e-12)
        seen.add(np.kron(a, b).tobytes())
    assert len(seen) == count
    np.testing.assert_array_equal(found[0].matrices()[0], np.eye(shape[0]))
    for matrix in rep.matrices():
        assert any(np.allclose(matrix.ravel(), np.frombuffer(one)) for one in seen)


def test_interchangeable_coordinates_are_permuted_and_never_merged():
    found = symmetries(np.ones((3, 1)) / np.sqrt(3))
    assert sorted(tuple(one.inputs.tolist()) for one in found) == sorted(permutations(range(3)))


def test_images_have_ten_free_pixels_and_too_many_symmetries_to_list():
    basis = turned(image(Dihedral(4), 8, 8).fixed_basis())
    pattern = sharing(basis)
    assert pattern.free == 10
    assert sorted(len(group) for group in pattern.groups()) == [4] * 4 + [8] * 6
    with pytest.raises(Refusal, match="A list of symmetries stops at 500; got more: .* Read the tied groups"):
        symmetries(basis, limit=500)


def test_the_pattern_is_told_in_letters_and_drawn():
    from matplotlib.figure import Figure

    pattern = sharing(turned(hom(Rotations(4)).fixed_basis()))
    assert pattern.text((2, 2)) == " a  b\n−b  a"
    assert sharing(np.eye(3)[:, :1]).words() == [["a", "0", "0"]]
    assert sharing(np.eye(30)).words()[0][24:] == ["y", "z", "aa", "ab", "ac", "ad"]
    axis = Figure().add_subplot()
    pattern.draw(axis, shape=(2, 2), colours=["red", "blue"])
    assert [text.get_text() for text in axis.texts] == ["a", "b", "−b", "a"]
    assert len({patch.get_facecolor() for patch in axis.patches}) == 2
    with pytest.raises(Refusal, match=r"holds c·d = 4 parameters; got \(2, 3\)"):
        pattern.words((2, 3))


def test_zero_coordinates_are_seen():
    pattern = sharing(np.eye(4)[:, 1:3])
    assert pattern.zeros() == [0, 3]
    assert pattern.groups() == [[(1, 1)], [(2, 1)]]
    empty = sharing(np.zeros((3, 0)))
    assert empty.free == 0
    assert empty.zeros() == [0, 1, 2]


def test_well_known_columns_decide_which_rows_are_tied():
    """Column 0 is exact and ties (0, 1) and (2, 3); column 1 is noisy and must not undo that."""
    clean = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, -1.0], [2.0, -1.0]])
    noisy = clean + np.array([[0, 0.3], [0, -0.3], [0, 0.2], [0, -0.2]])
    errors = np.tile([0.001, 0.3], (4, 1))
    np.testing.assert_array_equal(tied(noisy, 6.0, errors=errors).labels, [0, 0, 1, 1])
    basis = np.linalg.qr(noisy)[0]
    made, kept = tie(basis, tied(noisy, 6.0, errors=errors))
    assert kept == [0, 1]
    assert angles(made, np.linalg.qr(clean)[0]).max() < 1e-5


def test_a_column_outside_the_pattern_goes():
    pattern = sharing(np.ones((4, 1)) / 2)
    made, kept = tie(np.stack([np.ones(4) / 2, np.array([1.0, -1, 1, -1]) / 2], axis=1), pattern)
    assert kept == [0]
    assert made.shape == (4, 1)


def test_rounding_is_exact_where_it_fits_and_refused_where_not():
    exact = hom(Cyclic(2)).fixed_basis()
    noisy = np.linalg.qr(exact + 0.02 * np.random.default_rng(0).normal(size=exact.shape))[0]
    assert Discovery(noisy, []).angles(exact).max() > 0.1
    assert Discovery(noisy, []).rounded().angles(hom(Cyclic(2))).max() < 1e-5
    askew = Discovery(np.array([[0.2], [0.5], [0.7], [0.9]]) / np.sqrt(1.59), [])
    with pytest.raises(Refusal, match="dimension 1 rounds to a pattern with as many free weights; got 4 groups"):
        askew.rounded(tolerance=0.1)


def test_a_shape_that_does_not_hold_the_parameters_is_refused():
    with pytest.raises(Refusal, match=r"holds c·d = 4 parameters; got \(3, 2\). Write shape=\(outputs, inputs\)"):
        symmetries(np.eye(4), shape=(3, 2))
