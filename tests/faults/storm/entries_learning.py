"""Right calls of what is minimised: data, risks, symmetry on data and units."""

from bend import FINE, LATE, array, choice, cloud, count, flag, function, key, method, number, one_of, rep, thing
from entry import Entry, made, of

_ON = {"on_x": rep("swap", finite=True), "on_y": rep("swap", finite=True)}
_ELEMENTS = array("group.elements()", rows=False, whole=True, optional=True).also("np.ones((2, 2, 2))")
_WIDE, _TALL = "hf.Sample(wider(xs), ys)", "hf.Sample(xs, wider(ys))"
_UNIT = thing("unit", "cloud", "ridge", late=("hf.Dense(3, 2)", "hf.Dense(2, 1)"))
_DATA = thing("sample", "(xs, ys)", "risk", "cloud", late=(_WIDE, _TALL))
_FRAME = "np.array([[1.0], [0.0]])"
_ATOMS = array("students.atoms", rows=False, empty=FINE)
_NETWORK = thing(
    "model",
    "cloud",
    "penalty",
    late=("unit", "lambda cloud, xs: xs[:1]", "lambda cloud, xs: 'three'", "lambda cloud, xs: None"),
)
_MODEL = thing("unit", "cloud", "penalty", late=("ridge", "hf.Dense(3, 2)", "hf.Dense(2, 1)", "model"))

_SAMPLE = thing("sample", "(xs, ys)", "xs", "cloud", late=(_WIDE, _TALL))
_LOSS = choice('"half-square"').also(
    late=('"logistic"', '"exponential"', '"hinge"', '"cross-entropy"', "jnp.subtract", "lambda f: f"),
    fine=("jnp.vdot", '"huber"'),
)
_SCORES = method(
    "lambda f, y: jnp.sum((f - y) ** 2)",
    "lambda f, y: f - y",
    "lambda f, y: 'three'",
    "lambda f, y: None",
    "lambda f: jnp.sum(f)",
    "lambda f, y: jnp.sum(f @ f)[:, 0]",
)

ENTRIES = [
    # data
    *made(
        "Sample",
        "hf.Risk(unit, {}).sample(key)(wide)",
        xs=array("xs", width=False).also(late=("wider(xs)",)),
        ys=array("ys", width=False).also(late=("wider(ys)",)),
        size=count("2", optional=True, huge=LATE),
        replace=flag("True"),
    ),
    *made(
        "Loader",
        "hf.Risk(unit, {}).sample(key)(wide)",
        source=one_of("[(xs, ys)]", "[]", "3.0", "iter([(xs, ys)])", "silent", "[xs]", "'files'", "lambda: (xs, ys)"),
        name=one_of('"pairs"', "3.0", "[1]", optional=True),
    ),
    of("split", key=key(), sample=thing("sample", "(xs, ys)", "xs", "cloud"), share=number("0.5", above=0, below=1)),
    Entry("Data.batch", "batches.batch({*})", {"key": key()}),
    Entry(
        "Data",
        "hf.Descend(hf.Risk(unit, OwnData({at})))(key, wide).velocity",
        {
            "at": method(
                "lambda key: (jnp.asarray(xs), jnp.asarray(ys))",
                "lambda key: jnp.asarray(xs)",
                "lambda key: None",
                "lambda key: ('three', 'four')",
                "lambda key: (jnp.asarray(xs), jnp.asarray(ys)[:2])",
                "lambda key: (jnp.asarray(xs)[:, :1], jnp.asarray(ys))",
                "lambda key: (jnp.asarray(xs), jnp.asarray(ys)[:, :1])",
                "lambda key: (jnp.asarray(xs)[0], jnp.asarray(ys)[0])",
            )
        },
    ),
    of("folds", key=key(), sample=thing("sample", "(xs, ys)", "xs", "cloud"), count=count("3", most=3)),
    *made(
        "Stream",
        "{}.batch(key)",
        law=function(
            "law_of_pairs",
            "lambda key, size: jnp.ones((size, 2))",
            "lambda key, size: None",
            "lambda key, size: ('a', 'b')",
            "lambda key, size: (jnp.ones((size, 2)), jnp.ones((size + 1, 2)))",
            "lambda key, size: (jnp.ones(size), jnp.ones(size))",
        ),
        size=count("2", huge=LATE),
    ),
    *made(
        "Teacher",
        "{}.batch(key)",
        unit=thing("unit", "cloud", "ridge", "hf.Dense(3, 2)"),
        cloud=cloud("wide", drawn=True),
        size=count("2", huge=LATE),
        scale=number("2.0", least=0),
        noise=number("0.5", least=0, optional=True),
    ),
    *made(
        "TwoGaussians", "{}.batch(key)", inputs=count("2", huge=LATE), delta=number("0.5"), size=count("2", huge=LATE)
    ),
    Entry(
        "load",
        "hf.load({*}).xs",
        {
            "source": one_of(
                "table_of_numbers",
                '"three"',
                '"/nowhere.csv"',
                '"/nowhere.npz"',
                '"/nowhere.parquet"',
                '"/nowhere-idx3-ubyte.gz"',
                '"numbers.txt"',
                "saved / 'f.npz'",
                '"/"',
                '""',
                "3.0",
                "[1]",
            ).also(same=("str(table_of_numbers)",)),
            "target": one_of("None", "3.5", '"nobody"', "-1", "17", optional=True),
            "outputs": count("1", most=2),
            "size": count("2", optional=True, huge=FINE),
            "replace": flag("True"),
            "labels": one_of("None", "3.0", optional=True),
        },
    ),
    # functionals
    Entry(
        "Functional",
        "hf.Descend(OwnFunctional({at}))(key, cloud).velocity",
        {
            "at": method(
                "lambda c: c.weights @ jnp.sum(c.atoms**2, axis=1)",
                "lambda c: c.atoms",
                "lambda c: 'three'",
                "lambda c: None",
                "lambda c: c.weights",
            )
        },
    ),
    Entry("Functional.__call__", "risk({*})", {"cloud": cloud("wide")}),
    Entry("Functional.variation", "risk.variation({*})", {"cloud": cloud("wide")}),
    Entry("Functional.sample", "hf.Risk(unit, batches).sample({*})(wide)", {"key": key()}),
    Entry("Functional.__add__", "(risk + {other})(wide)", {"other": thing("penalty", "unit", "field", "sample")}),
    *made(
        "Penalty",
        "{}(wide)",
        tau=number("0.5"),
        r=function("square", "lambda theta: theta", "lambda theta: 'three'", "lambda theta: None"),
    ),
    Entry("Penalty.variation", "penalty.variation({*})", {"cloud": cloud("wide", dim=False)}),
    *made(
        "Risk",
        "{}(wide)",
        network=_MODEL,
        data=_DATA,
        loss=_LOSS,
    ),
    *made("Risk", "{}(deep)", network=_NETWORK, data=_DATA, loss=_LOSS),
    Entry("Risk.__call__", "hf.Risk(model, sample)({*})", {"cloud": cloud("deep")}),
    Entry("Loss", "hf.Risk(unit, sample, OwnLoss({at})).variation(wide).velocity", {"at": _SCORES}),
    Entry("Loss", "hf.Risk(unit, sample, {at}).variation(wide).velocity", {"at": _SCORES}),
    *made("Huber", "hf.Risk(unit, sample, {})(wide)", delta=number("0.5", above=0)),
    *made("PseudoHuber", "hf.Risk(unit, sample, {})(wide)", delta=number("0.5", above=0)),
    *made("Score", "{}(wide)", network=_MODEL, data=_SAMPLE, metric=choice('"r2"').also(late=('"accuracy"',))),
    Entry("Score.__call__", "hf.losses.Score(unit, sample, 'r2')({*})", {"cloud": cloud("wide")}),
    Entry("Metric", "hf.losses.Score(unit, sample, OwnMetric({at}))(wide)", {"at": _SCORES}),
    Entry("average_network", "hf.average_network({*})(deep, xs)", {"network": _NETWORK, **_ON}),
    Entry("average_network", "hf.average_network(model, swap, swap, {*})(deep, xs)", {"elements": _ELEMENTS}),
    Entry(
        "fold",
        "hf.exact.fold({*})(wide)",
        {
            "functional": thing(
                "hf.Risk(hf.average(unit, swap, swap), closed) + penalty", "risk", "unit", "field", "sample"
            ),
            **_ON,
        },
    ),
    Entry(
        "optimum",
        "hf.energies.optimum({*})",
        {
            "functional": thing(
                "risk + penalty",
                "hf.Risk(unit, sample, 'absolute')",
                "unit",
                "field",
                "hf.Risk(unit, batches)",
                "penalty",
                late=("hf.Risk(hf.Dense(3, 2), hf.Sample(wider(xs), ys))",),
            ),
            "atoms": array("whole.atoms", rows=False),
            "invariant": rep("action", shared=False, optional=True).also("hf.natural_rep(hf.Cyclic(4))"),
        },
    ),
    Entry("Optimum", "hf.energies.optimum(risk, thetas).gap", {}),
    # ReLU units on the sphere
    of("relu_kernel", atoms=_ATOMS, others=array("teacher.atoms", rows=False, empty=FINE)),
    of("relu_distance", cloud=cloud("students"), other=cloud("teacher")),
    of(
        "relu_split",
        teacher=cloud("teacher"),
        population=cloud("students"),
        empirical=cloud("teacher"),
        trained=cloud("students"),
    ),
    *made(
        "ReluRisk",
        "{}(students)",
        teacher=cloud("teacher", dim=False).also("hf.uniform(np.ones((2, 1)))", late=("wide",)),
    ),
    Entry("ReluRisk.variation", "hf.exact.ReluRisk(teacher).variation({*})", {"cloud": cloud("students")}),
    *made(
        "ReluLimit",
        "{}(hf.uniform(thetas))",
        teacher=cloud("teacher", dim=False).also(late=("wide",)),
        d=count("6", huge=FINE).also("3"),
        nodes=count("4"),
    ),
    Entry(
        "ReluLimit.kernel",
        "hf.exact.ReluLimit(teacher, 6).kernel({*})",
        {
            "atoms": array("thetas", rows=False, empty=FINE),
            "others": array("thetas", rows=False, empty=FINE),
        },
    ),
    of(
        "relu_coordinates",
        atoms=array("students.atoms", rows=False, lead=True, empty=FINE),
        frame=array(_FRAME, width=False, whole=True).also("np.ones((2, 1))", f"2 * {_FRAME}"),
    ),
    of("gegenbauer_rule", dim=count("3", least=2, huge=FINE), nodes=count("4")),
    # symmetry on data and units
    Entry(
        "asymmetry",
        "hf.asymmetry({*})",
        {"unit": _UNIT, "cloud": cloud("wide"), "xs": array("xs", rows=False), **_ON},
    ),
    Entry("asymmetry", "hf.asymmetry(unit, wide, xs, swap, swap, {*})", {"elements": _ELEMENTS}),
    Entry(
        "augment",
        "hf.augment({*}).batch(key)",
        {"data": _DATA, "on_x": rep("swap"), "on_y": rep("swap"), "exact": flag("False")},
    ),
    Entry("augment", "hf.augment({*}, exact=True).batch(key)", {"data": _DATA, **_ON}),
    Entry("augment", "hf.augment(sample, swap, swap, exact=True, {*}).batch(key)", {"elements": _ELEMENTS}),
    Entry("average", "hf.network(hf.average({*}), wide, xs)", {"unit": _UNIT, **_ON}),
    Entry("average", "hf.network(hf.average(unit, swap, swap, {*}), wide, xs)", {"elements": _ELEMENTS}),
    Entry("orbit_closure", "hf.orbit_closure(sample, swap, swap, {*}).xs", {"elements": _ELEMENTS}),
    Entry("orbit_closure", "hf.orbit_closure({*}).xs", {"sample": thing("sample", _WIDE, "(xs, ys)", "xs"), **_ON}),
    Entry(
        "symmetrise",
        "hf.symmetrise({*})(jnp.asarray(xs))",
        {
            "function": function(
                "jnp.sin", "lambda xs: xs[:1]", "lambda xs: 'three'", "lambda xs: None", "lambda xs: xs[:, :1]"
            ),
            **_ON,
        },
    ),
    Entry(
        "symmetrise",
        "hf.symmetrise({*})",
        {"function": array("atoms", rows=False, empty=FINE), "on_x": rep("swap", shared=False, finite=True)},
    ),
    Entry("symmetrise", "hf.symmetrise(jnp.sin, swap, swap, {*})(jnp.asarray(xs))", {"elements": _ELEMENTS}),
    Entry(
        "symmetrise.__call__",
        "hf.symmetrise(jnp.sin, swap, swap)({xs})",
        {"xs": array("xs", rows=False, empty=FINE)},
    ),
]
