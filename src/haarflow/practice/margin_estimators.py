"""The linear classifier of largest margin, and of largest margin among those that a group leaves alone."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from haarflow.errors import Refusal
from haarflow.practice.estimator_kit import Estimator, sklearns, table
from haarflow.practice.max_margin import MaxMargin, max_margin

SHOWN = 3  # rows of a certificate that a sentence names


class MaxMarginClassifier(ClassifierMixin, Estimator):
    """Two classes told apart by the direction of largest margin, `max_{|v| = 1} min_i y_i <v, x_i>`, with a proof.

    It is where gradient descent on the logistic loss takes a linear network; with a group, a steerable one. `group` is
    given as for Symmetrised, and the direction is then the best of those that it leaves alone, found exactly for
    infinite groups too. There is no intercept (a column of ones is one) and no slack: rows that no direction separates
    are refused, with rows that prove it. After `fit`: `direction_` (d,), `margin_`, `bound_`, which no direction can
    exceed, `certificate_` (b,), the shares of the rows that prove so, and `support_`, the rows that touch the margin.

        MaxMarginClassifier("flips of 8x8 images").fit(images, digits == 3).predict(images)
    """

    def __init__(self, group=None):
        self.group = group

    def fit(self, X: Any, y: Any) -> "MaxMarginClassifier":
        """Find the direction for rows X (b, d) with labels y (b,) of two classes; returns itself."""
        X, y = table(self, X, y, reset=True)
        y = sklearns(self, column_or_1d, y, warn=True)
        sklearns(self, check_classification_targets, y)
        self.classes_ = np.unique(y)
        self._refuse_unless_two(y)
        acting = self._acting(1)
        if not acting.still:
            raise Refusal(
                f"{self._owner}'s classes stay under its group; got a pair that moves them. Write on_x alone."
            )
        found = max_margin(X, y == self.classes_[1], under=None if self.group is None else acting.on_x)
        if not found.separable:
            raise Refusal(
                f"{self._owner} separates its rows by a direction without intercept; got rows that none does: "
                f"{_proof(found)} Add columns (one of ones is an intercept), or take a classifier with slack."
            )
        self.acting_ = acting
        self.direction_, self.margin_, self.bound_ = found.direction, found.margin, found.bound
        self.certificate_, self.support_ = found.certificate, found.support
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " b"]:
        """The signed distance `<direction_, x>` (b,) of rows to the plane between the classes."""
        check_is_fitted(self)
        X = table(self, X, reset=False)
        return np.sum(X * self.direction_, axis=1)  # row by row: a product of matrices rounds by how many there are

    def predict(self, X: Any) -> np.ndarray:
        """The class on whose side a row lies."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def _refuse_unless_two(self, y: np.ndarray) -> None:
        k = len(self.classes_)
        if k > 2:
            raise Refusal(
                f"Only binary classification is supported by {self._owner}. The type of the target is "
                f"{type_of_target(y)}; got {k} classes. Write OneVsRestClassifier(MaxMarginClassifier()), or labels "
                "such as y == 3."
            )
        if k < 2:
            raise Refusal(
                f"{self._owner} tells two classes apart; got one class, {str(self.classes_[0])!r}. Write labels with "
                "two classes."
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = self.group is not None
        return tags


def _proof(found: MaxMargin) -> str:
    """Why no direction separates the rows, with those that weigh most in it."""
    taking_part = int(np.count_nonzero(found.certificate))
    rows = np.argsort(-found.certificate, kind="stable")[: min(SHOWN, taking_part)]
    shown = ", ".join(f"row {row} with the share {found.certificate[row]:.3g}" for row in rows)
    return f"{str(found).rstrip('.')} ({shown}{', ...' if taking_part > SHOWN else ''})."
