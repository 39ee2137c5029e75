"""The three errors and their sum; with a fixed penalty, or with two neurons, the matching verdicts are false."""

import jax
import numpy as np
import pytest

from haarflow.experiments.generalisation import Generalisation
from haarflow.learning.sphere import relu_distance, relu_split
from haarflow.measures.clouds import uniform

KEY = jax.random.key(4)
SMALL = {"sizes": (36, 400), "widths": (2, 20), "repetitions": 2, "steps": 500}
SEEN = {
    "none": (),
    "fixed penalty": ("the empirical minimiser: excess risk in L", "√L neurons: excess risk in L"),
    "two neurons": ("√L neurons: excess risk in L", "√L neurons: mean excess risk", "√L neurons: objective above"),
}


@pytest.fixture(scope="module")
def rest():
    """The parts that no fault touches."""
    experiment = Generalisation(**SMALL)
    return {part: dict(experiment.run(KEY, part)) for part in experiment.parts() if not part.startswith("L=")}


@pytest.mark.parametrize("fault", SEEN)
def test_the_verdicts_hold_and_see_what_is_planted(rest, fault):
    from matplotlib.figure import Figure

    experiment = Generalisation(**SMALL, fault=fault)
    pieces = {part: dict(experiment.run(KEY, part)) for part in experiment.parts() if part.startswith("L=")}
    data = dict(experiment.gather({**rest, **pieces}))
    lost = [claim for claim, check in experiment.verdict(data).items() if not check.holds]
    assert len(lost) == len(SEEN[fault])
    assert all(claim.startswith(start) for claim, start in zip(lost, SEEN[fault], strict=True))
    if fault == "none":
        for panel in experiment.panels(data):
            panel.draw(Figure())


def test_the_pieces_are_differences_of_risks():
    draw = np.random.default_rng(0)
    teacher, *laws = (uniform(draw.normal(size=(n, 4))) for n in (3, 4, 5, 6))
    split = relu_split(teacher, population=laws[0], empirical=laws[1], trained=laws[2])
    risks = np.array([0.0, *(float(relu_distance(law, teacher)) / 2 for law in laws)])
    np.testing.assert_allclose(split, np.diff(risks), rtol=1e-12)
