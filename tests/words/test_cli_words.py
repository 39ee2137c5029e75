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
from haarflow.runs import catalogue, settings
from haarflow.runs.terminal import catalogue_lines, fitted, gist

TOYS = Path(__file__).parents[1] / "toys"
HEAVY = {"jax", "numpy", "scipy", "matplotlib", "equinox"}


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Find the toy experiments."""
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["--version"], ["list"], ["list", "--claims"], ["list", "--json"], ["run", "--help"]],
    ids=" ".join,
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


@pytest.mark.parametrize("command", ["list", "settings", "run", "reproduce", "sweep", "report", "show", "launch"])
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
    assert re.search(r"^  coin-mean +The mean of n coins errs like `n\^-1/2`$", said, flags=re.MULTILINE)
    assert answer(["list", "--claims"]) == 0
    said = capsys.readouterr().out
    assert re.search(
        r"^  coin-mean +The mean of n coins errs like `n\^-1/2`\.\n +Source: Bernoulli, Ars", said, flags=re.MULTILINE
    )


def test_the_list_fits_the_terminal():
    entries = list(catalogue.catalogue().values())
    for width in (60, 100):
        lines = catalogue_lines(entries, width)
        assert max(map(len, lines)) <= width
        assert len(lines) == len(entries) + len({entry.group for entry in entries})
    assert any(line.endswith("…") for line in lines)


@pytest.mark.parametrize(
    ("claim", "line"),
    [
        ("One thing: and another.", "One thing"),
        ("From d^1.5 samples; no more", "From d^1.5 samples"),
        ("A:b holds, 1.5 times. Then", "A:b holds, 1.5 times"),
        ("No stop at all", "No stop at all"),
    ],
)
def test_a_claim_in_a_line_ends_where_its_explanation_begins(claim, line):
    assert gist(claim) == line


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (30, "many particles, and few"),
        (23, "many particles, and few"),
        (22, "many particles, and…"),
        (17, "many particles…"),
        (9, "many…"),
        (3, "ma…"),
    ],
)
def test_a_line_is_cut_at_a_word(width, line):
    assert fitted("many particles, and few", width) == line
    assert len(line) <= width


def test_help_fits_eighty_columns_without_an_ellipsis(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert answer(["--help"]) == 0
    said = capsys.readouterr().out
    assert "..." not in said.partition("Commands:")[2]
    assert max(map(len, said.splitlines())) <= 80


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
        "haarflow settings NAME",
        "haarflow --install-completion",
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


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("haarflow s", {"settings", "sweep", "show"}),
        ("haarflow run coi", {"coin-mean"}),
        ("haarflow settings bro", {"broken"}),
    ],
)
def test_shells_complete_commands_and_names(words, found):
    asked = {"_HAARFLOW_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    command = [sys.executable, "-m", "haarflow"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **asked}, check=True)
    assert set(done.stdout.split()) == found
    assert done.stderr == ""


def test_the_settings_of_an_experiment_are_told(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert answer(["settings", "coin-mean"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("coin-mean  The mean of n coins errs like `n^-1/2`.\n")
    rows = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert re.fullmatch(
        r"sizes +10, 100, 1000 +grows  numbers of coins; a list, each a whole number >= 1, *", rows["sizes"]
    )
    assert re.fullmatch(r"repetitions +20 +40 +grows  independent runs; a whole number >= 1 *", rows["repetitions"])
    assert re.fullmatch(r"scale +1 +a number > 0 *", rows["scale"])
    assert "Blank: as in quick. Time: whether a run takes longer (grows) or less long (falls)" in said
    assert "Change one with: haarflow run coin-mean --set 'sizes=[10, 100, 1000]'" in said


def test_the_settings_in_json_have_every_mode(capsys):
    assert answer(["settings", "coin-mean", "--json"]) == 0
    found = {setting["name"]: setting for setting in json.loads(capsys.readouterr().out)}
    assert found["repetitions"]["values"] == {"tour": 20, "quick": 20, "full": 40}
    assert found["coin"] == {
        "name": "coin",
        "kind": "a word",
        "values": {"tour": "fair", "quick": "fair", "full": "fair"},
        "meaning": "",
        "time": "",
    }


def test_settings_of_nothing_are_refused(capsys):
    assert answer(["settings", "coin-men"]) == 2
    assert "There is no experiment 'coin-men'; did you mean 'coin-mean'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "a whole number >= 1"),
        ({"type": "integer", "minimum": 4, "multipleOf": 4}, "a whole number >= 4, a multiple of 4"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "a number > 0 and < 1"),
        ({"enum": ["exact", "random", "both"]}, '"exact", "random" or "both"'),
        ({"const": "none"}, '"none"'),
        ({"type": "array", "items": {"type": "number"}, "minItems": 2}, "a list, each a number, at least 2"),
        ({"$ref": "#/$defs/Half"}, "true or false"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "a word or a whole number"),
        ({"type": "object"}, "a table"),
    ],
)
def test_a_type_is_told_in_words(schema, words):
    assert settings.described(schema, {"$defs": {"Half": {"type": "boolean"}}}) == words


def test_the_comment_beside_a_setting_is_its_meaning():
    source = """
class Own(Experiment):
    plain: int = 1
    told: int = 2  # how many
    long: tuple[int, ...] = (
        1,  # not this one
        2,
    )  # how many, each
    loud = 3  # no setting
"""
    assert settings.comments(source) == {"told": "how many", "long": "how many, each"}


def test_every_setting_of_the_library_is_told(monkeypatch):
    monkeypatch.delenv(catalogue.EXTRA)
    for entry in catalogue.catalogue().values():
        for setting in settings.settings(catalogue.load(entry.name), entry.path):
            assert setting.kind, (entry.name, setting.name)
            assert set(setting.values) == {"tour", "quick", "full"}


def test_a_table_of_claims_is_shown_on_request(tmp_path, capsys):
    words = ["run", "coin-mean", "--workers", "0", "--out", str(tmp_path)]
    assert answer(words) == 0
    assert "the errors are below 10" not in capsys.readouterr().out
    assert answer([*words, "--claims"]) == 0
    said = capsys.readouterr().out
    assert "the errors are below 10" in said
    assert "largest error" in said


def test_a_claim_that_fails_is_shown_with_its_number(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert answer(["reproduce", "--only", "toys/broken", "--workers", "0", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["broken", "0", "of", "2", "hold", *said[0].split()[5:]]
    assert "  ✗ x stays below 0.5: measured not finite, wanted below 0.5" in said
    assert said[-1] == f"Report: {tmp_path / 'report.html'}"
