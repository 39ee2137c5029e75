"""Every candidate of decide chooses its own penalty: fairly, on the training rows alone, on the same inner folds."""

from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import haarflow as hf
from haarflow.estimators import InvariantKernelRidge, MeanFieldRegressor, Symmetrised
from haarflow.practice import kernel_estimators, penalties
from haarflow.practice.held_tables import held, holding
from haarflow.practice.kernel_estimators import plain_kernel
from haarflow.practice.penalties import FACTORS, INNER, MOST, chosen_penalty, penalty_of, within

TURNS = hf.natural_rep(hf.PlanarRotations(4))
DRAW = np.random.default_rng(5)
X = DRAW.normal(size=(120, 2))
RING = np.cos(2 * np.hypot(*X.T)) + 0.3 * DRAW.normal(size=120)
QUICK = {"repeats": 1, "curve": False, "progress": False}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (InvariantKernelRidge(), "ridge"),
        (Ridge(), "alpha"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "logisticregression__C"),
        (Symmetrised(Ridge(), TURNS), "estimator__alpha"),
        (RandomForestRegressor(), None),
        (GradientBoostingRegressor(), None),  # its alpha is a quantile
        (MeanFieldRegressor(), None),  # it stops early
        (Ridge(alpha=0.0), None),
    ],
)
def test_the_penalty_of_a_model_is_found_by_its_kind(model, name):
    assert penalty_of(model, "auto") == name
    assert penalty_of(model, "given") is None


def test_the_least_inner_loss_wins_and_the_nearest_of_equals():
    asked = []

    def loss_of(estimator, train, test):
        asked.append((estimator.alpha, tuple(train), tuple(test)))
        return abs(np.log10(estimator.alpha) - 1.6)

    rows = DRAW.permutation(120)
    assert chosen_penalty(Ridge(alpha=3.0), "alpha", RING, rows, 0, loss_of) == pytest.approx(30)
    assert len(asked) == len(FACTORS) * INNER
    folds = {(train, test) for _, train, test in asked}
    assert len(folds) == INNER, "the same folds for every value"
    assert all(not set(train) & set(test) for train, test in folds)
    assert {row for _, test in folds for row in test} == set(rows), "and none but training rows"
    asked.clear()
    chosen_penalty(Ridge(alpha=9.0), "alpha", RING, rows, 0, loss_of)
    assert {(train, test) for _, train, test in asked} == folds, "and for every candidate"
    assert chosen_penalty(Ridge(alpha=3.0), "alpha", RING, rows, 0, lambda *_: 1.0) == 3.0
    assert chosen_penalty(Ridge(alpha=3.0), "alpha", RING, rows[:6], 0, loss_of) == 3.0, "too few to ask"
    asked.clear()
    many = DRAW.permutation(2 * MOST)
    chosen_penalty(Ridge(), "alpha", np.arange(2.0 * MOST), many, 0, loss_of)
    assert {row for _, *parts in asked for part in parts for row in part} == set(many[:MOST])


@pytest.mark.parametrize("group", [None, TURNS], ids=["plain", "built in"])
def test_a_kernels_table_is_computed_once_for_all_ridges(monkeypatch, group):
    made, losses = [], []

    def counting(*args):
        made.append(1)
        return plain_kernel(*args)

    def loss_of(estimator, train, test):
        found = estimator.fit(X[train], RING[train]).predict(X[test])
        losses.append(float(np.mean((found - RING[test]) ** 2)))
        return losses[-1]

    monkeypatch.setattr(kernel_estimators, "plain_kernel", counting)
    model = InvariantKernelRidge(group)
    chosen_penalty(model, "ridge", RING, np.arange(120), 0, loss_of)
    tables = 2 * INNER * (1 if group is None else 4)  # of the rows, and of the rows with those that are left out
    assert len(made) == tables
    monkeypatch.setattr(penalties, "holding", nullcontext)
    before, losses[:] = list(losses), []
    chosen_penalty(model, "ridge", RING, np.arange(120), 0, loss_of)
    assert len(made) == tables * (1 + len(FACTORS))
    assert losses == before, "to the bit"


def test_what_is_held_is_known_by_what_it_depends_on_and_stays_as_it_is():
    rows = np.arange(6.0).reshape(2, 3)
    with holding():
        first = held(lambda: rows.sum(axis=0), "sum", rows)
        assert held(lambda: rows.sum(axis=1), "sum", rows) is first
        assert held(lambda: rows.sum(axis=1), "sum", rows.T).shape == (2,), "the same bytes in another shape"
        assert held(lambda: -rows, "sum", rows + 1)[0, 1] == -1
        with pytest.raises(ValueError, match="read-only"):
            first += 1
        large = [held(lambda: np.zeros(2**24), i) for i in range(3)]
        assert held(lambda: np.ones(2**24), 2) is not large[2], "beyond the limit nothing more is held"
    assert held(lambda: np.ones(1), "sum", rows)[0] == 1, "and nothing after it"


def test_a_value_that_is_refused_is_not_taken():
    def loss_of(estimator, train, test):
        if estimator.alpha < 5:
            raise hf.Refusal("too small")
        return estimator.alpha

    assert chosen_penalty(Ridge(), "alpha", RING, np.arange(120), 0, loss_of) == 10.0


@pytest.mark.slow
def test_what_scales_the_ridge_of_one_candidate_no_longer_decides():
    """Augmenting by the whole group at |G| times the ridge is building in: each asked for its best, they do as well."""
    noisy = RING + DRAW.normal(size=120)
    found = {way: hf.decide(X, noisy, TURNS, estimator="kernel", penalty=way, **QUICK) for way in ("given", "auto")}
    gap = {way: abs(one.interval("augment", "build in").mean) for way, one in found.items()}
    assert gap["auto"] < 0.5 * gap["given"]
    assert "ridge" not in found["given"].table()
    chosen = found["auto"].table()["ridge"]
    ratios = np.log10(np.array(chosen) / 0.1)
    np.testing.assert_allclose(ratios, ratios.round(), atol=1e-9)
    assert chosen[found["auto"].names.index("augment")] >= chosen[found["auto"].names.index("build in")]


def test_a_setting_is_said_or_refused():
    assert within(Symmetrised(Ridge(), TURNS), "alpha") == "estimator__alpha"
    found = hf.decide(X[:40], RING[:40], TURNS, estimator=Ridge(), penalty="tol", folds=2, **QUICK)
    assert len(found.table()["tol"]) == 5
    with pytest.raises(hf.Refusal, match="The penalty of decide is 'auto', 'given', or a setting of the model"):
        hf.decide(X, RING, TURNS, estimator=Ridge(), penalty="lasso", **QUICK)
