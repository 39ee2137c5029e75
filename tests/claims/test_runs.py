"""Runs leave records; records are never made twice; the report is a function of them."""

import itertools
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from haarflow.cli import answer
from haarflow.errors import Refusal
from haarflow.runs import catalogue, config, ledger, machine, report, scheduler, statistics, style

TOYS = Path(__file__).parents[1] / "toys"


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Find the toy experiments, and keep this process free of the compilation cache."""
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    monkeypatch.setenv(machine.NO_CACHE, "1")


def coins(**settings):
    return catalogue.load("coin-mean")(**settings)


def command(*words):
    """A command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "haarflow", *words], capture_output=True, text=True, check=False)


def contents(home: Path):
    """The bytes that must not differ between runs."""
    return {name: (home / name).read_bytes() for name in ("record.json", "arrays.npz")}


def test_a_run_in_json_is_one_object_with_the_promised_keys(tmp_path, capsys):
    words = ["run", "coin-mean", "--json", "--workers", "0", "--out", str(tmp_path), "--seed", "3"]
    assert answer(words) == 0
    said = json.loads(capsys.readouterr().out)
    keys = {"experiment", "claim", "source", "config", "seed", "verdicts", "evidence", "numbers"}
    assert set(said) == keys | {"seconds", "memory", "record", "report"}
    assert said["seed"] == 3
    (known,) = said["evidence"].values()
    assert known == {"value": said["numbers"]["slope, the error"], "wanted": "between -0.8 and -0.2"}
    assert said["experiment"] == "coin-mean"
    assert said["claim"] == "The mean of n coins errs like `n^-1/2`."
    assert said["source"] == "Bernoulli, Ars Conjectandi, 1713."
    assert said["config"]["sizes"] == [10, 100, 1000]
    assert all(holds is True for holds in said["verdicts"].values())
    assert set(said["seconds"]) == {"compile", "run"}
    assert (Path(said["record"]) / "record.json").is_file()


def test_workers_and_this_process_make_the_same_bytes(tmp_path):
    here = scheduler.run(coins(), out=tmp_path / "here", count=0)
    there = command("run", "coin-mean", "--json", "--workers", "1", "--out", str(tmp_path / "there"))
    assert there.returncode == 0, there.stderr
    assert contents(here.path) == contents(Path(json.loads(there.stdout)["record"]))
    assert "coin-mean: flip n=10 done" in there.stderr


def test_a_record_tells_its_config_precision_versions_and_seed(tmp_path):
    record = scheduler.run(coins(repetitions=5), seed=7, out=tmp_path, count=0)
    assert record.config["repetitions"] == 5
    assert record.seed == 7
    assert record.precision == "float64"
    assert record.arrays()["error"].dtype == np.float64
    assert {"haarflow", "jax", "numpy", "python"} <= set(record.versions)
    assert record.path == tmp_path / "coin-mean" / record.digest
    assert "machine" in record.timing
    assert "machine" not in record.facts


def test_a_finished_record_is_never_recomputed(tmp_path, monkeypatch):
    first = scheduler.run(coins(), out=tmp_path, count=0)
    monkeypatch.setattr(type(coins()), "flip", lambda *_, **__: pytest.fail("ran again"))
    assert scheduler.run(coins(), out=tmp_path, count=0).facts == first.facts


def test_a_finished_part_is_not_run_again(tmp_path, monkeypatch):
    job = scheduler.job(coins(), 0, tmp_path)
    whole = scheduler.run(coins(), out=tmp_path / "whole", count=0)
    kind, ran = type(coins()), []
    usual = kind.flip

    def flip(self, key, n):
        ran.append(n)
        if n == 1000 and ran.count(n) == 1:
            raise ZeroDivisionError
        return usual(self, key, n)

    monkeypatch.setattr(kind, "flip", flip)
    assert scheduler.schedule([job], count=0)[0].record is None
    record = scheduler.run(coins(), out=tmp_path, count=0)
    assert ran == [10, 100, 1000, 1000]
    assert contents(record.path) == contents(whole.path)
    assert not (record.path / "parts").exists()


def test_the_digest_sees_the_config_the_seed_and_the_version_only():
    kind = catalogue.load("coin-mean")
    facts = kind.name, coins().model_dump(mode="json"), 0, 1
    changed = [
        ("other", *facts[1:]),
        (facts[0], coins(scale=2.0).model_dump(mode="json"), 0, 1),
        (*facts[:2], 1, 1),
        (*facts[:3], 2),
    ]
    assert len({ledger.digest(*asked) for asked in [facts, *changed]}) == 5
    backwards = dict(reversed(facts[1].items()))
    assert ledger.digest(facts[0], backwards, 0, 1) == ledger.digest(*facts)


def test_packed_arrays_are_the_same_bytes_whatever_the_order_and_time():
    arrays = {"b/c": np.arange(3), "a": np.eye(2)}
    first = ledger.pack(arrays)
    assert first == ledger.pack(dict(reversed(arrays.items())))
    assert all((ledger.unpack(first)[name] == array).all() for name, array in arrays.items())


@pytest.mark.slow
def test_two_processes_on_one_record_leave_one_good_record(tmp_path):
    words = [sys.executable, "-m", "haarflow", "run", "slow-parts", "--json", "--workers", "1"]
    words += ["--set", "count=3", "--out", str(tmp_path)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert len({json.loads(out)["record"] for out, _ in said}) == 1
    assert "waiting for it" in said[0][1] + said[1][1]
    assert sum("begins" in errors for _, errors in said) == 1


def test_a_process_forgets_its_programs_when_they_fill_it(monkeypatch):
    double = jax.jit(lambda x: 2 * x)
    double(np.ones(3))
    assert not machine.forget_programs()
    assert double._cache_size() == 1
    monkeypatch.setattr(machine, "mappings", lambda: machine.MAPPED + 1)
    assert machine.forget_programs()
    assert double._cache_size() == 0
    assert double(np.ones(3)).sum() == 6


def test_a_worker_forgets_between_parts(tmp_path, monkeypatch):
    forgotten = []
    monkeypatch.setattr(machine, "forget_programs", lambda: forgotten.append(True))
    scheduler.run(coins(), out=tmp_path, count=0)
    assert len(forgotten) == 3  # sizes


def test_compile_and_run_seconds_are_told_apart():
    import jax
    import jax.numpy as jnp

    with machine.Stopwatch() as watch:
        jax.jit(lambda x: jnp.sin(jnp.sort(x)))(jnp.arange(7.0)).block_until_ready()
        time.sleep(0.3)
    assert watch.seconds["compile"] > 0.005
    assert watch.seconds["run"] >= 0.3
    assert sum(watch.seconds.values()) == pytest.approx(watch.stop - watch.start, abs=1e-3)


def test_compiling_inside_compiling_is_counted_once():
    from jax.monitoring import record_event_duration_secs

    with machine.Stopwatch() as watch:
        time.sleep(0.3)
        record_event_duration_secs("/jax/core/compile/inner", 0.1)
        record_event_duration_secs("/jax/core/compile/outer", 0.25)
        record_event_duration_secs("/jax/somewhere/else", 0.2)
    assert watch.seconds["compile"] == pytest.approx(0.25, abs=0.01)


def test_settings_are_toml_values_or_else_strings():
    assert config.parse("sizes=[5, 50]") == {"sizes": [5, 50]}
    assert config.parse("coin=bent") == {"coin": "bent"}
    assert config.parse("scale=1e-3") == {"scale": 1e-3}
    assert config.parse("table.key=word") == {"table": {"key": "word"}}


def test_a_mode_a_file_and_settings_change_the_config_in_that_order(tmp_path):
    file = tmp_path / "coins.toml"
    file.write_text("scale = 3.0\nrepetitions = 7\n")
    made = config.configure(catalogue.load("coin-mean"), mode="full", file=file, settings=["repetitions=8"])
    assert made == coins(scale=3.0, repetitions=8)


@pytest.mark.parametrize(
    "settings",
    [{}, {"repetitions": 40}, {"repetitions": 41, "coin": "bent 'one'", "sizes": (5, 50)}],
    ids=["quick", "full", "own"],
)
def test_the_command_of_a_record_makes_that_record(settings):
    import shlex

    words = shlex.split(config.command_of(coins(**settings), 5))
    assert words[:3] == ["haarflow", "run", "coin-mean"]
    chosen = [word for flag, word in itertools.pairwise(words) if flag == "--set"]
    mode = next(word.removeprefix("--") for word in words if word in ("--quick", "--full", "--tour"))
    assert config.configure(catalogue.load("coin-mean"), mode=mode, settings=chosen) == coins(**settings)
    assert words[-2:] == ["--seed", "5"]


def test_reproduce_writes_a_report_and_fails_when_a_verdict_does(tmp_path, capsys):
    words = ["--workers", "0", "--out", str(tmp_path)]
    assert answer(["reproduce", "--quick", "--only", "toys/coin*", *words]) == 0
    assert "Report:" in capsys.readouterr().out
    assert answer(["reproduce", "--quick", "--only", "toys/*n*", *words]) == 1  # coin-mean and broken
    page = (tmp_path / "report.html").read_text()
    assert "measured" in page
    assert "pigs fly" in page
    assert "<svg" in page


def test_a_failed_verdict_is_explained_by_its_number(tmp_path):
    record = scheduler.run(catalogue.load("broken")(how="false"), out=tmp_path, count=0)
    assert record.verdicts == {"x stays below 0.5": False, "pigs fly": False}
    assert record.numbers == {"first": 1.0, "second": None}
    section = report.section(record)
    assert "see the numbers: first = 1, second = not finite" in section.html
    assert "could not be drawn" in section.complaints[0]


def test_the_report_is_a_function_of_the_records(tmp_path):
    scheduler.run(coins(), out=tmp_path, count=0)
    path, complaints = report.report(tmp_path)
    first = path.read_bytes()
    assert complaints == []
    assert report.report(tmp_path)[0].read_bytes() == first


def test_the_report_needs_nothing_else(tmp_path):
    scheduler.run(coins(), out=tmp_path, count=0)
    page = report.report(tmp_path)[0].read_text()
    outside = [link for link in re.findall(r'(?:src|href)="([^"]*)"', page) if not link.startswith(("#", "data:"))]
    assert outside == []
    assert "@import" not in page
    assert set(re.findall(r"https?://[^\s\"'<>]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "haarflow run coin-mean --quick --seed 0" in page
    assert "Bernoulli" in page


def test_figures_take_their_colours_from_the_page_and_have_ids_of_their_own(tmp_path):
    record = scheduler.run(coins(), out=tmp_path, count=0)
    panel = coins().panels(record.arrays())[0]
    first, second = style.render(panel, "one"), style.render(panel, "two")
    assert first == style.render(panel, "one")
    assert not set(re.findall(r'id="([^"]+)"', first)) & set(re.findall(r'id="([^"]+)"', second))
    assert "var(--DA)" in first
    assert "var(--ink)" in first
    assert not re.findall(r"#[0-9a-f]{6}\b", first)
    assert "<metadata>" not in first


def test_slopes_of_power_laws_are_exact_and_bands_hold_them():
    sizes = np.array([10, 30, 100, 300])
    assert statistics.slope(sizes, 3.0 * sizes**-1.5).value == pytest.approx(-1.5, abs=1e-12)
    noisy = 3.0 * sizes**-1.5 * np.exp(0.3 * np.random.default_rng(1).normal(size=(40, 4)))
    fitted = statistics.slope(sizes, noisy)
    assert fitted.low < -1.5 < fitted.high
    assert fitted.low < fitted.value < fitted.high
    assert 0.02 < fitted.high - fitted.low < 0.3
    assert fitted == statistics.slope(sizes, noisy)
    assert fitted(sizes)[0] == pytest.approx(np.median(noisy, axis=0)[0], rel=0.3)


def test_slopes_refuse_what_has_no_logarithm():
    with pytest.raises(Refusal, match="positive finite"):
        statistics.slope([1, 2], [[1.0, 0.0]])
    with pytest.raises(Refusal, match="at least two different"):
        statistics.slope([1, 2], [[1.0, 1.0, 1.0]])


def test_show_prints_a_record_from_its_folder_or_its_file(tmp_path, capsys):
    record = scheduler.run(coins(), out=tmp_path, count=0)
    for path in (record.path, record.path / "record.json"):
        assert answer(["show", str(path)]) == 0
        assert "Bernoulli" in capsys.readouterr().out


def test_parts_tell_how_far_they_are(tmp_path):
    from haarflow.runs.watchers import Silent

    class Ears(Silent):
        heard: tuple = ()

        def moved(self, name, part, fraction, text):
            self.heard += ((name, part, fraction, text),)

    ears = Ears()
    scheduler.schedule([scheduler.job(coins(), 0, tmp_path)], count=0, watch=ears)
    assert ("coin-mean", "flip n=10", 0.5, "flipped") in ears.heard
