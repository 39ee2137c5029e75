"""Any regressor or classifier of scikit-learn, given a symmetry: by its data, by its predictions, or by its inputs."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, has_fit_parameter

from haarflow.errors import Refusal
from haarflow.practice.acting_on import counted, folded_rows, moved_rows
from haarflow.practice.canonical import canonical
from haarflow.practice.estimator_kit import Estimator, choice, indicators, seed_of, sklearns, table
from haarflow.values import said

HOWS = ("augment", "average", "both", "canonicalise")
SCORES = ("predict_proba", "decision_function")


def _delegated(name: str):
    """Whether the estimator inside has a method; averaged scores are those of one method alone."""

    def found(self: "Symmetrised") -> bool:
        inside = getattr(self, "estimator_", self.estimator)
        alone = name == "predict_proba" or not (self._averages() and hasattr(inside, "predict_proba"))
        return hasattr(inside, name) and alone

    return found


class Symmetrised(MetaEstimatorMixin, Estimator):
    """Any regressor or classifier of scikit-learn, with a symmetry that it does not have by itself.

    `how` is "augment", which fits on moved copies of the rows; "average", which averages predictions over the group;
    "both"; or "canonicalise", which shows the estimator one representative of each orbit. `group` is a representation
    on the columns, a group, a kind of group such as `Signs` for as many columns as there are, words such as "flips of
    8x8 images", or a pair (on_x, on_y) where outputs, or the classes, move as well. `copies` of a row are its orbit
    ("orbit"), or so many random images; None takes the orbit of a group of at most 64 elements and 16 images of a
    larger one. `draws` are the random elements of an average; None takes all of at most 64, else 16. They are drawn
    when it is fitted, so that predictions do not change from call to call.

        Symmetrised(RandomForestClassifier(), image_rep("flips", 8, 8), how="both").fit(images, labels)
    """

    def __init__(self, estimator=None, group=None, how="both", *, copies=None, draws=None, random_state=None):
        self.estimator = estimator
        self.group = group
        self.how = how
        self.copies = copies
        self.draws = draws
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Symmetrised":
        """Fit the estimator inside, on moved copies of the rows where that is the way; returns itself."""
        choice("A Symmetrised's `how`", self.how, HOWS)
        _refuse_unless_estimator(self.estimator)
        X, y, weights = self._checked(X, y, sample_weight)
        outputs = len(self.classes_) if self._classifies() else (1 if y.ndim == 1 else y.shape[1])
        seed = seed_of(self)
        self.acting_ = self._acting(outputs)
        self.elements_ = self.acting_.elements(seed, self.draws, owner="A Symmetrised's `draws`")
        self.estimator_: Any = clone(self.estimator)
        if self.how in ("augment", "both"):
            X, y, weights = self._augmented(X, y, weights, seed)
        elif self.how == "canonicalise":
            X, moves = canonical(self.acting_, X)
            y = y if moves is None else self._moved_labels(self.acting_.on_outputs(moves), y)
        extra = {} if weights is None else {"sample_weight": weights}
        sklearns(self, self.estimator_.fit, X, y, **extra)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The prediction for each row, averaged over the group where that is the way."""
        check_is_fitted(self)
        X = table(self, X, reset=False)
        if not self._classifies():
            return self._scores("predict", X)
        if not self._averages() and self.acting_.still:
            return self._inside("predict", self._shown(X)[0])
        name = next((name for name in SCORES if hasattr(self.estimator_, name)), "predict")
        scores = self._scores(name, X)
        wins = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        return self.classes_[wins]

    @available_if(_delegated("predict_proba"))
    def predict_proba(self, X: Any) -> Float[np.ndarray, "b k"]:
        """A probability for each class, averaged over the group where that is the way."""
        check_is_fitted(self)
        return self._scores("predict_proba", table(self, X, reset=False))

    @available_if(_delegated("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """The scores of the classes, averaged over the group where that is the way."""
        check_is_fitted(self)
        return self._scores("decision_function", table(self, X, reset=False))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R² of a regressor."""
        metric = accuracy_score if self._classifies() else r2_score
        return float(sklearns(self, metric, y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inside = get_tags(self.estimator) if hasattr(self.estimator, "fit") else None
        if inside is None:
            return tags
        tags.estimator_type, tags.target_tags = inside.estimator_type, inside.target_tags
        tags.classifier_tags, tags.regressor_tags = inside.classifier_tags, inside.regressor_tags
        for one in (tags.classifier_tags, tags.regressor_tags):
            if one is not None:  # a symmetry that the data do not have costs accuracy: nothing is promised
                one.poor_score = one.poor_score or self.group is not None
        if tags.classifier_tags is not None:
            tags.target_tags.multi_output = False
            tags.classifier_tags.multi_label = False
        return tags

    def _classifies(self) -> bool:
        return is_classifier(self.estimator)

    def _averages(self) -> bool:
        return self.how in ("average", "both")

    def _checked(self, X, y, weights):
        """The table, the labels and the weights; of a classifier, the classes as well."""
        several = get_tags(self).target_tags.multi_output
        X, y = table(self, X, y, reset=True, multi_output=several, y_numeric=not self._classifies())
        y = y if several else sklearns(self, column_or_1d, y, warn=True)
        if self._classifies():
            sklearns(self, check_classification_targets, y)
            self.classes_ = np.unique(y)
        if weights is not None:
            if not has_fit_parameter(self.estimator, "sample_weight"):
                name = type(self.estimator).__name__
                raise Refusal(f"A {name} takes no sample_weight, and so does it symmetrised. Leave it out.")
            weights = sklearns(self, _check_sample_weight, weights, X)
        return X, y, weights

    def _augmented(self, X, y, weights, seed):
        """Rows, labels and weights, element by element: the orbits, or random images of every row."""
        acting = self.acting_
        if self.copies is None or self.copies == "orbit":
            whole = self.copies == "orbit" or (acting.order or np.inf) <= 64
            elements = acting.group.moves() if whole and acting.order else None  # pyright: ignore
            if whole and elements is None:
                raise Refusal(
                    f"The orbit of a row is finite for a finite group; got {acting.group}. Write copies=16, for 16 "
                    "random images of every row."
                )
            copies = 16
        else:
            elements, copies = None, counted("A Symmetrised's `copies`", self.copies)
        if elements is not None:
            moved = moved_rows(acting.on_inputs(elements), X)
            times = len(elements)
            labels = self._moved_labels(acting.on_outputs(elements), np.concatenate([y] * times), times)
        else:
            times, many = copies, np.concatenate([X] * copies)
            drawn = acting.drawn(seed, len(many))
            moved = np.asarray(acting.on_inputs(drawn).one_by_one(many))
            labels = self._moved_labels(acting.on_outputs(drawn), np.concatenate([y] * copies))
        return moved, labels, None if weights is None else np.tile(weights, times)

    def _moved_labels(self, action, y, times: int | None = None):
        """Labels moved row by row; with `times`, in so many stacks, each by one element."""
        if self.acting_.still:
            return y
        flat = y.ndim == 1
        rows = indicators(self.classes_, y) if self._classifies() else (y[:, None] if flat else y)
        stacks = rows if times is None else rows.reshape(times, -1, rows.shape[1])
        found = np.asarray(action.one_by_one(stacks)).reshape(rows.shape)
        if self._classifies():
            if not (np.isin(found, (0, 1)).all() and (found.sum(axis=1) == 1).all()):
                raise Refusal("Classes are moved by a group that permutes them; got one that does not. Write on_x.")
            return self.classes_[found.argmax(axis=1)]
        return found[:, 0] if flat else found

    def _shown(self, X):
        """What the estimator inside is shown, and the elements that moved each row there."""
        return canonical(self.acting_, X) if self.how == "canonicalise" else (X, None)

    def _scores(self, name: str, X) -> np.ndarray:
        """What a method inside says, as an equivariant function of the rows."""
        if self._averages():
            images = moved_rows(self.acting_.on_inputs(self.elements_), X)
            found, flat = self._values(name, images)
            if flat and name == "decision_function":  # one score for two classes
                self._refuse_unless_still()
                return found.reshape(len(self.elements_), -1).mean(axis=0)
            averaged = folded_rows(self.acting_.on_outputs(self.elements_), found)
            return averaged[:, 0] if flat else averaged
        shown, moves = self._shown(X)
        if moves is None or self.acting_.still:
            return self._inside(name, shown)
        found, flat = self._values(name, shown)
        back = np.asarray(self.acting_.on_outputs(moves).inverse.one_by_one(found))
        return back[:, 0] if flat else back

    def _values(self, name: str, X) -> tuple[np.ndarray, bool]:
        """Values (b, c), and whether they came as (b,)."""
        found = self._inside(name, X)
        if self._classifies() and name == "predict":
            return indicators(self.classes_, found), False
        return (found[:, None], True) if found.ndim == 1 else (found, False)

    def _inside(self, name: str, X) -> np.ndarray:
        return np.asarray(sklearns(self, getattr(self.estimator_, name), X))

    def _refuse_unless_still(self):
        if not self.acting_.still:
            raise Refusal(
                "Two classes that change places under the group have two scores; got an estimator with one. Write one "
                "with predict_proba."
            )


def _refuse_unless_estimator(estimator: Any) -> None:
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
        raise Refusal(
            "A Symmetrised gives a symmetry to a regressor or a classifier, which has `fit` and `predict`; got "
            f"{said(estimator)}. Write Symmetrised(Ridge(), group), for example."
        )
