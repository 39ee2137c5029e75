"""What the tests of whole experiments share: a rehearsal, small enough to be run and judged.

haarflow is imported where it is used: where this folder is named on the command line, this file is read before
`tests/conftest.py` has prepared the checks of types.
"""

import pytest


class Rehearsal:
    """A small experiment whose parts are run once; one with a planted fault runs only the parts it spoils again."""

    def __init__(self, kind, key, **settings):
        from haarflow.runs import design

        self.kind, self.key, self.settings = kind, key, settings
        self.experiment = kind(**settings)
        self.pieces = {part: design.compute(self.experiment, key, part) for part in design.parts(self.experiment)}

    def data(self):
        """The gathered record without a fault."""
        from haarflow.runs import design

        return design.gather(self.experiment, self.pieces)

    def lost(self, fault=None, again=()):
        """The claims that do not hold, as it is or with a fault planted in the parts (or methods) `again`."""
        from haarflow.runs import design, judge

        faulty = self.experiment if fault is None else self.kind(**self.settings, fault=fault)
        spoiled = [part for part in design.parts(faulty) if part in again or part.split(" ")[0] in again]
        assert bool(spoiled) == bool(again), f"none of {list(self.pieces)} is one of {again}"
        pieces = self.pieces | {part: design.compute(faulty, self.key, part) for part in spoiled}
        claims = judge.claims(faulty, design.gather(faulty, pieces))
        return {claim for claim, check in claims.items() if not check.holds}

    def shown(self):
        """Draw every panel; the numbers of the record, none of which may be nan."""
        from matplotlib.figure import Figure

        from haarflow.runs import judge

        data = self.data()
        for panel in self.experiment.panels(data):
            panel.draw(Figure())
        numbers = judge.numbers(self.experiment, data)
        assert all(number == number for number in numbers.values())
        return numbers


@pytest.fixture(scope="session")
def rehearse():
    """`rehearse(Experiment, key, **settings)`."""
    return Rehearsal
