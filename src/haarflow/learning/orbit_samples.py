"""Orbits of samples folded together: where a network is equivariant, one sample of an orbit stands for all of them."""

from haarflow.algebra.base import Finite
from haarflow.algebra.reps import Rep, one_group
from haarflow.doors import door
from haarflow.errors import Refusal
from haarflow.learning.functionals import Functional


@door
def fold(functional: Functional, on_x: Rep, on_y: Rep) -> Functional:
    """The same functional with one sample per orbit: FA over orbit-closed data, |G| times cheaper, on every cloud.

    Averaged risks over a closed Sample, or over `augment(data, on_x, on_y, exact=True)`; their sums with penalties. A
    functional of your own answers by its method `folded`.
    """
    refuse_unless_finite(on_x, on_y)
    return functional.folded(on_x, on_y)


def refuse_unless_finite(on_x: Rep, on_y: Rep):
    """A sentence, where the representations are not those of one finite group, whose orbits can be listed."""
    group = one_group("The folding of orbits", on_x, on_y)
    if not isinstance(group, Finite):
        raise Refusal(f"The folding of orbits is for finite groups; got {group}. Flow the whole cloud instead.")
