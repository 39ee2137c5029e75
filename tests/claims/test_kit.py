"""The kit of experiments: named arrays, designs whose parts are joined, fits that are made once, pictures, faults."""

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure

from haarflow.errors import Refusal
from haarflow.runs import catalogue, design, judge, ledger, machine, scheduler, statistics
from haarflow.runs.experiment import (
    Count,
    Experiment,
    Sizes,
    at_least,
    below,
    blocks,
    film,
    holds,
    named,
    once,
    over,
    panel,
    power_law,
    within,
)
from haarflow.runs.named import Data, Named

ERRORS = named(np.arange(24.0).reshape(2, 3, 4), "teacher", "n", "scheme", teacher=("weak", "any"), n=(10, 50, 100))


def test_parts_of_a_named_array_are_found_by_their_labels():
    np.testing.assert_array_equal(ERRORS.sel(teacher="any", n=50), ERRORS.values[1, 1])
    kept = ERRORS.sel(n=(100, 10), teacher="weak")
    assert kept.dims == ("n", "scheme")
    assert kept.coords == {"n": (100, 10)}
    np.testing.assert_array_equal(kept, ERRORS.values[0, [2, 0]])
    assert ERRORS.sel(n=lambda n: n >= 50).labels("n").tolist() == [50, 100]
    assert ERRORS.isel(scheme=slice(1, 3), n=0).shape == (2, 2)
    assert [label for label, _ in ERRORS.each("teacher")] == ["weak", "any"]
    pairs = dict(ERRORS.each("n", "teacher"))
    assert list(pairs) == [(n, teacher) for n in (10, 50, 100) for teacher in ("weak", "any")]
    np.testing.assert_array_equal(pairs[50, "any"], ERRORS.values[1, 1])
    assert dict(ERRORS.each("teacher", "n", "scheme"))["any", 100, 3] == 23.0
    with pytest.raises(Refusal, match="The labels of 'n' are 10, 50, 100; got 20"):
        ERRORS.sel(n=20)
    with pytest.raises(Refusal, match="The axes of this array are teacher, n, scheme; got 'm'"):
        ERRORS.sel(m=20)


def test_axes_are_reduced_by_name():
    np.testing.assert_allclose(ERRORS.mean("n"), ERRORS.values.mean(1))
    np.testing.assert_allclose(ERRORS.median("n", "teacher"), np.median(ERRORS.values, (0, 1)))
    np.testing.assert_allclose(ERRORS.quantile(0.1, "n"), np.quantile(ERRORS.values, 0.1, axis=1))
    np.testing.assert_allclose(ERRORS.sem("n"), ERRORS.values.std(1, ddof=1) / 3**0.5)
    assert ERRORS.mean("scheme").coords == {"teacher": ("weak", "any"), "n": (10, 50, 100)}
    assert float(ERRORS.max()) == 23.0
    assert f"{ERRORS.max():.1f}" == "23.0"
    assert bool((ERRORS >= 0).all())


def test_arithmetic_lines_axes_up_by_name_and_everything_else_is_numpys():
    scale = named([1.0, 2.0, 3.0], "n", n=(10, 50, 100))
    np.testing.assert_allclose(scale * ERRORS, ERRORS.values * np.array([1.0, 2, 3])[None, :, None])
    assert (scale * ERRORS).dims == ERRORS.dims
    np.testing.assert_allclose(np.log1p(ERRORS), np.log1p(ERRORS.values))
    assert np.log1p(ERRORS).dims == ERRORS.dims
    assert type(np.linalg.norm(ERRORS, axis=-1)) is np.ndarray
    assert type(ERRORS.max() * np.ones(3)) is np.ndarray
    assert type(np.mean(ERRORS, axis=0)) is np.ndarray
    np.testing.assert_array_equal(np.concatenate([ERRORS, ERRORS]), np.concatenate([ERRORS.values] * 2))
    with pytest.raises(Refusal, match="combined label by label; got two lists of labels for 'n'"):
        ERRORS - ERRORS.isel(n=[0, 2, 1])


def test_an_array_goes_to_other_libraries_or_says_that_they_are_missing():
    for library, method in (("pandas", ERRORS.to_pandas), ("xarray", ERRORS.to_xarray)):
        try:
            __import__(library)
        except ImportError:
            with pytest.raises(Refusal, match=f"made by {library}, which is not installed"):
                method()
        else:
            assert method().size == 24


class Kit(Experiment):
    """Everything the kit offers."""

    faults = {"shifted": "everything is moved by one"}

    sizes: Sizes = (4, 2, 8)
    repetitions: Count = 5

    def design(self):
        runs = blocks("run", self.repetitions, size=lambda n, **_: 8 / n)
        yield self.train, (over(teacher=("weak", "any"), n=self.sizes) * runs).largest_first("n")
        yield self.ragged, over(d=(1, 2))
        yield self.alone, once()

    def train(self, key, teacher, n, run):
        shift = 100 * (teacher == "any") + (self.fault == "shifted")
        rows = np.array([[n**-1.0 * (1 + r) + shift, shift + 1.0] for r in run])
        few = [r for r in run if r < 2]
        return {
            "error": named(rows, "run", "scheme", scheme=("DA", "FA")),
            "few": named([float(r) for r in few], "run", run=few),
            "size": n,
        }

    def ragged(self, key, d):
        return {"grid": named(np.full(d + 1, float(d)), "cells", cells=[10 * (3 - d) * i for i in range(1, d + 2)])}

    def alone(self, key):
        return {"draw": jax.random.normal(key), "frames": named(np.eye(3), "time", "place")}

    def fits(self, data):
        return {"weak DA": power_law(data.error.sel(teacher="weak", scheme="DA"), along="n")}

    def claims(self, data):
        yield data.fits["weak DA"].between(-1.01, -0.99)
        yield below("FA of the weak teacher is", data.error.sel(teacher="weak", scheme="FA").max(), 1.5)

    @panel("Errors of {repetitions}", "{repetitions} runs, fault {fault}.", rows=("weak", "any"))
    def error(self, axis, data, teacher):
        axis.plot(data.error.sel(teacher=teacher, scheme="DA").mean("run").values)

    @panel("Never", when=lambda self, data: False)
    def never(self, axis, data):
        raise AssertionError

    @film("Moving", frames=lambda data: len(data.frames))
    def moving(self, figure, data):
        axis = figure.subplots()
        return lambda frame: axis.plot(data.frames[frame])


def gathered(experiment):
    return experiment.computed(jax.random.key(0))


def test_parts_run_largest_first_and_every_size_once_before_the_rest():
    labels = [label for label in design.parts(Kit()) if label.startswith("train")]
    assert labels[:3] == [f"train teacher=weak, n={n}, run=0-{8 // n - 1}" for n in (8, 4, 2)]
    sizes = [int(label.split("n=")[1].split(",")[0]) for label in labels[3:]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(labels) == 2 * (5 + 3 + 2)
    assert list(design.parts(Kit()))[-1] == "alone"


def test_parts_are_joined_along_the_axes_of_the_design():
    data = gathered(Kit())
    assert data.error.dims == ("teacher", "n", "run", "scheme")
    assert data.error.coords["n"] == (4, 2, 8)
    assert data.error.coords["run"] == (0, 1, 2, 3, 4)
    assert float(data.error.sel(teacher="any", n=2, run=3, scheme="DA")) == 0.5 * 4 + 100
    assert data.few.shape == (2, 3, 2)
    assert data.size.dims == ("teacher", "n")
    assert data.grid.labels("cells").tolist() == [10, 20, 30, 40]
    np.testing.assert_array_equal(data.grid.sel(d=1), [np.nan, 1, np.nan, 1])
    np.testing.assert_array_equal(data.grid.sel(d=2), [2, 2, 2, np.nan])


class Uneven(Experiment):
    """Settings that are run more or less often, and find bases of their own size."""

    def design(self):
        yield (
            self.find,
            over(setting=("often", "rare")) * blocks("run", lambda setting: {"often": 3}.get(setting, 1), size=2),
        )

    def find(self, key, setting, run):
        basis = np.eye(2 + (setting == "rare"))
        labels = {"parameter": range(len(basis)), "direction": range(len(basis))}
        return {"found": named([float(r) for r in run], "run"), "basis": named(basis, *labels, **labels)}

    def claims(self, data):
        yield at_least("runs in at least {bound:.0%} of places", np.mean(np.isfinite(data.found)), 4 / 6)
        yield within("the last run", np.nanmax(data.found), 2, 3)


def test_an_axis_may_be_longer_in_some_cells_and_its_gaps_are_nan():
    assert list(design.parts(Uneven())) == [
        "find setting=often, run=0-1",
        "find setting=often, run=2-2",
        "find setting=rare, run=0-0",
    ]
    data = gathered(Uneven())
    np.testing.assert_array_equal(data.found, [[0, 1, 2], [0, np.nan, np.nan]])
    assert data.basis.shape == (2, 3, 3)
    assert np.isnan(data.basis.sel(setting="often", parameter=2)).all()


def test_bounds_that_may_be_met_are_told():
    claims = judge.claims(Uneven(), gathered(Uneven()))
    assert {words: claim.holds for words, claim in claims.items()} == {
        "runs in at least 67% of places": True,
        "the last run from 2 to 3": True,
    }
    assert not at_least("a share", 0.94, 0.95).holds
    assert not at_least("a share", np.nan, 0.95).holds
    assert [within("a count", count, 2, 3).holds for count in (1, 2, 3, 4, np.nan)] == [False, True, True, False, False]


def test_a_fit_is_made_once_named_and_told_everywhere(monkeypatch):
    made = []
    monkeypatch.setattr(statistics, "_band", lambda *a: made.append(a) or (-1.0, 1.0))
    data = gathered(Kit())
    said = judge.judgement(Kit(), data)
    assert len(made) == 1
    assert said["fits"]["weak DA"]["value"] == pytest.approx(-1)
    assert "weak DA: slope in n between −1.01 and −0.99" in said["verdicts"]
    assert said["numbers"]["slope, weak DA, high"] == 1.0
    fit = data.fits["weak DA"]
    assert statistics.Fit.of(fit.facts()) == fit
    figure = Figure()
    fit.draw(figure.subplots())
    spoiled = data.replaced(error=data.error + 1.0)
    assert spoiled.fits["weak DA"].value > -0.5


def test_a_power_law_leaves_out_what_was_not_measured_and_what_comes_too_early():
    sizes = (1, 10, 100, 1000)
    rows = named([[5.0, np.nan, 0.01, 0.001]], "run", "n", n=sizes)
    assert power_law(rows, along="n", since=100).value == pytest.approx(-1)
    assert power_law(rows, along="n", since=1000).sizes == (1.0, 100.0, 1000.0)
    assert power_law(rows.isel(run=0), along="n", since=10).sizes == (100.0, 1000.0)


def test_pictures_are_methods_in_their_order_with_filled_captions():
    data = gathered(Kit())
    errors, moving = Kit(repetitions=5, fault="none").panels(data)
    assert (errors.title, errors.caption) == ("Errors of 5", "5 runs, fault none.")
    figure = Figure()
    errors.draw(figure)
    assert [axis.get_title(loc="center") or axis.get_title(loc="left") for axis in figure.axes] == ["weak", "any"]
    assert moving.frames == 3
    moving.draw(Figure())


def test_a_declared_fault_is_a_setting_a_sentence_and_is_seen():
    assert Kit().fault == "none"
    assert Kit(fault="shifted").model_dump()["fault"] == "shifted"
    with pytest.raises(ValueError, match="Input should be 'none' or 'shifted'"):
        Kit(fault="lost")
    assert "`shifted`: everything is moved by one" in Kit.words()["notes"]
    lost = [claim.holds for claim in judge.claims(Kit(fault="shifted"), gathered(Kit(fault="shifted"))).values()]
    assert lost == [False, False]


def test_two_methods_may_not_give_one_name():
    class Twice(Kit):
        def alone(self, key):
            return {"error": 1.0}

        def claims(self, data):
            yield holds("it is", True)

    with pytest.raises(Refusal, match="have names of their own; two methods give 'error'"):
        gathered(Twice())


def test_a_record_keeps_the_names_of_axes_and_the_fits(tmp_path, monkeypatch):
    toys = __import__("pathlib").Path(__file__).parents[1] / "toys"
    monkeypatch.setenv(catalogue.EXTRA, str(toys))
    monkeypatch.setenv(machine.NO_CACHE, "1")
    record = scheduler.run(catalogue.load("coin-mean")(), out=tmp_path, count=0)
    data = ledger.read(record.path).arrays()
    assert isinstance(data, Data)
    assert isinstance(data.error, Named)
    assert data.error.dims == ("n", "run")
    assert data.error.coords == {"n": (10, 100, 1000)}
    assert data.fits["the error"].value == record.numbers["slope, the error"]
    with pytest.raises(AttributeError, match="The arrays of this record are error; got 'errors'"):
        _ = data.errors


def test_numbers_of_an_array_are_told_by_the_labels_of_its_axes():
    class Told(Kit):
        def numbers(self, data):
            return {"{scheme} of {teacher}, {±1}": data.error.max("run", "n"), "one": data.draw}

    found = judge.numbers(Told(), gathered(Told()))
    assert [name for name in found if "slope" not in name] == [
        "DA of weak, {±1}",
        "FA of weak, {±1}",
        "DA of any, {±1}",
        "FA of any, {±1}",
        "one",
    ]
    assert found["FA of any, {±1}"] == 101.0

    class Short(Kit):
        def numbers(self, data):
            return {"error of {teacher}": data.error.max("run", "n")}

    with pytest.raises(
        Refusal, match="names that hold all their axes; 'error of weak' has no {scheme}. Write {scheme}"
    ):
        judge.numbers(Short(), gathered(Short()))
