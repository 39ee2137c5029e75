"""Right calls of sparse ReLU learning: the program, and what its optimum answers."""

from bend import FINE, array, choice, count, number, one_of
from entry import Entry

_X = "np.array([[-1.0, 0.5], [0.25, 1.0], [0.5, -0.75], [1.0, 0.25], [-0.5, -1.0]])"
_Y = "np.array([0.5, -1.0, 0.25, 1.0, 0.75])"
_BEST = f"hf.relu_program({_X}, {_Y}, penalty=0.03125)"
_QUIET = one_of("False", "3.0", '"no"', optional=True).also(same=("silent",))

_PAIRS = {
    "x": array(_X, width=False).also("np.zeros((5, 2))", "np.ones((5, 2))", "1e200 * {}"),
    "y": array(_Y, width=False).also("np.ones((5, 2))", "np.ones((5, 1, 1))", "1e200 * {}", same=("{}[:, None]",)),
}

ENTRIES = [
    Entry(
        "relu_program",
        "hf.relu_program({*}).objective",
        {
            **_PAIRS,
            "penalty": number("0.03125", least=0),
            "bias": choice('"penalised"').also(fine=('"none"', '"free"')),
            "method": choice('"cells"').also('"spline"', fine=('"search"',)),
            "tolerance": number("1e-6", above=0),
            "parts": count("20", huge=FINE),
            "progress": _QUIET,
        },
    ),
    Entry("relu_program", "hf.relu_program({*}).norm", {**_PAIRS, "penalty": number("0.03125", least=0)}),
    Entry("ReluOptimum", f"str({_BEST})", {}),
    Entry("ReluOptimum.predict", f"{_BEST}.predict({{*}})", {"xs": array(_X, rows=False, empty=FINE)}),
    Entry("ReluOptimum.draw", f"{_BEST}.draw({{*}})", {"axis": one_of("None", "3.0", '"axis"', optional=True)}),
    Entry(
        "ReluOptimum.certificate",
        f"{_BEST}.certificate.eta({{*}})",
        {"directions": array("np.eye(3)", rows=False, empty=FINE)},
    ),
]
