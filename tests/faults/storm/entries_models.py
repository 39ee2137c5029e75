"""Right calls of what a particle does: units, networks, kernels."""

from bend import FINE, LATE, array, choice, cloud, count, function, method, number, one_of, rep, thing
from entry import Entry, made, of

_INPUTS = array("xs", rows=False, empty=FINE)
_OTHERS = array("xs[:2]", rows=False, empty=FINE, optional=True)
_ON = {"on_x": rep("swap"), "on_y": rep("swap")}
_UNIT = thing("unit", "cloud", "ridge", late=("hf.Dense(3, 2)", "hf.Dense(2, 1)"))
_MODEL = thing("unit", "cloud", "penalty", late=("ridge", "hf.Dense(3, 2)"))
_ONE = thing("single", "cloud", "ridge", late=("hf.Perceptron(3)", "hf.Perceptron(2, 2)"))

ENTRIES = [
    *made(
        "Dense",
        "hf.network({}, wide, xs)",
        inputs=count("2", huge=LATE),
        outputs=count("2", huge=LATE),
        activation=choice('"tanh"'),
    ),
    *made(
        "Perceptron",
        "hf.network({}, wide, xs)",
        inputs=count("2", huge=LATE),
        outputs=count("1", huge=LATE),
        activation=choice('"tanh"'),
    ),
    *made(
        "TwoLayer",
        "hf.network({}, wide, xs)",
        inputs=count("2", huge=LATE),
        hidden=count("1", huge=LATE),
        outputs=count("1", huge=LATE),
        activation=choice('"tanh"'),
    ),
    *made(
        "Neuron",
        "hf.network({}, students, xs)",
        inputs=count("2", huge=LATE),
        outputs=count("1", huge=LATE),
        activation=choice('"tanh"'),
    ),
    *made("Gate", "hf.network({}, hf.uniform(np.ones((2, 9))), xs)", inputs=count("2", huge=LATE)),
    of(
        "permuted_hidden",
        on_h=rep("swap", shared=False, dim=False),
        inputs=count("2", huge=FINE),
        outputs=count("1", huge=FINE),
        activation=choice('"tanh"'),
    ),
    *made("Quadratic", "hf.network({}, cloud, xs)", inputs=count("2", huge=LATE)),
    *made(
        "Bump",
        "hf.network({}, wide, xs)",
        inputs=count("2", huge=LATE),
        outputs=count("2", huge=LATE),
        variance=number("0.5", above=0),
    ),
    *made(
        "Custom",
        "hf.network({}, cloud, xs)",
        function=function(
            "ridge",
            "lambda theta, x: theta",
            "lambda theta, x: 'three'",
            "lambda theta, x: None",
            "lambda theta, x: theta @ x",
        ),
        dim=count("2", huge=LATE).also(late=("3",)),
        inputs=count("2", huge=LATE).also(late=("3",)),
        outputs=count("1", huge=LATE).also(late=("2",)),
        declared=function("moves_as_inputs"),
    ),
    Entry(
        "Custom.action",
        "hf.Custom(ridge, 2, 2, 1, {declared}).action(swap, hf.trivial_rep(group))",
        {
            "declared": function(
                "moves_as_inputs", "lambda on_x, on_y: on_y", "lambda on_x, on_y: 'three'", "lambda on_x, on_y: None"
            )
        },
    ),
    *made("Scaled", "hf.network({}, wide, xs)", unit=_UNIT, scale=number("2.0")),
    *made("Linearised", "{}.anchored(wide)", unit=thing("unit", "cloud", "ridge")),
    Entry("Linearised.anchored", "hf.kernels.Linearised(unit).anchored({*})", {"cloud": cloud("wide", stack=True)}),
    of("network", model=_MODEL, cloud=cloud("wide"), xs=_INPUTS),
    Entry(
        "Network",
        "hf.Risk(OwnNetwork({at}), sample).variation(wide).velocity",
        {
            "at": method(
                "lambda cloud, xs: hf.network(unit, cloud, xs)",
                "lambda cloud, xs: xs[:1]",
                "lambda cloud, xs: 'three'",
                "lambda cloud, xs: None",
                "lambda cloud, xs: cloud.atoms @ xs",
            )
        },
    ),
    *made("Mean", "{}(wide, xs)", unit=_UNIT),
    Entry("Mean.__call__", "hf.Mean(unit)({*})", {"cloud": cloud("wide"), "xs": _INPUTS}),
    Entry("Mean.action", "hf.Mean(unit).action({*}).dim", _ON),
    *made("Fitted", "{}(xs)", network=_MODEL, cloud=cloud("wide")),
    Entry("Fitted.__call__", "hf.Fitted(unit, wide)({*})", {"xs": _INPUTS}),
    Entry(
        "Fitted.save",
        "hf.Fitted(unit, wide).save({*})",
        {"path": one_of("folder / 'a.npz'", '"/nowhere/a.npz"', '"/"', '""', "3.0")},
    ),
    Entry(
        "Fitted.load",
        "hf.Fitted.load({*})(xs)",
        {"path": one_of("saved / 'f.npz'", "saved / 'c.npz'", "table_of_numbers", '"/nowhere"', '"/"', '""', "3.0")},
    ),
    Entry("Unit.action", "unit.action({*}).dim", _ON),
    Entry(
        "Unit.action",
        "hf.Perceptron(2, 1).action({*}).dim",
        {"on_x": rep("swap"), "on_y": rep("hf.trivial_rep(group)")},
    ),
    Entry(
        "Unit.action", "hf.Quadratic(2).action({*}).dim", {"on_x": rep("swap"), "on_y": rep("hf.trivial_rep(group)")}
    ),
    *made(
        "Residual",
        "{}(deep, xs)",
        layers=thing("(unit, unit)", "()", "(hf.Dense(2, 3), unit)", "unit", "('three', unit)"),
    ),
    Entry("Residual.__call__", "model({*})", {"cloud": cloud("deep"), "xs": _INPUTS}),
    Entry("Residual.split", "model.split({*})", {"cloud": cloud("deep", stack=True)}),
    Entry("Residual.action", "model.action({*}).dim", _ON),
    of("arc_cosine", xs=_INPUTS, others=_OTHERS, degree=count("1", least=0, most=1)),
    of("relu_tangent", xs=_INPUTS, others=_OTHERS, output=number("0.5"), scale=number("2.0")),
    of("relu_beyond_linear", d=count("3", huge=FINE)),
    of("feature_kernel", unit=_UNIT, cloud=cloud("wide"), xs=_INPUTS, others=_OTHERS),
    of("tangent_kernel", unit=_ONE, cloud=cloud("wide"), xs=_INPUTS, others=_OTHERS),
    of(
        "kernel_ridge",
        gram=array("gram").also("-gram", "gram + np.triu(gram)"),
        ys=array("labels"),
        ridge=number("0.5", least=0),
    ),
    of(
        "kernel_flow",
        gram=array("gram").also("gram + np.triu(gram)"),
        cross=array("gram[:2]", rows=False, empty=FINE),
        ys=array("labels"),
        times=array("times", width=False, rows=False, empty=FINE),
    ),
]
