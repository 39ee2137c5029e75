"""Parameter sharing: read off exact and noisy subspaces of known groups, with the symmetries that fix them."""

from itertools import permutations

import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, Dihedral, PlanarRotations, Symmetric
from haarflow.algebra.reps import natural_rep
from haarflow.algebra.user_reps import image_rep
from haarflow.errors import Refusal
from haarflow.practice import parameter_sharing as patterns
from haarflow.practice.discover import Discovery, angles
from haarflow.practice.parameter_sharing import Sharing, SignedPermutation, sharing, symmetries, tie, tied


def hom(group):
    return natural_rep(group).hom(natural_rep(group))


CASES = {
    "swap": (hom(Cyclic(2)), (2, 2), 2),
    "turns": (hom(PlanarRotations(4)), (2, 2), 2),
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
    basis = turned(image_rep(Dihedral(4), 8, 8).fixed_basis())
    pattern = sharing(basis)
    assert pattern.free == 10
    assert sorted(len(group) for group in pattern.groups()) == [4] * 4 + [8] * 6
    with pytest.raises(Refusal, match="A list of symmetries stops at 500; got more: .* Read the tied groups"):
        symmetries(basis, limit=500)


def test_the_pattern_is_told_in_letters_and_drawn():
    from matplotlib.figure import Figure

    pattern = sharing(turned(hom(PlanarRotations(4)).fixed_basis()))
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


BASIS = np.eye(4)[:, :2]
REFUSED = {
    "words": (lambda: sharing("x"), "sharing's basis is an array of real numbers; got 'x'"),
    "one axis": (lambda: sharing(np.ones(3)), r"sharing's basis has the shape \(p, k\); got the shape \(3,\)"),
    "nan": (lambda: sharing([[np.nan]]), r"sharing's basis holds finite numbers; got nan at \[0, 0\]"),
    "empty": (lambda: sharing(np.zeros((0, 2))), r"takes an orthonormal basis .*; got the shape \(0, 2\)"),
    "skewed": (lambda: sharing(np.ones((3, 2))), r"off the identity by 3.0e\+00. Write `np.linalg.qr\(basis\)\[0\]`"),
    "not of length one": (lambda: symmetries(5 * BASIS), "symmetries takes an orthonormal basis of a subspace"),
    "negative tolerance": (lambda: sharing(BASIS, tolerance=-1), "sharing's tolerance is a finite number >= 0; got -1"),
    "infinite tolerance": (lambda: sharing(BASIS, tolerance=np.inf), "sharing's tolerance is a finite number; got inf"),
    "negative shape": (lambda: symmetries(BASIS, shape=(-2, -2)), r"symmetries's shape\[0\] is a whole number >= 1"),
    "long shape": (lambda: symmetries(BASIS, shape=(2, 2, 1)), "symmetries's shape holds 2 things; got 3"),
    "word for a shape": (lambda: symmetries(BASIS, shape="ab"), "symmetries's shape is a list; got 'ab'"),
    "no limit": (lambda: symmetries(BASIS, limit=0), "symmetries's limit is a whole number >= 1; got 0"),
    "no axis": (lambda: sharing(BASIS).draw(3), "A pattern is drawn on a matplotlib axis .*; got 3 and"),
    "shape of words": (lambda: sharing(BASIS).words(3), "words's shape is a list; got 3"),
    "labels": (lambda: Sharing([0, 2], [1, 1]), "Sharing's labels are 0 … k−1, each of them used, or −1 for zero"),
    "no labels": (lambda: Sharing([], []), "Sharing's labels holds whole numbers; got a list of 0"),
    "signs": (lambda: Sharing([0, 0], [1, 3]), "Sharing has a sign, 1 or −1, for each coordinate; got 3 among them"),
    "half a label": (lambda: Sharing([0.5], [1]), "Sharing's labels holds whole numbers; got a list of 1"),
    "images": (
        lambda: SignedPermutation([0, 0], [1, 1], [0], [1]),
        r"SignedPermutation's outputs hold each of 0 … 1 once; got an array",
    ),
    "fewer signs": (
        lambda: SignedPermutation([0, 1], [1], [0], [1]),
        "SignedPermutation's output_signs has the shape .* with c = 2",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_subspace_and_no_pattern_is_refused_in_a_sentence(name):
    make, sentence = REFUSED[name]
    with pytest.raises(Refusal, match=sentence):
        make()


def test_lists_and_single_precision_are_welcome():
    basis = hom(Cyclic(2)).fixed_basis()
    for given in (basis.tolist(), basis.astype(np.float32)):
        np.testing.assert_array_equal(sharing(given).labels, sharing(basis).labels)
        assert len(symmetries(given, shape=(2, 2))) == 2
    assert Sharing([0, -1], [1, 0]).words() == [["a", "0"]]
    np.testing.assert_array_equal(SignedPermutation([1, 0], [1, -1], [0], [1]).matrices()[0], [[0, -1], [1, 0]])


@pytest.mark.slow
def test_rows_of_a_thousand_coordinates_are_searched():
    """Deeper than Python's own recursion goes."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((1500, 3)))[0]
    (only,) = symmetries(basis, tolerance=1e-9)
    np.testing.assert_array_equal(only.inputs, np.arange(1500))


def test_a_search_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(patterns, "STEPS", 100)
    with pytest.raises(Refusal, match="A search for symmetries tries 100 images at most; this subspace took more."):
        symmetries(np.ones((30, 1)) / np.sqrt(30))
