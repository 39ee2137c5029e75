"""Estimators: symmetric where they say so, saved to the bit, and at home among those of scikit-learn."""

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

import haarflow as hf
from haarflow.estimators import (
    InvariantKernelClassifier,
    InvariantKernelRidge,
    MeanFieldClassifier,
    MeanFieldRegressor,
    SetClassifier,
    SetRegressor,
    Symmetrised,
)

FLIPS = hf.image_rep("flips", 3, 4)
TURNS = hf.natural_rep(hf.PlanarRotations(4))
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(40, 12))
Y = X[:, 0] + X[:, 1] * X[:, 2]
LABELS = np.array(["no", "yes"])[(Y > 0).astype(int)]
PLANE = DRAW.normal(size=(40, 2))
WEIGHTS = "sample_weight is not equivalent to removing or repeating rows, which are moved by draws of their own"

SMALL = {"epochs": 2, "particles": 6, "batch": 20, "random_state": 0}
ALL = {
    "Symmetrised(Ridge)": Symmetrised(Ridge(), hf.Cyclic),
    "Symmetrised(RandomForestClassifier)": Symmetrised(
        RandomForestClassifier(n_estimators=3, random_state=0), hf.Cyclic, random_state=0
    ),
    "Symmetrised(LogisticRegression)": Symmetrised(LogisticRegression(), None, "average"),
    "Symmetrised(Ridge), canonicalise": Symmetrised(Ridge(), hf.Signs, "canonicalise"),
    "InvariantKernelRidge": InvariantKernelRidge(),
    "InvariantKernelRidge, cyclic": InvariantKernelRidge(hf.Cyclic),
    "InvariantKernelClassifier": InvariantKernelClassifier(),
    "MeanFieldRegressor": MeanFieldRegressor(),
    "MeanFieldRegressor, average": MeanFieldRegressor(hf.Cyclic, "average", **SMALL),
    "MeanFieldClassifier": MeanFieldClassifier(),
    "MeanFieldClassifier, restrict": MeanFieldClassifier(hf.Signs, "restrict", **SMALL),
    "SetRegressor": SetRegressor(**SMALL),
    "SetClassifier": SetClassifier(**SMALL),
}
QUICK = ("Symmetrised(Ridge)",)


def expected(estimator):
    """What scikit-learn itself expects of a forest."""
    forest = isinstance(getattr(estimator, "estimator", None), RandomForestClassifier)
    return {"check_sample_weight_equivalence_on_dense_data": WEIGHTS} if forest else {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_scikit_learns_checks_pass(name):
    for estimator, check in estimator_checks_generator(ALL[name], mark="skip"):
        check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in ALL if name not in QUICK])
def test_scikit_learns_checks_pass_for_all(name):
    import unittest

    for estimator, check in estimator_checks_generator(
        ALL[name], expected_failed_checks=expected(ALL[name]), mark="skip"
    ):
        try:
            check(estimator)
        except unittest.SkipTest:
            continue


def gap(estimator, on_x, on_y, x):
    """How far a fitted estimator is from equivariant over the whole group."""
    plain = np.asarray(values(estimator, x))
    moved = np.stack([values(estimator, rows) for rows in on_x.action().apply(x)])
    wanted = np.asarray(on_y.action().apply(plain))
    return np.abs(moved - wanted).max()


def values(estimator, x):
    found = estimator.predict_proba(x) if hasattr(estimator, "predict_proba") else estimator.predict(x)
    return np.asarray(found, float).reshape(len(x), -1)


@pytest.mark.parametrize("how", ["average", "both", "canonicalise"])
def test_symmetrised_predictions_are_invariant_and_plain_ones_are_not(how):
    for inside, y in ((DecisionTreeRegressor(random_state=0), Y), (DecisionTreeClassifier(random_state=0), LABELS)):
        made = Symmetrised(inside, FLIPS, how).fit(X, y)
        on_y = hf.trivial_rep(FLIPS.group, values(made, X).shape[1])
        assert gap(made, FLIPS, on_y, X) < 1e-12
        assert gap(clone(inside).fit(X, y), FLIPS, on_y, X) > 0.1


def test_outputs_that_move_do_so_with_the_inputs():
    y = PLANE @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + 0.3 * DRAW.normal(size=(40, 2))
    for how in ("average", "both", "canonicalise"):
        made = Symmetrised(KNeighborsRegressor(3), (TURNS, TURNS), how).fit(PLANE, y)
        assert gap(made, TURNS, TURNS, PLANE) < 1e-12, how
    classes = np.floor((np.arctan2(PLANE[:, 1], PLANE[:, 0]) % (2 * np.pi)) / (np.pi / 2)).astype(int)  # quadrants
    shift = hf.permutation_rep(hf.PlanarRotations(4), np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) / np.sqrt(2))
    made = Symmetrised(DecisionTreeClassifier(max_depth=2, random_state=0), (TURNS, shift)).fit(PLANE, classes)
    assert gap(made, TURNS, shift, PLANE) < 1e-12
    assert (made.predict(PLANE) == classes).mean() > 0.9


def test_augmenting_by_the_orbit_is_fitting_the_closed_data():
    made = Symmetrised(Ridge(), FLIPS, "augment").fit(X, Y)
    closed = hf.orbit_closure(hf.Sample(X, Y), FLIPS, hf.trivial_rep(FLIPS.group))
    oracle = Ridge().fit(np.asarray(closed.xs), np.asarray(closed.ys)[:, 0])
    np.testing.assert_allclose(made.estimator_.coef_, oracle.coef_, atol=1e-10)
    drawn = Symmetrised(Ridge(), FLIPS, "augment", copies=3, random_state=0).fit(X, Y)
    assert np.abs(drawn.estimator_.coef_ - oracle.coef_).max() > 1e-3


def test_representatives_are_the_same_on_an_orbit_and_different_on_others():
    from haarflow.practice.acting_on import acting_on
    from haarflow.practice.canonical import canonical

    reps = {
        "sorted blocks": hf.point_set(hf.Symmetric(4), 3),
        "listed": hf.point_set(hf.Cyclic(4), 3),
        "images": FLIPS,
        "signs": hf.natural_rep(hf.Signs(12)),
        "many": hf.point_set(hf.Symmetric(12), 1),
        "signed": hf.natural_rep(hf.Hyperoctahedral(12)),
        "beside": hf.natural_rep(hf.Symmetric(5)) + hf.trivial_rep(hf.Symmetric(5), 7),
    }
    for name, rep in reps.items():
        acting = acting_on("a test", rep, 12, 1)
        found, _ = canonical(acting, X)
        moved = np.asarray(rep.action(rep.group.draw(jax.random.key(1), len(X))).apply_each(X))
        np.testing.assert_array_equal(canonical(acting, moved)[0], found, err_msg=name)
        assert len(np.unique(found, axis=0)) == len(X)
        np.testing.assert_allclose((found**2).sum(1), (X**2).sum(1))  # an image, not something else


def test_invariant_kernels_are_invariant_and_positive():
    made = InvariantKernelRidge(FLIPS, ridge=1e-6).fit(X, Y)
    assert gap(made, FLIPS, hf.trivial_rep(FLIPS.group), X) < 1e-9
    table = made._kernel(X, X)
    assert np.linalg.eigvalsh(table)[0] > -1e-12
    np.testing.assert_allclose(table, made._kernel(np.asarray(FLIPS.action().apply(X))[1], X), atol=1e-12)
    turned = InvariantKernelRidge(hf.natural_rep(hf.SpecialOrthogonal(12)), draws=4, random_state=0).fit(X, Y)
    np.testing.assert_allclose(turned._kernel(X, X), turned._kernel(X, X).T, atol=1e-12)
    oracle = np.linalg.solve(table + 1e-6 * np.eye(len(X)), Y - Y.mean())
    np.testing.assert_allclose(made.weights_[:, 0], oracle, rtol=1e-5, atol=1e-5)


def test_mean_field_networks_are_symmetric_as_they_say_and_learn():
    steps = {"epochs": 25, "particles": 20, "batch": 20, "random_state": 0}
    for symmetry in ("average", "restrict"):
        made = MeanFieldRegressor((TURNS, TURNS), symmetry, validation=0, **steps).fit(PLANE, 2 * PLANE)
        assert gap(made, TURNS, TURNS, PLANE) < 1e-10, symmetry
    made = MeanFieldClassifier(TURNS, "augment", **steps).fit(PLANE, np.hypot(*PLANE.T) > 1)
    assert made.score(PLANE, np.hypot(*PLANE.T) > 1) > 0.6
    assert 0 <= made.epochs_ <= 25
    assert made.validation_losses_[made.epochs_] == made.validation_losses_.min()


def test_going_on_starts_from_the_particles_that_are_there():
    steps = {"epochs": 2, "particles": 6, "batch": 20, "validation": 0.0, "learning_rate": 1e-9, "random_state": 0}
    made = MeanFieldRegressor(warm_start=True, **steps).fit(PLANE, PLANE[:, 0])
    before = np.asarray(made.cloud_.atoms)
    after = np.asarray(made.set_params(random_state=5).fit(PLANE, PLANE[:, 0]).cloud_.atoms)
    np.testing.assert_allclose(before, after, atol=1e-6)
    fresh = MeanFieldRegressor(**(steps | {"random_state": 5})).fit(PLANE, PLANE[:, 0])
    assert np.abs(np.asarray(fresh.cloud_.atoms) - before).max() > 0.1
    some = MeanFieldClassifier(particles=6, batch=20, random_state=0).partial_fit(
        PLANE[:20], LABELS[:20], ["no", "yes"]
    )
    assert list(some.partial_fit(PLANE[20:], LABELS[20:]).classes_) == ["no", "yes"]
    with pytest.raises(hf.Refusal, match="goes on with the classes that it knows; got the class 'may be'"):
        some.partial_fit(PLANE[:1], ["may be"])


def test_sets_know_no_order():
    rows = DRAW.normal(size=(40, 6))
    y = rows.reshape(40, 3, 2).max(axis=(1, 2))
    made = SetRegressor(columns=2, **SMALL).fit(rows, y)
    turned = rows.reshape(40, 3, 2)[:, ::-1].reshape(40, 6)
    np.testing.assert_allclose(made.predict(rows), made.predict(turned), atol=1e-12)


@pytest.mark.slow
def test_sets_come_in_different_sizes():
    sets = [DRAW.normal(size=(1 + i % 3, 2)) for i in range(40)]
    mixed = SetClassifier(columns=2, masses=True, **SMALL).fit(sets, LABELS)
    np.testing.assert_allclose(mixed.predict_proba(sets), mixed.predict_proba([one[::-1] for one in sets]), atol=1e-12)


def test_what_is_saved_comes_back_to_the_bit(tmp_path):
    for number, (made, y) in enumerate(
        [
            (Symmetrised(RandomForestClassifier(n_estimators=3, random_state=0), FLIPS), LABELS),
            (Symmetrised(make_pipeline(StandardScaler(), Ridge()), hf.Signs, "canonicalise"), Y),
            (InvariantKernelClassifier(FLIPS), LABELS),
            (MeanFieldRegressor(FLIPS, "average", **SMALL), Y),
            (MeanFieldClassifier(hf.Cyclic, unit="bump", **SMALL), LABELS),
        ]
    ):
        made.fit(X, y).save(tmp_path / f"{number}.npz")
        again = type(made).load(tmp_path / f"{number}.npz")
        np.testing.assert_array_equal(values_or_words(made), values_or_words(again))
        assert repr(again) == repr(made)
    with pytest.raises(
        hf.Refusal, match="Symmetrised.load reads what Symmetrised.save wrote; got a MeanFieldClassifier"
    ):
        Symmetrised.load(tmp_path / "4.npz")


def values_or_words(made):
    return made.predict_proba(X) if hasattr(made, "predict_proba") else made.predict(X)


def test_they_are_at_home_among_those_of_scikit_learn():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Symmetrised(Ridge(), hf.Cyclic)),
        {"symmetrised__how": ["augment", "both"], "symmetrised__estimator__alpha": [0.1, 1.0]},
        cv=2,
    ).fit(table, Y)
    assert set(search.best_params_) == {"symmetrised__how", "symmetrised__estimator__alpha"}
    made = Symmetrised(Ridge(), "permute columns c0, c3").fit(table, Y)
    assert list(made.feature_names_in_) == list(table.columns)
    swapped = table.rename(columns={"c0": "c3", "c3": "c0"})[list(table.columns)]
    np.testing.assert_allclose(made.predict(table), made.predict(swapped), atol=1e-12)
    assert len(cross_val_score(clone(made), table, Y, cv=3)) == 3


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Symmetrised(Ridge(), FLIPS).fit(X[:, :5], Y), "got 5 columns and a group that acts on 12"),
        (lambda: Symmetrised(StandardScaler(), FLIPS).fit(X, Y), "which has `fit` and `predict`; got"),
        (lambda: Symmetrised(Ridge(), FLIPS, "avarage").fit(X, Y), "is one of augment, average, both, canonicalise"),
        (lambda: Symmetrised(Ridge(), FLIPS).fit(np.full((5, 12), np.nan), Y[:5]), "Input X contains NaN"),
        (lambda: Symmetrised(Ridge(), FLIPS).fit([["a"] * 12] * 5, Y[:5]), "could not convert string to float"),
        (lambda: Symmetrised(Ridge(), 3.0).fit(X, Y), "takes a group that moves its columns; got 3.0"),
        (lambda: Symmetrised(LogisticRegression(), FLIPS).fit(X, ["a"] * 40), "at least 2 classes"),
        (lambda: MeanFieldClassifier(**SMALL).fit(X, ["a"] * 40), "two classes or more apart; got one class"),
        (lambda: MeanFieldRegressor(unit="neuron").fit(X, Y), "unit is one of perceptron, bump, dense; got 'neuron'"),
        (lambda: MeanFieldRegressor(particles=0).fit(X, Y), "particles is a whole number >= 1; got 0"),
        (lambda: MeanFieldRegressor(validation=1.5).fit(X, Y), "validation is a number >= 0 and below 1; got 1.5"),
        (lambda: SetRegressor(columns=5).fit(X, Y), "got 12 columns, which 5 does not divide"),
        (lambda: InvariantKernelRidge((TURNS, TURNS)).fit(PLANE, Y), "on as many numbers as there are outputs"),
        (lambda: InvariantKernelRidge(ridge=-1).fit(PLANE, Y), "ridge is a number above 0; got -1"),
        (
            lambda: Symmetrised(Ridge(), hf.natural_rep(hf.SpecialOrthogonal(12)), "canonicalise").fit(X, Y),
            "Orbits have a representative here where",
        ),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(hf.Refusal) as refused:
        call()
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
