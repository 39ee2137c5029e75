"""The command line answers fast, in words that can be read, and loads nothing heavy to say them."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from haarflow.cli import answer
from haarflow.runs import catalogue

TOYS = Path(__file__).parents[1] / "toys"
HEAVY = {"jax", "numpy", "scipy", "matplotlib", "equinox"}


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Find the toy experiments."""
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["--version"], ["list"], ["list", "--json"], ["run", "--help"]], ids=" ".join
)
def test_light_commands_load_nothing_heavy(words):
    script = f"import sys; from haarflow.cli import answer; answer({words}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stderr.split())
    assert done.stdout


@pytest.mark.parametrize("words", [["--help"], ["list"]], ids=" ".join)
def test_light_commands_answer_in_half_a_second(words):
    def processor_seconds():
        before = os.times()
        subprocess.run([sys.executable, "-m", "haarflow", *words], capture_output=True, check=True)
        after = os.times()
        return after.children_user - before.children_user + after.children_system - before.children_system

    begin = time.monotonic()
    assert min(processor_seconds() for _ in range(3)) < 0.5
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("command", ["list", "run", "reproduce", "sweep", "report", "show", "launch"])
def test_every_command_and_option_says_what_it_is_for(command, capsys):
    assert answer([command, "--help"]) == 0
    said = capsys.readouterr().out
    options = re.findall(r"^  (--?[\w-]+.*)$", said, flags=re.MULTILINE)
    assert options
    assert all(re.search(r"\S  +\S", option) or len(option) > 24 for option in options)


def test_the_list_names_groups_claims_and_experiments(capsys):
    assert answer(["list"]) == 0
    said = capsys.readouterr().out
    assert "toys" in said.splitlines()
    assert re.search(r"^  coin-mean +The mean of n coins errs like `n\^-1/2`\.$", said, flags=re.MULTILINE)


def test_the_list_in_json_has_the_same(capsys):
    assert answer(["list", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert entries["coin-mean"]["group"] == "toys"
    assert entries["coin-mean"]["tour"] is True
    assert entries["broken"]["tour"] is False
    assert entries["coin-mean"]["source"] == "Bernoulli, Ars Conjectandi, 1713."


def test_what_is_read_from_files_is_what_is_imported():
    for entry in catalogue.catalogue().values():
        kind = catalogue.load(entry.name)
        assert (kind.name, kind.group, kind.tour_included) == (entry.name, entry.group, entry.tour)
        assert kind.words() == {"claim": entry.claim, "source": entry.source, "notes": entry.notes}


def test_every_experiment_of_the_library_states_a_claim_and_its_source(monkeypatch):
    monkeypatch.delenv(catalogue.EXTRA)
    for entry in catalogue.catalogue().values():
        assert entry.claim.endswith("."), entry.name
        assert entry.source, entry.name


def test_a_docstring_is_a_claim_a_source_and_notes():
    words = catalogue.read_docstring(
        "A claim\n    of two lines.\n    Source: a paper,\n    section 2.\n\n    A note.\n"
    )
    assert words == {"claim": "A claim of two lines.", "source": "a paper, section 2.", "notes": "A note."}


def test_without_a_command_it_says_where_to_start(capsys):
    assert answer([]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for command in (
        "haarflow list",
        "haarflow run NAME",
        "haarflow reproduce --tour",
        "haarflow --help",
        "docs/index.md",
    ):
        assert command in said.out
    assert said.out.rstrip().endswith(".")


def test_the_version_is_that_of_the_package(capsys):
    import haarflow

    assert answer(["--version"]) == 0
    assert capsys.readouterr().out == f"haarflow {haarflow.__version__}\n"


@pytest.mark.parametrize("command", ["run", "reproduce", "sweep"])
def test_force_is_explained_where_it_is_taken(command, capsys):
    assert answer([command, "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--force Compute although there is a record, and whatever it costs." in said
