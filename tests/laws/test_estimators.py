"""Estimators: symmetric where they say so, saved to the bit, and at home among those of scikit-learn."""

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import haarflow as hf
from haarflow.estimators import (
    InvariantKernelClassifier,
    InvariantKernelRidge,
    MaxMarginClassifier,
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


UNSEPARABLE = (  # checks whose rows have labels that no direction separates, most of them dealt at random
    "check_classifier_data_not_an_array",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_readonly_memmap_input",
    "check_supervised_y_2d",
)
PIPELINES = {  # checks that no pipeline passes, or none that begins with features which take sparse tables
    "check_dont_overwrite_parameters": "a pipeline fits its steps in place",
    "check_estimators_overwrite_params": "a pipeline fits its steps in place",
    "check_estimator_sparse_array": "Nystroem takes sparse tables, and gives dense ones",
    "check_estimator_sparse_matrix": "Nystroem takes sparse tables, and gives dense ones",
    "check_estimator_sparse_tag": "Nystroem takes sparse tables, and gives dense ones",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_margin_fails_scikit_learns_checks_only_where_no_direction_separates():
    """A hard margin refuses rows that no direction separates: these checks cannot pass, and fail by that alone."""
    reasons = dict.fromkeys(UNSEPARABLE, "no direction separates the rows of this check")
    found = check_estimator(MaxMarginClassifier(), expected_failed_checks=reasons, on_skip=None)
    failed = [one for one in found if one["status"] == "xfail"]
    assert {one["check_name"] for one in failed} == set(UNSEPARABLE)
    assert all("No direction separates" in str(one["exception"]) for one in failed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_margin_passes_scikit_learns_checks_behind_features_that_separate():
    """Features of a narrow kernel separate rows with whatever labels: the same checks, none left out for its rows."""
    made = make_pipeline(Nystroem(gamma=10.0, n_components=300, random_state=0), MaxMarginClassifier())
    found = check_estimator(made, expected_failed_checks=PIPELINES, on_skip=None)
    passed = {one["check_name"] for one in found if one["status"] == "passed"}
    assert set(UNSEPARABLE) - set(PIPELINES) <= passed
    margin = MaxMarginClassifier(FLIPS)  # and the two that pipelines fail, of the margin itself
    before = dict(vars(margin))
    margin.fit(X, X.sum(axis=1) > 0)
    assert before == {name: value for name, value in vars(margin).items() if not name.endswith("_")}


def test_the_margin_is_the_largest_that_a_group_allows():
    labels = np.array(["minus", "plus"])[(X.sum(axis=1) > 0).astype(int)]
    for group, under in ((None, None), (FLIPS, FLIPS), ("flips of 3x4 images", FLIPS)):
        made, answer = MaxMarginClassifier(group).fit(X, labels), hf.max_margin(X, labels, under=under)
        np.testing.assert_array_equal(made.direction_, answer.direction)
        assert (made.predict(X) == labels).all()
        assert made.margin_ == answer.margin == pytest.approx(made.bound_)
    assert gap(made, FLIPS, hf.trivial_rep(FLIPS.group), X, lambda m, x: m.decision_function(x)[:, None]) < 1e-12
    free = MaxMarginClassifier().fit(X, labels)
    assert gap(free, FLIPS, hf.trivial_rep(FLIPS.group), X, lambda m, x: m.decision_function(x)[:, None]) > 0.1
    assert free.margin_ > made.margin_


def gap(estimator, on_x, on_y, x, values=None):
    """How far a fitted estimator is from equivariant over the whole group."""
    values = numbers_of if values is None else values
    plain = np.asarray(values(estimator, x))
    moved = np.stack([values(estimator, rows) for rows in on_x.action().apply(x)])
    wanted = np.asarray(on_y.action().apply(plain))
    return np.abs(moved - wanted).max()


def numbers_of(estimator, x):
    found = estimator.predict_proba(x) if hasattr(estimator, "predict_proba") else estimator.predict(x)
    return np.asarray(found, float).reshape(len(x), -1)


@pytest.mark.parametrize("how", ["average", "both", "canonicalise"])
def test_symmetrised_predictions_are_invariant_and_plain_ones_are_not(how):
    for inside, y in ((DecisionTreeRegressor(random_state=0), Y), (DecisionTreeClassifier(random_state=0), LABELS)):
        made = Symmetrised(inside, FLIPS, how).fit(X, y)
        on_y = hf.trivial_rep(FLIPS.group, numbers_of(made, X).shape[1])
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
            (MaxMarginClassifier("flips of 3x4 images"), X.sum(axis=1) > 0),
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
        Symmetrised.load(tmp_path / "5.npz")


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
        (lambda: MaxMarginClassifier().fit(PLANE, LABELS), "No direction separates the 40 rows in R^2: a mean of 3"),
        (lambda: MaxMarginClassifier().fit(X, np.arange(40) % 3), "Only binary classification is supported"),
        (lambda: MaxMarginClassifier().fit(X, ["a"] * 40), "tells two classes apart; got one class, 'a'"),
        (lambda: MaxMarginClassifier(TURNS).fit(X, LABELS), "got 12 columns and a group that acts on 2"),
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
