"""Estimators of scikit-learn with a symmetry: any one of its own, made symmetric, and those of this library."""

from haarflow.practice.symmetrised import Symmetrised as Symmetrised
