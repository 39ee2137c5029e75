"""Bad input gets one sentence and exit code 2; a run that cannot finish gets its sentence and exit code 3."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from haarflow.cli import answer
from haarflow.errors import Refusal
from haarflow.runs import catalogue, ledger, machine, scheduler
from haarflow.runs.source import source

TOYS = Path(__file__).parents[1] / "toys"


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Find the toy experiments, and keep this process free of the compilation cache."""
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    monkeypatch.setenv(machine.NO_CACHE, "1")


@pytest.fixture
def refused(capsys):
    """Give a command that must be refused; what it says."""

    def ask(*words, code=2):
        assert answer([str(word) for word in words]) == code
        said = capsys.readouterr()
        assert said.out == ""
        sentence = said.err.strip().splitlines()[-1]
        assert "Traceback" not in said.err
        return sentence

    return ask


@pytest.fixture
def record(tmp_path):
    """A finished record."""
    return scheduler.run(catalogue.load("coin-mean")(), out=tmp_path, count=0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "coin-maen"], "There is no experiment 'coin-maen'; did you mean 'coin-mean'?"),
        (
            ["run", "coin-mean", "--set", "repetitons=3"],
            "no setting 'repetitons'; did you mean 'repetitions'?",
        ),
        (["run", "coin-mean", "--set", "zebra=3"], "no setting 'zebra'; the choices are sizes, repetitions"),
        (["run", "coin-mean", "--set", "repetitions=many"], 'should be a valid integer; got "many".'),
        (["run", "coin-mean", "--set", "repetitions=true"], "should be a valid integer; got true."),
        (["run", "coin-mean", "--set", "repetitions=2.5"], "should be a valid integer; got 2.5."),
        (["run", "coin-mean", "--set", "repetitions='7'"], 'should be a valid integer; got "7".'),
        (["run", "coin-mean", "--set", "repetitions=-1"], "should be greater than or equal to 1; got -1."),
        (["run", "coin-mean", "--set", "scale=-0.1"], "'scale': input should be greater than 0; got -0.1."),
        (["run", "coin-mean", "--set", "scale=nan"], "'scale': input should be a finite number; got NaN."),
        (
            ["run", "coin-mean", "--set", "scale=inf"],
            "'scale': input should be a finite number; got Infinity.",
        ),
        (
            ["run", "coin-mean", "--set", "temperature=-1.0"],
            "should be greater than or equal to 0; got -1.0.",
        ),
        (
            ["run", "coin-mean", "--set", "sizes=[10, 0]"],
            "'sizes.1': input should be greater than or equal to 1",
        ),
        (["run", "coin-mean", "--set", "scale"], "--set takes key=value; got 'scale'."),
        (["run", "coin-mean", "--quick", "--full"], "A run has one size; got --quick and --full."),
        (["reproduce", "--tour", "--full"], "A run has one size; got --tour and --full."),
        (["reproduce", "--only", "nothing*"], "'nothing*' matches none of"),
        (["run", "coin-mean", "--seed", "-1"], "--seed"),
        (["run", "coin-mean", "--seed", "x"], "--seed"),
        (["run", "coin-mean", "--workers", "-1"], "--workers"),
        (["run", "coin-mean", "--config", "/nowhere.toml"], "/nowhere.toml cannot be read (no such file"),
        (["run"], "Missing argument 'name'."),
        (["fly"], "No such command 'fly'."),
        (["run", "coin-mean", "--fast"], "No such option: --fast"),
        (["show", "/nowhere"], "A record is a folder with a record.json; /nowhere has none."),
        (["report", "/nowhere"], "/nowhere is not a folder."),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
def test_each_gets_its_sentence(refused, words, sentence):
    assert sentence in refused(*words)


def test_a_config_file_that_is_not_toml(refused, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("scale: 3")
    assert "is not one:" in refused("run", "coin-mean", "--config", file)


def test_a_config_file_with_an_unknown_key(refused, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("scales = 3.0")
    assert "did you mean 'scale'?" in refused("run", "coin-mean", "--config", file)


def test_a_report_on_an_empty_folder(refused, tmp_path):
    assert "there is none in" in refused("report", tmp_path)


def test_an_output_folder_that_is_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    sentence = refused("run", "coin-mean", "--workers", "0", "--out", tmp_path / "file")
    assert "cannot be written (not a directory). Choose another folder with --out." in sentence


def test_an_output_folder_without_permission(refused, tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", denied)
    sentence = refused("run", "coin-mean", "--workers", "0", "--out", tmp_path / "denied")
    assert "cannot be written (permission denied). Choose another folder with --out." in sentence


def test_a_disk_that_fills_up(refused, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    words = "run", "coin-mean", "--workers", "0", "--out", tmp_path
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "the disk is full or a quota is reached. Free some space" in refused(*words)
    assert not list(tmp_path.rglob("*.part"))
    assert not [path for path in tmp_path.rglob(".*") if path.name != ".lock"]
    assert answer([str(word) for word in words]) == 0


def test_a_limit_on_file_size_is_met_in_a_worker(tmp_path):
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))"
    words = ["run", "coin-mean", "--workers", "1", "--out", str(tmp_path)]
    script = f"{limit}; from haarflow.cli import answer; sys.exit(answer({words}))"
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # or Python would keep truncated bytecode
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "the disk is full or a quota is reached" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("file", ["record.json", "arrays.npz"])
@pytest.mark.parametrize("fault", ["truncated", "changed", "empty"])
def test_a_damaged_record_is_refused_with_what_to_delete(refused, record, file, fault):
    path = record.path / file
    content = path.read_bytes()
    flipped = content[:200] + bytes([content[200] ^ 1]) + content[201:]
    path.write_bytes({"truncated": content[: len(content) // 2], "changed": flipped, "empty": b""}[fault])
    out = record.path.parents[1]
    for words in (["run", "coin-mean", "--workers", "0", "--out", out], ["report", out]):
        sentence = refused(*words)
        assert "A finished record is never recomputed, but that of" in sentence
        assert sentence.endswith(f"Delete {record.path} and run it again.")
        assert file in sentence


def test_a_record_whose_arrays_are_gone(refused, record):
    (record.path / "arrays.npz").unlink()
    assert "arrays.npz is missing" in refused("report", record.path.parents[1])


@pytest.mark.parametrize("fault", ["truncated", "changed", "swapped", "versions", "code"])
def test_a_damaged_part_is_run_again_and_says_so(tmp_path, capsys, record, fault):
    experiment, out = catalogue.load("coin-mean")(), tmp_path / "again"
    job = scheduler.job(experiment, 0, out)
    errors = np.asarray(record.arrays()["error"].sel(n=10))
    versions = {**machine.versions(), **({"jax": "0.0"} if fault == "versions" else {})}
    facts = {"versions": versions, "code": "other" if fault == "code" else source(type(experiment)).computes}
    axes = {"error": {"dims": ["run"], "coords": {}}}
    measured = {"seconds": {"compile": 0, "run": 0}, "axes": axes, **facts}
    ledger.write_part(job.home, "flip n=10", {"error": errors}, **measured)
    path = ledger.part_path(job.home, "flip n=10")
    content = path.read_bytes()
    if fault == "truncated":
        path.write_bytes(content[:-40])
    if fault == "changed":
        path.write_bytes(content[:-150] + b"x" + content[-149:])
    if fault == "swapped":
        path.write_bytes(content.partition(b"\n")[0] + b"\n" + ledger.pack({"error": errors + 1.0}))
    assert answer(["run", "coin-mean", "--workers", "0", "--out", str(out)]) == 0
    reason = "the experiment's code has changed" if fault == "code" else "it"
    assert f"the part 'flip n=10' runs again, because {reason}" in capsys.readouterr().err
    for name in ("record.json", "arrays.npz"):
        assert (job.home / name).read_bytes() == (record.path / name).read_bytes()


def test_an_experiment_that_refuses_its_input(refused, tmp_path):
    sentence = refused("run", "broken", "--set", "how=refuse", "--workers", "0", "--out", tmp_path)
    assert sentence == "broken: A Cloud is not a flock; got geese. Write `uniform(atoms)`."


def test_an_experiment_that_raises_keeps_its_traceback_in_a_file(refused, tmp_path):
    words = "run", "broken", "--set", "how=raise", "--workers", "1", "--out", tmp_path
    sentence = refused(*words, code=3)
    assert "stopped in 'run' with ZeroDivisionError: the denominator vanished." in sentence
    (path,) = tmp_path.rglob("failure.txt")
    assert str(path) in sentence
    assert "ZeroDivisionError" in path.read_text()


def test_a_worker_that_dies(refused, tmp_path):
    sentence = refused("run", "broken", "--set", "how=die", "--workers", "1", "--out", tmp_path, code=3)
    assert sentence.startswith("A worker process died while running broken (run): killed from outside, or out")
    assert sentence.endswith("give the same command again, with --workers 1 if memory is short.")


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("object", "A record holds arrays of numbers; 'x' is ndarray."),
        ("nameless", "The axes of an array have names; 'x' of 'run' has the shape (2,), and no names. Write named(x, "),
        ("array", "holds judges what is true or false; 'a verdict for each' is an array of shape (2,)"),
        ("nothing", "claims(data) judges at least one claim; it gave none."),
    ],
)
def test_an_experiment_that_gives_the_wrong_thing(refused, tmp_path, how, sentence):
    assert sentence in refused("run", "broken", "--set", f"how={how}", "--workers", "0", "--out", tmp_path)


def test_one_experiment_that_stops_does_not_stop_the_others(tmp_path, capsys, monkeypatch):
    kind = catalogue.load("broken")
    monkeypatch.setattr(kind, "quick", classmethod(lambda cls: cls(how="raise")))
    words = ["reproduce", "--quick", "--only", "toys/*n*", "--workers", "0", "--out", str(tmp_path)]
    assert answer(words) == 3
    said = capsys.readouterr()
    assert "ZeroDivisionError" in said.err
    page = (tmp_path / "report.html").read_text()
    assert "ZeroDivisionError" in page
    assert "coin-mean" in page


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("class Half(Experiment", "cannot be read"),
        ("import nothing_of_the_kind\nclass Half(Experiment): ...", "imported"),
    ],
    ids=["syntax", "import"],
)
def test_an_experiment_file_that_cannot_be_used(refused, tmp_path, monkeypatch, text, sentence):
    (tmp_path / "half.py").write_text(text)
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    assert sentence in refused("run", "half")


def test_two_experiments_of_one_name(refused, tmp_path, monkeypatch):
    (tmp_path / "coin_mean.py").write_text((TOYS / "coin_mean.py").read_text())
    monkeypatch.setenv(catalogue.EXTRA, os.pathsep.join([str(TOYS), str(tmp_path)]))
    assert "got coin-mean twice" in refused("list")


def test_the_json_of_a_failing_run_is_clean(tmp_path, capsys):
    words = ["run", "broken", "--json", "--workers", "0", "--out", str(tmp_path)]
    assert answer(words) == 1
    assert json.loads(capsys.readouterr().out)["verdicts"] == {"x stays below 0.5": False, "pigs fly": False}


ODD = '''
from haarflow.runs.experiment import Count, Experiment, blocks, holds, named, once, over

class Odd(Experiment):
    """Odd."""

    {}

    def run(self, key):
        return {{"x": 1.0}}

    def claims(self, data):
        yield holds("it is", True)

    {}
'''
CELLS = "lambda self, key, n: {'x': named(__import__('numpy').ones(n), 'place')}"


@pytest.mark.parametrize(
    ("setting", "method", "sentence"),
    [
        ("n: Count = 0", "", "odd, setting 'n': input should be greater than or equal to 1; got 0."),
        ("n: int", "", "odd, setting 'n': it has no default and must be given. Write `--set n=...`."),
        ("", "def design(self): return []", "design() of odd yields a method and its cells, at least once; it gave"),
        (
            "",
            "def design(self): yield self.run, over(n=(1, 1))",
            "The cells of odd are different; got 'run n=1' twice.",
        ),
        ("", "def design(self): yield self.run", "yields a method and its cells; got the function run. Write yield"),
        (
            "",
            "def design(self): raise KeyError('no')",
            "The design of odd yields methods and their cells; it raised Key",
        ),
        ("", "def design(self): return 3", "it raised TypeError: 'int' object is not iterable."),
        ("", "def design(self): yield self.run, once(); yield self.run, once()", "got 'run' twice."),
        (
            "",
            "def run(self, key): return None",
            "odd: A part gives a dictionary of arrays by name; for 'run' it gave N",
        ),
        (
            "",
            "def run(self, key): return {1: 2}",
            "gives a dictionary of arrays by name; for 'run' it gave a dict of 1.",
        ),
        (
            "",
            "def run(self, key): return {'x': named([1], 'a', 'b')}",
            "A named array has a name for each axis; got the",
        ),
        ("", "def run(self, key): return {'x': named([1], 'a', a=(1, 2))}", "The labels of 'a' are different, one for"),
        (
            f"go = {CELLS}",
            "def design(self): yield self.go, over(n=(1, 2))",
            "'x' has as many places on 'place' in all",
        ),
        ("", "def claims(self, data): return []", "odd: claims(data) judges at least one claim; it gave none."),
        ("", "def claims(self, data): yield True", "claims(data) yields claims; got True. Write yield below("),
        ("", "def claims(self, data): yield from [holds('a', True)] * 2", "a sentence of its own; got twice 'a'."),
        ("", "def numbers(self, data): return None", "numbers(data) gives a dictionary with names in words; got None."),
        (
            "",
            "quick = classmethod(lambda cls: None)",
            "quick() of odd gives the experiment in that mode; got NoneType.",
        ),
        ("seconds = 'long'", "", "The seconds of odd is a finite number; got 'long'."),
    ],
)
def test_an_odd_experiment_is_refused_in_a_sentence(refused, tmp_path, monkeypatch, setting, method, sentence):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "odd.py").write_text(ODD.format(setting, method))
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path / "mine"))
    assert sentence in refused("run", "odd", "--workers", "0", "--out", tmp_path / "out")
    assert not list(tmp_path.rglob("record.json"))


def test_a_setting_without_a_default_may_be_given(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text(ODD.format("n: int", ""))
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    assert answer(["run", "odd", "--set", "n=3", "--workers", "0", "--out", str(tmp_path / "out")]) == 0
    (home,) = ledger.find_records(tmp_path / "out")
    assert ledger.read(home).command == "haarflow run odd --quick --set n=3 --seed 0"


@pytest.mark.parametrize("count", ["0", "1"])
def test_an_experiment_that_exits_gets_a_sentence(refused, tmp_path, monkeypatch, count):
    (tmp_path / "odd.py").write_text(ODD.format("", "def run(self, key): raise SystemExit(0)"))
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    sentence = refused("run", "odd", "--workers", count, "--out", tmp_path / "out", code=3)
    assert "The experiment odd stopped in 'run' with SystemExit: 0. The traceback is in" in sentence


def test_an_experiment_file_that_exits_when_imported(refused, tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text(f"raise SystemExit('two\\nlines')\n{ODD.format('', '')}")
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    assert "odd.py cannot be imported (SystemExit: two lines)." in refused("run", "odd")


def test_a_refusal_is_said_once(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert answer(["run", "coin-mean", "--workers", "0", "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("Choose another folder with --out.") == 1


def test_more_workers_than_memory(refused, tmp_path):
    sentence = refused("run", "coin-mean", "--workers", "100000", "--out", tmp_path / "out")
    assert "100000 of them would need 30 TB before they compute anything. Write --workers" in sentence
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": -1}, "run's seed is a whole number >= 0"),
        ({"seed": 1.5}, "run's seed is a whole number; got 1.5"),
        ({"seed": "one"}, "run's seed is a whole number; got 'one'"),
        ({"seed": 2**63}, r"run's seed is a whole number below 2\*\*63"),
        ({"count": -1}, "run's count is a whole number >= 0; got -1"),
        ({"out": 3}, "run's out is a word or a PathLike; got 3"),
    ],
)
def test_runs_from_python_are_refused_in_a_sentence(tmp_path, options, sentence):
    with pytest.raises(Refusal, match=sentence):
        scheduler.run(catalogue.load("coin-mean")(), **{"count": 0, "out": tmp_path / "out", **options})
    assert not (tmp_path / "out").exists()
