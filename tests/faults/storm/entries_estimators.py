"""Right calls of estimators, fitted on three rows, and of the decision between them."""

from bend import FINE, choice, count, flag, number, one_of, thing
from entry import Entry

_GROUP = one_of("swap", "3.0", "'spin of 2 columns'", "hf.natural_rep(hf.Cyclic(3))", "[swap]", optional=True)
_SEED = one_of("7", "'seven'", "-1", "2.5", "[7, 'a']", optional=True)
_DRAWS = count("2", optional=True)
_FIT = "hf.estimators.{}({{*}}).fit(xs, labels).predict(xs)"
_TELL = "hf.estimators.{}({{*}}).fit(xs, np.array([0, 1, 1])).predict(xs)"

_KERNEL = {
    "group": _GROUP,
    "kernel": choice("'gaussian'"),
    "width": number("1.0", above=0, optional=True),
    "ridge": number("0.5", above=0),
    "method": choice("'auto'"),
    "draws": _DRAWS,
    "random_state": _SEED,
}
_TRAINING = {
    "particles": count("2"),
    "batch": count("2", huge=FINE),
    "epochs": count("1"),
    "learning_rate": number("0.125", above=0),
    "penalty": number("0.5", least=0),
    "validation": number("0.25", least=0, below=1),
    "patience": count("1", huge=FINE),
    "warm_start": flag("False"),
    "random_state": _SEED,
}
_FIELD = {
    "group": _GROUP,
    "symmetry": choice("'average'"),
    "unit": one_of("'perceptron'", "'neuron'", "3.0", "hf.Dense(3, 1)", "lambda d, c: None"),
    "activation": choice("'tanh'"),
    **_TRAINING,
    "draws": _DRAWS,
}
_SETS = {
    "columns": count("1"),
    "masses": flag("False"),
    "hidden": count("2"),
    "activation": choice("'relu'"),
    **_TRAINING,
}
_SYMMETRISED = {
    "estimator": thing("hf.estimators.InvariantKernelRidge()", "unit", "sample"),
    "group": _GROUP,
    "how": choice("'both'"),
    "copies": one_of("2", "0", "'orbits'", "2.5", optional=True),
    "draws": _DRAWS,
    "random_state": _SEED,
}
_ROWS = "np.tile(xs, (4, 1))"
_MANY = "np.arange(12.0) ** 2"
_DECIDE = {
    "x": one_of(_ROWS, "xs", f"{_ROWS}[:5]", f"{_ROWS} * np.nan", "[['a', 'b']] * 12"),
    "y": one_of(_MANY, "labels", "np.ones(12)", "['a'] * 12", f"{_MANY} * np.nan"),
    "group": one_of("swap", "3.0", "object()", "'nonsense'", "hf.natural_rep(hf.Cyclic(3))"),
    "estimator": one_of("hf.estimators.InvariantKernelRidge()", "'tree'", "3.0", "'os:nothing'", "object"),
    "budget": choice("'equal-rows'"),
    "penalty": one_of("'given'", "3.0", "'nonsense'", "None"),
    "labels": choice("'numbers'"),
    "folds": count("2", least=2),
    "repeats": count("1"),
    "level": number("0.5", above=0, below=1),
    "tolerance": number("0.25", least=0),
    "draws": _DRAWS,
    "curve": flag("False"),
    "seed": count("3", least=0),
    "keep": one_of("None", "3.0", "'/no/such/folder/file'", optional=True),
    "progress": one_of("False", "3.0", "'no'", optional=True),
}

ENTRIES = [
    Entry("Symmetrised", "hf.estimators.Symmetrised({estimator}, {*}).fit(xs, labels).predict(xs)", _SYMMETRISED),
    Entry("InvariantKernelRidge", _FIT.format("InvariantKernelRidge"), _KERNEL),
    Entry("InvariantKernelClassifier", _TELL.format("InvariantKernelClassifier"), _KERNEL),
    Entry(
        "MaxMarginClassifier",
        "hf.estimators.MaxMarginClassifier({*}).fit(xs, np.array([0, 1, 1])).predict(xs)",
        {"group": _GROUP},
    ),
    Entry("MeanFieldRegressor", _FIT.format("MeanFieldRegressor"), _FIELD),
    Entry("MeanFieldClassifier", _TELL.format("MeanFieldClassifier"), _FIELD),
    Entry("SetRegressor", _FIT.format("SetRegressor"), _SETS),
    Entry("SetClassifier", _TELL.format("SetClassifier"), _SETS),
    Entry("decide", "hf.decide({*}).losses", _DECIDE),
    Entry(
        "Decision",
        f"str(hf.decide({_ROWS}, {_MANY}, swap, estimator=hf.estimators.InvariantKernelRidge(), folds=2, repeats=1, "
        "curve=False)).partition(' ')[0]",
        {},
    ),
]
