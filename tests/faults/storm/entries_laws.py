"""Right calls of the laws of members, and of the pictures of clouds."""

from bend import one_of, rep
from entry import Entry, of

_AXIS = "__import__('matplotlib.figure').figure.Figure().add_subplot()"

_REP = rep("swap", shared=False, matrix=True, optional=True)
_UNIT = "(unit, swap, swap)"

ENTRIES = [
    of(
        "check_laws",
        member=one_of("hf.Penalty(0.5)", "cloud", "7", "xs", '"Heun"', "int", "()", "(hf.Penalty(0.5), 3)"),
    ),
    of(
        "check_laws",
        member=one_of(
            _UNIT,
            "unit",
            "(unit,)",
            "(unit, swap)",
            "(unit, 3, 4)",
            "(unit, swap, hf.trivial_rep(circle, 2))",
            f"(*{_UNIT}, swap)",
        ),
    ),
    of("check_laws", member=one_of("hf.Heun()", "(hf.Heun(), 3)", "(hf.Heun(), cloud)", "hf.losses.Huber()")),
    Entry("Findings", "hf.practice.check_laws(hf.Penalty(0.5)).table()", {}),
    Entry("Cloud.draw", f"type(cloud.draw({_AXIS}, {{*}})).__name__", {"rep": _REP}),
    Entry("Cloud.draw", "type(cloud.draw({*})).__name__", {"axis": one_of(_AXIS, "cloud", "3.0")}),
]
