"""The three errors and their sum; with a fixed penalty, or with two neurons, the matching verdicts are false."""

import jax
import numpy as np
import pytest

from haarflow.experiments.generalisation import Generalisation
from haarflow.learning.sphere import relu_distance, relu_split
from haarflow.measures.clouds import uniform

KEY = jax.random.key(4)
SMALL = {"sizes": (64, 256), "widths": (2, 16), "repetitions": 2, "steps": 600}


@pytest.mark.parametrize("fault", ["none", "fixed penalty", "two neurons"])
def test_the_verdicts_hold_and_see_what_is_planted(fault):
    from matplotlib.figure import Figure

    experiment = Generalisation(**SMALL, fault=fault)
    kept = [part for part in experiment.parts() if fault == "none" or part.startswith("L=")]
    pieces = {part: dict(experiment.run(KEY, part)) for part in kept}
    if fault == "none":
        REST.update({part: pieces[part] for part in kept if not part.startswith("L=")})
    data = dict(experiment.gather({**REST, **pieces}))
    lost = {claim for claim, check in experiment.verdict(data).items() if not check.holds}
    wanted = {"none": set(), "fixed penalty": {"the empirical minimiser: excess risk in L"}, "two neurons": {"√L neurons: mean"}}
    if fault == "none":
        assert not lost
        for panel in experiment.panels(data):
            panel.draw(Figure())
    for start in wanted[fault]:
        assert any(claim.startswith(start) for claim in lost), lost


REST: dict = {}


def test_the_pieces_are_differences_of_risks():
    draw = np.random.default_rng(0)
    teacher, *laws = (uniform(draw.normal(size=(n, 4))) for n in (3, 4, 5, 6))
    split = relu_split(teacher, population=laws[0], empirical=laws[1], trained=laws[2])
    risks = np.array([0.0, *(float(relu_distance(law, teacher)) / 2 for law in laws)])
    np.testing.assert_allclose(split, np.diff(risks), rtol=1e-12)
