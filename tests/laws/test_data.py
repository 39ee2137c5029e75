"""Every law of data: a batch depends on its key alone, and augmentation shares the data it augments."""

import gzip
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow.algebra.groups import Cyclic, Dihedral
from haarflow.algebra.lie_groups import Orthogonal
from haarflow.algebra.reps import natural_rep, trivial_rep
from haarflow.errors import Refusal
from haarflow.learning.data import Sample, Stream, Teacher
from haarflow.learning.readers import load
from haarflow.learning.splits import folds, split
from haarflow.learning.symmetry import augment, orbit_closure
from haarflow.measures.clouds import uniform


def test_augmented_samples_are_images_of_the_plain_ones_under_the_same_key():
    rotated = natural_rep(Orthogonal(2))
    plain = Stream(lambda key, size: (jax.random.normal(key, (size, 2)), jnp.ones((size, 1))), 50)
    moved = augment(plain, rotated, trivial_rep(rotated.group))
    xs, turned = (data.batch(jax.random.key(0))[0] for data in (plain, moved))
    np.testing.assert_allclose(jnp.linalg.norm(xs, axis=1), jnp.linalg.norm(turned, axis=1), rtol=1e-12)
    assert float(jnp.abs(xs - turned).max()) > 0.1


def test_inputs_and_outputs_move_by_the_same_element():
    swap = natural_rep(Cyclic(2))
    xs = jnp.arange(20.0).reshape(10, 2)
    moved = augment(Sample(xs, 3 * xs), swap, swap).batch(jax.random.key(1))
    np.testing.assert_array_equal(moved[1], 3 * moved[0])
    assert 0 < int((moved[0] != xs).any(axis=1).sum()) < 10


def test_the_exact_average_lists_every_image_once():
    shifts = natural_rep(Cyclic(3))
    sample = Sample(jnp.array([[1.0, 2.0, 3.0]]), jnp.array([[5.0]]))
    xs, ys = augment(sample, shifts, trivial_rep(shifts.group), exact=True).batch(jax.random.key(0))
    assert sorted(map(tuple, np.asarray(xs))) == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    assert ys.shape == (3, 1)
    assert len(orbit_closure(sample, shifts, trivial_rep(shifts.group)).xs) == 3


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
        ("table.txt", b"1", r"ends in \.npz, \.npy, \.csv or \.parquet, or has idx in its name; got table.txt"),
        ("cut.csv.gz", b"\x1f\x8b\x08 no gzip", "packed by gzip; got cut.csv.gz, which does not unpack"),
        ("plain.csv.gz", b"1,2\n", "packed by gzip; got plain.csv.gz, which does not unpack"),
        ("table.parquet", b"1", "is read by pyarrow; got table.parquet and no pyarrow. Write pip install"),
        (
            "images-idx3-ubyte",
            bytes([0, 0, 8, 1, 0, 0, 0, 1, 5]),
            "has its labels in another file; got images-idx3-ubyte and no labels-idx1-ubyte",
        ),
        ("quote.csv", b'1,2\n"3,4\n5,6\n', "holds 2 numbers in every row; got"),
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
def test_bad_files_get_their_sentence(tmp_path, name, content, sentence, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    if content == "folder":
        (tmp_path / name).mkdir()
    elif isinstance(content, dict):
        np.savez(tmp_path / name, **content)
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Refusal, match=sentence):
        load(tmp_path / name)


def idx(array, kind):
    """An array as the bytes of an idx file."""
    lengths = np.asarray(array.shape, ">u4").tobytes()
    return bytes([0, 0, kind, array.ndim]) + lengths + array.tobytes()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_in_idx_files_are_samples_with_the_labels_beside_them(tmp_path, ending):
    pack = gzip.compress if ending else bytes
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / f"train-images-idx3-ubyte{ending}").write_bytes(pack(idx(pixels, 8)))
    (tmp_path / f"train-labels-idx1-ubyte{ending}").write_bytes(pack(idx(np.array([7, 2], np.uint8), 8)))
    sample = load(tmp_path / f"train-images-idx3-ubyte{ending}", size=1, replace=False)
    assert (sample.size, sample.replace, sample.xs.dtype) == (1, False, np.float32)
    np.testing.assert_array_equal(sample.xs, pixels.reshape(2, 12).astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(sample.ys, [[7], [2]])
    (tmp_path / f"t10k-images-idx3-ubyte{ending}").write_bytes(pack(idx(pixels[:1], 8)))  # of a folder, the others
    np.testing.assert_array_equal(load(tmp_path).xs, sample.xs)
    (tmp_path / "other").write_bytes(idx(np.array([-1.5, 3.0], ">f4"), 13))
    (tmp_path / "deep.idx3").write_bytes(idx(np.array([[300, -2], [5, 6]], ">i2"), 11))
    other = load(tmp_path / "deep.idx3", labels=tmp_path / "other")
    np.testing.assert_array_equal(other.xs, [[300, -2], [5, 6]])
    np.testing.assert_array_equal(other.ys, [[-1.5], [3.0]])
    whole = idx(pixels, 8)
    for broken in (whole[:-1], whole[:7], whole[:3], b"\0\0\x07" + whole[3:], b"PK" + whole[2:]):
        (tmp_path / "broken.idx3").write_bytes(broken)
        with pytest.raises(Refusal, match="a whole array of one of six types; got broken.idx3, which does not read"):
            load(tmp_path / "broken.idx3", labels=tmp_path / "other")


class Frame:
    """As a data frame of pandas, Polars or Arrow is to a reader: columns by name, each of which becomes an array."""

    def __init__(self, names, **columns):
        self.table = columns
        setattr(self, names, list(columns))

    def __getitem__(self, name):
        return self.table[name]


@pytest.mark.parametrize("names", ["columns", "column_names"])
def test_tables_are_samples(names):
    numbers = {"u": np.array([1, 2, 3]), "v": np.array([0.5, None, 2], object), "w": np.array([1.0, 0.0, 1.0])}
    numbers["v"] = np.array([0.5, 1, 2], object)
    sample = load(Frame(names, **numbers), outputs=2)
    np.testing.assert_array_equal(sample.xs, [[1], [2], [3]])
    np.testing.assert_array_equal(sample.ys, [[0.5, 1], [1, 0], [2, 1]])
    words = load(Frame(names, **numbers, kind=np.array(["b", "a", "b"], object)))
    assert words.classes == ("a", "b")
    with pytest.raises(Refusal, match="one number in each place of a column; got words in the column 'kind'"):
        load(Frame(names, kind=np.array(["b", "a", "b"], object), **numbers))
    with pytest.raises(Refusal, match="a NaN or infinity in x, row 1, of the table"):
        load(Frame(names, u=np.array([1.0, None], object), v=np.ones(2)))
    with pytest.raises(Refusal, match="A table needs more columns than outputs; got 1 columns and outputs=1"):
        load(Frame(names, u=np.ones(3)))


def test_parquet_files_are_read_by_pyarrow(tmp_path, monkeypatch):
    class ArrowInvalid(ValueError):
        pass

    def read_table(path):
        if path.read_bytes() != b"good":
            raise ArrowInvalid("not a parquet file")
        return Frame("column_names", u=np.array([1.0, 2.0]), v=np.array([3, 4]))

    arrow, parquet = types.ModuleType("pyarrow"), types.ModuleType("pyarrow.parquet")
    parquet.read_table, arrow.parquet, arrow.ArrowInvalid = read_table, parquet, ArrowInvalid
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    (tmp_path / "a.parquet").write_bytes(b"good")
    np.testing.assert_array_equal(load(tmp_path / "a.parquet").ys, [[3], [4]])
    (tmp_path / "a.parquet").write_bytes(b"bad")
    with pytest.raises(Refusal, match="is a table; got a.parquet, which does not read as one .not a parquet file"):
        load(tmp_path / "a.parquet")


def test_a_large_table_is_read_as_the_rows_are(tmp_path):
    """All numbers are read at once, a table with a word in it row by row: the same numbers, spaces and quotes too."""
    table = np.random.default_rng(0).normal(size=(50, 4))
    lines = [", ".join(f'"{cell}"' if i % 2 else str(cell) for i, cell in enumerate(row)) for row in table.tolist()]
    (tmp_path / "a.csv").write_text("\n\n".join(lines) + "\n  \n")
    (tmp_path / "b.csv").write_text("u,v,w,x\n" + "\n".join(",".join(map(repr, row)) for row in table.tolist()))
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress((tmp_path / "b.csv").read_bytes()))
    for name in ("a.csv", "b.csv", "c.csv.gz"):
        sample = load(tmp_path / name)
        np.testing.assert_array_equal(np.concatenate([sample.xs, sample.ys], axis=1), table)


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
    plane = natural_rep(Dihedral(3))
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


def test_a_split_keeps_rows_with_their_labels_and_the_share_of_every_label():
    labels = np.repeat([0, 1, 2, 7], [50, 31, 12, 7])
    sample = Sample(np.arange(100.0)[:, None], np.eye(8)[labels], size=5)
    train, held = split(jax.random.key(1), sample, 0.2)
    rows = [part.xs[:, 0].astype(int) for part in (train, held)]
    assert sorted(np.concatenate(rows)) == list(range(100))
    assert (len(rows[1]), train.size, held.size) == (20, 5, 5)
    for part, index in zip((train, held), rows, strict=True):
        np.testing.assert_array_equal(np.argmax(part.ys, axis=1), labels[index])
    found = np.bincount(labels[rows[1]], minlength=8)[[0, 1, 2, 7]]
    assert (np.abs(found - 0.2 * np.array([50, 31, 12, 7])) <= 1).all()
    other = split(jax.random.key(2), sample, 0.2)[1].xs[:, 0]
    assert set(other.tolist()) != set(held.xs[:, 0].tolist())


def test_a_split_of_real_labels_holds_every_row_as_often():
    """900 rows whose labels are all different, in 60 splits: a mean of 18 each; beyond 40 or below 2 once in 1e4."""
    xs = np.arange(900.0)[:, None]
    held = [split(key, Sample(xs, np.sin(xs)), 0.3)[1].xs[:, 0] for key in jax.random.split(jax.random.key(0), 60)]
    counts = np.bincount(np.concatenate(held).astype(int), minlength=900)
    assert {len(one) for one in held} == {270}
    assert 2 < counts.min() < 12
    assert 24 < counts.max() < 40
    with pytest.raises(Refusal, match="got a share of 0.01 of 10 rows. Write a share from 0.1 to 0.9"):
        split(jax.random.key(0), Sample(xs[:10], xs[:10]), 0.01)
    with pytest.raises(Refusal, match="split's share is a finite number > 0 and < 1; got 1"):
        split(jax.random.key(0), Sample(xs[:10], xs[:10]), 1)
