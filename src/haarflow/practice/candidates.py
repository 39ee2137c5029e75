"""The ways to use a symmetry on one model class: plain, augment, average at prediction or in training, build in."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from haarflow.errors import Refusal
from haarflow.values import said

PLAIN, AUGMENT, AVERAGE, TRAINED, BOTH, BUILT = (
    "plain",
    "augment",
    "average at prediction",
    "average in training",
    "augment and average",
    "build in",
)
BY_COST = (PLAIN, BUILT, AVERAGE, AUGMENT, TRAINED, BOTH)
"""From cheap to dear, by how many images of a row are learnt from and asked about: one and one (plain, and build in,
which adds what finds a representative, or averages a kernel); one and all; all and one; all and all, of which a
network that averages holds the rows once. It is an order of kinds, so that two runs agree whatever the clock says."""

MODELS = ("forest", "linear", "kernel", "mean-field")


def candidates(model: Any, group: Any, classifies: bool, seed: int, draws: Any) -> dict[str, Any]:
    """An estimator for each way, unfitted, on the model class of one estimator."""
    from haarflow.practice.symmetrised import Symmetrised

    base = seeded(model_of(model, classifies), seed)
    options = {"draws": draws, "random_state": seed}

    def wrapped(how: str) -> Any:
        return Symmetrised(base, group, how, copies=draws, **options)

    found = {PLAIN: base, AUGMENT: wrapped("augment"), AVERAGE: wrapped("average")}
    own = _own_ways(base, group, draws)
    return {**found, **(own or {BOTH: wrapped("both"), BUILT: wrapped("canonicalise")})}


def _own_ways(base: Any, group: Any, draws: Any) -> dict[str, Any] | None:
    """What the library's own estimators do with a group themselves."""
    from sklearn.base import clone

    from haarflow.practice.kernel_estimators import InvariantKernel
    from haarflow.practice.mean_field import MeanField

    def copy() -> Any:
        return clone(base)

    if isinstance(base, MeanField):
        ways = {AUGMENT: "augment", TRAINED: "average", BUILT: "restrict"}
        return {name: copy().set_params(group=group, symmetry=way, draws=draws) for name, way in ways.items()}
    if isinstance(base, InvariantKernel):
        return {BUILT: copy().set_params(group=group, draws=draws)}
    return None


def model_of(model: Any, classifies: bool) -> Any:
    """An estimator of its own: by name, by `module:Class`, or a copy of the one given."""
    from sklearn.base import clone

    if isinstance(model, str):
        return _imported(model) if ":" in model else _named(model, classifies)
    if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
        raise Refusal(
            "decide compares ways to use a symmetry on an estimator, which has `fit` and `predict`; got "
            f"{said(model)}. Write one of {', '.join(MODELS)}, or an estimator such as Ridge()."
        )
    return clone(model)


def _named(name: str, classifies: bool) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from haarflow.practice.kernel_estimators import InvariantKernelClassifier, InvariantKernelRidge
    from haarflow.practice.mean_field import MeanFieldClassifier, MeanFieldRegressor

    if name == "forest":
        return RandomForestClassifier() if classifies else RandomForestRegressor()
    if name == "linear":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000) if classifies else Ridge())
    if name == "kernel":
        return InvariantKernelClassifier() if classifies else InvariantKernelRidge()
    if name == "mean-field":
        return MeanFieldClassifier() if classifies else MeanFieldRegressor()
    raise Refusal(
        f"A model is one of {', '.join(MODELS)}, or a class of your own as module:Class; got {said(name)}. "
        "Write forest, for example."
    )


def _imported(name: str) -> Any:
    """An estimator from `module:Class`, made without arguments."""
    module, _, path = name.partition(":")
    try:
        if "" not in sys.path:
            sys.path.insert(0, "")
        made = getattr(importlib.import_module(module), path)()
    except Exception as error:
        raise Refusal(
            f"A model module:Class is a class that is made without arguments; got {name}: {type(error).__name__}: "
            f"{error}. Check that `from {module} import {path}` and `{path}()` work."
        ) from None
    return model_of(made, False)


def seeded(estimator: Any, seed: int) -> Any:
    """The estimator with this seed wherever it, or one inside it, has none of its own."""
    wanted = {
        name: seed
        for name, value in sorted(estimator.get_params(deep=True).items())
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    }
    return estimator.set_params(**wanted)


def parameters_of(thing: Any, seen: set[int] | None = None) -> int:
    """How many numbers a fitted estimator holds: arrays, clouds, nodes of trees, and those of estimators inside."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if hasattr(thing, "node_count"):
        return int(thing.node_count)
    if hasattr(thing, "atoms"):
        return int(thing.atoms.size)
    if isinstance(thing, np.ndarray):
        inside = thing.ravel().tolist() if thing.dtype.hasobject else []
        return sum(parameters_of(one, seen) for one in inside) if inside else int(thing.size)
    if isinstance(thing, list | tuple):
        return sum(parameters_of(one, seen) for one in thing)
    if isinstance(thing, Mapping):
        return sum(parameters_of(one, seen) for one in thing.values())
    if not hasattr(thing, "get_params"):
        return 0
    learned = [value for name, value in vars(thing).items() if name.endswith("_") or name in ("steps", "estimators_")]
    skipped = ("classes_", "feature_names_in_", "elements_")
    drop = [vars(thing)[name] for name in skipped if name in vars(thing)]
    return sum(parameters_of(one, seen) for one in learned if not any(one is other for other in drop))
