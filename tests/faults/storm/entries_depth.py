"""Right calls of depth separation: the target, its unit, and what one direction holds of it."""

from bend import FINE, array, count, number
from entry import of

_OMEGA = {"omega": number("3.0", above=0)}

ENTRIES = [
    of("oscillation", xs=array("xs", width=False, rows=False, empty=FINE), **_OMEGA),
    of("oscillating_unit", d=count("2")),
    of("coordinate_energy", d=count("3", huge=FINE), **_OMEGA),
    of("ridge_energy", direction=array("np.array([1.0, 0.6])", width=False, rows=False), **_OMEGA),
    of("least_norm", energy=number("0.01", above=0), error=number("0.5", above=0)),
]
