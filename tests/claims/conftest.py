"""What the tests of whole experiments share: a rehearsal, small enough to be run and judged."""

import pytest


class Rehearsal:
    """A small experiment whose parts are run once; one with a planted fault runs only the parts it spoils again."""

    def __init__(self, kind, key, **settings):
        self.kind, self.key, self.settings = kind, key, settings
        self.experiment = kind(**settings)
        self.pieces = {part: dict(self.experiment.run(key, part)) for part in self.experiment.parts()}

    def data(self):
        """The gathered record without a fault."""
        return self._gathered(self.experiment, {})

    def lost(self, fault=None, again=()):
        """The claims that do not hold, as it is or with a fault planted in the parts `again`."""
        faulty = self.experiment if fault is None else self.kind(**self.settings, fault=fault)
        data = self._gathered(faulty, {part: dict(faulty.run(self.key, part)) for part in again})
        return {claim for claim, check in faulty.verdict(data).items() if not check.holds}

    def shown(self):
        """Draw every panel; the figures of the record, none of which may be nan."""
        from matplotlib.figure import Figure

        data = self.data()
        for panel in self.experiment.panels(data):
            panel.draw(Figure())
        figures = self.experiment.figures(data)
        assert all(number == number for number in figures.values())
        return figures

    def _gathered(self, experiment, again):
        pieces = self.pieces | again
        return dict(experiment.gather({part: dict(piece) for part, piece in pieces.items()}))


@pytest.fixture(scope="session")
def rehearse():
    """`rehearse(Experiment, key, **settings)`."""
    return Rehearsal
