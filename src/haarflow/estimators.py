"""Estimators of scikit-learn with a symmetry: any one of its own, made symmetric, and those of this library."""

from haarflow.practice.kernel_estimators import InvariantKernelClassifier as InvariantKernelClassifier
from haarflow.practice.kernel_estimators import InvariantKernelRidge as InvariantKernelRidge
from haarflow.practice.margin_estimators import MaxMarginClassifier as MaxMarginClassifier
from haarflow.practice.mean_field import MeanFieldClassifier as MeanFieldClassifier
from haarflow.practice.mean_field import MeanFieldRegressor as MeanFieldRegressor
from haarflow.practice.set_estimators import SetClassifier as SetClassifier
from haarflow.practice.set_estimators import SetRegressor as SetRegressor
from haarflow.practice.symmetrised import Symmetrised as Symmetrised
