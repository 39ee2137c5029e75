"""Discovery at a small size: the claims, planted faults that they see, and the pictures."""

import jax
import numpy as np
import pytest

from haarflow.experiments.discovery import EXAMPLE, FOUND, LEVELS, MISSED, NULLS, Discovery
from haarflow.practice.escape import RULES
from haarflow.runs import design, judge, style
from haarflow.runs.experiment import Data, named

pytestmark = pytest.mark.optimised
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
SPACES = dict(
    zip((*FOUND, *MISSED), [(4, 2), (4, 2), (9, 2), (36, 6), (64, 10), (4, 2), (3, 2), (9, 2), (3, 1)], strict=True)
)


@pytest.fixture
def ideal():
    """What theory says a run finds, to be spoilt."""
    true = np.array([SPACES[name][1] for name in SMALL.runs], float)
    wrong = np.array([name in MISSED for name in SMALL.runs], float)
    basis = np.full((len(true), 64, 10), np.nan)
    for place, (p, k) in enumerate(SPACES[name] for name in SMALL.runs):
        basis[place, :p, :k] = np.eye(p)[:, :k]
    twice, settings = np.ones(2), {"setting": SMALL.runs}
    found = {
        "dimension": named(np.outer(true - wrong, twice), "setting", "run", **settings),
        "true": named(true, "setting", **settings),
        "angle": named(np.outer(90 * wrong, twice), "setting", "run", **settings),
        "outside": named(np.zeros((len(true), 2)), "setting", "run", **settings),
        "basis": named(basis, "setting", "parameter", "direction", **settings),
        "rule_dimension": named([[1.0, 1.0], [2.0, 2.0]], "rule", "run", rule=RULES),
        "rule_true": named([2.0, 2.0], "rule", rule=RULES),
        "rule_angle": named([[90.0, 90.0], [0.0, 0.0]], "rule", "run", rule=RULES),
        "null_p_value": named(np.tile((np.arange(40) + 0.5) / 40, (2, 1)), "setting", "run", setting=NULLS),
    }
    return Data(found)


def failing(experiment, data):
    return [claim for claim, check in judge.claims(experiment, data).items() if not check.holds]


def test_what_theory_says_holds(ideal):
    assert not failing(SMALL, ideal)
    assert all(np.isfinite(value) for value in judge.numbers(SMALL, ideal).values())


@pytest.mark.parametrize(
    ("name", "at", "value", "claim"),
    [
        ("dimension", {"setting": EXAMPLE}, [2, 3], f"{EXAMPLE}: the right dimension"),
        ("angle", {"setting": EXAMPLE}, [2.5, 2.5], f"{EXAMPLE}: median angle"),
        ("dimension", {"setting": "D4 on 8×8 digits"}, [10, 9], "D4 on 8×8 digits: the right dimension"),
        (
            "null_p_value",
            {"setting": NULLS[1]},
            [0.001] * 4 + [0.5] * 36,
            f"null runs, {NULLS[1]}: of 40, those with p <=",
        ),
        (
            "null_p_value",
            {"setting": NULLS[0]},
            [0.05] * 12 + [0.5] * 28,
            f"null runs, {NULLS[0]}: of 40, those with p <=",
        ),
        ("rule_dimension", {"rule": "mean"}, [2, 2], "the published mean rule"),
        ("outside", {"setting": "S3, teacher on the diagonal"}, [0, 30.0], "S3 where directions are missed"),
    ],
)
def test_each_claim_sees_its_planted_fault(ideal, name, at, value, claim):
    ideal[name].sel(**at).values[...] = value  # a view of the array
    (lost,) = failing(SMALL, ideal)
    assert lost.startswith(claim)


def test_the_published_example_is_found_and_data_without_its_symmetry_are_seen(ideal):
    claims = [
        f"{EXAMPLE}: the right dimension in at least 95% of runs",
        f"{EXAMPLE}: median angle to E^G, in degrees, ",
    ]
    for fault, expected in (("none", 2), ("arbitrary teacher", 4)):
        experiment = SMALL.model_copy(update={"fault": fault})
        made = experiment.find(jax.random.key(0), EXAMPLE, range(2))
        np.testing.assert_array_equal(made["dimension"], expected)
        for what in ("dimension", "angle"):
            ideal[what].sel(setting=EXAMPLE).values[...] = made[what]
        lost = failing(experiment, ideal)
        assert len(lost) == (2 if expected == 4 else 0)
        assert all(map(str.startswith, lost, claims))


@pytest.mark.slow
def test_the_test_is_calibrated_and_judging_by_the_same_half_is_not(ideal):
    for fault, sound in (("none", True), ("same half", False)):
        experiment = SMALL.model_copy(update={"fault": fault})
        ideal.null_p_value.sel(setting=EXAMPLE).values[...] = experiment.null(jax.random.key(0), EXAMPLE)[
            "null_p_value"
        ]
        assert len(failing(experiment, ideal)) == (0 if sound else len(LEVELS))


def test_parts_cover_every_run_once():
    full = Discovery.full()
    assert full.null_runs >= 200
    assert min(full.runs.values()) >= 20
    spans = {}
    for part in design.parts(full).values():
        if "run" in part.cell:
            spans.setdefault(part.cell.get("setting", part.cell.get("rule")), []).extend(part.cell["run"])
    assert spans == {name: list(range(runs)) for name, runs in full.runs.items()} | {
        rule: list(range(40)) for rule in RULES
    }


@pytest.mark.slow
def test_the_panels_draw(ideal):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(ideal))
