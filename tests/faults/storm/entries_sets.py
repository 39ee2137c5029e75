"""Right calls of networks on sets: packed sets, units, norms, penalties, frozen layers."""

from bend import LATE, array, choice, cloud, count, key, number, one_of, thing
from entry import Entry, made, of

_SETS = "[np.ones((2, 3)), np.zeros((1, 3))]"
_UNIT = thing("hf.sets.SetNeuron(2, 1, 1)", "cloud", "unit", "ridge")
_FITTING = _UNIT.also("hf.sets.SetNeuron(2, 2, 1)")

ENTRIES = [
    of(
        "pack_sets",
        sets=one_of(_SETS, "[]", "3.0", "[np.ones((2, 3)), np.ones((2, 2))]", "[np.ones((0, 3))]", "[np.ones(3)]").also(
            "[np.full((2, 3), np.nan)]", "'three'", "['three']", "[None]", "None"
        ),
        points=count("4", least=2, optional=True),
    ),
    *made(
        "SetNeuron",
        "hf.network({}, wide, thetas)",
        points=count("2", huge=LATE),
        columns=count("1", huge=LATE),
        hidden=count("1", huge=LATE),
        outputs=count("1", huge=LATE),
        activation=choice('"tanh"'),
    ),
    *made(
        "FrozenSetNeuron",
        "hf.network({}, wide, thetas)",
        first=array("np.array([[0.5, 1.0], [1.0, -0.5], [0.25, 0.5]])", width=False, rows=False),
        points=count("2", huge=LATE),
        outputs=count("1", huge=LATE),
        activation=choice('"tanh"'),
    ),
    of("draw_layer", key=key(), hidden=count("3"), columns=count("2")),
    of("draw_neurons", key=key(), unit=_UNIT, n=count("3")),
    of("set_norm", unit=_FITTING, cloud=cloud("wide"), norm=choice('"S2"')),
    *made(
        "SetPenalty",
        "{}(wide)",
        unit=_UNIT.also(late=("hf.sets.SetNeuron(2, 2, 1)",)),
        tau=number("0.5", least=0),
        norm=choice('"S3"'),
    ),
    Entry(
        "freeze_layers",
        "hf.sets.freeze_layers({*})(key, wide).velocity",
        {
            "field": thing("field", "risk", "cloud"),
            "unit": _FITTING,
            "layers": one_of("2", "0", "3", "-1", "'two'", "1.5", "[1]"),
        },
    ),
]
