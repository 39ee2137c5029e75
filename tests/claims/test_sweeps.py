"""A sweep is every combination, resumes, reports, and does not depend on its engine."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from haarflow.cli import answer
from haarflow.errors import Refusal
from haarflow.runs import catalogue, cluster, ledger, machine, overview, sweeps
from haarflow.runs.source import source

TESTS = Path(__file__).parents[1]
COINS = """
experiment = "coin-mean"
mode = "full"
seeds = [3, 4]
[set]
coin = "bent"
[sweep]
repetitions = [5, 6]
sizes = [[10, 100], [20, 300]]
"""
SLOW = """
experiment = "slow-parts"
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
[set]
count = 1
[sweep]
wait = [0.2, 0.3, 0.4, 0.5]
"""


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Find the toy experiments, and keep this process free of the compilation cache."""
    monkeypatch.setenv(catalogue.EXTRA, str(TESTS / "toys"))
    monkeypatch.setenv(machine.NO_CACHE, "1")


@pytest.fixture
def written(tmp_path):
    """A function that writes a sweep file."""

    def write(text):
        path = tmp_path / "sweep.toml"
        path.write_text(text)
        return path

    return write


def records(out):
    """The bytes of every record below a folder."""
    names = ("record.json", "arrays.npz")
    return {path.relative_to(out): path.read_bytes() for name in names for path in out.glob(f"*/*/{name}")}


def test_a_sweep_is_every_combination_of_values_and_seeds(written, tmp_path):
    jobs = sweeps.jobs(written(COINS), tmp_path)
    assert len({job.home for job in jobs}) == len(jobs) == 2 * 2 * 2
    assert jobs[0].label == "coin-mean repetitions=5, sizes=[10, 100], seed=3"
    assert [job.seed for job in jobs] == [3, 4] * 4
    found = {(job.experiment.repetitions, job.experiment.sizes) for job in jobs}
    assert found == {(r, s) for r in (5, 6) for s in ((10, 100), (20, 300))}
    assert {job.experiment.coin for job in jobs} == {"bent"}


def test_the_file_in_the_docs_is_a_sweep(written, tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", (TESTS.parent / "docs" / "scale.md").read_text(), re.S)
    jobs = sweeps.jobs(written(text), tmp_path)
    assert len(jobs) == 3 * 2 * 3
    assert {job.experiment.repetitions for job in jobs} == {1000}


def test_a_sweep_leaves_ordinary_records_and_a_report_and_resumes(written, tmp_path, capsys):
    few = COINS.replace("[3, 4]", "[3]").replace(", [20, 300]", "")
    words = ["sweep", str(written(few)), "--workers", "0", "--out", str(tmp_path / "out")]
    assert answer(words) in (0, 1)
    assert "coin-mean repetitions=6, sizes=[10, 100], seed=3: " in capsys.readouterr().err
    first = records(tmp_path / "out")
    assert len(first) == 4
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(path.parent.name in page for path in first)
    lost = min(path.parent for path in first)
    for file in (tmp_path / "out" / lost).glob("*.*"):
        file.unlink()
    assert answer([*words, "--json"]) in (0, 1)
    said = capsys.readouterr()
    assert said.err.count("already recorded") == 1
    assert len(json.loads(said.out)) == 2
    assert records(tmp_path / "out") == first
    alone = ["run", "coin-mean", "--full", "--set", "repetitions=5", "--set", "sizes=[10, 100]", "--set", "coin=bent"]
    assert answer([*alone, "--seed", "3", "--workers", "0", "--out", str(tmp_path / "alone")]) in (0, 1)
    assert records(tmp_path / "alone").items() <= first.items()


def test_the_report_of_a_sweep_labels_sorts_and_draws_by_what_was_swept(written, tmp_path):
    text = 'experiment = "coin-mean"\n[set]\nsizes = [10, 100]\n'
    text += "[sweep]\nscale = [30.0, 1.0]\nrepetitions = [20, 5]\n"
    assert answer(["sweep", str(written(text)), "--workers", "0", "--out", str(tmp_path / "out")]) in (0, 1)
    page = (tmp_path / "out" / "report.html").read_text()
    titles = re.findall(r'<details class="run"><summary>(.*?) <span', page)
    assert titles == [f"repetitions = {r}, scale = {s}" for r in (5, 20) for s in (1, 30)]
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["Coin mean: 4 runs"]
    assert (
        "<b>The numbers over repetitions.</b> Each number of the records over repetitions, a line for each scale"
        in page
    )
    assert page.count("the errors are below 10</td>") + page.count("the errors are below 10<span") == 1 + 4  # all, each
    assert "1 experiment in 4 runs" in page
    assert len(set(re.findall(r'id="(coin-mean-[^"]+)"', page))) == 5
    assert set(re.findall(r'href="#(coin-mean-[^"]+)"', page)) == {"coin-mean-all"}


def record(config, figures, seed=0, **verdicts):
    """A record as the overview sees it."""
    facts = {"config": config, "seed": seed, "version": 1, "numbers": figures, "verdicts": verdicts or {"holds": True}}
    return ledger.Record(Path(), facts, {})


def test_what_tells_records_apart_is_no_more_than_needed():
    grid = [
        record({"n": n, "dt": 1 / n, "how": how, "same": 1}, {}, seed)
        for n in (9, 80)
        for how in "ab"
        for seed in (0, 1)
    ]
    assert overview.varied(grid) == ["n", "how", "seed"]
    assert overview.label(grid[-1], ["n", "how", "seed"]) == "n = 80, how = b, seed = 1"
    assert sorted([*grid[4:], *grid[:4]], key=lambda one: overview.order(one, ["n", "how", "seed"])) == grid
    assert overview.varied([record({"a": {"b": 1}}, {}), record({"a": {"b": 2}}, {})]) == ["a.b"]
    assert overview.varied([record({"a": 1}, {}), record({"a": 1}, {})]) == []


@pytest.mark.parametrize(
    ("records", "across", "lines"),
    [
        ([record({"n": n}, {"x": n / 2, "y": None}) for n in (3, 1, 2)], "n", {"": [(1, 0.5), (2, 1), (3, 1.5)]}),
        ([record({"how": how}, {"x": 1.0}) for how in ("none", "fault")], "how", {"": [(0, 1), (1, 1)]}),
        ([record({}, {"x": float(seed)}, seed) for seed in (4, 2)], "seed", {"": [(0, 2), (1, 4)]}),
        (
            [record({"n": n, "how": how}, {"x": n + seed}, seed) for n in (1, 2) for how in "ab" for seed in (0, 1)],
            "n",
            {"how = a": [(1, 1.5), (2, 2.5)], "how = b": [(1, 1.5), (2, 2.5)]},
        ),
        ([record({"n": [n, 5]}, {"x": 1.0, "odd $a_b": 2.0}) for n in (2, 1)], "n", {"": [(0, 1), (1, 1)]}),
    ],
    ids=["numbers", "words", "seeds", "lines", "lists"],
)
def test_numbers_are_drawn_along_the_swept_setting(records, across, lines):
    from matplotlib.figure import Figure

    panel, figure = overview.panel(records), Figure(layout="constrained")
    panel.draw(figure)
    assert panel.title == f"The numbers over {across}"
    shown = {axis.get_title(): axis for axis in figure.axes if axis.get_visible()}
    assert set(shown) >= {"claims that hold", "x"}
    assert "y" not in shown
    drawn = [line for line in shown["x"].lines if line.get_marker() != "."]
    named = {re.sub(r"^_child\d+$", "", line.get_label()): line.get_xydata() for line in drawn}
    assert {name: [tuple(point) for point in points] for name, points in named.items()} == lines
    figure.draw_without_rendering()


@pytest.mark.parametrize(("hard", "code"), [pytest.param(4096, 1, marks=pytest.mark.slow), (100, 2)])
@pytest.mark.slow
def test_a_sweep_may_have_more_runs_than_files_are_open_at_once(written, tmp_path, hard, code):
    seeds = list(range(50))
    file = written(f'experiment = "broken"\nseeds = {seeds}')
    limit = f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, {hard}))"
    words = ["sweep", str(file), "--workers", "0", "--json", "--out", str(tmp_path / "out")]
    script = f"{limit}; from haarflow.cli import answer; sys.exit(answer({words}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert len(json.loads(done.stdout or "[]")) == (50 if code == 1 else 0)
    if code == 2:
        assert "this system allows 100 at once and 306 are needed. Write several smaller sweeps." in done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seeds = [1]", r"A sweep file names its experiment; got None in .* Write for example experiment = "),
        ('experiment = "coin-men"', "There is no experiment 'coin-men'; did you mean 'coin-mean'?"),
        ('experiment = "coin-mean"\nsweeps = 1', "A sweep file has no word 'sweeps'; did you mean 'sweep'?"),
        (
            'experiment = "coin-mean"\nseeds = 3',
            r"The seeds of a sweep are a list of whole numbers >= 0; got 3\. Write",
        ),
        ('experiment = "coin-mean"\nseeds = [-1]', r"list of whole numbers >= 0; got \[-1\]"),
        (
            'experiment = "coin-mean"\n[sweep]\nscale = 2.0',
            r"a list of values; got scale = 2\.0\. Write scale = \[2\.0\]",
        ),
        (
            'experiment = "coin-mean"\n[sweep]\nscale = [1.0, -1.0]',
            "coin-mean, setting 'scale': input should be greater",
        ),
        (
            'experiment = "coin-mean"\n[sweep]\nscales = [1.0]',
            "coin-mean has no setting 'scales'; did you mean 'scale'",
        ),
        ("experiment = ", "sweep reads a TOML file; .* is not one"),
    ],
)
def test_a_sweep_file_that_cannot_be_run_is_refused_in_a_sentence(written, tmp_path, text, sentence):
    with pytest.raises(Refusal, match=sentence):
        sweeps.jobs(written(text), tmp_path)


def test_engines_are_refused_in_a_sentence(written, tmp_path, monkeypatch, capsys):
    words = ["sweep", str(written(COINS)), "--out", str(tmp_path)]
    assert answer([*words, "--engine", "spark"]) == 2
    assert "--engine is one of dask, local; got 'spark'." in capsys.readouterr().err
    assert answer([*words, "--scheduler", "tcp://nowhere:1"]) == 2
    assert "--scheduler is for the engine dask; got --engine local. Write --engine dask." in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert answer([*words, "--engine", "dask"]) == 2
    assert "not installed. Write pip install 'haarflow[cluster]'" in capsys.readouterr().err


def test_what_comes_back_from_afar_is_kept_or_becomes_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_ready", lambda: None)
    back = cluster.far_part("slow-parts", '{"count": 1, "wait": 0.0}', 0, "part number=0")
    cluster._keep(back, "slow-parts", "part number=0", tmp_path)
    code = source(catalogue.load("slow-parts")).computes
    assert isinstance(ledger.read_part(tmp_path, "part number=0", machine.versions(), code), tuple)
    assert "code has changed" in ledger.read_part(tmp_path, "part number=0", machine.versions(), "other")
    with pytest.raises(
        Refusal, match=r"experiment's file of the machine that asks; that of slow-parts is another there"
    ):
        cluster._keep(
            {**back, "measured": {**back["measured"], "code": "other"}}, "slow-parts", "part number=0", tmp_path
        )
    back["measured"]["versions"] = {**machine.versions(), "jax": "0.0"}
    with pytest.raises(Refusal, match=r"got jax 0\.0 there and .* here\. Install the same on all"):
        cluster._keep(back, "slow-parts", "part number=0", tmp_path)
    with pytest.raises(
        cluster.workers.Stopped, match="stopped in 'run' with ZeroDivisionError: the denominator vanished"
    ):
        cluster._keep(cluster.far_part("broken", '{"how": "raise"}', 0, "run"), "broken", "run", tmp_path)
    assert "ZeroDivisionError" in (tmp_path / "failure.txt").read_text()
    with pytest.raises(Refusal, match="broken: A Cloud is not a flock"):
        cluster._keep(cluster.far_part("broken", '{"how": "refuse"}', 0, "run"), "broken", "run", tmp_path)


def ran(*words):
    command = [sys.executable, "-m", "haarflow", "sweep", *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


@contextlib.contextmanager
def two_workers():
    """A real local cluster: its address and the process ids of its workers."""
    command = [sys.executable, str(TESTS / "scripts" / "local_cluster.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address, *pids = process.stdout.readline().split()
        yield address, [int(pid) for pid in pids]
        process.communicate("")


@pytest.mark.slow
def test_forty_tasks_on_dask_are_those_of_the_local_engine_though_a_worker_is_killed(written, tmp_path):
    file = written(SLOW)
    local = ran(file, "--out", tmp_path / "local")
    assert local.communicate()[1] is not None
    assert local.returncode == 0
    with two_workers() as (address, pids):
        far = ran(file, "--engine", "dask", "--scheduler", address, "--out", tmp_path / "far")
        assert far.stderr is not None
        done = 0
        while done < 5:
            done += "done" in far.stderr.readline()
        time.sleep(0.1)
        os.kill(pids[0], signal.SIGKILL)
        errors = far.communicate(timeout=300)[1]
    assert far.returncode == 0, errors
    assert records(tmp_path / "far") == records(tmp_path / "local")
    assert len(records(tmp_path / "local")) == 80


@pytest.mark.slow
def test_dask_makes_a_cluster_of_its_own(written, tmp_path):
    done = ran(
        written(SLOW.replace("0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "0")), "--engine", "dask", "--out", tmp_path / "far"
    )
    errors = done.communicate()[1]
    assert done.returncode == 0, errors
    assert len(records(tmp_path / "far")) == 8
    lost = ran(written(SLOW), "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", "--out", tmp_path / "lost")
    assert "does not answer. Start one with `dask scheduler`" in lost.communicate()[1]
    assert lost.returncode == 2
