"""How many dimensions a group fixes: by sums over its classes, or by counting orbits."""

import math

import numpy as np

from haarflow.algebra import fixed_space
from haarflow.algebra.acting import as_action
from haarflow.algebra.checks import short
from haarflow.algebra.reps import Rep
from haarflow.doors import door
from haarflow.errors import Refusal

TERMS = 5000
"""The most classes that are summed over: seconds."""


@door
def character_dimension(rep: Rep) -> int:
    """The dimension of the fixed space by the character formula: the Haar average of the trace.

    Where the group has too many classes and the coordinates are permuted up to sign, the same average is the
    number of orbits that no sign kills (Burnside), counted by the generators alone.
    """
    terms = rep.group.count_classes(0)
    if terms is not None and terms <= TERMS:
        degree = _degree(rep)
        terms = rep.group.count_classes(degree)
        if terms is not None and terms <= TERMS:
            return _mean_character(rep, degree)
    found = fixed_space.signed_generators(rep)
    if found is None:
        many = "a list that the group does not have" if terms is None else f"{short(terms)} of them"
        raise Refusal(
            f"character_dimension sums over the classes of the group; {rep} takes {many}, and at "
            f"most {TERMS} are summed. Write `rep.fixed_basis().shape[1]`, which works with the generators."
        )
    return int(fixed_space.orbits(*found)[0].max(initial=-1)) + 1


def _mean_character(rep: Rep, degree: int) -> int:
    elements, shares = rep.group.classes(degree)
    traces = rep.acting(as_action(elements)).traces()
    mean = math.fsum(share * float(trace) for trace, share in zip(traces, shares, strict=True))
    if abs(mean - round(mean)) > 1e-6:
        raise Refusal(f"The mean character of a representation is a whole number; got {mean:.8f} for {rep}.")
    return round(mean)


def _degree(rep: Rep) -> int:
    """The largest weight: classes that are exact up to it give the mean exactly."""
    weights = (float(np.linalg.norm(rep.turning(a), np.inf)) for a in rep.group.lie_algebra())
    return math.ceil(max(weights, default=0.0) - 1e-6)
