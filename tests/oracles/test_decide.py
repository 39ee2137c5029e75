"""decide: intervals by the textbook, the right recommendation, a run that goes on, and one sentence for bad input."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import haarflow as hf
from haarflow.practice import trial_fits
from haarflow.practice.resampling import corrected_interval, rows_to_separate

TURNS = hf.natural_rep(hf.PlanarRotations(4))
DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(160, 2))
RING = np.cos(2 * np.hypot(*X.T)) + 0.3 * DRAW.normal(size=160)
TILT = X[:, 0] + 0.1 * DRAW.normal(size=160)
FAST = {"estimator": KNeighborsRegressor(4), "repeats": 2, "curve": False, "progress": False}


def test_the_interval_is_that_of_nadeau_and_bengio():
    values = np.array([0.1, -0.3, 0.25, 0.4, 0.05, 0.2])
    found = corrected_interval(values, 0.25, 0.9)
    half = stats.t.ppf(0.95, 5) * np.sqrt((1 / 6 + 0.25) * values.var(ddof=1))
    np.testing.assert_allclose([found.mean, found.low, found.high], values.mean() + half * np.array([0, -1, 1]))
    plain = stats.ttest_1samp(values, 0).confidence_interval(0.9)  # without the correction
    np.testing.assert_allclose(corrected_interval(values, 0.0, 0.9).low, plain.low)
    assert rows_to_separate(100, found, 0.0) == pytest.approx(100 * (half / values.mean()) ** 2)


def test_the_interval_covers_where_folds_overlap():
    """The difference of two equal learners, on 100 data sets: the corrected interval misses zero in few of them.

    Of 100 intervals at level 0.9 more than 20 miss with probability below 0.001; without the correction they do.
    """
    from sklearn.model_selection import RepeatedKFold

    missed = {True: 0, False: 0}
    for seed in range(100):
        draw = np.random.default_rng(seed)
        x, y = draw.normal(size=(40, 2)), draw.normal(size=40)
        gaps = []
        for train, test in RepeatedKFold(n_splits=5, n_repeats=4, random_state=seed).split(x):
            slopes = [(x[train, i] @ y[train]) / (x[train, i] @ x[train, i]) for i in range(2)]
            errors = [np.mean((y[test] - slope * x[test, i]) ** 2) for i, slope in enumerate(slopes)]
            gaps.append(errors[0] - errors[1])
        for corrected in missed:
            found = corrected_interval(np.array(gaps), 0.25 if corrected else 0.0, 0.9)
            missed[corrected] += not found.low <= 0 <= found.high
    assert missed[True] <= 20 < missed[False]


def test_a_symmetry_that_holds_is_used_and_one_that_does_not_is_left_alone():
    many = np.random.default_rng(4).normal(size=(800, 2))
    held = hf.decide(many, np.cos(3 * np.hypot(*many.T)), TURNS, **FAST)
    assert held.recommended in ("average at prediction", "augment and average", "build in", "augment")
    assert "plain" not in held.eligible
    assert held.interval(held.recommended, "plain").high < 0
    assert held.costs["equivariance error"][held.names.index("augment and average")] < 1e-20
    broken = hf.decide(X, TILT, TURNS, **FAST)
    assert broken.recommended == "plain"
    assert str(broken).startswith("Stay plain for a KNeighborsRegressor on 160 rows under PlanarRotations(4):")
    unsure = hf.decide(X[:20], DRAW.normal(size=20), TURNS, **FAST)
    assert unsure.recommended is None
    assert unsure.rows > 20
    assert str(unsure).startswith("Cannot tell")


def test_the_answer_is_a_table_a_picture_and_json():
    from matplotlib.figure import Figure

    quick = FAST | {"curve": True, "repeats": 1, "estimator": KNeighborsClassifier(3)}
    found = hf.decide(X, np.hypot(*X.T) > 1, TURNS, **quick)
    columns = found.table()
    assert {len(column) for column in columns.values()} == {5}
    assert found.sizes == (16, 32, 64, 128)
    assert found.curve.shape == (4, 5, 5)
    told = json.loads(found.to_json())
    assert told["verdict"] == str(found)
    assert told["table"]["candidate"] == list(found.names)
    for draw in (found.draw, found.draw_curve):
        draw(Figure().subplots())


def test_a_run_that_is_killed_goes_on(tmp_path, monkeypatch):
    kept, calls, plain = tmp_path / "fits.jsonl", [], trial_fits.measured

    def counting(*args, **options):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return plain(*args, **options)

    monkeypatch.setattr("haarflow.practice.decide.measured", counting)
    with pytest.raises(KeyboardInterrupt):
        hf.decide(X, RING, TURNS, keep=kept, **FAST)
    with open(kept, "a") as file:
        file.write('\n{"of": "cut sho')
    first = hf.decide(X, RING, TURNS, keep=kept, **FAST)
    assert len(calls) == 8 + 50 - 7  # ten splits of five candidates, seven of which were kept
    again = hf.decide(X, RING, TURNS, keep=kept, **FAST)
    assert len(calls) == 51
    np.testing.assert_array_equal(first.losses, again.losses)
    hf.decide(X, RING + 1, TURNS, keep=kept, **FAST)
    assert len(calls) == 101, "other labels are another question"


@pytest.mark.slow
def test_what_cannot_be_done_is_left_out_and_said():
    rotations = hf.natural_rep(hf.SpecialOrthogonal(2))
    found = hf.decide(X, RING, rotations, draws=4, **FAST)
    assert found.names == ("plain", "augment", "average at prediction", "augment and average")
    assert found.left_out["build in"].startswith("Orbits have a representative here where")


def test_words_may_use_the_names_of_columns():
    """The names are those of the table that decide was given, though fits see its rows alone."""
    from pandas import DataFrame

    table = DataFrame(X, columns=["left", "right"])
    found = hf.decide(table, RING, "permute columns left, right", **FAST)
    assert len(found.names) == 5
    assert not found.left_out
    numbered = hf.decide(X, RING, "permute columns 0, 1", **FAST)
    np.testing.assert_array_equal(found.losses, numbered.losses)


def test_a_model_that_no_way_can_fit_is_refused_in_a_sentence(monkeypatch):
    def refused(task, estimator, *args, **options):
        if type(estimator).__name__ == "Symmetrised":
            raise hf.Refusal("It cannot be moved.")
        return trial_fits.measured(task, estimator, *args, **options)

    monkeypatch.setattr("haarflow.practice.decide.measured", refused)
    with pytest.raises(hf.Refusal, match="got a model that can be fitted in none of them: It cannot be moved."):
        hf.decide(X, RING, TURNS, **FAST)


def test_equal_seconds_give_rows_to_what_trains_fast():
    found = hf.decide(X, RING, TURNS, budget="equal-seconds", **(FAST | {"repeats": 1}))
    assert found.shares[0] == 1
    assert all(0 < share <= 1 for share in found.shares)
    assert list(found.table()["share of rows"]) == list(found.shares)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: hf.decide(X, RING, hf.Cyclic(3), **FAST), "got 2 columns and a group that acts on 3"),
        (lambda: hf.decide(X, np.ones(160), TURNS, **FAST), "labels that differ; got the constant 1"),
        (lambda: hf.decide(X, ["a"] * 160, TURNS, estimator="forest"), "two classes or more apart; got one class, 'a'"),
        (lambda: hf.decide(X[:6], RING[:6], TURNS, **FAST), "two rows or more in each fold; got 6 rows and 5 folds"),
        (lambda: hf.decide(X, RING, TURNS, estimator=object()), "which has `fit` and `predict`; got an object"),
        (lambda: hf.decide(X, RING, TURNS, estimator=Ridge), "which has `fit` and `predict`; got"),
        (lambda: hf.decide(X, RING, TURNS, estimator="tree"), "A model is one of forest, linear, kernel, mean-field"),
        (lambda: hf.decide(X, RING, TURNS, estimator="os:nothing"), "module:Class is a class that is made without"),
        (lambda: hf.decide(X * np.nan, RING, TURNS, **FAST), "decide's x holds finite numbers; got nan at [0, 0]"),
        (lambda: hf.decide([["a", "b"]] * 160, RING, TURNS, **FAST), "decide's x is an array of real numbers"),
        (lambda: hf.decide(X, [*RING[:-1], None], TURNS, **FAST), "a label in every row; got none in row 159"),
        (lambda: hf.decide(X, ["a", None] * 80, TURNS), "a label in every row; got none in row 1"),
        (lambda: hf.decide(X, np.array([*RING[:-1], "tall"], object), TURNS), "got 'tall' in row 159 among numbers"),
        (lambda: hf.decide(X, 1e200 * RING, TURNS, **FAST), "labels whose variance is a number; got some of size"),
        (lambda: hf.decide(X, RING, TURNS, estimator=KNeighborsClassifier()), "a few classes apart; got 160 in 160"),
        (lambda: hf.decide(X, RING, TURNS, estimator=Ridge(alpha=-1.0)), "got an InvalidParameterError from it: The"),
        (lambda: hf.decide(X * 1j, RING, TURNS, **FAST), "decide's x is an array of real numbers; got"),
        (lambda: hf.decide(X, RING[:5], TURNS, **FAST), "got 160 rows and labels of shape (5,)"),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(hf.Refusal) as refused:
        call()
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_differences_that_cancel_are_nothing_but_rounding():
    values = np.array([0.1, -0.3, 0.2]) * 0.7
    assert 0 < abs(values.mean()) < 1e-16
    assert str(corrected_interval(values, 0.25, 0.95)).startswith("0 [-")


def test_candidates_that_are_one_differ_by_nothing():
    found = hf.decide(X, RING, "keep 2 columns", **FAST)
    assert (found.recommended, found.rows) == ("plain", None)
    assert "minus plain is 0 [0, 0]" in str(found)
