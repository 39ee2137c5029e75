"""Tables as people keep them: delimiters, quotes, named targets, folders of images, data frames; or a sentence."""

import numpy as np
import pytest

import haarflow as hf
from haarflow.learning.readers import read_pairs

ROWS = 'size,"the kind, old",weight\n1,a,0.5\n2,b,1.5\n3,a,2.5\n'


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_any_delimiter_quotes_and_a_target_by_name_or_number(tmp_path, mark):
    quoted = ROWS.replace('"the kind, old"', "#").replace(",", mark).replace("#", '"the kind, old"')
    (tmp_path / "a.csv").write_text(quoted)
    for target in ("the kind, old", 1, "1"):
        xs, ys, names = read_pairs(tmp_path / "a.csv", target=target)
        assert np.array_equal(xs, [[1, 0.5], [2, 1.5], [3, 2.5]])
        assert ys.tolist() == ["a", "b", "a"]
        assert names == ["size", "weight"]
    assert hf.load(tmp_path / "a.csv", target="the kind, old").classes == ("a", "b")


def test_missing_cells_and_words_among_numbers_are_told_with_their_line(tmp_path):
    (tmp_path / "a.csv").write_text("u;v;w\n1;2;3\n4;;6\n")
    with pytest.raises(hf.Refusal, match="in line 3 of a.csv"):
        hf.load(tmp_path / "a.csv", target="u")
    (tmp_path / "b.csv").write_text("u;v;w\n1;2;3\n4;old;6\n")
    with pytest.raises(hf.Refusal, match="in line 3 of b.csv"):
        hf.load(tmp_path / "b.csv")
    with pytest.raises(hf.Refusal, match="got 'x'"):
        hf.load(tmp_path / "a.csv", target="x")


def test_arrays_folders_of_images_parquet_and_tables_are_read_alike(tmp_path):
    table = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "t.npy", table)
    frame = pytest.importorskip("pandas").DataFrame(table, columns=["u", "v", "w"])
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (tmp_path / "t.npy", tmp_path / "t.parquet", frame, frame.to_xarray().drop_vars("index")):
        xs, ys, _ = read_pairs(source, target=1)
        assert np.array_equal(xs, table[:, [0, 2]])
        assert np.array_equal(ys.ravel(), table[:, 1])


def test_a_folder_of_images_has_a_class_for_each_folder(tmp_path):
    import matplotlib.pyplot as plt

    for kind, shade in (("dark", 0.0), ("light", 1.0)):
        (tmp_path / kind).mkdir()
        for i in range(2):
            plt.imsave(tmp_path / kind / f"{i}.png", np.full((3, 4), shade), cmap="gray", vmin=0, vmax=1)
    sample = hf.load(tmp_path)
    assert sample.xs.shape == (4, 3 * 4 * 3)
    assert sample.classes == ("dark", "light")
    assert np.allclose(np.asarray(sample.xs).mean(axis=1), [0, 0, 1, 1])
    plt.imsave(tmp_path / "dark" / "z.png", np.zeros((5, 4)))
    with pytest.raises(hf.Refusal, match="one size"):
        hf.load(tmp_path)
