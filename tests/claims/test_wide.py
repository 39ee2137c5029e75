"""The wide cloud at a small width: its claims, planted faults, and memory among the timings only."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from haarflow.experiments.wide import Wide
from haarflow.runs import catalogue, machine, report, scheduler, style

SMALL = Wide(particles=2000, smaller=(100,), steps=20, inputs=50, mmd_up_to=100)


@pytest.fixture(scope="module")
def data():
    return SMALL.gather({part: SMALL.run(jax.random.key(0), part) for part in SMALL.parts()})


def failing(data):
    return [claim for claim, check in SMALL.verdict(data).items() if not check.holds]


def test_the_claims_hold_but_for_the_certified_distance_of_a_small_cloud(data):
    assert [claim[:20] for claim in failing(data)] in ([], ["DA: RMD² to weak inv"])
    low, high = data["N=2000/DA/wi"]
    assert 0 < low <= high < 0.1
    assert "N=100/DA/mmd2" in data
    assert "N=2000/DA/mmd2" not in data
    assert data["N=100/coupled"].shape == (16,)
    assert data["N=2000/EA/shown"].shape == (2000, 4)


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("N=2000/DA/asymmetry", "DA: N |f − Qf|²"),
        ("N=2000/FA/asymmetry", "FA: N |f − Qf|²"),
        ("N=2000/coupled", "N |DA − FA|²"),
        ("N=2000/EA/si", "EA stays"),
        ("N=2000/EA/asymmetry", "EA is equivariant"),
        ("N=2000/DA/wi", "DA: RMD² to weak"),
    ],
)
def test_each_claim_sees_its_planted_fault(data, name, claim):
    spoilt = data | {name: np.full_like(data[name], 0.9)}
    assert any(words.startswith(claim) for words in failing(spoilt))


def test_the_panels_draw(data):
    assert all(style.render(panel, "salt").startswith("<svg") for panel in SMALL.panels(data))


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
