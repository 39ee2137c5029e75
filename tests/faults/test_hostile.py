"""What hostile and naive callers gave, beyond the storm's table: names, files, edited records, named arrays, labels."""

import errno
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import haarflow as hf
from haarflow.dynamics import checkpoints
from haarflow.errors import Refusal
from haarflow.runs import catalogue, config, launch, ledger, machine, report, scheduler, sweeps
from haarflow.runs.named import concatenated, named
from haarflow.runs.statistics import slope

TOYS = Path(__file__).parents[1] / "toys"
CLOUD = hf.uniform(np.array([[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0]]))
FIELD = hf.Descend(hf.Penalty(1.0))
LONG = "a" * 300
TABLE = named(np.arange(6.0).reshape(3, 2), "run", "scheme", scheme=("DA", "FA"))


class Table(dict):
    """A table with named columns, as data frames are."""

    @property
    def columns(self):
        return list(self)


def flow(**options):
    return hf.flow(FIELD, hf.Euler(), CLOUD, **{"key": 0, "dt": 0.1, "steps": 2, **options})


CALLS = {
    "misspelt": (lambda _: flow(step=3), "got an argument 'step'. Write steps."),
    "missing": (lambda _: hf.flow(FIELD, hf.Euler(), CLOUD, key=0), "got no dt and no steps. Write dt=..."),
    "surplus": (lambda _: CLOUD.resample(0, 3, 4), "resample takes key, n; got 3 without a name."),
    "twice": (lambda _: flow(field=FIELD), "got field twice."),
    "probe 1": (lambda _: flow(probes={1: len}), "words in quotes; got the name 1. Write {'1': ...}."),
    "player 1": (lambda _: hf.Each({1: hf.Euler()}), "words in quotes; got the name 1."),
    "no player": (lambda _: hf.restrict(FIELD, {}), "names the players that it restricts; got none."),
    "one row": (lambda _: hf.split(0, hf.Sample([[1.0]], [1.0]), 0.5), "Write a sample of more rows."),
    "epochs": (
        lambda _: hf.split(0, hf.Sample(np.ones((99_998, 1)), np.ones(99_998), 49_999, replace=False), 0.3),
        "got batches of 49999 from 69999 rows",
    ),
    "long checkpoint": (lambda home: flow(checkpoint=home / LONG), "(file name too long)"),
    "long file": (lambda home: CLOUD.save(home / LONG), "(file name too long)"),
    "no file": (lambda home: CLOUD.save(f"{home}/a\0b"), "which no file can have"),
    "npy": (lambda home: np.save(home / "x.npy", np.ones(3)) or hf.Cloud.load(home / "x.npy"), "which is not one"),
    "hole": (lambda _: hf.load(Table(a=[1, 2], y=np.array(["cat", None]))), "got None in row 1 of the column 'y'."),
    "blank": (lambda home: hf.load(written(home / "x.csv", "1,2,cat\n3,4,\n")), "got '3,4,' in line 2 of x.csv."),
    "scalar idx": (lambda home: hf.load(idx(home, b"\0\0\x08\0\5")), "does not read as one"),
    "empty idx": (lambda home: hf.load(idx(home, b"\0\0\x08\1\0\0\0\0")), "does not read as one"),
    "place": (lambda _: TABLE.isel(run=9), "from 0 to 2, a list of them, or a slice; got 9."),
    "mask": (lambda _: TABLE.isel(run=[True, False, True]), "whole numbers from 0 to 2"),
    "share": (lambda _: TABLE.quantile(1.5, "run"), "lies between 0 and 1; got 1.5."),
    "axes": (lambda _: TABLE.transpose("run"), "names every axis once, run, scheme; got ['run']."),
    "many": (lambda _: float(TABLE), "got an array with the axes run, scheme. Write .max()"),
    "word": (lambda _: named(np.ones(2), "scheme", scheme="DA"), "are a list, one for each place; got 'DA'."),
    "sizes": (lambda _: named(np.ones(3), "run") + named(np.ones(1), "run"), "got 1 and 3 places of 'run'."),
    "plain": (lambda _: TABLE + np.ones(5), "got (5,). Write named(...) for the other."),
    "labels": (
        lambda _: concatenated([TABLE, named(np.ones((1, 2)), "run", "scheme", scheme=("X", "Y"))], "run"),
        "where the labels of their other axes agree",
    ),
}


def written(path, text):
    path.write_text(text)
    return path


def idx(home, content):
    for kind in ("images-idx3", "labels-idx1"):
        (home / kind).write_bytes(content)
    return home / "images-idx3"


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_answered_in_a_sentence(tmp_path, name):
    call, sentence = CALLS[name]
    with pytest.raises(Refusal) as refused:
        call(tmp_path)
    assert sentence in str(refused.value)


def test_no_more_processes_are_launched_than_fit(monkeypatch):
    monkeypatch.setattr(launch.subprocess, "Popen", None)  # so that none begins, whatever launch does
    with pytest.raises(Refusal, match="Write --processes"):
        launch.launch(TOYS / "coin_mean.py", [], processes=10**5)


def test_a_checkpoint_that_cannot_be_saved_is_told_of(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints, "write_whole", full)
    with pytest.raises(Refusal, match="No space left on device. Check the folder and the disk"):
        flow(checkpoint=tmp_path / "place.npz")


def test_every_batch_of_a_loader_is_labelled_as_its_loss_takes_it():
    """Only the first was looked at: later ones trained to nonsense."""
    loader = hf.Loader(lambda step: (np.ones((2, 2)), np.array([-1.0, 1.0 if step < 2 else 7.0])))
    unit = hf.Perceptron(2, 1, "tanh")
    cloud = hf.uniform(jnp.ones((3, unit.dim)))
    with pytest.raises(Refusal, match="labels -1 and 1; got -1, 7 at step 2"):
        hf.flow(hf.Descend(hf.Risk(unit, loader, "logistic")), hf.Euler(), cloud, key=0, dt=0.1, steps=4)
    hf.flow(hf.Descend(hf.Risk(unit, loader)), hf.Euler(), cloud, key=0, dt=0.1, steps=4)


def test_labels_of_two_kinds_stay_what_they_are():
    mixed = named(np.arange(2.0), "n", n=(1, "all"))
    assert [label for label, _ in mixed.each("n")] == [1, "all"]
    assert float(mixed.sel(n=1)) == 0.0


def test_arrays_are_put_in_a_row_by_the_names_of_their_axes():
    turned = TABLE.transpose("scheme", "run")
    assert np.array_equal(concatenated([TABLE, turned], "run").values, np.concatenate([TABLE.values] * 2))


def test_the_band_of_one_repetition_has_the_confidence_that_is_asked_for():
    """The t quantiles of two degrees of freedom, 0.8165 at 50% and 4.3027 at 95%: it was always the latter."""
    half, most = (slope([1, 2, 3, 4], [1, 2.1, 3, 3.9], confidence=c) for c in (0.5, 0.95))
    assert (most.high - most.low) / (half.high - half.low) == pytest.approx(4.30265 / 0.81650, rel=1e-4)


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A finished record of a toy."""
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    monkeypatch.setenv(machine.NO_CACHE, "1")
    return scheduler.run(catalogue.load("coin-mean")(sizes=(10, 20), repetitions=5), out=tmp_path, count=0)


def test_an_edited_timing_is_no_timing(record):
    for edited in ('{"seconds": 5}', '{"seconds": {"compile": "x", "run": 1}}', '{"memory": {"a": "x"}}', "[]", "null"):
        (record.path / "timing.json").write_text(edited)
        assert ledger.read(record.path).seconds == {"compile": 0.0, "run": 0.0}
        assert ledger.read(record.path).memory is None


def test_a_part_whose_header_was_edited_is_run_again(tmp_path):
    ledger.write_part(tmp_path, "a", {"x": np.ones(2)}, versions={}, code="c", axes={"x": {"dims": ["run"]}})
    path = ledger.part_path(tmp_path, "a")
    assert isinstance(ledger.read_part(tmp_path, "a", {}, "c"), tuple)
    path.write_bytes(path.read_bytes().replace(b'"run"', b'"fun"'))
    assert ledger.read_part(tmp_path, "a", {}, "c") == "its file is truncated or was changed"


def test_a_folder_whose_name_no_folder_can_have(tmp_path):
    assert not ledger.finished(tmp_path / LONG)
    with pytest.raises(Refusal, match="is not a folder"):
        report.report(tmp_path / LONG)


def test_locks_of_editors_are_no_experiments(tmp_path, monkeypatch):
    (tmp_path / ".#own.py").symlink_to("nobody@nowhere.1234")
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    assert "own" not in catalogue.catalogue()


@pytest.mark.parametrize("value", ["[" * 3000, "1" * 5000, "1\nrepetitions = 3"], ids=["deep", "long", "two lines"])
def test_a_setting_that_toml_cannot_read_is_a_word(value):
    assert config.parse(f"scale={value}") == {"scale": value}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = " + "[" * 3000, "is not one"),
        ("x = " + "1" * 5000, "is not one"),
        ('experiment = "coin-mean"\n[sweep]\nscale = 1979-05-27', 'Write scale = ["1979-05-27"]'),
    ],
    ids=["deep", "long", "date"],
)
def test_a_sweep_file_with_odd_content(tmp_path, monkeypatch, text, sentence):
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    with pytest.raises(Refusal) as refused:
        sweeps.jobs(written(tmp_path / "sweep.toml", text), tmp_path)
    assert sentence in str(refused.value)


def test_a_saved_file_with_any_byte_changed_is_refused_or_the_same(tmp_path):
    fitted, path = hf.Fitted(hf.Dense(1, 2), CLOUD), tmp_path / "f.npz"
    fitted.save(path)
    content = path.read_bytes()
    for i in range(len(content) - 400, len(content)):  # where the table of contents is
        path.write_bytes(content[:i] + bytes([content[i] ^ 255]) + content[i + 1 :])
        try:
            found = hf.Fitted.load(path)
        except Refusal:
            continue
        assert jax.tree.all(jax.tree.map(np.array_equal, found, fitted))
