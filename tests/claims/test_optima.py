"""The optima agree, strong invariance costs what it should, and planted faults are seen."""

import jax
import pytest

from haarflow.experiments import optima
from haarflow.experiments.optima import Optima
from haarflow.learning.data import Sample

SMALL = Optima(orbits=12, samples=8, fixed=(4, 16, 64), inputs=30, repetitions=2, rings=20, steps=2000)


def judged(experiment):
    pieces = {part: dict(experiment.run(jax.random.key(1), part)) for part in experiment.parts()}
    data = dict(experiment.gather(pieces))
    return data, {claim: check.holds for claim, check in experiment.verdict(data).items()}


def test_the_claims_hold_and_draw_themselves():
    from matplotlib.figure import Figure

    data, verdicts = judged(SMALL)
    assert all(verdicts.values()), [claim for claim, holds in verdicts.items() if not holds]
    assert len(SMALL.figures(data)) > 20
    for panel in SMALL.panels(data):
        panel.draw(Figure())


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("unclosed data", {"Thm 2: the optima of DA", "Thm 2: with symmetric data", "Cor 1"}),
        ("wrong average", {"Thm 2: the optima of DA"}),
    ],
)
def test_planted_faults_are_seen(monkeypatch, fault, seen):
    if fault == "unclosed data":

        def broken(sample, on_x, on_y):
            closed = orbit_closure(sample, on_x, on_y)
            return Sample(closed.xs[1:], closed.ys[1:])

        orbit_closure = optima.orbit_closure
        monkeypatch.setattr(optima, "orbit_closure", broken)
    else:
        monkeypatch.setattr(optima, "average", lambda unit, on_x, on_y: unit)
    data = dict(SMALL.run(jax.random.key(1), "C2 swap"))
    values, split = data["values"], data["split"]
    found = {
        "Thm 2: the optima of DA": abs(values[:, 2:] - values[:, 1:2]).max() > 1e-5,
        "Thm 2: with symmetric data": data["closed"].max() > 1e-5,
        "Cor 1": abs(split[0] - split[1] - split[2]) > 1e-5,
    }
    assert {claim for claim, wrong in found.items() if wrong} == seen
