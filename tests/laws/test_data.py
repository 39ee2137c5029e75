"""Every law of data: a batch depends on its key alone, and augmentation shares the data it augments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, Dihedral, Orthogonal
from haarflow.algebra.reps import natural, trivial
from haarflow.errors import Refusal
from haarflow.learning.data import Data, Sample, Stream, Teacher, folds
from haarflow.learning.readers import load
from haarflow.learning.symmetry import augment, close
from haarflow.measures.clouds import uniform
from haarflow.members import members


@pytest.mark.parametrize("data", members(Data), ids=lambda data: type(data).__name__)
def test_a_batch_is_a_function_of_its_key(data):
    first, again = data.batch(jax.random.key(4)), data.batch(jax.random.key(4))
    compiled = eqx.filter_jit(lambda law, key: law.batch(key))(data, jax.random.key(4))
    for a, b, c in zip(first, again, compiled, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-14)
    assert len(first[0]) == len(first[1])


def test_augmented_samples_are_images_of_the_plain_ones_under_the_same_key():
    rotated = natural(Orthogonal(2))
    plain = Stream(lambda key, size: (jax.random.normal(key, (size, 2)), jnp.ones((size, 1))), 50)
    moved = augment(plain, rotated, trivial(rotated.group))
    xs, turned = (data.batch(jax.random.key(0))[0] for data in (plain, moved))
    np.testing.assert_allclose(jnp.linalg.norm(xs, axis=1), jnp.linalg.norm(turned, axis=1), rtol=1e-12)
    assert float(jnp.abs(xs - turned).max()) > 0.1


def test_inputs_and_outputs_move_by_the_same_element():
    swap = natural(Cyclic(2))
    xs = jnp.arange(20.0).reshape(10, 2)
    moved = augment(Sample(xs, 3 * xs), swap, swap).batch(jax.random.key(1))
    np.testing.assert_array_equal(moved[1], 3 * moved[0])
    assert 0 < int((moved[0] != xs).any(axis=1).sum()) < 10


def test_the_exact_average_lists_every_image_once():
    shifts = natural(Cyclic(3))
    sample = Sample(jnp.array([[1.0, 2.0, 3.0]]), jnp.array([[5.0]]))
    xs, ys = augment(sample, shifts, trivial(shifts.group), exact=True).batch(jax.random.key(0))
    assert sorted(map(tuple, np.asarray(xs))) == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    assert ys.shape == (3, 1)
    assert len(close(sample, shifts, trivial(shifts.group)).xs) == 3


def test_files_become_samples(tmp_path):
    table = np.arange(12.0).reshape(4, 3)
    np.savez(tmp_path / "a.npz", x=table[:, :2], y=table[:, 2])
    np.savetxt(tmp_path / "a.csv", table, delimiter=",", header="u,v,w", comments="")
    for name in ("a.npz", "a.csv"):
        sample = load(tmp_path / name)
        np.testing.assert_array_equal(sample.xs, table[:, :2])
        np.testing.assert_array_equal(sample.ys, table[:, 2:])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.csv", None, "must be readable; got .*No such file"),
        ("empty.csv", b"", "holds rows of numbers; got none"),
        ("words.csv", b"1,2\n3,four\n", "holds 2 numbers in every row; got '3,four' in line 2"),
        ("ragged.csv", b"x,y\n1,2\n3\n", "got '3' in line 3"),
        ("nan.csv", b"1,2\nnan,4\n", "holds finite numbers; got a NaN or infinity in x, row 1"),
        ("thin.csv", b"1\n2\n", "needs more columns than outputs"),
        ("cut.npz", b"PK\x03\x04 not a zip", "does not read as one"),
        ("empty.npz", b"", "does not read as one"),
        ("table.txt", b"1", r"ends in \.npz or \.csv"),
        ("names.csv", b"1,2,cat\n3,4,5\n", "holds 3 numbers in every row; got '1,2,cat' in line 1"),
        ("word.csv", b"u,v,w\n1,2,cat\n3,x,dog\n", "got '3,x,dog' in line 3"),
        ("header.csv", b"u,v\n", "holds rows of numbers; got none"),
        ("null.csv", b"1,2\n\x00,3\n", "holds 2 numbers in every row"),
        ("folder.csv", "folder", "must be readable; got .*Is a directory"),
        ("point.npz", {"x": 3.0, "y": 1.0}, "does not read as one"),
        (
            "complex.npz",
            {"x": np.ones((2, 1)) * 1j, "y": np.ones(2)},
            r"does not read as one \(an array of complex128\)",
        ),
        (
            "long.npz",
            {"x": np.ones((2, 1)), "y": np.ones(3)},
            r"A Sample holds m >= 1 inputs .*got \(2, 1\) and \(3, 1\)",
        ),
        ("objects.npz", {"x": np.array([None, {}]), "y": np.ones(2)}, "does not read as one"),
        ("nan.npz", {"x": np.array([[1.0], [np.inf]]), "y": np.ones(2)}, "a NaN or infinity in x, row 1, of nan.npz"),
    ],
)
def test_bad_files_get_their_sentence(tmp_path, name, content, sentence):
    if content == "folder":
        (tmp_path / name).mkdir()
    elif isinstance(content, dict):
        np.savez(tmp_path / name, **content)
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Refusal, match=sentence):
        load(tmp_path / name)


def test_class_names_in_files_are_classes(tmp_path):
    (tmp_path / "a.csv").write_text('\ufeffu,v,kind\n1,2,"cat"\n3,4,dog\n5,6,"a, b"\n', encoding="utf-8")
    (tmp_path / "b.CSV").write_text("1,2,cat\n3,4,dog\n5,6,cat\n")
    np.savez(tmp_path / "c.npz", x=[[1, 2], [3, 4], [5, 6]], y=["cat", "dog", "cat"])
    for name, classes, index in (
        ("a.csv", ("a, b", "cat", "dog"), [1, 2, 0]),
        ("b.CSV", ("cat", "dog"), [0, 1, 0]),
        ("c.npz", ("cat", "dog"), [0, 1, 0]),
    ):
        sample = load(str(tmp_path / name))
        assert sample.classes == classes
        np.testing.assert_array_equal(sample.xs, [[1, 2], [3, 4], [5, 6]])
        np.testing.assert_array_equal(sample.ys, np.eye(len(classes))[index])


def test_augmented_whole_numbers_are_moved_as_numbers():
    """Labels that are whole numbers in a law of one's own: the matrices of a triangle's group are not cast to those."""
    plane = natural(Dihedral(3))
    law = Stream(lambda key, size: (jnp.ones((size, 2), int), jnp.ones((size, 2), int)), 64)
    xs, ys = augment(law, plane, plane).batch(jax.random.key(0))
    np.testing.assert_allclose(jnp.linalg.norm(ys, axis=1), np.sqrt(2), rtol=1e-6)
    np.testing.assert_array_equal(xs, ys)


def test_bad_samples_get_their_sentence(tmp_path):
    for xs, ys in (((3,), (3,)), ((3, 2), (4,)), ((3, 2), (3, 1, 1)), ((0, 2), (0, 1)), ((3, 0), (3, 1))):
        with pytest.raises(Refusal, match=r"A Sample holds m >= 1 inputs .* For scalar inputs write xs\[:, None\]"):
            Sample(np.ones(xs), np.ones(ys))
    with pytest.raises(Refusal, match="A batch size is a whole number >= 1; got 0"):
        Sample(np.ones((3, 2)), np.ones((3, 1)), 0)
    with pytest.raises(Refusal, match=r"has 4 parameters; got atoms in R\^3"):
        Teacher(Teacher.examples()[0].unit, uniform(np.ones((2, 3))), 3)
    np.savez(tmp_path / "z.npz", inputs=np.ones(3))
    with pytest.raises(Refusal, match=r"holds arrays x and y; got \['inputs'\]"):
        load(tmp_path / "z.npz")


def test_folds_deal_each_row_once_with_its_output():
    sample = Sample(jnp.arange(22.0).reshape(11, 2), 3 * jnp.arange(11.0)[:, None], 2)
    dealt = folds(jax.random.key(0), sample, 5)
    assert [(fold.xs.shape, fold.size) for fold in dealt] == [((2, 2), 2)] * 5
    first = np.concatenate([fold.xs[:, 0] for fold in dealt])
    assert len(set(first.tolist())) == 10
    assert first.tolist() != sorted(first)
    for fold in dealt:
        np.testing.assert_array_equal(fold.ys[:, 0], 1.5 * fold.xs[:, 0])
    with pytest.raises(Refusal, match="at least one row each; got 12 folds of 11 rows. Write a count from 1 to 11"):
        folds(jax.random.key(0), sample, 12)
