"""An experiment is what its file says: edited, its record is made anew; commented, it is found."""

import json
import shutil
import subprocess
import sys

import pytest

from haarflow.cli import answer
from haarflow.runs import catalogue, ledger, machine, scheduler, source

OWN = '''"""Somebody's own experiment."""

import jax
import numpy as np

from haarflow.runs.experiment import Count, Experiment, below, over, panel
from . import _shared
from ._shared import bound as limit

FACTOR = 2.0
TITLE = "Draws"


class Own(Experiment):
    """Means are small.

    Source: counting.
    """

    group = "toys"
    draws: Count = 100

    def design(self):
        yield self.draw, over(part=("a", "b"))

    def draw(self, key, part):
        """Draw."""
        ran(part)
        return {"mean": FACTOR * self.middle(jax.random.normal(key, (self.draws,)))}

    def middle(self, draws):
        return _shared.average(np.asarray(draws))  # of all

    def claims(self, data):
        yield below("the mean is small:", abs(data.mean.sel(part="a")), limit())

    def numbers(self, data):
        return {"mean": data.mean.sel(part="a")}

    @panel(TITLE)
    def mean(self, axis, data):
        axis.plot([0, 1])


def ran(part):
    with open("LOG", "a") as file:
        file.write(part)
'''
AXES = {"mean": {"dims": [], "coords": {}}}  # of what a part keeps
SHARED = """
def average(draws):
    return draws.mean()


def bound():
    return 1.0


def unused():
    return 0
"""

CHANGING = """
def change(part):
    from pathlib import Path

    file = Path(__file__)
    if part == "b":
        file.write_text(file.read_text().replace("FACTOR = 2.0", "FACTOR = 9.0"))


def ran(part):"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The experiment in a folder of its own, with ways to edit it, to run it and to tell what was computed."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv(catalogue.EXTRA, str(folder))
    monkeypatch.setenv(machine.NO_CACHE, "1")
    log = tmp_path / "log"
    texts = {"own.py": OWN.replace("LOG", str(log)), "_shared.py": SHARED}

    class Files:
        """What the tests do with it."""

        out = tmp_path / "out"

        def edit(self, old, new, file="own.py"):
            assert texts[file].count(old) == 1, old
            texts[file] = texts[file].replace(old, new)
            self.write()

        def write(self):
            for name, text in texts.items():
                (folder / name).write_text(text)

        def run(self, *words, code=0):
            """The record, and the parts that were computed for it."""
            log.write_text("")
            said = ["run", "own", "--workers", "0", "--out", str(self.out), *words]
            assert answer(said) == code if code is not None else answer(said) in (0, 1)
            (home,) = ledger.find_records(self.out)
            return ledger.read(home), "".join(sorted(log.read_text()))

    files = Files()
    files.write()
    return files


COMPUTING = [
    ("FACTOR = 2.0", "FACTOR = 3.0", "own.py"),
    ('return {"mean": FACTOR * self', 'return {"mean": 1.5 * FACTOR * self', "own.py"),
    ("(np.asarray(draws))  # of all", "(1 + np.asarray(draws))", "own.py"),
    ("draws.mean()", "draws.sum() / len(draws) + 1", "_shared.py"),
    ('part=("a", "b")', 'part=("a", "b", "c")', "own.py"),
]
JUDGING = [
    ("return 1.0", "return 1e-9", "_shared.py"),
    ('abs(data.mean.sel(part="a")), limit()', '0.5 + abs(data.mean.sel(part="a")), limit()', "own.py"),
    ('return {"mean": data.mean', 'return {"mean": -data.mean', "own.py"),
    ("Means are small.", "Means are tiny.", "own.py"),
    ("Source: counting.", "Source: weighing.", "own.py"),
]
NOTHING = [
    ('"""Draw."""', '"""Draw, and say so."""', "own.py"),
    ("  # of all", "  # of every one of them", "own.py"),
    ("        ran(part)\n", "\n        ran(\n            part,\n        )\n", "own.py"),
    ('TITLE = "Draws"', 'TITLE = "Many draws"', "own.py"),
    ("axis.plot([0, 1])", "axis.plot([0, 2])", "own.py"),
    ("@panel(TITLE)", "@panel(TITLE, 'Lines.')", "own.py"),
    ("return 0", "return 7", "_shared.py"),
    ("import Count, Experiment, below,", "import Count, Experiment, above, below,", "own.py"),
    ('"""Somebody\'s own experiment."""', '"""An experiment of mine."""', "own.py"),
    (
        "    def design(self):",
        "    @classmethod\n    def full(cls):\n        return cls(draws=200)\n\n    def design(self):",
        "own.py",
    ),
]


@pytest.mark.parametrize(("old", "new", "file"), COMPUTING)
def test_an_edit_of_what_computes_is_computed(own, capsys, old, new, file):
    record, ran = own.run()
    first = record.arrays()
    assert ran == "ab"
    own.edit(old, new, file)
    record, ran = own.run(code=None)
    second = record.arrays()
    assert ran == ("abc" if '"c"' in new else "ab")
    assert second.mean.shape != first.mean.shape or (second.mean != first.mean).all()
    assert "computed again, because the experiment's code has changed" in capsys.readouterr().err
    assert own.run(code=None)[1] == ""


@pytest.mark.parametrize(("old", "new", "file"), JUDGING)
def test_an_edit_of_what_judges_is_judged_from_the_kept_data(own, capsys, old, new, file):
    first, _ = own.run()
    data = (first.path / "arrays.npz").read_bytes()
    own.edit(old, new, file)
    second, ran = own.run(code=1 if "1e-9" in new else 0)
    assert ran == ""
    assert (second.path / "arrays.npz").read_bytes() == data
    assert "judged again, because the experiment's code has changed" in capsys.readouterr().err
    names = ("verdicts", "evidence", "numbers", "claim", "source")
    assert [first.facts[name] for name in names] != [second.facts[name] for name in names]
    assert second.timing == first.timing
    assert own.run(code=0 if second.holds else 1)[0].facts == second.facts
    assert "already recorded" in capsys.readouterr().err


@pytest.mark.parametrize(("old", "new", "file"), NOTHING)
def test_an_edit_that_changes_nothing_finds_the_record(own, capsys, old, new, file):
    first, _ = own.run()
    own.edit(old, new, file)
    assert own.run() == (first, "")
    assert "already recorded" in capsys.readouterr().err


def test_an_edit_and_back_again_within_a_second_is_seen_each_time(own):
    first = own.run()[0].facts["numbers"]["mean"]
    for factor in ("3.0", "2.0", "5.0"):
        text = "FACTOR = 2.0" if factor == "3.0" else "FACTOR = 3.0" if factor == "2.0" else "FACTOR = 2.0"
        own.edit(text, f"FACTOR = {factor}")
        assert own.run()[0].facts["numbers"]["mean"] == pytest.approx(first * float(factor) / 2)


@pytest.mark.slow
def test_workers_compute_what_the_file_says_now_and_what_a_process_alone_computes(own):
    """Numbers that are made on import included, which must not be made before float64 is asked for."""

    def ask(count, out=own.out):
        words = ["run", "own", "--json", "--workers", count, "--out", str(out)]
        done = subprocess.run([sys.executable, "-m", "haarflow", *words], capture_output=True, text=True, check=False)
        return json.loads(done.stdout), done.stderr

    own.edit("FACTOR = 2.0", "import jax.numpy as jnp\nFACTOR = jnp.asarray(0.1)")
    first, _ = ask("1")
    ask("0", own.out / "alone")
    both = [out.glob("own/*/arrays.npz") for out in (own.out, own.out / "alone")]
    assert next(both[0]).read_bytes() == next(both[1]).read_bytes()
    own.edit("import jax.numpy as jnp\nFACTOR = jnp.asarray(0.1)", "FACTOR = 0.2")
    second, said = ask("1")
    assert second["numbers"]["mean"] == pytest.approx(2 * first["numbers"]["mean"])
    assert "computed again" in said
    shutil.rmtree(own.out / "alone")
    assert own.run()[1] == ""  # this process and the workers give the same code the same name


def test_parts_of_an_interrupted_run_are_kept_by_the_code_that_made_them(own):
    job = scheduler.job(catalogue.load("own")(), 0, own.out)
    code = source.source(catalogue.load("own")).computes
    facts = {"seconds": {"compile": 0, "run": 0}, "versions": machine.versions(), "axes": AXES}
    ledger.write_part(job.home, "draw part=a", {"mean": 0.5}, code=code, **facts)
    own.edit("return 1.0", "return 2.0", "_shared.py")
    record, ran = own.run()
    assert ran == "b"
    assert record.numbers["mean"] == 0.5


def test_a_file_that_changes_while_it_runs_leaves_no_mixed_record(own, capsys):
    own.edit("        ran(part)\n", "        ran(part)\n        change(part)\n")
    own.edit("def ran(part):", CHANGING)
    assert answer(["run", "own", "--workers", "0", "--out", str(own.out)]) == 2
    assert "the part 'draw part=a' is not there (the experiment's code has changed since)" in capsys.readouterr().err
    assert not ledger.find_records(own.out)


def test_force_computes_again_and_resumes_when_interrupted(own, monkeypatch):
    first, _ = own.run()
    again, ran = own.run("--force")
    assert ran == "ab"
    assert again.facts == first.facts
    kept = machine.versions()
    code = source.source(catalogue.load("own")).computes
    facts = {"seconds": {"compile": 0, "run": 0}, "versions": kept, "code": code, "axes": AXES}
    ledger.write_part(first.path, "draw part=a", {"mean": 0.25}, **facts)  # as a forced run that was killed leaves it
    assert ledger.read(first.path).facts == first.facts  # the old record is there until the new one is
    forced, ran = own.run("--force")
    assert ran == "b"
    assert forced.numbers["mean"] == 0.25
    assert not (first.path / "parts").exists()


def test_a_plain_command_leaves_the_parts_of_a_forced_run_that_is_still_at_work(own):
    record, _ = own.run()
    facts = {"seconds": {}, "versions": {}, "code": ""}
    ledger.write_part(record.path, "draw part=a", {"mean": 0.25}, **facts)
    with ledger.lock(record.path):
        own.run()
        assert (record.path / "parts").exists()
    own.run()
    assert not (record.path / "parts").exists()


def test_a_damaged_record_is_made_anew_by_force(own, capsys):
    record, _ = own.run()
    (record.path / "arrays.npz").write_bytes(b"")
    assert answer(["run", "own", "--workers", "0", "--out", str(own.out)]) == 2
    assert own.run("--force")[0].facts == record.facts


def test_a_report_says_when_a_record_is_older_than_its_file(own, capsys):
    own.run()
    own.edit("FACTOR = 2.0", "FACTOR = 3.0")
    assert answer(["report", str(own.out)]) == 0
    sentence = "own: its record was made by other code than its file has now; give the command of the record again."
    assert sentence in capsys.readouterr().err
    assert sentence in (own.out / "report.html").read_text().replace("&#x27;", "'")


def test_a_record_of_before_codes_were_kept_is_made_anew(own):
    record, _ = own.run()
    facts = {name: fact for name, fact in record.facts.items() if name != "code"}
    ledger.write_record(record.path, facts, record.arrays(), record.timing)
    assert own.run()[1] == "ab"


def test_files_of_your_own_belong_to_the_code_wherever_they_are_and_libraries_do_not(tmp_path, monkeypatch):
    package = tmp_path / "mylab"
    package.mkdir()
    (package / "__init__.py").write_text("from mylab.deep import depth")
    (package / "deep.py").write_text("depth = 3")
    (package / "other.py").write_text("")
    text = (
        "import json, numpy, scipy.stats, mylab\nimport haarflow as hf\nfrom haarflow.experiments import _published\n"
    )
    (tmp_path / "mine.py").write_text(text + "def late():\n    from mylab import other\n    import nowhere.at.all\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = [path.name for path in source.files(tmp_path / "mine.py")]
    assert found[0] == "mine.py"
    assert sorted(found[1:]) == ["__init__.py", "__init__.py", "_published.py", "deep.py", "other.py"]
