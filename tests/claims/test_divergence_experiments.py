"""The experiments on divergences under a group hold in small, and each planted fault is seen."""

import jax
import numpy as np
import pytest

from haarflow.experiments.alpha_gain import AlphaGain
from haarflow.experiments.collapse import Collapse
from haarflow.experiments.mmd_gain import MmdGain, disk, independent_mean, second_moment, turned_mean
from haarflow.experiments.w1_gain import W1Gain

KEY = jax.random.key(2)


@pytest.mark.slow
def test_w1_gain_holds_and_sees_what_is_planted(rehearse):
    rehearsal = rehearse(W1Gain, KEY, runs=60, sizes=(10, 40), draws=1)
    exact = [claim for claim in rehearsal.lost() if "1e-09" in claim]
    assert not exact
    assert any("augmented" in claim for claim in rehearsal.lost("lost element", ["identities"]))
    assert any("common" in claim for claim in rehearsal.lost("no group", ["shifts"]))
    assert rehearsal.shown()


def test_the_closed_form_of_the_disk_is_that_of_draws():
    """Means over 20 000 draws within four standard errors."""
    draw = np.random.default_rng(0)
    x, y = disk(draw, 20_000), disk(draw, 20_000)
    values = np.exp(-np.sum((x - y) ** 2, axis=1) / 2)
    assert abs(values.mean() - independent_mean(1.0)) < 4 * values.std() / 141
    turned = np.exp(-4 * np.sum(x**2, axis=1) * np.sin(np.pi / 3) ** 2 / 2)
    assert abs(turned.mean() - turned_mean(3, 1.0)) < 4 * turned.std() / 141
    assert np.isclose(second_moment(1, 1.0, 10), 0.2 * (1 - independent_mean(1.0)))


@pytest.mark.slow
def test_mmd_gain_holds_and_sees_what_is_planted(rehearse):
    rehearsal = rehearse(MmdGain, KEY, runs=60, sizes=(10, 25))
    assert not any("closed form" in claim for claim in rehearsal.lost())
    for fault in ("no average", "narrow kernel"):
        assert any("closed form" in claim for claim in rehearsal.lost(fault, ["squares"])), fault
    assert rehearsal.shown()


def test_alpha_gain_holds_and_sees_what_is_planted(rehearse):
    rehearsal = rehearse(AlphaGain, KEY, runs=10, sizes=(10, 20), draws=1)
    assert not any("1e-08" in claim for claim in rehearsal.lost())
    for fault in ("no group", "half constant"):
        assert any("augmented" in claim for claim in rehearsal.lost(fault, ["identities"])), fault
    assert rehearsal.shown()


def test_collapse_holds_and_sees_what_is_planted(rehearse):
    rehearsal = rehearse(Collapse, KEY, n=24, runs=6)
    assert not any("invariant" in claim for claim in rehearsal.lost())
    for fault in ("plain discriminators", "half group"):
        lost = rehearsal.lost(fault, ["seen", "equality"])
        assert any("symmetrised" in claim for claim in lost), fault
        assert any("differ" in claim for claim in lost), fault
    assert rehearsal.shown()
