"""Groups in words: every form is what it says, every group of the algebra can be said, other words are answered."""

import jax
import numpy as np
import pytest

import haarflow as hf
from haarflow.algebra.base import Group
from haarflow.members import concrete
from haarflow.practice.phrases import FORMS

SAID = {
    "Trivial": "keep 3 columns",
    "Cyclic": "shifts of 4 columns",
    "PlanarRotations": "turns by 1/5 of columns x, y",
    "Dihedral": "dihedral 5 of columns x, y",
    "Symmetric": "permute 4 columns",
    "Alternating": "even permutations of 4 columns",
    "Signs": "signs of 3 columns",
    "Hyperoctahedral": "signed permutations of 3 columns",
    "Icosahedral": "icosahedral of columns x, y, z",
    "Orthogonal": "rotate or reflect 3 columns",
    "SpecialOrthogonal": "rotate 3 columns",
    "Product": "shifts of 2 columns and permute 3 columns",
    "InfiniteProduct": "permute 2 columns and rotate 3 columns",
    "Permutations": "some.toml",
    "Matrices": "turns.toml",
}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.toml").write_text("permutations = [[1, 2, 3, 0], [2, 1, 0, 3]]")
    (tmp_path / "turns.toml").write_text('matrices = [[[0, -1], [1, 0]]]\ncolumns = ["v", "u"]')


def test_every_group_of_the_algebra_can_be_said():
    kinds = {kind.__name__ for kind in concrete(Group)}
    assert kinds == set(SAID)
    for name, words in SAID.items():
        rep = hf.rep_from_words(words)
        assert type(rep.group).__name__ == name
        assert np.allclose(
            rep.matrices()[0] if hasattr(rep.group, "order") else rep(np.eye(rep.group.dim)), np.eye(rep.dim)
        )


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_an_error_shows_is_one(form):
    assert hf.rep_from_words(form).dim > 1


def test_a_representation_moves_the_columns_that_are_named_and_leaves_the_others():
    rep = hf.rep_from_words("shifts of columns c, a", columns=["a", "b", "c"])
    swap = rep.group.elements()[1]
    assert np.array_equal(rep.apply(swap, np.array([1.0, 2.0, 3.0])), [3.0, 2.0, 1.0])
    row = hf.rep_from_words("shifts of columns 3, 0, 1", columns=4)
    assert np.array_equal(row.apply(row.group.generators()[0], np.array([0.0, 1.0, 2.0, 3.0])), [3.0, 0.0, 2.0, 1.0])
    turned = hf.rep_from_words("turns.toml", columns=["u", "w", "v"])
    assert np.allclose(turned.apply(turned.group.generators()[0], np.array([0.0, 5.0, 1.0])), [1.0, 5.0, 0.0])


def test_images_and_blocks_are_those_of_the_library():
    assert hf.rep_from_words("dihedral of 4x4x3 images") == hf.image_rep("dihedral", 4, 4, 3)
    assert hf.rep_from_words("permute 5 blocks of 3 columns") == hf.point_set(hf.Symmetric(5), 3)
    both = hf.rep_from_words("permute 4 blocks of 3 columns and rotate 4 blocks of 3 columns")
    assert (both.dim, both.fixed_basis().shape[1]) == (12, 0)
    moved = np.asarray(both.action(both.group.draw(jax.random.key(0), 2)).matrices())
    assert np.allclose(moved @ moved.swapaxes(1, 2), np.eye(12), atol=1e-5)


def test_ranges_and_lists_with_and_are_read_as_they_are_meant():
    assert hf.rep_from_words("signs of columns 1 to 3", columns=5).group == hf.Signs(3)
    assert hf.rep_from_words("permute columns a, b and c").group == hf.Symmetric(3)
    assert hf.rep_from_words("permute columns sepal width, petal width").dim == 2
    two = hf.rep_from_words("flips of 2x2 images and signs of columns 4, 5")
    assert (two.dim, two.group.order) == (6, 16)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("flip of 8x8 images", 'The nearest form is "flips of 8x8 images"'),
        ("rotate columns", 'The nearest form is "rotate columns x, y, z"'),
        ("permute columns a, , b", "a name between its commas"),
        ("permute columns a, q", "got 'q'"),
        ("signs of columns a, a", "got 'a' twice"),
        ("shifts of 24 columns", "move 24 columns; got data with 3"),
        ("permute columns a, b and", "does not fit"),
        ("__import__('os')", "does not fit"),
        ("icosahedral of columns a, b", "is of 3 columns; got 2"),
        ("quarter turns of 8x9 images", "square images"),
        ("quarter turns of columns a, b, c", "is of 2 columns; got 3"),
        ("turns by 0.2 of columns a, b", "does not fit at '0.2'"),
        ("missing.toml", "must be readable"),
    ],
)
def test_other_words_are_answered_by_the_nearest_form(text, sentence):
    with pytest.raises(hf.Refusal, match=".*") as refusal:
        hf.rep_from_words(text, columns=["a", "b", "c"])
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["permutations = 3", "matrices = [[[2.0]]]", "other = 1", "x", "permutations=[[1,0]]\ncolumns=[1]"]
)
def test_a_group_file_that_is_none_is_answered(text, tmp_path):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(hf.Refusal):
        hf.rep_from_words("bad.toml")
