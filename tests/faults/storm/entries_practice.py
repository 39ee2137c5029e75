"""Right calls of what people call: discovery, and what it finds."""

from bend import FINE, array, choice, cloud, count, flag, key, number, one_of, rep, thing
from entry import Entry, of

_BASIS = array("basis", width=False, rows=False).also("2 * basis", "np.ones((4, 2))")
_SHAPE = one_of("(2, 2)", "(3, 2)", "(2,)", "(-2, -2)", "(2.5, 2)", "(2, 2, 1)", '"three"', optional=True)
_UNIT = thing("unit", "cloud", "ridge", late=("hf.Dense(3, 2)", "hf.Dense(2, 1)"))
_ELEMENTS = array("group.elements()", rows=False, whole=True, optional=True).also("np.ones((2, 2, 2))")
_TIES = number("0.25", least=0)

ENTRIES = [
    of(
        "discover",
        field=thing(
            "field",
            "risk",
            "[field, field, field]",
            late=("hf.Descend(hf.Risk(hf.Dense(3, 2), hf.Sample(wider(xs), ys)))",),
        ),
        start=cloud("wide"),
        key=key(),
        dt=number("0.25", above=0),
        steps=count("2"),
        temperature=number("0.0", least=0),
        rule=choice('"singular"'),
        stop=choice('"test"'),
        false_expansion=number("0.125", above=0, below=1),
        threshold=number("0.125", least=0, below=0.5, optional=True),  # at 0.25 rounding decides: all residuals are one
        replicates=count("4", least=4, optional=True),
        directions=count("1", huge=FINE),
        ties=number("4.0", least=0),
        most=count("1", huge=FINE, optional=True),
        progress=one_of("False", "3.0", '"no"', optional=True).also(same=("silent",)),
    ),
    Entry("Discovery", "str(found)", {}),
    Entry("Discovery.angles", "found.angles({*})", {"known": array("basis", width=False).also("swap")}),
    Entry("Discovery.angles", "found.angles({*})", {"known": rep("action", shared=False)}),
    Entry("Discovery.sharing", "found.sharing({*})", {"tolerance": _TIES}),
    Entry(
        "Discovery.symmetries",
        "found.symmetries({*})",
        {"shape": _SHAPE, "tolerance": _TIES, "limit": count("100", huge=FINE)},
    ),
    Entry("Discovery.rounded", "found.rounded({*})", {"tolerance": _TIES}),
    Entry(
        "Discovery.restrict",
        "found.restrict({*})(key, wide).velocity",
        {"field": thing("field", "risk", "hf.Descend(hf.exact.QuadraticEnergy(moments, np.zeros(2), goal))")},
    ),
    Entry("Discovery.start", "found.start({*})", {"cloud": cloud("wide", stack=True)}),
    Entry("Discovery.scheme", "found.scheme({*})", {"temperature": number("0.5", least=0)}),
    of(
        "four_schemes",
        unit=_UNIT,
        data=thing("sample", "xs", "field", "unit"),
        on_x=rep("swap"),
        on_y=rep("swap"),
        penalty=number("0.5", least=0),
        loss=choice('"square"'),
        exact=flag("True"),
        elements=_ELEMENTS,
        transport=number("0.5", least=0),
        growth=number("0.5", least=0, optional=True),
    ),
    Entry(
        "four_schemes",
        "four.steppers({*})",
        {
            "temperature": number("0.5", least=0),
            "inner": one_of("hf.Euler()", "field", "unit", optional=True),
            "projected": flag("False"),
        },
    ),
    Entry("four_schemes", "four.starts({*})", {"cloud": cloud("wide", stack=True), "strong": flag("False")}),
    of(
        "check_identities",
        key=key(),
        unit=_UNIT,
        on_x=rep("swap"),
        on_y=rep("swap"),
        elements=_ELEMENTS,
        atoms=count("2"),
        samples=count("2"),
        fault=choice('"none"'),
    ),
    of(
        "check_training",
        key=key(),
        unit=_UNIT,
        on_x=rep("swap"),
        on_y=rep("swap"),
        elements=_ELEMENTS,
        steps=count("2"),
    ),
    of("sharing", basis=_BASIS, tolerance=_TIES),
    of("symmetries", basis=_BASIS, shape=_SHAPE, tolerance=_TIES, limit=count("100", huge=FINE).also("1")),
    Entry("Sharing", "pattern.basis()", {}),
    Entry("Sharing.words", "pattern.words({*})", {"shape": _SHAPE}),
    Entry("Sharing.text", "pattern.text({*})", {"shape": _SHAPE}),
    Entry("SignedPermutation", "hf.practice.symmetries(basis, shape=(2, 2))[0].matrices()", {}),
]
