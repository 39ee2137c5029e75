"""haarflow check, discover, export: a sentence, a picture and JSON from a file; bad input in one sentence, code 2."""

import json
from pathlib import Path

import numpy as np
import pytest

import haarflow as hf
from haarflow import cli
from haarflow.practice.symmetry_search import search_symmetry


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 2))
    table = np.column_stack([x, x @ [1.0, 1.0] + 0.1 * draw.normal(size=120)])
    np.savetxt("rows.csv", table, delimiter=";", header="u;v;sum", comments="")
    return "rows.csv"


def test_check_answers_from_a_file(file, capsys, tmp_path):
    assert cli.answer(["check", file, "--group", "permute columns u, v", "--target", "sum"]) == 0
    printed = capsys.readouterr().out
    assert "law of the inputs" in printed
    assert "Picture: check.png" in printed
    assert (tmp_path / "check.png").stat().st_size > 1000
    assert json.loads((tmp_path / "check.json").read_text())["rows"] == 120
    assert cli.answer(["check", file, "--group", "signs of column u", "--json", "--out", "signs.png"]) == 0
    assert "is broken" in json.loads(capsys.readouterr().out)["verdict"]


def test_discover_answers_from_a_file(file, capsys):
    assert cli.answer(["discover", file, "--no-ties", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"] == "SymmetrySearch"
    assert "permute columns u, v" in [one["name"] for one in found["candidates"]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rows.csv", "--group", "permute columns u, w"], "got 'w'"),
        (["nowhere.csv", "--group", "permute 2 columns"], "must be readable"),
        (["rows.csv", "--group", "permute 3 columns"], "move 3 columns"),
        (["rows.csv", "--group", "permute 2 columns", "--target", "x"], "got 'x'"),
        (["rows.csv", "--group", "permute 2 columns", "--kind", "words"], "--kind is one of"),
        (["rows.csv", "--group", "permute 2 columns", "--out", "no/where.png"], "folder that exists"),
        (["rows.csv", "--group", "permute 2 columns", "--out", "check.json"], "A picture is written as .png"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(file, capsys, words, sentence):
    assert cli.answer(["check", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "discover"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(file, capsys, monkeypatch, command):
    for name in ("check_symmetry", "search_symmetry"):
        monkeypatch.setattr(f"haarflow.runs.questions.{name}", None)
    group = ["--group", "permute 2 columns"] if command == "check" else []
    assert cli.answer([command, file, *group, "--out", "no/where.png"]) == 2
    assert "folder that exists" in capsys.readouterr().err


BAD = {
    "constant": "got ",
    "one class": "got ",
    "few rows": "rows",
    "missing": "in line 4 of missing.csv. Mend or remove that line.",
    "words": "in line 4 of words.csv. Mend or remove that line.",
    "other size": "move 64 columns; got data with 2",
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("command", ["check", "decide", "discover"])
def test_bad_files_are_answered_in_one_sentence(tmp_path, monkeypatch, capsys, command, bad):
    """Every command, every file that cannot be asked about: code 2, one line, nothing printed, nothing written."""
    monkeypatch.chdir(tmp_path)
    rows = [[f"{0.1 * i:.1f}", f"{(7 * i) % 11}.5", f"{i}.25"] for i in range(3 if bad == "few rows" else 40)]
    if bad in ("constant", "one class"):
        rows = [[*row[:2], "3" if bad == "constant" else "ill"] for row in rows]
    if bad in ("missing", "words"):
        rows[2][0] = "" if bad == "missing" else "high"
    name = f"{bad.replace(' ', '-')}.csv"
    Path(name).write_text("\n".join(",".join(row) for row in [["u", "v", "y"], *rows]) + "\n")
    group = "flips of 8x8 images" if bad == "other size" else "permute columns u, v"
    if command == "discover" and bad == "other size":
        pytest.skip("discover is given no group")
    words = [command, name, *([] if command == "discover" else ["--group", group])]
    assert cli.answer(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert BAD[bad] in said.err
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model", "collections:Counter"], "on an estimator, which has `fit` and `predict`; got a Counter"),
        (["--folds", "100"], "decide needs two rows or more in each fold; got 120 rows and 100 folds"),
        (["--model", "linear", "--penalty", "lasso"], "The penalty of decide is 'auto', 'given', or a setting"),
    ],
)
def test_decide_refuses_in_one_sentence(file, capsys, words, sentence):
    assert cli.answer(["decide", file, "--group", "permute columns u, v", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_decide_answers_from_a_file_and_from_some_of_its_rows(file, capsys):
    words = ["decide", file, "--group", "permute columns u, v", "--model", "linear", "--json"]
    assert cli.answer([*words, "--rows", "60", "--folds", "2", "--repeats", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 60
    assert found["penalty"] == "alpha"
    assert not found["left_out"]
    (page,) = Path("results", "decide").glob("*/report.html")
    assert "chose its own alpha" in page.read_text()


ASKED = {
    "check": lambda x, y: hf.check_symmetry(x, y, "permute columns u, v", key=0, progress=False),
    "decide": lambda x, y: hf.decide(x, y, "permute columns u, v", estimator="linear", progress=False),
    "discover": lambda x, y: search_symmetry(x, y, key=0, progress=False),
}


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize(("bad", "sentence"), [("tall", "'tall' in row 2 of"), (None, "column"), (np.nan, "column")])
def test_the_bad_column_of_a_data_frame_is_named(command, bad, sentence):
    from pandas import DataFrame

    draw = np.random.default_rng(0)
    table = DataFrame(draw.normal(size=(80, 3)), columns=["size", "u", "v"]).astype({"size": object})
    table.loc[2, "size"] = bad
    with pytest.raises(hf.Refusal) as refused:
        ASKED[command](table, draw.normal(size=80))
    said = str(refused.value)
    assert sentence in said
    assert "row 2" in said
    assert "'size'" in said
    assert "\n" not in said


def test_records_are_a_table_and_arrays(tmp_path, capsys, monkeypatch):
    from haarflow.runs import catalogue, scheduler

    monkeypatch.setenv("HAARFLOW_EXPERIMENTS", str(Path(__file__).parents[1] / "toys"))
    scheduler.run(catalogue.load("coin-mean")(), out=tmp_path, count=0)
    found = hf.records(tmp_path)
    table = found.to_pandas()
    assert table.shape[0] == len(found) == 1
    assert {"experiment", "seed", "repetitions", "holds"} <= set(table)
    name = next(iter(found[0].arrays()))
    assert found.arrays(name)[0].values.size
    assert cli.answer(["export", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("experiment,seed,")
    assert cli.answer(["export", str(tmp_path), "--format", "npz", "--out", str(tmp_path / "a.npz")]) == 0
    assert any(key.endswith(name) for key in np.load(tmp_path / "a.npz"))
    with pytest.raises(hf.Refusal, match="which has none"):
        hf.records(tmp_path / "nothing")
