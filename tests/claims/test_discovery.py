"""Discovery at a small size: the claims, planted faults that they see, and the pictures."""

import jax
import numpy as np
import pytest

from haarflow.experiments import _discovery as given
from haarflow.experiments.discovery import EXAMPLE, LEVELS, NULLS, Discovery
from haarflow.practice.escape import RULES
from haarflow.runs import style

SMALL = Discovery(
    example_runs=2,
    small_runs=2,
    shift_runs=2,
    digit_runs=2,
    missed_runs=2,
    rule_runs=2,
    null_runs=40,
    rule_particles=20,
)
ALL = [*(f"find {name}" for name in [*given.FOUND, *given.MISSED]), *(f"rule {rule}" for rule in RULES)]


SPACES = dict(
    zip(ALL, [(4, 2), (4, 2), (9, 2), (36, 6), (64, 10), (4, 2), (3, 2), (9, 2), (3, 1), (4, 2), (4, 2)], strict=True)
)


@pytest.fixture(scope="module")
def ideal():
    """What theory says a run finds."""
    found = {f"null {name}/p_values": (np.arange(40) + 0.5) / 40 for name in NULLS}
    for source, (p, k) in SPACES.items():
        basis = np.eye(p)[:, :k]
        wrong = source == "rule mean" or source.removeprefix("find ") in given.MISSED
        found |= {
            f"{source}/dimension": np.full(2, basis.shape[1] - wrong),
            f"{source}/true": np.full(2, basis.shape[1]),
            f"{source}/angle": np.full(2, 90.0 * wrong),
            f"{source}/outside": np.zeros(2),
            f"{source}/basis": basis,
        }
    return found


def failing(experiment, data):
    return [claim for claim, check in experiment.verdict(data).items() if not check.holds]


def test_what_theory_says_holds(ideal):
    assert not failing(SMALL, ideal)
    assert all(np.isfinite(value) for value in SMALL.figures(ideal).values())


@pytest.mark.parametrize(
    ("name", "value", "claim"),
    [
        (f"find {EXAMPLE}/dimension", [2, 3], f"{EXAMPLE}: the right dimension"),
        (f"find {EXAMPLE}/angle", [2.5, 2.5], f"{EXAMPLE}: median angle"),
        ("find D4 on 8×8 digits/dimension", [10, 9], "D4 on 8×8 digits: the right dimension"),
        (f"null {NULLS[1]}/p_values", [0.001] * 4 + [0.5] * 36, f"null runs, {NULLS[1]}: the count below p = 0.01"),
        (f"null {NULLS[0]}/p_values", [0.05] * 12 + [0.5] * 28, f"null runs, {NULLS[0]}: the count below p = 0.1"),
        ("rule mean/dimension", [2, 2], "the published mean rule"),
        ("find S3, teacher on the diagonal/outside", [0, 30.0], "S3 where directions are missed"),
    ],
)
def test_each_claim_sees_its_planted_fault(ideal, name, value, claim):
    spoilt = {**ideal, name: np.array(value)}
    assert [words for words in failing(SMALL, spoilt) if words.startswith(claim)]


def test_the_published_example_is_found_and_data_without_its_symmetry_are_seen(ideal):
    part = f"find {EXAMPLE}, runs 0-1"
    for fault, expected in (("none", 2), ("arbitrary teacher", 4)):
        experiment = SMALL.model_copy(update={"fault": fault})
        made = {f"find {EXAMPLE}/{name}": rows for name, rows in experiment.run(jax.random.key(0), part).items()}
        np.testing.assert_array_equal(made[f"find {EXAMPLE}/dimension"], expected)
        claims = [f"{EXAMPLE}: the right dimension in at least 95% of runs", f"{EXAMPLE}: median angle to E^G below 2°"]
        assert failing(experiment, {**ideal, **made}) == (claims if expected == 4 else [])


def test_the_test_is_calibrated_and_judging_by_the_same_half_is_not(ideal):
    for fault, sound in (("none", True), ("same half", False)):
        experiment = SMALL.model_copy(update={"fault": fault})
        p_values = experiment.run(jax.random.key(0), f"null {EXAMPLE}")["p_values"]
        wrong = failing(experiment, {**ideal, f"null {EXAMPLE}/p_values": p_values})
        assert (not wrong) == sound
        assert sound or len(wrong) == len(LEVELS)


def test_parts_cover_every_run_once_and_gather():
    full = Discovery.full()
    assert full.null_runs >= 200
    assert min(full.runs.values()) >= 20
    spans = {}
    for part in full.parts():
        name, _, span = part.rpartition(", runs ")
        if span and name:
            first, last = map(int, span.split("-"))
            spans.setdefault(name, []).extend(range(first, last + 1))
    assert set(spans) == set(ALL)
    for name, runs in full.runs.items():
        assert sorted(spans[f"find {name}"]) == list(range(runs))
    pieces = {part: {"dimension": np.ones(2), "basis": np.eye(2)} for part in full.parts()}
    gathered = full.gather(pieces)
    assert gathered["find D4 on 8×8 digits/basis"].shape == (2, 2)
    assert len(gathered[f"find {EXAMPLE}/dimension"]) == 2 * sum(f"find {EXAMPLE}" in part for part in pieces)


def test_the_panels_draw(ideal):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(ideal))
