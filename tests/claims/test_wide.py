"""The wide cloud at a small width: its claims, planted faults, and memory among the timings only."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from haarflow.experiments.wide import Wide
from haarflow.practice.compare import SCHEMES
from haarflow.runs import catalogue, judge, machine, report, scheduler

slow = pytest.mark.slow  # the claims are those of weak-invariance at more particles
SMALL = {"particles": 2000, "smaller": (100,), "steps": 20, "inputs": 50, "mmd_up_to": 100}


@pytest.fixture(scope="module")
def made(rehearse):
    return rehearse(Wide, jax.random.key(0), **SMALL)


def failing(made, data):
    return [claim for claim, check in judge.claims(made.experiment, data).items() if not check.holds]


@slow
def test_the_claims_hold_but_for_the_certified_distance_of_a_small_cloud(made):
    data = made.data()
    assert [claim[:20] for claim in failing(made, data)] in ([], ["DA: RMD² to weak inv"])
    low, high = data.wi.sel(n=2000, scheme="DA")
    assert 0 < low <= high < 0.1
    assert np.isfinite(data.mmd2.sel(n=100)).all()
    assert np.isnan(data.mmd2.sel(n=2000)).all()
    assert np.isfinite(data.coupled.sel(n=100)).sum() == 16
    assert np.isfinite(data.coupled.sel(n=2000)).sum() == 1
    assert data.shown.sel(n=2000, scheme="EA").shape == (2000, 4)
    assert set(data.asymmetry.labels("scheme")) == set(SCHEMES)


@slow
@pytest.mark.parametrize(
    ("name", "at", "claim"),
    [
        ("asymmetry", {"scheme": "DA"}, "DA: n |f − Qf|²"),
        ("asymmetry", {"scheme": "FA"}, "FA: n |f − Qf|²"),
        ("coupled", {}, "n |DA − FA|²"),
        ("si", {"scheme": "EA"}, "EA stays"),
        ("asymmetry", {"scheme": "EA"}, "EA is equivariant"),
        ("wi", {"scheme": "DA"}, "DA: RMD² to weak"),
    ],
)
def test_each_claim_sees_its_planted_fault(made, name, at, claim):
    data = made.data()
    data[name].sel(n=2000, **at).values[...] = 0.9  # a view of the array
    assert any(words.startswith(claim) for words in failing(made, data))


@slow
def test_the_panels_draw(made):
    assert made.shown()["mean |DA − FA|² by particle, n = 100"] > 0


def test_memory_is_told_beside_the_seconds_and_never_in_the_record(tmp_path, monkeypatch):
    monkeypatch.setenv(catalogue.EXTRA, str(Path(__file__).parents[1] / "toys"))
    monkeypatch.setenv(machine.NO_CACHE, "1")
    record = scheduler.run(catalogue.load("coin-mean")(), out=tmp_path, count=0)
    assert record.memory == record.summary()["memory"] == max(record.timing["memory"].values()) > 10
    assert "memory" not in json.loads((record.path / "record.json").read_text())
    assert f"the largest worker held {record.memory:,.0f} MB" in report.section(record).html


def test_a_part_is_not_blamed_for_the_memory_of_the_one_before():
    held = np.ones(60_000_000)  # 480 MB
    before = machine.peak_memory() or 0.0
    del held
    machine.forget_peak()
    forgotten = 300 if Path("/proc/self/clear_refs").exists() else -1  # MB; only Linux can forget
    assert 0 < (machine.peak_memory() or 0.0) < before - forgotten
