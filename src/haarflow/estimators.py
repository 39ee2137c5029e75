"""Estimators of scikit-learn with a symmetry: any one of its own, made symmetric, and those of this library."""

from haarflow.practice.symmetrised import Symmetrised as Symmetrised
from haarflow.practice.mean_field import MeanFieldClassifier as MeanFieldClassifier
from haarflow.practice.mean_field import MeanFieldRegressor as MeanFieldRegressor
