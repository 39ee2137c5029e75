"""Right calls of linear networks and of the largest margin."""

from bend import BAD, FINE, LATE, array, choice, count, one_of, rep, thing
from entry import Entry, made

_X = "np.array([[1.0, 0.5], [0.25, 1.0], [-0.5, -0.75], [-1.0, 0.25]])"
_Y = "np.array([1, 1, 0, 0])"
_BEST = f"hf.max_margin({_X}, {_Y})"
_PAIRS = "hf.Sample(np.array([[1.0, 0.5], [-0.5, -0.75]]), [1.0, -1.0])"
_ROWS = "np.array([[0.5, -1.0, 0.25, 1.0, 0.5, -0.5]])"

ENTRIES = [
    Entry(
        "max_margin",
        "hf.max_margin({*}).direction",
        {
            "x": array(_X, width=False).also("1e200 * {}"),
            "y": one_of(
                _Y, "[1, 0]", "[1, 1, 1, 1]", "[0, 1, 2, 3]", "[[1, 0]] * 4", "3.0", "[1.0, 0.0, np.nan, 0.0]"
            ).also(
                "[None] * 4",
                "1j * {}",
                same=("{}[:, None]", "{}.tolist()", "{} == 1", "{}.astype(float)", "2 * {} - 1"),
            ),
            "under": rep("swap", shared=False, optional=True),
        },
    ),
    Entry("MaxMargin", f"str({_BEST})", {}),
    Entry("MaxMargin.predict", f"{_BEST}.predict({{*}})", {"x": array(_X, rows=False, empty=FINE)}),
    Entry("MaxMargin.draw", f"{_BEST}.draw({{*}})", {"axis": one_of("None", "3.0", '"axis"', optional=True)}),
    *made(
        "DeepLinear",
        f"hf.network({{}}, hf.uniform({_ROWS}), {_X})",
        inputs=count("2", huge=LATE),
        width=count("2", huge=BAD),
        depth=count("2", most=100, huge=BAD),
    ),
    *made(
        "Steerable",
        f"hf.network({{}}, hf.uniform({_ROWS}), {_X})",
        rep=rep("swap", finite=True, shared=False, dim=False),
        channels=count("2", huge=BAD),
        depth=count("2", most=100, huge=BAD),
        coordinates=choice('"isometric"'),
    ),
    *made(
        "LogExponential",
        "{}(particles)",
        network=thing("single", "cloud", "hf.Perceptron(3, 1)", "hf.Perceptron(2, 2)"),
        data=thing(_PAIRS, "cloud", "unit", "batches", "sample"),
    ),
    *made(
        "Normalised",
        "{}.step(key, field, wide, {}.start(wide), jnp.asarray(0.125))[0].atoms",
        inner=thing("hf.Euler()", "optax.adam(1.0)", "field"),
    ),
]
