"""Right calls of the laws of members, and of the pictures of clouds."""

from bend import one_of, rep
from entry import Entry, of

_AXIS = "__import__('matplotlib.figure').figure.Figure().add_subplot()"

ENTRIES = [
    of("check_laws", member=one_of("hf.Penalty(0.5)", "cloud", "7", "xs", '"Heun"', "int", "(unit,)")),
    Entry("Findings", "hf.practice.check_laws(hf.Penalty(0.5)).table()", {}),
    Entry("Cloud.draw", f"type(cloud.draw({_AXIS}, {{*}})).__name__", {"rep": rep("swap", shared=False, matrix=True)}),
    Entry("Cloud.draw", "type(cloud.draw({*})).__name__", {"axis": one_of(_AXIS, "cloud", "3.0")}),
]
