"""Right calls of the audit of a model."""

from bend import FINE, array, choice, count, flag, key, number, one_of, rep
from entry import Entry

_X = "np.array([[1.0, 0.5], [0.25, 1.0], [-0.5, -0.75]])"
_MODEL = "(lambda x: np.asarray(x) ** 2 @ np.array([1.0, 0.5]))"
_FUNCTION = one_of(
    _MODEL, "3.0", "'model'", "lambda x: x[:1]", "lambda x: np.full(len(x), np.nan)", "lambda: 3", "type"
)

ENTRIES = [
    Entry(
        "equivariance_error",
        "hf.equivariance_error({*}).relative",
        {
            "model": _FUNCTION.also("lambda x: ['a'] * len(x)", "None"),
            "x": array(_X, rows=False),
            "on_x": rep("swap", shared=False),
            "on_y": rep("hf.trivial_rep(hf.Cyclic(2))", optional=True),
            "key": key(),
            "method": choice('"auto"'),
            "shape": one_of("(2,)", "(3,)", "'wide'", "[0.5]", optional=True),
            "transform": one_of("lambda g, x: x @ g.T", "lambda g, x: x[0]", "3.0", optional=True),
            "factory": one_of("lambda seed: (lambda x: x[:, 0])", "lambda seed: 3", "3.0", optional=True),
            "before": one_of(_MODEL, "3.0", "lambda x: x[:1]", optional=True),
            "layers": flag("False").also("True"),
            "draws": count("4", huge=FINE),
            "confidence": number("0.875", least=0, most=1),
        },
    ),
    Entry("EquivarianceError", f"str(hf.equivariance_error({_MODEL}, {_X}, swap))", {}),
]
